//! What a search has found, kept within bounds, and the answer it makes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::DirEntry;
use tooloop_tool::ToolOutput;

use super::report::{Report, count, grouped, named, wide};
use super::root::Root;
use super::sink::{Collector, Hits, Keep, LineKind, Source};
use super::walk::{Trouble, Visit};
use super::{GrepInput, GrepMode, Quit, SearchSettings};

/// How many files are named in a note.
const NAMED: usize = 5;

/// One thread's search.
pub(super) struct Search<'s> {
    matcher: RegexMatcher,
    searcher: Searcher,
    quit: &'s Quit,
    any: &'s AtomicBool,
    pub(super) found: Found,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        matcher: RegexMatcher,
        multiline: bool,
        heap_bytes: usize,
        keep: Keep,
        quit: &'s Quit,
        any: &'s AtomicBool,
    ) -> Self {
        let mut builder = SearcherBuilder::new();
        if !multiline {
            builder.line_terminator(LineTerminator::crlf());
        }
        let context = match keep.mode {
            GrepMode::Lines => usize::try_from(keep.context).unwrap_or(0),
            GrepMode::Files | GrepMode::Count => 0,
        };
        builder
            .multi_line(multiline)
            .line_number(keep.mode == GrepMode::Lines)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(heap_bytes.max(1)))
            // A file that shrinks while it is mapped would end the process.
            .memory_map(MmapChoice::never())
            .binary_detection(BinaryDetection::convert(0));
        Self {
            matcher,
            searcher: builder.build(),
            quit,
            any,
            found: Found::new(keep),
        }
    }

    /// Searches one file.
    pub(super) fn one(&mut self, path: &Path, below: &Path, trouble: &mut Trouble) {
        let file = match open(path) {
            Ok(file) => file,
            Err(error) => return trouble.file(&error),
        };
        let mut keep = self.found.keep;
        if !self.found.has_room_for(below) {
            keep.matches = 0;
        }
        let binary = Cell::new(false);
        let mut collector = Collector {
            hits: Hits::default(),
            keep,
            matcher: &self.matcher,
            quit: self.quit,
            binary: &binary,
            found: self.any,
        };
        let source = Source::new(file, self.quit, &binary);
        let searched = self
            .searcher
            .search_reader(&self.matcher, source, &mut collector);
        let hits = collector.hits;
        self.found.searched += 1;
        if let Err(error) = searched
            && !self.quit.now()
        {
            // The searcher's own complaint is that of its heap limit.
            if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::Other {
                let whole = self.searcher.multi_line_with_matcher(&self.matcher);
                self.found.in_memory |= whole;
                self.found.unfinished.add(below);
            } else {
                trouble.file(&error);
            }
        }
        if hits.matches > 0 && !hits.binary {
            self.any.store(true, Ordering::Relaxed);
        }
        self.found.add(below, hits);
    }
}

impl Visit for Search<'_> {
    fn file(&mut self, entry: &DirEntry, below: &Path, trouble: &mut Trouble) {
        // Not a link, and nothing that would wait or act when it is opened.
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            self.one(entry.path(), below, trouble);
        }
    }
}

/// Opens a file that was a regular one a moment ago, whatever it is now.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    }
    options.open(path)
}

/// Names of a few files, and how many there are.
#[derive(Debug, Default)]
struct Sample {
    count: u64,
    first: BTreeSet<OsString>,
}

impl Sample {
    fn add(&mut self, path: &Path) {
        self.count += 1;
        self.first.insert(path.as_os_str().to_owned());
        self.shrink();
    }

    fn join(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.first.len() > NAMED {
            self.first.pop_last();
        }
    }

    fn names(&self, root: &Root) -> String {
        let names: Vec<String> = self
            .first
            .iter()
            .map(|path| root.show(Path::new(path)))
            .collect();
        let mut text = names.join(", ");
        let more = self.count.saturating_sub(wide(names.len()));
        if more > 0 {
            text.push_str(&format!(" and {} more", grouped(more)));
        }
        text
    }
}

/// What one thread, or all of them, found: the first files by path, as many as can be shown.
#[derive(Debug)]
pub(super) struct Found {
    keep: Keep,
    files: BTreeMap<OsString, Hits>,
    /// How many matches (or files, where only these are shown) are kept, and how long they are.
    kept: usize,
    bytes: usize,
    matches: u64,
    matching_files: u64,
    searched: u64,
    binary: Sample,
    unfinished: Sample,
    /// Whether it takes whole files in memory to find what is looked for.
    in_memory: bool,
}

impl Found {
    fn new(keep: Keep) -> Self {
        Self {
            keep,
            files: BTreeMap::new(),
            kept: 0,
            bytes: 0,
            matches: 0,
            matching_files: 0,
            searched: 0,
            binary: Sample::default(),
            unfinished: Sample::default(),
            in_memory: false,
        }
    }

    fn weight(&self, hits: &Hits) -> usize {
        match self.keep.mode {
            GrepMode::Lines => hits.kept,
            GrepMode::Files | GrepMode::Count => 1,
        }
    }

    fn is_full(&self) -> bool {
        self.kept >= self.keep.matches || self.bytes >= self.keep.bytes
    }

    /// Whether a file with this path would be kept.
    fn has_room_for(&self, below: &Path) -> bool {
        !self.is_full()
            || self
                .files
                .last_key_value()
                .is_some_and(|(last, _)| below.as_os_str() < last.as_os_str())
    }

    fn add(&mut self, below: &Path, hits: Hits) {
        if hits.matches == 0 {
            return;
        }
        if hits.binary {
            self.binary.add(below);
            return;
        }
        self.matches += hits.matches;
        self.matching_files += 1;
        if self.has_room_for(below) {
            self.insert(below.as_os_str().to_owned(), hits);
        }
    }

    fn insert(&mut self, path: OsString, hits: Hits) {
        self.kept += self.weight(&hits);
        self.bytes += path.len() + hits.bytes;
        self.files.insert(path, hits);
        // Those that cannot be shown any more go.
        while let Some((path, last)) = self.files.last_key_value() {
            let kept = self.kept - self.weight(last);
            let bytes = self.bytes - path.len() - last.bytes;
            if kept < self.keep.matches && bytes < self.keep.bytes {
                break;
            }
            (self.kept, self.bytes) = (kept, bytes);
            self.files.pop_last();
        }
    }

    /// Both together.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.matches += other.matches;
        self.matching_files += other.matching_files;
        self.searched += other.searched;
        self.binary.join(other.binary);
        self.unfinished.join(other.unfinished);
        self.in_memory |= other.in_memory;
        for (path, hits) in other.files {
            self.insert(path, hits);
        }
        self
    }
}

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
