//! What a job has printed since the last look.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{Output, OutputCleaner, Progress, Spool, SpoolState};
use tooloop_tool::{Omission, ToolContext, ToolError, ToolOutput};

use super::job::{Job, Look};
use crate::ending::printed;

/// How many characters of the beginning and of the end of what is new are shown.
const PART: usize = 15_000;

/// How far back the start of what is not complete may lie.
const HELD_BACK: usize = 64;

/// Answers with the state of a job and its newest output.
pub(super) async fn answer(
    job: &Job,
    look: Look<'_>,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let cancellation = &context.cancellation;
    let mut shown = tokio::select! {
        shown = job.shown.lock() => shown,
        () = cancellation.cancelled() => return Err(ToolError::Cancelled),
    };
    // Asked before the file is read: whatever it had printed by its end is then shown with it.
    let ended = job.end();
    let newest = match &ended {
        Some(ended) => ended.newest.clone(),
        None => job.newest.borrow().clone(),
    };
    let reading = Reading {
        from: *shown,
        is_complete: ended.is_some(),
        cancellation: cancellation.clone(),
    };
    let path = job.path.clone();
    let read = spawn_blocking(move || reading.read(&path)).await;
    if cancellation.is_cancelled() {
        return Err(ToolError::Cancelled);
    }
    let (mut text, omission) = match read {
        Ok(Ok((output, end))) => {
            *shown = end;
            words(job, output, end, &newest)
        }
        Ok(Err(error)) => (format!("(its output cannot be read: {error})\n"), None),
        Err(_) => return Err(ToolError::Cancelled),
    };
    let id = &job.id;
    let (state, seconds, kept) = if let Some(ended) = &ended {
        if let Some(leftovers) = &ended.leftovers {
            let is_ended = job.leftovers.is_cancelled();
            text.push_str(if is_ended {
                "(what it left behind is ended too)"
            } else {
                leftovers
            });
            text.push('\n');
        }
        let verb = if look.told() { "ended" } else { "had ended" };
        let state = format!("{id} {verb}: {}", ended.end);
        (state, ended.duration, ended.kept.clone())
    } else {
        let kept = format!("output in {}", job.path.display());
        (format!("{id} is running"), job.elapsed(), kept)
    };
    let fingerprint = format!("{state}\n{text}");
    text.push_str(&format!(
        "({state}, {:.1} s; {kept})",
        seconds.as_secs_f64()
    ));
    Ok(ToolOutput {
        fingerprint: Some(fingerprint),
        omission,
        ..ToolOutput::text(text)
    })
}

fn words(job: &Job, mut output: Output, end: u64, newest: &Progress) -> (String, Option<Omission>) {
    if output.left_out > 0 {
        output.spool = Some(Spool {
            path: job.path.clone(),
            bytes: end,
            state: SpoolState::Whole,
        });
    }
    let (mut text, omission) = printed(&output);
    if newest.bytes > end + HELD_BACK as u64 {
        // The file is full, or the disk.
        if !(text.is_empty() || text.ends_with('\n')) {
            text.push('\n');
        }
        text.push_str(&format!(
            "[... only the newest is kept of what came after the first {end} bytes: ...]\n{}",
            newest.tail
        ));
    }
    if text.is_empty() {
        text.push_str("(no new output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    (text, omission)
}

/// What is to be read of a file.
struct Reading {
    from: u64,
    /// Nothing more will be written.
    is_complete: bool,
    cancellation: CancellationToken,
}

impl Reading {
    /// The text, and where it ends in the file.
    fn read(&self, path: &Path) -> io::Result<(Output, u64)> {
        let mut cleaner = OutputCleaner::new(PART, PART);
        let mut file = match File::open(path) {
            Ok(file) => file,
            // It makes the file before it prints.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_complete => {
                return Ok((cleaner.finish(), self.from));
            }
            Err(error) => return Err(error),
        };
        // What is written from now on is for the next look.
        let mut end = file.metadata()?.len();
        if !self.is_complete {
            end -= held_back(&mut file, end)?;
        }
        let end = end.max(self.from);
        file.seek(SeekFrom::Start(self.from))?;
        let mut rest = file.take(end - self.from);
        let mut buffer = vec![0; 64 * 1024];
        while !self.cancellation.is_cancelled() {
            match rest.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => cleaner.feed(buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok((cleaner.finish(), end))
    }
}

fn held_back(file: &mut File, end: u64) -> io::Result<u64> {
    let start = end.saturating_sub(HELD_BACK as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut last = Vec::with_capacity(HELD_BACK);
    file.take(end - start).read_to_end(&mut last)?;
    Ok(incomplete(&last) as u64)
}

/// How many bytes at the end are the start of a character, a control sequence or a line end of
/// which the rest is not there yet.
fn incomplete(last: &[u8]) -> usize {
    if last.ends_with(b"\r") {
        return 1;
    }
    if let Some(at) = last.iter().rposition(|byte| *byte == 0x1b) {
        let (_, sequence) = last.split_at(at);
        let is_open = match sequence {
            [_] => true,
            [_, b'[', rest @ ..] => rest.iter().all(|byte| (0x20..=0x3f).contains(byte)),
            [_, b']', rest @ ..] => !rest.iter().any(|byte| matches!(byte, 0x07 | b'\n')),
            [_, b'P' | b'X' | b'^' | b'_', rest @ ..] => !rest.contains(&b'\n'),
            _ => false,
        };
        if is_open {
            return sequence.len();
        }
    }
    for (count, byte) in last.iter().rev().take(3).enumerate() {
        let wanted = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if wanted > count + 1 { count + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_complete_is_held_back() {
        for (last, expected) in [
            (&b""[..], 0),
            (b"plain", 0),
            (b"line\r", 1),
            (b"\xc3\xa9", 0),
            (b"x\xc3", 1),
            (b"x\xe6\x97", 2),
            (b"x\xf0\x9f\x98", 3),
            (b"\xf0\x9f\x98\x80", 0),
            // No text at all.
            (b"\x80\x80\x80\x80", 0),
            (b"\xff", 0),
            (b"a\x1b", 1),
            (b"a\x1b[3", 3),
            (b"a\x1b[31m", 0),
            (b"a\x1b[31mred", 0),
            (b"a\x1b]0;tit", 7),
            (b"a\x1b]0;tit\x07x", 0),
            (b"a\x1bPtit", 5),
            (b"a\x1b_tit\nx", 0),
            (b"a\x1b(B", 0),
        ] {
            assert_eq!(incomplete(last), expected, "{last:?}");
        }
    }
}
