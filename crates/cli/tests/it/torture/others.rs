//! Others that get in the way: a second run on the same session, and deaths of parts.

use tooloop_testkit::run::{Running, Signal};
use tooloop_testkit::{
    Gate, ModelServer, Process, Reply, Scratch, processes, processes_with, wait_for, wait_until,
};

use super::{API, unique_sleep};
use crate::support::{
    Api, LONG, both, finish, journals, kill, resume, session_of, told, tooloop, wait_for_file,
};

/// The process that keeps watch for a run.
fn guardian_of(running: &Running) -> Option<Process> {
    processes().into_iter().find(|process| {
        let name = std::fs::read_to_string(format!("/proc/{}/comm", process.pid));
        process.parent == running.pid() && name.is_ok_and(|name| name.trim() == "process-guard")
    })
}

fn kill_process(pid: i32) {
    let status = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

both! {
    /// An old run that takes its time to end holds its session until it has.
    fn a_resume_while_the_old_run_ends(api) {
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let command = format!("trap '' TERM; touch begun; while :; do {sleep}; done");
        let server = ModelServer::start([api.bash("c_1", &command), api.say("ok"), api.say("fine")]);
        let old = tooloop(&scratch, &server, api).arg("first").start();
        wait_for_file(&scratch.workspace().join("begun"));
        let session = session_of(&old);
        assert!(old.signal(Signal::Terminate));
        let mut refused = 0;
        let next = loop {
            let next = resume(&scratch, &server, api, &session, "next");
            if next.finished.code == Some(0) {
                break next;
            }
            let words = next.failed(54, "not_run");
            assert!(words.contains("in use"), "{words}");
            refused += 1;
            assert!(refused < 200, "{words}");
        };
        assert!(!old.is_alive());
        assert_eq!(next.answer(), "ok");
        finish(&old).failed(143, "interrupted");
        assert_eq!(resume(&scratch, &server, api, &session, "then").answer(), "fine");
        server.assert_clean();
    }

    /// Six at once: one gets it, none is harmed.
    fn many_on_one_session(api) {
        let scratch = Scratch::new();
        crate::support::ask(&scratch, &ModelServer::start([api.say("ok")]), api, "first").answer();
        let gate = Gate::new();
        let server = ModelServer::start([Reply::stream(wait_for(&gate).then(api.say("done")))]);
        let start = |prompt: &str| tooloop(&scratch, &server, api).args(["--continue", prompt]).start();
        let all: Vec<_> = ["1", "2", "3", "4", "5", "6"].into_iter().map(start).collect();
        let alive = || all.iter().filter(|running| running.is_alive()).count();
        assert!(wait_until(LONG, || alive() == 1));
        gate.open();
        let done: Vec<_> = all.iter().map(finish).collect();
        let answers = done.iter().filter(|done| done.finished.code == Some(0)).count();
        let refusals = done.iter().filter(|done| done.finished.code == Some(54)).count();
        assert_eq!((answers, refusals), (1, 5));
        assert_eq!(server.requests().len(), 1);
        server.assert_clean();
        let server = ModelServer::start([api.say("ok")]);
        let session = done.iter().find(|done| done.finished.code == Some(0)).unwrap().session();
        assert_eq!(resume(&scratch, &server, api, &session, "next").answer(), "ok");
        server.assert_clean();
    }

    /// The shell of a command dies, and only that: its children go, the model is told.
    fn the_shell_of_a_command_is_killed(api) {
        let (scratch, sleep) = (Scratch::new(), unique_sleep());
        let command = format!("echo $$ > pid; setsid {sleep} & {sleep}; echo never");
        let server = ModelServer::start([api.bash("c_1", &command), api.bash("c_2", "echo on"), api.say("ok")]);
        let running = tooloop(&scratch, &server, api).arg("go").start();
        let pid = || std::fs::read_to_string(scratch.workspace().join("pid")).ok()?.trim().parse().ok();
        assert!(wait_until(LONG, || pid().is_some() && processes_with(&sleep).len() >= 3));
        kill_process(pid().unwrap());
        let done = finish(&running);
        assert_eq!(done.answer(), "ok");
        let (text, _) = done.tool_result("c_1");
        assert!(text.contains("SIGKILL") && !text.contains("never"), "{text}");
        assert!(told(&server.request(2), "c_2").contains("on\n"));
        assert!(processes_with(&sleep).is_empty());
        server.assert_clean();
    }
}

/// The guardian dies: the run goes on, and ends with nothing left.
#[test]
fn the_guardian_is_killed() {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let command =
        format!("setsid {sleep} & touch begun; until [ -e go ]; do /bin/sleep 0.02; done");
    let server = ModelServer::start([
        API.bash("c_1", &command),
        API.bash("c_2", &format!("{sleep} & echo on")),
        API.say("ok"),
    ]);
    let running = tooloop(&scratch, &server, API).arg("go").start();
    wait_for_file(&scratch.workspace().join("begun"));
    assert!(wait_until(LONG, || guardian_of(&running).is_some()));
    kill_process(guardian_of(&running).unwrap().pid);
    scratch.write("go", "");
    assert_eq!(finish(&running).answer(), "ok");
    assert!(processes_with(&sleep).is_empty());
    server.assert_clean();
}

/// The guardian dies, and then the harness: another one has taken its place.
#[test]
fn the_guardian_is_killed_before_the_run_is() {
    let (scratch, sleep) = (Scratch::new(), unique_sleep());
    let command = format!("setsid {sleep} & (trap '' HUP; {sleep}) & touch begun; {sleep}");
    let server = ModelServer::start([API.bash("c_1", &command), API.say("ok")]);
    let running = tooloop(&scratch, &server, API).arg("go").start();
    wait_for_file(&scratch.workspace().join("begun"));
    let session = session_of(&running);
    assert!(wait_until(LONG, || guardian_of(&running).is_some()));
    let first = guardian_of(&running).unwrap().pid;
    kill_process(first);
    let next = || guardian_of(&running).filter(|guardian| guardian.pid != first);
    assert!(wait_until(LONG, || next().is_some()));
    assert!(kill(&running));
    assert!(wait_until(LONG, || processes_with(&sleep).is_empty()));
    assert_eq!(journals(&scratch).len(), 1);
    assert_eq!(
        resume(&scratch, &server, API, &session, "next").answer(),
        "ok"
    );
    server.assert_clean();
}
