//! Death at random moments of a run that changes things: nothing happens twice, nothing is lost
//! from the record, nothing is left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tooloop_testkit::{CapturedRequest, ModelServer, Reply, Scratch};

use crate::support::{Api, Random, both, finish, kill, rounds, tooloop};

/// How many calls the model wants to see answered.
const CALLS: usize = 10;
/// More deaths than this, and the run is left in peace.
const DEATHS: usize = 25;

/// A model that appends a line with each call, each line once, until it has seen enough answers.
#[derive(Debug, Default)]
struct Model {
    issued: usize,
}

impl Model {
    fn reply(&mut self, api: Api, request: &CapturedRequest) -> Reply {
        if request.tool_results().len() >= CALLS {
            return api.say("done").into();
        }
        self.issued += 1;
        let line = format!("line-{}", self.issued);
        // Every third leaves a child in the background, and each is a tree while it runs.
        let child = if self.issued.is_multiple_of(3) {
            "sleep 300 >/dev/null 2>&1 & "
        } else {
            ""
        };
        let command = format!("{child}echo {line} >> log; sleep 0.01");
        api.bash(&format!("call-{}", self.issued), &command).into()
    }
}

fn round(api: Api, random: &mut Random) -> usize {
    let scratch = Scratch::new();
    let model = Arc::new(Mutex::new(Model::default()));
    let server = ModelServer::start_with({
        let model = Arc::clone(&model);
        move |request| model.lock().unwrap().reply(api, request)
    });
    let id = "0198c0de-0000-7000-8000-000000000009";
    let mut deaths = 0;
    loop {
        let begun = !crate::support::journals(&scratch).is_empty();
        let flag = if begun { "--resume" } else { "--session-id" };
        let running = tooloop(&scratch, &server, api)
            .args([flag, id, "go"])
            .start();
        if deaths < DEATHS {
            random.wait_ms(150);
            if kill(&running) {
                deaths += 1;
                server.assert_clean();
                continue;
            }
        }
        let done = finish(&running);
        assert_eq!(done.answer(), "done", "{random:?}");
        break;
    }
    server.assert_clean();

    let log = scratch.read("log");
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for line in log.lines() {
        *written.entry(line).or_default() += 1;
    }
    let last = server.requests().pop().unwrap();
    let issued = model.lock().unwrap().issued;
    for number in 1..=issued {
        let times = written
            .remove(format!("line-{number}").as_str())
            .unwrap_or(0);
        let context = format!("line {number} of {issued}, {deaths} deaths, {random:?}: {log}");
        match last.tool_result(&format!("call-{number}")) {
            // The reply was lost before it was recorded: it cannot have been run.
            None => assert_eq!(times, 0, "{context}"),
            Some(result) if result.text.contains("exit status 0") => {
                assert_eq!(times, 1, "{context}")
            }
            Some(result) if result.text.contains("outcome unknown") => {
                assert!(times <= 1, "{context}")
            }
            Some(result) => {
                assert!(result.text.contains("had not begun"), "{}", result.text);
                assert_eq!(times, 0, "{context}");
            }
        }
    }
    assert!(written.is_empty(), "{written:?}");
    deaths
}

both! {
    /// `TOOLOOP_KILL_ROUNDS` says how often
    fn death_at_random_moments(api) {
        let mut random = Random::new();
        let mut deaths = 0;
        for _ in 0..rounds().div_ceil(2) {
            deaths += round(api, &mut random);
        }
        assert!(deaths > 0);
    }
}
