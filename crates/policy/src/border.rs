//! What a call needs beyond the sandbox, and what it must leave alone.

use std::path::{Path, PathBuf};

use crate::{
    Grant,
    beyond::{Need, summary},
    call::{Call, Kind, covers_all, kind},
    command_rule::{Line, shown},
    host,
    path_rule::{PathPattern, Reading},
    places::is_inside,
    protected::{Protected, Protection},
    shell::{Part, normal},
};

impl Call<'_> {
    /// Returns the first protected path that the call would write, and how it is protected; one that
    /// a sandbox denies comes first.
    pub(crate) fn protected(&self) -> Option<(String, Protection)> {
        let confinement = self.policy.confinement.as_ref();
        let protected = Protected {
            named: &self.policy.protected,
            names: &self.policy.protected_names,
            roots: &self.policy.roots,
            temp: confinement.map_or(&[], |within| &within.temp),
            home: self.policy.home.as_deref(),
            is_confined: confinement.is_some(),
        };
        let is_held = self.is_confined();
        let mut asked = None;
        let mut check = |path: &Path, found: Option<Protection>| match found? {
            Protection::Sealed => Some(path.to_owned()),
            Protection::Asked => {
                asked.get_or_insert_with(|| path.to_owned());
                None
            }
        };
        let granted = self.grants().filter_map(written);
        let mut named = self.paths(Kind::Write).chain(granted);
        let mut needed = self.lines.iter().flat_map(|line| &line.needs);
        let sealed = named
            .find_map(|path| check(path, protected.of(&normal(path))))
            .or_else(|| {
                needed.find_map(|need| {
                    let path = written(&need.grant)?;
                    let is_program = matches!(need.part, Part::Command(_));
                    let links = self.access.facts.links.iter();
                    let links = links.filter(|(named, _)| named == path);
                    let mut paths =
                        std::iter::once(path).chain(links.map(|(_, real)| real.as_path()));
                    paths.find_map(|path| {
                        let real = normal(path);
                        // What a program does to a directory that holds protected entries, such as
                        // `.git`, the sandbox sees. Without one nothing does.
                        let found = match protected.of(&real) {
                            Some(_) if is_program && is_held && real.ends_with(".git") => None,
                            None if is_program && !is_held && protected.holds_entries(&real) => {
                                Some(Protection::Asked)
                            }
                            found => found,
                        };
                        check(path, found)
                    })
                })
            });
        let words = |path: PathBuf| shown(&path.to_string_lossy());
        match (sealed, asked) {
            (Some(path), _) => Some((words(path), Protection::Sealed)),
            (None, Some(path)) => Some((words(path), Protection::Asked)),
            (None, None) => None,
        }
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

    /// Returns whether a rule covers every shell line of the tool.
    pub(crate) fn covers_lines(&self) -> bool {
        self.command_rules().iter().any(|rule| covers_all(rule))
    }

    /// What the lines need beyond the sandbox, each with its part.
    fn beyond(&self) -> impl Iterator<Item = (&Line<'_>, &Need)> {
        self.lines.iter().flat_map(|line| {
            let needs = line.needs.iter().filter(|need| self.is_beyond(&need.grant));
            needs.map(move |need| (line, need))
        })
    }

    /// Returns whether a rule gives a part what it needs: one about the sandbox, or one that covers
    /// the part.
    pub(crate) fn is_open(&self, line: &Line<'_>, need: &Need) -> bool {
        self.covers_lines()
            || self.is_given(&need.grant)
            || line.brings(&self.command_rules(), need, self.places())
    }

    /// Says what the lines need beyond the sandbox, if something is not allowed to have it.
    pub(crate) fn needed(&self) -> Option<String> {
        self.policy.confinement.as_ref()?;
        if self.beyond().any(|(line, need)| !self.is_open(line, need)) {
            return Some(format!("{}: that is beyond the sandbox", self.needs()));
        }
        // All of a line gets what one part of it needs.
        let commands = self.command_rules();
        let mut lines = self.lines.iter().filter(|line| self.is_widened(line));
        let part = lines.find_map(|line| {
            line.uncovered_but(&commands, &|part| self.needs_no_cover(line, part))
        })?;
        let needs = self.needs();
        Some(format!(
            "{part}, and the whole line would get more than the sandbox: {needs}"
        ))
    }

    /// Returns whether a line gets something beyond the sandbox, so that each of its parts needs a
    /// rule as if there were no sandbox.
    pub(crate) fn is_widened(&self, line: &Line<'_>) -> bool {
        self.policy.confinement.is_some()
            && !self.covers_lines()
            && line.needs.iter().any(|need| self.is_beyond(&need.grant))
    }

    /// Returns whether a part of such a line needs no rule for commands: rules about the sandbox give
    /// it what it needs, or it only writes a file of the workspace.
    pub(crate) fn needs_no_cover(&self, line: &Line<'_>, part: Part) -> bool {
        let mut own = line
            .needs
            .iter()
            .filter(|need| need.part == part)
            .peekable();
        if own.peek().is_none() {
            return false;
        }
        let is_within = |need: &&Need| !self.is_beyond(&need.grant);
        if own.clone().all(|need| is_within(&need)) {
            // Without the sandbox, a link could lead a redirection anywhere.
            let mut all = line.needs.iter();
            let is_held = !all.any(|need| need.grant == Grant::Unconfined);
            return matches!(part, Part::Redirect(_)) && is_held;
        }
        own.all(|need| is_within(&need) || self.is_given(&need.grant))
    }

    /// What the lines need beyond the sandbox, in words.
    fn needs(&self) -> String {
        let all = summary(self.beyond().map(|(_, need)| need.grant.clone()));
        let words = all.iter().map(|grant| {
            let part = self.beyond().find(|(_, need)| need.grant == *grant);
            let part = part.map_or("", |(line, need)| line.text_of(need.part));
            format!("`{}` needs {}", shown(part), grant.words())
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Without a sandbox: names the first path outside of the workspace that a command writes,
    /// although the rule that covers it does not name the path.
    pub(crate) fn unnamed(&self) -> Option<String> {
        if !self.is_bounded() {
            return None;
        }
        let (line, need) = self.beyond().find(|(line, need)| {
            matches!(need.grant, Grant::Write(_)) && !self.is_open(line, need)
        })?;
        Some(format!(
            "`{}` needs {}, which is outside of the workspace, and no rule names it",
            shown(line.text_of(need.part)),
            need.grant.words()
        ))
    }

    /// Without a sandbox: names the first part that writes a path which is only known when it runs.
    pub(crate) fn unknown(&self) -> Option<String> {
        self.lines.iter().find_map(|line| {
            let part = line.text_of(self.unknown_write(line)?);
            Some(format!(
                "`{}` writes a path that is only known when it runs, and no rule names it",
                shown(part)
            ))
        })
    }

    /// Whether paths outside of the workspace are asked about although there is no sandbox.
    fn is_bounded(&self) -> bool {
        let policy = self.policy;
        policy.confinement.is_none() && !policy.roots.is_empty() && !self.covers_lines()
    }

    /// Without a sandbox: the first part that writes a path which is only known when it runs.
    pub(crate) fn unknown_write(&self, line: &Line<'_>) -> Option<Part> {
        let folder = self.access.directory.as_ref().or(self.policy.roots.first());
        let folder = folder.map(PathBuf::as_path).filter(|_| self.is_bounded())?;
        line.unknown_write(&self.command_rules(), folder, self.policy.home.as_deref())
    }

    /// Names the first thing beyond the sandbox that is asked for and that no rule gives.
    pub(crate) fn wanted(&self) -> Option<String> {
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
}

/// The path that a grant opens.
fn written(grant: &Grant) -> Option<&Path> {
    match grant {
        Grant::Write(path) => Some(path.as_path()),
        Grant::Network | Grant::Host(_) | Grant::Unconfined => None,
    }
}

/// Tells whether a specifier such as `write:/srv/**` speaks of this grant.
pub(crate) fn grant_matches(specifier: &str, grant: &Grant, reading: Reading) -> bool {
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
