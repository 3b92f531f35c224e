//! Reads a journal through, whatever has become of it.
//!
//! There is one way to read: resuming, looking, checking and repairing all go through it, so that a repair leaves what
//! resuming would have made of the file. Memory is bounded by the longest line and by the live
//! conversation.

use std::fs::File;
use std::io::{BufRead, Read as _};
use std::path::Path;

use jiff::Timestamp;
use tooloop_kernel::{Entry, Transcript};

use crate::fault::{Fault, FaultKind};
use crate::fit::{Fitted, fit};
use crate::header::{self, First};
use crate::lines::{End, Lines, Segment};
use crate::migration::{Migration, STEPS, Step};
use crate::order::{Order, Standing};
use crate::salvage::{Piece, What, pieces};
use crate::{Header, MAX_LINE, Record, StoreError, UnknownRecord};

/// What stands in a journal, oldest first.
#[derive(Debug)]
pub(crate) enum Kept {
    /// A record, as it stands or mended.
    Record(Record),
    /// An entry that this version does not understand.
    Unknown(UnknownRecord),
    /// An entry that is put in where some are lost.
    Added { entry: Entry, time: Timestamp },
    /// A record that changes nothing.
    Idle(Record),
}

/// How a file is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) path: &'a Path,
    /// Where somebody works who wants it read; for a header that is lost.
    pub(crate) workspace: Option<&'a Path>,
    /// Whether a file of which nothing can be read is taken too.
    pub(crate) takes_nothing: bool,
    pub(crate) steps: &'static [Step],
    pub(crate) longest: usize,
    /// Whether what was summed up is kept in the transcript.
    pub(crate) keeps_past: bool,
}

/// What reading through comes to.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) header: Header,
    /// What the records come to.
    pub(crate) transcript: Transcript,
    pub(crate) seq: u64,
    pub(crate) newest: Option<String>,
    pub(crate) records: u64,
    pub(crate) is_migrated: bool,
    pub(crate) tail: Tail,
}

/// How the file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    Whole,
    /// What is behind this place is to be cut off, and a line end to be written if something stands
    /// before it on the line.
    Open {
        keep: u64,
        needs_end: bool,
    },
}

impl<'a> Reading<'a> {
    pub(crate) const fn of(path: &'a Path) -> Self {
        Self {
            path,
            workspace: None,
            takes_nothing: false,
            steps: STEPS,
            longest: MAX_LINE,
            keeps_past: false,
        }
    }

    /// The newest version that is read.
    pub(crate) fn version(self) -> u32 {
        u32::try_from(self.steps.len()).map_or(u32::MAX, |steps| steps.saturating_add(1))
    }

    /// Reads to the end.
    pub(crate) fn run(
        self,
        reader: impl BufRead,
        keep: &mut dyn FnMut(Kept) -> Result<(), StoreError>,
        tell: &mut dyn FnMut(Fault),
    ) -> Result<Ending, StoreError> {
        let mut lines = Lines::new(reader, self.longest);
        let mut state = State {
            reading: self,
            keep,
            tell,
            header: None,
            remains: Vec::new(),
            broken: "there is nothing in it".into(),
            migration: Migration::NONE,
            order: Order::default(),
            transcript: self.transcript(),
            records: 0,
            first_time: None,
            is_unsure: false,
            has_carriage_returns: false,
            line_begins: 0,
            kept_end: 0,
            ended: true,
        };
        let mut is_first = true;
        while let Some(segment) = lines.next().map_err(StoreError::io("read", self.path))? {
            state.segment(segment, lines.text(), &mut is_first)?;
        }
        if is_first {
            let reason = state.broken.clone();
            state.tell(1, 0, FaultKind::Header { reason });
        }
        state.finish()
    }

    /// An empty transcript. What is summed up is kept in it if that may be needed, which takes
    /// memory: only if the conversation was both summed up and taken back.
    fn transcript(self) -> Transcript {
        let mut transcript = Transcript::default();
        // A file that cannot be looked at is not read either.
        if self.keeps_past || File::open(self.path).is_ok_and(takes_back) {
            transcript.keep_past();
        }
        transcript
    }
}

/// Whether a journal may hold both a summary and a way back.
fn takes_back(mut file: File) -> bool {
    const MARKS: [&[u8]; 2] = [b"\"compacted\"", b"\"rewound\""];
    let mut seen = [false; MARKS.len()];
    let longest = MARKS.map(<[u8]>::len).into_iter().max().unwrap_or(0);
    let mut buffer = vec![0; 1 << 16];
    let mut kept = 0;
    while let Some(free) = buffer.get_mut(kept..)
        && let Ok(read @ 1..) = file.read(free)
    {
        let end = kept.saturating_add(read);
        let text = buffer.get(..end).unwrap_or_default();
        for (mark, seen) in MARKS.iter().zip(&mut seen) {
            *seen = *seen || memchr::memmem::find(text, mark).is_some();
        }
        if seen.iter().all(|seen| *seen) {
            return true;
        }
        // A mark may lie across two reads.
        let from = end.saturating_sub(longest);
        buffer.copy_within(from..end, 0);
        kept = end.saturating_sub(from);
    }
    false
}

