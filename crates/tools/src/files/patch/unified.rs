//! Unified diffs, with or without git's headers.

use super::envelope::start_of;
use super::{
    Change, Hunk, Patch, PatchError, Row, Section, Sign, Source, content, drop_bare_end, error,
    numbers,
};

/// What git's headers say of a file.
#[derive(Default)]
struct Headers {
    line: usize,
    /// The path, if both sides have the same.
    path: Option<String>,
    is_new: bool,
    is_deleted: bool,
    has_mode: bool,
    rename: (Option<String>, Option<String>),
}

pub(crate) fn parse(source: &Source<'_>) -> Result<Patch, PatchError> {
    let mut patch = Patch {
        sections: Vec::new(),
        has_modes: false,
    };
    let mut headers: Option<Headers> = None;
    let mut place = 0;
    let mut has_begun = false;
    while let Some(text) = source.at(place) {
        let line = place + 1;
        if let Some(paths) = text.strip_prefix("diff --git ") {
            end_headers(&mut patch, headers.take())?;
            headers = Some(Headers {
                line,
                path: same_path(paths),
                ..Headers::default()
            });
            has_begun = true;
        } else if is_file_start(source, place) {
            let headers = headers.take();
            patch.has_modes |= headers.as_ref().is_some_and(|headers| headers.has_mode);
            let section = section(source, &mut place, headers)?;
            patch.sections.push(section);
            has_begun = true;
            continue;
        } else if let Some(headers) = &mut headers {
            header(headers, text, line)?;
        } else if text == "-- " || text == "--" {
            // git's signature.
            break;
        } else if text.starts_with("@@") {
            return error(line, "a change without --- and +++ lines before it");
        } else if has_begun && text.starts_with(['+', '-', ' ', '\\']) && !text.trim().is_empty() {
            return error(line, format!("{:?} belongs to no change", start_of(text)));
        }
        place += 1;
    }
    end_headers(&mut patch, headers)?;
    Ok(patch)
}

fn is_file_start(source: &Source<'_>, place: usize) -> bool {
    let starts = |place, with| {
        source
            .at(place)
            .is_some_and(|text: &str| text.starts_with(with))
    };
    starts(place, "--- ") && starts(place + 1, "+++ ")
}

/// The path in `a/path b/path`.
fn same_path(paths: &str) -> Option<String> {
    if paths.starts_with('"') {
        let (old, new) = paths.split_once("\" \"")?;
        let (old, _) = path_of(&format!("{old}\""))?;
        let (new, _) = path_of(&format!("\"{new}"))?;
        return (old.strip_prefix("a/")? == new.strip_prefix("b/")?)
            .then(|| new.get(2..).map(str::to_owned))?;
    }
    let (old, new) = paths.split_at_checked(paths.len() / 2)?;
    let new = new.strip_prefix(" b/")?;
    (old.strip_prefix("a/")? == new).then(|| new.to_owned())
}

fn header(headers: &mut Headers, text: &str, line: usize) -> Result<(), PatchError> {
    if text.starts_with("new file mode ") {
        headers.is_new = true;
        headers.has_mode |= !text.ends_with("100644");
    } else if text.starts_with("deleted file mode ") {
        headers.is_deleted = true;
    } else if text.starts_with("old mode ") || text.starts_with("new mode ") {
        headers.has_mode = true;
    } else if let Some(path) = text.strip_prefix("rename from ") {
        headers.rename.0 = path_of(path).map(|(path, _)| path);
    } else if let Some(path) = text.strip_prefix("rename to ") {
        headers.rename.1 = path_of(path).map(|(path, _)| path);
    } else if text.starts_with("copy from ") || text.starts_with("copy to ") {
        return error(
            line,
            "copies are not supported; add the file with its content",
        );
    } else if text.starts_with("GIT binary patch") || text.starts_with("Binary files ") {
        return error(line, "binary patches are not supported");
    }
    Ok(())
}

