use super::*;
use crate::search::matcher::matcher;

#[test]
fn a_long_line_is_cut_round_its_match() {
    let pattern = matcher("needle", false, false).unwrap();
    let long = "x".repeat(1000);
    for (line, begin, end, length) in [
        (format!("needle{long}"), "needlexx", "x…", 501),
        (format!("{long}needle"), "…xx", "xneedle", 501),
        (format!("{long}needle{long}"), "…xx", "xx…", 502),
        ("é".repeat(400), "éé", "éé", 400),
        (format!("{}needle", "é".repeat(800)), "…éé", "éneedle", 501),
        (format!("{}\r\n", "x".repeat(500)), "xx", "xx", 500),
        (format!("{}\n", "x".repeat(501)), "xx", "x…", 501),
    ] {
        let text = around(line.as_bytes(), &pattern);
        assert!(text.starts_with(begin), "{text}");
        assert!(text.ends_with(end), "{text}");
        assert_eq!(text.chars().count(), length, "{text}");
        assert!(!text.contains('\u{fffd}'), "{text}");
    }
}

#[test]
fn control_characters_are_shown() {
    assert_eq!(window(b"a\x1b[31m\tb\xff\r\n", 0), "a\\x1b[31m\tb\u{fffd}");
}
