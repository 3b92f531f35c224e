//! Counting line ends over a long way, by several threads.
//!
//! The line that is wanted may come soon, so the threads take piece after piece from the front and
//! stop at the piece in which it lies.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use memchr::memchr_iter;

use super::lines::read;
use super::machine::ReadSeek;

/// How much a thread counts before it takes the next piece.
pub(crate) const PIECE: u64 = 4 << 20;

/// How many bytes a thread reads at once.
const STRETCH: usize = 256 << 10;

/// From which length on more than one thread counts.
const WORTH: u64 = 8 * PIECE;

/// How many threads count at most: more do not make memory faster.
const THREADS: usize = 4;

/// A place in a file, and how many line ends there are from the start of the way up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) byte: u64,
    pub(crate) ends: u64,
}

/// Goes from `start` over whole pieces as long as fewer than `wanted` line ends are passed, and
/// never over the last one. `open` gives further handles of the same file; where there are none,
/// or the way is short, nothing is passed.
pub(crate) fn ahead(
    (start, size): (u64, u64),
    wanted: u64,
    open: impl Fn() -> Option<Box<dyn ReadSeek>>,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> io::Result<Ahead> {
    let none = Ahead {
        byte: start,
        ends: 0,
    };
    let length = size.saturating_sub(start);
    // Lines of text are not often longer than this, so that fewer are no long way.
    if length.min(wanted.saturating_mul(1 << 10)) < WORTH {
        return Ok(none);
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    if threads < 2 {
        return Ok(none);
    }
    let handles: Option<Vec<_>> = (0..threads.min(THREADS)).map(|_| open()).collect();
    let Some(handles) = handles else {
        return Ok(none);
    };
    let count = Count {
        start,
        pieces: length.div_ceil(PIECE).saturating_sub(1),
        wanted,
        is_cancelled,
        state: Mutex::default(),
    };
    thread::scope(|scope| {
        let count = &count;
        for handle in handles {
            // Where no thread is to be had the others do its part.
            let _joined = thread::Builder::new().spawn_scoped(scope, move || count.run(handle));
        }
    });
    let state = count.state.into_inner();
    let state = state.unwrap_or_else(PoisonError::into_inner);
    match state.error {
        Some(error) => Err(error),
        None => Ok(Ahead {
            byte: start + state.passed * PIECE,
            ends: state.ends,
        }),
    }
}

struct Count<'a> {
    start: u64,
    pieces: u64,
    wanted: u64,
    is_cancelled: &'a (dyn Fn() -> bool + Sync),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The piece that is taken next.
    next: u64,
    /// The pieces that are passed, all from the start on, and their line ends.
    passed: u64,
    ends: u64,
    /// What is counted of pieces behind one that is not yet.
    counted: BTreeMap<u64, u64>,
    is_over: bool,
    error: Option<io::Error>,
}

impl Count<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut handle: Box<dyn ReadSeek>) {
        let mut buffer = vec![0; STRETCH];
        while let Some(piece) = self.take() {
            let counted = self.piece(handle.as_mut(), piece, &mut buffer);
            self.put(piece, counted);
        }
    }

    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        if state.is_over || state.next >= self.pieces {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn piece(&self, handle: &mut dyn ReadSeek, piece: u64, buffer: &mut [u8]) -> io::Result<u64> {
        handle.seek(SeekFrom::Start(self.start + piece * PIECE))?;
        let (mut left, mut ends) = (PIECE, 0);
        while left > 0 {
            if (self.is_cancelled)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let room = usize::try_from(left).unwrap_or(STRETCH).min(buffer.len());
            let buffer = buffer.get_mut(..room).unwrap_or_default();
            let length = read(handle, buffer)?;
            if length == 0 {
                break;
            }
            let bytes = buffer.get(..length).unwrap_or_default();
            ends += memchr_iter(b'\n', bytes).count() as u64;
            left = left.saturating_sub(length as u64);
        }
        Ok(ends)
    }

    fn put(&self, piece: u64, counted: io::Result<u64>) {
        let mut state = self.lock();
        match counted {
            Ok(ends) => drop(state.counted.insert(piece, ends)),
            Err(error) => {
                state.is_over = true;
                state.error = Some(error);
                return;
            }
        }
        let mut at = state.passed;
        while let Some(ends) = state.counted.remove(&at) {
            if state.ends + ends >= self.wanted {
                state.is_over = true;
                return;
            }
            state.ends += ends;
            at += 1;
            state.passed = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn it_stops_at_the_piece_in_which_the_line_lies() {
        let size = usize::try_from(PIECE * 12 + 5).unwrap();
        let mut bytes = vec![b'x'; size];
        for end in (99..size).step_by(100) {
            bytes[end] = b'\n';
        }
        let go = |start: usize, wanted: usize| {
            let open = || Some(Box::new(Cursor::new(bytes.clone())) as Box<dyn ReadSeek>);
            let way = (start as u64, size as u64);
            let ahead = ahead(way, wanted as u64, open, &|| false).unwrap();
            let byte = usize::try_from(ahead.byte).unwrap();
            let ends = memchr_iter(b'\n', &bytes[start..byte]).count();
            assert_eq!(ahead.ends, ends as u64, "{start} {wanted}");
            assert!(ends < wanted, "{start} {wanted}");
            // One piece more would be too far, or the file is over.
            let next = byte + usize::try_from(PIECE).unwrap();
            if next < size {
                let more = memchr_iter(b'\n', &bytes[start..next]).count();
                assert!(more >= wanted, "{start} {wanted}");
            }
            byte
        };
        if thread::available_parallelism().map_or(1, usize::from) < 2 {
            return;
        }
        let piece = usize::try_from(PIECE).unwrap();
        assert_eq!(go(0, 1_000_000), 12 * piece);
        assert_eq!(go(7, 1_000_000), 11 * piece + 7);
        assert_eq!(go(0, piece * 5 / 100), 4 * piece);
        assert_eq!(go(0, piece * 5 / 100 + 1), 5 * piece);
        // A way that cannot be long is not gone by several.
        assert_eq!(
            ahead((0, size as u64), 10, || panic!("opened"), &|| false).unwrap(),
            Ahead { byte: 0, ends: 0 }
        );
    }

    #[test]
    fn a_cancelled_count_is_an_error_and_without_handles_nothing_is_passed() {
        let way = (0, PIECE * 12);
        let handle = || Box::new(Cursor::new(b"x\n".repeat(1 << 20))) as Box<dyn ReadSeek>;
        let none = Ahead { byte: 0, ends: 0 };
        assert_eq!(ahead(way, 1 << 30, || None, &|| true).unwrap(), none);
        let cancelled = ahead(way, 1 << 30, || Some(handle()), &|| true);
        match cancelled {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
            // With one processor nobody counts.
            Ok(ahead) => assert_eq!(ahead, none),
        }
        // A file that is shorter than it was said to be has no more lines.
        let ahead = ahead(way, 1 << 30, || Some(handle()), &|| false).unwrap();
        assert!(ahead == none || ahead.ends == 1 << 20, "{ahead:?}");
    }
}
