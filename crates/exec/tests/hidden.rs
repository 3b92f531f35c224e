//! A process that hides its memory from its commands.

mod support;

use std::os::unix::process::CommandExt;
use std::path::Path;

use support::command;
use tooloop_exec::{End, Processes, hide_memory, own_process};

const HIDES: &str = "TOOLOOP_EXEC_TEST_HIDES";

/// Not a test of its own: with the variable set, it is the program that hides.
#[test]
fn program() {
    if std::env::var_os(HIDES).is_none() {
        return;
    }
    own_process().unwrap();
    hide_memory().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let processes = Processes::new().unwrap();
        let text = "cat /proc/$PPID/environ; echo $?; cat /proc/self/oom_score_adj; cd /tmp; (sleep 300 &)";
        let outcome = processes.run(command(text, Path::new("/"))).await.unwrap();
        assert_eq!(outcome.end, End::Exited(0));
        assert_eq!(outcome.final_directory, Some("/tmp".into()));
        assert_eq!(outcome.leftovers.len(), 1);
        println!("{}", outcome.output.text());
    });
}

#[test]
fn keys_in_the_start_environment_cannot_be_read() {
    let is_root = rustix::process::geteuid().is_root();
    // Where others cannot reach the build folder, the program is copied to where they can.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let mut hiding = std::process::Command::new(program);
    hiding
        .args(["--exact", "program", "--nocapture"])
        .env(HIDES, "kk-hidden")
        .env("RUST_BACKTRACE", "0")
        .current_dir("/");
    if is_root {
        // Nothing is hidden from root.
        hiding.uid(65534).gid(65534);
    }
    let output = hiding.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("environ: Permission denied\n1\n"), "{text}");
    assert!(!text.contains("kk-hidden"), "{text}");
}
