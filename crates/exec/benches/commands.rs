//! What running a command costs above the command itself.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::process::Stdio;

use criterion::{Criterion, criterion_group, criterion_main};
use tooloop_exec::{Command, Environment, EnvironmentRules, Processes, own_process};

fn commands(criterion: &mut Criterion) {
    own_process().unwrap();
    // The size that a harness has in its middle years.
    let memory = vec![1_u8; 20 << 20];
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let processes = Processes::new().unwrap();
    let environment =
        std::sync::Arc::new(Environment::of_this_process(&EnvironmentRules::default()));
    let folder = tempfile::tempdir().unwrap();
    let run = |text: &str| {
        let mut command = Command::new(text, "/", environment.clone());
        command.output.spool_folder = Some(folder.path().into());
        runtime.block_on(processes.run(command)).unwrap()
    };

    criterion.bench_function("bare bash -c true", |bencher| {
        bencher.iter(|| {
            std::process::Command::new("/bin/bash")
                .args(["--noprofile", "--norc", "-c", "true"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
        });
    });
    criterion.bench_function("true", |bencher| bencher.iter(|| run("true")));
    criterion.bench_function("cd", |bencher| bencher.iter(|| run("cd /tmp")));

    let mut long = criterion.benchmark_group("long");
    long.sample_size(10);
    long.bench_function("400 MB", |bencher| {
        bencher.iter(|| {
            let outcome = run("yes 0123456789 | head -c 400000000");
            std::fs::remove_file(outcome.output.spool.unwrap().path).unwrap();
        });
    });
    long.finish();
    black_box(memory);
}

criterion_group!(benches, commands);
criterion_main!(benches);
