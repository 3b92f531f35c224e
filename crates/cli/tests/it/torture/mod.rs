//! Runs that are killed, starved and lied to: real processes, and a judge that forgives nothing.
//!
//! Moments are random where it says so; verdicts never are. Each figure that a test prints can be
//! had for many more deaths with `cargo xtask torture`.

mod figures;
mod kills;
mod model;
mod past;
mod signals;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::Api;

/// The wire format where it does not matter which.
const API: Api = Api::Messages;

/// A program that runs longer than any test, with an argument that no other test has.
fn unique_sleep() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 9{}.{count:06}", std::process::id())
}
