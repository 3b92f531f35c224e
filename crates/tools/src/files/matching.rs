//! Finding a text in a file: exactly, with LF for CRLF, or with other blanks at the ends of lines.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};

use super::text::LineEnds;

/// Where a text is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matches {
    /// The places, in order; none overlaps another.
    pub(crate) places: Vec<Range<usize>>,
    /// Whether there are others, which overlap these.
    pub(crate) has_overlaps: bool,
}

impl Matches {
    pub(crate) fn is_single(&self) -> bool {
        self.places.len() == 1 && !self.has_overlaps
    }
}

/// Finds a text. Where the file ends lines with CRLF, LF in the text stands for that.
pub(crate) fn exact(file: &[u8], wanted: &str) -> Matches {
    let has_crlf = || memmem::find(file, b"\r\n").is_some();
    if wanted.contains('\r') || !wanted.contains('\n') || !has_crlf() {
        return find(file, wanted.as_bytes());
    }
    let flat = Flat::without_cr(file);
    flat.find(wanted.as_bytes())
}

/// Finds a text that may differ in the blanks and the kinds of ends that its lines have.
pub(crate) fn loose(file: &[u8], wanted: &str) -> Matches {
    let mut trimmed = Flat::trimmed(wanted.as_bytes()).bytes;
    if trimmed.trim_ascii().is_empty() {
        return Matches {
            places: Vec::new(),
            has_overlaps: false,
        };
    }
    let mut flat = Flat::trimmed(file);
    // The last line of a file need not have an end.
    if !flat.bytes.ends_with(b"\n") {
        flat.bytes.push(b'\n');
    }
    // Blanks at the end of the text were meant to be the end of a line.
    let ends_in_blanks = wanted.ends_with([' ', '\t', '\r']);
    if ends_in_blanks {
        trimmed.push(b'\n');
    }
    let mut matches = flat.find(&trimmed);
    for place in &mut matches.places {
        place.end = place.end.min(file.len());
        if ends_in_blanks {
            let found = file.get(place.clone()).unwrap_or_default();
            let line = found.strip_suffix(b"\n").unwrap_or(found);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            place.end = place.start + line.len();
        }
    }
    matches
}

fn find(file: &[u8], wanted: &[u8]) -> Matches {
    let places: Vec<_> = memmem::find_iter(file, wanted)
        .map(|start| start..start + wanted.len())
        .collect();
    Matches {
        has_overlaps: overlaps(file, wanted, &places),
        places,
    }
}

/// Whether the one place that was found overlaps another.
fn overlaps(file: &[u8], wanted: &[u8], places: &[Range<usize>]) -> bool {
    let [only] = places else {
        return false;
    };
    let end = (only.end + wanted.len() - 1).min(file.len());
    file.get(only.start + 1..end)
        .is_some_and(|rest| memmem::find(rest, wanted).is_some())
}

/// A file without some of its bytes.
struct Flat {
    bytes: Vec<u8>,
    /// Where bytes were left out, by place in `bytes`, and how many of them up to there.
    gaps: Vec<(usize, usize)>,
}

impl Flat {
    fn without_cr(file: &[u8]) -> Self {
        Self::new(file, |line, has_end| match line.strip_suffix(b"\r") {
            Some(line) if has_end => line,
            _ => line,
        })
    }

    fn trimmed(file: &[u8]) -> Self {
        Self::new(file, |line, _| {
            let end = line
                .iter()
                .rposition(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))
                .map_or(0, |last| last + 1);
            line.get(..end).unwrap_or(line)
        })
    }

    /// Takes from each line what `part` gives of it, which begins as the line does.
    fn new<'a>(file: &'a [u8], part: impl Fn(&'a [u8], bool) -> &'a [u8]) -> Self {
        let mut bytes = Vec::with_capacity(file.len() + 1);
        let mut gaps = Vec::new();
        let mut left_out = 0;
        for line in file.split_inclusive(|byte| *byte == b'\n') {
            let body = line.strip_suffix(b"\n").unwrap_or(line);
            let has_end = body.len() < line.len();
            let kept = part(body, has_end);
            bytes.extend_from_slice(kept);
            if kept.len() < body.len() {
                left_out += body.len() - kept.len();
                gaps.push((bytes.len(), left_out));
            }
            if has_end {
                bytes.push(b'\n');
            }
        }
        Self { bytes, gaps }
    }

    fn find(&self, wanted: &[u8]) -> Matches {
        let mut gaps = self.gaps.iter().peekable();
        let mut left_out = 0;
        // A gap at the place itself comes after it.
        let mut in_file = |place: usize| {
            while let Some((_, sum)) = gaps.next_if(|(gap, _)| *gap < place) {
                left_out = *sum;
            }
            place + left_out
        };
        let mut matches = find(&self.bytes, wanted);
        for place in &mut matches.places {
            let start = in_file(place.start);
            *place = start..in_file(place.end);
        }
        matches
    }
}

/// Tells how the lines of a file end near a place.
pub(crate) struct EndsNear<'a> {
    file: &'a [u8],
    all: LineEnds,
    /// The first line end at or after the place that was asked for last.
    next: Option<usize>,
    is_last: bool,
}

impl<'a> EndsNear<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Self {
        Self {
            file,
            all: LineEnds::of(file),
            next: None,
            is_last: false,
        }
    }

    /// What a line ends with that takes the place of these bytes. Places are asked for in order.
    pub(crate) fn at(&mut self, place: &Range<usize>) -> &'static str {
        if self.all.crlf == 0 || self.all.lf == 0 {
            return self.all.usual();
        }
        if !self.is_last && self.next.is_none_or(|next| next < place.start) {
            let rest = self.file.get(place.start..).unwrap_or_default();
            let next = memchr(b'\n', rest).map(|end| place.start + end);
            self.is_last = next.is_none();
            // Where none follows, the last one of all is the nearest.
            self.next = next.or_else(|| memrchr(b'\n', self.file));
        }
        let end = self.next.unwrap_or_default();
        let before = end.checked_sub(1).and_then(|before| self.file.get(before));
        if before == Some(&b'\r') { "\r\n" } else { "\n" }
    }
}
