//! What a patch comes to: steps that are all checked before the first is taken.

use std::path::PathBuf;

use tooloop_tool::ToolError;

use super::call::{Call, failed, plain, shown};
use super::content::Content;
use super::listing;
use super::patch::place::{Applied, NoPlace, apply};
use super::patch::{Change, Hunk, Section, Sign};
use super::text::{Encoding, UTF8_MARK, counted, size};
use super::{diff, nearest};

/// How many bytes of files are held at once.
const MOST: usize = 256 << 20;

/// A change to a file, ready to be made.
pub(crate) struct Step {
    pub(crate) given: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// A line for the model, without the notes.
    pub(crate) summary: String,
    pub(crate) notes: Vec<String>,
    pub(crate) diff: Option<String>,
}

pub(crate) enum Kind {
    Add(Vec<u8>),
    Update {
        old: Content,
        /// What it becomes, if that is another content.
        new: Option<Vec<u8>>,
        to: Option<(String, PathBuf)>,
    },
    Delete {
        old: Content,
        /// Whether the path is a link, which goes, and not what it leads to.
        is_link: bool,
    },
}

/// Checks the sections of a patch against the files as they are.
pub(crate) fn plan(call: &Call, sections: Vec<Section>) -> Result<Vec<Step>, ToolError> {
    let mut steps = Vec::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut held = 0;
    for section in combined(call, sections)? {
        call.check()?;
        let step = match section.change {
            Change::Add(content) => add(call, section.path, content)?,
            Change::Delete(hunks) => delete(call, section.path, &hunks)?,
            Change::Update { to, hunks } => update(call, section.path, to, &hunks)?,
        };
        held += match &step.kind {
            Kind::Add(bytes) => bytes.len(),
            Kind::Update { old, new, .. } => old.body.len() + new.as_ref().map_or(0, Vec::len),
            Kind::Delete { old, .. } => old.body.len(),
        };
        if held > MOST {
            return failed(format!(
                "the files of this patch are too large together, from {} on: more than {}; make \
                 several patches of it",
                step.given,
                size(MOST as u64)
            ));
        }
        // Links may lead two paths to one file.
        let mut touched = vec![step.path.clone()];
        if let Kind::Update { to, .. } = &step.kind {
            touched.extend(to.iter().map(|(_, to)| to.clone()));
        }
        for path in touched {
            if paths.contains(&path) {
                return twice(&step.given);
            }
            paths.push(path);
        }
        steps.push(step);
    }
    Ok(steps)
}

/// Sections with those of one file put together.
fn combined(call: &Call, sections: Vec<Section>) -> Result<Vec<Section>, ToolError> {
    let mut all: Vec<(PathBuf, Section)> = Vec::new();
    for section in sections {
        let path = match call.find(&section.path)? {
            Some(file) => file.real_path,
            None => call.entry(&section.path)?,
        };
        let Some((_, first)) = all.iter_mut().find(|(known, _)| *known == path) else {
            all.push((path, section));
            continue;
        };
        match (&mut first.change, section.change) {
            (
                Change::Update { to: None, hunks },
                Change::Update {
                    to: None,
                    hunks: more,
                },
            ) => hunks.extend(more),
            _ => return twice(&section.path),
        }
    }
    Ok(all.into_iter().map(|(_, section)| section).collect())
}

fn twice<T>(given: &str) -> Result<T, ToolError> {
    failed(format!(
        "{given} is in the patch twice, in ways that do not go together; make two patches of it"
    ))
}

fn must_be_free(call: &Call, given: &str) -> Result<(), ToolError> {
    if call.find(given)?.is_some() {
        return failed(format!(
            "{given} exists already; update it, or delete it in a patch before this one"
        ));
    }
    Ok(())
}

fn add(call: &Call, given: String, content: String) -> Result<Step, ToolError> {
    must_be_free(call, &given)?;
    let bytes = content.into_bytes();
    Ok(Step {
        path: call.written_entry(&given)?,
        summary: format!(
            "A {given} ({})",
            counted(super::text::count_lines(&bytes), "line")
        ),
        notes: Vec::new(),
        diff: diff::unified(&given, b"", &bytes, Encoding::Utf8),
        kind: Kind::Add(bytes),
        given,
    })
}

