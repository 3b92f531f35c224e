//! Finding the place of each hunk in a file, and putting the file together anew. Pure.

use std::cell::LazyCell;
use std::ops::Range;

use memchr::memmem;

use super::{Hunk, Row, Sign};

/// How many places are looked at to tell that there is more than one.
const PLACES: usize = 20;

/// How many line numbers are told.
const NUMBERS: usize = 8;

/// A file with its hunks applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) body: Vec<u8>,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// The patch's lines of hunks that were placed although blanks at the ends of lines differ.
    pub(crate) loose: Vec<usize>,
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoPlace {
    /// The line of the patch.
    pub(crate) line: usize,
    pub(crate) problem: String,
    /// Whether nothing in the file fits, so that it helps to see what is near.
    pub(crate) is_missing: bool,
}

/// Applies hunks to a file, all of them to the file as it is.
pub(crate) fn apply(
    body: &[u8],
    hunks: &[Hunk],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Applied, NoPlace> {
    let lines: Vec<&[u8]> = body.split_inclusive(|byte| *byte == b'\n').collect();
    let exact = Flat::new(&lines, without_end);
    let trimmed = LazyCell::new(|| Flat::new(&lines, trimmed));
    let mut placed: Vec<(Range<usize>, &Hunk)> = Vec::new();
    let mut loose = Vec::new();
    let mut done = 0;
    for hunk in hunks {
        if is_cancelled() {
            return Err(NoPlace {
                line: hunk.line,
                problem: "nobody waits for it any more".into(),
                is_missing: false,
            });
        }
        let place = match find(&exact, hunk, done, |row| row.text.as_bytes()) {
            Err(problem) if problem.is_missing => {
                let found = find(&trimmed, hunk, done, |row| trim(row.text.as_bytes()));
                if found.is_ok() {
                    loose.push(hunk.line);
                }
                match found {
                    Err(again) if again.is_missing => Err(problem),
                    other => other,
                }
            }
            other => other,
        }?;
        done = done.max(place.end);
        placed.push((place, hunk));
    }
    placed.sort_by_key(|(place, _)| (place.start, place.end));
    for pair in placed.windows(2) {
        if let [(first, _), (second, hunk)] = pair
            && second.start < first.end
        {
            return Err(NoPlace {
                line: hunk.line,
                problem: "this change and another one have lines in common".into(),
                is_missing: false,
            });
        }
    }
    Ok(put_together(&lines, &placed, loose))
}

fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    trim(line.strip_suffix(b"\n").unwrap_or(line))
}

fn trim(line: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let end = line.iter().rposition(|byte| !blank(byte));
    line.get(..end.map_or(0, |last| last + 1)).unwrap_or(line)
}

/// The lines of a file in a form in which they are compared, each between line ends.
struct Flat {
    bytes: Vec<u8>,
    /// Where the line end before each line is.
    starts: Vec<usize>,
}

