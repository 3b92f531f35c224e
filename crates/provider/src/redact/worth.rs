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
    is_long && !(is_word || is_number || is_repeated || is_path || is_address)
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
            ("correct horse", true),
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
        assert_eq!(password("a://u:hunter2hunter2@h/x"), Some("hunter2hunter2"));
        assert_eq!(password("a://u:p%40ss:word9@h"), Some("p%40ss:word9"));
        assert_eq!(password("a://u:postgres@h"), None);
        assert_eq!(password("a://u@h/x:y@z"), None);
    }
}
