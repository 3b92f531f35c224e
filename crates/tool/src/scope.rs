//! What the tools of one session share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the tools of one session share. Handed to [`crate::Tool::for_session`] when a session
/// begins; what tools keep in it ends with the session.
#[derive(Default)]
pub struct Scope {
    outputs: Option<PathBuf>,
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Scope {
    /// A session that keeps no files of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A session whose long outputs go into files in this folder, which need not be there yet.
    #[must_use]
    pub fn with_outputs(folder: impl Into<PathBuf>) -> Self {
        Self {
            outputs: Some(folder.into()),
            ..Self::default()
        }
    }

    /// Where the session's long outputs go. What is written there stays as long as the session's
    /// journal does.
    #[must_use]
    pub fn outputs(&self) -> Option<&Path> {
        self.outputs.as_deref()
    }

    /// The session's one value of this type, made by the first who asks. Of two that ask at the
    /// same time one may be made in vain.
    pub fn shared<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(kept) = self.kept() {
            return kept;
        }
        // Without the lock, since what is made may itself ask for what is shared.
        let made = Arc::new(make());
        let mut shared = self.lock();
        let kept = shared
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::clone(&made) as _);
        Arc::clone(kept).downcast::<T>().unwrap_or(made)
    }

    fn kept<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let kept = self.lock().get(&TypeId::of::<T>()).cloned();
        kept?.downcast::<T>().ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TypeId, Arc<dyn Any + Send + Sync>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Scope")
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_a_type() {
        let scope = Scope::new();
        let first = scope.shared(|| 1_u32);
        let second = scope.shared(|| 2_u32);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*scope.shared(|| "text"), "text");
        assert_eq!(*Scope::new().shared(|| 3_u32), 3);
    }

    #[test]
    fn what_is_shared_may_be_made_of_what_is_shared() {
        let scope = Scope::new();
        let sum = scope.shared(|| u64::from(*scope.shared(|| 1_u32)) + 1);
        assert_eq!((*sum, *scope.shared(|| 5_u32)), (2, 1));
    }
}
