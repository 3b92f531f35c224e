//! Everyday commands of development, run for real in a small project: with the sandbox as without,
//! and next to nothing is asked.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tooloop_testkit::run::Run;
use tooloop_testkit::{ModelServer, Scratch, Steps};

use crate::support::{Api, asking, tooloop};

const API: Api = Api::Messages;

const COMMANDS: &str = include_str!("../../../policy/tests/data/everyday.txt");

/// A bound for builds on a loaded machine, never a time to wait.
const BUILDS: Duration = Duration::from_secs(900);

/// The commands whose programs are here: what each takes, and its line.
fn commands() -> Vec<(&'static str, String)> {
    let is_here = |program: &str| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        program == "network" || found.is_ok_and(|found| found.status.success())
    };
    let all = COMMANDS.lines().filter(|line| !line.starts_with('#'));
    let all = all.map(|line| line.split_once('\t').unwrap());
    all.filter(|(program, line)| {
        let here = is_here(program);
        if !here {
            println!("not tried, there is no {program}: {line}");
        }
        here
    })
    .map(|(program, line)| (program, line.replace('␤', "\n")))
    .collect()
}

fn project(folder: &Path) {
    let files = [
        ("README.md", "# parser\n\nan old parser\nTODO\n"),
        (
            "Cargo.toml",
            "[package]\nname = \"parser\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        (
            "src/main.rs",
            "fn main() {\n    println!(\"{}\", parser());\n}\n\nfn parser() -> u8 {\n    1\n}\n\n#[test]\nfn parser_reads() {\n    assert_eq!(parser(), 1);\n}\n",
        ),
        (
            "package.json",
            "{\"name\": \"parser\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node -e 'process.exit(0)'\"}}\n",
        ),
        (
            "Makefile",
            "all:\n\techo made > made\ntest: all\n\ttest -f made\n",
        ),
        ("run.sh", "#!/bin/sh\necho ran\n"),
        (".gitignore", "target\n.venv\n"),
        ("test_parser.py", "def test_parser():\n    assert True\n"),
        ("go.mod", "module parser\n"),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let git = |arguments: &[&str]| {
        let run = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@x"])
            .args(arguments)
            .current_dir(folder)
            .output();
        drop(run);
    };
    git(&["init", "-q"]);
    for message in ["first", "second"] {
        fs::write(folder.join("log.txt"), message).unwrap();
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", message]);
    }
    fs::write(
        folder.join("README.md"),
        "# parser\n\nan old parser, changed\nTODO\n",
    )
    .unwrap();
}

/// What became of each command: its text, and whether it failed.
fn outcomes(
    run: impl Fn(&Scratch, &ModelServer) -> Run,
    commands: &[(&str, String)],
) -> (Vec<(String, bool)>, usize, Value) {
    let scratch = Scratch::new();
    project(&scratch.workspace());
    let calls = commands.iter().enumerate();
    let calls = calls.map(|(index, (_, line))| API.bash(&format!("c{index}"), line));
    let replies: Vec<Steps> = calls.chain([API.say("done")]).collect();
    let server = ModelServer::start(replies);
    let mut run = run(&scratch, &server);
    for (variable, folder) in [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
    ] {
        let home = std::env::home_dir().unwrap_or_default();
        let set = std::env::var_os(variable).unwrap_or_else(|| home.join(folder).into());
        run = run.env(variable, set);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        run = run
            .env(format!("GIT_{who}_NAME"), "x")
            .env(format!("GIT_{who}_EMAIL"), "x@x");
    }
    let running = run.arg("go").start();
    let finished = running.wait(BUILDS);
    finished.assert_code(0);
    let records = finished.json_lines().unwrap();
    let results = records.iter().filter_map(|record| {
        let block = &record["message"]["content"][0];
        (block["type"] == "tool_result").then(|| {
            let text = block["content"].as_str().unwrap_or_default().to_owned();
            (text, block["is_error"] == true)
        })
    });
    let results: Vec<_> = results.collect();
    assert_eq!(results.len(), commands.len());
    let last = records.last().unwrap();
    let asked = last["permission_denials"].as_array().unwrap().len();
    (results, asked, last["permission_denials"].clone())
}

#[test]
fn everyday_work_goes_on_within_the_sandbox() {
    if let Some(missing) = super::sandbox::missing() {
        println!("skipped: no sandbox can be set up here: {missing}");
        return;
    }
    let commands = commands();
    let free: Vec<_> = commands
        .iter()
        .filter(|(kind, _)| *kind != "network")
        .cloned()
        .collect();
    let (without, _, _) = outcomes(|scratch, server| tooloop(scratch, server, API), &free);
    let (within, asked, questions) = outcomes(
        |scratch, server| {
            asking(scratch, server, API)
                .env("TOOLOOP_SANDBOX", "required")
                .args(["--output-format", "stream-json"])
        },
        &commands,
    );
    println!("{} commands, {asked} questions", commands.len());
    assert!(asked <= 5, "{questions:#}");
    let wrong: Vec<_> = free
        .iter()
        .zip(&without)
        .zip(&within)
        .filter(|((_, without), within)| !without.1 && within.1)
        .map(|(((_, line), _), within)| format!("{line}\n{}", within.0))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
}
