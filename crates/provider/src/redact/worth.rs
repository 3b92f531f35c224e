//! Whether the value of a variable with the name of a secret is one.
//!
//! What is taken for a secret is taken out wherever it stands, so a word that is written everywhere
//! must not be.

use std::path::Path;

/// Words that stand where a secret might, and in any program.
const WORDS: [&str; 22] = [
    "anonymous",
    "changeme",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "keychain",
    "keyring",
    "localhost",
    "optional",
    "password",
    "placeholder",
    "plaintext",
    "postgres",
    "postgresql",
    "production",
    "required",
    "testtest",
    "undefined",
    "username",
    "workspace",
];

/// Whether a value is worth to be taken out.
pub(super) fn is_secret(value: &str) -> bool {
    let value = value.trim();
    let is_word = WORDS.iter().any(|word| value.eq_ignore_ascii_case(word));
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".,:+-_".contains(&byte));
    let is_repeated = value.bytes().all(|byte| value.bytes().next() == Some(byte));
    let is_path = value.starts_with(['/', '~', '.'])
        && (value.starts_with("~/") || value.starts_with("./") || Path::new(value).exists());
    let is_address = value.contains("://") && !value.contains(['@', '?', '=']) && words_only(value);
    let is_long = value.len() >= super::SHORTEST;
    is_long
        && !(is_word || is_number || is_repeated || is_path || is_address || is_plain_word(value))
}

/// Whether a value is a word, or two with a separator, as ordinary text holds it: `function`,
/// `lm-studio`. To hide it would make files unreadable, and a key has digits.
pub(crate) fn is_plain_word(value: &str) -> bool {
    /// A longer run of letters is no word.
    const LONGEST: usize = 12;
    let is_upper = !value.bytes().any(|byte| byte.is_ascii_lowercase());
    let is_word = |part: &str| {
        let tail = part.get(1..).unwrap_or_default();
        (1..=LONGEST).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphabetic())
            && (is_upper || tail.bytes().all(|byte| byte.is_ascii_lowercase()))
    };
    let mut parts = value.trim().split(['-', '_', '.', ' ']);
    parts.clone().count() <= 2 && parts.all(is_word)
}

/// Whether a value is an address that works as a key: one of a webhook with a part that only a
/// machine would write.
pub(super) fn is_key_address(value: &str) -> bool {
    let value = value.trim();
    let Some((scheme, rest)) = value.split_once("://") else {
        return false;
    };
    let mut parts = rest.split(|char: char| !char.is_ascii_alphanumeric());
    let names_hook = parts.clone().any(|part| {
        let part = part.to_ascii_lowercase();
        ["hook", "hooks", "webhook", "webhooks"].contains(&part.as_str())
    });
    scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
        && names_hook
        && parts.any(|part| part.len() >= 16 && part.bytes().any(|byte| byte.is_ascii_digit()))
}

/// The lines of a secret that has several: a file or a command may show them apart.
pub(super) fn lines(value: &str) -> impl Iterator<Item = &str> {
    const LEAST: usize = 16;
    let is_line = |line: &&str| line.len() >= LEAST && !line.starts_with("-----");
    let has_lines = value.contains('\n');
    let lines = value.lines().map(str::trim);
    lines.filter(move |line| has_lines && is_line(line) && is_secret(line))
}

/// Whether an address has no part that only a machine would write.
fn words_only(address: &str) -> bool {
    address
        .split(['/', ':', '.', '-', '_'])
        .all(|part| part.len() < 16 || !part.bytes().any(|byte| byte.is_ascii_digit()))
}

/// The password in an address such as `scheme://user:password@host`.
pub(super) fn password(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (login, _) = authority.rsplit_once('@')?;
    let (_, password) = login.split_once(':')?;
    is_secret(password).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_places_are_no_secrets() {
        for (value, expected) in [
            ("hunter2hunter2", true),
            ("correct horse battery", true),
            ("mine-all-mine", true),
            ("CamelCaseWord", true),
            ("lm-studio", false),
            ("function", false),
            ("NOT_NEEDED", false),
            ("kk-AAAAAAAA", true),
            ("/abcdEFGH+1234", true),
            ("postgres://app:hunter2hunter2@db.corp/app", true),
            ("https://hooks.example.com/T00/a8f7c6b5d4e3f2a1b0c9", true),
            ("true", false),
            ("LocalHost", false),
            ("password", false),
            ("1234567890", false),
            ("2026-11-30", false),
            ("10.0.0.1:8080", false),
            ("xxxxxxxxxxxx", false),
            ("/etc/passwd", false),
            ("~/.ssh/id_rsa", false),
            ("./key.json", false),
            ("https://login.example.com/realms/main", false),
            ("", false),
        ] {
            assert_eq!(is_secret(value), expected, "{value}");
        }
        for (value, expected) in [
            ("https://hooks.example.com/T00/a8f7c6b5d4e3f2a1b0c9", true),
            (
                "https://chat.example.com/api/webhooks/123456789012345678/x",
                true,
            ),
            ("https://hooks.example.com/docs", false),
            ("https://ci.example.com/build/a8f7c6b5d4e3f2a1b0c9", false),
            ("hooks/a8f7c6b5d4e3f2a1b0c9", false),
        ] {
            assert_eq!(is_key_address(value), expected, "{value}");
        }
        let text = "-----BEGIN X-----\nMIIEvQIBADANBgkq\nshort\n-----END X-----";
        assert_eq!(lines(text).collect::<Vec<_>>(), ["MIIEvQIBADANBgkq"]);
        assert_eq!(lines("MIIEvQIBADANBgkq").count(), 0);
        assert_eq!(password("a://u:hunter2hunter2@h/x"), Some("hunter2hunter2"));
        assert_eq!(password("a://u:p%40ss:word9@h"), Some("p%40ss:word9"));
        assert_eq!(password("a://u:postgres@h"), None);
        assert_eq!(password("a://u@h/x:y@z"), None);
    }
}