/// Whether a path leads to its file by a link of its own, not by one on the way.
fn is_link(call: &Call, given: &str, old: &Content) -> Result<bool, ToolError> {
    Ok(call.entry(given)? != old.file.real_path)
}

fn load(call: &Call, given: &str) -> Result<Content, ToolError> {
    match call.find(given)? {
        Some(file) => Content::load(call, given, plain(given, file)?),
        None => failed(listing::missing(call, given)),
    }
}

fn delete(call: &Call, given: String, hunks: &[Hunk]) -> Result<Step, ToolError> {
    let old = load(call, &given)?;
    if !hunks.is_empty() {
        let (_, body) = marked(&old.body);
        let rest = placed(call, &given, &old, body, hunks)?;
        if !rest.body.is_empty() {
            return failed(format!(
                "{given} holds more than the lines that the patch deletes; nothing is changed"
            ));
        }
    }
    Ok(Step {
        path: call.written_entry(&given)?,
        summary: format!("D {given}"),
        notes: Vec::new(),
        diff: diff::unified(&given, &old.body, b"", old.encoding),
        kind: Kind::Delete {
            is_link: is_link(call, &given, &old)?,
            old,
        },
        given,
    })
}

fn update(
    call: &Call,
    given: String,
    to: Option<String>,
    hunks: &[Hunk],
) -> Result<Step, ToolError> {
    let old = load(call, &given)?;
    let (mark, body) = marked(&old.body);
    let applied = placed(call, &given, &old, body, hunks)?;
    for row in hunks.iter().flat_map(|hunk| &hunk.rows) {
        if row.sign == Sign::Add {
            old.takes(&given, &row.text)?;
        }
    }
    let to = match to {
        Some(to) => {
            must_be_free(call, &to)?;
            // A link that says where its file is from its own folder leads nowhere from another.
            if is_link(call, &given, &old)? {
                return failed(format!(
                    "{given} is a link, which a patch does not move; move the file that it leads \
                     to, {}, or the link with mv",
                    shown(&old.file.real_path, &call.workspace)
                ));
            }
            let path = call.written_entry(&to)?;
            Some((to, path))
        }
        None => None,
    };
    let mut new = mark.to_vec();
    new.extend_from_slice(&applied.body);
    let new = (new != old.body).then_some(new);
    if new.is_none() && to.is_none() {
        return failed(format!("{given}: the patch changes nothing in it"));
    }
    let counts = format!("(+{} -{})", applied.added, applied.removed);
    let summary = match &to {
        Some((to, _)) => format!("R {given} -> {to} {counts}"),
        None => format!("M {given} {counts}"),
    };
    let notes = applied
        .loose
        .iter()
        .map(|line| {
            format!(
                "the change at patch line {line} was placed although blanks at line ends differ"
            )
        })
        .collect();
    let diff = new
        .as_ref()
        .and_then(|new| diff::unified(&given, &old.body, new, old.encoding));
    Ok(Step {
        path: old.file.real_path.clone(),
        kind: Kind::Update { old, new, to },
        given,
        summary,
        notes,
        diff,
    })
}

/// A file's byte order mark, and what comes after it.
fn marked(body: &[u8]) -> (&[u8], &[u8]) {
    let length = if body.starts_with(UTF8_MARK) {
        UTF8_MARK.len()
    } else {
        0
    };
    body.split_at_checked(length).unwrap_or((&[], body))
}

fn placed(
    call: &Call,
    given: &str,
    old: &Content,
    body: &[u8],
    hunks: &[Hunk],
) -> Result<Applied, ToolError> {
    let applied = apply(body, hunks, &|| call.is_cancelled());
    call.check()?;
    applied.map_err(|problem| no_place(given, old, hunks, &problem))
}

fn no_place(given: &str, old: &Content, hunks: &[Hunk], problem: &NoPlace) -> ToolError {
    let mut words = format!("{given}, patch line {}: {}", problem.line, problem.problem);
    let hunk = hunks.iter().find(|hunk| hunk.line == problem.line);
    if let Some(hunk) = hunk.filter(|_| problem.is_missing) {
        let text: Vec<&str> = hunk.old().map(|row| row.text.as_str()).collect();
        if let Some(near) = nearest::nearest(&old.body, &text.join("\n"), old.encoding) {
            words.push_str(&format!("; {near}"));
        }
    }
    words.push_str("\nnothing is changed");
    ToolError::Failed(words)
}
