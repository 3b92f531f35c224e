//! What a command printed: cleaned, bounded, and whole in a file where it is long.

mod clean;
mod mask;
mod spool;
mod window;

use std::fmt::Write as _;
use std::path::PathBuf;

use clean::Cleaner;
use mask::Masking;
use spool::SpoolFile;
use window::Window;

pub use mask::Mask;
pub use spool::{Spool, SpoolState};

/// More raw bytes than this are not held in memory: the spool file takes them.
const RAW: usize = 128 * 1024;

/// How much of an output is kept, and where the whole of it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLimits {
    /// How many characters of the beginning are kept.
    pub head: usize,
    /// How many characters of the end are kept.
    pub tail: usize,
    /// The folder for files with whole outputs; made when the first is needed. `None`: no file.
    pub spool_folder: Option<PathBuf>,
    /// A file that takes the whole output in any case, from the first byte on. There must be none
    /// of that name yet; its folder is made.
    pub file: Option<PathBuf>,
    /// The largest size of such a file in bytes.
    pub spool_bytes: u64,
    /// What is hidden in the output and in its file, as it comes.
    pub mask: Option<Mask>,
    /// How many bytes of the beginning are also kept uncleaned, in [`Output::raw`].
    pub raw: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            head: 15_000,
            tail: 15_000,
            spool_folder: None,
            file: None,
            spool_bytes: 1 << 30,
            mask: None,
            raw: 0,
        }
    }
}

/// What a command printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The cleaned text, or its beginning if something is left out. Empty for binary output.
    pub head: String,
    /// How many bytes of cleaned text between head and tail are left out.
    pub left_out: u64,
    /// The end of the cleaned text. Empty where nothing is left out.
    pub tail: String,
    /// How many bytes the command printed.
    pub bytes: u64,
    /// It was no text.
    pub is_binary: bool,
    /// The file with the whole output, if there is one.
    pub spool: Option<Spool>,
    /// The beginning of the output as the command wrote it: see [`OutputLimits::raw`].
    pub raw: Vec<u8>,
}

impl Output {
    /// The output as one harmless text that says what is left out and where it is to be found.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(self.head.len() + self.tail.len() + 200);
        if self.is_binary {
            text.push_str("(binary output, ");
            push(&mut text, format_args!("{} bytes", self.bytes));
            if let Some(spool) = &self.spool {
                text.push_str("; ");
                describe(&mut text, spool);
            }
            text.push(')');
            return text;
        }
        text.push_str(&self.head);
        if self.left_out > 0 {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let place = self.place();
            push(
                &mut text,
                format_args!("[... {} bytes left out; {place} ...]\n", self.left_out),
            );
        }
        text.push_str(&self.tail);
        text
    }

    /// Where the whole output is, in words.
    #[must_use]
    pub fn place(&self) -> String {
        let mut place = String::new();
        match &self.spool {
            Some(spool) => describe(&mut place, spool),
            None => place.push_str("the rest is not kept"),
        }
        place
    }
}

