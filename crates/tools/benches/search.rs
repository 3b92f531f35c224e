//! What a search of 100,000 files costs, and what `rg` takes for the same where it is installed.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use tooloop_model::JsonObject;
use tooloop_tool::{DynTool, ToolContext, tool};
use tooloop_tools::{Glob, Grep, SearchSettings};

/// How often each is run in turn for the comparison.
const ROUNDS: usize = 15;

/// A hundred files in each of a thousand folders, three levels deep.
fn build(root: &Path) {
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join(".gitignore"), "target/\n*.log\n/d1/d2/d3/\n").unwrap();
    let kinds = [
        "rs", "rs", "rs", "txt", "md", "json", "py", "toml", "log", "c",
    ];
    for folder in 0..1000 {
        let (a, b, c) = (folder / 100, folder / 10 % 10, folder % 10);
        let path = root.join(format!("d{a}/d{b}/d{c}"));
        fs::create_dir_all(&path).unwrap();
        for file in 0..100 {
            let mut text = String::new();
            for line in 0..16 {
                writeln!(text, "pub fn item_{line:03}_{file}(value: u32) -> u32 {{").unwrap();
            }
            if file == 0 && folder % 50 == 0 {
                text.push_str("a needle in a haystack\n");
            }
            let name = format!("file_{file:02}.{}", kinds[file % kinds.len()]);
            fs::write(path.join(name), text).unwrap();
        }
    }
}

struct Case {
    name: &'static str,
    tool: Arc<dyn DynTool>,
    input: Value,
    rg: &'static [&'static str],
}

fn search(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    build(&root);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let context = ToolContext::new(&root);
    let glob = tool(Glob::new(SearchSettings::default()));
    let grep = tool(Grep::new(SearchSettings::default()));
    let cases = [
        Case {
            name: "glob **/*.rs",
            tool: Arc::clone(&glob),
            input: json!({ "pattern": "**/*.rs" }),
            rg: &["--files", "-g", "**/*.rs", "."],
        },
        Case {
            name: "glob **/file_03.txt",
            tool: glob,
            input: json!({ "pattern": "**/file_03.txt" }),
            rg: &["--files", "-g", "**/file_03.txt", "."],
        },
        Case {
            name: "grep a rare word",
            tool: Arc::clone(&grep),
            input: json!({ "pattern": "needle" }),
            rg: &["-n", "needle", "."],
        },
        Case {
            name: "grep a frequent word",
            tool: Arc::clone(&grep),
            input: json!({ "pattern": "value" }),
            rg: &["-n", "value", "."],
        },
        Case {
            name: "grep a regex",
            tool: grep,
            input: json!({ "pattern": r"item_\d{3}_9[89]\b.*->\s+u32" }),
            rg: &["-n", r"item_\d{3}_9[89]\b.*->\s+u32", "."],
        },
    ];
    let ours = |case: &Case| {
        let input = JsonObject::parse(&case.input.to_string()).unwrap();
        runtime.block_on(case.tool.run(&input, &context)).unwrap()
    };
    let theirs = |case: &Case| {
        let output = Command::new("rg")
            .arg("--no-config")
            .args(case.rg)
            .current_dir(&root)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success());
        output.stdout.len()
    };
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    if !has_rg {
        println!("rg is not installed: there is nothing to compare with");
    }

    for case in &cases {
        let mut group = criterion.benchmark_group(case.name);
        group.sample_size(10);
        group.bench_function("ours", |bencher| bencher.iter(|| ours(case)));
        if has_rg {
            group.bench_function("rg", |bencher| bencher.iter(|| theirs(case)));
        }
        group.finish();
    }
    for case in cases.iter().filter(|_| has_rg) {
        // In turn, so that whatever else the machine does meets both.
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            times.0.push(time(|| drop(ours(case))));
            times.1.push(time(|| {
                theirs(case);
            }));
        }
        let (ours, theirs) = (median(times.0), median(times.1));
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "{:24} ours {ours:>9.1?}  rg {theirs:>9.1?}  ratio {ratio:.2}",
            case.name
        );
    }
}

fn time(run: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    run();
    begin.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

criterion_group!(benches, search);
criterion_main!(benches);
