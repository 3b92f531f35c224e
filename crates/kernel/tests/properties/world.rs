//! The world outside a kernel: it does what the effects say, answers in any order, forgets, dies;
//! and it checks at every step (`laws`) that the kernel keeps its laws.

mod laws;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tooloop_kernel::{
    Advice, AdvisedVerdict, Answer, Delivery, Entry, Fallback, Gate, Input, Judgement, Kernel,
    OutputCheck, OutputForm, OutputWay, Settings, StopJudgement, Transcript,
};
use tooloop_model::{
    BlockStart, Content, JsonObject, Message, ModelError, RawJson, Request, StopReason,
    StreamEvent, ToolUse, ToolUseId, Usage,
};

use crate::actions::{Action, Failure, Knobs, Stale};
use crate::common::ByName;
use crate::replies::{Piece, Reply};

/// Judges by name, and by how many calls with effects have ended: each may have changed what the
/// calls behind it touch.
#[derive(Default)]
struct Changing(AtomicU64);

impl Changing {
    fn directory(&self) -> String {
        format!("/{}", self.0.load(Ordering::Relaxed))
    }
}

impl Gate for Changing {
    fn judge(&self, tool_use: &ToolUse) -> Judgement {
        let judgement = ByName.judge(tool_use);
        Judgement {
            access: judgement.access.in_directory(self.directory()),
            ..judgement
        }
    }
}

pub(crate) struct World {
    gate: Arc<Changing>,
    kernel: Kernel,
    /// Told all but the late inputs: it must not behave otherwise.
    twin: Kernel,
    replies: Vec<Reply>,
    next_reply: usize,
    clock: Duration,
    /// Makes what the user says tellable apart.
    prompts: u32,

    /// All entries; those before `durable` are safe from a loss of power.
    journal: Vec<Entry>,
    durable: usize,
    /// The fold of the journal as it would be read from a file.
    folded: Transcript,
    record: Record,
    /// The tool uses that ran with effects: none may run twice.
    acted: BTreeSet<ToolUseId>,
    requests: Vec<Request>,
    /// What all replies that are over have used.
    paid: Usage,
    /// What kinds of things have happened.
    seen: BTreeSet<String>,

    now: Now,
}

/// What the journal says about the calls of the newest message.
#[derive(Default)]
struct Record {
    calls: Vec<ToolUse>,
    started: BTreeSet<ToolUseId>,
    allowed: BTreeSet<ToolUseId>,
    rewritten: BTreeMap<ToolUseId, JsonObject>,
    answered: BTreeSet<ToolUseId>,
}

/// What is under way in this process.
#[derive(Default)]
struct Now {
    in_turn: bool,
    /// The newest turn was.
    interrupted: bool,
    call: Option<u64>,
    pieces: VecDeque<Piece>,
    /// What the reply that is being written has used.
    usage: Usage,
    /// The tool uses begun in the reply that is being written.
    begun: Vec<(ToolUseId, String)>,
    runs: BTreeMap<u64, ToolUse>,
    asks: BTreeMap<u64, ToolUse>,
    consults: BTreeMap<u64, ToolUse>,
    /// What was said of calls before they were judged.
    advised: BTreeMap<ToolUseId, AdvisedVerdict>,
    /// A hook has ended the turn: nothing else begins.
    stopped: bool,
    timers: BTreeSet<u64>,
    deadline: Option<u64>,
    stop: Option<u64>,
    /// The model was asked in this turn.
    asked: bool,
    /// What the user said that has neither been recorded nor given back.
    queued: Vec<(Delivery, String)>,
    newest_call: u64,
    newest_run: u64,
    newest_ask: u64,
    newest_consult: u64,
    newest_timer: u64,
    newest_stop: u64,
}

/// Far above any number that a kernel gives out here.
const NEVER: u64 = 1 << 40;

