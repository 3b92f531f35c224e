//! What has changed between two contents of a file, to be looked at.

use std::ops::Range;
use std::time::{Duration, Instant};

use memchr::{memchr, memchr_iter, memrchr};
use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use super::text::{Encoding, readable};

/// Changes over a longer part are not compared line by line.
const COMPARED: usize = 256 << 10;

/// How many characters of a line are shown.
const LINE_CHARACTERS: usize = 300;

/// How many lines of a difference are shown.
const LINES: usize = 400;

/// How many lines of a changed part are shown to the model.
const REGION_LINES: usize = 16;

/// How many bytes are compared at once.
const STEP: usize = 4096;

/// Lines around a change.
const AROUND: usize = 3;

/// The lines that differ: one stretch that holds all changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Changed {
    /// How many lines there are before it.
    pub(crate) lines_before: usize,
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
}

/// Finds what differs; `None` if nothing does.
pub(crate) fn changed(old: &[u8], new: &[u8]) -> Option<Changed> {
    let same = common(old.chunks(STEP).zip(new.chunks(STEP)), |old, new| {
        old.iter().zip(new).take_while(|(a, b)| a == b).count()
    });
    if same == old.len() && same == new.len() {
        return None;
    }
    let start = line_start(old, same);
    let (old_rest, new_rest) = (old.get(start..)?, new.get(start..)?);
    // The common end may not reach back over the common start.
    let shorter = old_rest.len().min(new_rest.len());
    let tail = common(
        old_rest.rchunks(STEP).zip(new_rest.rchunks(STEP)),
        |old, new| {
            let pairs = old.iter().rev().zip(new.iter().rev());
            pairs.take_while(|(a, b)| a == b).count()
        },
    )
    .min(shorter.saturating_sub(same - start));
    // Only whole lines are common.
    let is_whole = is_line_start(old, old.len() - tail) && is_line_start(new, new.len() - tail);
    let tail = match memchr(b'\n', old.get(old.len() - tail..)?) {
        _ if is_whole => tail,
        Some(end) => tail - end - 1,
        None => 0,
    };
    Some(Changed {
        lines_before: memchr_iter(b'\n', old.get(..start)?).count(),
        old: start..old.len() - tail,
        new: start..new.len() - tail,
    })
}

/// How many bytes are the same in pairs of pieces, up to the first that are not; `within` tells how
/// many are in those.
fn common<'a>(
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    within: impl Fn(&[u8], &[u8]) -> usize,
) -> usize {
    let mut same = 0;
    for (old, new) in pairs {
        if old != new {
            return same + within(old, new);
        }
        same += old.len();
    }
    same
}

fn is_line_start(bytes: &[u8], place: usize) -> bool {
    place
        .checked_sub(1)
        .is_none_or(|before| bytes.get(before) == Some(&b'\n'))
}

fn line_start(bytes: &[u8], place: usize) -> usize {
    let before = bytes.get(..place).unwrap_or_default();
    memrchr(b'\n', before).map_or(0, |end| end + 1)
}

fn back(bytes: &[u8], mut place: usize, lines: usize) -> (usize, usize) {
    let mut gone = 0;
    while gone < lines && place > 0 {
        place = line_start(bytes, place - 1);
        gone += 1;
    }
    (place, gone)
}

fn forward(bytes: &[u8], mut place: usize, lines: usize) -> usize {
    for _ in 0..lines {
        match bytes.get(place..).and_then(|rest| memchr(b'\n', rest)) {
            Some(end) => place += end + 1,
            None => return bytes.len(),
        }
    }
    place
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn shown(line: &[u8], encoding: Encoding) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let kept = line.get(..LINE_CHARACTERS * 4).unwrap_or(line);
    let (text, _) = readable(kept, encoding);
    match text.char_indices().nth(LINE_CHARACTERS) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

/// The new text where it differs from the old one, with line numbers and a little around it.
pub(crate) fn region(old: &[u8], new: &[u8], encoding: Encoding) -> String {
    let Some(changed) = changed(old, new) else {
        return String::new();
    };
    let (start, gone) = back(new, changed.new.start, AROUND - 1);
    let end = forward(new, changed.new.end, AROUND - 1);
    let first = changed.lines_before - gone + 1;
    let part = new.get(start..end).unwrap_or_default();
    let count = super::text::count_lines(part);
    let mut text = String::new();
    let half = REGION_LINES / 2;
    for (place, line) in part.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if count > REGION_LINES && (half..count - half).contains(&place) {
            if place == half {
                text.push_str(&format!("... ({} lines)\n", count - REGION_LINES));
            }
            continue;
        }
        text.push_str(&format!("{}\t{}\n", first + place, shown(line, encoding)));
    }
    text
}

/// A unified diff; `None` if the two are the same.
pub(crate) fn unified(given: &str, old: &[u8], new: &[u8], encoding: Encoding) -> Option<String> {
    let changed = changed(old, new)?;
    let (start, gone) = back(old, changed.old.start, AROUND);
    let before = changed.lines_before - gone;
    let old_part = old.get(start..forward(old, changed.old.end, AROUND))?;
    let new_part = new.get(start..forward(new, changed.new.end, AROUND))?;
    let mut text = format!("--- {given}\n+++ {given}\n");
    if old_part.len().max(new_part.len()) > COMPARED {
        text.push_str(&format!(
            "(changes from line {} on, too long to be compared)\n",
            changed.lines_before + 1
        ));
        return Some(text);
    }
    let (old_lines, new_lines) = (lines(old_part), lines(new_part));
    let deadline = Some(Instant::now() + Duration::from_millis(100));
    let operations =
        capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, deadline);
    let mut shown_lines = 0;
    for group in group_diff_ops(operations, AROUND) {
        text.push_str(&header(&group, before));
        for change in group
            .iter()
            .flat_map(|operation| operation.iter_changes(&old_lines, &new_lines))
        {
            shown_lines += 1;
            if shown_lines > LINES {
                text.push_str("(more changes are not shown)\n");
                return Some(text);
            }
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let line: &[u8] = change.value();
            text.push(sign);
            text.push_str(&shown(line, encoding));
            text.push('\n');
            if !line.ends_with(b"\n") {
                text.push_str("\\ No newline at end of file\n");
            }
        }
    }
    Some(text)
}

fn header(group: &[DiffOp], before: usize) -> String {
    let side = |range: fn(&DiffOp) -> Range<usize>| {
        let first = group.first().map_or(0, |operation| range(operation).start);
        let end = group.last().map_or(0, |operation| range(operation).end);
        let count = end - first;
        let first = before + first + usize::from(count > 0);
        if count == 1 {
            format!("{first}")
        } else {
            format!("{first},{count}")
        }
    };
    format!(
        "@@ -{} +{} @@\n",
        side(DiffOp::old_range),
        side(DiffOp::new_range)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_changed_line_is_found_wherever_it_is() {
        let old: Vec<u8> = (0..900)
            .flat_map(|line| format!("{line:09}\n").into_bytes())
            .collect();
        // Around the places where one piece ends, from either end.
        for line in [0, 408, 409, 410, 489, 490, 491, 899] {
            for text in ["x\n", "much longer than it was\n"] {
                let mut new = old.clone();
                new.splice(line * 10..line * 10 + 10, text.bytes());
                let expected = Changed {
                    lines_before: line,
                    old: line * 10..line * 10 + 10,
                    new: line * 10..line * 10 + text.len(),
                };
                assert_eq!(changed(&old, &new), Some(expected), "{line} {text:?}");
            }
        }
        assert_eq!(changed(&old, &old), None);
    }
}
