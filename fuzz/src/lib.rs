//! What the targets share: a machine in memory, and calls of tools on it.
//!
//! No target touches a file, starts a process or opens a connection.

mod memory;

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tooloop_model::{Content, JsonObject};
use tooloop_policy::Access;
use tooloop_tool::{DynTool, Scope, ToolContext, ToolError, ToolOutput};
use tooloop_tools::Ops;

pub use memory::{Files, Memory, plain};

/// The folder that the calls of tools work in.
pub const WORKSPACE: &str = "/w";

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// A machine in memory with one tool on it.
pub struct Desk {
    pub machine: Arc<Memory>,
    tool: Arc<dyn DynTool>,
}

impl Desk {
    /// A machine without files, and the tool that is made for it.
    pub fn new(make: impl FnOnce(Arc<dyn Ops>) -> Arc<dyn DynTool>) -> Self {
        let machine = Arc::new(Memory::default());
        let tool = make(machine.clone());
        Self { machine, tool }
    }

    /// What a call states that it would touch.
    pub fn access(&self, input: &Value) -> Access {
        let access = self.tool.access(&object(input));
        access.expect("the input fits the tool")
    }

    /// Calls the tool as the first of a session.
    pub fn call(&self, input: &Value) -> Result<ToolOutput, ToolError> {
        let session = self.tool.for_session(&Scope::new());
        let tool = session.as_ref().unwrap_or(&self.tool);
        let context = ToolContext::new(WORKSPACE);
        RUNTIME.block_on(tool.run(&object(input), &context))
    }
}

fn object(input: &Value) -> JsonObject {
    JsonObject::parse(&input.to_string()).expect("an object")
}

/// The text of an output without pictures.
pub fn text(output: &ToolOutput) -> Option<&str> {
    match output.content.as_slice() {
        [Content::Text(text)] => Some(text),
        _ => None,
    }
}

/// Cuts bytes into parts whose lengths depend on a number.
pub fn parts(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    let mut state = u32::from(seed);
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // For 0 byte by byte, else longer ones the more the seed allows.
        let length = 1 + (state >> 16) as usize % (usize::from(seed) + 1);
        let (part, after) = rest.split_at(length.min(rest.len()));
        parts.push(part);
        rest = after;
    }
    parts
}
