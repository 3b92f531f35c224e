//! Finds the JSON of the hook contract in what a hook printed, whatever is printed around it.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Deserializer, Map, Value};
use tooloop_exec::OutputCleaner;

/// The fields that make an object part of the contract.
const FIELDS: [&str; 6] = [
    "continue",
    "decision",
    "hookSpecificOutput",
    "stopReason",
    "suppressOutput",
    "systemMessage",
];

/// Fields that decide in another place than the one where they were found.
const MISPLACED: [&str; 3] = ["permissionDecision", "behavior", "updatedInput"];

/// The output of a hook, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Printed {
    /// The objects that belong to the contract, in order.
    pub(super) objects: Vec<Map<String, Value>>,
    /// Whether anything but JSON objects was printed.
    pub(super) has_other_text: bool,
    /// Whether the output begins with a brace.
    pub(super) begins_like_json: bool,
    /// Why a decision may be in it that cannot be read.
    pub(super) doubt: Option<&'static str>,
}

impl Printed {
    /// Takes a hook's output apart.
    pub(super) fn parse(text: &str) -> Self {
        let text = without_sequences(text).replace('\u{feff}', "");
        // ASCII in UTF-16 behind text in UTF-8.
        let is_mixed = text.contains('\0');
        let text = text.replace('\0', "");
        let (all, other) = objects(&text);
        let mut printed = Self {
            has_other_text: !other.trim().is_empty(),
            begins_like_json: text.trim_start().starts_with('{'),
            ..Self::default()
        };
        let begins_broken = other.trim_start().starts_with('{');
        for object in all {
            let has = |fields: &[&str]| fields.iter().any(|field| object.contains_key(*field));
            if has(&FIELDS) {
                printed.objects.push(object);
            } else if has(&MISPLACED) {
                printed.doubt = Some("printed a decision outside of hookSpecificOutput");
            }
        }
        if begins_broken || may_decide(&other) {
            printed.doubt = Some("printed what begins like JSON and is none");
        } else if is_mixed {
            printed.doubt = Some("printed what is no text");
        }
        printed
    }
}

