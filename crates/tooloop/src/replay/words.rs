//! The words by which the kernel's own messages are told from what came in.
//!
//! A record does not say of a user message whether a user said it, nor of an answer whether a tool
//! gave it. Where that matters it is told by these words; a test keeps them what the kernel says.

use tooloop_model::{Content, Message, ToolResult};

/// How its answers begin and end to calls that an interrupt, a hook or the time limit met.
const BROKEN_OFF: [(&str, &str, Closed); 3] = [
    ("not run: ", " before this call began", Closed::NotBegun),
    (
        "not run: ",
        " before this call was allowed",
        Closed::NotAllowed,
    ),
    (
        "interrupted by ",
        " while it ran: its outcome is unknown",
        Closed::Running,
    ),
];

/// How its answers begin to calls that had not begun when a hook ended the turn.
const HOOK_STOPPED: &str = "not run: a hook ended the turn";

/// How its answer begins to a call that was one too many.
const TOO_MANY: &str = "not run: the limit of ";

/// How its answers begin to calls that the death of the process met.
const RESUMED: [&str; 2] = [
    "interrupted, outcome unknown: the harness ended",
    "interrupted: the harness ended",
];

/// How answers begin to calls that there was nothing to run for.
const REJECTED: [&str; 2] = ["there is no tool named ", "invalid input for "];

const REMINDER: &str = "Reminder: you have made the same call with the same outcome ";

/// Why a call was answered without its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The turn was broken off before it had begun.
    NotBegun,
    /// The turn was broken off while somebody was being asked.
    NotAllowed,
    /// The turn was broken off while it ran.
    Running,
    /// By whoever went on with the session after a death.
    Dead,
}

/// Why the kernel gave this answer, if it did.
pub(super) fn closed(result: &ToolResult) -> Option<Closed> {
    let text = only_text(&result.content).filter(|_| result.is_error)?;
    if RESUMED.iter().any(|words| text.starts_with(words)) {
        return Some(Closed::Dead);
    }
    let mut broken = BROKEN_OFF.iter();
    broken
        .find(|(begin, end, _)| text.starts_with(begin) && text.ends_with(end))
        .map(|(_, _, closed)| *closed)
}

/// Whether a hook had ended the turn before this call began.
pub(super) fn is_stopped_by_a_hook(result: &ToolResult) -> bool {
    let text = only_text(&result.content).filter(|_| result.is_error);
    text.is_some_and(|text| text.starts_with(HOOK_STOPPED))
}

/// The limit of calls that this one was beyond, if the kernel says so.
pub(super) fn too_many(result: &ToolResult) -> Option<u32> {
    let text = only_text(&result.content).filter(|_| result.is_error)?;
    let (limit, _) = text.strip_prefix(TOO_MANY)?.split_once(' ')?;
    limit.parse().ok()
}

/// What the model is told if there was nothing to run, if this may be that.
pub(super) fn rejection(result: &ToolResult) -> Option<&str> {
    only_text(&result.content).filter(|_| result.is_error)
}

/// Whether it is that for certain.
pub(super) fn is_rejection(text: &str) -> bool {
    REJECTED.iter().any(|words| text.starts_with(words))
}

/// Whether the kernel said this to a model that repeats itself.
pub(super) fn is_reminder(content: &[Content]) -> bool {
    only_text(content).is_some_and(|text| text.starts_with(REMINDER))
}

/// What a message of the user says.
pub(super) const fn said(message: &Message) -> Option<&Vec<Content>> {
    match message {
        Message::User(content) => Some(content),
        Message::Assistant(_) | Message::ToolResults(_) => None,
    }
}

/// What is wrong with an answer, as the kernel tells the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It is not of the form.
    Form { problem: String },
    /// It is not given by this tool.
    Tool { name: String },
}

/// Reads what the kernel says of an answer that does not have its form.
pub(super) fn misfit(content: &[Content]) -> Option<Misfit> {
    let text = only_text(content)?;
    let (_, problem) = text
        .split_once("does not have the form that it must have: ")
        .unzip();
    if let Some(problem) = problem {
        let problem = problem.strip_suffix(". Answer with JSON of that form alone.")?;
        return Some(Misfit::Form {
            problem: problem.into(),
        });
    }
    let (_, name) = text.split_once("When you are done, call the tool ")?;
    let name = name.strip_suffix(" with it.")?;
    Some(Misfit::Tool { name: name.into() })
}