struct State<'a> {
    reading: Reading<'a>,
    keep: &'a mut dyn FnMut(Kept) -> Result<(), StoreError>,
    tell: &'a mut dyn FnMut(Fault),
    header: Option<Header>,
    /// What is left of a header, and why it is none.
    remains: Vec<u8>,
    broken: String,
    migration: Migration,
    order: Order,
    transcript: Transcript,
    records: u64,
    first_time: Option<Timestamp>,
    /// An entry was not understood: what does not fit behind it may be a consequence.
    is_unsure: bool,
    has_carriage_returns: bool,
    /// Where the newest line begins, and where the last thing on it that is kept ends.
    line_begins: u64,
    kept_end: u64,
    ended: bool,
}

/// The mark that some editors put at the beginning of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl State<'_> {
    fn tell(&mut self, line: usize, offset: u64, kind: FaultKind) {
        (self.tell)(Fault { line, offset, kind });
    }

    fn segment(
        &mut self,
        segment: Segment,
        text: &[u8],
        is_first: &mut bool,
    ) -> Result<(), StoreError> {
        let Segment { line, offset, .. } = segment;
        if std::mem::replace(&mut self.ended, segment.end == End::Line) {
            self.line_begins = offset;
            self.kept_end = offset;
        }
        if segment.is_too_long {
            let bytes = segment.length;
            self.tell(line, offset, FaultKind::TooLong { bytes });
            self.kept_end = offset.saturating_add(bytes);
            *is_first = false;
        } else {
            self.text(segment, text, is_first)?;
        }
        if let End::Nul(bytes) = segment.end {
            let at = offset.saturating_add(segment.length);
            self.tell(line, at, FaultKind::Nuls { bytes });
        }
        Ok(())
    }

    fn text(
        &mut self,
        segment: Segment,
        mut text: &[u8],
        is_first: &mut bool,
    ) -> Result<(), StoreError> {
        let Segment { line, offset, .. } = segment;
        let mut base = offset;
        if let Some(rest) = text.strip_prefix(BYTE_ORDER_MARK).filter(|_| offset == 0) {
            self.tell(line, offset, FaultKind::ByteOrderMark);
            base = base.saturating_add(BYTE_ORDER_MARK.len() as u64);
            text = rest;
        }
        if text.ends_with(b"\r") && !std::mem::replace(&mut self.has_carriage_returns, true) {
            self.tell(line, offset, FaultKind::CarriageReturns);
        }
        let mut before = Before::Nothing;
        if *is_first && !text.trim_ascii().is_empty() {
            *is_first = false;
            let length;
            (before, length) = self.first(line, base, text)?;
            text = text.get(length..).unwrap_or_default();
            base = base.saturating_add(length as u64);
            if before == Before::Kept {
                self.kept_end = base;
            }
        }
        let pieces = pieces(text, self.migration);
        let is_open = segment.end == End::File;
        let last = pieces.len().saturating_sub(1);
        for (index, piece) in pieces.into_iter().enumerate() {
            let at = base.saturating_add(piece.at as u64);
            let bytes = piece.length as u64;
            if let What::Lost(reason) = piece.what {
                let kind = if is_open && index == last {
                    FaultKind::Torn { bytes }
                } else {
                    FaultKind::Unreadable { bytes, reason }
                };
                if before != Before::Remains || index > 0 {
                    self.tell(line, at, kind);
                }
                continue;
            }
            if before == Before::Kept {
                self.tell(line, at, FaultKind::Fused);
            }
            self.kept_end = at.saturating_add(bytes);
            self.piece(line, at, piece)?;
            before = Before::Kept;
        }
        if is_open && before == Before::Kept {
            let at = self.kept_end;
            self.tell(line, at, FaultKind::NoLineEnd);
        }
        Ok(())
    }

    /// Takes the header, and says how much of the line it is.
    fn first(&mut self, line: usize, at: u64, text: &[u8]) -> Result<(Before, usize), StoreError> {
        match header::read(text, self.reading.steps) {
            First::Whole {
                header,
                migration,
                length,
            } => {
                self.header = Some(header);
                self.migration = migration;
                Ok((Before::Kept, length))
            }
            First::Broken(reason) => {
                self.broken.clone_from(&reason);
                self.tell(line, at, FaultKind::Header { reason });
                self.remains = header::remains(text).to_vec();
                Ok((Before::Remains, 0))
            }
            First::Refused(reason) => Err(StoreError::Format {
                path: self.reading.path.to_owned(),
                line,
                reason,
            }),
        }
    }

    fn piece(&mut self, line: usize, at: u64, piece: Piece) -> Result<(), StoreError> {
        if piece.is_replaced {
            self.tell(line, at, FaultKind::NotUtf8);
        }
        match piece.what {
            What::Lost(_) => Ok(()),
            What::Record(record) => self.record(line, at, *record),
            What::Unknown(record, reason) => {
                if !self.takes(line, at, record.seq, &record.id, record.parent.as_deref()) {
                    return Ok(());
                }
                let kind = record.kind().unwrap_or_default();
                self.tell(line, at, FaultKind::Unknown { kind, reason });
                self.is_unsure = true;
                self.first_time.get_or_insert(record.time);
                self.records = self.records.saturating_add(1);
                (self.keep)(Kept::Unknown(*record))
            }
        }
    }

    /// Whether a record stands for itself, wherever it stands.
    fn takes(&mut self, line: usize, at: u64, seq: u64, id: &str, parent: Option<&str>) -> bool {
        match self.order.take(seq, id, parent) {
            Standing::Next => true,
            Standing::Apart {
                expected,
                has_parent,
            } => {
                let chain = FaultKind::Chain {
                    seq,
                    expected,
                    has_parent,
                };
                self.tell(line, at, chain);
                true
            }
            Standing::Again => {
                self.tell(line, at, FaultKind::Duplicate { id: id.to_owned() });
                false
            }
        }
    }

    fn record(&mut self, line: usize, at: u64, record: Record) -> Result<(), StoreError> {
        if !self.takes(line, at, record.seq, &record.id, record.parent.as_deref()) {
            return Ok(());
        }
        self.first_time.get_or_insert(record.time);
        let time = record.time;
        let Fitted {
            before,
            instead,
            faults,
        } = self.fit(&record.entry);
        for kind in faults {
            self.tell(line, at, kind);
        }
        for entry in before {
            self.add(Kept::Added { entry, time })?;
        }
        let entries = match instead {
            None => return self.add(Kept::Record(record)),
            Some(entries) if entries.is_empty() => return (self.keep)(Kept::Idle(record)),
            Some(entries) => entries,
        };
        let mut envelope = Some(record);
        for entry in entries {
            let kept = match envelope.take() {
                Some(record) => Kept::Record(Record { entry, ..record }),
                None => Kept::Added { entry, time },
            };
            self.add(kept)?;
        }
        Ok(())
    }

    fn fit(&self, entry: &Entry) -> Fitted {
        let mut fitted = fit(&self.transcript, entry);
        if self.is_unsure {
            // What does not fit may follow from what is not known; what is wrong by itself is mended.
            let own =
                |fault: &FaultKind| matches!(fault, FaultKind::ToolUseId { .. } | FaultKind::Blank);
            let all = fitted.faults.len();
            fitted.faults.retain(own);
            if fitted.faults.is_empty() {
                return Fitted::default();
            }
            if fitted.faults.len() < all {
                fitted.before.clear();
            }
        }
        fitted
    }

    fn add(&mut self, kept: Kept) -> Result<(), StoreError> {
        match &kept {
            Kept::Record(Record { entry, .. }) | Kept::Added { entry, .. } => {
                self.transcript.apply(entry);
            }
            Kept::Unknown(_) | Kept::Idle(_) => {}
        }
        self.records = self.records.saturating_add(1);
        (self.keep)(kept)
    }

    fn finish(mut self) -> Result<Ending, StoreError> {
        let Reading {
            path, workspace, ..
        } = self.reading;
        let header = match self.header.take() {
            Some(header) => header,
            None if self.records == 0 && !self.reading.takes_nothing => {
                return Err(header::no_header(path, &self.broken));
            }
            None => header::rebuild(path, &self.remains, workspace, self.first_time),
        };
        let tail = if self.ended {
            Tail::Whole
        } else {
            Tail::Open {
                keep: self.kept_end,
                needs_end: self.kept_end > self.line_begins,
            }
        };
        if !self.reading.keeps_past {
            self.transcript.forget_past();
        }
        Ok(Ending {
            header,
            transcript: self.transcript,
            seq: self.order.largest(),
            newest: self.order.newest(),
            records: self.records,
            is_migrated: !self.migration.is_none(),
            tail,
        })
    }
}

/// What stands before a piece on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// What is left of a header.
    Remains,
    /// Something that is kept.
    Kept,
}
