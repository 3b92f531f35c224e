//! Rules about shell commands, applied to every part of a line.
//!
//! An allow rule has to cover all of a line, a deny rule matters if it meets any of it.

use std::{cell::OnceCell, collections::BTreeSet, path::Path};

use crate::{
    Grant, Rule,
    beyond::{Need, needs},
    pattern::{Match, Pattern, Subject, exact_line},
    places::{Places, TouchedPath},
    shell::{
        Analysis, Command, Direction, Globals, Hazard, Nature, Origin, Part, Piece, Subcommand,
        Unknown, Word, analyse, is_git, is_harmless_environment, skip_globals,
        words_that_start_programs,
    },
    touches::{self, Surroundings},
};

/// A shell line of a call, taken apart.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    pub(crate) analysis: Analysis,
    /// For each command the ways in which a deny rule may have spelled it.
    spellings: OnceCell<Vec<OnceCell<Vec<Subject>>>>,
    /// What its parts need, whether a sandbox gives it or not.
    pub(crate) needs: Vec<Need>,
    /// The names of the programs in it, each once and in lower case; `None` if not all are known.
    programs: Option<BTreeSet<String>>,
    /// Where it runs, and what the runtime knows of the files there.
    at: Surroundings<'a>,
    /// What it reads and what it writes, as far as that is known.
    touched: [OnceCell<Vec<TouchedPath>>; 2],
    /// All known text of its words and targets, to see quickly that a path is not among it.
    words: OnceCell<String>,
}

/// Which parts of a line allow rules cover by naming them.
#[derive(Debug)]
pub(crate) struct Covered {
    is_whole: bool,
    reaches: Vec<Option<usize>>,
}

impl Covered {
    pub(crate) fn holds(&self, line: &Line<'_>, part: Part) -> bool {
        let reach = |index: usize| self.reaches.get(index).copied().flatten();
        self.is_whole
            || match part {
                Part::Command(index) => reach(index).is_some(),
                Part::Redirect(index) => {
                    let redirect = line.analysis.redirects().get(index);
                    let parent = redirect.and_then(|redirect| redirect.parent);
                    parent.is_some_and(|parent| reach(parent) == Some(usize::MAX))
                }
            }
    }
}

/// How a rule meets a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// It does not.
    Never,
    /// It may, and here is the part of which that is not known.
    Maybe(String),
    /// It does, in this part.
    Surely(String),
}

impl<'a> Line<'a> {
    pub(crate) fn new(text: &'a str, at: Surroundings<'a>) -> Self {
        let mut analysis = analyse(text);
        if at.git_risk().is_some() {
            analysis = analysis.distrusting_git();
        }
        let needs = needs(&analysis, &analysis.known_effects(), at.directory, at.home);
        Self {
            text,
            programs: programs(&analysis),
            analysis,
            spellings: OnceCell::new(),
            needs,
            at,
            touched: [OnceCell::new(), OnceCell::new()],
            words: OnceCell::new(),
        }
    }

    /// Tells whether a specifier speaks of a program that is surely not in the line, nor the line
    /// itself: most rules do, and need no closer look.
    fn is_foreign(&self, specifier: &str) -> bool {
        let (Some(programs), Some(first)) = (&self.programs, plain_program(specifier)) else {
            return false;
        };
        !self.text.trim_start().starts_with(first)
            && !programs.contains(&first.to_ascii_lowercase())
    }

    /// Tells whether a text is somewhere in its words, or `..`, with which it could be anything.
    pub(crate) fn may_name(&self, needle: &str) -> bool {
        let words = self.words.get_or_init(|| {
            let arguments = self.analysis.commands().iter().flat_map(Command::arguments);
            let targets = self
                .analysis
                .redirects()
                .iter()
                .map(|redirect| &redirect.target);
            let mut all = String::with_capacity(self.text.len());
            for piece in arguments.chain(targets).flat_map(|word| &word.pieces) {
                if let Piece::Text(text) = piece {
                    all.push_str(text);
                    all.push('\n');
                }
            }
            all
        });
        words.contains(needle) || words.contains("..")
    }

    /// Tells whether the folder in which it runs holds this text.
    pub(crate) fn starts_below(&self, needle: &str) -> bool {
        let directory = self.at.directory.and_then(|directory| directory.to_str());
        directory.is_none_or(|directory| directory.contains(needle))
    }

