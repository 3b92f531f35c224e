//! Standard output of a headless run.
//!
//! A reader may be slow or gone; neither may hold up the session. So a thread writes, and a bounded
//! queue is between.

use std::io::{self, Write};
use std::thread::JoinHandle;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::line::line;

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
            let mut stdout = io::stdout().lock();
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
