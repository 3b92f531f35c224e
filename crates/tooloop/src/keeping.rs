//! The store of a session, and when what is written to it becomes durable.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::task::JoinError;
use tokio::time::Instant;
use tooloop_kernel::Entry;
use tooloop_session::{Flush, Flushing, Store, StoreError};

/// The store, and what is written but not yet durable.
pub(crate) struct Journal {
    store: Box<dyn Store>,
    flush: Flush,
    dirty: bool,
    /// What failed once has a hole or is not durable: nothing more goes into it.
    failed: bool,
    /// A flush under way.
    pub(crate) flushing: Option<Flushing>,
}

impl Journal {
    pub(crate) fn new(store: Box<dyn Store>) -> Self {
        Self {
            flush: store.flush(),
            store,
            dirty: false,
            failed: false,
            flushing: None,
        }
    }

    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Failed { path: unnamed() });
        }
        let appended = self.store.append(entries);
        self.failed = appended.is_err();
        if !self.failed {
            tracing::debug!(entries = entries.len(), "journal: written");
        }
        self.dirty = true;
        appended
    }

    /// A flush that was under way is over.
    pub(crate) fn flushed(&mut self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        self.flushing = None;
        self.failed |= result.is_err();
        result
    }

    /// Makes durable what is written, beside whatever goes on.
    pub(crate) fn flush_soon(&mut self) {
        if self.dirty && self.flushing.is_none() {
            self.dirty = false;
            let begun = Instant::now();
            let told = move |result: &Result<(), StoreError>| {
                let ms = begun.elapsed().as_secs_f64() * 1e3;
                tracing::debug!(ms, is_durable = result.is_ok(), "journal: flushed");
            };
            self.flushing = Some(match &self.flush {
                Flush::Waiting(flush) => Box::pin(flush().inspect(told)),
                Flush::Blocking(flush) => {
                    let flush = Arc::clone(flush);
                    let task = tokio::task::spawn_blocking(move || {
                        let result = flush();
                        told(&result);
                        result
                    });
                    Box::pin(task.map(joined))
                }
            });
        }
    }

    /// Makes durable all that is written.
    pub(crate) async fn flush_now(&mut self) -> Result<(), StoreError> {
        loop {
            if let Some(flushing) = &mut self.flushing {
                let result = flushing.await;
                self.flushed(result)?;
            }
            if !self.dirty {
                return Ok(());
            }
            self.flush_soon();
        }
    }
}

/// A flush that did not come to its end has made nothing durable.
fn joined(result: Result<Result<(), StoreError>, JoinError>) -> Result<(), StoreError> {
    result.unwrap_or_else(|error| {
        Err(StoreError::Io {
            action: "sync",
            path: unnamed(),
            source: std::io::Error::other(error),
        })
    })
}

/// A store does not tell where it is.
fn unnamed() -> PathBuf {
    PathBuf::from("of this session")
}