    /// The paths that its parts read or write.
    pub(crate) fn touched(&self, direction: Direction) -> &[TouchedPath] {
        match direction {
            Direction::Read | Direction::Internal => {
                let [read, _] = &self.touched;
                read.get_or_init(|| touches::read(&self.analysis, self.at))
            }
            Direction::Write => {
                let [_, written] = &self.touched;
                written.get_or_init(|| touches::written(&self.analysis, self.at))
            }
        }
    }

    /// Names a part of these that runs what is not known before it runs, and so may touch any path.
    pub(crate) fn unknown_paths(&self, among: &dyn Fn(Part) -> bool) -> Hit {
        if let Some(problem) = self.analysis.problem() {
            return Hit::Maybe(format!("the line is not understood: {problem}"));
        }
        if let Some(hazard) = self.analysis.hazards().find(|h| is_evaluation(*h)) {
            return Hit::Maybe(hazard.to_string());
        }
        let commands = self.analysis.commands().iter().enumerate();
        let mut opaque = commands.filter_map(|(index, command)| match command.nature {
            Nature::Opaque(why) if among(Part::Command(index)) => Some((command, why)),
            Nature::Opaque(_)
            | Nature::Plain
            | Nature::Transparent
            | Nature::Launcher
            | Nature::Carrier => None,
        });
        opaque.next().map_or(Hit::Never, |(command, why)| {
            Hit::Maybe(format!("`{}`: {why}", shown(&command.text)))
        })
    }

    /// The text of a part.
    pub(crate) fn text_of(&self, part: Part) -> &str {
        let text = match part {
            Part::Command(index) => self.analysis.commands().get(index).map(|c| &c.text),
            Part::Redirect(index) => self.analysis.redirects().get(index).map(|r| &r.text),
        };
        text.map_or(self.text, String::as_str)
    }

    /// Tells which parts these rules cover by naming them.
    pub(crate) fn covered(&self, rules: &[&Rule]) -> Covered {
        let specifiers = || {
            let specifiers = rules.iter().filter_map(|rule| rule.specifier());
            specifiers.filter(|specifier| !self.is_foreign(specifier))
        };
        let patterns: Vec<_> = specifiers().filter_map(allow_pattern).collect();
        let mut reaches: Vec<Option<usize>> = Vec::new();
        for command in self.analysis.commands() {
            reaches.push(own_reach(command, &patterns).max(inherited_reach(command, &reaches)));
        }
        Covered {
            is_whole: self.is_exactly(specifiers()),
            reaches,
        }
    }

    /// Returns whether one of these rules brings a part what it needs. To write a path, the rule has
    /// to name the path in its own text.
    pub(crate) fn brings(&self, rules: &[&Rule], need: &Need, places: Places<'_>) -> bool {
        let Grant::Write(path) = &need.grant else {
            return self.covered(rules).holds(self, need.part);
        };
        rules.iter().any(|rule| {
            let specifier = rule.specifier().unwrap_or_default();
            !self.is_foreign(specifier)
                && names_path(specifier, path, places)
                && self.covered(&[rule]).holds(self, need.part)
        })
    }

    /// Returns the first part that writes a path which is only known when the line runs, unless a
    /// rule is for just that line.
    pub(crate) fn unknown_write(
        &self,
        rules: &[&Rule],
        folder: &Path,
        home: Option<&Path>,
    ) -> Option<Part> {
        let folders = self.analysis.folders(Some(folder), home);
        let effects = self.analysis.known_effects();
        let found = effects.writes.iter().find(|touched| {
            let is_value = match touched.word.pieces.first() {
                Some(Piece::Unknown(Unknown::Variable { .. } | Unknown::Output { .. })) => true,
                Some(Piece::Unknown(_) | Piece::Text(_)) | None => false,
            };
            // `find` and `xargs` put in what they find where they look.
            let is_found = touched.word.raw.contains("{}") || touched.word.raw == "...";
            is_value && !is_found && self.analysis.resolve(touched, &folders).is_none()
        })?;
        let mut rules = rules.iter().filter(|rule| {
            let line = rule.specifier().and_then(exact_line);
            line.is_some()
        });
        let is_exact = rules.any(|rule| self.covered(&[rule]).holds(self, found.part));
        (!is_exact).then_some(found.part)
    }

