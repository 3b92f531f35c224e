//! Shell lines taken apart, so that rules can speak about every part of them.
//!
//! [`analyse`] finds every command that a line would run, wherever it hides: in lists, pipelines,
//! compound commands, substitutions, here-documents, behind wrappers such as `env` or `xargs`, in
//! texts given to `sh -c` or `eval`. It reads the language of bash as `bash -c` and `sh -c` do, and
//! stops at the first thing whose meaning is not certain: a line that is not understood whole is
//! not understood at all. It knows nothing of rules, files or the environment.
//!
//! The parser is its own, one pass, bounded in depth and length: lines come from a model, and the
//! library at hand took exponential time in nesting and may panic on numbers out of range. It is a
//! witness in tests, where every command that it finds must be found here too.
//!
//! ```
//! let analysis = tooloop_policy::shell::analyse("ls | xargs -n 1 env rm");
//! let programs: Vec<_> = analysis.commands().iter().filter_map(|c| c.program()).collect();
//! assert_eq!(programs, ["ls", "xargs", "env", "rm"]);
//! assert!(!analysis.is_read_only());
//! ```

mod arguments;
mod compound;
mod effects;
mod expansion;
mod git;
mod hosts;
mod looked;
mod parser;
mod parts;
mod programs;
mod read_only;
mod reads;
mod redirection;
mod scripts;
mod simple;
mod started;
mod tables;
mod unwrap;

pub use parts::{
    Assignment, Command, Direction, Hazard, Nature, Origin, Piece, Problem, Redirect, Unknown, Word,
};

pub use effects::{Contact, Effects, Part, Touched};

pub(crate) use effects::{Resolved, normal};
pub(crate) use git::{Globals, Subcommand, skip_globals};
pub(crate) use hosts::is_this_machine;
pub(crate) use read_only::is_harmless_environment;
pub(crate) use reads::is_open;
pub(crate) use started::words_that_start_programs;

use parts::Parts;

/// Lines longer than this are not taken apart.
pub const MAX_LENGTH: usize = 64 * 1024;

/// Lines nested deeper than this are not taken apart.
pub const MAX_DEPTH: usize = 32;

/// What a shell line would run and touch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Analysis {
    parts: Parts,
    problem: Option<Problem>,
    /// Whether a command goes to another folder.
    moves: bool,
    /// Whether a command may take a function away, or be anything.
    may_undefine: bool,
    /// Whether no git command counts as read-only.
    distrusts_git: bool,
}

/// Takes a shell line apart. Never fails: what is not understood is said so in the result.
#[must_use]
pub fn analyse(line: &str) -> Analysis {
    let mut parts = Parts::default();
    match parser::parse(line, &mut parts).and_then(|()| unwrap::unwrap(&mut parts)) {
        Ok(()) => {
            if parts.evaluates && (parts.tainted || parts.may_assign) {
                parts.hazards.insert(Hazard::Evaluation);
            }
            Analysis {
                moves: moves(&parts.commands),
                may_undefine: may_undefine(&parts.commands),
                parts,
                problem: None,
                distrusts_git: false,
            }
        }
        // Half a parse would be read as the whole of it, so nothing of it is kept.
        Err(problem) => Analysis {
            problem: Some(problem),
            ..Analysis::default()
        },
    }
}

fn moves(commands: &[Command]) -> bool {
    let is_elsewhere = |word: &Word| matches!(word.literal(), Some("-execdir" | "-okdir"));
    commands.iter().any(|command| {
        matches!(command.program(), Some("cd" | "pushd" | "popd"))
            || command.words.iter().any(is_elsewhere)
    })
}

fn may_undefine(commands: &[Command]) -> bool {
    commands.iter().any(|command| {
        let program = command.words.first();
        // What is only known when it runs may be that as well.
        matches!(command.nature, Nature::Opaque(_))
            || program.is_some_and(|word| matches!(word.literal(), None | Some("unset")))
    })
}

impl Analysis {
    /// Gives the reason why the line could not be taken apart, if it could not.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// Gives every simple command of the line, each before those that it would run.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.parts.commands
    }

    /// Gives every redirection of the line.
    #[must_use]
    pub fn redirects(&self) -> &[Redirect] {
        &self.parts.redirects
    }

    /// Goes over what no single command shows.
    pub fn hazards(&self) -> impl Iterator<Item = Hazard> {
        self.parts.hazards.iter().copied()
    }

    /// Tells whether the line defines a function of this name.
    #[must_use]
    pub fn defines(&self, name: &str) -> bool {
        self.parts.functions.contains(name)
    }

    /// Tells whether the command of this index surely calls a function of the line, and not a
    /// program of that name.
    #[must_use]
    pub fn calls_function(&self, index: usize) -> bool {
        let Some(command) = self.commands().get(index) else {
            return false;
        };
        let is_defined = |program| {
            let from = self.parts.sure_functions.get(program);
            from.is_some_and(|from| index >= *from)
        };
        // Behind a wrapper it would be a program, and a text may be another shell's.
        command.origin == Origin::Line
            && command.program().is_some_and(is_defined)
            && !self.may_undefine
    }

    /// Returns the same analysis in which no git command counts as read-only.
    ///
    /// Git runs programs that the configuration of a repository names. Use this where the
    /// repository is not known to name none: see [`crate::FileFacts::git_risk`].
    #[must_use]
    pub const fn distrusting_git(mut self) -> Self {
        self.distrusts_git = true;
        self
    }

    /// Checks whether a command of the line is git, or may be.
    #[must_use]
    pub fn runs_git(&self) -> bool {
        self.problem.is_none() && self.commands().iter().any(is_git)
    }

    /// Tells whether the line provably changes nothing.
    ///
    /// What the settings of a program make it do is not seen: `git diff` runs the filters that the
    /// configuration of a repository names. See [`Analysis::distrusting_git`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.why_not_read_only().is_none()
    }

    /// Says what keeps the line from being provably read-only.
    #[must_use]
    pub fn why_not_read_only(&self) -> Option<String> {
        if let Some(problem) = &self.problem {
            return Some(problem.to_string());
        }
        if let Some(hazard) = self.hazards().next() {
            return Some(hazard.to_string());
        }
        if let Some(redirect) = self.redirects().iter().find(|r| !r.is_harmless()) {
            return Some(format!("`{}` writes or may connect", redirect.text));
        }
        self.commands()
            .iter()
            .find(|command| !self.command_is_read_only(command))
            .map(|command| format!("`{}` is not known to be read-only", command.text))
    }

    /// Tells whether one command of this line, by itself, provably changes nothing.
    #[must_use]
    pub fn command_is_read_only(&self, command: &Command) -> bool {
        // Git obeys the settings of the repository around it, and they can name programs: a line
        // that first goes elsewhere may go to a repository made for that.
        let is_distrusted = || (self.moves || self.distrusts_git) && is_git(command);
        read_only::is_read_only(command, self.parts.tainted) && !is_distrusted()
    }
}

/// Checks whether a command is git, by whatever path.
pub(crate) fn is_git(command: &Command) -> bool {
    command
        .program()
        .is_some_and(|program| program.ends_with("git"))
}