/// A file of which there are headers only.
fn end_headers(patch: &mut Patch, headers: Option<Headers>) -> Result<(), PatchError> {
    let Some(headers) = headers else {
        return Ok(());
    };
    patch.has_modes |= headers.has_mode;
    let (path, change) = match (headers.rename, headers.path) {
        ((Some(from), Some(to)), _) => (
            from,
            Change::Update {
                to: Some(to),
                hunks: Vec::new(),
            },
        ),
        (_, Some(path)) if headers.is_new => (path, Change::Add(String::new())),
        (_, Some(path)) if headers.is_deleted => (path, Change::Delete(Vec::new())),
        _ if headers.has_mode => {
            return error(
                headers.line,
                "only a mode is changed here, which is not supported; use chmod",
            );
        }
        _ => return error(headers.line, "no change is found after this line"),
    };
    patch.sections.push(Section {
        line: headers.line,
        path,
        change,
    });
    Ok(())
}

/// A path as it stands after `--- `, and whether it is quoted; nothing for /dev/null.
fn path_of(text: &str) -> Option<(String, bool)> {
    if let Some(quoted) = text.strip_prefix('"') {
        return unquote(quoted).map(|path| (path, true));
    }
    // A time may follow.
    let path = text.split('\t').next().unwrap_or_default();
    (path != "/dev/null").then(|| (path.to_owned(), false))
}

/// C's escapes, up to the closing quote.
fn unquote(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    loop {
        match rest.next()? {
            b'"' => return String::from_utf8(bytes).ok(),
            b'\\' => match rest.next()? {
                b'n' => bytes.push(b'\n'),
                b't' => bytes.push(b'\t'),
                b'r' => bytes.push(b'\r'),
                b'a' => bytes.push(7),
                b'b' => bytes.push(8),
                b'v' => bytes.push(11),
                b'f' => bytes.push(12),
                first @ b'0'..=b'3' => {
                    let mut code = first - b'0';
                    for _ in 0..2 {
                        let digit = rest.next().filter(|digit| (b'0'..=b'7').contains(digit))?;
                        code = code.wrapping_mul(8) + (digit - b'0');
                    }
                    bytes.push(code);
                }
                other => bytes.push(other),
            },
            other => bytes.push(other),
        }
    }
}

fn section(
    source: &Source<'_>,
    place: &mut usize,
    headers: Option<Headers>,
) -> Result<Section, PatchError> {
    let line = *place + 1;
    let side = |place: usize, mark: &str| {
        let text = source.at(place).unwrap_or_default();
        path_of(text.strip_prefix(mark).unwrap_or(text)).map(|(path, _)| path)
    };
    let (old, new) = (side(*place, "--- "), side(*place + 1, "+++ "));
    *place += 2;
    let mut hunks = Vec::new();
    while let Some(text) = source.at(*place) {
        if !text.starts_with("@@") {
            break;
        }
        hunks.push(hunk(source, place)?);
    }
    let rename = headers.map(|headers| headers.rename).unwrap_or_default();
    let cut = |path: String, prefix: &str| match path.strip_prefix(prefix) {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => path,
    };
    let (path, change) = match (old, new) {
        (None, None) => return error(line, "both files are /dev/null"),
        (None, Some(new)) => {
            let rows: Vec<Row> = hunks.into_iter().flat_map(|hunk| hunk.rows).collect();
            if rows.iter().any(|row| row.sign != Sign::Add) {
                return error(
                    line,
                    "a file that is added has lines that do not start with +",
                );
            }
            (cut(new, "b/"), Change::Add(content(&rows)))
        }
        (Some(old), None) => {
            let adds = |hunk: &Hunk| hunk.rows.iter().any(|row| row.sign != Sign::Remove);
            if hunks.iter().any(adds) {
                return error(
                    line,
                    "a file that is deleted has lines that do not start with -",
                );
            }
            (cut(old, "a/"), Change::Delete(hunks))
        }
        (Some(old), Some(new)) => {
            let has_prefixes = old.starts_with("a/") && new.starts_with("b/");
            let (old, new) = if has_prefixes {
                (cut(old, "a/"), cut(new, "b/"))
            } else {
                (old, new)
            };
            if let (Some(from), Some(to)) = rename {
                (
                    from,
                    Change::Update {
                        to: Some(to),
                        hunks,
                    },
                )
            } else if old != new {
                return error(
                    line,
                    format!(
                        "{old} and {new} are two files: name one, or say rename from and rename to \
                         under a diff --git line"
                    ),
                );
            } else if hunks.is_empty() {
                return error(line, "there is no @@ line after this");
            } else {
                (new, Change::Update { to: None, hunks })
            }
        }
    };
    if path.trim().is_empty() {
        return error(line, "the path is empty");
    }
    Ok(Section { line, path, change })
}

