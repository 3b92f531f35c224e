//! The real binary against a scripted model server over real sockets, with the strict judge on.
//!
//! One binary for all, so that it is linked once: a module a theme. Numbers such as C17 name the
//! field case that a test stands for.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail anywhere"
)]

mod agents;
mod asking;
mod bash;
mod collector;
mod context;
mod doctor;
mod everyday;
mod exits;
mod files;
mod full_disk;
mod git_layouts;
mod headless;
mod history;
mod hooks;
mod jobs;
mod memory;
mod permissions;
mod places;
mod prompt;
mod race;
mod replay;
mod retries;
mod rewind;
mod same_bytes;
mod sandbox;
mod sdk;
mod secrets;
mod session;
mod sessions_cli;
mod settings;
mod skills;
mod streams;
mod support;
mod torture;
mod traces;
mod trust;
mod wire;
