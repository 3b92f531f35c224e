//! The pipes of a program: what it writes, with the time of each line, and what it is fed.
//!
//! Each pipe has a thread of its own, which ends with the pipe or when its owner is dropped, whoever else may hold
//! the other side open.

use crate::Gate;
use crate::gate::{Bell, lock};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// More than this is read but not kept.
const LIMIT: usize = 256 << 20;

/// How a pipe is read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Not before this gate is open.
    pub(crate) after: Option<Gate>,
    /// So many bytes, and then the pipe is closed.
    pub(crate) limit: Option<usize>,
}

/// One line of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its text, without its end; what is no UTF-8 is replaced.
    pub text: String,
    /// When its end was read.
    pub at: Instant,
    /// Whether it had an end. Only a last line may have none.
    pub ended: bool,
}

/// What was read from one output.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// Every byte, unless it was cut.
    pub bytes: Vec<u8>,
    /// The lines in order.
    pub lines: Vec<Line>,
    /// There was more than is kept here (256 MiB).
    pub cut: bool,
}

impl Captured {
    /// All of it as text; what is no UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The last part of the text, for reports.
    pub(crate) fn tail(&self, limit: usize) -> String {
        let from = self.bytes.len().saturating_sub(limit);
        let tail = String::from_utf8_lossy(self.bytes.get(from..).unwrap_or_default()).into_owned();
        if from > 0 {
            format!("... {tail}")
        } else {
            tail
        }
    }
}

#[derive(Debug, Default)]
struct Collected {
    bytes: Vec<u8>,
    /// Where each line ends (behind its line feed), and when that was read.
    ends: Vec<(usize, Instant)>,
    last_read: Option<Instant>,
    cut: bool,
    ended: bool,
}

/// A pipe that is being read by a thread of its own, until its end or the drop of this.
#[derive(Debug)]
pub(crate) struct Stream {
    collected: Arc<Mutex<Collected>>,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    /// Dropped to end the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    /// No pipe, which counts as one that has ended.
    pub(crate) fn none(bell: &Arc<Bell>) -> Self {
        Self {
            collected: Arc::new(Mutex::new(Collected {
                ended: true,
                ..Collected::default()
            })),
            bell: Arc::clone(bell),
            stop: Arc::default(),
            end: None,
            thread: None,
        }
    }

    /// Starts to read.
    pub(crate) fn start(
        pipe: impl Read + AsFd + Send + 'static,
        reading: Reading,
        bell: &Arc<Bell>,
    ) -> io::Result<Self> {
        let (ended, end) = io::pipe()?;
        let (collected, stop) = (Arc::default(), Arc::default());
        let reader = Reader {
            collected: Arc::clone(&collected),
            bell: Arc::clone(bell),
            stop: Arc::clone(&stop),
            ended,
            reading,
        };
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || reader.run(pipe))?;
        Ok(Self {
            collected,
            bell: Arc::clone(bell),
            stop,
            end: Some(end),
            thread: Some(thread),
        })
    }

    pub(crate) fn ended(&self) -> bool {
        lock(&self.collected).ended
    }

    /// The lines from this one on; with a last one that has no end if it is asked for.
    pub(crate) fn lines_from(&self, first: usize, with_rest: bool) -> Vec<Line> {
        lock(&self.collected).lines_from(first, with_rest)
    }

    pub(crate) fn captured(&self) -> Captured {
        let collected = lock(&self.collected);
        Captured {
            bytes: collected.bytes.clone(),
            lines: collected.lines_from(0, true),
            cut: collected.cut,
        }
    }
}

