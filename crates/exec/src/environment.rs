//! What a command finds in its environment.

use std::ffi::{OsStr, OsString};

use crate::platform::MARK;

/// A variable with one of these in its name is taken for a secret.
const SECRET: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "WEBHOOK",
    "COOKIE",
];

/// So is one whose name ends in one of these, as a word of its own.
const SECRET_ENDS: [&str; 5] = ["_PASS", "_PWD", "_PAT", "_JWT", "_AUTH"];

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
                || !(is_listed(&rules.withhold, &name) || is_withheld(&name, &value))
            {
                environment.variables.push((name, value));
            }
        }
        environment
    }

    /// The variables that are withheld from commands because they are taken for secrets: by name,
    /// by the list, or because their value is an address with a password in it.
    ///
    /// An agent of keys (`SSH_AUTH_SOCK`) is none: it gives no key away, and to reach hosts with it
    /// is for rules and sandbox to judge.
    pub fn secrets(
        source: impl IntoIterator<Item = (OsString, OsString)>,
        rules: &EnvironmentRules,
    ) -> impl Iterator<Item = (OsString, OsString)> {
        source.into_iter().filter(|(name, value)| {
            !is_listed(&rules.pass, name)
                && (is_listed(&rules.withhold, name) || is_secret(name, value))
        })
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

fn is_withheld(name: &OsStr, value: &OsStr) -> bool {
    let text = name.to_string_lossy();
    is_secret(name, value) || [&STARTUP[..], &COLOUR].concat().contains(&&*text) || text == MARK
}

fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    let upper = name.to_string_lossy().to_ascii_uppercase();
    SECRET.iter().any(|word| upper.contains(word))
        || SECRET_ENDS.iter().any(|end| upper.ends_with(end))
        // Without its proxy a command would reach nothing.
        || !upper.ends_with("_PROXY") && holds_password(&value.to_string_lossy())
}

/// Whether a value is an address such as `scheme://user:password@host`, of another host than this
/// machine: what is written there is for tests, and they need it.
fn holds_password(value: &str) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else {
        return false;
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((login, host)) = authority.rsplit_once('@') else {
        return false;
    };
    let has_password = login
        .split_once(':')
        .is_some_and(|(_, password)| !password.is_empty());
    let here = ["localhost", "127.", "[::1]"];
    scheme.bytes().all(is_scheme) && has_password && !here.iter().any(|name| host.starts_with(name))
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
    fn names_and_values_tell_secrets() {
        let table = [
            ("OPENAI_API_KEY", "x", true),
            ("GITHUB_TOKEN", "x", true),
            ("AWS_ACCESS_KEY_ID", "x", true),
            ("AWS_SECRET_ACCESS_KEY", "x", true),
            ("AWS_SESSION_TOKEN", "x", true),
            ("AWS_REGION", "eu-west-1", false),
            ("MYSQL_PWD", "x", true),
            ("REDIS_PASS", "x", true),
            ("GPG_PASSPHRASE", "x", true),
            ("BITBUCKET_PAT", "x", true),
            ("npm_config__auth", "x", true),
            ("SLACK_WEBHOOK_URL", "x", true),
            ("PWD", "/x", false),
            ("OLDPWD", "/x", false),
            ("PATH", "/bin", false),
            ("COMPASS", "n", false),
            ("SSH_AUTH_SOCK", "/run/agent", false),
            ("XAUTHORITY", "/run/x", false),
            (
                "DATABASE_URL",
                "postgres://app:hunter2@db.corp:5432/app",
                true,
            ),
            (
                "DATABASE_URL",
                "postgres://app:dev@localhost:5432/app",
                false,
            ),
            ("DATABASE_URL", "postgres://app@db.corp/app", false),
            ("DATABASE_URL", "postgres://db.corp/a:b@c", false),
            ("GREETING", "see a:b@c://", false),
            ("HTTPS_PROXY", "http://me:pw@proxy.corp:3128", false),
            ("https_proxy", "http://me:pw@proxy.corp:3128", false),
        ];
        for (name, value, expected) in table {
            let source = [(OsString::from(name), OsString::from(value))];
            let rules = EnvironmentRules::default();
            let secrets: Vec<_> = Environment::secrets(source.clone(), &rules).collect();
            assert_eq!(!secrets.is_empty(), expected, "{name}={value}");
            assert_eq!(
                fit(&[(name, value)], &[], &[]).get(name).is_none(),
                expected,
                "{name}"
            );
            let passing = EnvironmentRules {
                pass: vec![name.into()],
                ..EnvironmentRules::default()
            };
            assert_eq!(Environment::secrets(source.clone(), &passing).count(), 0);
            let withholding = EnvironmentRules {
                withhold: vec![name.into()],
                ..EnvironmentRules::default()
            };
            assert_eq!(Environment::secrets(source, &withholding).count(), 1);
        }
        // Withheld, but no secrets.
        let start = [("BASH_ENV".into(), "/x".into())];
        assert_eq!(
            Environment::secrets(start, &EnvironmentRules::default()).count(),
            0
        );
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
