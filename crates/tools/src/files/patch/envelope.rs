//! The envelope form: `*** Begin Patch` to `*** End Patch`.

use super::{
    Change, Hunk, Patch, PatchError, Row, Section, Sign, Source, content, drop_bare_end, error,
    numbers,
};

pub(crate) fn parse(source: &Source<'_>, first: usize) -> Result<Patch, PatchError> {
    if source.at(first).map(str::trim_end) != Some("*** Begin Patch") {
        return error(
            first + 1,
            "a patch of this form begins with *** Begin Patch",
        );
    }
    let mut sections = Vec::new();
    let mut place = first + 1;
    loop {
        let line = place + 1;
        let Some(text) = source.at(place) else {
            return error(
                line,
                "the patch ends without *** End Patch, so it may be cut; nothing is changed",
            );
        };
        if text.trim_end() == "*** End Patch" {
            break;
        }
        let (change, path);
        if let Some(given) = text.strip_prefix("*** Add File: ") {
            path = given;
            change = add(source, &mut place)?;
        } else if let Some(given) = text.strip_prefix("*** Delete File: ") {
            path = given;
            place += 1;
            change = Change::Delete(Vec::new());
        } else if let Some(given) = text.strip_prefix("*** Update File: ") {
            path = given;
            change = update(source, &mut place)?;
        } else if text.trim().is_empty() {
            place += 1;
            continue;
        } else {
            return error(
                line,
                format!(
                    "expected *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH or \
                     *** End Patch, not {:?}",
                    start_of(text)
                ),
            );
        }
        if path.trim().is_empty() {
            return error(line, "the path is empty");
        }
        sections.push(Section {
            line,
            path: path.into(),
            change,
        });
    }
    for after in place + 1.. {
        match source.at(after) {
            None => break,
            Some(text) if text.trim().is_empty() => {}
            Some(_) => return error(after + 1, "there is more after *** End Patch"),
        }
    }
    Ok(Patch {
        sections,
        has_modes: false,
    })
}

fn is_marker(text: &str) -> bool {
    text.starts_with("*** ")
}

fn add(source: &Source<'_>, place: &mut usize) -> Result<Change, PatchError> {
    let mut rows = Vec::new();
    loop {
        *place += 1;
        match (source.raw(*place), source.at(*place)) {
            (Some(raw), Some(text)) if !is_marker(text) => match raw.strip_prefix('+') {
                Some(text) => rows.push(Row::new(Sign::Add, text)),
                None if is_blank_until_marker(source, *place) => {}
                None => {
                    return error(
                        *place + 1,
                        format!(
                            "each line of an added file starts with +, not {:?}",
                            start_of(text)
                        ),
                    );
                }
            },
            _ => return Ok(Change::Add(content(&rows))),
        }
    }
}

fn is_blank_until_marker(source: &Source<'_>, place: usize) -> bool {
    (place..)
        .map_while(|place| source.at(place))
        .find(|text| !text.trim().is_empty())
        .is_none_or(is_marker)
}

fn update(source: &Source<'_>, place: &mut usize) -> Result<Change, PatchError> {
    let line = *place + 1;
    *place += 1;
    let mut to = None;
    if let Some(given) = source
        .at(*place)
        .and_then(|text| text.strip_prefix("*** Move to: "))
    {
        if given.trim().is_empty() {
            return error(*place + 1, "the new path is empty");
        }
        to = Some(given.to_owned());
        *place += 1;
    }
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut hunk = Hunk::default();
    while let (Some(raw), Some(text)) = (source.raw(*place), source.at(*place)) {
        if text.trim_end() == "*** End of File" {
            hunk.is_at_end = true;
            finish(&mut hunks, &mut hunk)?;
        } else if is_marker(text) {
            break;
        } else if text == "@@" || text.starts_with("@@ ") {
            if !hunk.rows.is_empty() {
                finish(&mut hunks, &mut hunk)?;
            }
            begin(&mut hunk, *place + 1);
            if let Some((at, ..)) = numbers(text) {
                hunk.at = Some(at);
            } else if let Some(anchor) = text.strip_prefix("@@ ")
                && !anchor.trim().is_empty()
            {
                hunk.anchors.push(anchor.into());
            }
        } else if let Some(row) = Row::parse(raw) {
            begin(&mut hunk, *place + 1);
            hunk.rows.push(row);
        } else {
            return error(
                *place + 1,
                format!(
                    "each line of a change starts with a blank, + or -, not {:?}",
                    start_of(text)
                ),
            );
        }
        *place += 1;
    }
    finish(&mut hunks, &mut hunk)?;
    if hunks.is_empty() && to.is_none() {
        return error(line, "the update changes nothing");
    }
    Ok(Change::Update { to, hunks })
}

fn begin(hunk: &mut Hunk, line: usize) {
    if hunk.line == 0 {
        hunk.line = line;
    }
}

/// Ends a hunk, if there is one.
fn finish(hunks: &mut Vec<Hunk>, hunk: &mut Hunk) -> Result<(), PatchError> {
    let mut done = std::mem::take(hunk);
    drop_bare_end(&mut done.rows);
    if done.rows.is_empty() {
        // Blank lines between sections, or an @@ line with nothing after it.
        return match done.anchors.is_empty() && done.at.is_none() {
            true => Ok(()),
            false => error(done.line, "there are no lines after this @@ line"),
        };
    }
    if done.rows.iter().all(|row| row.sign == Sign::Keep) {
        return error(done.line, "this change has no line with + or -");
    }
    hunks.push(done);
    Ok(())
}

/// Enough of a line to know it again.
pub(crate) fn start_of(text: &str) -> String {
    text.chars().take(60).collect()
}
