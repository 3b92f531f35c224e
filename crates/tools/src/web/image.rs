//! Pictures: what they are and how large, read from their first bytes.

use tooloop_model::image_size;

/// The largest picture in bytes: base64 makes five megabytes of it, which is what models take.
const MAX_BYTES: usize = 3_750_000;

/// The longest side in pixels.
const MAX_SIDE: u32 = 8_000;

/// The media type of a picture that a model takes; else why it takes it not, or nothing if it is no
/// picture of a known kind.
pub(crate) fn check(bytes: &[u8]) -> Option<Result<&'static str, String>> {
    let media_type = media_type(bytes)?;
    if bytes.len() > MAX_BYTES {
        return Some(Err(format!(
            "it has {} bytes, and {MAX_BYTES} is the most",
            bytes.len()
        )));
    }
    Some(match image_size(bytes) {
        Some((width, height)) if width.max(height) > MAX_SIDE => Err(format!(
            "it has {width} x {height} pixels, and {MAX_SIDE} a side is the most"
        )),
        Some((0, _) | (_, 0)) | None => Err("it is damaged".into()),
        Some(_) => Ok(media_type),
    })
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let riff = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if riff => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    #[test]
    fn pictures_are_known_by_their_bytes() {
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x10\x00\x20";
        let extended = b"RIFF____WEBPVP8X____\0\0\0\0\x0f\0\0\x1f\0\0";
        let lossless = b"RIFF____WEBPVP8L____\x2f\x0f\xc0\x07\0";
        let table: [(&[u8], &str, (u32, u32)); 5] = [
            (&png(16, 32), "image/png", (16, 32)),
            (b"GIF89a\x10\0\x20\0", "image/gif", (16, 32)),
            (jpeg, "image/jpeg", (32, 16)),
            (extended, "image/webp", (16, 32)),
            (lossless, "image/webp", (16, 32)),
        ];
        for (bytes, kind, sides) in table {
            assert_eq!(media_type(bytes), Some(kind));
            assert_eq!(image_size(bytes), Some(sides), "{kind}");
            assert_eq!(check(bytes), Some(Ok(kind)));
            let half = &bytes[..bytes.len() / 2 + 3];
            assert!(matches!(check(half), None | Some(Err(_))), "{kind}");
        }
        assert_eq!(check(b"%PDF-1.7"), None);
    }

    #[test]
    fn limits_are_kept() {
        let words = |bytes: &[u8]| check(bytes).unwrap().unwrap_err();
        assert_eq!(
            words(&png(8_001, 5)),
            "it has 8001 x 5 pixels, and 8000 a side is the most"
        );
        assert_eq!(words(&png(0, 5)), "it is damaged");
        let mut large = png(5, 5);
        large.resize(MAX_BYTES + 1, 0);
        assert_eq!(
            words(&large),
            "it has 3750001 bytes, and 3750000 is the most"
        );
        large.truncate(MAX_BYTES);
        assert_eq!(check(&large), Some(Ok("image/png")));
    }
}
