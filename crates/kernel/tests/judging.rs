//! A call is judged when no earlier call of its message can change the answer, runs with that very
//! judgement, and is judged again after a question about it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tooloop_kernel::{
    Advice, AdvisedVerdict, Answer, Delivery, Effect, Entry, Gate, Input, Judgement, Kernel,
    Settings, Transcript, Verdict,
};
use tooloop_model::{BlockStart, Content, StopReason, StreamEvent, ToolUse, ToolUseId};
use tooloop_policy::{Access, AskCause, Grant};

/// What the calls of a message depend on: where they run, and where a link leads.
#[derive(Debug, Clone, Default)]
struct World {
    directory: PathBuf,
    link: PathBuf,
    refuses: bool,
}

/// Judges against a state that can change: `read` only reads, `ask` is asked about, all others run.
#[derive(Debug, Clone, Default)]
struct Changing(Arc<Mutex<World>>);

impl Changing {
    fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Gate for Changing {
    fn judge(&self, tool_use: &ToolUse) -> Judgement {
        let world = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let verdict = match tool_use.name.as_str() {
            "ask" if world.refuses => Verdict::Deny {
                reason: "a rule refuses it now".into(),
            },
            "ask" => Verdict::Ask {
                reason: "not allowed yet".into(),
                cause: AskCause::Uncovered,
            },
            _ => Verdict::Allow,
        };
        let access = if tool_use.name == "read" {
            Access::read_only()
        } else {
            Access::effectful().writing(world.link.join("x"))
        };
        Judgement {
            verdict,
            access: access.in_directory(&world.directory),
            grants: vec![Grant::Write(world.directory)],
            rules: Vec::new(),
        }
    }
}

struct Session {
    world: Changing,
    kernel: Kernel,
    last: Vec<Effect>,
}

impl Session {
    /// A session whose model has written these calls.
    fn with_calls(hooked: &[&str], names: &[&str]) -> Self {
        let world = Changing::default();
        world.change(|world| {
            world.directory = "/w/a".into();
            world.link = "/w/d".into();
        });
        let mut settings = Settings::default();
        settings.hooked.before = hooked.iter().map(|name| (*name).to_owned()).collect();
        let kernel = Kernel::new(settings, Arc::new(world.clone()), Transcript::default());
        let mut session = Self {
            world,
            kernel,
            last: Vec::new(),
        };
        session.step(Input::User {
            content: vec![Content::Text("go".into())],
            delivery: Delivery::Steer,
        });
        session.stream(StreamEvent::MessageStart {
            id: None,
            model: None,
        });
        for (index, name) in names.iter().enumerate() {
            session.stream(StreamEvent::BlockStart {
                index,
                block: BlockStart::ToolUse {
                    id: ToolUseId(format!("tu_{index}")),
                    name: (*name).to_owned(),
                },
            });
            session.stream(StreamEvent::BlockStop { index });
        }
        session.stream(StreamEvent::MessageStop {
            stop_reason: StopReason::ToolUse,
        });
        session
    }

    fn stream(&mut self, event: StreamEvent) {
        self.step(Input::Stream { call: 1, event });
    }

    fn step(&mut self, input: Input) {
        self.last = self.kernel.step(input);
    }

    fn finish(&mut self, run: u64) {
        self.step(Input::ToolFinished {
            run,
            content: vec![Content::Text("done".into())],
            is_error: false,
            fingerprint: None,
        });
    }

    fn allow(&mut self) {
        let answer = Answer::Allow {
            rule: None,
            input: None,
        };
        self.step(Input::Answered { ask: 1, answer });
    }

    /// The calls that begin, with the directory that they were judged in.
    fn runs(&self) -> Vec<(&str, Option<PathBuf>)> {
        let runs = self.last.iter().filter_map(|effect| match effect {
            Effect::RunTool {
                tool_use,
                judgement,
                ..
            } => {
                assert_eq!(
                    judgement.grants,
                    judgement
                        .access
                        .directory
                        .clone()
                        .map(Grant::Write)
                        .into_iter()
                        .collect::<Vec<_>>()
                );
                Some((tool_use.id.0.as_str(), judgement.access.directory.clone()))
            }
            _ => None,
        });
        runs.collect()
    }

    /// The results with an error, each with its text.
    fn errors(&self) -> Vec<(&str, String)> {
        let errors = self.last.iter().filter_map(|effect| match effect {
            Effect::Record {
                entry: Entry::CallFinished(result),
                ..
            } if result.is_error => Some((
                result.tool_use_id.0.as_str(),
                format!("{:?}", result.content),
            )),
            _ => None,
        });
        errors.collect()
    }

    fn asks(&self) -> bool {
        let mut effects = self.last.iter();
        effects.any(|effect| matches!(effect, Effect::Ask { .. }))
    }
}

#[test]
fn a_call_is_judged_after_the_one_before_it() {
    let mut session = Session::with_calls(&[], &["bash", "bash", "read"]);
    assert_eq!(session.runs(), [("tu_0", Some("/w/a".into()))]);
    session.world.change(|world| world.directory = "/w".into());
    session.finish(1);
    assert_eq!(session.runs(), [("tu_1", Some("/w".into()))]);
    session
        .world
        .change(|world| world.directory = "/w/b".into());
    session.finish(2);
    assert_eq!(session.runs(), [("tu_2", Some("/w/b".into()))]);
}

#[test]
fn a_question_waits_for_the_call_before_it() {
    let mut session = Session::with_calls(&[], &["bash", "ask"]);
    assert!(!session.asks());
    session.finish(1);
    assert!(session.asks());
}

#[test]
fn consent_holds_for_what_was_asked_about() {
    let mut session = Session::with_calls(&[], &["ask"]);
    session.allow();
    assert_eq!(session.runs(), [("tu_0", Some("/w/a".into()))]);

    let mut session = Session::with_calls(&[], &["ask"]);
    session.world.change(|world| world.link = "/out".into());
    session.allow();
    assert_eq!(session.runs(), []);
    assert!(
        session.errors()[0]
            .1
            .contains("has changed since it was approved")
    );

    let mut session = Session::with_calls(&[], &["ask"]);
    session.world.change(|world| world.directory = "/w".into());
    session.allow();
    assert_eq!(session.runs(), []);

    let mut session = Session::with_calls(&[], &["ask"]);
    session.world.change(|world| world.refuses = true);
    session.allow();
    assert_eq!(session.runs(), []);
    assert!(session.errors()[0].1.contains("a rule refuses it now"));
}

#[test]
fn consent_of_a_hook_holds_for_what_it_saw() {
    let consent = || Input::Consulted {
        consult: 1,
        advice: Advice {
            verdict: Some(AdvisedVerdict::Allow),
            ..Advice::default()
        },
    };
    let mut session = Session::with_calls(&["ask"], &["ask"]);
    session.step(consent());
    assert_eq!(session.runs().len(), 1);

    let mut session = Session::with_calls(&["ask"], &["bash", "ask"]);
    session.step(consent());
    session.world.change(|world| world.link = "/out".into());
    session.finish(1);
    assert_eq!(session.runs(), []);
    assert!(session.asks());
}
