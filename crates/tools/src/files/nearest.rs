//! What a text that is not in a file may have been meant to be.

use super::text::{Encoding, readable};

/// How many lines of the file are compared, and how many of the text.
const FILE_LINES: usize = 200_000;
const TEXT_LINES: usize = 24;

/// How many lines are shown.
const SHOWN: usize = 8;

/// How many characters of a line are shown.
const CHARACTERS: usize = 160;

/// How many bytes of a line are compared.
const BYTES: usize = 400;

/// From which likeness on, out of 1000, lines are worth showing.
const ALIKE: u32 = 350;

/// The pairs of bytes that occur in a line, and what the line is without the blanks around it.
#[derive(Clone, Copy, Default)]
struct Sketch {
    pairs: [u64; 4],
    count: u32,
}

impl Sketch {
    fn of(line: &[u8]) -> Self {
        let line = line.trim_ascii();
        let line = line.get(..BYTES).unwrap_or(line);
        let mut sketch = Self::default();
        for pair in line.windows(2) {
            let [first, second] = pair else { continue };
            let mixed = usize::from(*first).wrapping_mul(31) ^ usize::from(*second).wrapping_mul(7);
            if let Some(word) = sketch.pairs.get_mut((mixed >> 6) & 3) {
                *word |= 1 << (mixed & 63);
            }
        }
        sketch.count = sketch.pairs.iter().map(|word| word.count_ones()).sum();
        sketch
    }

    /// How alike two lines are, out of 1000.
    fn likeness(&self, other: &Self) -> u32 {
        let both: u32 = self
            .pairs
            .iter()
            .zip(other.pairs)
            .map(|(a, b)| (a & b).count_ones())
            .sum();
        let either = self.count + other.count - both;
        (both * 1000).checked_div(either).unwrap_or(0)
    }
}

/// The lines of a file that are most like a text, in words; `None` if none is.
pub(crate) fn nearest(file: &[u8], text: &str, encoding: Encoding) -> Option<String> {
    let wanted: Vec<&[u8]> = text
        .as_bytes()
        .split(|byte| *byte == b'\n')
        .skip_while(|line| line.trim_ascii().is_empty())
        .take(TEXT_LINES)
        .collect();
    let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').take(FILE_LINES).collect();
    let sketches: Vec<Sketch> = lines.iter().map(|line| Sketch::of(line)).collect();
    let wanted_sketches: Vec<Sketch> = wanted.iter().map(|line| Sketch::of(line)).collect();
    // Blank and tiny lines are like each other and say nothing.
    let telling = wanted_sketches.iter().filter(|line| line.count > 0).count();
    let telling = u32::try_from(telling).ok().filter(|count| *count > 0)?;
    let mut best = (0, 0);
    for start in 0..sketches.len() {
        let window = sketches.get(start..).unwrap_or_default();
        let score: u32 = wanted_sketches
            .iter()
            .zip(window)
            .map(|(wanted, line)| wanted.likeness(line))
            .sum();
        if score > best.0 {
            best = (score, start);
        }
    }
    let (score, start) = best;
    if score / telling < ALIKE {
        return None;
    }
    let shown = lines.get(start..).unwrap_or_default();
    let mut words = format!("the nearest is at line {}:\n", start + 1);
    for (place, line) in shown.iter().take(wanted.len().min(SHOWN)).enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        words.push_str(&format!(
            "{}\t{}\n",
            start + place + 1,
            clip(line, encoding)
        ));
    }
    if let Some((place, why)) = first_difference(&wanted, shown) {
        words.push_str(&format!("line {} differs: {why}", start + place + 1));
    } else {
        words.truncate(words.trim_end().len());
    }
    Some(words)
}

/// Where a text first differs from lines, and how.
fn first_difference(wanted: &[&[u8]], lines: &[&[u8]]) -> Option<(usize, &'static str)> {
    let strip = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).len();
    let place = wanted
        .iter()
        .zip(lines)
        .position(|(wanted, line)| line.get(..strip(line)) != wanted.get(..strip(wanted)))?;
    let (wanted, line) = (wanted.get(place)?, lines.get(place)?);
    let why = if wanted.trim_ascii() == line.trim_ascii() {
        if wanted.trim_ascii_end() == line.trim_ascii_end() {
            "in blanks at its end"
        } else {
            "in blanks at its start (tabs or spaces, or how many)"
        }
    } else if wanted.eq_ignore_ascii_case(line) {
        "in upper and lower case"
    } else {
        "in its text"
    };
    Some((place, why))
}

fn clip(line: &[u8], encoding: Encoding) -> String {
    let kept = line.get(..CHARACTERS * 4).unwrap_or(line);
    let (text, _) = readable(kept, encoding);
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}
