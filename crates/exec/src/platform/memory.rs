//! What a guardian does with its copy of the harness's memory.
//!
//! As all it does, system calls only: no allocation, no lock, no panic.

use std::ffi::c_void;
use std::ptr;

use super::guardian::open;

/// Where the arguments of this process lie, as the kernel shows them to others. To be called
/// before the fork: it allocates.
pub(super) fn argument_memory() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(45);
    let start = fields.next()?.parse().ok()?;
    let end = fields.next()?.parse().ok()?;
    (0 < start && start < end).then_some((start, end))
}

/// Shows another command line than the harness's, which this process has from it: so that a
/// listing tells them apart, and who kills the harness by its command line does not kill both.
pub(super) fn rename_arguments(start: usize, end: usize) {
    let name = b"process-guard";
    let place = start as *mut u8;
    // SAFETY: the kernel says that the arguments of the process lie there, in writable memory on
    // the first stack, of which this process has a copy of its own. Nothing in it reads them.
    unsafe {
        ptr::write_bytes(place, 0, end - start);
        ptr::copy_nonoverlapping(name.as_ptr(), place, name.len().min(end - start - 1));
    }
}

/// Gives back the pages of the harness's heap and stacks, which would else be kept twice as soon
/// as the harness writes to them.
///
/// Only private memory without a file goes, and not what follows a file (the variables of a
/// library) nor the stack and the thread's own variables, which are in use.
pub(super) fn give_back_memory() {
    let Some(file) = open(c"/proc/self/maps", libc::O_RDONLY) else {
        return;
    };
    let here = &raw const file as usize;
    let mut parser = MapParser::default();
    let mut buffer = [0_u8; 4096];
    loop {
        // SAFETY: the pointer and the length are those of the buffer.
        let length = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Some(bytes) = usize::try_from(length)
            .ok()
            .filter(|length| *length > 0)
            .and_then(|length| buffer.get(..length))
        else {
            break;
        };
        for byte in bytes {
            if let Some((start, end)) = parser.feed(*byte)
                && !(start..end).contains(&here)
            {
                // SAFETY: private memory that this process never reads or writes again: it
                // neither allocates nor frees, and its stack and thread variables are elsewhere.
                unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
            }
        }
    }
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(file) };
}

/// Reads `/proc/self/maps` byte by byte and tells which parts are heap or anonymous.
#[derive(Default)]
struct MapParser {
    column: usize,
    field: usize,
    start: usize,
    end: usize,
    is_private_writable: bool,
    has_file: bool,
    name: u8,
    second: u8,
    previous_end: usize,
    previous_had_file: bool,
}

impl MapParser {
    fn feed(&mut self, byte: u8) -> Option<(usize, usize)> {
        if byte == b'\n' {
            let follows_file = self.previous_had_file && self.previous_end == self.start;
            let is_heap = (self.name, self.second) == (b'[', b'h');
            let goes = self.is_private_writable
                && !self.has_file
                && (is_heap || (self.name == 0 && !follows_file));
            let range = (self.start, self.end);
            *self = Self {
                previous_end: self.end,
                // What follows the variables of a library follows its file.
                previous_had_file: self.has_file || (self.name == 0 && follows_file),
                ..Self::default()
            };
            return goes.then_some(range);
        }
        if byte == b' ' && (self.field < 5 || self.column == 0) {
            if self.column > 0 {
                self.field += 1;
                self.column = 0;
            }
            return None;
        }
        let digit = (byte as char).to_digit(16).unwrap_or(0) as usize;
        match self.field {
            0 if byte == b'-' => {
                self.start = self.end;
                self.end = 0;
            }
            0 => self.end = (self.end << 4) | digit,
            1 if self.column == 1 => self.is_private_writable = byte == b'w',
            1 if self.column == 3 => self.is_private_writable &= byte == b'p',
            4 => self.has_file |= byte != b'0',
            5 if self.column == 0 => self.name = byte,
            5 if self.column == 1 => self.second = byte,
            _ => {}
        }
        self.column += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_heap_and_anonymous_memory_from_the_rest() {
        let maps = b"\
00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/x y
00651000-00652000 rw-p 00051000 08:02 173521      /usr/bin/x y
00652000-00655000 rw-p 00000000 00:00 0
00e03000-00e24000 rw-p 00000000 00:00 0           [heap]
35b1800000-35b1820000 r-xp 00000000 08:02 135522  /usr/lib64/ld-2.15.so
7f10000000-7f10100000 rw-p 00000000 00:00 0
7f10100000-7f10101000 ---p 00000000 00:00 0
7f10101000-7f10901000 rw-p 00000000 00:00 0 \n7f20101000-7f20901000 rw-s 00000000 00:01 77 /dev/zero
7fffb2c0d000-7fffb2c2e000 rw-p 00000000 00:00 0   [stack]
";
        let mut parser = MapParser::default();
        let found: Vec<_> = maps.iter().filter_map(|byte| parser.feed(*byte)).collect();
        assert_eq!(
            found,
            [
                (0x00e0_3000, 0x00e2_4000),
                (0x7f_1000_0000, 0x7f_1010_0000),
                (0x7f_1010_1000, 0x7f_1090_1000)
            ]
        );
    }
}
