//! What reading and editing cost.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tooloop_exec::Processes;
use tooloop_model::JsonObject;
use tooloop_tool::{DynTool, Scope, ToolContext, tool};
use tooloop_tools::{ApplyPatch, Edit, LocalOps, Ops, Read, Write};

/// How long a line of the large file is.
const LINE: u64 = 100;

fn large(path: &Path) -> u64 {
    let lines = (1 << 30) / LINE;
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    for number in 1..=lines {
        writeln!(file, "{number:099}").unwrap();
    }
    file.into_inner().unwrap();
    lines
}

/// The most memory that this process has held, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn files(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let context = ToolContext::new(folder.path());
    let ops: Arc<dyn Ops> = Arc::new(LocalOps::new(Processes::new().unwrap()));
    let fresh = |tool: Arc<dyn DynTool>| tool.for_session(&Scope::new()).unwrap();
    let call = |tool: &Arc<dyn DynTool>, input: &Value| {
        let input = JsonObject::parse(&input.to_string()).unwrap();
        runtime.block_on(tool.run(&input, &context)).unwrap()
    };
    let read = tool(Read::new(ops.clone()));
    let lines = large(&folder.path().join("large"));
    for (name, offset) in [
        ("start", 1),
        ("middle", i64::try_from(lines / 2).unwrap()),
        ("end", i64::try_from(lines - 50).unwrap()),
        ("end, from the end", -50),
    ] {
        let input = json!({"path": "large", "offset": offset, "limit": 50});
        let before = peak();
        let start = Instant::now();
        call(&fresh(read.clone()), &input);
        println!(
            "1 GB, {name}: first {:?}, {} KiB more",
            start.elapsed(),
            peak() - before
        );
        let mut group = criterion.benchmark_group("50 lines of 1 GB");
        group.sample_size(10);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || fresh(read.clone()),
                |read| black_box(call(&read, &input)),
                BatchSize::PerIteration,
            );
        });
        let known = fresh(read.clone());
        group.bench_function(format!("{name}, again"), |bencher| {
            bencher.iter(|| black_box(call(&known, &input)));
        });
    }

    let text: String = (0..10_000)
        .map(|number| format!("{number:099}\n"))
        .collect();
    fs::write(folder.path().join("small"), &text).unwrap();
    let edit = fresh(tool(Edit::new(ops.clone())));
    let line = format!("{:099}", 5000);
    let mut is_odd = false;
    criterion.bench_function("edit of 1 MB", |bencher| {
        bencher.iter(|| {
            is_odd = !is_odd;
            let (old, new) = if is_odd { (&*line, "x") } else { ("x", &*line) };
            call(&edit, &json!({"path": "small", "old": old, "new": new}))
        });
    });
    fs::write(folder.path().join("small"), &text).unwrap();
    let patch = fresh(tool(ApplyPatch::new(ops.clone())));
    let mut is_odd = false;
    criterion.bench_function("patch of 1 MB", |bencher| {
        bencher.iter(|| {
            is_odd = !is_odd;
            let (old, new) = if is_odd { (&*line, "x") } else { ("x", &*line) };
            let text = format!("--- small\n+++ small\n@@\n-{old}\n+{new}\n");
            call(&patch, &json!({ "patch": text }))
        });
    });
    fs::write(folder.path().join("small"), &text).unwrap();
    let wrong = json!({"path": "small", "old": format!("{line}0\nx"), "new": "y"});
    let wrong = JsonObject::parse(&wrong.to_string()).unwrap();
    criterion.bench_function("edit of 1 MB that finds nothing", |bencher| {
        bencher.iter(|| runtime.block_on(edit.run(&wrong, &context)).unwrap_err());
    });
    let write = fresh(tool(Write::new(ops)));
    let mut number = 0;
    criterion.bench_function("write of 10 KB", |bencher| {
        bencher.iter(|| {
            number += 1;
            let content = format!("{number}\n{}", "x".repeat(10_000));
            call(&write, &json!({"path": "written", "content": content}))
        });
    });
}

criterion_group!(benches, files);
criterion_main!(benches);