impl Flat {
    fn new(lines: &[&[u8]], part: fn(&[u8]) -> &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
        let mut starts = Vec::with_capacity(lines.len());
        for line in lines {
            starts.push(bytes.len());
            bytes.push(b'\n');
            bytes.extend_from_slice(part(line));
        }
        bytes.push(b'\n');
        Self { bytes, starts }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    fn line(&self, number: usize) -> &[u8] {
        let start = self
            .starts
            .get(number)
            .map_or(self.bytes.len(), |start| start + 1);
        let end = self.starts.get(number + 1).copied();
        self.bytes
            .get(start..end.unwrap_or(self.bytes.len() - 1))
            .unwrap_or_default()
    }

    /// The first line from `from` on at which the wanted lines are.
    fn next(&self, wanted: &[u8], from: usize) -> Option<usize> {
        let start = *self.starts.get(from)?;
        let found = memmem::find(self.bytes.get(start..)?, wanted)? + start;
        self.starts.binary_search(&found).ok()
    }

    fn is_at(&self, wanted: &[u8], line: usize) -> bool {
        self.starts
            .get(line)
            .and_then(|start| self.bytes.get(*start..))
            .is_some_and(|rest| rest.starts_with(wanted))
    }

    /// The lines with the words of an anchor.
    fn anchors(&self, anchor: &str) -> Vec<usize> {
        let anchor = anchor.trim().as_bytes();
        (0..self.count())
            .filter(|number| self.line(*number).trim_ascii() == anchor)
            .collect()
    }

    /// Where the wanted lines are: of each start the first place after it, and no more than tell
    /// that there are several.
    fn places(&self, wanted: &[u8], starts: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for start in starts {
            if places.last().is_some_and(|last| start <= *last) {
                continue;
            }
            match self.next(wanted, start) {
                Some(place) => places.push(place),
                None => break,
            }
            if places.len() == PLACES {
                break;
            }
        }
        places
    }
}

/// Finds the lines that a hunk replaces.
fn find<'h>(
    flat: &Flat,
    hunk: &'h Hunk,
    done: usize,
    part: fn(&'h Row) -> &'h [u8],
) -> Result<Range<usize>, NoPlace> {
    let fail = |problem: String, is_missing| {
        Err(NoPlace {
            line: hunk.line,
            problem,
            is_missing,
        })
    };
    let count = hunk.old().count();
    let range = |start: usize| start..start + count;
    let after = match after_anchors(flat, hunk) {
        Ok(after) => after,
        Err(anchor) => {
            return fail(
                format!("the file has no line like the anchor {anchor:?}"),
                true,
            );
        }
    };
    if count == 0 {
        return match (&after, hunk.at) {
            (Some(after), _) => {
                let later: Vec<usize> = after.iter().copied().filter(|it| *it >= done).collect();
                match if later.is_empty() { after } else { &later }.as_slice() {
                    [only] => Ok(range(*only)),
                    several => fail(ambiguous("the anchor", several), false),
                }
            }
            (None, Some(at)) if !hunk.is_at_end => {
                if at <= flat.count() {
                    Ok(range(at))
                } else {
                    let has = flat.count();
                    fail(
                        format!("it is to follow line {at}, and the file has {has}"),
                        false,
                    )
                }
            }
            (None, _) => Ok(range(flat.count())),
        };
    }
    let mut wanted = Vec::new();
    for row in hunk.old() {
        wanted.push(b'\n');
        wanted.extend_from_slice(part(row));
    }
    wanted.push(b'\n');
    if hunk.is_at_end {
        return match flat.count().checked_sub(count) {
            Some(start) if flat.is_at(&wanted, start) => Ok(range(start)),
            _ => fail("its lines are not at the end of the file".into(), true),
        };
    }
    if let Some(start) = hunk.at.and_then(|at| at.checked_sub(1))
        && start >= done
        && flat.is_at(&wanted, start)
    {
        return Ok(range(start));
    }
    // What comes after the hunk before this one decides, if there is anything.
    let places = |from: usize| match &after {
        Some(after) => flat.places(&wanted, after.iter().map(|after| *after.max(&from))),
        None => flat.places(&wanted, from..flat.count()),
    };
    let mut found = places(done);
    if found.is_empty() {
        found = places(0);
    }
    match found.as_slice() {
        [] => fail(
            "its lines are not in the file as they are in the patch".into(),
            true,
        ),
        [only] => Ok(range(*only)),
        several => fail(ambiguous("these lines", several), false),
    }
}

fn ambiguous(what: &str, places: &[usize]) -> String {
    let numbers: Vec<String> = places
        .iter()
        .take(NUMBERS)
        .map(|place| (place + 1).to_string())
        .collect();
    let more = if places.len() > NUMBERS {
        " and more"
    } else {
        ""
    };
    format!(
        "{what} fit in several places, from lines {}{more}; give more lines around the change, or \
         an @@ line above it",
        numbers.join(", ")
    )
}

/// The lines after the last of a hunk's anchors, wherever they are; nothing if it has none. The
/// anchor that is not there is the error.
fn after_anchors<'h>(flat: &Flat, hunk: &'h Hunk) -> Result<Option<Vec<usize>>, &'h str> {
    let mut after: Option<Vec<usize>> = None;
    for anchor in &hunk.anchors {
        let lines = flat.anchors(anchor);
        let mut ends: Vec<usize> = match &after {
            None => lines.iter().map(|line| line + 1).collect(),
            Some(after) => after
                .iter()
                .filter_map(|start| {
                    let next = lines.partition_point(|line| line < start);
                    lines.get(next).map(|line| line + 1)
                })
                .collect(),
        };
        ends.dedup();
        if ends.is_empty() {
            return Err(anchor);
        }
        after = Some(ends);
    }
    Ok(after)
}

