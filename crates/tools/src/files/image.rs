//! Pictures, and what other files that are no text may be, known by their first bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tooloop_model::{Content, Image};
use tooloop_tool::{ToolError, ToolOutput};

use super::call::{failed, length};
use super::text::size;

/// The most bytes of a picture in base64 that providers take.
const MOST_BYTES: u64 = 5 << 20;

/// The most pixels of a side that providers take.
const MOST_SIDE: u32 = 8000;

/// The media type of a picture that providers take.
pub(crate) fn media_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// Whether a picture of so many bytes is more than providers take.
pub(crate) const fn is_too_large(bytes: u64) -> bool {
    bytes.div_ceil(3) * 4 > MOST_BYTES
}

/// Answers with a picture.
pub(crate) fn show(
    given: &str,
    media_type: &'static str,
    bytes: &[u8],
) -> Result<ToolOutput, ToolError> {
    let bytes_in_words = size(length(bytes));
    if is_too_large(length(bytes)) {
        return refuse_large(given, length(bytes));
    }
    let sides = match sides(media_type, bytes) {
        Some((width, height)) if width > MOST_SIDE || height > MOST_SIDE => {
            return failed(format!(
                "{given} is a picture of {width} x {height} pixels: more than {MOST_SIDE} a side \
                 cannot be shown; make a smaller copy and read that"
            ));
        }
        Some((0, _) | (_, 0)) | None => {
            return failed(format!(
                "{given} begins as {media_type}, {bytes_in_words}, but it is cut or broken: it \
                 states no width and height"
            ));
        }
        Some((width, height)) => format!("{width} x {height} pixels"),
    };
    Ok(ToolOutput {
        content: vec![
            Content::Text(format!(
                "({given}: {media_type}, {sides}, {bytes_in_words})"
            )),
            Content::Image(Image {
                media_type: media_type.into(),
                data: STANDARD.encode(bytes),
            }),
        ],
        details: Some(format!("{media_type}, {sides}, {bytes_in_words}")),
        ..ToolOutput::default()
    })
}

pub(crate) fn refuse_large<T>(given: &str, bytes: u64) -> Result<T, ToolError> {
    failed(format!(
        "{given} is a picture of {}: more than {} cannot be shown; make a smaller copy and read \
         that",
        size(bytes),
        size(MOST_BYTES / 4 * 3)
    ))
}

/// Width and height in pixels.
fn sides(media_type: &str, bytes: &[u8]) -> Option<(u32, u32)> {
    match media_type {
        "image/png" => Some((big(bytes.get(16..20)?), big(bytes.get(20..24)?))),
        "image/gif" => Some((little(bytes.get(6..8)?), little(bytes.get(8..10)?))),
        "image/webp" => webp(bytes),
        _ => jpeg(bytes),
    }
}

fn big(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

fn little(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((
            little(bytes.get(24..27)?) + 1,
            little(bytes.get(27..30)?) + 1,
        )),
        b"VP8L" => {
            let both = little(bytes.get(21..25)?);
            Some(((both & 0x3fff) + 1, ((both >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((
            little(bytes.get(26..28)?) & 0x3fff,
            little(bytes.get(28..30)?) & 0x3fff,
        )),
        _ => None,
    }
}

fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.get(2..)?;
    loop {
        match rest {
            // A marker may be filled up in front.
            [0xff, 0xff, ..] => rest = rest.get(1..)?,
            // The frames of all kinds; what is left out of the range is no frame.
            [0xff, 0xc0..=0xcf, ..] if !matches!(rest.get(1), Some(0xc4 | 0xc8 | 0xcc)) => {
                return Some((big(rest.get(7..9)?), big(rest.get(5..7)?)));
            }
            [0xff, 0x01 | 0xd0..=0xd8, ..] => rest = rest.get(2..)?,
            [0xff, _, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                rest = rest.get(2 + length..)?;
            }
            _ => return None,
        }
    }
}

/// What a file that is no text is, where its first bytes tell.
pub(crate) fn binary_kind(head: &[u8]) -> &'static str {
    const KNOWN: [(&[u8], &str); 12] = [
        (b"\x7fELF", "an ELF program or library"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or a document made of one"),
        (b"\x1f\x8b", "gzip data"),
        (b"BZh", "bzip2 data"),
        (b"\xfd7zXZ\0", "xz data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "WebAssembly"),
        (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
        (b"\0\0\xfe\xff", "UTF-32 text"),
    ];
    if head.starts_with(b"\xff\xfe\0\0") {
        return "UTF-32 text";
    }
    KNOWN
        .iter()
        .find(|(start, _)| head.starts_with(start))
        .map_or("binary", |(_, kind)| kind)
}
