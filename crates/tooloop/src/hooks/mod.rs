//! Commands of the user's that are told what happens, and have a say in it.
//!
//! A [`HookRule`] names an event, what it is to match and a command. When such an event comes, each
//! command that matches is run by a [`HookRunner`] with the facts as JSON on its standard input, all
//! of them at once; what they say is read by the contract in `docs/hooks.md` and merged: a denial
//! beats a question, a question beats a consent.
//!
//! It must not know: how a command is run, and how what happened is shown.

mod event;
mod matcher;
mod outcome;
mod rule;

pub use event::{HookEvent, UnknownEvent};
pub use matcher::{Matcher, MatcherError};
pub use outcome::{HookEnd, HookOutcome, HookRunner};
pub use rule::{HookRule, Hooks};
