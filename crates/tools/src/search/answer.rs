//! What `grep` answers.

use std::path::Path;

use tooloop_tool::ToolOutput;

use super::found::Found;
use super::report::{Report, count, grouped, named, wide};
use super::root::Root;
use super::sink::{Keep, LineKind};
use super::walk::Trouble;
use super::{GrepInput, GrepMode, SearchSettings};

/// The answer to the model.
pub(super) fn answer(
    input: &GrepInput,
    settings: &SearchSettings,
    keep: Keep,
    root: &Root,
    found: Option<Found>,
    trouble: &Trouble,
) -> ToolOutput {
    let found = found.unwrap_or_else(|| Found::new(keep));
    let mut report = Report::new(settings.characters);
    let mut notes = Vec::new();
    let in_files = count(found.matching_files, "file");
    let total = format!("{} in {in_files}", count(found.matches, "match"));
    match keep.mode {
        _ if found.matches == 0 => {
            report.add(&nothing(input, root, &found));
        }
        GrepMode::Lines => {
            let shown = lines(&mut report, keep, root, &found);
            if shown < found.matches {
                notes.push(format!(
                    "({} of {total} shown, first by path; {} left out: narrow the pattern, path or \
                     glob)",
                    grouped(shown),
                    grouped(found.matches - shown)
                ));
            }
        }
        GrepMode::Files | GrepMode::Count => {
            let shown = files(&mut report, keep, root, &found);
            if keep.mode == GrepMode::Count {
                notes.push(format!("({total})"));
            }
            if shown < found.matching_files {
                notes.push(format!(
                    "({} of {in_files} shown, first by path; {} left out: narrow the pattern, path \
                     or glob)",
                    grouped(shown),
                    grouped(found.matching_files - shown)
                ));
            }
        }
    }
    if found.unfinished.count > 0 {
        let why = if found.in_memory {
            "not searched, too large for multiline"
        } else {
            "not searched to the end, a line is too long"
        };
        let names = found.unfinished.names(root);
        let files = count(found.unfinished.count, "file");
        notes.push(format!("({files} {why}: {names})"));
    }
    notes.extend(trouble.lines());
    let details = match keep.mode {
        GrepMode::Lines | GrepMode::Count => total,
        GrepMode::Files => in_files,
    };
    ToolOutput {
        details: Some(details),
        ..ToolOutput::text(report.finish(&notes))
    }
}

/// Adds files and lines; gives the number of matches that are shown.
fn lines(report: &mut Report, keep: Keep, root: &Root, found: &Found) -> u64 {
    let mut shown = 0;
    for (index, (path, hits)) in found.files.iter().enumerate() {
        if shown >= wide(keep.matches) {
            break;
        }
        let header = root.show(Path::new(path));
        if !(index == 0 || report.add("")) || !report.add(&header) {
            break;
        }
        let mut previous = None;
        let mut last = 0;
        for line in &hits.lines {
            let over = shown >= wide(keep.matches);
            match line.kind {
                LineKind::Match if over => break,
                LineKind::Context if over && line.number > last + keep.context => break,
                LineKind::Match | LineKind::More | LineKind::Context => {}
            }
            let is_next = previous.is_none_or(|previous| line.number == previous + 1);
            if keep.context > 0 && !is_next && !report.add("--") {
                return shown;
            }
            previous = Some(line.number);
            let mark = if line.kind == LineKind::Context {
                '-'
            } else {
                ':'
            };
            if !report.add(&format!("{}{mark} {}", line.number, line.text)) {
                return shown;
            }
            if line.kind != LineKind::Context {
                last = line.number;
            }
            if line.kind == LineKind::Match {
                shown += 1;
            }
        }
    }
    shown
}

/// Adds files; gives the number of those that are shown.
fn files(report: &mut Report, keep: Keep, root: &Root, found: &Found) -> u64 {
    let mut shown = 0;
    for (path, hits) in found.files.iter().take(keep.matches) {
        let mut line = root.show(Path::new(path));
        if keep.mode == GrepMode::Count {
            line.push_str(&format!(": {}", grouped(hits.matches)));
        }
        if !report.add(&line) {
            break;
        }
        shown += 1;
    }
    shown
}

fn is_quoted(pattern: &str) -> bool {
    let inside = |quote| pattern.strip_prefix(quote)?.strip_suffix(quote);
    ['\'', '"']
        .into_iter()
        .any(|quote| inside(quote).is_some_and(|inside| !inside.contains(quote)))
}

fn nothing(input: &GrepInput, root: &Root, found: &Found) -> String {
    let pattern = named(&input.pattern);
    let mut text = format!("no matches for {pattern} in {}", root.name());
    if found.binary.count > 0 {
        let files = count(found.binary.count, "binary file");
        let verb = if found.binary.count == 1 {
            "matches"
        } else {
            "match"
        };
        text.push_str(&format!("; {files} {verb}: {}", found.binary.names(root)));
    }
    if is_quoted(&input.pattern) {
        // Where a shell would take them off, they are looked for here.
        text.push_str("; the quotes around the pattern are part of it: leave them out");
    }
    if root.is_file {
        return text;
    }
    let glob = input.glob.as_deref().filter(|_| found.searched == 0);
    match glob {
        Some(glob) => text.push_str(&format!(" (no file there matches the glob {}", named(glob))),
        None => text.push_str(&format!(" ({} searched", count(found.searched, "file"))),
    }
    text.push_str(if input.all {
        ")"
    } else {
        "; hidden and ignored files were left out, all: true takes them in)"
    });
    text
}
