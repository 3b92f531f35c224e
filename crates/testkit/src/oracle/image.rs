//! Sizes of images: bytes after decoding, and pixels as their headers state them (PNG, JPEG, GIF, WebP).

use super::{Report, Rule};

const MAX_BYTES: usize = 5 * 1024 * 1024;
const MAX_SIDE: u32 = 8_000;
const MAX_SIDE_OF_MANY: u32 = 2_000;
const MANY: usize = 20;

/// The images of a request.
#[derive(Debug, Default)]
pub(super) struct Images(Vec<(String, Option<(u32, u32)>)>);

impl Images {
    /// Takes an image as base64 text and judges its bytes.
    pub(super) fn add(&mut self, path: &str, base64: &str, report: &mut Report) {
        let Some(bytes) = decode_base64(base64) else {
            report.add(Rule::Encoding, path, "image data is not base64");
            return;
        };
        if bytes.is_empty() {
            report.add(Rule::Encoding, path, "image data is empty");
        }
        if bytes.len() > MAX_BYTES {
            report.add(
                Rule::Encoding,
                path,
                format!(
                    "image exceeds 5 MB maximum: {} bytes > {MAX_BYTES} bytes",
                    bytes.len()
                ),
            );
        }
        self.0.push((path.to_owned(), pixels(&bytes)));
    }

    /// Judges the pixels of all images, whose limit depends on their number.
    pub(super) fn judge_sides(&self, report: &mut Report) {
        let limit = if self.0.len() > MANY {
            MAX_SIDE_OF_MANY
        } else {
            MAX_SIDE
        };
        for (path, size) in &self.0 {
            if let Some((width, height)) = size
                && (*width).max(*height) > limit
            {
                report.add(
                    Rule::Encoding,
                    path.as_str(),
                    format!(
                        "image is {width} x {height} px; at most {limit} px a side with {} images",
                        self.0.len()
                    ),
                );
            }
        }
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if text.len() - body.len() > 2 || !text.len().is_multiple_of(4) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in body.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            let [.., low] = (bits >> held).to_be_bytes();
            out.push(low);
        }
    }
    Some(out)
}

/// Width and height, if the header is one of those known here.
fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some((big_endian(bytes, 16, 4)?, big_endian(bytes, 20, 4)?));
    }
    if bytes.starts_with(b"GIF8") {
        return Some((little_endian(bytes, 6, 2)?, little_endian(bytes, 8, 2)?));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return webp(bytes);
    }
    if bytes.starts_with(b"\xff\xd8") {
        return jpeg(bytes);
    }
    None
}

fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xFF {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xFF => at += 1,
            0x01 | 0xD0..=0xD8 => at += 2,
            // The frame headers; C4, C8 and CC are other segments among them.
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                return Some((big_endian(bytes, at + 7, 2)?, big_endian(bytes, at + 5, 2)?));
            }
            _ => at += 2 + usize::try_from(big_endian(bytes, at + 2, 2)?).ok()?,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((
            little_endian(bytes, 24, 3)? + 1,
            little_endian(bytes, 27, 3)? + 1,
        )),
        b"VP8 " => Some((
            little_endian(bytes, 26, 2)? & 0x3FFF,
            little_endian(bytes, 28, 2)? & 0x3FFF,
        )),
        b"VP8L" => {
            let bits = little_endian(bytes, 21, 4)?;
            Some(((bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1))
        }
        _ => None,
    }
}

fn big_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(
        bytes
            .get(at..at.checked_add(length)?)?
            .iter()
            .fold(0, |value, byte| (value << 8) | u32::from(*byte)),
    )
}

fn little_endian(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(
        bytes
            .get(at..at.checked_add(length)?)?
            .iter()
            .rev()
            .fold(0, |value, byte| (value << 8) | u32::from(*byte)),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::oracle) fn encode_base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for group in bytes.chunks(3) {
            let bits = big_endian(group, 0, group.len()).unwrap() << (8 * (3 - group.len()));
            for place in 0..4 {
                if place <= group.len() {
                    out.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
                } else {
                    out.push('=');
                }
            }
        }
        out
    }

    /// The start of a PNG of this size: enough for whoever reads headers.
    pub(in crate::oracle) fn png(width: u32, height: u32) -> Vec<u8> {
        let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        out.extend(width.to_be_bytes());
        out.extend(height.to_be_bytes());
        out.extend([8, 6, 0, 0, 0]);
        out
    }

    #[test]
    fn base64_of_any_length() {
        for length in 0..40_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode_base64(&encode_base64(&bytes)), Some(bytes));
        }
        for bad in [
            "a", "ab", "abc", "ab c", "a===", "====", "ab\nd", "é=", "abcde",
        ] {
            assert_eq!(decode_base64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn headers_say_the_size() {
        assert_eq!(pixels(&png(640, 480)), Some((640, 480)));
        assert_eq!(pixels(b"GIF89a\x80\x02\xe0\x01"), Some((640, 480)));
        let mut jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        jpeg.extend(b"\xff\xff\xc4\x00\x03\x00\xff\xc2\x00\x11\x08\x01\xe0\x02\x80\x03");
        assert_eq!(pixels(&jpeg), Some((640, 480)));
        assert_eq!(
            pixels(b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0"),
            Some((640, 480))
        );
        assert_eq!(
            pixels(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01"),
            Some((640, 480))
        );
        let bits = (639_u32 | (479 << 14)).to_le_bytes();
        let mut lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f".to_vec();
        lossless.extend(bits);
        assert_eq!(pixels(&lossless), Some((640, 480)));
        for none in [
            b"".as_slice(),
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8",
            b"\xff\xd8\xff\xe0\x00\x02",
            b"BM",
        ] {
            assert_eq!(pixels(none), None);
        }
    }
}
