//! What every codec does to a history before it writes it.

use tooloop_model::{Content, Document};

/// What stands where a message or a result would have nothing to say.
pub(crate) const NO_TEXT: &str = "(no text)";
/// What stands for the output of a tool that had none.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// A tool's name as every provider takes it. A model may have made up another; what it wrote is
/// answered with an error, but it stays in the history.
pub(crate) fn tool_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .take(64)
        .map(|character| if is_name(character) { character } else { '_' })
        .collect();
    if clean.is_empty() {
        "unknown".into()
    } else {
        clean
    }
}

pub(crate) const fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

/// The text of a document that is text, whatever its media type says about which kind.
pub(crate) fn document_text(document: &Document) -> Option<String> {
    let is_text = document.media_type.starts_with("text/")
        || document.media_type.ends_with("json")
        || document.media_type.ends_with("xml");
    if !is_text {
        return None;
    }
    String::from_utf8(decode_base64(&document.data)?).ok()
}

/// Contents that say something.
pub(crate) fn telling(contents: &[Content]) -> impl Iterator<Item = &Content> {
    contents.iter().filter(|content| !content.is_blank())
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut bits: u32 = 0;
    let mut count = 0;
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            b'\n' | b'\r' => continue,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        count += 1;
        if count == 4 {
            let [_, one, two, three] = bits.to_be_bytes();
            out.extend_from_slice(&[one, two, three]);
            bits = 0;
            count = 0;
        }
    }
    match count {
        0 => {}
        2 => {
            let [_, _, _, byte] = (bits >> 4).to_be_bytes();
            out.push(byte);
        }
        3 => {
            let [_, _, one, two] = (bits >> 2).to_be_bytes();
            out.extend_from_slice(&[one, two]);
        }
        _ => return None,
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64() {
        let decoded = |text| decode_base64(text).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(decoded("").as_deref(), Some(""));
        assert_eq!(decoded("YQ==").as_deref(), Some("a"));
        assert_eq!(decoded("YWI=").as_deref(), Some("ab"));
        assert_eq!(decoded("YWJj").as_deref(), Some("abc"));
        assert_eq!(decoded("w6nDqQ").as_deref(), Some("éé"));
        assert_eq!(decode_base64("*"), None);
        assert_eq!(decode_base64("A"), None);
    }

    #[test]
    fn names() {
        assert_eq!(tool_name("bash"), "bash");
        assert_eq!(tool_name("a b.c"), "a_b_c");
        assert_eq!(tool_name(""), "unknown");
        assert_eq!(tool_name(&"x".repeat(99)).len(), 64);
    }
}
