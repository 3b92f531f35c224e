//! What a tool call may do.
//!
//! A tool states what a call would touch as an [`Access`]; a [`Policy`] made of a [`Mode`] and
//! layered [`Rule`]s answers with a [`Decision`]. Shell lines are taken apart by [`shell`], so that
//! a rule about one program also sees it behind a pipe, a substitution or a wrapper.
//!
//! This crate is pure. It must not know files, processes, the environment, clocks or chance, and
//! it runs nothing: it is the doorbell, while the sandbox is the wall. What it cannot understand
//! it never allows.
//!
//! ```
//! use tooloop_policy::{Access, Decision, Policy};
//!
//! let policy = Policy {
//!     allow: vec!["Bash(git log *)".parse()?],
//!     deny: vec!["Bash(git push *)".parse()?],
//!     ..Policy::default()
//! };
//! assert_eq!(policy.decide("bash", &Access::command("git log -n 1 | head")), Decision::Allow);
//! assert!(policy.decide("bash", &Access::command("env git push")).is_deny());
//! assert!(policy.decide("bash", &Access::command("git log; touch M")).is_ask());
//! # Ok::<(), tooloop_policy::RuleError>(())
//! ```
#![warn(missing_docs)]
#![warn(clippy::wildcard_enum_match_arm)]
#![warn(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod access;
mod beyond;
mod border;
mod call;
mod command_rule;
mod confinement;
mod decision;
mod explain;
mod explanation;
mod grant;
mod host;
mod mode;
mod path_rule;
mod pattern;
mod places;
mod policy;
pub mod protected;
mod rule;
pub mod shell;
mod touches;

pub use access::{Access, AccessEffect, FileFacts, Touch};
pub use beyond::beyond;
pub use confinement::{Confinement, Reach};
pub use decision::{AskCause, Decision};
pub use explanation::{
    ExplainedPart, Explanation, MetRule, PartEffect, PartKind, PartVerdict, RuleList,
};
pub use grant::{Grant, GrantError};
pub use mode::{Mode, ModeError};
pub use policy::{DeniedPath, Policy, Withholding};
pub use rule::{Rule, RuleError};
pub use touches::named_paths;
