//! What a command finds in its environment.

use std::ffi::{OsStr, OsString};

use crate::platform::MARK;

/// A variable with one of these in its name is taken for a secret.
const SECRET: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Files that a shell would run first, and options it would take over.
const STARTUP: [&str; 5] = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_XTRACEFD"];

/// Variables that ask for colours where nobody sees them.
const COLOUR: [&str; 2] = ["FORCE_COLOR", "CLICOLOR_FORCE"];

/// So that nothing waits for a person: pagers print, editors accept what they are given, and
/// questions for a password fail.
const NOBODY_THERE: [(&str, &str); 14] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "true"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
];

/// The size of another terminal than the command's own.
const SIZE: [&str; 2] = ["LINES", "COLUMNS"];

/// Which variables reach a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnvironmentRules {
    /// Names to withhold beside those that look like secrets.
    pub withhold: Vec<String>,
    /// Names to let through whatever they look like.
    pub pass: Vec<String>,
}

/// The environment of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// Nothing at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            variables: Vec::new(),
        }
    }

    /// The environment of this process, made fit for commands: see [`Environment::fit`].
    #[must_use]
    pub fn of_this_process(rules: &EnvironmentRules) -> Self {
        Self::fit(std::env::vars_os(), rules)
    }

    /// An environment made fit for commands.
    ///
    /// Variables whose names look like those of secrets are withheld, and so are the files that a
    /// shell would run first. Pagers, editors and prompts are set so that nothing waits for a
    /// person; a name in the pass list keeps its value.
    #[must_use]
    pub fn fit(
        source: impl IntoIterator<Item = (OsString, OsString)>,
        rules: &EnvironmentRules,
    ) -> Self {
        let mut environment = Self::without_secrets(source, rules);
        for (name, value) in NOBODY_THERE {
            if !(is_listed(&rules.pass, name.as_ref()) && environment.get(name).is_some()) {
                environment.set(name, value);
            }
        }
        environment
    }

    /// An environment made fit for a command on a terminal, where somebody is there: the same is
    /// withheld, but pagers, editors and prompts stay as they are.
    #[must_use]
    pub fn fit_terminal(
        source: impl IntoIterator<Item = (OsString, OsString)>,
        rules: &EnvironmentRules,
    ) -> Self {
        let mut environment = Self::without_secrets(source, rules);
        for name in SIZE {
            environment.remove(name);
        }
        environment.set("TERM", "xterm-256color");
        environment
    }

    fn without_secrets(
        source: impl IntoIterator<Item = (OsString, OsString)>,
        rules: &EnvironmentRules,
    ) -> Self {
        let mut environment = Self::empty();
        for (name, value) in source {
            if is_listed(&rules.pass, &name)
                || !(is_listed(&rules.withhold, &name) || is_withheld(&name))
            {
                environment.variables.push((name, value));
            }
        }
        environment
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        let name = name.as_ref();
        self.variables
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, value)| value.as_os_str())
    }

    /// Sets a variable.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let (name, value) = (name.into(), value.into());
        self.remove(&name);
        self.variables.push((name, value));
    }

    /// Takes a variable away.
    pub fn remove(&mut self, name: impl AsRef<OsStr>) {
        let name = name.as_ref();
        self.variables.retain(|(other, _)| other != name);
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn is_listed(list: &[String], name: &OsStr) -> bool {
    list.iter().any(|other| OsStr::new(other) == name)
}

fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let upper = name.to_ascii_uppercase();
    SECRET.iter().any(|word| upper.contains(word))
        || [&STARTUP[..], &COLOUR].concat().contains(&&*name)
        || name == MARK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(source: &[(&str, &str)], withhold: &[&str], pass: &[&str]) -> Environment {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let rules = EnvironmentRules {
            withhold: list(withhold),
            pass: list(pass),
        };
        let source = source
            .iter()
            .map(|&(name, value)| (name.into(), value.into()));
        Environment::fit(source, &rules)
    }

    #[test]
    fn secrets_are_withheld() {
        for name in [
            "ANTHROPIC_API_KEY",
            "github_token",
            "My_Secret_1",
            "PGPASSWORD",
            "DB_PASSWD",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "BASH_ENV",
            "MINE",
        ] {
            let source = [(name, "kk"), ("FOO", "bar")];
            assert_eq!(fit(&source, &["MINE"], &[]).get(name), None, "{name}");
            let passed = fit(&source, &["MINE"], &[name]);
            assert_eq!(passed.get(name), Some("kk".as_ref()), "{name}");
            assert_eq!(passed.get("FOO"), Some("bar".as_ref()));
        }
    }

    #[test]
    fn somebody_is_at_a_terminal() {
        let source = [
            ("EDITOR", "vi"),
            ("TERM", "dumb"),
            ("COLUMNS", "200"),
            ("A_TOKEN", "kk"),
            ("MINE", "kk"),
        ];
        let rules = EnvironmentRules {
            withhold: vec!["MINE".into()],
            ..EnvironmentRules::default()
        };
        let source = source.map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::fit_terminal(source, &rules);
        let all: Vec<_> = environment.iter().collect();
        let expected = [("EDITOR", "vi"), ("TERM", "xterm-256color")];
        assert_eq!(
            all,
            expected.map(|(name, value)| (OsStr::new(name), OsStr::new(value)))
        );
    }

    #[test]
    fn nobody_is_there() {
        let environment = fit(
            &[("PAGER", "less"), ("EDITOR", "vi"), ("TERM", "xterm")],
            &[],
            &["EDITOR"],
        );
        assert_eq!(environment.get("PAGER"), Some("cat".as_ref()));
        assert_eq!(environment.get("TERM"), Some("dumb".as_ref()));
        assert_eq!(environment.get("EDITOR"), Some("vi".as_ref()));
        assert_eq!(
            environment
                .iter()
                .filter(|(name, _)| *name == "PAGER")
                .count(),
            1
        );
    }
}
