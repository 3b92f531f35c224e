//! One call as the rules see it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{
    Access, AskCause, Grant, Mode, Policy, Rule, Touch,
    beyond::is_device,
    border::grant_matches,
    command_rule::{Hit, Line, shown},
    host,
    path_rule::{PathPattern, Reading},
    places::{Places, is_inside, path_hit},
    shell::{Direction, Part},
    touches::Surroundings,
};

/// What the name of a rule speaks about besides the tool of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
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
        let at = Surroundings {
            directory: directory.map(PathBuf::as_path),
            home: policy.home.as_deref(),
            roots: &policy.roots,
            facts: &access.facts,
        };
        let line = |text| Line::new(text, at);
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

    pub(crate) fn places(&self) -> Places<'a> {
        Places {
            roots: &self.policy.roots,
            home: self.policy.home.as_deref(),
        }
    }

    pub(crate) fn paths(&self, kind: Kind) -> impl Iterator<Item = &'a Path> {
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

    pub(crate) fn grants(&self) -> impl Iterator<Item = &'a Grant> {
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
                let is_confined = self.is_confined();
                path_hit(
                    line,
                    specifier,
                    wanted,
                    self.places(),
                    is_confined,
                    &|other| other == part,
                )
            }
            (Some(Kind::Command | Kind::Host) | None, _) => Hit::Never,
        }
    }

    /// Checks whether the sandbox holds what the call's lines do: not if one of them runs without it.
    pub(crate) fn is_confined(&self) -> bool {
        let mut needs = self.lines.iter().flat_map(|line| &line.needs);
        self.policy.confinement.is_some()
            && !self.grants().any(|grant| *grant == Grant::Unconfined)
            && !needs.any(|need| need.grant == Grant::Unconfined)
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
                let is_confined = self.is_confined();
                let hit = |line, is_confined| {
                    path_hit(line, specifier, wanted, places, is_confined, &|_| true)
                };
                hits.extend(self.lines.iter().map(|line| hit(line, is_confined)));
                hits.extend(self.inputs.iter().map(|line| hit(line, true)));
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

    /// Names the first part of a line that reads outside of the roots, where no sandbox decides what
    /// is read and no rule covers the part or names the path.
    fn reads_outside(&self) -> Option<String> {
        self.lines.iter().find_map(|line| {
            let parts = line
                .touched(Direction::Read)
                .iter()
                .map(|touched| touched.part);
            let parts: BTreeSet<Part> = parts.collect();
            parts
                .into_iter()
                .find_map(|part| self.part_reads_outside(line, part))
        })
    }

    /// Says what a part of a line reads outside of the roots, if it does.
    pub(crate) fn part_reads_outside(&self, line: &Line<'_>, part: Part) -> Option<String> {
        let roots = &self.policy.roots;
        let commands = self.command_rules();
        let is_free = self.policy.confinement.is_some() || roots.is_empty() || self.covers_lines();
        if is_free {
            return None;
        }
        let only_reads = match part {
            Part::Command(index) => {
                let command = line.analysis.commands().get(index);
                command.is_some_and(|command| line.analysis.command_is_read_only(command))
            }
            Part::Redirect(_) => true,
        };
        if !only_reads {
            return None;
        }
        let is_named = |path: &Path| {
            self.policy.allow.iter().any(|rule| {
                matches!(kind(rule), Some(Kind::Read | Kind::Write))
                    && rule.specifier().is_some_and(|specifier| {
                        PathPattern::new(specifier).matches(path, Reading::Narrow)
                    })
            })
        };
        let is_open = |path: &PathBuf| is_inside(path, roots) || is_device(path) || is_named(path);
        let touched = line.touched(Direction::Read).iter();
        let mut touched = touched.filter(|touched| touched.part == part && touched.is_sure);
        let reason = touched.find_map(|touched| {
            let text = shown(line.text_of(part));
            match touched.paths.iter().find(|path| !is_open(path)) {
                Some(path) => Some(format!(
                    "`{text}` reads `{}`, which is outside of the workspace",
                    shown(&path.to_string_lossy())
                )),
                None if !touched.is_bounded => {
                    Some(format!("what `{text}` reads is only known when it runs"))
                }
                None => None,
            }
        })?;
        // A rule that covers the part says that it may.
        (!line.covered(&commands).holds(line, part)).then_some(reason)
    }

    /// Names the first part of the call that these rules do not cover, if there is one.
    pub(crate) fn uncovered(&self) -> Option<(String, AskCause)> {
        let beyond = self
            .outside()
            .or_else(|| self.reads_outside())
            .or_else(|| self.wanted())
            .or_else(|| self.needed());
        match beyond {
            Some(reason) => Some((reason, AskCause::Beyond)),
            None => {
                let uncovered = self.unspoken().or_else(|| self.unknown());
                let uncovered = uncovered.map(|reason| (reason, AskCause::Uncovered));
                uncovered.or_else(|| Some((self.unnamed()?, AskCause::Beyond)))
            }
        }
    }

    /// The rules that speak of shell lines by what is in their brackets.
    pub(crate) fn command_rules(&self) -> Vec<&'a Rule> {
        self.about(Kind::Command)
    }

    pub(crate) fn about(&self, wanted: Kind) -> Vec<&'a Rule> {
        let speaks = |rule: &&Rule| {
            let kind = kind(rule);
            kind == Some(wanted) || (kind.is_none() && rule.names(self.tool))
        };
        self.policy.allow.iter().filter(speaks).collect()
    }

    pub(crate) fn covers_tool(&self) -> bool {
        let mut rules = self.policy.allow.iter();
        rules.any(|rule| rule.names(self.tool) && covers_all(rule))
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

/// Tells whether a rule speaks about single files that this tool reads.
pub(crate) fn is_about_reading(rule: &Rule, tool: &str) -> bool {
    let speaks = match kind(rule) {
        Some(kind) => kind == Kind::Read,
        None => rule.names(tool),
    };
    speaks && rule.specifier().is_some()
}

pub(crate) fn kind(rule: &Rule) -> Option<Kind> {
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

pub(crate) fn covers_all(rule: &Rule) -> bool {
    rule.specifier()
        .is_none_or(|specifier| specifier.trim() == "*")
}
