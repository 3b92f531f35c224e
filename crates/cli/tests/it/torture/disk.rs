//! Disks that are full or closed to writing: nothing is done that is not on record, the words name
//! the place, and the session goes on when there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tooloop_testkit::{ModelServer, Scratch};

use super::{API, arguments, begun_by_shell};
use crate::support::{Done, finish, journals, resume, told, tooloop, wait_for_file};

/// A small disk at a folder, as long as this lives.
struct Disk(PathBuf);

impl Disk {
    /// `None`, with words, where this machine does not let one be had.
    fn at(folder: &Path, kilobytes: u32) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={kilobytes}k");
        let disk = Self(folder.to_owned());
        if !disk.mount(&["-t", "tmpfs", "-o", &size, "tmpfs"]) {
            println!("no file system can be mounted here: this is not tried");
            std::mem::forget(disk);
            return None;
        }
        Some(disk)
    }

    fn mount(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new("mount");
        command.args(arguments).arg(&self.0).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn change(&self, options: &str) {
        assert!(self.mount(&["-o", &format!("remount,{options}")]));
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let path = self.0.join("filler");
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        for size in [1 << 16, 1 << 12, 1 << 8, 1] {
            while std::io::Write::write(&mut file, &vec![b'x'; size]).is_ok_and(|wrote| wrote > 0) {
            }
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn sessions(scratch: &Scratch) -> PathBuf {
    scratch.data().join("tooloop/sessions")
}

fn go(scratch: &Scratch, server: &ModelServer, prompt: &str) -> Done {
    finish(&tooloop(scratch, server, API).arg(prompt).start())
}

#[test]
fn full_before_the_session_begins() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&sessions(&scratch), 64) else {
        return;
    };
    disk.fill();
    let server = ModelServer::start([API.say("ok")]);
    let words = go(&scratch, &server, "go").failed(54, "not_run");
    assert!(
        words.contains("tooloop/sessions") && words.contains("space"),
        "{words}"
    );
    assert!(server.requests().is_empty());
    assert!(journals(&scratch).is_empty());
    disk.free();
    assert_eq!(go(&scratch, &server, "go").answer(), "ok");
    server.assert_clean();
    drop(disk);
}

/// The first call's result and the second one's start cannot be recorded: the second never runs.
#[test]
fn full_when_a_call_is_to_start() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&sessions(&scratch), 256) else {
        return;
    };
    // Larger than what is left of the last page of the journal.
    let waits = "touch begun; until [ -e go ]; do sleep 0.02; done; seq 1 4000";
    let marks = format!("touch {}", scratch.marker().display());
    let server = ModelServer::start([
        API.bashes(&[("c_1", waits), ("c_2", &marks)]),
        API.say("never"),
    ]);
    let running = tooloop(&scratch, &server, API)
        // The result is to be recorded whole.
        .env("TOOLOOP_CONTEXT_WINDOW", "200000")
        .arg("go")
        .start();
    wait_for_file(&scratch.workspace().join("begun"));
    disk.fill();
    scratch.write("go", "");
    let done = finish(&running);
    let words = done.failed(54, "not_run");
    assert!(
        words.contains("session file") && words.contains(".jsonl"),
        "{words}"
    );
    assert!(!scratch.marker().exists());
    assert_eq!(server.requests().len(), 1);
    disk.free();
    let server = ModelServer::start([API.say("ok")]);
    let next = resume(&scratch, &server, API, &done.session(), "next");
    assert_eq!(next.answer(), "ok");
    let request = server.request(0);
    assert!(told(&request, "c_1").contains("outcome unknown"));
    assert!(told(&request, "c_2").contains("had not begun"));
    server.assert_clean();
    drop(disk);
}

/// Step by step until nothing fits: all that ran has its start on record.
#[test]
fn full_in_the_middle() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&sessions(&scratch), 128) else {
        return;
    };
    let log = scratch.outside().join("log");
    let path = log.display().to_string();
    let server = ModelServer::start_with(move |request| {
        let number = request.index;
        let command = format!("echo {number} >> {path}; seq 1 {}", 1_000 + number);
        API.bash(&format!("c_{number}"), &command).into()
    });
    let done = go(&scratch, &server, "go");
    let words = done.failed(54, "not_run");
    assert!(
        words.contains(".jsonl") && words.contains("space"),
        "{words}"
    );
    let ran = fs::read_to_string(&log).unwrap();
    let journal = fs::read_to_string(&journals(&scratch)[0]).unwrap();
    for number in ran.lines() {
        assert!(
            journal.contains(&format!(
                "{{\"call_started\":{{\"tool_use_id\":\"c_{number}\""
            )),
            "{number} has no start on record"
        );
    }
    server.assert_clean();
    disk.change("size=4m");
    let server = ModelServer::start([API.say("ok")]);
    let next = resume(&scratch, &server, API, &done.session(), "next");
    assert_eq!(next.answer(), "ok");
    let results = server.request(0).tool_results();
    assert!(results.len() >= ran.lines().count());
    assert_eq!(fs::read_to_string(&log).unwrap(), ran);
    server.assert_clean();
    drop(disk);
}

