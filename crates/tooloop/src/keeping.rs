//! The store of a session, and when what is written to it becomes durable.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{JoinError, JoinHandle};
use tooloop_kernel::Entry;
use tooloop_session::{Flush, Store, StoreError};

/// The store, and what is written but not yet durable.
pub(crate) struct Journal {
    store: Box<dyn Store>,
    flush: Flush,
    dirty: bool,
    /// A flush under way.
    pub(crate) flushing: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Journal {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        Self {
            flush: store.flush(),
            store,
            dirty: false,
            flushing: None,
        }
    }

    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        self.store.append(entries)?;
        tracing::debug!(entries = entries.len(), "journal: written");
        self.dirty = true;
        Ok(())
    }

    /// Makes durable what is written, beside whatever goes on.
    pub(crate) fn flush_soon(&mut self) {
        if self.dirty && self.flushing.is_none() {
            self.dirty = false;
            let flush = Arc::clone(&self.flush);
            self.flushing = Some(tokio::task::spawn_blocking(move || {
                let begun = Instant::now();
                let result = flush();
                let ms = begun.elapsed().as_secs_f64() * 1e3;
                tracing::debug!(ms, is_durable = result.is_ok(), "journal: flushed");
                result
            }));
        }
    }

    /// Makes durable all that is written.
    pub(crate) async fn flush_now(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some(flushing) = self.flushing.take() {
                flushed(flushing.await)?;
            }
            if !self.dirty {
                return Ok(());
            }
            self.flush_soon();
        }
    }
}

/// A flush that did not come to its end has made nothing durable.
pub(crate) fn flushed(result: Result<Result<(), StoreError>, JoinError>) -> Result<(), StoreError> {
    result.unwrap_or_else(|error| {
        Err(StoreError::Io {
            action: "sync",
            path: PathBuf::from("of this session"),
            source: std::io::Error::other(error),
        })
    })
}
