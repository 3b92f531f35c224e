//! Runs that are killed, starved and lied to: real processes, and a judge that forgives nothing.
//!
//! Moments are random where it says so; verdicts never are. The deaths can be had by the hundred,
//! with their figures, from `cargo xtask torture`.

mod clock;
mod descriptors;
mod disk;
mod figures;
mod kills;
mod limits;
mod model;
mod others;
mod past;
mod signals;

use std::sync::atomic::{AtomicU64, Ordering};

use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch};

use crate::support::Api;

/// The wire format where it does not matter which.
const API: Api = Api::Messages;

/// A program that runs longer than any test, with an argument that no other test has.
fn unique_sleep() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sleep 9{}.{count:06}", std::process::id())
}

/// A run that everything is allowed to, started by a shell that first does `before` to itself and
/// then becomes it, with its files turned as `redirects` says.
fn begun_by_shell(
    scratch: &Scratch,
    server: &ModelServer,
    before: &str,
    redirects: &str,
    arguments: &[&str],
) -> Run {
    let script = format!("{before}\nexec \"$@\" {redirects}");
    let binary = env!("CARGO_BIN_EXE_tooloop");
    Run::new("bash")
        .home(scratch)
        .model(server)
        .env("TOOLOOP_MODEL", API.model())
        .env("TOOLOOP_SANDBOX", "off")
        .env("TOOLOOP_PERMISSION_MODE", "bypassPermissions")
        .env("TOOLOOP_RETRY_BASE_MS", "20")
        .env("TOOLOOP_RETRY_MAX_ATTEMPTS", "4")
        .args(["-c", &script, "bash", binary])
        .args(arguments.to_vec())
}

/// The binary as a user would run it, with records.
fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["-p", "--output-format", "stream-json"]
        .into_iter()
        .chain(more.iter().copied())
        .collect()
}
