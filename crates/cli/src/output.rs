//! Standard output of a headless run.
//!
//! A reader may be slow or gone; neither may hold up the session. So a thread writes, and a bounded
//! queue is between.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::line::line;
use crate::text;

/// Standard output. On a terminal, control characters are written visibly; elsewhere bytes are
/// unchanged.
pub(crate) fn stdout() -> impl Write {
    let stdout = io::stdout().lock();
    Visible::new(stdout.is_terminal(), stdout)
}

/// A text for standard error, made visible if that is a terminal.
pub(crate) fn for_stderr(words: &str) -> Cow<'_, str> {
    if io::stderr().is_terminal() {
        text::visible(words)
    } else {
        Cow::Borrowed(words)
    }
}

/// Writes out what would act on a terminal. A character may come in pieces.
struct Visible<W: Write> {
    is_terminal: bool,
    inner: W,
    /// The beginning of a character.
    partial: Vec<u8>,
}

impl<W: Write> Visible<W> {
    const fn new(is_terminal: bool, inner: W) -> Self {
        Self {
            is_terminal,
            inner,
            partial: Vec::new(),
        }
    }

    fn write_out(&mut self, bytes: &[u8], is_end: bool) -> io::Result<()> {
        for chunk in bytes.utf8_chunks() {
            self.inner
                .write_all(text::visible(chunk.valid()).as_bytes())?;
            let invalid = chunk.invalid();
            let is_partial = std::str::from_utf8(invalid)
                .is_err_and(|error| error.error_len().is_none() && bytes.ends_with(invalid));
            if is_partial && !is_end {
                self.partial = invalid.to_vec();
            } else {
                for byte in invalid {
                    write!(self.inner, "\\x{byte:02x}")?;
                }
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.inner.write(bytes);
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(bytes);
        self.write_out(&all, false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Visible<W> {
    fn drop(&mut self) {
        let partial = std::mem::take(&mut self.partial);
        // A failure cannot be reported from here.
        drop(self.write_out(&partial, true));
    }
}

/// Writes chunks, each at once and whole.
#[derive(Debug)]
pub(crate) struct Output {
    queue: mpsc::Sender<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
    broken: CancellationToken,
}

impl Output {
    pub(crate) fn stdout() -> io::Result<Self> {
        let (queue, mut chunks) = mpsc::channel::<Vec<u8>>(256);
        let broken = CancellationToken::new();
        let told = broken.clone();
        let write = move || {
            let mut stdout = stdout();
            while let Some(chunk) = chunks.blocking_recv() {
                let written = stdout.write_all(&chunk).and_then(|()| stdout.flush());
                if let Err(error) = written {
                    told.cancel();
                    return Err(error);
                }
            }
            Ok(())
        };
        let thread = std::thread::Builder::new()
            .name("tooloop-stdout".into())
            .spawn(write)?;
        Ok(Self {
            queue,
            thread: Some(thread),
            broken,
        })
    }

    /// Queues a chunk. What cannot be written any more is dropped: [`Output::broken`] tells.
    pub(crate) async fn write(&self, chunk: Vec<u8>) {
        drop(self.queue.send(chunk).await);
    }

    /// Queues a record as one line of a bounded length.
    pub(crate) async fn record(&self, record: &serde_json::Value) {
        self.write(line(record).into_bytes()).await;
    }

    /// Fires when nothing can be written any more.
    pub(crate) const fn broken(&self) -> &CancellationToken {
        &self.broken
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.queue);
        match self.thread {
            Some(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the writing thread failed"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(is_terminal: bool, pieces: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Visible::new(is_terminal, &mut bytes);
        for piece in pieces {
            out.write_all(piece).unwrap();
        }
        out.flush().unwrap();
        drop(out);
        bytes
    }

    #[test]
    fn a_terminal_gets_marks_and_a_pipe_every_byte() {
        let raw = "A\u{1b}]52;c;aGk=\u{7}\u{202e}日\u{9b}é\n".as_bytes();
        let raw = [raw, b"\xffx\xe6\x97"].concat();
        let single: Vec<&[u8]> = raw.chunks(1).collect();
        let shown = "A\\u{1b}]52;c;aGk=\\u{7}\\u{202e}日\\u{9b}é\n\\xffx\\xe6\\x97";
        for pieces in [&[&raw[..]][..], &single] {
            assert_eq!(written(false, pieces), raw);
            assert_eq!(String::from_utf8(written(true, pieces)).unwrap(), shown);
        }
    }
}
