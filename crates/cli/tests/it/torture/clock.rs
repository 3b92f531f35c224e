//! A wall clock that jumps by hours: what waits goes by another clock, and nothing hangs, ends
//! early or is told out of order.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tooloop_testkit::run::Run;
use tooloop_testkit::{Gate, ModelServer, Reply, Scratch, Steps, open_gate, wait_for};

use super::API;
use crate::support::{LONG, finish, journal, resume, tooloop, wait_for_file};

const HOURS: i64 = 3_600;

/// A clock that a run believes.
struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// `None`, with words, where there is no C compiler.
    fn new(scratch: &Scratch) -> Option<Self> {
        let library = scratch.outside().join("clock.so");
        let source = scratch.write(scratch.outside().join("clock.c"), include_str!("clock.c"));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .status();
        if !built.is_ok_and(|status| status.success()) {
            println!("there is no C compiler here: a clock that jumps is not tried");
            return None;
        }
        let clock = Self {
            library,
            file: scratch.outside().join("wrong-by"),
        };
        clock.is_wrong_by(0);
        Some(clock)
    }

    fn is_wrong_by(&self, seconds: i64) {
        // In one step, since it is read at any time.
        let new = self.file.with_extension("new");
        std::fs::write(&new, seconds.to_string()).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    fn run(&self, scratch: &Scratch, server: &ModelServer) -> Run {
        tooloop(scratch, server, API)
            .env("LD_PRELOAD", &self.library)
            .env("FALSE_CLOCK", &self.file)
    }
}

#[test]
fn it_jumps_in_the_middle_of_everything() {
    for jump in [12 * HOURS, -12 * HOURS] {
        let scratch = Scratch::new();
        let Some(clock) = Clock::new(&scratch) else {
            return;
        };
        let (half, rest) = (Gate::new(), Gate::new());
        let said = API.say("it is done");
        let (first, second) = said.0.split_at(3);
        let slow = Steps(first.to_vec())
            .then(open_gate(&half))
            .then(wait_for(&rest))
            .then(second.to_vec());
        let busy = API.error(529, "overloaded_error", "busy");
        let server = ModelServer::start([
            API.bash(
                "c_1",
                "touch begun; until [ -e go ]; do sleep 0.02; done; echo went",
            )
            .into(),
            busy.header("retry-after", "1"),
            API.call(
                "c_2",
                "bash",
                &serde_json::json!({"command": "echo first; sleep 300", "timeout_ms": 1500}),
            )
            .into(),
            Reply::stream(slow),
            API.say("again").into(),
        ]);
        let running = clock.run(&scratch, &server).arg("go").start();
        // While a command runs.
        wait_for_file(&scratch.workspace().join("begun"));
        clock.is_wrong_by(jump);
        scratch.write("go", "");
        // While a retry is awaited.
        let waits = |record: &serde_json::Value| record["subtype"] == "api_retry";
        running.wait_for_record(LONG, waits).unwrap();
        clock.is_wrong_by(-jump);
        // While a command's time runs out.
        server.wait_for_requests(3, LONG).unwrap();
        clock.is_wrong_by(2 * jump);
        // While an answer is on its way.
        assert!(half.wait(LONG));
        clock.is_wrong_by(0);
        rest.open();
        let done = finish(&running);
        assert_eq!(done.answer(), "it is done");
        assert_eq!(done.retries().len(), 1, "{}", done.finished);
        assert!(done.tool_result("c_1").0.contains("exit status 0"));
        let (limited, _) = done.tool_result("c_2");
        assert!(
            limited.contains("first") && limited.contains("1.5 s"),
            "{limited}"
        );
        // Durations are of the clock that does not jump.
        let told = done.result()["duration_ms"].as_u64().unwrap();
        let real = done.finished.elapsed;
        assert!(Duration::from_millis(told) <= real, "{told} ms of {real:?}");
        let exchanges = server.exchanges();
        let wait = exchanges[2].request.arrived - exchanges[1].ended.unwrap().1;
        assert!(wait >= Duration::from_millis(990), "{wait:?}");

        // Records have their order from their numbers, and the session goes on at any time.
        let path = journal(&scratch, &done.session());
        let numbers: Vec<_> = scratch
            .read(&path)
            .lines()
            .skip(1)
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].clone())
            .collect();
        assert!(numbers.iter().enumerate().all(|(at, seq)| *seq == at + 1));
        clock.is_wrong_by(-1000 * HOURS);
        let run = clock.run(&scratch, &server);
        let next = finish(&run.args(["--resume", &done.session(), "next"]).start());
        assert_eq!(next.answer(), "again");
        server.assert_clean();
        let server = ModelServer::start([API.say("today")]);
        let next = resume(&scratch, &server, API, &done.session(), "then");
        assert_eq!(next.answer(), "today");
        server.assert_clean();
    }
}

/// A date to come back at means what it means by the clock of who wrote it.
#[test]
fn a_date_to_come_back_at() {
    for wrong in [12 * HOURS, -12 * HOURS] {
        let scratch = Scratch::new();
        let Some(clock) = Clock::new(&scratch) else {
            return;
        };
        clock.is_wrong_by(wrong);
        let begun = Instant::now();
        let answer = |request: &tooloop_testkit::CapturedRequest| {
            let busy = || API.error(529, "overloaded_error", "busy");
            // One moment for both: they are written in whole seconds.
            let now = std::time::SystemTime::now();
            let date = |seconds| date_at(now + Duration::from_secs(seconds));
            match request.index {
                0 => busy()
                    .header("date", &date(0))
                    .header("retry-after", &date(2)),
                _ => API.say("ok").into(),
            }
        };
        let server = ModelServer::start_with(answer);
        let done = finish(&clock.run(&scratch, &server).arg("go").start());
        assert_eq!(done.answer(), "ok", "wrong by {wrong}");
        let waited = done.retries()[0]["retry_delay_ms"].as_u64().unwrap();
        assert!((1_000..=2_000).contains(&waited), "{waited}");
        assert!(begun.elapsed() >= Duration::from_millis(waited));
        server.assert_clean();
    }
}

/// The date of a moment, as HTTP writes it.
fn date_at(at: std::time::SystemTime) -> String {
    let seconds = at
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        .to_string();
    let date = Command::new("date")
        .env("LC_ALL", "C")
        .args([
            "-u",
            "-d",
            &format!("@{seconds}"),
            "+%a, %d %b %Y %H:%M:%S GMT",
        ])
        .output()
        .unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}