impl World {
    pub(crate) fn new(replies: Vec<Reply>) -> Self {
        // That is another world's matter (`tests/compaction.rs`).
        let settings = || Settings {
            compaction: false,
            ..Settings::default()
        };
        let gate = Arc::new(Changing::default());
        let kernel = || Kernel::new(settings(), Arc::clone(&gate) as _, Transcript::default());
        Self {
            gate: Arc::clone(&gate),
            kernel: kernel(),
            twin: kernel(),
            replies,
            next_reply: 0,
            clock: Duration::from_secs(1_000_000),
            prompts: 0,
            journal: Vec::new(),
            durable: 0,
            folded: Transcript::default(),
            record: Record::default(),
            acted: BTreeSet::new(),
            requests: Vec::new(),
            paid: Usage::default(),
            seen: BTreeSet::new(),
            now: Now::default(),
        }
    }

    pub(crate) fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// All that was asked of the model.
    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(crate) const fn seen(&self) -> &BTreeSet<String> {
        &self.seen
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Say { blank: true, .. } => self.stale(Stale::BlankPrompt, 0),
            Action::Say { later: true, .. } => self.say(Delivery::FollowUp),
            Action::Say { .. } => self.say(Delivery::Steer),
            Action::Notice => self.say(Delivery::Notice),
            Action::Wake => {
                let before = self.requests.len();
                let begins = !self.now.in_turn && !self.now.queued.is_empty();
                self.now.in_turn |= begins;
                self.tell(Input::Wake);
                let ended = !self.now.in_turn;
                assert_eq!(self.requests.len() > before, begins && !ended);
            }
            Action::Pieces(count) => self.pieces(count),
            Action::Nonsense => {
                if let Some(call) = self.now.call {
                    let event = StreamEvent::BlockStop { index: 99 };
                    self.tell(Input::Stream { call, event });
                }
            }
            Action::Fail(failure) => self.fail(&failure),
            Action::Finish {
                pick,
                text,
                is_error,
            } => self.finish(pick, text, is_error),
            Action::Advise {
                pick,
                verdict,
                input,
                context,
                stop,
            } => self.advise(pick, verdict, input, context, stop),
            Action::Answer { allow, rule } => self.answer(allow, rule),
            Action::Timer => {
                if let Some(timer) = self.now.timers.pop_first() {
                    self.tell(Input::TimerFired { timer });
                }
            }
            Action::Deadline => {
                if let Some(timer) = self.now.deadline.take() {
                    self.tell(Input::TimerFired { timer });
                    assert!(self.kernel.is_idle());
                }
            }
            Action::Judge(kind) => {
                if let Some(stop) = self.now.stop.take() {
                    let reason = "objection".to_owned();
                    let judgement = match kind {
                        0 => StopJudgement::Done,
                        1 | 2 => StopJudgement::End { reason },
                        _ => StopJudgement::GoOn { reason },
                    };
                    self.tell(Input::StopJudged { stop, judgement });
                }
            }
            Action::HookStop => {
                if self.now.in_turn {
                    let reason = "hook".into();
                    self.tell(Input::HookStop { reason });
                    // What runs comes to its end.
                    assert_eq!(self.kernel.is_idle(), self.now.runs.is_empty());
                    self.now.stopped = !self.now.runs.is_empty();
                }
            }
            Action::Interrupt => {
                if self.now.in_turn {
                    self.tell(Input::Interrupt);
                    assert!(self.kernel.is_idle());
                }
            }
            Action::Configure(knobs) => self.configure(&knobs),
            Action::Stale { kind, pick } => self.stale(kind, pick),
            Action::Resumed => {
                if self.now.in_turn || !self.has_loose_ends() {
                    self.stale(Stale::Resumed, 0);
                } else {
                    self.resume();
                }
            }
            Action::Crash { lost, resumed } => self.crash(lost, resumed),
        }
    }

    /// Answers everything until the turn is over, then sees that a new one can begin.
    pub(crate) fn bring_to_an_end(&mut self) {
        for _ in 0..300 {
            if self.now.call.is_some() {
                if self.now.pieces.is_empty() {
                    self.fail(&Failure {
                        kind: tooloop_model::ModelErrorKind::IdleTimeout,
                        retry_after: None,
                        seconds: 1,
                        chance: 0,
                    });
                } else {
                    self.pieces(1);
                }
            } else if !self.now.timers.is_empty() {
                self.act(Action::Timer);
            } else if self.now.stop.is_some() {
                self.act(Action::Judge(0));
            } else if !self.now.consults.is_empty() {
                self.advise(0, 0, 0, false, false);
            } else if !self.now.asks.is_empty() {
                self.answer(true, false);
            } else {
                self.finish(0, "done".into(), false);
            }
            if !self.now.in_turn {
                break;
            }
        }
        self.act(Action::Interrupt);
        assert!(self.kernel.is_idle());
        self.say(Delivery::Steer);
    }

    // ---- inputs

    fn say(&mut self, delivery: Delivery) {
        self.prompts += 1;
        let text = format!("prompt {}", self.prompts);
        // Where no turn is under way it is recorded at once, unless it is a notice.
        self.now.queued.push((delivery, text.clone()));
        self.now.in_turn |= delivery != Delivery::Notice;
        self.tell(Input::User {
            content: vec![Content::Text(" ".into()), Content::Text(text)],
            delivery,
        });
    }

    fn pieces(&mut self, count: usize) {
        for _ in 0..count {
            let Some(call) = self.now.call else { return };
            match self.now.pieces.pop_front() {
                Some(Piece::Event(event)) => {
                    if let StreamEvent::Usage(usage) = event {
                        self.now.usage = usage;
                    }
                    if matches!(event, StreamEvent::MessageStop { .. }) {
                        self.call_over();
                    }
                    self.tell(Input::Stream { call, event });
                }
                Some(Piece::Fail(kind)) => self.fail(&Failure {
                    kind,
                    retry_after: None,
                    seconds: 3,
                    chance: 99,
                }),
                None => return,
            }
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let Some(call) = self.call_over() else {
            return;
        };
        self.tell(self.failure(call, failure));
        self.clock += Duration::from_secs(failure.seconds);
    }

    /// The model call is over, one way or another.
    fn call_over(&mut self) -> Option<u64> {
        self.paid.add(std::mem::take(&mut self.now.usage));
        self.now.call.take()
    }

    fn failure(&self, call: u64, failure: &Failure) -> Input {
        let error = ModelError {
            retry_after: failure.retry_after.map(Duration::from_secs),
            status: Some(529),
            code: Some("code".into()),
            ..ModelError::new(failure.kind, "it failed")
        };
        Input::StreamFailed {
            call,
            error,
            now: self.clock,
            chance: failure.chance,
        }
    }

    fn finish(&mut self, pick: usize, text: String, is_error: bool) {
        let runs: Vec<_> = self.now.runs.keys().copied().collect();
        if runs.is_empty() {
            return;
        }
        let run = runs[pick % runs.len()];
        let ended = self.now.runs.remove(&run);
        if ended.is_some_and(|tool_use| tool_use.name != "read") {
            self.gate.0.fetch_add(1, Ordering::Relaxed);
        }
        self.tell(finished(run, text, is_error));
    }

    fn advise(&mut self, pick: usize, verdict: u8, input: u8, context: bool, stop: bool) {
        let consults: Vec<_> = self.now.consults.keys().copied().collect();
        if consults.is_empty() {
            return;
        }
        let consult = consults[pick % consults.len()];
        let Some(tool_use) = self.now.consults.remove(&consult) else {
            return;
        };
        let reason = "a hook says so".to_owned();
        let verdict = match verdict {
            1 => Some(AdvisedVerdict::Allow),
            2 => Some(AdvisedVerdict::Ask { reason }),
            3 => Some(AdvisedVerdict::Deny { reason }),
            _ => None,
        };
        let input = match input {
            1 => Some(r#"{"other":1}"#),
            2 => Some(r#"{"is":"forbidden"}"#),
            3 => Some(r#"{"meets":"a rule"}"#),
            _ => None,
        };
        let advice = Advice {
            verdict,
            input: input.map(|input| JsonObject::parse(input).unwrap()),
            context: context.then(|| "a hook adds".into()).into_iter().collect(),
            stop: stop.then(|| "hook".into()),
        };
        if let Some(verdict) = &advice.verdict {
            self.now.advised.insert(tool_use.id, verdict.clone());
        }
        self.now.stopped |= stop && !self.now.runs.is_empty();
        self.tell(Input::Consulted { consult, advice });
    }

    fn answer(&mut self, allow: bool, rule: bool) {
        if let Some((ask, _)) = self.now.asks.pop_first() {
            let answer = if allow {
                let rule = rule.then(|| "ask(*)".into());
                Answer::Allow { rule, input: None }
            } else {
                let reason = "not today".into();
                // Now and then, so that other ends are come to as well.
                let stops = rule && ask % 4 == 0;
                Answer::Deny { reason, stops }
            };
            self.tell(Input::Answered { ask, answer });
        }
    }

    fn configure(&mut self, knobs: &Knobs) {
        let mut settings = self.kernel.settings().clone();
        settings.compaction = false;
        settings.max_parallel_tools = knobs.max_parallel;
        settings.max_turns = knobs.max_turns;
        settings.max_output_tokens = knobs.escalation.then_some(100);
        settings.escalated_output_tokens = knobs.escalation.then_some(800);
        settings.stop_after_repeats = knobs.stop_after;
        settings.retry.max_attempts = knobs.attempts;
        settings.stop_hook = knobs.stop_hook;
        settings.limits.time = knobs.deadline.then_some(Duration::from_secs(60));
        settings.limits.tool_calls = knobs.tool_calls;
        settings.fallback = knobs.fallback.then(|| Fallback {
            model: "other".into(),
            max_output_tokens: Some(100),
            escalated_output_tokens: Some(800),
            window: None,
            price: None,
        });
        let hooked = ["read", "bash", "ask", "deny"].map(str::to_owned);
        settings.hooked.before = hooked.into_iter().filter(|_| knobs.hooks).collect();
        settings.output = knobs.form.then(|| OutputForm {
            check: Arc::new(Even),
            way: OutputWay::Tool("write".into()),
            tries: 2,
        });
        self.tell(Input::Configure(Box::new(settings)));
    }

    /// Law 4: what names nothing under way has no effect, now or later.
    fn stale(&mut self, kind: Stale, pick: usize) {
        let now = &self.now;
        // Any number that was given out, or none that ever will be.
        let number = |newest: u64| match pick as u64 % (newest + 2) {
            0 => 0,
            number if number <= newest => number,
            _ => NEVER,
        };
        let call = number(now.newest_call);
        let input = match kind {
            Stale::Event | Stale::Stop | Stale::Failure if now.call == Some(call) => return,
            Stale::Event => Input::Stream {
                call,
                event: StreamEvent::BlockStart {
                    index: 70,
                    block: BlockStart::Text,
                },
            },
            Stale::Stop => Input::Stream {
                call,
                event: StreamEvent::MessageStop {
                    stop_reason: StopReason::EndTurn,
                },
            },
            Stale::Failure => self.failure(
                call,
                &Failure {
                    kind: tooloop_model::ModelErrorKind::Auth,
                    retry_after: None,
                    seconds: 0,
                    chance: 0,
                },
            ),
            Stale::Run => {
                let run = number(now.newest_run);
                if now.runs.contains_key(&run) {
                    return;
                }
                finished(run, "late".into(), false)
            }
            Stale::Advice => {
                let consult = number(now.newest_consult);
                if now.consults.contains_key(&consult) {
                    return;
                }
                let advice = Advice {
                    stop: Some("late".into()),
                    ..Advice::default()
                };
                Input::Consulted { consult, advice }
            }
            Stale::Answer => {
                let ask = number(now.newest_ask);
                if now.asks.contains_key(&ask) {
                    return;
                }
                let answer = Answer::Allow {
                    rule: None,
                    input: None,
                };
                Input::Answered { ask, answer }
            }
            Stale::Timer => {
                let timer = number(now.newest_timer);
                if now.timers.contains(&timer) || now.deadline == Some(timer) {
                    return;
                }
                Input::TimerFired { timer }
            }
            Stale::Judgement => {
                let stop = number(now.newest_stop);
                if now.stop == Some(stop) {
                    return;
                }
                let judgement = StopJudgement::Done;
                Input::StopJudged { stop, judgement }
            }
            Stale::Interrupt if now.in_turn => return,
            Stale::Interrupt => Input::Interrupt,
            Stale::Resumed if !now.in_turn && self.has_loose_ends() => return,
            Stale::Resumed => Input::Resumed,
            Stale::BlankPrompt => Input::User {
                content: vec![Content::Text(" \n".into())],
                delivery: Delivery::Steer,
            },
        };
        assert_eq!(self.kernel.step(input), []);
        self.check();
    }

    // ---- crashes

    fn crash(&mut self, lost: usize, resumed: bool) {
        let at_risk = self.journal.len() - self.durable;
        self.journal
            .truncate(self.journal.len() - lost % (at_risk + 1));
        self.durable = self.journal.len();
        self.folded = Transcript::default();
        self.record = Record::default();
        self.now = Now::default();
        for entry in &self.journal {
            self.folded.apply(&reread(entry));
            self.record.note(entry);
        }
        self.paid = self.folded.usage();
        let settings = self.kernel.settings().clone();
        let gate = || Arc::clone(&self.gate) as _;
        let kernel = |settings| Kernel::new(settings, gate(), self.folded.clone());
        self.twin = kernel(settings.clone());
        self.kernel = kernel(settings);
        self.check();
        if resumed {
            self.resume();
        }
    }

    /// Whether a dead process left something to close.
    fn has_loose_ends(&self) -> bool {
        !self.folded.open_calls().is_empty()
            || (self.folded.newest_end().is_none() && !self.folded.messages().is_empty())
    }

    fn resume(&mut self) {
        let open: Vec<_> = self.folded.open_calls().to_vec();
        self.tell(Input::Resumed);
        assert_eq!(self.folded.open_calls(), []);
        assert!(!self.has_loose_ends());
        for call in open.iter().filter(|call| call.result.is_none()) {
            let messages = self.folded.messages().last();
            let Some(Message::ToolResults(results)) = messages.map(|last| last.message()) else {
                panic!("the open calls are not closed");
            };
            let result = results.iter().find(|result| result.tool_use_id == call.id);
            let result = result.unwrap();
            let words = format!("{:?}", result.content);
            assert!(result.is_error);
            // Law 2: whatever acted is on record as begun.
            let began = self.acted.contains(&call.id);
            assert!(call.started || !began, "{} ran without a record", call.id);
            assert_eq!(words.contains("outcome unknown"), call.started);
            let kind = if call.started { "unknown" } else { "not begun" };
            self.seen.insert(format!("resumed, {kind}"));
        }
    }
}

/// Takes answers of an even length.
#[derive(Debug)]
struct Even;

impl OutputCheck for Even {
    fn check(&self, text: &str) -> Result<RawJson, String> {
        if text.len().is_multiple_of(2) {
            Ok(RawJson::parse("0").unwrap())
        } else {
            Err("its length is odd".into())
        }
    }
}

/// The entry as it comes back from a file.
fn reread(entry: &Entry) -> Entry {
    let line = serde_json::to_string(entry).unwrap();
    assert!(!line.contains('\n'));
    serde_json::from_str(&line).unwrap()
}

fn finished(run: u64, text: String, is_error: bool) -> Input {
    Input::ToolFinished {
        run,
        content: vec![Content::Text(text)],
        is_error,
        fingerprint: None,
    }
}