impl Collected {
    fn lines_from(&self, first: usize, with_rest: bool) -> Vec<Line> {
        let text = |from: usize, to: usize| {
            let bytes = self.bytes.get(from..to).unwrap_or_default();
            let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            String::from_utf8_lossy(bytes).into_owned()
        };
        let mut from = first
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |(end, _)| *end);
        let mut lines = Vec::new();
        for (end, at) in self.ends.iter().skip(first) {
            lines.push(Line {
                text: text(from, *end),
                at: *at,
                ended: true,
            });
            from = *end;
        }
        if let Some(at) = self
            .last_read
            .filter(|_| with_rest && from < self.bytes.len())
        {
            lines.push(Line {
                text: text(from, self.bytes.len()),
                at,
                ended: false,
            });
        }
        lines
    }

    fn add(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        let kept = bytes
            .get(..bytes.len().min(LIMIT - self.bytes.len()))
            .unwrap_or_default();
        self.cut |= kept.len() < bytes.len();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(kept);
        self.last_read = Some(now);
        let ends = kept.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        self.ends.extend(ends.map(|(at, _)| (start + at + 1, now)));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Reader {
    collected: Arc<Mutex<Collected>>,
    bell: Arc<Bell>,
    stop: Arc<AtomicBool>,
    ended: PipeReader,
    reading: Reading,
}

impl Reader {
    fn run(self, mut pipe: impl Read + AsFd) {
        if let Some(gate) = &self.reading.after {
            gate.ring_on_open(&self.bell);
            self.bell
                .wait_until(None, || gate.is_open() || self.stop.load(Ordering::Acquire));
        }
        let mut buffer = vec![0; 64 << 10];
        let mut left = self.reading.limit.unwrap_or(usize::MAX);
        while left > 0 && !self.stop.load(Ordering::Acquire) {
            let mut ready = [
                PollFd::new(&pipe, PollFlags::IN),
                PollFd::new(&self.ended, PollFlags::IN),
            ];
            // Fails for signals only, after which the loop looks again.
            if poll(&mut ready, None).is_err()
                || ready.first().is_none_or(|one| one.revents().is_empty())
            {
                continue;
            }
            let room = left.min(buffer.len());
            match pipe.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(count) if count > 0 => {
                    left -= count;
                    lock(&self.collected).add(buffer.get(..count).unwrap_or_default());
                    self.bell.ring();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
        drop(pipe);
        lock(&self.collected).ended = true;
        self.bell.ring();
    }
}

/// Bytes that are being written to a program by a thread of its own, until all are or the drop of this.
#[derive(Debug)]
pub(crate) struct Feeder {
    /// Dropped to end the thread.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Feeder {
    pub(crate) fn start<P: Write + AsFd + Send + 'static>(
        pipe: P,
        bytes: Vec<u8>,
    ) -> io::Result<Self> {
        let (ended, end) = io::pipe()?;
        // A full pipe must not hold the thread: it waits for room and for its end at once.
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let thread = std::thread::Builder::new()
            .name("standard input".to_owned())
            .spawn(move || feed(pipe, &bytes, &ended))?;
        Ok(Self {
            end: Some(end),
            thread: Some(thread),
        })
    }
}

fn feed(mut pipe: impl Write + AsFd, mut bytes: &[u8], ended: &PipeReader) {
    while !bytes.is_empty() {
        let mut ready = [
            PollFd::new(&pipe, PollFlags::OUT),
            PollFd::new(ended, PollFlags::IN),
        ];
        let polled = poll(&mut ready, None);
        let [_, end] = &ready;
        match polled {
            Ok(_) if !end.revents().is_empty() => return,
            Ok(_) => {}
            // A signal, after which the loop looks again.
            Err(_) => continue,
        }
        match pipe.write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            // Nobody reads any more.
            Err(_) => return,
        }
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A pipe with bytes in it, both of whose ends stay open here too.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) reader: PipeReader,
    writer: PipeWriter,
}

impl Held {
    /// What every pipe takes at once.
    const ROOM: usize = 4096;

    pub(crate) fn new(bytes: &[u8]) -> io::Result<Self> {
        if bytes.len() > Self::ROOM {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more bytes than a pipe is sure to hold",
            ));
        }
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(bytes)?;
        Ok(Self { reader, writer })
    }

    /// The bytes that nobody has taken.
    pub(crate) fn unread(self) -> io::Result<Vec<u8>> {
        let Self { mut reader, writer } = self;
        // With the last writer gone the pipe ends behind its bytes.
        drop(writer);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