    /// Tells whether one of these is this very line.
    fn is_exactly<'s>(&self, mut specifiers: impl Iterator<Item = &'s str>) -> bool {
        specifiers.any(|specifier| {
            exact_line(specifier).is_some_and(|line| line.trim() == self.text.trim())
        })
    }

    /// Tells how a deny or ask rule with this specifier meets the line.
    pub(crate) fn hit(&self, specifier: &str) -> Hit {
        self.hit_among(specifier, |_| true)
    }

    /// The same for the commands of these indices alone.
    pub(crate) fn hit_among(&self, specifier: &str, among: impl Fn(usize) -> bool) -> Hit {
        if self.is_foreign(specifier) {
            return Hit::Never;
        }
        if exact_line(specifier).is_some_and(|line| line.trim() == self.text.trim()) {
            return Hit::Surely(shown(self.text));
        }
        let pattern = Pattern::new(specifier).fold_program();
        if pattern.is_everything() {
            return Hit::Surely(shown(self.text));
        }
        if let Some(problem) = self.analysis.problem() {
            return Hit::Maybe(format!("the line is not understood: {problem}"));
        }
        let mut maybe = self
            .analysis
            .hazards()
            .find(|hazard| is_evaluation(*hazard))
            .map(|hazard| hazard.to_string());
        let program = plain_program(specifier);
        let all = self
            .spellings
            .get_or_init(|| vec![OnceCell::new(); self.analysis.commands().len()]);
        let commands = self.analysis.commands().iter().zip(all);
        for (index, (command, spelled)) in commands.enumerate() {
            if !among(index) {
                continue;
            }
            if let Nature::Opaque(why) = command.nature {
                maybe.get_or_insert_with(|| format!("`{}`: {why}", shown(&command.text)));
            }
            if program.is_some_and(|program| is_other(command, program)) {
                continue;
            }
            let spellings = spelled.get_or_init(|| spellings(command).collect());
            let found = spellings
                .iter()
                .map(|subject| pattern.matches(subject))
                .max();
            match found {
                Some(Match::Always) => return Hit::Surely(shown(&command.text)),
                Some(Match::Maybe) => {
                    maybe.get_or_insert_with(|| {
                        format!("`{}` is only known when it runs", shown(&command.text))
                    });
                }
                Some(Match::Never) | None => {}
            }
        }
        maybe.map_or(Hit::Never, Hit::Maybe)
    }

    /// Names the first part of the line that these rules do not cover, if there is one.
    pub(crate) fn uncovered(&self, rules: &[&Rule]) -> Option<String> {
        self.uncovered_but(rules, &|_| false)
    }

    /// The same, with parts that need no rule.
    pub(crate) fn uncovered_but(
        &self,
        rules: &[&Rule],
        spared: &dyn Fn(Part) -> bool,
    ) -> Option<String> {
        let specifiers = || {
            let specifiers = rules.iter().filter_map(|rule| rule.specifier());
            specifiers.filter(|specifier| !self.is_foreign(specifier))
        };
        if self.is_exactly(specifiers()) {
            return None;
        }
        if let Some(problem) = self.analysis.problem() {
            return Some(format!("the line is not understood: {problem}"));
        }
        if let Some(hazard) = self.analysis.hazards().find(|h| is_evaluation(*h)) {
            return Some(hazard.to_string());
        }
        let patterns: Vec<_> = specifiers().filter_map(allow_pattern).collect();
        let mut reaches: Vec<Option<usize>> = Vec::new();
        for (index, command) in self.analysis.commands().iter().enumerate() {
            let reach = own_reach(command, &patterns).max(inherited_reach(command, &reaches));
            let is_spared = || self.needs_no_rule(index, command) || spared(Part::Command(index));
            if reach.is_none() && !is_spared() {
                let risk = self.at.git_risk().filter(|_| is_git(command));
                let risk = risk.map_or_else(String::new, |risk| format!(", and {risk}"));
                return Some(format!(
                    "`{}` is not covered by an allow rule{risk}",
                    shown(&command.text)
                ));
            }
            reaches.push(reach);
        }
        let is_covered = |parent: Option<usize>| {
            parent.is_some_and(|parent| reaches.get(parent) == Some(&Some(usize::MAX)))
        };
        self.analysis
            .redirects()
            .iter()
            .enumerate()
            .find(|(index, redirect)| {
                !redirect.is_harmless()
                    && !is_covered(redirect.parent)
                    && !spared(Part::Redirect(*index))
            })
            .map(|(_, redirect)| {
                format!(
                    "the redirection `{}` is not covered by an allow rule",
                    shown(&redirect.text)
                )
            })
    }

    pub(crate) fn needs_no_rule(&self, index: usize, command: &Command) -> bool {
        let sets_nothing = sets_nothing(command);
        let only_runs_others = match command.nature {
            Nature::Transparent | Nature::Launcher => sets_nothing,
            Nature::Plain | Nature::Carrier | Nature::Opaque(_) => false,
        };
        // What a function runs is among the commands of the line.
        let is_function =
            command.nature == Nature::Plain && sets_nothing && self.analysis.calls_function(index);
        only_runs_others || is_function || self.analysis.command_is_read_only(command)
    }
}

