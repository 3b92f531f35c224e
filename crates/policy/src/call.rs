//! One call as the rules see it.

use std::path::Path;

use crate::{
    Access, Rule, Touch,
    command_rule::{Hit, Line, shown},
    path_rule::{PathPattern, Reading},
    shell::Direction,
};

/// What the name of a rule speaks about besides the tool of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    Read,
    Write,
    Host,
}

/// A call with its shell lines taken apart.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    tool: &'a str,
    access: &'a Access,
    lines: Vec<Line<'a>>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(tool: &'a str, access: &'a Access) -> Self {
        let lines = access
            .touches
            .iter()
            .filter_map(|touch| match touch {
                Touch::Command(line) => Some(Line::new(line)),
                Touch::Read(_) | Touch::Write(_) | Touch::Host(_) => None,
            })
            .collect();
        Self {
            tool,
            access,
            lines,
        }
    }

    /// Tells whether the call changes nothing outside of its session; a line is proven so here,
    /// whatever was stated.
    pub(crate) fn stays_inside(&self) -> bool {
        !self.access.effect.reaches_outside()
            && self.paths(Kind::Write).next().is_none()
            && self.lines.iter().all(|line| line.analysis.is_read_only())
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
                    Touch::Read(_) | Touch::Write(_) | Touch::Command(_) | Touch::Host(_),
                    Kind::Read | Kind::Write | Kind::Command | Kind::Host,
                ) => None,
            })
    }

    fn hosts(&self) -> impl Iterator<Item = &'a str> {
        self.access.touches.iter().filter_map(|touch| match touch {
            Touch::Host(host) => Some(host.as_str()),
            Touch::Command(_) | Touch::Read(_) | Touch::Write(_) => None,
        })
    }

    fn touches(&self, kind: Kind) -> bool {
        match kind {
            Kind::Command => !self.lines.is_empty(),
            Kind::Read | Kind::Write => self.paths(kind).next().is_some(),
            Kind::Host => self.hosts().next().is_some(),
        }
    }

    /// Tells how a deny or ask rule meets the call.
    pub(crate) fn hit(&self, rule: &Rule) -> Hit {
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
                        .map(|line| path_hit(line, specifier, wanted)),
                );
            }
        }
        if speaks_of(Kind::Host) {
            hits.extend(self.hosts().map(|host| {
                if host_matches(specifier, host) {
                    Hit::Surely(shown(host))
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

    /// Names the first part of the call that these rules do not cover, if there is one.
    pub(crate) fn uncovered(&self, rules: &[Rule], accepts_edits: bool) -> Option<String> {
        let covers_tool = |rule: &&Rule| rule.names(self.tool) && covers_all(rule);
        if rules.iter().any(|rule| covers_tool(&rule)) {
            return None;
        }
        let about = |wanted: Kind| -> Vec<&Rule> {
            rules
                .iter()
                .filter(|rule| {
                    let kind = kind(rule);
                    kind == Some(wanted) || (kind.is_none() && rule.names(self.tool))
                })
                .collect()
        };
        let commands = about(Kind::Command);
        if !commands.iter().any(|rule| covers_all(rule)) {
            let found = self.lines.iter().find_map(|line| line.uncovered(&commands));
            if found.is_some() {
                return found;
            }
        }
        let edits = about(Kind::Write);
        let accepts_edits = accepts_edits && self.lines.is_empty();
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
        let fetches = about(Kind::Host);
        let host = self.hosts().find(|host| {
            !fetches.iter().any(|rule| match rule.specifier() {
                Some(specifier) => host_matches(specifier, host),
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

fn kind(rule: &Rule) -> Option<Kind> {
    let table = [
        ("bash", Kind::Command),
        ("read", Kind::Read),
        ("edit", Kind::Write),
        ("write", Kind::Write),
        ("webfetch", Kind::Host),
        ("web_fetch", Kind::Host),
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
fn path_hit(line: &Line<'_>, specifier: &str, kind: Kind) -> Hit {
    let wanted = match kind {
        Kind::Read => Direction::Read,
        Kind::Write | Kind::Command | Kind::Host => Direction::Write,
    };
    let pattern = PathPattern::new(specifier);
    let matches = |text: &str| !text.is_empty() && pattern.matches(Path::new(text), Reading::Wide);
    for redirect in line.analysis.redirects() {
        let names_path = redirect.direction == wanted && !redirect.is_harmless()
            || (redirect.direction == Direction::Read && wanted == Direction::Read);
        if names_path && redirect.target.literal().is_some_and(matches) {
            return Hit::Surely(shown(&redirect.text));
        }
    }
    if kind != Kind::Read {
        return Hit::Never;
    }
    for command in line.analysis.commands() {
        for text in command.arguments().iter().filter_map(|word| word.literal()) {
            let value = text.split_once('=').map_or(text, |(_, value)| value);
            if matches(text) || (value.len() < text.len() && matches(value)) {
                return Hit::Surely(shown(&command.text));
            }
        }
    }
    Hit::Never
}

/// Tells whether a specifier such as `domain:example.com` names this host.
fn host_matches(specifier: &str, host: &str) -> bool {
    let specifier = specifier.trim();
    let wanted = specifier.strip_prefix("domain:").unwrap_or(specifier);
    let wanted = wanted.trim().to_ascii_lowercase();
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.contains(':') => {
            name.trim_end_matches('.')
        }
        Some(_) | None => &host,
    };
    match wanted.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => {
            suffix.starts_with('.') && host.len() > suffix.len() && host.ends_with(suffix)
        }
        None => host == wanted,
    }
}
