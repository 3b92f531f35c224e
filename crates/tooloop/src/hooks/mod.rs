//! Commands of the user's that are told what happens, and have a say in it.
//!
//! A [`HookRule`] names an event, what it is to match and a command. When such an event comes, each
//! command that matches is run by a [`HookRunner`] with the facts as JSON on its standard input, all
//! of them at once; what they say is read by the contract in `docs/hooks.md` and merged: a denial
//! beats a question, a question beats a consent.
//!
//! It must not know: what a kernel makes of what is said, and how what happened is shown.
//!
//! ```
//! use tooloop::hooks::{HookEvent, HookRule};
//!
//! let rule = HookRule::new(HookEvent::PreToolUse, "./check.sh").matching("Bash|Edit");
//! let matcher = rule.parsed_matcher()?;
//! assert!(matcher.matches_tool("bash") && !matcher.matches_tool("read"));
//! # Ok::<(), tooloop::hooks::MatcherError>(())
//! ```

mod answer;
mod command;
mod event;
mod matcher;
mod names;
mod outcome;
mod printed;
mod rule;
mod said;
mod set;

pub use command::CommandRunner;
pub use event::{HookEvent, UnknownEvent};
pub use matcher::{Matcher, MatcherError};
pub use outcome::{HookEnd, HookNote, HookOutcome, HookRunner};
pub use rule::{HookRule, Hooks};
pub(crate) use said::Said;
pub(crate) use set::{About, HookSet, HookedAgent, SessionHooks, Subject};