/// The program that a specifier names, if it names one and no more than one.
fn plain_program(specifier: &str) -> Option<&str> {
    let specifier = specifier.trim();
    let specifier = specifier.strip_suffix(":*").unwrap_or(specifier);
    let first = specifier.split(' ').next()?;
    let is_plain = first
        .bytes()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'));
    (is_plain && !first.is_empty()).then_some(first)
}

/// Tells whether a command is surely another program than this one, and nothing is set for it.
fn is_other(command: &Command, program: &str) -> bool {
    let base = command
        .program()
        .and_then(|program| program.rsplit('/').next());
    let is_part_of =
        |base: &str| part_of_git(base).is_some() && program.eq_ignore_ascii_case("git");
    command.assignments.is_empty()
        && base.is_some_and(|base| !base.eq_ignore_ascii_case(program) && !is_part_of(base))
}

/// The subcommand of git that a program such as `git-push` is.
fn part_of_git(program: &str) -> Option<&str> {
    let (start, subcommand) = program.split_at_checked(4)?;
    (start.eq_ignore_ascii_case("git-") && !subcommand.is_empty()).then_some(subcommand)
}

fn programs(analysis: &Analysis) -> Option<BTreeSet<String>> {
    let is_known = analysis.problem().is_none()
        && !analysis.hazards().any(is_evaluation)
        && !analysis
            .commands()
            .iter()
            .any(|command| matches!(command.nature, Nature::Opaque(_)));
    if !is_known {
        return None;
    }
    let mut programs = BTreeSet::new();
    for command in analysis.commands() {
        let Some(first) = command.words.first() else {
            continue;
        };
        let base = first.literal()?.rsplit('/').next()?;
        if !programs.contains(base) {
            programs.insert(base.to_ascii_lowercase());
        }
        if part_of_git(base).is_some() {
            programs.insert("git".to_owned());
        }
    }
    Some(programs)
}

/// What runs a text of which nothing is known, so that no command of the line shows it.
const fn is_evaluation(hazard: Hazard) -> bool {
    match hazard {
        Hazard::Evaluation | Hazard::Dialect => true,
        Hazard::Background | Hazard::Function => false,
    }
}

fn sets_nothing(command: &Command) -> bool {
    command
        .assignments
        .iter()
        .all(|assignment| is_harmless_environment(&assignment.name))
}

/// Returns whether the text of a rule for commands names a path that is written. Relative paths in
/// it start in the workspace, wherever the session has gone since.
fn names_path(specifier: &str, path: &Path, places: Places<'_>) -> bool {
    let Some(workspace) = places.roots.first() else {
        return false;
    };
    if let Some(line) = exact_line(specifier) {
        let analysis = analyse(&line);
        let effects = analysis.known_effects();
        let needs = needs(&analysis, &effects, Some(workspace), places.home);
        let is_named = |need: &Need| matches!(&need.grant, Grant::Write(named) if named == path);
        return needs.iter().any(is_named);
    }
    let path = path.to_str();
    path.is_some_and(|path| Pattern::new(specifier).names_path(path, workspace, places.home))
}

/// How many words of a command the rules name that cover it; none if no rule does.
fn own_reach(command: &Command, patterns: &[Pattern]) -> Option<usize> {
    let reach = reach(command, patterns)?;
    // A program that an option starts needs a rule that names it.
    let starts = words_that_start_programs(command);
    starts.is_none_or(|words| reach >= words).then_some(reach)
}

fn reach(command: &Command, patterns: &[Pattern]) -> Option<usize> {
    if patterns.is_empty() {
        return None;
    }
    let assignments = command.assignments.len();
    let set = (assignments > 0)
        .then(|| Subject::new(assignment_words(command).iter().chain(&command.words)));
    let plain = sets_nothing(command).then(|| Subject::new(command.words.iter()));
    let short = (sets_nothing(command) && command.program() == Some("git"))
        .then(|| skip_globals(&command.words))
        .and_then(|subcommand| match subcommand {
            Subcommand::At {
                index,
                globals: Globals::Plain | Globals::Moved,
            } if index > 1 => Some(Subject::new(
                command
                    .words
                    .iter()
                    .take(1)
                    .chain(command.words.iter().skip(index)),
            )),
            Subcommand::At { .. } | Subcommand::None | Subcommand::Unclear => None,
        });
    patterns
        .iter()
        .filter_map(|pattern| {
            let covers = |subject: &Option<Subject>| {
                subject
                    .as_ref()
                    .is_some_and(|subject| pattern.matches(subject) == Match::Always)
            };
            if covers(&plain) || covers(&short) {
                Some(pattern.named_words())
            } else if covers(&set) {
                Some(pattern.named_words().saturating_sub(assignments))
            } else {
                None
            }
        })
        .max()
}