/// The whole of a long output does not fit beside the journal, but the record of it does.
#[test]
fn full_by_what_a_command_prints() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&sessions(&scratch), 4_096) else {
        return;
    };
    let server = ModelServer::start([
        API.bash("c_1", "seq 1 2000000; echo done >> log"),
        API.bash("c_2", "echo two >> log"),
        API.say("ok"),
    ]);
    let done = go(&scratch, &server, "go");
    assert_eq!(done.answer(), "ok");
    assert_eq!(scratch.read("log"), "done\ntwo\n");
    let (text, _) = done.tool_result("c_1");
    assert!(
        text.contains("2000000\n") && text.contains("space"),
        "{}",
        &text[text.len() - 600..]
    );
    server.assert_clean();
    drop(disk);
}

#[test]
fn a_place_for_sessions_that_cannot_be_written() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&sessions(&scratch), 256) else {
        return;
    };
    let server = ModelServer::start_with(|request| request.format.say("ok").into());
    let session = go(&scratch, &server, "go").session();
    disk.change("ro");
    let asked = server.requests().len();
    let words = go(&scratch, &server, "go").failed(54, "not_run");
    assert!(
        words.contains("tooloop/sessions") && words.contains("ead-only"),
        "{words}"
    );
    let refused = resume(&scratch, &server, API, &session, "next");
    let words = refused.failed(54, "not_run");
    assert!(
        words.contains(&session) && words.contains("ead-only"),
        "{words}"
    );
    assert_eq!(server.requests().len(), asked);
    disk.change("rw");
    assert_eq!(
        resume(&scratch, &server, API, &session, "next").answer(),
        "ok"
    );
    server.assert_clean();
    drop(disk);
}

/// Tools fail, with words; what was there stays as it was; the session lives.
#[test]
fn a_full_workspace() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&scratch.workspace(), 64) else {
        return;
    };
    let old = format!("the first line\n{}", "old line\n".repeat(1_000));
    scratch.write("there.txt", &old);
    disk.fill();
    let new = "new line\n".repeat(2_000);
    let patch = format!(
        "*** Begin Patch\n*** Add File: added.txt\n+{}\n*** Update File: there.txt\n@@\n-the first line\n+new\n*** End Patch\n",
        "x".repeat(9_000)
    );
    let server = ModelServer::start([
        API.call("c_1", "write", &json!({"path": "new.txt", "content": new})),
        API.call(
            "c_2",
            "edit",
            &json!({"path": "there.txt", "old": "old line", "new": "new line", "all": true}),
        ),
        API.call("c_3", "apply_patch", &json!({ "patch": patch })),
        API.bash("c_4", "echo full > made || echo could not"),
        API.bash("c_5", "cat > doc <<'EOF'\nx\nEOF\n[ -s doc ] || echo empty"),
        API.say("ok"),
    ]);
    let done = go(&scratch, &server, "go");
    assert_eq!(done.answer(), "ok");
    for id in ["c_1", "c_2", "c_3"] {
        let (words, is_error) = done.tool_result(id);
        assert!(is_error && words.contains("space"), "{id}: {words}");
    }
    assert_eq!(scratch.read("there.txt"), old);
    let mut names: Vec<_> = fs::read_dir(scratch.workspace())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| !["made", "doc"].contains(&&**name));
    names.sort();
    assert_eq!(names, ["filler", "there.txt"]);
    server.assert_clean();
    drop(disk);
}

/// The folder for temporary files is full, or is not there.
#[test]
fn no_room_for_temporary_files() {
    let scratch = Scratch::new();
    let Some(disk) = Disk::at(&scratch.temporary(), 64) else {
        return;
    };
    disk.fill();
    for (before, flags) in [
        ("", &[][..]),
        ("", &["--no-session-persistence"]),
        ("export TMPDIR=/proc/nowhere", &[]),
        ("export TMPDIR=/proc/nowhere", &["--no-session-persistence"]),
        ("unset TMPDIR", &[]),
    ] {
        let here = "cat <<'EOF' | wc -l\n".to_owned() + &"line\n".repeat(20_000) + "EOF\n";
        let server = ModelServer::start([
            API.bash("c_1", "seq 1 60000"),
            API.bash("c_2", &here),
            API.call(
                "c_3",
                "write",
                &json!({"path": format!("f{}", flags.len()), "content": "x"}),
            ),
            API.say("ok"),
        ]);
        let words = arguments(&[flags, &["go"]].concat());
        let run = begun_by_shell(&scratch, &server, before, "", &words);
        let done = finish(&run.start());
        assert_eq!(done.answer(), "ok", "{before} {flags:?}");
        assert!(done.tool_result("c_1").0.contains("60000\n"));
        server.assert_clean();
    }
    drop(disk);
}
