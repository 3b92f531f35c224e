//! For runs that are to end where somebody would have to be asked, rather than go on with a no.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tooloop::{Approver, Question, Reply};

/// Answers each question with a no that ends the turn, and keeps the first. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strict(Arc<Mutex<Option<String>>>);

impl Strict {
    /// What permission was needed for, if it was.
    pub(crate) fn needed(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Approver for Strict {
    fn decide(&self, question: Question) -> BoxFuture<'static, Reply> {
        let reason = format!("{}, and there is nobody to ask", question.reason);
        let words = format!(
            "permission was needed for a call of {} (--strict-permissions): {reason}",
            question.tool_use.name
        );
        let mut needed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        needed.get_or_insert(words);
        std::future::ready(Reply::DenyAndStop { reason }).boxed()
    }
}
