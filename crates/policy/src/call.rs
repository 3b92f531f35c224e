//! One call as the rules see it.

use std::path::{Component, Path, PathBuf};

use crate::{
    Access, AskCause, Grant, Mode, Policy, Rule, Touch,
    beyond::{Need, summary},
    command_rule::{Hit, Line, shown},
    host,
    path_rule::{PathPattern, Reading},
    protected::Protected,
    shell::{Direction, Part, Piece, Unknown, Word, normal},
};

/// What the name of a rule speaks about besides the tool of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    Read,
    Write,
    Host,
    Grant,
}

/// A call with its shell lines taken apart.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) access: &'a Access,
    pub(crate) policy: &'a Policy,
    pub(crate) lines: Vec<Line<'a>>,
    /// What is typed into programs, read as shell lines.
    inputs: Vec<Line<'a>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(tool: &'a str, access: &'a Access, policy: &'a Policy) -> Self {
        let mut lines = Vec::new();
        let mut inputs = Vec::new();
        let within = policy.confinement.as_ref();
        let workspace = policy
            .roots
            .first()
            .or_else(|| within.and_then(|within| within.writable.first()));
        let directory = access.directory.as_ref().or(workspace);
        let line = |text| {
            Line::new(
                text,
                directory.map(PathBuf::as_path),
                policy.home.as_deref(),
            )
        };
        for touch in &access.touches {
            match touch {
                Touch::Command(text) => lines.push(line(text)),
                Touch::Input(text) => inputs.push(line(text)),
                Touch::Read(_) | Touch::Write(_) | Touch::Host(_) | Touch::Grant(_) => {}
            }
        }
        Self {
            tool,
            access,
            policy,
            lines,
            inputs,
        }
    }

    /// Tells whether the call changes nothing outside of its session; a line is proven so here,
    /// whatever was stated.
    pub(crate) fn stays_inside(&self) -> bool {
        !self.access.effect.reaches_outside()
            && self.inputs.is_empty()
            && self.paths(Kind::Write).next().is_none()
            && self.lines.iter().all(|line| line.analysis.is_read_only())
    }

    fn places(&self) -> Places<'a> {
        Places {
            roots: &self.policy.roots,
            home: self.policy.home.as_deref(),
        }
    }

    fn paths(&self, kind: Kind) -> impl Iterator<Item = &'a Path> {
        self.access
            .touches
            .iter()
            .filter_map(move |touch| match (touch, kind) {
                (Touch::Read(path), Kind::Read) | (Touch::Write(path), Kind::Write) => {
                    Some(path.as_path())
                }
                (
                    Touch::Read(_)
                    | Touch::Write(_)
                    | Touch::Command(_)
                    | Touch::Host(_)
                    | Touch::Input(_)
                    | Touch::Grant(_),
                    Kind::Read | Kind::Write | Kind::Command | Kind::Host | Kind::Grant,
                ) => None,
            })
    }

    fn hosts(&self) -> impl Iterator<Item = &'a str> {
        self.access.touches.iter().filter_map(|touch| match touch {
            Touch::Host(host) => Some(host.as_str()),
            Touch::Command(_)
            | Touch::Read(_)
            | Touch::Write(_)
            | Touch::Input(_)
            | Touch::Grant(_) => None,
        })
    }

    fn grants(&self) -> impl Iterator<Item = &'a Grant> {
        self.access.touches.iter().filter_map(|touch| match touch {
            Touch::Grant(grant) => Some(grant),
            Touch::Command(_)
            | Touch::Read(_)
            | Touch::Write(_)
            | Touch::Input(_)
            | Touch::Host(_) => None,
        })
    }

    fn touches(&self, kind: Kind) -> bool {
        match kind {
            Kind::Command => !(self.lines.is_empty() && self.inputs.is_empty()),
            Kind::Read | Kind::Write => self.paths(kind).next().is_some(),
            Kind::Host => self.hosts().next().is_some(),
            Kind::Grant => self.grants().next().is_some(),
        }
    }

    /// Tells how a deny or ask rule meets one part of a line.
    pub(crate) fn hit_part(&self, rule: &Rule, line: &Line<'_>, part: Part) -> Hit {
        let kind = kind(rule);
        let named = rule.names(self.tool);
        let Some(specifier) = rule.specifier() else {
            return if named || kind == Some(Kind::Command) {
                Hit::Surely(String::new())
            } else {
                Hit::Never
            };
        };
        match (kind, part) {
            (Some(Kind::Command), Part::Command(index)) => {
                line.hit_among(specifier, |other| other == index)
            }
            (None, Part::Command(index)) if named => {
                line.hit_among(specifier, |other| other == index)
            }
            (Some(Kind::Grant), part) => {
                let mut needs = line.needs.iter().filter(|need| need.part == part);
                let is_met = needs.any(|need| {
                    self.is_beyond(&need.grant)
                        && grant_matches(specifier, &need.grant, Reading::Wide)
                });
                if is_met {
                    Hit::Surely(String::new())
                } else {
                    Hit::Never
                }
            }
            (Some(wanted @ (Kind::Read | Kind::Write)), part) => {
                path_hit(line, specifier, wanted, self.places(), &|other| {
                    other == part
                })
            }
            (Some(Kind::Command | Kind::Host) | None, _) => Hit::Never,
        }
    }

    /// Tells whether an allow rule by itself covers one part of a line.
    pub(crate) fn covers_part(&self, rule: &Rule, line: &Line<'_>, part: Part) -> bool {
        let speaks = kind(rule) == Some(Kind::Command) || rule.names(self.tool);
        speaks && (covers_all(rule) || line.covered(&[rule]).holds(line, part))
    }

    /// Tells how a deny or ask rule meets the call.
    pub(crate) fn hit(&self, rule: &Rule) -> Hit {
        let places = self.places();
        let named = rule.names(self.tool);
        let kind = kind(rule);
        let Some(specifier) = rule.specifier() else {
            return if named || kind.is_some_and(|kind| self.touches(kind)) {
                Hit::Surely(shown(self.tool))
            } else {
                Hit::Never
            };
        };
        let speaks_of = |wanted: Kind| kind == Some(wanted) || (named && kind.is_none());
        let mut hits = Vec::new();
        if speaks_of(Kind::Command) {
            hits.extend(self.lines.iter().map(|line| line.hit(specifier)));
            // What is typed may be of another language, so only what is surely meant counts.
            let typed = self.inputs.iter().map(|line| line.hit(specifier));
            hits.extend(typed.map(|hit| match hit {
                Hit::Surely(_) => hit,
                Hit::Maybe(_) | Hit::Never => Hit::Never,
            }));
        }
        for wanted in [Kind::Read, Kind::Write] {
            if speaks_of(wanted) {
                hits.extend(self.paths(wanted).map(|path| {
                    if PathPattern::new(specifier).matches(path, Reading::Wide) {
                        Hit::Surely(shown(&path.to_string_lossy()))
                    } else {
                        Hit::Never
                    }
                }));
            }
            if kind == Some(wanted) {
                hits.extend(
                    self.lines
                        .iter()
                        .chain(&self.inputs)
                        .map(|line| path_hit(line, specifier, wanted, places, &|_| true)),
                );
            }
        }
        if speaks_of(Kind::Host) {
            hits.extend(self.hosts().map(|host| {
                if host::matches(specifier, host) {
                    Hit::Surely(shown(host))
                } else {
                    Hit::Never
                }
            }));
        }
        if kind == Some(Kind::Grant) {
            for line in &self.lines {
                let needs = line.needs.iter().filter(|need| self.is_beyond(&need.grant));
                hits.extend(needs.map(|need| {
                    if grant_matches(specifier, &need.grant, Reading::Wide) {
                        Hit::Surely(shown(line.text_of(need.part)))
                    } else {
                        Hit::Never
                    }
                }));
            }
            hits.extend(self.grants().map(|grant| {
                if grant_matches(specifier, grant, Reading::Wide) {
                    Hit::Surely(shown(&grant.to_string()))
                } else {
                    Hit::Never
                }
            }));
        }
        if hits.is_empty() && named {
            return Hit::Maybe(format!("`{specifier}` cannot be compared with the call"));
        }
        let mut maybe = Hit::Never;
        for hit in hits {
            match hit {
                Hit::Surely(_) => return hit,
                Hit::Maybe(_) if maybe == Hit::Never => maybe = hit,
                Hit::Maybe(_) | Hit::Never => {}
            }
        }
        maybe
    }

    /// Names the first file outside of the roots that no rule names by its path.
    fn outside(&self) -> Option<String> {
        let (rules, roots) = (&self.policy.allow, &self.policy.roots);
        let names = |path: &Path, kinds: &[Kind]| {
            rules.iter().any(|rule| {
                let speaks =
                    kind(rule).map_or_else(|| rule.names(self.tool), |kind| kinds.contains(&kind));
                speaks
                    && rule.specifier().is_some_and(|specifier| {
                        PathPattern::new(specifier).matches(path, Reading::Narrow)
                    })
            })
        };
        let written = self
            .paths(Kind::Write)
            .find(|path| !is_inside(path, roots) && !names(path, &[Kind::Write]));
        let found = written.or_else(|| {
            self.paths(Kind::Read)
                .find(|path| !is_inside(path, roots) && !names(path, &[Kind::Read, Kind::Write]))
        })?;
        Some(format!(
            "`{}` is outside of the workspace",
            shown(&found.to_string_lossy())
        ))
    }

    /// Names the first part of the call that these rules do not cover, if there is one.
    pub(crate) fn uncovered(&self) -> Option<(String, AskCause)> {
        let beyond = self
            .outside()
            .or_else(|| self.wanted())
            .or_else(|| self.needed());
        match beyond {
            Some(reason) => Some((reason, AskCause::Beyond)),
            None => self.unspoken().map(|reason| (reason, AskCause::Uncovered)),
        }
    }

    /// Names the first protected path that the call would write.
    pub(crate) fn protected(&self) -> Option<String> {
        let protected = Protected {
            named: &self.policy.protected,
            roots: &self.policy.roots,
            temp: self
                .policy
                .confinement
                .as_ref()
                .map_or(&[], |within| &within.temp),
            home: self.policy.home.as_deref(),
        };
        let needed = self.lines.iter().flat_map(|line| &line.needs);
        let granted = self
            .grants()
            .chain(needed.map(|need| &need.grant))
            .filter_map(|grant| match grant {
                Grant::Write(path) => Some(path.as_path()),
                Grant::Network | Grant::Host(_) | Grant::Unconfined => None,
            });
        self.paths(Kind::Write)
            .chain(granted)
            .find(|path| protected.holds(&normal(path)))
            .map(|path| shown(&path.to_string_lossy()))
    }

    /// Tells whether this is more than the sandbox gives, or than it would give if there were one.
    pub(crate) fn is_beyond(&self, grant: &Grant) -> bool {
        match (&self.policy.confinement, grant) {
            (Some(within), grant) => !within.includes(grant),
            (None, Grant::Write(path)) => !is_inside(path, &self.policy.roots),
            (None, Grant::Network | Grant::Host(_) | Grant::Unconfined) => true,
        }
    }

    /// Tells whether a rule allows this beyond the sandbox.
    pub(crate) fn is_given(&self, grant: &Grant) -> bool {
        self.policy
            .allow
            .iter()
            .any(|rule| match (kind(rule), rule.specifier()) {
                (Some(Kind::Grant), None) => true,
                (Some(Kind::Grant), Some(specifier)) => {
                    grant_matches(specifier, grant, Reading::Narrow)
                }
                // Whoever may edit a file there may have a command do it.
                (Some(Kind::Write), Some(specifier)) => match grant {
                    Grant::Write(path) => {
                        PathPattern::new(specifier).matches(path, Reading::Narrow)
                    }
                    Grant::Network | Grant::Host(_) | Grant::Unconfined => false,
                },
                (Some(Kind::Write | Kind::Command | Kind::Read | Kind::Host) | None, _) => false,
            })
    }

    /// The rules that speak of shell lines by what is in their brackets.
    fn command_rules(&self) -> Vec<&'a Rule> {
        self.about(Kind::Command)
    }

    fn about(&self, wanted: Kind) -> Vec<&'a Rule> {
        let speaks = |rule: &&Rule| {
            let kind = kind(rule);
            kind == Some(wanted) || (kind.is_none() && rule.names(self.tool))
        };
        self.policy.allow.iter().filter(speaks).collect()
    }

    fn covers_tool(&self) -> bool {
        let mut rules = self.policy.allow.iter();
        rules.any(|rule| rule.names(self.tool) && covers_all(rule))
    }

    /// What the lines need beyond the sandbox that nothing gives them, each with its part.
    pub(crate) fn needs(&self) -> Vec<(String, Grant)> {
        let commands = self.command_rules();
        if self.covers_tool() || commands.iter().any(|rule| covers_all(rule)) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for line in &self.lines {
            let is_beyond =
                |need: &&Need| self.is_beyond(&need.grant) && !self.is_given(&need.grant);
            let mut needs = line.needs.iter().filter(is_beyond).peekable();
            if needs.peek().is_none() {
                continue;
            }
            let covered = line.covered(&commands);
            let open = needs.filter(|need| !covered.holds(line, need.part));
            found.extend(open.map(|need| (line.text_of(need.part).to_owned(), need.grant.clone())));
        }
        found
    }

    /// Says what the lines need beyond the sandbox.
    fn needed(&self) -> Option<String> {
        self.policy.confinement.as_ref()?;
        let needs = self.needs();
        let all = summary(needs.iter().map(|(_, grant)| grant.clone()));
        let words: Vec<String> = all
            .iter()
            .map(|grant| {
                let part = needs.iter().find(|(_, other)| other == grant);
                let part = part.map_or("", |(part, _)| part);
                format!("`{}` needs {}", shown(part), grant.words())
            })
            .collect();
        (!words.is_empty()).then(|| format!("{}: that is beyond the sandbox", words.join(", ")))
    }

    /// Names the first thing beyond the sandbox that is asked for and that no rule gives.
    fn wanted(&self) -> Option<String> {
        let within = self.policy.confinement.as_ref();
        // What the line needs is judged with the line.
        let is_needed = |grant: &Grant| {
            within.is_some() && {
                let mut needs = self.lines.iter().flat_map(|line| &line.needs);
                needs.any(|need| need.grant == *grant)
            }
        };
        self.grants()
            .find(|grant| {
                let is_included = within.is_some_and(|within| within.includes(grant));
                !is_included && !self.is_given(grant) && !is_needed(grant)
            })
            .map(|grant| format!("`{grant}` asks for more than the sandbox gives"))
    }

    /// Names the first part of the call that nothing covers.
    fn unspoken(&self) -> Option<String> {
        if self.covers_tool() {
            return None;
        }
        let is_confined = self.policy.confinement.is_some();
        let mut rules = self.policy.allow.iter();
        let covers_shell = |rule: &Rule| kind(rule) == Some(Kind::Command) && covers_all(rule);
        if let Some(input) = self.inputs.first()
            && !is_confined
            && !rules.any(covers_shell)
        {
            return Some(format!(
                "`{}` on a terminal is not covered by an allow rule for all of `{}`",
                shown(input.text),
                shown(self.tool)
            ));
        }
        let commands = self.command_rules();
        if !is_confined && !commands.iter().any(|rule| covers_all(rule)) {
            let found = self.lines.iter().find_map(|line| line.uncovered(&commands));
            if found.is_some() {
                return found;
            }
        }
        let edits = self.about(Kind::Write);
        let accepts_edits = self.policy.mode == Mode::AcceptEdits && self.lines.is_empty();
        let path = self.paths(Kind::Write).find(|path| {
            !accepts_edits
                && !edits.iter().any(|rule| match rule.specifier() {
                    Some(specifier) => PathPattern::new(specifier).matches(path, Reading::Narrow),
                    None => true,
                })
        });
        if let Some(path) = path {
            return Some(format!(
                "writing `{}` is not covered by an allow rule",
                shown(&path.to_string_lossy())
            ));
        }
        let fetches = self.about(Kind::Host);
        let host = self.hosts().find(|host| {
            !fetches.iter().any(|rule| match rule.specifier() {
                Some(specifier) => host::matches(specifier, host),
                None => true,
            })
        });
        if let Some(host) = host {
            return Some(format!(
                "talking to `{}` is not covered by an allow rule",
                shown(host)
            ));
        }
        let is_explained = [Kind::Command, Kind::Write, Kind::Host]
            .into_iter()
            .any(|kind| self.touches(kind));
        if !self.access.effect.reaches_outside() || is_explained {
            None
        } else {
            Some(format!(
                "`{}` changes something and is not covered by an allow rule",
                shown(self.tool)
            ))
        }
    }
}

