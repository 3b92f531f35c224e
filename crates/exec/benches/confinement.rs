//! What a sandbox costs a command.
//!
//! This program is the helper of its sandboxes, and so has a `main` of its own.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark"
)]

use std::sync::Arc;

use criterion::Criterion;
use tooloop_exec::{
    Command, Confined, Environment, EnvironmentRules, Mechanism, Processes, Sandbox,
    SandboxNetwork, SandboxOptions, SandboxProfile, own_process, sandbox_main,
};

fn main() {
    sandbox_main();
    own_process().unwrap();
    let mut criterion = Criterion::default().configure_from_args();
    commands(&mut criterion);
    criterion.final_summary();
}

fn commands(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let processes = Processes::new().unwrap();
    let environment = Arc::new(Environment::of_this_process(&EnvironmentRules::default()));
    let folder = tempfile::tempdir().unwrap();
    for inner in ["work", "temp", "work/.git", "work/.git/hooks"] {
        std::fs::create_dir(folder.path().join(inner)).unwrap();
    }
    let profile = Arc::new(SandboxProfile {
        writable: vec![folder.path().join("work")],
        read_only: vec![folder.path().join("work/.git/hooks")],
        hidden: Vec::new(),
        temp: folder.path().join("temp"),
        staged: Vec::new(),
        network: SandboxNetwork::Off,
    });
    let run = |sandbox: Option<&Sandbox>| {
        let mut command = Command::new("true", folder.path().join("work"), environment.clone());
        command.sandbox = sandbox.map(|sandbox| Confined {
            sandbox: sandbox.clone(),
            profile: profile.clone(),
        });
        runtime.block_on(processes.run(command)).unwrap()
    };
    criterion.bench_function("true, free", |bencher| bencher.iter(|| run(None)));
    for mechanism in [
        Mechanism::Namespaces,
        Mechanism::Bubblewrap,
        Mechanism::Landlock,
    ] {
        let options = SandboxOptions {
            namespaces: mechanism == Mechanism::Namespaces,
            bubblewrap: mechanism == Mechanism::Bubblewrap,
            ..SandboxOptions::default()
        };
        match Sandbox::probe(&options) {
            Ok(sandbox) if sandbox.enforced().mechanism == mechanism => {
                criterion.bench_function(&format!("true, {mechanism}"), |bencher| {
                    bencher.iter(|| run(Some(&sandbox)));
                });
                criterion.bench_function(&format!("probe, {mechanism}"), |bencher| {
                    bencher.iter(|| Sandbox::probe(&options).unwrap());
                });
            }
            Ok(_) => println!("{mechanism} cannot be used here"),
            Err(error) => println!("{error}"),
        }
    }
}
