//! JSON written by hand out of finished pieces.

/// Appends a JSON string.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&byte| needs_escape(byte)) {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, tail)) = tail.split_first() else {
            return;
        };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = tail;
    }
    out.extend_from_slice(rest);
}

const fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Appends a comma unless `out` is at the beginning of a list or an object.
pub(crate) fn push_comma(out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'[' | b'{')) {
        out.push(b',');
    }
}

/// Appends `"key":`, after a comma where one is needed.
pub(crate) fn push_key(out: &mut Vec<u8>, key: &str) {
    push_comma(out);
    push_string(out, key);
    out.push(b':');
}

/// Appends `"key":"text"`.
pub(crate) fn push_text_field(out: &mut Vec<u8>, key: &str, text: &str) {
    push_key(out, key);
    push_string(out, text);
}

/// Appends `"key":raw`, where `raw` is JSON already.
pub(crate) fn push_raw_field(out: &mut Vec<u8>, key: &str, raw: &str) {
    push_key(out, key);
    out.extend_from_slice(raw.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_as_they_were() {
        let all: String = (0_u8..128).map(char::from).chain("é日👩‍👧".chars()).collect();
        let mut out = Vec::new();
        push_string(&mut out, &all);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), all);
    }
}
