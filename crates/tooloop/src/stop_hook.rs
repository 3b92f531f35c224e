//! A say in whether the model is done.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use tooloop_kernel::StopJudgement;

/// Is told when the model is done, and may have it go on.
pub trait StopHook: Debug + Send + Sync {
    /// Judges. After a minute without a judgement the model is done, and an
    /// [`crate::Event::Warning`] says so.
    fn judge(&self, stop: Stopping) -> BoxFuture<'static, StopJudgement>;
}

/// What a [`StopHook`] is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    /// What the model said last.
    pub text: String,
    /// Whether it goes on already since somebody objected before: who objects again and again for
    /// the same reason should think twice. After eight objections in a turn nobody is heard.
    pub stop_hook_active: bool,
}
