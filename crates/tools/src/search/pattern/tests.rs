use super::*;

#[test]
fn folders_that_lead_out_are_taken_from_a_pattern() {
    for (pattern, base, rest) in [
        ("*.rs", None, "*.rs"),
        ("src/*.rs", None, "src/*.rs"),
        ("./*.rs", None, "*.rs"),
        ("/etc/ssl/*.conf", Some("/etc/ssl"), "*.conf"),
        ("/etc/hosts", Some("/etc"), "hosts"),
        ("/*", Some("/"), "*"),
        ("/a/{b,c}/d", Some("/a"), "{b,c}/d"),
        ("../a/*", Some(".."), "a/*"),
        (".././../*", Some("../.."), "*"),
        ("/a/../b/*", Some("/a/../b"), "*"),
        ("..", None, ".."),
        ("", None, ""),
    ] {
        assert_eq!(split(pattern), (base.map(PathBuf::from), rest), "{pattern}");
    }
}

#[test]
fn braces_are_taken_apart() {
    let many = "{a,b}".repeat(7);
    for (pattern, expanded) in [
        ("a", &["a"][..]),
        ("{b,a}c", &["ac", "bc"]),
        ("{,a}{b,c{d,e}}", &["ab", "acd", "ace", "b", "cd", "ce"]),
        (r"\{a,b\}", &[r"\{a,b\}"]),
        ("[{]a,b[}]", &["[{]a,b[}]"]),
        ("a,b", &["a,b"]),
        (&many, &[]),
    ] {
        let mut found = expand(pattern);
        found.sort();
        assert_eq!(found, expanded, "{pattern}");
    }
}

#[test]
fn no_folder_is_left_out_that_may_hold_a_match() {
    for (pattern, depth, folder, may) in [
        ("src/*.rs", 1, "src", true),
        ("src/*.rs", 1, "web", false),
        ("src/*.rs", 2, "deep", false),
        ("src/**", 5, "deep", true),
        ("*.rs", 5, "deep", true),
        ("*/x/*.rs", 1, "any", true),
        ("*/x/*.rs", 2, "y", true),
        ("{src,web}/*.rs", 1, "web", true),
        ("{src,web}/*.rs", 1, "lib", false),
    ] {
        let parsed = Pattern::parse(pattern).unwrap();
        let found = parsed.may_be_below(OsStr::new(folder), depth);
        assert_eq!(found, may, "{pattern} {depth} {folder}");
    }
}

#[test]
fn an_error_shows_where() {
    for (pattern, error) in [
        (
            "src/[ab",
            "invalid pattern: a [ is not closed (write [[] to find a [ itself)\n    src/[ab\n        ^",
        ),
        (
            "src/{a,{b}",
            "invalid pattern: a { is not closed (write [{] to find a { itself)\n    src/{a,{b}\n        ^",
        ),
        (
            "{a}b}c",
            "invalid pattern: a } closes nothing (write [}] to find a } itself)\n    {a}b}c\n        ^",
        ),
        (
            "a[z-b]",
            "invalid pattern: the range z-b is the wrong way round\n    a[z-b]\n      ^",
        ),
        (
            r"ab\",
            "invalid pattern: a \\ at the end escapes nothing\n    ab\\\n      ^",
        ),
        (
            "ä[",
            "invalid pattern: a [ is not closed (write [[] to find a [ itself), at byte 2: ä[",
        ),
        (
            "a/../b",
            "a pattern can hold `..` only at its beginning: a/../b",
        ),
        ("./", "the pattern is empty: ** stands for every file"),
    ] {
        assert_eq!(Pattern::parse(pattern).unwrap_err(), error, "{pattern}");
    }
}
