//! Answers in words, and their bound.

/// An answer that grows line by line up to a bound.
#[derive(Debug)]
pub(super) struct Report {
    text: String,
    left: usize,
}

impl Report {
    /// An empty answer of at most so many characters.
    pub(super) const fn new(characters: usize) -> Self {
        Self {
            text: String::new(),
            left: characters,
        }
    }

    /// Adds a line if there is room for it.
    pub(super) fn add(&mut self, line: &str) -> bool {
        let length = line.chars().count() + 1;
        let Some(left) = self.left.checked_sub(length) else {
            return false;
        };
        self.left = left;
        self.text.push_str(line);
        self.text.push('\n');
        true
    }

    /// The answer, with what is said of it at its end.
    pub(super) fn finish(mut self, notes: &[String]) -> String {
        for note in notes {
            self.text.push_str(note);
            self.text.push('\n');
        }
        self.text.truncate(self.text.trim_end_matches('\n').len());
        self.text
    }
}

/// `1 file`, `2 files`, `1,234 matches`.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = match what {
        _ if number == 1 => "",
        "match" => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", grouped(number))
}

/// A number with its digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things as the report counts them.
pub(super) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The beginning of a text that a model wrote, to name it by.
pub(super) fn named(text: &str) -> String {
    const LONGEST: usize = 200;
    let safe = super::root::harmless(text);
    match safe.char_indices().nth(LONGEST) {
        None => safe,
        Some((end, _)) => format!("{}…", safe.get(..end).unwrap_or_default()),
    }
}
