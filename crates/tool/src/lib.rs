//! The contract between an agent and its tools.
//!
//! A [`Tool`] says what it is called and takes, states what a call would touch (its *access*),
//! and runs. It never judges whether it may: policy does, before it is run. What a tool needs of
//! the world it is given when it is built; the [`ToolContext`] of a call holds no session, no
//! configuration and no policy.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tooloop_policy::Access;
//! use tooloop_tool::{Tool, ToolContext, ToolError, ToolOutput};
//!
//! /// What the model passes.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Sum {
//!     /// The numbers to add.
//!     numbers: Vec<f64>,
//! }
//!
//! struct Adder;
//!
//! impl Tool for Adder {
//!     type Input = Sum;
//!     fn name(&self) -> &str { "add" }
//!     fn description(&self) -> &str { "Adds numbers." }
//!     fn access(&self, _: &Sum) -> Access { Access::read_only() }
//!     async fn run(&self, input: Sum, _: &ToolContext) -> Result<ToolOutput, ToolError> {
//!         Ok(ToolOutput::text(input.numbers.iter().sum::<f64>().to_string()))
//!     }
//! }
//! ```

#![warn(missing_docs)]

mod background;
pub mod conformance;
mod context;
mod dynamic;
mod output;
mod registry;
mod scope;
mod tool;

pub use background::{Background, Work};
pub use context::{JudgedPath, JudgedPaths, NotJudged, Progress, ToolContext, Withheld};
pub use dynamic::{CarriedFuture, DynTool, ToolFuture};
pub use output::{Omission, SandboxRefusal, ToolError, ToolOutput};
pub use registry::{Registry, RegistryError};
pub use scope::Scope;
pub use tool::{Carried, Tool, tool};

/// The examples of the page about tools are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tools.md")]
struct ToolsPage;
