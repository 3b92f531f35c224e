//! The kernel's behaviour as scenarios: inputs in, effects out. `script` tells the language.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;
mod render;
mod script;

mod calls;
mod ceilings;
mod compactions;
mod continues;
mod ends;
mod hooks;
mod ids;
mod interrupts;
mod limits;
mod queues;
mod replies;
mod resume;
mod retries;
mod rewinds;
mod ways;
