//! Keys by name, and the bytes that they send.

use tooloop_tool::ToolError;

/// Names that models write, and the letter or number in what the key sends.
const CURSOR: [(&str, char); 6] = [
    ("up", 'A'),
    ("down", 'B'),
    ("right", 'C'),
    ("left", 'D'),
    ("home", 'H'),
    ("end", 'F'),
];

const NUMBERED: [(&str, u8); 12] = [
    ("insert", 2),
    ("delete", 3),
    ("pageup", 5),
    ("pagedown", 6),
    ("f5", 15),
    ("f6", 17),
    ("f7", 18),
    ("f8", 19),
    ("f9", 20),
    ("f10", 21),
    ("f11", 23),
    ("f12", 24),
];

const PLAIN: [(&str, &str); 14] = [
    ("enter", "\r"),
    ("return", "\r"),
    ("tab", "\t"),
    ("backtab", "\x1b[Z"),
    ("shift-tab", "\x1b[Z"),
    ("esc", "\x1b"),
    ("escape", "\x1b"),
    ("backspace", "\x7f"),
    ("space", " "),
    ("f1", "\x1bOP"),
    ("f2", "\x1bOQ"),
    ("f3", "\x1bOR"),
    ("f4", "\x1bOS"),
    ("ctrl-space", "\0"),
];

/// What typing a text sends: a line end is the enter key, all else goes as it is.
pub(super) fn text(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
}

/// What a key sends. Programs may ask for another form of the cursor keys.
pub(super) fn key(name: &str, application_cursor: bool) -> Result<Vec<u8>, ToolError> {
    let lower = name.trim().to_ascii_lowercase().replace('+', "-");
    if let Some((_, sent)) = PLAIN.iter().find(|(key, _)| *key == lower) {
        return Ok(sent.as_bytes().to_vec());
    }
    if let Some((_, letter)) = CURSOR.iter().find(|(key, _)| *key == lower) {
        let introducer = if application_cursor { 'O' } else { '[' };
        return Ok(format!("\x1b{introducer}{letter}").into_bytes());
    }
    let number = lower.replace("page-", "page").replace("pgup", "pageup");
    let number = number.replace("pgdn", "pagedown");
    if let Some((_, number)) = NUMBERED.iter().find(|(key, _)| *key == number) {
        return Ok(format!("\x1b[{number}~").into_bytes());
    }
    let control = lower
        .strip_prefix("ctrl-")
        .or_else(|| lower.strip_prefix("c-"))
        .or_else(|| lower.strip_prefix('^'));
    if let Some(&[byte]) = control.map(str::as_bytes)
        && (byte.is_ascii_lowercase() || b"[\\]^_".contains(&byte))
    {
        return Ok(vec![byte & 0x1f]);
    }
    if let Some(with_alt) = lower.strip_prefix("alt-") {
        // The letter as it was written: with shift it is another key.
        let as_written = name.trim().get(4..).unwrap_or(with_alt);
        let mut sent = vec![0x1b];
        if as_written.chars().count() == 1 {
            sent.extend_from_slice(as_written.as_bytes());
        } else {
            sent.extend(key(with_alt, application_cursor)?);
        }
        return Ok(sent);
    }
    Err(ToolError::Failed(format!(
        "there is no key {name:?}: keys are enter, tab, backtab, esc, backspace, delete, insert, \
         space, up, down, left, right, home, end, pageup, pagedown, f1 to f12, ctrl-a to ctrl-z \
         and alt-x; text goes into input"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bytes() {
        for (name, sent) in [
            ("enter", "\r"),
            ("Enter", "\r"),
            ("esc", "\x1b"),
            ("ctrl-c", "\x03"),
            ("Ctrl+D", "\x04"),
            ("C-z", "\x1a"),
            ("ctrl-[", "\x1b"),
            ("ctrl-\\", "\x1c"),
            ("up", "\x1b[A"),
            ("Page-Up", "\x1b[5~"),
            ("pgdn", "\x1b[6~"),
            ("f1", "\x1bOP"),
            ("f12", "\x1b[24~"),
            ("shift-tab", "\x1b[Z"),
            ("alt-x", "\x1bx"),
            ("alt-X", "\x1bX"),
            ("alt-enter", "\x1b\r"),
        ] {
            assert_eq!(key(name, false).unwrap(), sent.as_bytes(), "{name}");
        }
        assert_eq!(key("up", true).unwrap(), b"\x1bOA");
        for name in ["", "ctrl-", "ctrl-cc", "hello", "f13", "ctrl-1", "alt-"] {
            let error = key(name, false).unwrap_err().to_string();
            assert!(error.contains("there is no key"), "{error}");
        }
        assert_eq!(text("a\nb\r\nc\r\x03"), b"a\rb\rc\r\x03");
    }
}
