//! A directory and a link to a place outside take turns at one path while file tools work there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tooloop_model::{Content, JsonObject};
use tooloop_tool::{DynTool, JudgedPath, JudgedPaths, ToolContext, tool};
use tooloop_tools::{Glob, Grep, MemoryStore, SearchSettings};

use crate::room::Room;

/// How many calls are made at least.
const CALLS: u32 = 2000;

/// What the files outside hold, and begin their names with.
const OUTSIDE: &str = "outside";

/// Exchanges `d` and `l` in a directory until it is dropped.
struct Exchange {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
    /// `None` where the file system cannot exchange two names.
    fn begin(folder: &Path) -> Option<Self> {
        let (one, other) = (folder.join("d"), folder.join("l"));
        let exchange = move || renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        if let Err(error) = exchange().and_then(|()| exchange()) {
            println!("skipped: names cannot be exchanged here: {error}");
            return None;
        }
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&count));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                exchange().unwrap();
                AtomicU64::fetch_add(&counted, 1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        });
        Some(Self {
            stop,
            count,
            thread: Some(thread),
        })
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Files below a directory, with what they hold.
fn contents(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            all.push((path.clone(), String::new()));
            all.extend(contents(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
    all.sort();
    all
}

/// A workspace with a directory `d`, and a link `l` to a directory outside.
struct Places {
    room: Room,
    outside: tempfile::TempDir,
}

impl Places {
    fn new() -> Self {
        let (room, outside) = (Room::new(), tempfile::tempdir().unwrap());
        for folder in [room.path("d"), outside.path().to_owned()] {
            fs::create_dir_all(folder.join("sub")).unwrap();
        }
        for name in ["same", "edited", "moved", "sub/same"] {
            fs::write(outside.path().join(name), "outside: tick\n").unwrap();
            room.put(&format!("d/{name}"), "inside: tick\n");
        }
        for name in ["outside-name", "sub/outside-name"] {
            fs::write(outside.path().join(name), "outside: tick\n").unwrap();
        }
        std::os::unix::fs::symlink(outside.path(), room.path("l")).unwrap();
        Self { room, outside }
    }

    /// What a call is given that was judged while `d` was the directory.
    fn context(&self, paths: &[&str]) -> ToolContext {
        let judged = |path: &&str| JudgedPath {
            given: self.room.path(path),
            entry: self.room.path(path),
            real: self.room.path(path),
            may_write: true,
        };
        let mut context = ToolContext::new(&self.room.workspace);
        context.judged = JudgedPaths::new(paths.iter().map(judged).collect());
        context
    }
}

/// The call of this number: a tool, its input, and the paths that it was judged with.
fn call(number: u32) -> (&'static str, Value, Vec<String>) {
    let new = format!("d/new{number}");
    let (from, to) = if (number / 8).is_multiple_of(2) {
        ("d/moved", "d/moved2")
    } else {
        ("d/moved2", "d/moved")
    };
    let (tool, input, paths) = match number % 8 {
        0 => ("write", json!({"path": new, "content": "x"}), vec![new]),
        1 => {
            let deep = format!("d/deep{number}/a/b");
            ("write", json!({"path": deep, "content": "x"}), vec![deep])
        }
        2 => {
            let input = json!({"path": "d/edited", "old": "tick", "new": "tick tick"});
            ("edit", input, vec!["d/edited".into()])
        }
        3 => {
            let patch = format!(
                "*** Begin Patch\n*** Add File: {new}\n+x\n*** Update File: {from}\n\
                 *** Move to: {to}\n@@\n-inside: tick\n+inside: tick\n+x\n*** End Patch\n"
            );
            let paths = vec![new, from.into(), to.into()];
            ("apply_patch", json!({ "patch": patch }), paths)
        }
        4 => {
            let input = json!({"path": "d/same", "limit": 1 + number});
            ("read", input, vec!["d/same".into()])
        }
        5 => {
            let (name, input) = if (number / 8).is_multiple_of(2) {
                ("d/outside", json!({"path": "d/outside"}))
            } else {
                ("d", json!({"path": "d"}))
            };
            ("read", input, vec![name.into()])
        }
        6 => {
            let path = if (number / 8).is_multiple_of(2) {
                "d"
            } else {
                "."
            };
            let input = json!({"pattern": "side: tick", "path": path});
            ("grep", input, vec![path.into()])
        }
        _ => {
            let path = if (number / 8).is_multiple_of(2) {
                "d"
            } else {
                "."
            };
            (
                "glob",
                json!({"pattern": "*", "path": path}),
                vec![path.into()],
            )
        }
    };
    (tool, input, paths)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_outside_is_read_or_written() {
    let places = Places::new();
    let outside = places.outside.path();
    let before = contents(outside);
    let Some(exchange) = Exchange::begin(&places.room.workspace) else {
        return;
    };
    let grep: Arc<dyn DynTool> = tool(Grep::new(SearchSettings::default()));
    let glob: Arc<dyn DynTool> = tool(Glob::new(SearchSettings::default()));
    let longer = std::env::var("TOOLOOP_RACE_SECONDS").ok();
    let longer = Duration::from_secs(longer.map_or(0, |seconds| seconds.parse().unwrap()));
    let begun = Instant::now();
    let (mut number, mut succeeded, mut failed) = (0, 0, 0);
    let mut told = Vec::new();
    while number < CALLS || begun.elapsed() < longer {
        let (name, input, paths) = call(number);
        number += 1;
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let context = places.context(&paths);
        let input = JsonObject::parse(&input.to_string()).unwrap();
        let tool = match name {
            "grep" => &grep,
            "glob" => &glob,
            name => places.room.tool(name),
        };
        let text = match tool.run(&input, &context).await {
            Ok(output) => {
                succeeded += 1;
                let texts = output.content.into_iter().map(|content| match content {
                    Content::Text(text) => text,
                    other => format!("{other:?}"),
                });
                texts.collect::<String>()
            }
            Err(error) => {
                failed += 1;
                error.to_string()
            }
        };
        // The name that was asked for is told in the words of an error.
        if text.replace("d/outside", "").contains(OUTSIDE) {
            told.push(format!("{name} {paths:?}: {text}"));
        }
    }
    let exchanges = exchange.count();
    drop(exchange);
    assert_eq!(told, [""; 0], "of {number} calls {} told of it", told.len());
    assert_eq!(contents(outside), before, "written outside");
    assert!(
        exchanges > 0 && succeeded > 0,
        "{exchanges} {succeeded} {failed}"
    );
}

#[test]
fn notes_stay_in_their_directory() {
    let places = Places::new();
    fs::create_dir(places.room.path("d/notes")).unwrap();
    fs::create_dir(places.outside.path().join("notes")).unwrap();
    let note = "notes/old.md";
    fs::write(places.outside.path().join(note), "outside").unwrap();
    places.room.put("d/notes/old.md", "inside");
    let before = contents(places.outside.path());
    let store = MemoryStore::at(places.room.path("d/notes"));
    let Some(exchange) = Exchange::begin(&places.room.workspace) else {
        return;
    };
    let mut inside = 0_u32;
    for _ in 0..CALLS {
        if let Ok(text) = store.view("old") {
            assert_eq!(text, "inside");
            inside += 1;
        }
        drop(store.delete("none"));
        drop(store.list());
    }
    drop(exchange);
    assert_eq!(contents(places.outside.path()), before);
    assert!(inside > 0);
}
