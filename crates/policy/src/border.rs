//! What a call needs beyond the sandbox, and what it must leave alone.

use std::path::{Path, PathBuf};

use crate::{
    Grant,
    beyond::{Need, summary},
    call::{Call, Kind, covers_all, kind},
    command_rule::shown,
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
                    let real = normal(path);
                    // What a program does to a directory that holds protected entries, such as
                    // `.git`, the sandbox sees. Without one nothing does.
                    let is_program = matches!(need.part, Part::Command(_));
                    let found = match protected.of(&real) {
                        Some(_)
                            if is_program && confinement.is_some() && real.ends_with(".git") =>
                        {
                            None
                        }
                        None if is_program
                            && confinement.is_none()
                            && protected.holds_entries(&real) =>
                        {
                            Some(Protection::Asked)
                        }
                        found => found,
                    };
                    check(path, found)
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
    pub(crate) fn needed(&self) -> Option<String> {
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