fn put_together(lines: &[&[u8]], placed: &[(Range<usize>, &Hunk)], loose: Vec<usize>) -> Applied {
    let mut new = Builder {
        body: Vec::with_capacity(lines.iter().map(|line| line.len()).sum()),
        end: None,
    };
    let (mut added, mut removed, mut next) = (0, 0, 0);
    let lacks_end = lines.last().is_some_and(|line| !line.ends_with(b"\n"));
    for (place, hunk) in placed {
        for line in lines.get(next..place.start).unwrap_or_default() {
            new.keep(line);
        }
        next = place.start;
        new.end = usual_end(lines, place.start);
        let has_own_ends = hunk.has_own_ends();
        // Without a word on the end of the file it stays as it is.
        let is_last = place.end == lines.len();
        let knows_end = hunk.old().any(|row| !row.has_end);
        for (number, row) in hunk.rows.iter().enumerate() {
            if row.sign == Sign::Add {
                let is_end = is_last && number + 1 == hunk.rows.len();
                let has_end = row.has_end && !(is_end && lacks_end && !knows_end);
                new.add(row, has_own_ends, has_end);
                added += 1;
                continue;
            }
            let line = lines.get(next).copied().unwrap_or_default();
            next += 1;
            if row.sign == Sign::Keep {
                new.keep(line);
            } else {
                new.pass(line);
                removed += 1;
            }
        }
    }
    for line in lines.get(next..).unwrap_or_default() {
        new.keep(line);
    }
    Applied {
        body: new.body,
        added,
        removed,
        loose,
    }
}

/// How lines end near a line.
fn usual_end(lines: &[&[u8]], near: usize) -> Option<&'static str> {
    let with_end = |line: &&&[u8]| line.ends_with(b"\n");
    let before = lines.get(..near).unwrap_or_default();
    let line = lines
        .get(near)
        .filter(with_end)
        .or_else(|| before.iter().rev().find(with_end));
    line.map(|line| end_of(line))
}

fn end_of(line: &[u8]) -> &'static str {
    if line.ends_with(b"\r\n") {
        "\r\n"
    } else {
        "\n"
    }
}

struct Builder {
    body: Vec<u8>,
    /// What a new line ends with here, if there is another line to tell.
    end: Option<&'static str>,
}

impl Builder {
    /// A line that comes after the last one of a file which lacks its end.
    fn close(&mut self) {
        if self.body.last().is_some_and(|last| *last != b'\n') {
            let end = self.end.unwrap_or("\n");
            self.body.extend_from_slice(end.as_bytes());
        }
    }

    fn keep(&mut self, line: &[u8]) {
        self.close();
        self.pass(line);
        self.body.extend_from_slice(line);
    }

    fn pass(&mut self, line: &[u8]) {
        if line.ends_with(b"\n") {
            self.end = Some(end_of(line));
        }
    }

    fn add(&mut self, row: &Row, has_own_ends: bool, has_end: bool) {
        self.close();
        self.body.extend_from_slice(row.text.as_bytes());
        if has_end {
            let own = if row.has_cr { "\r\n" } else { "\n" };
            let end = self.end.filter(|_| !has_own_ends).unwrap_or(own);
            self.body.extend_from_slice(end.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn whoever_does_not_wait_is_asked_before_each_hunk() {
        let hunk = |line| Hunk {
            line,
            rows: vec![Row::parse("-a").unwrap()],
            ..Hunk::default()
        };
        let asked = Cell::new(0);
        let is_cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() == 2
        };
        let problem = apply(b"a\na\n", &[hunk(1), hunk(3)], &is_cancelled).unwrap_err();
        assert_eq!((problem.line, asked.get()), (1, 1));
        let hunks = [
            Hunk {
                at: Some(1),
                ..hunk(1)
            },
            hunk(3),
        ];
        asked.set(0);
        let problem = apply(b"a\na\n", &hunks, &is_cancelled).unwrap_err();
        assert_eq!((problem.line, asked.get()), (3, 2));
    }
}
