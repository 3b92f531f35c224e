//! What the bytes of a file mean as text.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::{memchr, memchr_iter, memmem};

/// How far into a file one looks for a NUL, which no text has.
pub(crate) const HEAD: usize = 8 << 10;

pub(crate) const UTF8_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How text is written in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// UTF-8 for the most part, with bytes in it that are not.
    BrokenUtf8,
    Utf16Little,
    Utf16Big,
    /// Not UTF-8. It need not be this, but this shows it as something readable.
    Windows1252,
}

/// A note for who sees text of this encoding; nothing for UTF-8.
pub(crate) fn shown_as(encoding: Encoding) -> Option<&'static str> {
    match encoding {
        Encoding::Utf8 => None,
        Encoding::BrokenUtf8 => Some("not valid UTF-8: bytes that are no text are shown as \\xNN"),
        Encoding::Utf16Little => Some("encoding UTF-16LE"),
        Encoding::Utf16Big => Some("encoding UTF-16BE"),
        Encoding::Windows1252 => Some("not UTF-8: shown as Windows-1252, a guess"),
    }
}

/// Finds the encoding of a text from its bytes, or from enough of its first ones.
pub(crate) fn encoding(bytes: &[u8]) -> Encoding {
    if let Some(utf16) = utf16(bytes) {
        return utf16;
    }
    if std::str::from_utf8(bytes).is_ok() {
        return Encoding::Utf8;
    }
    let (mut characters, mut strays) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|it| !it.is_ascii()).count();
        strays += usize::from(!chunk.invalid().is_empty());
    }
    match strays {
        0 => Encoding::Utf8,
        _ if characters > strays => Encoding::BrokenUtf8,
        _ => Encoding::Windows1252,
    }
}

/// As much of the first bytes of a file as is surely not cut within a character.
pub(crate) fn whole_characters(head: &[u8]) -> &[u8] {
    let last = head.iter().rposition(u8::is_ascii);
    last.and_then(|last| head.get(..=last)).unwrap_or(head)
}

fn utf16(bytes: &[u8]) -> Option<Encoding> {
    match bytes {
        // That is how UTF-32 begins.
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(Encoding::Utf16Little),
        [0xfe, 0xff, ..] => Some(Encoding::Utf16Big),
        _ => None,
    }
}

/// Whether these first bytes of a file are of no text that is known here.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    let head = head.get(..HEAD).unwrap_or(head);
    utf16(head).is_none() && memchr(0, head).is_some()
}

/// A UTF-16 text as UTF-8, without its byte order mark, and whether something in it could not be
/// told as what it is: if not, [`to_utf16`] makes the same bytes of it again.
pub(crate) fn from_utf16(bytes: &[u8], encoding: Encoding) -> (String, bool) {
    let (pairs, odd) = bytes.get(2..).unwrap_or_default().as_chunks::<2>();
    let units = pairs.iter().map(|pair| match encoding {
        Encoding::Utf16Big => u16::from_be_bytes(*pair),
        _ => u16::from_le_bytes(*pair),
    });
    let mut text = String::with_capacity(pairs.len());
    let mut is_lossy = !odd.is_empty();
    for character in char::decode_utf16(units) {
        match character {
            Ok(character) => text.push(character),
            Err(unpaired) => {
                let _infallible = write!(text, "\\u{{{:x}}}", unpaired.unpaired_surrogate());
                is_lossy = true;
            }
        }
    }
    escape(&mut text, odd);
    (text, is_lossy)
}

/// A text as UTF-16 with a byte order mark.
pub(crate) fn to_utf16(text: &str, encoding: Encoding) -> Vec<u8> {
    let is_big = encoding == Encoding::Utf16Big;
    std::iter::once(0xfeff_u16)
        .chain(text.encode_utf16())
        .flat_map(|unit| {
            if is_big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        })
        .collect()
}

/// Bytes as text to look at, and whether something in them could not be shown as what it is.
pub(crate) fn readable(bytes: &[u8], encoding: Encoding) -> (Cow<'_, str>, bool) {
    if encoding == Encoding::Windows1252 {
        let mut text = String::with_capacity(bytes.len());
        let mut lossy = false;
        for byte in bytes {
            match windows_1252(*byte) {
                Some(character) => text.push(character),
                None => {
                    escape(&mut text, &[*byte]);
                    lossy = true;
                }
            }
        }
        return (text.into(), lossy);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return (text.into(), false);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        escape(&mut text, chunk.invalid());
    }
    (text.into(), true)
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _infallible = write!(text, "\\x{byte:02x}");
    }
}

fn windows_1252(byte: u8) -> Option<char> {
    /// What stands at 0x80 to 0x9f; NUL where nothing does.
    const UPPER: [char; 32] = [
        '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0',
        '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
    ];
    match byte.checked_sub(0x80) {
        Some(place) if place < 0x20 => UPPER
            .get(usize::from(place))
            .copied()
            .filter(|character| *character != '\0'),
        _ => Some(char::from(byte)),
    }
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineEnds {
    pub(crate) crlf: usize,
    pub(crate) lf: usize,
}

impl LineEnds {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let all = memchr_iter(b'\n', bytes).count();
        let crlf = memmem::find_iter(bytes, b"\r\n").count();
        Self {
            crlf,
            lf: all - crlf,
        }
    }

    /// What a new line of this text ends with.
    pub(crate) const fn usual(self) -> &'static str {
        if self.crlf > self.lf { "\r\n" } else { "\n" }
    }

    /// A word for them, unless they are the common ones.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match (self.crlf, self.lf) {
            (0, _) => None,
            (_, 0) => Some("CRLF line ends"),
            _ => Some("some line ends are CRLF, some LF"),
        }
    }
}

/// How many lines there are, the last one with or without an end.
pub(crate) fn count_lines(bytes: &[u8]) -> usize {
    let ends = memchr_iter(b'\n', bytes).count();
    ends + usize::from(bytes.last().is_some_and(|last| *last != b'\n'))
}

/// Text with LF ends as text with CRLF ends. What has a CR in it is left as it is.
pub(crate) fn with_crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

/// A size in words.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// "1 line", "2 lines".
pub(crate) fn counted(count: usize, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}
