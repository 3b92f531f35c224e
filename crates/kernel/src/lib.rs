//! The agent loop as a pure state machine.
//!
//! [`Kernel::step`] is the one door: an [`Input`] comes in, [`Effect`]s go out. The kernel knows no
//! clock, no chance, no file and no network; times and random numbers are handed in with the input
//! that needs them, and what is to be done outside is an effect. Everything that lasts is an
//! [`Entry`], and [`Transcript::apply`] is the one fold over entries, used live and on resume.
//!
//! It must not know: any vendor, any tool, any terminal, how entries are stored.
//!
//! ```
//! use std::sync::Arc;
//! use tooloop_kernel::{Delivery, Effect, Entry, Gate, Input, Judgement, Kernel, Settings, Transcript};
//! use tooloop_model::{Content, ToolUse};
//!
//! struct AllowAll;
//! impl Gate for AllowAll {
//!     fn judge(&self, _: &ToolUse) -> Judgement { Judgement::allow_effectful() }
//! }
//!
//! let mut kernel = Kernel::new(Settings::default(), Arc::new(AllowAll), Transcript::default());
//! let effects = kernel.step(Input::User {
//!     content: vec![Content::Text("fix the failing test".into())],
//!     delivery: Delivery::Steer,
//! });
//! // The prompt is recorded before the model is called.
//! assert!(matches!(&effects[0], Effect::Record { entry: Entry::Message(_), .. }));
//! assert!(matches!(&effects[1], Effect::CallModel { call: 1, .. }));
//! ```

#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]

mod attachments;
mod batch;
mod count;
mod effect;
mod entry;
pub mod estimate;
mod gate;
mod input;
mod ledger;
mod machine;
mod planner;
mod reason;
mod repeats;
mod retry;
mod settings;
mod transcript;

pub use count::Calibration;
pub use effect::{Effect, Sync};
pub use entry::{CompactionTrigger, Entry, LeftOut, Permission};
pub use gate::{Gate, Judgement, Verdict};
pub use input::{Advice, AdvisedVerdict, Answer, Delivery, Input, Prepared, StopJudgement};
pub use ledger::{Ledger, Limits};
pub use machine::Kernel;
pub use planner::Room;
pub use reason::{Budget, Continue, During, Interrupter, TurnEnd};
pub use retry::{Retry, RetryPolicy};
pub use settings::{Fallback, Hooked, OutputCheck, OutputForm, OutputWay, Planned, Settings};
pub use transcript::{OpenCall, Transcript};
