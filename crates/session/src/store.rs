//! Where entries go.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tooloop_kernel::Entry;

use crate::{SessionId, StoreError};

/// Makes durable what was appended before it is called.
#[derive(Clone)]
pub enum Flush {
    /// May block, and may be called on another thread than the one that appends: for files.
    Blocking(Arc<dyn Fn() -> Result<(), StoreError> + Send + Sync>),
    /// Never blocks: for what is far away, and for tests with a clock of their own.
    Waiting(Arc<dyn Fn() -> Flushing + Send + Sync>),
}

/// A flush under way.
pub type Flushing = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

impl Flush {
    /// A flush that may block.
    pub fn blocking(flush: impl Fn() -> Result<(), StoreError> + Send + Sync + 'static) -> Self {
        Self::Blocking(Arc::new(flush))
    }
}

impl fmt::Debug for Flush {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Blocking(_) => "Blocking(..)",
            Self::Waiting(_) => "Waiting(..)",
        })
    }
}

/// Takes the entries of one session. [`crate::conformance`] tells and tests what a store must hold to.
pub trait Store: Send {
    /// The session.
    fn session(&self) -> SessionId;

    /// Appends entries, in order, all or none. When it returns, they survive the death of this
    /// process; they survive a loss of power once a [`Flush`] has run after it.
    ///
    /// # Errors
    /// If they could not be written. Nothing may be done on the strength of them then.
    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError>;

    /// What makes it durable.
    fn flush(&self) -> Flush;
}

/// Keeps nothing: for sessions that nobody will resume.
#[derive(Debug, Clone)]
pub struct MemoryStore(SessionId);

impl MemoryStore {
    /// A store for a new session.
    #[must_use]
    pub fn new() -> Self {
        Self(SessionId::generate())
    }

    /// A store for a session of that name.
    #[must_use]
    pub const fn named(session: SessionId) -> Self {
        Self(session)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn session(&self) -> SessionId {
        self.0
    }

    fn append(&mut self, _: &[Entry]) -> Result<(), StoreError> {
        Ok(())
    }

    fn flush(&self) -> Flush {
        Flush::blocking(|| Ok(()))
    }
}
