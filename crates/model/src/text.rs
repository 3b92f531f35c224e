//! Decodes text that a person hands over: prompts, option files, instructions.

/// Text, and what was wrong with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedText {
    /// The text without its byte order mark. U+FFFD stands for what is no text.
    pub text: String,
    /// The first byte that is no text in this encoding, counted from 1.
    pub first_bad_byte: Option<usize>,
}

/// Bytes that are no text at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// A NUL character.
    #[error("byte {0} is NUL, so this is not text: save it as UTF-8")]
    Nul(usize),
}

/// Decodes UTF-8, or UTF-16 with a byte order mark.
///
/// # Errors
/// The text holds a NUL character: no request may.
pub fn decode_text(bytes: &[u8]) -> Result<DecodedText, NotText> {
    let (decoded, width) = match bytes {
        [0xff, 0xfe, rest @ ..] => (wide(rest, u16::from_le_bytes), 2),
        [0xfe, 0xff, rest @ ..] => (wide(rest, u16::from_be_bytes), 2),
        [0xef, 0xbb, 0xbf, rest @ ..] => (narrow(rest, 3), 1),
        bytes => (narrow(bytes, 0), 1),
    };
    if decoded.text.contains('\0') {
        let nul = bytes
            .chunks(width)
            .position(|unit| unit.iter().all(|byte| *byte == 0));
        let at = nul.unwrap_or_default().saturating_mul(width);
        return Err(NotText::Nul(at.saturating_add(1)));
    }
    Ok(decoded)
}

fn narrow(bytes: &[u8], mark: usize) -> DecodedText {
    let bad = std::str::from_utf8(bytes).err();
    DecodedText {
        text: String::from_utf8_lossy(bytes).into_owned(),
        first_bad_byte: bad.map(|error| {
            let before = error.valid_up_to().saturating_add(mark);
            before.saturating_add(1)
        }),
    }
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> DecodedText {
    let (pairs, rest) = bytes.as_chunks();
    let mut text = String::with_capacity(pairs.len());
    let mut first_bad_byte = None;
    // The mark is two bytes.
    let mut at = 3_usize;
    for decoded in char::decode_utf16(pairs.iter().map(|pair| unit(*pair))) {
        let character = decoded.unwrap_or_else(|_| {
            first_bad_byte.get_or_insert(at);
            char::REPLACEMENT_CHARACTER
        });
        text.push(character);
        at = at.saturating_add(character.len_utf16().saturating_mul(2));
    }
    if !rest.is_empty() {
        first_bad_byte.get_or_insert(at);
        text.push(char::REPLACEMENT_CHARACTER);
    }
    DecodedText {
        text,
        first_bad_byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_as_editors_save_it() {
        let table: [(&[u8], &str, Option<usize>); 12] = [
            (b"hi\r\n", "hi\r\n", None),
            (b"", "", None),
            (b"\xef\xbb\xbfhi", "hi", None),
            (b"\xef\xbb\xbf\xe9", "\u{fffd}", Some(4)),
            (b"\xff\xfeh\0i\0", "hi", None),
            (b"\xfe\xff\0h\0i", "hi", None),
            (b"\xff\xfe", "", None),
            (b"\xff\xfe\x3d\xd8\x00\xdex\0", "\u{1f600}x", None),
            (b"\xff\xfeh\0\0\xd8x\0", "h\u{fffd}x", Some(5)),
            (b"\xff\xfeh\0i", "h\u{fffd}", Some(5)),
            (b"caf\xe9 bytes", "caf\u{fffd} bytes", Some(4)),
            (b"\xff\xff", "\u{fffd}\u{fffd}", Some(1)),
        ];
        for (bytes, text, first_bad_byte) in table {
            let expected = DecodedText {
                text: text.into(),
                first_bad_byte,
            };
            assert_eq!(decode_text(bytes), Ok(expected), "{bytes:?}");
        }
        let nuls: [(&[u8], usize); 4] = [
            (b"a\0b", 2),
            (b"\xff\xfea\0\0\0", 5),
            (b"h\0i\0", 2),
            (b"caf\xe9 \xff\0", 7),
        ];
        for (bytes, at) in nuls {
            assert_eq!(decode_text(bytes), Err(NotText::Nul(at)), "{bytes:?}");
        }
    }
}