/// Tells whether a specifier such as `write:/srv/**` speaks of this grant.
fn grant_matches(specifier: &str, grant: &Grant, reading: Reading) -> bool {
    let specifier = specifier.trim();
    if specifier == "*" {
        return true;
    }
    match grant {
        Grant::Write(path) => specifier
            .strip_prefix("write:")
            .is_some_and(|pattern| PathPattern::new(pattern).matches(path, reading)),
        Grant::Network => specifier == "network",
        Grant::Host(host) => {
            specifier == "network"
                || specifier
                    .strip_prefix("host:")
                    .is_some_and(|wanted| host::matches(wanted, host))
        }
        Grant::Unconfined => specifier == "unconfined",
    }
}

/// What relative paths in shell lines may mean.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    /// The folders in which a shell may be.
    pub(crate) roots: &'a [PathBuf],
    pub(crate) home: Option<&'a Path>,
}

impl<'a> Places<'a> {
    /// The paths that a text in a shell line may mean.
    fn meant(self, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
        let roots = self.roots.iter().map(PathBuf::as_path);
        let below_roots = roots.map(move |root| root.join(text));
        let rest = text
            .strip_prefix('~')
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let rest = rest.map(|rest| rest.trim_start_matches('/'));
        let below_home = self.home.zip(rest).map(|(home, rest)| home.join(rest));
        std::iter::once(PathBuf::from(text))
            .chain(below_roots)
            .chain(below_home)
    }
}

