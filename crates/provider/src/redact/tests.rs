use proptest::prelude::*;
use serde_json::json;

use super::*;

fn plain(text: &str) -> String {
    Redactor::default().redact(text).into_owned()
}

#[test]
fn secrets_that_show_by_their_look() {
    let letters = "aB3".repeat(12);
    let token = format!("eyJ{letters}.eyJ{letters}.{letters}");
    for secret in [
        format!("sk-ant-api03-{letters}"),
        format!("sk-proj-{letters}"),
        format!("AIza{}", &letters[..35]),
        format!("ghp_{letters}"),
        format!("gho_{letters}"),
        format!("github_pat_{letters}"),
        format!("xoxb-12345-{letters}"),
        format!("glpat-{letters}"),
        "AKIAIOSFODNN7EXAMPLE".into(),
        token,
    ] {
        for (before, after) in [
            ("", ""),
            ("key=", "\n"),
            ("\"", "\","),
            ("ä", "ä"),
            // As it stands in the text of a JSON string.
            (r"\n", r"\n"),
            (r"\u003d", r"\u0026"),
            ("https://user:", "@host"),
        ] {
            let text = format!("{before}{secret}{after}");
            assert_eq!(plain(&text), format!("{before}[redacted]{after}"));
        }
    }
}

#[test]
fn the_word_bearer_stays() {
    for (text, expected) in [
        (
            "Authorization: Bearer abc123DEF",
            "Authorization: Bearer [redacted]",
        ),
        ("bearer\tlowercaselettersalone\n", "bearer\t[redacted]\n"),
        ("Bearer abc123/+x==, x", "Bearer [redacted], x"),
        ("the bearer of bad tidings", "the bearer of bad tidings"),
        ("bearer authentication is", "bearer authentication is"),
        ("Bearer [redacted]", "Bearer [redacted]"),
    ] {
        assert_eq!(plain(text), expected);
    }
}

#[test]
fn private_keys_with_and_without_their_end() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7\n";
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let begin = format!("-----BEGIN {kind}PRIVATE KEY-----");
        let end = format!("-----END {kind}PRIVATE KEY-----");
        let whole = format!("cat key\n{begin}\n{body}{end}\n$");
        assert_eq!(plain(&whole), "cat key\n[redacted]\n$");
        let escaped = whole.replace('\n', r"\n");
        assert_eq!(plain(&escaped), r"cat key\n[redacted]\n$");
        let cut = format!("({begin}\n{body})");
        assert_eq!(plain(&cut), "([redacted])");
    }
    let block =
        format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n{body}-----END PGP PRIVATE KEY BLOCK-----");
    assert_eq!(plain(&block), "[redacted]");
    let public = format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----");
    assert_eq!(plain(&public), public);
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    for text in [
        "a task-list-of-things-to-do-with-care",
        "sk-learn-is-a-package-for-python-users",
        "sk-ant-...",
        "AIza",
        "AKIAIOSFODNN7EXAMPLES",
        "eyJhbGciOi.not-a-token",
        "ghp_short",
        "commit 94ba95b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6",
        "[redacted]",
        "",
    ] {
        assert!(matches!(Redactor::default().redact(text), Cow::Borrowed(same) if same == text));
    }
}