fn describe(text: &mut String, spool: &Spool) {
    let path = spool.path.display();
    let bytes = spool.bytes;
    match &spool.state {
        SpoolState::Whole => push(text, format_args!("whole output in {path}")),
        SpoolState::Capped => push(
            text,
            format_args!("the first {bytes} bytes, up to the limit for such files, in {path}"),
        ),
        SpoolState::Failed(reason) if bytes == 0 => push(
            text,
            format_args!("the whole output could not be kept in {path}: {reason}"),
        ),
        SpoolState::Failed(reason) => push(
            text,
            format_args!("the first {bytes} bytes in {path}, where writing failed: {reason}"),
        ),
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    text.write_fmt(arguments).unwrap_or_default();
}

/// Makes bytes that a command wrote into a file fit to be shown, as its output is.
#[derive(Debug)]
pub struct OutputCleaner(Capture);

impl OutputCleaner {
    /// Keeps at most that many characters of the beginning and of the end.
    #[must_use]
    pub fn new(head: usize, tail: usize) -> Self {
        let limits = OutputLimits {
            head,
            tail,
            ..OutputLimits::default()
        };
        Self(Capture::new(limits, String::new()))
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// What is to be shown.
    #[must_use]
    pub fn finish(self) -> Output {
        self.0.finish()
    }
}

/// Takes the bytes of a running command.
#[derive(Debug)]
pub(crate) struct Capture {
    limits: OutputLimits,
    name: String,
    masking: Option<Masking>,
    cleaner: Cleaner,
    window: Window,
    /// All bytes so far, as long as there is no spool file.
    raw: Vec<u8>,
    /// The beginning, uncleaned.
    uncleaned: Vec<u8>,
    spool: Option<SpoolFile>,
    bytes: u64,
}

impl Capture {
    /// `name` is the name of the spool file.
    pub(crate) fn new(limits: OutputLimits, name: String) -> Self {
        let window = Window::new(limits.head, limits.tail);
        Self {
            masking: limits.mask.clone().map(Masking::new),
            limits,
            name,
            cleaner: Cleaner::new(),
            window,
            raw: Vec::new(),
            uncleaned: Vec::new(),
            spool: None,
            bytes: 0,
        }
    }

    /// Whether taking that many bytes more writes to a file.
    pub(crate) fn would_write(&self, more: usize) -> bool {
        let held = self.masking.as_ref().map_or(0, Masking::held);
        let more = more + held;
        self.begins_with_file()
            || self.limits.spool_folder.is_some()
                && (self.spool.is_some() || self.raw.len() + more > RAW || self.window.is_over())
    }

    /// Whether there is a file before there is any output: see [`Capture::begin_file`].
    pub(crate) const fn begins_with_file(&self) -> bool {
        self.limits.file.is_some()
    }

    /// Makes the file.
    pub(crate) fn begin_file(&mut self) {
        self.spool();
    }

    /// Takes the next bytes. May write to a file: see [`Capture::would_write`].
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.masking {
            Some(masking) => {
                let safe = masking.feed(bytes);
                self.keep(&safe);
            }
            None => self.keep(bytes),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.would_write(bytes.len()) {
            self.spool().write(bytes);
        } else if self.limits.spool_folder.is_some() {
            self.raw.extend_from_slice(bytes);
        }
        let room = self.limits.raw.saturating_sub(self.uncleaned.len());
        let beginning = bytes.get(..room).unwrap_or(bytes);
        self.uncleaned.extend_from_slice(beginning);
        self.bytes += bytes.len() as u64;
        self.cleaner.feed(bytes, &mut self.window);
    }

    /// The newest characters so far.
    pub(crate) fn recent(&self, characters: usize) -> String {
        let mut recent = self.window.recent(characters);
        recent.push_str(&self.cleaner.current_line());
        recent
    }

    /// Whether [`Capture::finish`] writes to a file.
    pub(crate) fn finish_writes(&self) -> bool {
        // A byte is spelt out in at most four characters.
        self.would_write(0) || self.raw.len() * 4 > self.limits.head
    }

    pub(crate) fn finish(mut self) -> Output {
        if let Some(mut masking) = self.masking.take() {
            let rest = masking.finish();
            self.keep(&rest);
        }
        self.cleaner.finish(&mut self.window);
        if self.would_write(0) {
            self.spool();
        }
        let is_binary = is_binary(self.cleaner.odd(), self.bytes);
        let parts = self.window.into_parts();
        let spool = match self.spool {
            // Only control sequences made it long.
            Some(spool) if parts.left_out == 0 && !is_binary && self.limits.file.is_none() => {
                spool.discard();
                None
            }
            other => other.map(SpoolFile::finish),
        };
        let mut output = Output {
            left_out: parts.left_out,
            bytes: self.bytes,
            is_binary,
            spool,
            raw: self.uncleaned,
            ..Output::default()
        };
        if is_binary {
            output.left_out = 0;
        } else if parts.left_out == 0 {
            output.head = parts.head + &parts.tail;
        } else {
            output.head = parts.head;
            output.tail = parts.tail;
        }
        output
    }

    /// The spool file; made at the first call, with all that came before.
    fn spool(&mut self) -> &mut SpoolFile {
        let raw = std::mem::take(&mut self.raw);
        self.spool.get_or_insert_with(|| {
            let path = match (&self.limits.file, &self.limits.spool_folder) {
                (Some(file), _) => file.clone(),
                (None, Some(folder)) => folder.join(&self.name),
                (None, None) => PathBuf::from(&self.name),
            };
            let mut file = SpoolFile::create(path, self.limits.spool_bytes);
            file.write(&raw);
            file
        })
    }
}

/// A quarter of bytes that are no text is no text. A few stray ones are spelt out instead.
const fn is_binary(odd: u64, bytes: u64) -> bool {
    odd >= 64 && odd * 4 >= bytes
}

#[cfg(test)]
mod tests;
