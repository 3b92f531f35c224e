//! What a command finds in its environment.

use std::ffi::{OsStr, OsString};

use crate::platform::MARK;

/// A variable is taken for a secret if one of these is a word of its name (`API_KEY`, `token2`), in
/// the singular or in the plural, or the end of a word (`APIKEY`, `authToken`).
const SECRET_WORDS: [&str; 11] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "WEBHOOK",
    "COOKIE",
    "PASS",
    "PWD",
];

/// The same for these, as whole words only.
const SECRET_WHOLE_WORDS: [&str; 4] = ["BEARER", "CRED", "CREDS", "APIKEYID"];

/// The same for these at the end of a name. Elsewhere in it the value decides.
const SECRET_ENDS: [&str; 4] = ["PAT", "JWT", "AUTH", "DSN"];

/// With one of these as a word of the name the value decides.
const VALUE_DECIDES: [&str; 6] = ["PAT", "JWT", "AUTH", "DSN", "PRIVATE", "SK"];

/// Longer words that end like a word for a secret.
const ORDINARY_WORDS: [&str; 14] = [
    "PWD",
    "OLDPWD",
    "MONKEY",
    "DONKEY",
    "TURKEY",
    "HOCKEY",
    "WHISKEY",
    "HOTKEY",
    "COMPASS",
    "BYPASS",
    "TRESPASS",
    "OVERPASS",
    "UNDERPASS",
    "SURPASS",
];

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
    /// by the list, or because their value is an address with a login in it.
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

    /// Removes the variables that name start-up files and options of a shell, even if they are passed on.
    pub fn remove_startup_files(&mut self) {
        for name in STARTUP {
            self.remove(name);
        }
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
    let name = name.to_string_lossy();
    let value = value.to_string_lossy();
    // Without its proxy a command would reach nothing.
    let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
    names_a_secret(&name, &value) || !is_proxy && holds_login(&value)
}

/// Whether a name is that of a secret, with a value of doubtful names.
fn names_a_secret(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let words = upper.split(|char: char| !char.is_ascii_alphabetic());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_lone = words.len() == 1;
    let names = |word: &str| {
        let singular = word.strip_suffix('S').unwrap_or(word);
        let is_word = |secret: &&str| *secret == word || *secret == singular;
        let ends = |secret: &&str| word.ends_with(secret) || singular.ends_with(secret);
        // The working directory.
        let is_ordinary =
            |one: &&str| (*one != "PWD" || is_lone) && (*one == word || *one == singular);
        !ORDINARY_WORDS.iter().any(is_ordinary)
            && (SECRET_WHOLE_WORDS.iter().any(is_word) || SECRET_WORDS.iter().any(ends))
    };
    let ends = words.last().is_some_and(|last| SECRET_ENDS.contains(last));
    let is_doubtful = || words.iter().any(|word| VALUE_DECIDES.contains(word));
    words.iter().any(|word| names(word)) || ends || is_doubtful() && is_machine_made(value)
}

/// Whether a value has a part that only a machine would write, and is no path.
fn is_machine_made(value: &str) -> bool {
    const LEAST: usize = 12;
    let is_made = |part: &str| {
        let has = |kind: fn(&u8) -> bool| part.bytes().any(|byte| kind(&byte));
        part.len() >= LEAST && has(u8::is_ascii_alphabetic) && has(u8::is_ascii_digit)
    };
    !value.starts_with(['/', '~', '.'])
        && value
            .split(|char: char| !char.is_ascii_alphanumeric())
            .any(is_made)
}

/// Whether a value is an address with a password (`scheme://user:password@host`) or with a key for
/// a user (`scheme://key@host`). The host is another one than this machine: tests need what is
/// written there.
fn holds_login(value: &str) -> bool {
    let Some((scheme, rest)) = value.split_once("://") else {
        return false;
    };
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((login, host)) = authority.rsplit_once('@') else {
        return false;
    };
    let is_secret = match login.split_once(':') {
        Some((user, password)) => !password.is_empty() || is_machine_made(user),
        None => is_machine_made(login),
    };
    let here = ["localhost", "127.", "[::1]"];
    scheme.bytes().all(is_scheme) && is_secret && !here.iter().any(|name| host.starts_with(name))
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
            ("DBPASS", "x", true),
            ("APIKEY", "x", true),
            ("GITHUBTOKEN", "x", true),
            ("githubToken", "x", true),
            ("API_KEYS", "x", true),
            ("TOKEN2", "x", true),
            ("KEY", "x", true),
            ("CREDS", "x", true),
            ("AUTH", "x", true),
            ("BEARER", "x", true),
            ("BEARER_1", "x", true),
            ("SENTRY_DSN", "x", true),
            ("DOCKER_AUTH_CONFIG", r#"{"auth":"ZG9ja2VyOjEyMzQ1"}"#, true),
            ("AUTH_HEADER", "Basic ZG9ja2VyOjEyMzQ1", true),
            ("AUTH_METHOD", "password-file", false),
            ("AUTH_URL", "https://login.example.com/", false),
            ("STRIPE_SK", "sk_live_4eC39HqLyjWDarjtT1", true),
            ("LANGUAGE_SK", "slovak", false),
            ("PRIVATE", "MIIEvQIBADANBgkqhkiG9w0", true),
            ("NPM_PRIVATE", "true", false),
            ("KEYMAP", "de-latin1-x", false),
            ("MONKEYPATCH", "some-value-1", false),
            ("MONKEY", "x", false),
            ("DONKEYS", "x", false),
            ("AUTHORS", "some people", false),
            ("GIT_AUTHOR_NAME", "some body", false),
            ("TOKENIZERS_PARALLELISM", "false", false),
            ("SECRETARY", "x", false),
            ("COOKIECUTTER_CONFIG", "/x", false),
            ("KEYBOARD", "x", false),
            ("PASSENGER_COUNT", "2", false),
            ("BYPASS_CACHE", "1", false),
            ("MY_PWD", "x", true),
            ("GIT_URL", "https://ghp0123456789ab@git.corp/x", true),
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