#[test]
fn secrets_that_are_known() {
    let redactor = Redactor::new([
        "hunter2-hunter2".into(),
        "2-hunter2 and more".into(),
        "with \"quotes\"\n".into(),
        "short".into(),
        "12345678".into(),
        "redacted".into(),
    ]);
    for (text, expected) in [
        ("hunter2-hunter2", "[redacted]"),
        ("xhunter2-hunter2x", "x[redacted]x"),
        // Two that overlap: nothing of either is left.
        ("<hunter2-hunter2 and more>", "<[redacted]>"),
        ("a with \"quotes\" b", "a [redacted] b"),
        (r#"{"a":"with \"quotes\" b"}"#, r#"{"a":"[redacted] b"}"#),
        ("short redacted [redacted]", "short redacted [redacted]"),
    ] {
        assert_eq!(redactor.redact(text), expected);
    }
    assert_eq!(
        Redactor::off().redact("ghp_0123456789abcdefghij"),
        "ghp_0123456789abcdefghij"
    );
    assert!(!format!("{redactor:?}").contains("hunter2"));
}

#[test]
fn json_stays_json() {
    let redactor = Redactor::new(["12345678".into(), "hunter2hunter2".into()]);
    let mut value = json!({"pin": 12_345_678, "a hunter2hunter2": ["hunter2hunter2", null, 1]});
    redactor.redact_json(&mut value);
    assert_eq!(
        value,
        json!({"pin": "[redacted]", "a [redacted]": ["[redacted]", null, 1]})
    );
    for (text, expected) in [
        (r#"{"a" : 1.50}"#, r#"{"a" : 1.50}"#),
        (r#"{"a" : "hunter2hunter2"}"#, r#"{"a" : "[redacted]"}"#),
        (r#"{"a" : 12345678}"#, r#"{"a":"[redacted]"}"#),
        // An escape hides it.
        (r#"{"a" : "hunter2\u0068unter2"}"#, r#"{"a":"[redacted]"}"#),
        ("half {\"a\": \"hunter2hunter2", "half {\"a\": \"[redacted]"),
    ] {
        assert_eq!(redactor.redact_json_text(text), expected);
    }
}

#[test]
fn variables_hold_secrets_and_plain_words() {
    let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----";
    let variables = [
        ("MY_API_KEY", "value-of-the-key"),
        ("OTHER_KEY", "function"),
        ("A_PASSWORD", "short"),
        ("LOGIN", "--key sk_live_4eC39HqLyjWDarjtT1"),
        ("PRIVATE", pem),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let redactor = Redactor::of_variables(variables);
    assert_eq!(
        redactor.redact_known("value-of-the-key, function, short"),
        "[masked********], function, short"
    );
    assert_eq!(
        redactor.redact_known("k=sk_live_4eC39HqLyjWDarjtT1\n  2\tMIIEvQIBADANBgkqhkiG"),
        "k=[masked******************]\n  2\t[masked************]"
    );
    assert!(Redactor::recognizes("sk_live_4eC39HqLyjWDarjtT1") && Redactor::recognizes(pem));
    assert!(!Redactor::recognizes("some people") && !Redactor::recognizes("de-latin1-x"));
}

#[test]
fn a_mark_is_recognized_by_its_length() {
    let redactor = Redactor::new(["hunter2-hunter2".into(), "12345678".into()]);
    for (text, expected) in [
        ("hunter2-hunter2", "[masked*******]"),
        ("a 12345678 b", "a [masked] b"),
        // In base64, in JSON, and two on a line.
        ("x aHVudGVyMi1odW50ZXIy", "x [masked************]"),
        ("hunter2-hunter212345678", "[masked*******][masked]"),
    ] {
        let masked = redactor.redact_known(text);
        assert_eq!(masked, expected);
        assert!(redactor.mark_in(&masked).is_some(), "{masked}");
        assert_eq!(redactor.redact_known(&masked), masked);
    }
    for text in [
        "[masked*]",
        "[masked",
        "[masked****",
        "[redacted]",
        "masked",
        "",
    ] {
        assert_eq!(redactor.mark_in(text), None, "{text}");
    }
    assert_eq!(redactor.mark_in("[masked*] [masked]x"), Some("[masked]"));
    assert_eq!(Redactor::default().mark_in("[masked]"), None);
}

/// Pieces that secrets are made of, so that random texts hold many, whole and broken.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("sk-ant-".to_owned()),
        Just("sk-".into()),
        Just("AIza".into()),
        Just("ghp_".into()),
        Just("AKIA".into()),
        Just("eyJ".into()),
        Just(".".into()),
        Just("Bearer ".into()),
        Just("-----BEGIN ".into()),
        Just("-----END ".into()),
        Just("RSA PRIVATE KEY".into()),
        Just("-----".into()),
        Just("\\n".into()),
        Just("\\u00".into()),
        Just("known-secret".into()),
        Just("secret-known".into()),
        Just("[redacted]".into()),
        "[a-zA-Z0-9_-]{0,24}",
        "\\PC{0,4}",
        " |\n|\"|,",
    ]
}

proptest! {
    #[test]
    fn whatever_stands_there(pieces in prop::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        let redactor = Redactor::new(["known-secret".into(), "secret-known".into()]);
        let clean = redactor.redact(&text).into_owned();
        prop_assert!(!clean.contains("known-secret") && !clean.contains("secret-known"));
        // What stays stands in the text, in the same order.
        let mut rest = text.as_str();
        for kept in clean.split(REDACTED) {
            let at = rest.find(kept);
            prop_assert!(at.is_some(), "{kept:?} is not in the rest of {text:?}");
            rest = &rest[at.unwrap() + kept.len()..];
        }
    }

    #[test]
    fn json_text_that_is_json_stays_so(pieces in prop::collection::vec(piece(), 0..20)) {
        let redactor = Redactor::new(["known-secret".into()]);
        let json = json!({ "a": pieces.concat(), "b": pieces }).to_string();
        let clean = redactor.redact_json_text(&json);
        prop_assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{clean}");
        prop_assert!(!clean.contains("known-secret"));
    }
}

/// What would take hours if anything were looked at again for each beginning.
#[test]
fn texts_that_begin_again_and_again_are_no_trouble() {
    for piece in [
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY----- ",
        "-----BEGIN RSA PRIVATE KEY-----\u{e4}",
        "-----BEGIN ",
        "eyJaaaaaaaaaa.",
        "sk-",
        "bearer ",
        "\\u",
        "known-secret-known-",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        let redactor = Redactor::new(["known-secret".into(), "secret-known".into()]);
        assert!(redactor.redact(&text).len() <= text.len());
    }
}
