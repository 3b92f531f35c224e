//! The words after a program, told apart into options and operands.

use std::borrow::Cow;

use super::{Piece, Word};

/// A word without its known beginning.
pub(super) fn after(word: &Word, beginning: &str) -> Option<Word> {
    let rest = word.prefix().strip_prefix(beginning)?;
    let mut pieces = word.pieces.clone();
    match pieces.first_mut() {
        Some(Piece::Text(text)) if rest.is_empty() => {
            text.clear();
            pieces.remove(0);
        }
        Some(Piece::Text(text)) => *text = rest.to_owned(),
        Some(Piece::Unknown(_)) | None => {}
    }
    let raw = word.raw.strip_prefix(beginning).unwrap_or(&word.raw);
    Some(Word {
        raw: raw.to_owned(),
        pieces,
    })
}

/// The words after a program, told apart.
pub(super) struct Arguments<'a> {
    pub(super) operands: Vec<&'a Word>,
    /// The values of the options that were looked for.
    pub(super) outputs: Vec<Cow<'a, Word>>,
}

impl<'a> Arguments<'a> {
    pub(super) fn read(
        words: &'a [Word],
        valued: &str,
        long_valued: &[&str],
        outputs: &[&str],
    ) -> Self {
        let mut found = Self {
            operands: Vec::new(),
            outputs: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.prefix();
            if text == "--" && word.literal().is_some() {
                found.operands.extend(words);
                break;
            }
            if !text.starts_with('-') || text.len() < 2 {
                found.operands.push(word);
                continue;
            }
            // Programs take any unique beginning of a long option for the whole of it.
            let is_output_name = |name: &str| {
                let is_beginning = |option: &&str| {
                    name.len() > 3 && option.starts_with(name) && *option != "--target-dir"
                };
                outputs.contains(&name)
                    || (name.starts_with("--") && outputs.iter().any(is_beginning))
            };
            if word.literal().is_some_and(is_output_name) {
                found.outputs.extend(words.next().map(Cow::Borrowed));
                continue;
            }
            if text.starts_with("--") {
                let name = text.split('=').next().unwrap_or_default();
                if name.len() < text.len() {
                    let value = is_output_name(name).then(|| after(word, &format!("{name}=")));
                    found.outputs.extend(value.flatten().map(Cow::Owned));
                } else if long_valued.contains(&name) {
                    words.next();
                }
                continue;
            }
            if long_valued.contains(&text) {
                words.next();
                continue;
            }
            for (at, letter) in text.char_indices().skip(1) {
                let option = format!("-{letter}");
                let is_output = outputs.contains(&option.as_str());
                if !is_output && !valued.contains(letter) {
                    continue;
                }
                let is_last = text.len() == at + letter.len_utf8() && word.literal().is_some();
                let value = if is_last {
                    words.next().map(Cow::Borrowed)
                } else {
                    text.get(..at + letter.len_utf8())
                        .and_then(|before| after(word, before))
                        .map(Cow::Owned)
                };
                if is_output {
                    found.outputs.extend(value);
                }
                break;
            }
        }
        found
    }
}