/// Tells whether a file may be touched as far as the borders go.
fn is_inside(path: &Path, roots: &[PathBuf]) -> bool {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    roots.is_empty() || (!climbs && roots.iter().any(|root| path.starts_with(root)))
}

/// Tells whether a rule speaks about single files that this tool reads.
pub(crate) fn is_about_reading(rule: &Rule, tool: &str) -> bool {
    let speaks = match kind(rule) {
        Some(kind) => kind == Kind::Read,
        None => rule.names(tool),
    };
    speaks && rule.specifier().is_some()
}

fn kind(rule: &Rule) -> Option<Kind> {
    let table = [
        ("bash", Kind::Command),
        ("read", Kind::Read),
        ("edit", Kind::Write),
        ("write", Kind::Write),
        ("webfetch", Kind::Host),
        ("web_fetch", Kind::Host),
        ("sandbox", Kind::Grant),
    ];
    table
        .into_iter()
        .find(|(name, _)| rule.tool().eq_ignore_ascii_case(name))
        .map(|(_, kind)| kind)
}

fn covers_all(rule: &Rule) -> bool {
    rule.specifier()
        .is_none_or(|specifier| specifier.trim() == "*")
}

/// Tells whether a shell line names a path that a rule about files speaks of.
///
/// It sees only what stands in the line: a bell, not a lock.
fn path_hit(
    line: &Line<'_>,
    specifier: &str,
    kind: Kind,
    places: Places<'_>,
    among: &dyn Fn(Part) -> bool,
) -> Hit {
    let wanted = match kind {
        Kind::Read => Direction::Read,
        Kind::Write | Kind::Command | Kind::Host | Kind::Grant => Direction::Write,
    };
    let pattern = PathPattern::new(specifier);
    let matches = |text: &str| {
        let mut meant = places.meant(text);
        !text.is_empty() && meant.any(|path| pattern.matches(&path, Reading::Wide))
    };
    let names = |word: &Word| matches(&known(word));
    for (index, redirect) in line.analysis.redirects().iter().enumerate() {
        if !among(Part::Redirect(index)) {
            continue;
        }
        let names_path = redirect.direction == wanted && !redirect.is_harmless()
            || (redirect.direction == Direction::Read && wanted == Direction::Read);
        if names_path && names(&redirect.target) {
            return Hit::Surely(shown(&redirect.text));
        }
    }
    if kind != Kind::Read {
        return Hit::Never;
    }
    for (index, command) in line.analysis.commands().iter().enumerate() {
        if !among(Part::Command(index)) {
            continue;
        }
        for word in command.arguments() {
            let value = word.literal().and_then(|text| text.split_once('='));
            if names(word) || value.is_some_and(|(_, value)| matches(value)) {
                return Hit::Surely(shown(&command.text));
            }
        }
    }
    Hit::Never
}

/// The path that a word is, as far as it is known: all of it, or else the folder in which it begins.
fn known(word: &Word) -> String {
    let is_own_home = word.raw == "~" || word.raw.starts_with("~/");
    let (start, pieces) = match word.pieces.as_slice() {
        [Piece::Unknown(Unknown::Tilde), rest @ ..] if is_own_home => ("~", rest),
        pieces => ("", pieces),
    };
    match pieces {
        [Piece::Text(text)] => format!("{start}{text}"),
        [Piece::Text(text), ..] => {
            let folder = text.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{start}{folder}")
        }
        [] | [Piece::Unknown(_), ..] => start.to_owned(),
    }
}
