//! Another program exchanges a directory of the workspace and a link to a place outside while the
//! model's calls run.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tooloop_testkit::{ModelServer, Scratch, anthropic};

use crate::sandbox::{Outside, missing};
use crate::support::{Api, asking, finish};

const API: Api = Api::Messages;

/// How many replies with calls the model gives, and how many calls are in each.
const REPLIES: usize = 20;
const CALLS: usize = 20;

/// What the files outside hold.
const SECRET: &str = "text-from-outside";

/// Exchanges `d` and `l` while `work` runs.
fn exchanging(folder: &Path, work: impl FnOnce()) {
    let (one, other) = (folder.join("d"), folder.join("l"));
    let exchange = || renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
    if let Err(error) = exchange().and_then(|()| exchange()) {
        println!("skipped: names cannot be exchanged here: {error}");
        return;
    }
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                exchange().unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
    assert!(count.into_inner() > 0);
}

fn input(number: usize) -> (&'static str, Value) {
    match number % 5 {
        0 | 1 => (
            "write",
            json!({"path": format!("d/new{number}"), "content": "x"}),
        ),
        2 => (
            "edit",
            json!({"path": "d/edited", "old": "tick", "new": "tick tick"}),
        ),
        3 => ("read", json!({"path": "d/same", "limit": number + 1})),
        _ => ("grep", json!({"pattern": "text-from", "path": "d"})),
    }
}

/// Files below a directory, with what they hold.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_symlink() || !path.is_dir() {
            all.push((name, fs::read(&path).unwrap_or_default()));
        } else {
            all.push((name, Vec::new()));
            all.extend(contents(&path));
        }
    }
    all.sort();
    all
}

fn calls_stay_inside(sandbox: &str, outside: &Path) {
    let scratch = Scratch::new();
    for name in ["same", "edited"] {
        scratch.write(format!("d/{name}"), "inside: tick\n");
        fs::write(outside.join(name), format!("{SECRET}: tick\n")).unwrap();
    }
    std::os::unix::fs::symlink(outside, scratch.workspace().join("l")).unwrap();
    let before = contents(outside);
    let reply = |reply: usize| {
        let ids: Vec<String> = (0..CALLS).map(|call| format!("c_{reply}_{call}")).collect();
        let calls: Vec<_> = ids
            .iter()
            .enumerate()
            .map(|(call, id)| {
                let (name, input) = input(reply * CALLS + call);
                (id.as_str(), name, input)
            })
            .collect();
        anthropic::calls(&calls)
    };
    let replies = (0..REPLIES).map(reply).chain([API.say("ok")]);
    let server = ModelServer::start(replies.collect::<Vec<_>>());
    let run = asking(&scratch, &server, API)
        .env("TOOLOOP_SANDBOX", sandbox)
        .env("TOOLOOP_CONTEXT_WINDOW", "1000000")
        .args(["--output-format", "stream-json"])
        .args(["--permission-mode", "acceptEdits"])
        .args([
            "--disallowed-tools",
            &format!("Read(/{}/**)", outside.display()),
        ])
        .arg("go");
    exchanging(&scratch.workspace(), || {
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok");
    });
    server.assert_clean();
    assert_eq!(contents(outside), before, "written outside");
    // In no request, no journal and no kept old content.
    for request in server.requests() {
        assert!(!request.mentions(&format!("{SECRET}: ")), "read outside");
    }
    for folder in [scratch.data(), scratch.state(), scratch.cache()] {
        for (path, bytes) in contents(&folder) {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(&format!("{SECRET}: ")), "{path} holds it");
        }
    }
}

/// Once, or for as long as `cargo xtask race` says.
fn again_and_again(test: impl Fn()) {
    let longer = std::env::var("TOOLOOP_RACE_SECONDS").ok();
    let longer = Duration::from_secs(longer.map_or(0, |seconds| seconds.parse().unwrap()));
    let begun = Instant::now();
    test();
    while begun.elapsed() < longer {
        test();
    }
}

#[test]
fn file_tools_stay_inside_without_a_sandbox() {
    again_and_again(|| {
        let outside = tempfile::tempdir().unwrap();
        calls_stay_inside("off", outside.path());
    });
}

#[test]
fn file_tools_stay_inside_with_a_sandbox() {
    if let Some(missing) = missing() {
        println!("skipped: no sandbox can be set up here: {missing}");
        return;
    }
    again_and_again(|| {
        if let Some(outside) = Outside::new() {
            calls_stay_inside("required", outside.path());
        }
    });
}
