//! The size of an image, read from its first bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Image;

/// The characters of base64 that are decoded, a multiple of four: pictures of cameras begin with a
/// preview and other data.
const DECODED: usize = 352 << 10;

impl Image {
    /// The longer of its sides in pixels, if its format is known and it is not damaged.
    #[must_use]
    pub fn longest_side(&self) -> Option<u32> {
        let start = self.data.get(..DECODED).unwrap_or(&self.data);
        let bytes = STANDARD.decode(start).ok()?;
        let (width, height) = image_size(&bytes)?;
        Some(width.max(height))
    }
}

/// Returns the width and height in pixels of a PNG, GIF, JPEG or WebP file, read from its first bytes;
/// `None` for other formats and damaged files.
#[must_use]
pub fn image_size(bytes: &[u8]) -> Option<(u32, u32)> {
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
        match marker {
            // Padding.
            0xff => at = at.checked_add(1)?,
            // Segments without a length.
            0x01 | 0xd0..=0xd8 => at = at.checked_add(2)?,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let height = big(bytes, at.checked_add(5)?, 2)?;
                return Some((big(bytes, at.checked_add(7)?, 2)?, height));
            }
            _ => {
                let length = usize::try_from(big(bytes, at.checked_add(2)?, 2)?).ok()?;
                at = at.checked_add(2)?.checked_add(length.max(2))?;
            }
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
