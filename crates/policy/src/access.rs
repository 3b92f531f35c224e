//! What a call would touch, stated by its tool.
//!
//! A tool fills this in from its input alone and never judges it; judging is the policy's.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Grant, shell};

/// How strong the effect of a call is, from weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessEffect {
    /// Changes nothing; may be run early, thrown away, or run again.
    ReadOnly,
    /// Changes what the session itself keeps, such as its plan, and nothing outside of it. Nobody
    /// need be asked; it runs once, in its place, and never early.
    Session,
    /// Has others work, whose calls are judged each by itself, and changes nothing on its own.
    /// Nobody need be asked; it runs once, never early, and may run beside others of its kind.
    Delegated,
    /// Changes something, and running it twice leaves what running it once leaves.
    Idempotent,
    /// Changes something each time it runs.
    Effectful,
}

impl AccessEffect {
    /// Tells whether something outside of the session is changed.
    #[must_use]
    pub const fn reaches_outside(self) -> bool {
        match self {
            Self::ReadOnly | Self::Session | Self::Delegated => false,
            Self::Idempotent | Self::Effectful => true,
        }
    }
}

/// One thing that a call would touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Touch {
    /// A shell line, byte for byte as it would reach the shell.
    Command(String),
    /// A path that is read.
    Read(PathBuf),
    /// A path that is created, changed or removed.
    Write(PathBuf),
    /// A host that is talked to.
    Host(String),
    /// Text for a program on a terminal. What the program makes of it nobody can prove, so it is
    /// never taken for read-only, and only a rule that covers the tool or the shell whole allows
    /// it; a rule that denies or asks looks at it as at a shell line.
    Input(String),
    /// Something beyond the sandbox that the call asks for by name.
    Grant(Grant),
}

impl FileFacts {
    const NONE: Self = Self {
        git_risk: None,
        links: Vec::new(),
    };
}

/// The effect of a call and everything it would touch.
///
/// ```
/// use tooloop_policy::{Access, AccessEffect};
///
/// assert_eq!(Access::read_only().reading("src/lib.rs").effect, AccessEffect::ReadOnly);
/// assert_eq!(Access::read_only().writing("src/lib.rs").effect, AccessEffect::Effectful);
/// assert_eq!(Access::command("ls | wc -l").effect, AccessEffect::ReadOnly);
/// assert_eq!(Access::command("ls > list").effect, AccessEffect::Effectful);
/// assert_eq!(Access::command("ls").changing_session().effect, AccessEffect::Session);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The strongest effect the call can have.
    pub effect: AccessEffect,
    /// What it would touch, in no order that matters.
    pub touches: Vec<Touch>,
    /// The folder in which its shell lines would run, if it is not the workspace.
    pub directory: Option<PathBuf>,
    /// What the runtime has found out about the file system.
    pub facts: FileFacts,
}

/// What the runtime finds out about the file system for a call, because this crate has no access
/// to files. See [`Access::with_facts`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileFacts {
    /// Why git may run a program of the repository in the call's directory, if it may: no git
    /// command counts as read-only then.
    pub git_risk: Option<String>,
    /// Paths that the call's shell lines name and that lead elsewhere through a link, each with
    /// the path it leads to: absolute, `.` and `..` resolved.
    pub links: Vec<(PathBuf, PathBuf)>,
}

impl Access {
    /// States a call that changes nothing.
    #[must_use]
    pub const fn read_only() -> Self {
        Self {
            effect: AccessEffect::ReadOnly,
            touches: Vec::new(),
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// States a call that changes the session's own state and nothing outside of it.
    #[must_use]
    pub const fn session() -> Self {
        Self {
            effect: AccessEffect::Session,
            touches: Vec::new(),
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// States a call that has others work, and changes nothing on its own.
    #[must_use]
    pub const fn delegated() -> Self {
        Self {
            effect: AccessEffect::Delegated,
            touches: Vec::new(),
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// States a call that may be repeated without further change.
    #[must_use]
    pub const fn idempotent() -> Self {
        Self {
            effect: AccessEffect::Idempotent,
            touches: Vec::new(),
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// States a call that changes something each time.
    #[must_use]
    pub const fn effectful() -> Self {
        Self {
            effect: AccessEffect::Effectful,
            touches: Vec::new(),
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// States a call that hands `line` to a shell: read-only if that can be proven, else effectful.
    #[must_use]
    pub fn command(line: impl Into<String>) -> Self {
        let line = line.into();
        let effect = if shell::analyse(&line).is_read_only() {
            AccessEffect::ReadOnly
        } else {
            AccessEffect::Effectful
        };
        Self {
            effect,
            touches: vec![Touch::Command(line)],
            directory: None,
            facts: FileFacts::NONE,
        }
    }

    /// Adds a path that is read.
    #[must_use]
    pub fn reading(mut self, path: impl Into<PathBuf>) -> Self {
        self.touches.push(Touch::Read(path.into()));
        self
    }

    /// Adds that the session's own state is changed: a call that was read-only runs in its place
    /// then, and is judged as before.
    #[must_use]
    pub fn changing_session(mut self) -> Self {
        self.effect = self.effect.max(AccessEffect::Session);
        self
    }

    /// Adds a path that is written; an access that claimed to change nothing outside of the session
    /// becomes effectful.
    #[must_use]
    pub fn writing(mut self, path: impl Into<PathBuf>) -> Self {
        self.touches.push(Touch::Write(path.into()));
        if !self.effect.reaches_outside() {
            self.effect = AccessEffect::Effectful;
        }
        self
    }

    /// Adds text for a program on a terminal.
    #[must_use]
    pub fn typing(mut self, text: impl Into<String>) -> Self {
        self.touches.push(Touch::Input(text.into()));
        self.effect = AccessEffect::Effectful;
        self
    }

    /// Adds something beyond the sandbox that is asked for.
    #[must_use]
    pub fn wanting(mut self, grant: Grant) -> Self {
        self.touches.push(Touch::Grant(grant));
        self
    }

    /// States the folder in which the shell lines would run.
    #[must_use]
    pub fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Adds what the runtime has found out about the file system.
    ///
    /// ```
    /// use tooloop_policy::{Access, AccessEffect, FileFacts};
    ///
    /// let facts = FileFacts { git_risk: Some("it names programs".into()), ..FileFacts::default() };
    /// let access = Access::command("git status").with_facts(facts);
    /// assert_eq!(access.effect, AccessEffect::Effectful);
    /// ```
    #[must_use]
    pub fn with_facts(mut self, facts: FileFacts) -> Self {
        let distrusts = facts.git_risk.is_some();
        self.facts = facts;
        let is_risky = |touch: &Touch| match touch {
            Touch::Command(line) => shell::analyse(line).runs_git(),
            Touch::Read(_)
            | Touch::Write(_)
            | Touch::Host(_)
            | Touch::Input(_)
            | Touch::Grant(_) => false,
        };
        if distrusts && !self.effect.reaches_outside() && self.touches.iter().any(is_risky) {
            self.effect = AccessEffect::Effectful;
        }
        self
    }

    /// Adds a host that is talked to.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.touches.push(Touch::Host(host.into()));
        self
    }
}