/// Decodes what a hook printed: UTF-8 or UTF-16, with a byte order mark or without. Behind text in
/// UTF-8, text in UTF-16 is decoded from its byte order mark on.
pub(super) fn decode(bytes: &[u8]) -> String {
    for (mark, unit) in [
        ([0xff, 0xfe], u16::from_le_bytes as Unit),
        ([0xfe, 0xff], u16::from_be_bytes),
    ] {
        let found = bytes.windows(2).position(|pair| pair == mark);
        if let Some((before, wide)) = found.and_then(|at| bytes.split_at_checked(at))
            && (before.is_empty() || wide.contains(&0))
        {
            return String::from_utf8_lossy(before).into_owned() + &utf16(wide, unit);
        }
    }
    let nuls = |odd: usize| {
        let units = bytes.chunks_exact(2);
        let all = units.len();
        let nuls = units.filter(|pair| pair.get(odd) == Some(&0)).count();
        all > 0 && nuls.saturating_mul(4) >= all.saturating_mul(3)
    };
    if nuls(1) {
        return utf16(bytes, u16::from_le_bytes);
    }
    if nuls(0) {
        return utf16(bytes, u16::from_be_bytes);
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a unit of UTF-16 in one byte order.
type Unit = fn([u8; 2]) -> u16;

fn utf16(bytes: &[u8], unit: Unit) -> String {
    let units: Vec<u16> = bytes.as_chunks().0.iter().copied().map(unit).collect();
    String::from_utf16_lossy(&units)
}

/// What a terminal would show of a text, without control characters.
pub(super) fn shown(text: &str) -> String {
    let text = text.replace('\u{feff}', "");
    let mut cleaner = OutputCleaner::new(text.len(), 0);
    cleaner.feed(text.as_bytes());
    cleaner.finish().head
}

/// The JSON objects in a text, and the text without them.
fn objects(text: &str) -> (Vec<Map<String, Value>>, String) {
    let mut found = Vec::new();
    let mut other = String::new();
    let mut rest = text;
    while let Some((before, candidate)) = rest.find('{').map(|at| rest.split_at(at)) {
        other.push_str(before);
        let mut stream = Deserializer::from_str(candidate).into_iter::<Map<String, Value>>();
        match stream.next() {
            Some(Ok(object)) => {
                found.push(object);
                rest = candidate.split_at(stream.byte_offset()).1;
            }
            Some(Err(_)) | None => {
                let (brace, after) = candidate.split_at(1);
                other.push_str(brace);
                rest = after;
            }
        }
    }
    other.push_str(rest);
    (found, other)
}

/// Whether a text that is no JSON has a word of a decision in the place of a key.
fn may_decide(text: &str) -> bool {
    let Some((_, text)) = text.split_once('{') else {
        return false;
    };
    let is_key = |(at, word): (usize, &str)| {
        let (before, after) = text.split_at(at);
        let before = before.trim_end();
        let after = after.strip_prefix(word).unwrap_or_default();
        let after = after.trim_start_matches(['\\', '"', '\'', ' ']);
        after.starts_with(':')
            && (before.is_empty() || before.ends_with(['"', '\'', '{', ',', '\\']))
    };
    FIELDS
        .iter()
        .chain(&MISPLACED)
        .any(|word| text.match_indices(word).any(is_key))
}

/// The text without escape sequences. A control string that does not end on its line is kept.
fn without_sequences(text: &str) -> String {
    if !text.contains('\u{1b}') {
        return text.to_owned();
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '\u{1b}' {
            skip_sequence(&mut rest);
        } else {
            kept.push(character);
        }
    }
    kept
}

/// Skips the rest of an escape sequence.
fn skip_sequence(rest: &mut Peekable<Chars<'_>>) {
    match rest.next_if(|next| matches!(next, ' '..='~')) {
        Some('[') => {
            while rest.next_if(|next| matches!(next, ' '..='?')).is_some() {}
            rest.next_if(|next| matches!(next, '@'..='~'));
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            let mut ahead = rest.clone();
            loop {
                match ahead.next() {
                    Some('\u{7}') => break,
                    Some('\u{1b}') => {
                        ahead.next_if_eq(&'\\');
                        break;
                    }
                    Some('\n') | None => return,
                    Some(_) => {}
                }
            }
            *rest = ahead;
        }
        Some(' '..='/') => {
            rest.next_if(|next| matches!(next, '0'..='~'));
        }
        Some(_) | None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_is_decoded_with_and_without_a_mark() {
        let text = "{\"reason\":\"nö\"}\n";
        let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        let little = |text: &str| units(text).into_iter().flat_map(u16::to_le_bytes).collect();
        let big = |text: &str| units(text).into_iter().flat_map(u16::to_be_bytes).collect();
        let marked = format!("\u{feff}{text}");
        let with = |first: &[u8], rest: Vec<u8>| [first, &rest].concat();
        let all: [(Vec<u8>, &str, &str); 7] = [
            (text.into(), "", "UTF-8"),
            (little(text), "", "little endian"),
            (big(text), "", "big endian"),
            (little(&marked), "", "little endian, mark"),
            (big(&marked), "", "big endian, mark"),
            (with(b"v20\n", little(&marked)), "v20\n", "text before"),
            (with(b"v20\n", big(&marked)), "v20\n", "text before, big"),
        ];
        for (bytes, before, name) in all {
            let decoded = decode(&bytes).replace('\u{feff}', "");
            assert_eq!(decoded, format!("{before}{text}"), "{name}");
        }
        assert_eq!(decode(b"caf\xe9"), "caf\u{fffd}");
        assert_eq!(decode(b""), "");
    }
}
