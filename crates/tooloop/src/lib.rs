//! A library for building agents: one loop, its tools, and nothing lost.
//!
//! An agent sends a conversation and its tools to a model; when the reply holds tool uses it runs
//! them, appends the results and goes round again; when it holds none it stops. An [`Agent`] is the
//! recipe: provider, model, system prompt, tools, policy. A [`Session`] is a live conversation.
//!
//! ```
//! use std::sync::Arc;
//! use tooloop::{Agent, provider::ScriptedProvider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Any provider will do; this one says what it is told to.
//! let provider = ScriptedProvider::new().say("Hello, World!");
//!
//! let agent = Agent::builder()
//!     .provider(Arc::new(provider))
//!     .model("any")
//!     .build()?;
//! let session = agent.session()?;
//! let report = session.prompt("Greet the world.").await?;
//! assert_eq!(report.text, "Hello, World!");
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Session::events`] tells what happens while it happens; [`Session::steer`] and
//! [`Session::interrupt`] reach into a running turn; a tool of your own is a type that implements
//! [`Tool`]. With [`AgentBuilder::journal`] every session is recorded before it acts, and
//! [`Agent::resume`] goes on with it, whatever death the process died.

#![warn(missing_docs)]

mod agent;
mod agents;
mod approval;
mod border;
pub mod boundary;
mod cache_ledger;
mod checkpoints;
mod context_report;
mod cost;
mod driver;
mod error;
mod event;
mod gate;
pub mod hooks;
mod instructions;
mod judged;
mod keeping;
mod model_call;
mod output_schema;
mod paths;
mod permissions;
mod prompt;
mod regular_file;
pub mod replay;
mod report;
mod repository;
mod results;
mod rewind;
mod session;
mod stop_hook;
mod trace;
mod turn;

/// Codecs, transport and the providers for tests.
pub use tooloop_provider as provider;
/// The journal.
pub use tooloop_session as journal;
/// The tools that come with the library.
pub use tooloop_tools as tools;

pub use agent::{Agent, AgentBuilder};
pub use agents::{AgentModel, AgentType, AgentTypeError, AgentTypes, EXIT_PLAN, Planning, TASK};
pub use approval::{
    Allowance, Approval, Approver, Destination, PermissionAnswer, PermissionChange,
    PermissionUpdate, Question, Reply, ToolApprover,
};
pub use border::Border;
pub use cache_ledger::{CacheLedger, CacheMiss, MissReason};
pub use checkpoints::FilesRewound;
pub use context_report::{ContextKind, ContextReport, ContextRow};
pub use cost::{CostReport, Spending};
pub use error::{BuildError, SessionError};
pub use event::{CompactionState, Event, Events};
pub use instructions::{InstructionFile, InstructionSources, Instructions, MOST_INSTRUCTION_BYTES};
pub use output_schema::{OutputSchema, SchemaError};
pub use prompt::{PromptProfile, PromptSection, PromptState, Repository, SystemPrompt};
pub use report::{Denial, DeniedBy, TurnReport};
pub use results::ResultBudget;
pub use rewind::{PastTurn, Rewind, Rewound, What, fork_journal, past_turns};
pub use session::{CloseReason, Compacted, Session};
pub use stop_hook::{StopHook, Stopping};
/// Child processes.
pub use tooloop_exec as exec;
pub use tooloop_kernel::{
    Budget, Continue, During, Entry, Interrupter, Ledger, Limits, Permission, RetryPolicy,
    Settings, StopJudgement, Transcript, TurnEnd,
};
pub use tooloop_model::{
    AssistantMessage, BlockStart, Content, ContentBlock, DecodedText, Document, HistoryMessage,
    Image, Message, ModelError, ModelErrorKind, ModelInfo, Money, Price, ProxySettings, StopReason,
    StreamEvent, ToolDefinition, ToolInput, ToolResult, ToolUse, ToolUseId, Usage, decode_text,
};
pub use tooloop_policy::{
    Access, AccessEffect, AskCause, Confinement, Decision, ExplainedPart, Explanation, FileFacts,
    Grant, MetRule, Mode, PartEffect, PartKind, PartVerdict, Policy, Reach, Rule, RuleList, Touch,
};
pub use tooloop_tool::{
    Background, DynTool, Progress, Registry, RegistryError, SandboxRefusal, Scope, Tool,
    ToolContext, ToolError, ToolFuture, ToolOutput, Withheld, Work, conformance, tool,
};

/// The README's example is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// So are those of the page about recordings.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/replay.md")]
struct ReplayPage;

/// And that of the page about the sandbox.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sandbox.md")]
struct SandboxPage;
