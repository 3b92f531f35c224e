//! From bytes to text, as people's editors save it.

use tooloop_model::decode_text;

/// The text of a file, with plain line ends; `is_cut` says that there is more of it. Returns with it
/// whether some bytes were no text.
///
/// # Errors
/// It is no text at all.
pub(super) fn decode(bytes: &[u8], is_cut: bool) -> Result<(String, bool), &'static str> {
    let bytes = match std::str::from_utf8(bytes) {
        // A character that the cut went through.
        Err(error) if is_cut && error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        Ok(_) | Err(_) => bytes,
    };
    let decoded = decode_text(bytes).map_err(|_| "it is not text")?;
    let lossy = decoded.first_bad_byte.is_some();
    let text = decoded.text.replace("\r\n", "\n").replace('\r', "\n");
    Ok((text.trim_matches('\n').trim_end().to_owned(), lossy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_editors_save_them() {
        type Decoded = Result<(&'static str, bool), &'static str>;
        let table: [(&[u8], bool, Decoded); 11] = [
            (b"plain\n", false, Ok(("plain", false))),
            (
                b"\n\n  in\ntwo lines \n\n",
                false,
                Ok(("  in\ntwo lines", false)),
            ),
            (b"\xef\xbb\xbfmarked\n", false, Ok(("marked", false))),
            (
                b"one\r\ntwo\rthree\r\n",
                false,
                Ok(("one\ntwo\nthree", false)),
            ),
            (b"\xff\xfeh\0i\0\r\0\n\0", false, Ok(("hi", false))),
            (b"\xfe\xff\0h\0i", false, Ok(("hi", false))),
            (b"\xff\xfe\0\xd8x\0", false, Ok(("\u{fffd}x", true))),
            (b"caf\xe9", false, Ok(("caf\u{fffd}", true))),
            (b"caf\xc3", true, Ok(("caf", false))),
            (b"a\0b", false, Err("it is not text")),
            (b"", false, Ok(("", false))),
        ];
        for (bytes, is_cut, expected) in table {
            let decoded = decode(bytes, is_cut);
            let decoded = decoded
                .as_ref()
                .map(|(text, lossy)| (text.as_str(), *lossy));
            assert_eq!(decoded.map_err(|words| *words), expected, "{bytes:?}");
        }
    }
}