/// The text, if that is all.
pub(super) fn only_text(content: &[Content]) -> Option<&str> {
    match content {
        [Content::Text(text)] => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tooloop_kernel::{
        Answer, Delivery, Effect, Entry, Gate, Input, Judgement, Kernel, Limits, OutputCheck,
        OutputForm, OutputWay, Settings, Transcript, Verdict,
    };
    use tooloop_model::{BlockStart, RawJson, StopReason, StreamEvent, ToolUse, ToolUseId};

    use super::*;

    /// Judges by the tool's name.
    struct ByName;

    impl Gate for ByName {
        fn judge(&self, tool_use: &ToolUse) -> Judgement {
            match &*tool_use.name {
                "look" => Judgement::allow_read_only(),
                "ask" => Judgement {
                    verdict: Verdict::Ask {
                        reason: String::new(),
                        cause: tooloop_policy::AskCause::Uncovered,
                    },
                    ..Judgement::allow_effectful()
                },
                _ => Judgement::allow_effectful(),
            }
        }
    }

    #[derive(Debug)]
    struct Never;

    impl OutputCheck for Never {
        fn check(&self, _: &str) -> Result<RawJson, String> {
            Err("it is wrong".into())
        }
    }

    fn kernel(settings: Settings) -> Kernel {
        Kernel::new(settings, Arc::new(ByName), Transcript::default())
    }

    fn prompt(kernel: &mut Kernel) {
        kernel.step(Input::User {
            content: vec![Content::Text("go".into())],
            delivery: Delivery::Steer,
        });
    }

    /// The model writes calls of these tools, or nothing but a text.
    fn reply(kernel: &mut Kernel, call: u64, names: &[&str]) -> Vec<Effect> {
        let blocks = names
            .iter()
            .enumerate()
            .map(|(index, name)| BlockStart::ToolUse {
                id: ToolUseId(format!("t{call}{index}")),
                name: (*name).into(),
            });
        let mut effects = Vec::new();
        let text = [BlockStart::Text];
        let text = text.into_iter().filter(|_| names.is_empty());
        for (index, block) in blocks.chain(text).enumerate() {
            let start = StreamEvent::BlockStart { index, block };
            let text = StreamEvent::TextDelta {
                index,
                text: "wrong".into(),
            };
            let text = names.is_empty().then_some(text);
            let stop = StreamEvent::BlockStop { index };
            for event in [Some(start), text, Some(stop)].into_iter().flatten() {
                effects.extend(kernel.step(Input::Stream { call, event }));
            }
        }
        let event = StreamEvent::MessageStop {
            stop_reason: StopReason::EndTurn,
        };
        effects.extend(kernel.step(Input::Stream { call, event }));
        effects
    }

    fn answers(effects: &[Effect]) -> Vec<ToolResult> {
        let answers = effects.iter().filter_map(|effect| match effect {
            Effect::Record {
                entry: Entry::CallFinished(result),
                ..
            } => Some(result.clone()),
            _ => None,
        });
        answers.collect()
    }

    fn newest_said(kernel: &Kernel) -> Vec<Content> {
        let messages = kernel.transcript().messages().iter().rev();
        let mut said = messages.filter_map(|message| said(message.message()));
        said.next().unwrap().clone()
    }

    #[test]
    fn calls_that_were_broken_off() {
        let broken = [Closed::Running, Closed::NotAllowed, Closed::NotBegun];
        let stop = Input::HookStop {
            reason: "no".into(),
        };
        for (input, expected, by_a_hook) in [
            (Input::Interrupt, &broken[..], false),
            (Input::Shutdown, &broken[..], false),
            // What runs comes to its end.
            (stop, broken.get(1..).unwrap(), true),
        ] {
            let mut kernel = kernel(Settings::default());
            prompt(&mut kernel);
            reply(&mut kernel, 1, &["look", "ask", "act"]);
            let answers = answers(&kernel.step(input));
            let closed: Vec<_> = answers.iter().filter_map(closed).collect();
            assert_eq!(closed, expected);
            let last = answers.last().unwrap();
            assert_eq!(is_stopped_by_a_hook(last), by_a_hook);
        }
    }

    #[test]
    fn calls_that_a_death_left_open() {
        let mut live = kernel(Settings::default());
        prompt(&mut live);
        reply(&mut live, 1, &["act", "look"]);
        let transcript = live.transcript().clone();
        let mut next = Kernel::new(Settings::default(), Arc::new(ByName), transcript);
        let closed: Vec<_> = answers(&next.step(Input::Resumed))
            .iter()
            .map(closed)
            .collect();
        assert_eq!(closed, [Some(Closed::Dead); 2]);
    }

    #[test]
    fn calls_that_are_too_many() {
        let mut kernel = kernel(Settings {
            limits: Limits {
                tool_calls: Some(0),
                ..Limits::default()
            },
            ..Settings::default()
        });
        prompt(&mut kernel);
        let answers = answers(&reply(&mut kernel, 1, &["act"]));
        assert_eq!(answers.first().and_then(too_many), Some(0));
        assert_eq!(answers.first().and_then(closed), None);
    }

    #[test]
    fn a_model_that_repeats_itself() {
        let mut kernel = kernel(Settings::default());
        prompt(&mut kernel);
        for call in 1..=3 {
            assert!(!is_reminder(&newest_said(&kernel)));
            reply(&mut kernel, call, &["ask"]);
            let answer = Answer::Deny {
                reason: "no".into(),
                stops: false,
            };
            kernel.step(Input::Answered { ask: call, answer });
        }
        assert!(is_reminder(&newest_said(&kernel)));
    }

    #[test]
    fn answers_that_do_not_have_their_form() {
        let schema = RawJson::from_value(&serde_json::Value::Null);
        for (way, expected) in [
            (
                OutputWay::Native(schema),
                Misfit::Form {
                    problem: "it is wrong".into(),
                },
            ),
            (
                OutputWay::Tool("answer".into()),
                Misfit::Tool {
                    name: "answer".into(),
                },
            ),
        ] {
            let mut kernel = kernel(Settings {
                output: Some(OutputForm {
                    check: Arc::new(Never),
                    way,
                    tries: 5,
                }),
                ..Settings::default()
            });
            prompt(&mut kernel);
            reply(&mut kernel, 1, &[]);
            assert_eq!(misfit(&newest_said(&kernel)), Some(expected));
        }
    }
}