/// How far the rules that cover the command around reach into this one.
///
/// A rule that names no more than the wrapper is no blank cheque for what is wrapped.
fn inherited_reach(command: &Command, reaches: &[Option<usize>]) -> Option<usize> {
    let reach_of = |parent: usize| reaches.get(parent).copied().flatten();
    match command.origin {
        Origin::Line => None,
        Origin::Text { parent } => reach_of(parent).filter(|reach| *reach == usize::MAX),
        Origin::Words { parent, at } => match reach_of(parent)? {
            usize::MAX => Some(usize::MAX),
            reach => reach.checked_sub(at).filter(|left| *left > 0),
        },
    }
}

/// Compiles an allow rule.
///
/// Without a star it has to be the very words of one command: what looks like another line, such
/// as `a; b`, must not match a command that is given it as words.
fn allow_pattern(specifier: &str) -> Option<Pattern> {
    let is_plain = |line: &str| {
        line.chars().all(|c| {
            c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '.' | '/' | '-' | ',' | '@' | '%')
        })
    };
    let pattern = Pattern::new(specifier);
    match exact_line(specifier) {
        Some(line) if !is_plain(&line) => {
            let analysis = analyse(&line);
            let redirects = analysis
                .redirects()
                .iter()
                .any(|redirect| redirect.parent.is_none());
            let mut commands = analysis
                .commands()
                .iter()
                .filter(|command| command.origin == Origin::Line);
            match (commands.next(), commands.next()) {
                (Some(command), None)
                    if !redirects && command.words.iter().all(|word| word.literal().is_some()) =>
                {
                    let words: Vec<_> = assignment_words(command)
                        .into_iter()
                        .chain(command.words.iter().cloned())
                        .collect();
                    Some(Pattern::exact(&words))
                }
                _ => None,
            }
        }
        Some(_) | None => Some(pattern),
    }
}

/// The assignments before a command as words.
fn assignment_words(command: &Command) -> Vec<Word> {
    command
        .assignments
        .iter()
        .map(|assignment| {
            let mut pieces = vec![Piece::Text(format!("{}=", assignment.name))];
            for value in &assignment.values {
                pieces.extend(value.pieces.iter().cloned());
            }
            Word {
                raw: assignment.raw.clone(),
                pieces,
            }
        })
        .collect()
}

/// The ways in which a deny rule may have spelled this command.
fn spellings(command: &Command) -> impl Iterator<Item = Subject> {
    let words = &command.words;
    let is_git = command
        .program()
        .and_then(|program| program.rsplit('/').next())
        .is_some_and(|name| name.eq_ignore_ascii_case("git"));
    let git = is_git
        .then(|| skip_globals(words))
        .and_then(|subcommand| match subcommand {
            Subcommand::At { index, .. } => Some(Subject::new(
                words.iter().take(1).chain(words.iter().skip(index)),
            )),
            Subcommand::Unclear => {
                let unknown = Word::unknown("", Unknown::Variable { quoted: false });
                Some(Subject::new(words.iter().take(1).chain([&unknown])))
            }
            Subcommand::None => None,
        });
    let set = (!command.assignments.is_empty())
        .then(|| Subject::new(assignment_words(command).iter().chain(words)));
    let parted = command
        .program()
        .and_then(|program| part_of_git(program.rsplit('/').next()?))
        .map(|subcommand| {
            let start = [Word::text("git"), Word::text(subcommand)];
            Subject::new(start.iter().chain(words.iter().skip(1)))
        });
    [
        (!words.is_empty()).then(|| Subject::new(words.iter())),
        git,
        parted,
        set,
    ]
    .into_iter()
    .flatten()
    .map(Subject::fold_program)
}

/// Makes a part of a line fit for a sentence.
pub(crate) fn shown(text: &str) -> String {
    const LIMIT: usize = 160;
    let mut shown: String = text
        .chars()
        .take(LIMIT)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(LIMIT).is_some() {
        shown.push_str("...");
    }
    shown
}
