//! Reads keys while a turn runs, on a thread of its own that is gone when the turn is.
//!
//! The editor of the prompt reads from the same terminal: what is read here and not used is given
//! back, and nothing that waits for a key may be left behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// How often the thread looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(40);
/// How long it may take to do so. One that reads from a terminal that has gone away never does; it
/// ends with the process, which is what follows.
const STOP: Duration = Duration::from_secs(1);

/// The keys of the terminal.
#[derive(Debug)]
pub(crate) struct Reader {
    events: mpsc::Receiver<io::Result<Event>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Reader {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, events) = mpsc::channel(256);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("keys".into())
            .spawn(move || read(&sender, &stopped))?;
        Ok(Self {
            events,
            stop,
            thread,
        })
    }

    /// The next event; `None` after an error.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }

    /// Stops reading. What was read and not taken is given back.
    pub(crate) async fn end(mut self) -> Vec<Event> {
        self.stop.store(true, Ordering::Relaxed);
        let mut left = Vec::new();
        while let Ok(next) = tokio::time::timeout(STOP, self.events.recv()).await {
            match next {
                Some(event) => left.extend(event.ok()),
                None => {
                    // It has nothing more to do than to end.
                    drop(self.thread.join());
                    break;
                }
            }
        }
        left
    }
}

fn read(sender: &mpsc::Sender<io::Result<Event>>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let event = match event::poll(LOOK) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        let failed = event.is_err();
        if sender.blocking_send(event).is_err() || failed {
            return;
        }
    }
}
