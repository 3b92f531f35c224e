//! Death at random moments of a run that does everything that a run can do: nothing happens twice,
//! nothing is lost from the record, no file is half, nothing is left behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tooloop_testkit::run::{Running, Signal};
use tooloop_testkit::{ModelServer, Process, Scratch, processes_with, wait_until};

use super::figures::Figures;
use super::model::{Does, Issued, Model, log, strange_files, torn_files, traces};
use super::past::Past;
use super::unique_sleep;
use crate::support::{
    Api, Done, GONE, LONG, Random, both, journals, no_leftovers, rounds, tooloop,
};

const ID: &str = "0198c0de-0000-7000-8000-000000000009";

/// After so many deaths a run is left in peace.
const DEATHS: usize = 25;

/// How many deaths are wanted of a wire format.
fn wanted() -> usize {
    let wanted = std::env::var("TOOLOOP_KILLS").ok();
    let both = wanted.map_or(5 * rounds() as usize, |wanted| wanted.parse().unwrap());
    both.div_ceil(2)
}

struct Round {
    api: Api,
    scratch: Scratch,
    server: ModelServer,
    model: Arc<Mutex<Model>>,
    sleep: String,
    random: Random,
    runs: usize,
}

impl Round {
    fn new(api: Api) -> Self {
        let scratch = Scratch::new();
        let sleep = unique_sleep();
        let model = Arc::new(Mutex::new(Model::new(api, &scratch, &sleep)));
        let server = ModelServer::start_with({
            let model = Arc::clone(&model);
            move |request| model.lock().unwrap().reply(request)
        });
        Self {
            api,
            scratch,
            server,
            model,
            sleep,
            random: Random::new(),
            runs: 0,
        }
    }

    /// Runs and dies, again and again, and once to the end.
    fn play(mut self, figures: &mut Figures, most: usize) {
        let mut deaths = 0;
        loop {
            let past = Past::of(journals(&self.scratch).first().map(|path| &**path));
            let begun = !journals(&self.scratch).is_empty();
            let flag = if begun { "--resume" } else { "--session-id" };
            self.runs += 1;
            let prompt = format!("go-{}-", self.runs);
            let running = tooloop(&self.scratch, &self.server, self.api)
                // Each prompt is looked for in its place.
                .env("TOOLOOP_COMPACTION", "false")
                .env("TOOLOOP_CONTEXT_WINDOW", "200000")
                // The jobs never end by themselves.
                .env("TOOLOOP_BACKGROUND_WAIT_MS", "0")
                .args([flag, ID, &prompt])
                .start();
            let dies = deaths < most && {
                self.wait(&running);
                running.signal(Signal::Kill)
            };
            if dies {
                deaths += 1;
                figures.kills += 1;
                assert!(wait_until(LONG, || !running.is_alive()), "it did not end");
                self.look_for_leftovers(&running, figures);
            } else {
                self.look_at_end(&running, figures);
            }
            self.look_at_past(&past, &prompt, begun, figures);
            let torn = torn_files(&self.scratch, &self.issued());
            figures.torn += torn.len();
            if !torn.is_empty() {
                figures.wrong(format!("torn: {torn:?}"));
            }
            if !dies {
                break;
            }
        }
        self.look_at_effects(figures);
        let refused = self.server.report(&[]);
        if !refused.is_empty() {
            figures.refused += 1;
            figures.wrong(refused);
        }
    }

    fn issued(&self) -> Vec<Issued> {
        self.model.lock().unwrap().issued.clone()
    }

    /// Waits for the moment of death, which chance chooses: at the start, at any time, behind a
    /// request, behind an effect, or while files change.
    fn wait(&mut self, running: &Running) {
        let bound = Duration::from_secs(2);
        match self.random.below(10) {
            0 | 1 => self.random.wait_ms(40),
            2 | 3 => self.random.wait_ms(200),
            4..6 => {
                let more = self.server.requests().len() + 1 + self.random.below(3) as usize;
                let _came = wait_until(bound, || {
                    !running.is_alive() || self.server.requests().len() >= more
                });
                self.random.wait_ms(30);
            }
            8 | 9 => {
                let (before, begun) = (traces(&self.scratch), Instant::now());
                // Looked at far more often than is usual: a file changes in no time.
                while running.is_alive()
                    && begun.elapsed() < bound
                    && traces(&self.scratch) == before
                {
                    std::thread::sleep(Duration::from_micros(50));
                }
                self.random.wait_ms(1);
            }
            _ => {
                let length = || std::fs::metadata(log(&self.scratch)).map_or(0, |file| file.len());
                let before = length();
                let _came = wait_until(bound, || !running.is_alive() || length() > before);
                self.random.wait_ms(8);
            }
        }
    }

