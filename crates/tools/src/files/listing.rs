//! Folders in words: what is in one, and what the model may have meant.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::path::Path;

use tooloop_tool::{ToolError, ToolOutput};

use super::call::{Call, failed, shown, words};
use super::machine::{FileKind, FolderEntry, OpenFile};
use super::text::counted;

/// How many entries of a folder are listed.
const LISTED: usize = 200;

/// How many names are looked at to find a similar one.
const COMPARED: usize = 10_000;

/// How many similar names are told.
const SIMILAR: usize = 3;

/// A short listing, for who reads a folder.
pub(crate) fn folder(call: &Call, given: &str, file: &OpenFile) -> Result<ToolOutput, ToolError> {
    let listing = match call.ops.list(&file.real_path, LISTED) {
        Ok(listing) => listing,
        Err(error) => return failed(format!("cannot list {given}: {}", words(&error))),
    };
    let count = listing.entries.len() + listing.left_out;
    if count == 0 {
        return Ok(ToolOutput::text(format!("({given} is an empty folder)")));
    }
    let entries = if count == 1 { "entry" } else { "entries" };
    let mut text = format!("({given} is a folder with {count} {entries})\n");
    for entry in &listing.entries {
        text.push_str(&name(&entry.name));
        text.push_str(mark(entry));
        text.push('\n');
    }
    if listing.left_out > 0 {
        text.push_str(&format!("({} more are not listed)\n", listing.left_out));
    }
    Ok(ToolOutput::text(text))
}

const fn mark(entry: &FolderEntry) -> &'static str {
    match entry.kind {
        FileKind::File => "",
        FileKind::Folder => "/",
        FileKind::Link => " (link)",
        FileKind::Fifo => " (named pipe)",
        FileKind::Socket => " (socket)",
        FileKind::Device => " (device)",
    }
}

/// A name, quoted where its bounds could not be seen.
fn name(name: &OsStr) -> String {
    let name = name.to_string_lossy();
    let is_plain = name.trim() == name && !name.chars().any(char::is_control);
    if is_plain {
        name.into_owned()
    } else {
        format!("{name:?}")
    }
}

/// Why there is no such file, and what may have been meant.
pub(crate) fn missing(call: &Call, given: &str) -> String {
    let path = call.workspace.join(given);
    if given.starts_with('~') {
        return format!("there is no file {given}: ~ is not expanded, give the whole path");
    }
    let Some((parent, wanted)) = path.parent().zip(path.file_name()) else {
        return format!("there is no file {given}");
    };
    // The place that was judged; its directory, and those above it.
    let entry = match call.entry(given) {
        Ok(entry) => entry,
        Err(error) => return error.to_string(),
    };
    let folder = entry.parent().unwrap_or(Path::new("/"));
    match call.ops.list(folder, COMPARED) {
        Ok(listing) => {
            let place = match shown(parent, &call.workspace) {
                place if parent == call.workspace => format!("the workspace {place}"),
                place => place,
            };
            let names = similar(&listing.entries, &wanted.to_string_lossy());
            if listing.entries.is_empty() {
                format!("there is no file {given}: {place} is empty")
            } else if names.is_empty() {
                let count = counted(listing.entries.len() + listing.left_out, "name");
                format!("there is no file {given}: none of the {count} in {place} is similar")
            } else {
                let names = names.join(", ");
                format!("there is no file {given}; similar names in {place}: {names}")
            }
        }
        Err(_) => {
            let alive = folder
                .ancestors()
                .skip(1)
                .find(|parent| call.ops.list(parent, 1).is_ok())
                .unwrap_or(Path::new("/"));
            format!(
                "there is no file {given}: there is no folder {}; the nearest one that exists is {}",
                shown(parent, &call.workspace),
                alive.display()
            )
        }
    }
}

/// The most similar names, best first.
fn similar(entries: &[FolderEntry], wanted: &str) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut found: Vec<(Reverse<u64>, String)> = entries
        .iter()
        .filter_map(|entry| {
            let known = entry.name.to_string_lossy().to_lowercase();
            let score = strsim::jaro_winkler(known.trim(), wanted.trim());
            let is_similar = score > 0.8;
            is_similar.then(|| {
                let name = format!("{}{}", name(&entry.name), mark(entry));
                (Reverse(score.to_bits()), name)
            })
        })
        .collect();
    found.sort();
    found.truncate(SIMILAR);
    found.into_iter().map(|(_, name)| name).collect()
}
