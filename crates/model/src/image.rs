//! The size of an image, read from its first bytes.

use crate::Image;

/// So many bytes are looked at: pictures of cameras begin with a preview and other data.
const LOOKED_AT: usize = 256 << 10;

impl Image {
    /// The longer of its sides in pixels, if its format is known and it is not damaged.
    #[must_use]
    pub fn longest_side(&self) -> Option<u32> {
        let bytes = decode(&self.data);
        let (width, height) = sides(&bytes)?;
        Some(width.max(height))
    }
}

fn sides(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG") {
        return Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?));
    }
    if bytes.starts_with(b"GIF8") {
        return Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?));
    }
    if bytes.starts_with(&[0xff, 0xd8]) {
        return jpeg(bytes);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return match bytes.get(12..16)? {
            b"VP8 " => Some((
                little(bytes, 26, 2)? & 0x3fff,
                little(bytes, 28, 2)? & 0x3fff,
            )),
            b"VP8L" => {
                let bits = little(bytes, 21, 4)?;
                Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
            }
            b"VP8X" => Some((
                little(bytes, 24, 3)?.saturating_add(1),
                little(bytes, 27, 3)?.saturating_add(1),
            )),
            _ => None,
        };
    }
    None
}

/// The size stands in the first frame header, behind segments of any length.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2_usize;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at.checked_add(1)?)?;
        let length = usize::try_from(big(bytes, at.checked_add(2)?, 2)?).ok()?;
        match marker {
            0xff => at = at.checked_add(1)?,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let height = big(bytes, at.checked_add(5)?, 2)?;
                return Some((big(bytes, at.checked_add(7)?, 2)?, height));
            }
            _ => at = at.checked_add(2)?.checked_add(length.max(2))?,
        }
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(
        field
            .iter()
            .fold(0, |value, byte| (value << 8) | u32::from(*byte)),
    )
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    let bytes = field.iter().rev();
    Some(bytes.fold(0, |value, byte| (value << 8) | u32::from(*byte)))
}

/// The first bytes of a text in base64, as far as it is one.
fn decode(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bits = 0_u32;
    let mut count = 0_u32;
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6) | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            let [.., byte] = (bits >> count).to_be_bytes();
            out.push(byte);
        }
        if out.len() >= LOOKED_AT {
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(data: &str) -> Option<u32> {
        let image = Image {
            media_type: String::new(),
            data: data.into(),
        };
        image.longest_side()
    }

    #[test]
    fn sides_of_each_format() {
        // The first bytes of files of 300 x 2 and 2 x 300 pixels.
        assert_eq!(side("iVBORw0KGgoAAAANSUhEUgAAASwAAAAE"), Some(300));
        assert_eq!(side("R0lGODlhLAECAIAAAA=="), Some(300));
        assert_eq!(side("/9j/4AAEAAD/wAARCAACASwDASIA"), Some(300));
        assert_eq!(side("UklGRgAAAABXRUJQVlA4WAoAAAAAAAAAKwEAAQAA"), Some(300));
        for broken in ["", "iVBORw0K", "/9j/", "/9j/4AAE", "AAAA", "not base64"] {
            assert_eq!(side(broken), None, "{broken}");
        }
    }
}
