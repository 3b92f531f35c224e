//! Subagents: sessions that work for another one and tell it one thing in the end.
//!
//! The tool `task` begins one. It is a session like any other, driven by the same loop, with a history of
//! its own, a prompt and tools that its [`AgentType`] says, and everything else of the session that it works
//! for: policy and rules, whoever is asked, hooks, ledger, sandbox, secrets, old contents of files. What it
//! does is judged call by call; a type narrows what it may do and never widens it.
//!
//! It must not know: what a kernel makes of a call, and where definitions of types are kept.

mod assignment;
mod kind;
mod plan;
mod subagents;
mod task;
mod working;

pub(crate) use assignment::Assignment;
pub use kind::{AgentModel, AgentType, AgentTypeError, AgentTypes};
pub use plan::{EXIT_PLAN, Planning};
pub(crate) use plan::{Ends, ExitPlan, ModeTold};
pub(crate) use subagents::{Parent, Subagents};
pub use task::TASK;
pub(crate) use task::Task;

/// How deep subagents may have subagents of their own.
const MOST_DEPTH: u32 = 2;

/// The most model calls of a subagent.
const MOST_STEPS: u32 = 30;
