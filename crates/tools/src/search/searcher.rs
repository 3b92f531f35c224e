//! Searching one file after another.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use grep_matcher::LineTerminator;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::DirEntry;
use rustix::fs::OFlags;

use super::found::Found;
use super::sink::{Collector, Hits, Keep, Source};
use super::walk::{Trouble, Visit};
use super::{GrepMode, Quit};
use crate::no_links;

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

/// Opens a file that was a regular one a moment ago, whatever it is now. What was walked had no link
/// in its path; a folder on the way may be one by now.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(no_links::open(path, flags)?.into())
}
