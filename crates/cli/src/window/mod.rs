//! `/compact`, `/context` and `/cost`, whatever the front end: what is asked for, and what it comes
//! to in words and as JSON.

mod context;
mod cost;

use tooloop::{Compacted, Content};

pub(crate) use self::context::{context_json, context_lines};
pub(crate) use self::cost::{cost_json, cost_lines};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To sum the conversation up, and what to look at most closely.
    Compact(Option<String>),
    /// What fills the window.
    Context,
    /// What it has cost.
    Cost,
}

impl Asked {
    /// What a message asks for; `None` if it is for the model.
    pub(crate) fn of(content: &[Content]) -> Option<Self> {
        match content {
            [Content::Text(text)] => Self::named(text),
            _ => None,
        }
    }

    fn named(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        let (name, words) = match rest.split_once(char::is_whitespace) {
            Some((name, words)) => (name, words.trim()),
            None => (rest, ""),
        };
        match name {
            "compact" => Some(Self::Compact((!words.is_empty()).then(|| words.to_owned()))),
            // With words behind it, it is something else.
            "context" if words.is_empty() => Some(Self::Context),
            "cost" if words.is_empty() => Some(Self::Cost),
            _ => None,
        }
    }
}

/// What summing up came to.
pub(crate) fn compacted(done: Compacted) -> String {
    format!(
        "the conversation was summed up: about {} tokens, now {}",
        grouped(done.before),
        grouped(done.after)
    )
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && digits.len().saturating_sub(place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_ask_for_what_they_name() {
        let cases = [
            ("/compact", Some(Asked::Compact(None))),
            (
                "/compact  the parser\nand its tests ",
                Some(Asked::Compact(Some("the parser\nand its tests".into()))),
            ),
            ("/context", Some(Asked::Context)),
            ("/cost\n", Some(Asked::Cost)),
            ("/cost of living", None),
            ("/context/file.rs", None),
            (" /compact", None),
            ("/compactor", None),
            ("compact", None),
        ];
        for (text, asked) in cases {
            let content = [Content::Text(text.into())];
            assert_eq!(Asked::of(&content), asked, "{text:?}");
        }
        assert_eq!(Asked::of(&[]), None);
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