    fn look_for_leftovers(&self, running: &Running, figures: &mut Figures) {
        let died = Instant::now();
        let mut left: Vec<Process> = Vec::new();
        let gone = wait_until(5 * GONE, || {
            left = running.leftovers();
            left.extend(processes_with(&self.sleep));
            left.is_empty()
        });
        figures.gone_after(died.elapsed());
        if !gone {
            figures.wrong(format!("still alive: {left:#?}"));
        }
    }

    fn look_at_end(&self, running: &Running, figures: &mut Figures) {
        let done: Done = crate::support::finish(running);
        let result = done.result();
        let well = result["subtype"] == "success" || result["reason"] == "background_unfinished";
        if !well {
            figures.refused += 1;
            figures.wrong(format!("it did not go on: {}", done.finished));
        }
        no_leftovers(running);
    }

    /// All that was on record is in what the model is told after it.
    fn look_at_past(&self, past: &Past, prompt: &str, begun: bool, figures: &mut Figures) {
        let requests = self.server.requests();
        let Some(first) = requests.iter().find(|request| request.mentions(prompt)) else {
            return;
        };
        figures.resumes += usize::from(begun);
        if let Some(missing) = past.missing_in(first) {
            figures.lost += 1;
            figures.wrong(missing);
        }
    }

    /// Each effect is there as often as the model was told.
    fn look_at_effects(&self, figures: &mut Figures) {
        let log = std::fs::read_to_string(log(&self.scratch)).unwrap_or_default();
        let mut written: BTreeMap<&str, usize> = BTreeMap::new();
        for line in log.lines() {
            *written.entry(line).or_default() += 1;
        }
        let last = self.server.requests().pop().unwrap();
        for (index, issued) in self.issued().iter().enumerate() {
            let number = index + 1;
            let times = match issued.does {
                Does::Logs => written.remove(&*format!("line-{number}")).unwrap_or(0),
                Does::Writes => {
                    let path = self.scratch.workspace().join(format!("f-{number}"));
                    usize::from(path.exists())
                }
                Does::Other => continue,
            };
            let result = last.tool_result(&issued.id);
            let text = result.as_ref().map(|result| result.text.as_str());
            let (least, most) = match text {
                // The reply was lost before it was recorded, or never whole: it did not run.
                None => (0, 0),
                Some(_) if issued.is_cut => (0, 0),
                Some(text) if text.contains("outcome unknown") => {
                    figures.saw("an unknown outcome");
                    (0, 1)
                }
                Some(text) if text.contains("had not begun") => {
                    figures.saw("a call that had not begun");
                    (0, 0)
                }
                // Begun, and ended with the harness, perhaps before its first line.
                Some(text) if text.contains("runs in the background") => (0, 1),
                Some(_) => (1, 1),
            };
            if times > most {
                figures.twice += 1;
            } else if times < least {
                figures.lost += 1;
            } else {
                continue;
            }
            figures.wrong(format!("{issued:?} ran {times} times: {text:?}"));
        }
        if !written.is_empty() {
            figures.wrong(format!("nobody asked for {written:?}"));
        }
        let strange = strange_files(&self.scratch);
        if !strange.is_empty() {
            figures.wrong(format!("left in the workspace: {strange:?}"));
        }
    }
}

both! {
    /// `TOOLOOP_KILLS` says how often; `cargo xtask torture` sets it and sums the figures up
    fn death_at_random_moments(api) {
        let mut figures = Figures::default();
        while figures.kills < wanted() {
            let most = DEATHS.min(wanted() - figures.kills);
            Round::new(api).play(&mut figures, most);
        }
        figures.tell();
        println!("{figures}");
        figures.assert_clean();
    }
}