/// Reads a hunk as its counts say; where they do not fit, up to what cannot be of it.
fn hunk(source: &Source<'_>, place: &mut usize) -> Result<Hunk, PatchError> {
    let line = *place + 1;
    let header = source.at(*place).unwrap_or_default();
    let start = *place + 1;
    let stated = numbers(header);
    let counted = stated.and_then(|(_, old, new)| by_counts(source, start, old, new));
    let (rows, end) = match counted {
        Some(found) => found,
        None => by_looks(source, start),
    };
    *place = end;
    if rows.iter().all(|row| row.sign == Sign::Keep) {
        let problem = match source.at(end) {
            Some(text) if rows.is_empty() => format!(
                "each line of a change starts with a blank, + or -, not {:?}",
                start_of(text)
            ),
            _ => "this change has no line with + or -".into(),
        };
        return error(line, problem);
    }
    let has_old = rows.iter().any(|row| row.sign != Sign::Add);
    Ok(Hunk {
        line,
        anchors: Vec::new(),
        // The line before is named where there are no old lines; 0 elsewhere is a slip.
        at: stated.map(|(at, ..)| at).filter(|at| *at > 0 || !has_old),
        rows,
        is_at_end: false,
    })
}

fn by_counts(
    source: &Source<'_>,
    start: usize,
    mut old: usize,
    mut new: usize,
) -> Option<(Vec<Row>, usize)> {
    let mut rows: Vec<Row> = Vec::new();
    let mut place = start;
    while old > 0 || new > 0 {
        let line = source.raw(place)?;
        place += 1;
        if line.starts_with('\\') {
            rows.last_mut()?.has_end = false;
            continue;
        }
        let row = Row::parse(line)?;
        if row.sign != Sign::Add {
            old = old.checked_sub(1)?;
        }
        if row.sign != Sign::Remove {
            new = new.checked_sub(1)?;
        }
        rows.push(row);
    }
    if source.raw(place).is_some_and(|line| line.starts_with('\\')) {
        rows.last_mut()?.has_end = false;
        place += 1;
    }
    let goes_on = source.raw(place).is_some_and(|line| {
        line.starts_with(['+', '-', ' ', '\\'])
            && !is_file_start(source, place)
            && !is_signature(source, place)
    });
    (!goes_on).then_some((rows, place))
}

fn by_looks(source: &Source<'_>, start: usize) -> (Vec<Row>, usize) {
    let mut rows: Vec<Row> = Vec::new();
    let mut place = start;
    while let Some(line) = source.raw(place) {
        if is_file_start(source, place) || is_signature(source, place) {
            break;
        }
        if line.starts_with('\\') {
            if let Some(row) = rows.last_mut() {
                row.has_end = false;
            }
        } else if let Some(row) = Row::parse(line) {
            rows.push(row);
        } else {
            break;
        }
        place += 1;
    }
    drop_bare_end(&mut rows);
    (rows, place)
}

/// Whether git's signature starts here: `-- ` and a version at the end.
fn is_signature(source: &Source<'_>, place: usize) -> bool {
    source.at(place) == Some("-- ")
        && source
            .at(place + 1)
            .is_some_and(|text| text.starts_with(|it: char| it.is_ascii_digit()))
        && (place + 2..)
            .map_while(|place| source.at(place))
            .all(|text| text.trim().is_empty())
}
