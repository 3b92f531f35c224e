//! Sandboxes, tried: as who runs this, and as an ordinary user too if that is root.
//!
//! This program is the harness, the helper of its sandboxes, and what is run inside of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::exit,
    missing_docs,
    reason = "a test"
)]

mod acts;
#[path = "../support/mod.rs"]
mod support;
mod tests;
mod world;

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use tooloop_exec::sandbox_main;

use crate::world::{BASE, Stage, places};

/// A user that owns nothing.
const NOBODY: u32 = 65534;

fn main() {
    sandbox_main();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["act", name] => std::process::exit(acts::main(name)),
        ["harness", mechanism, text] => return tests::harness(mechanism, text),
        ["without-features"] => return tests::without_features(),
        _ => {}
    }
    if words.contains(&"--list") {
        return;
    }
    let filter: Vec<&str> = words
        .into_iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let mut is_well = run(&filter);
    if rustix::process::geteuid().is_root() && std::env::var_os(BASE).is_none() {
        is_well &= run_as_nobody(&filter);
    }
    std::process::exit(i32::from(!is_well));
}

/// The same once more as an ordinary user.
fn run_as_nobody(filter: &[&str]) -> bool {
    let Some(base) = places(Some(NOBODY)) else {
        println!("skipped as an ordinary user: there is no folder that another user can reach");
        return true;
    };
    let mut program = Command::new(base.path().join("work/program"));
    program
        .args(filter)
        .env(BASE, base.path())
        .uid(NOBODY)
        .gid(NOBODY);
    program.env_remove("HOME").current_dir("/");
    program.status().unwrap().success()
}

fn run(filter: &[&str]) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let mut is_well = true;
    for stage in Stage::all() {
        let mut stage = match stage {
            Ok(stage) => stage,
            Err(why) => {
                println!("skipped as user {user}: {why}");
                continue;
            }
        };
        for (name, test) in tests::TESTS {
            let name = format!("{name} ({}, user {user})", stage.name());
            if !filter.iter().all(|word| name.contains(word)) {
                continue;
            }
            stage.reset();
            let passed = catch_unwind(AssertUnwindSafe(|| test(&mut stage))).is_ok();
            println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
            is_well &= passed;
        }
    }
    is_well
}
