//! What the kernel says is done here, and held against its laws.

use std::path::Path;

use tooloop_kernel::{AdvisedVerdict, Delivery, Effect, Entry, Input, Permission, Sync, TurnEnd};
use tooloop_model::{
    BlockStart, Content, Message, Request, StreamEvent, ToolInput, ToolUse, ToolUseId,
};

use super::{Now, Record, World, reread};
use crate::common::faults;

impl World {
    /// Gives an input to the kernel and its twin, and does what they say.
    pub(super) fn tell(&mut self, input: Input) {
        let effects = self.kernel.step(input.clone());
        assert_eq!(effects, self.twin.step(input));
        for (position, effect) in effects.iter().enumerate() {
            self.seen.insert(kind(effect));
            self.effect(effect, effects.get(position + 1));
        }
        self.check();
    }

    fn effect(&mut self, effect: &Effect, next: Option<&Effect>) {
        match effect {
            Effect::Record { entry, sync } => self.recorded(entry, *sync, next),
            Effect::CallModel { call, request } => {
                assert!(self.now.in_turn && self.now.is_quiet());
                assert_eq!(faults(&request.messages), Vec::<String>::new());
                assert_eq!(request.messages, self.folded.messages());
                newer(&mut self.now.newest_call, *call);
                self.requests.push(Request::clone(request));
                self.now.call = Some(*call);
                self.now.asked = true;
                self.now.begun.clear();
                self.now.pieces = self.replies[self.next_reply % self.replies.len()].pieces();
                self.next_reply += 1;
            }
            Effect::CancelModel { call } => assert_eq!(self.call_over(), Some(*call)),
            Effect::Show { call, event } => {
                assert_eq!(self.now.call, Some(*call));
                if let StreamEvent::BlockStart {
                    block: BlockStart::ToolUse { id, name },
                    ..
                } = event
                {
                    self.now.begun.push((id.clone(), name.clone()));
                }
            }
            Effect::Void { call } => {
                assert_eq!((self.now.call, self.now.newest_call), (None, *call))
            }
            Effect::RunTool {
                run,
                tool_use,
                judgement,
            } => {
                let judged_in = judgement.access.directory.as_deref();
                let now = self.gate.directory();
                let is_present = judged_in.is_some_and(|judged_in| judged_in == Path::new(&now));
                assert!(
                    is_present,
                    "{} has what it was not judged with",
                    tool_use.id
                );
                self.run(*run, tool_use);
            }
            Effect::CancelTool { run } => assert!(self.now.runs.remove(run).is_some()),
            Effect::Consult { consult, tool_use } => {
                // All at once, before anything of the message is judged.
                assert!(self.now.call.is_none() && self.now.asks.is_empty());
                assert!(
                    self.kernel
                        .settings()
                        .hooked
                        .before
                        .contains(&tool_use.name)
                );
                let written = self.record.calls.iter().any(|call| call == tool_use);
                assert!(written, "consulted about what the model did not write");
                newer(&mut self.now.newest_consult, *consult);
                self.now.consults.insert(*consult, tool_use.clone());
            }
            Effect::CancelConsult { consult } => {
                assert!(self.now.consults.remove(consult).is_some());
            }
            Effect::Ask { ask, tool_use, .. } => {
                let advised = self.now.advised.get(&tool_use.id);
                let advised = matches!(advised, Some(AdvisedVerdict::Ask { .. }));
                assert!((asked(&tool_use.name) || advised) && self.now.asks.is_empty());
                assert!(!self.record.answered.contains(&tool_use.id));
                newer(&mut self.now.newest_ask, *ask);
                self.now.asks.insert(*ask, tool_use.clone());
            }
            Effect::CancelAsk { ask } => assert!(self.now.asks.remove(ask).is_some()),
            Effect::StartTimer { timer, .. } => {
                assert!(self.now.is_quiet());
                newer(&mut self.now.newest_timer, *timer);
                if self.now.asked {
                    self.now.timers.insert(*timer);
                } else {
                    self.now.deadline = Some(*timer);
                }
            }
            Effect::CancelTimer { timer } => {
                let deadline = self.now.deadline.take_if(|deadline| deadline == timer);
                assert!(deadline.is_some() || self.now.timers.remove(timer));
            }
            Effect::AskStop { stop, .. } => {
                assert!(self.now.is_quiet());
                newer(&mut self.now.newest_stop, *stop);
                self.now.stop = Some(*stop);
            }
            Effect::CancelStop { stop } => assert_eq!(self.now.stop.take(), Some(*stop)),
            Effect::PrepareCompaction { .. }
            | Effect::CancelCompaction { .. }
            | Effect::CompactionEnded { .. } => panic!("there is no window here: {effect:?}"),
            Effect::EndTurn { end, unsent } => {
                assert!(next.is_none(), "the end of the turn is not the last effect");
                assert!(self.now.in_turn && self.now.is_quiet() && self.kernel.is_idle());
                assert_eq!(self.folded.newest_end(), Some(end));
                assert_eq!(self.folded.open_calls(), []);
                let queued = std::mem::take(&mut self.now.queued);
                let (notices, queued): (Vec<_>, Vec<_>) = queued
                    .into_iter()
                    .partition(|(delivery, _)| *delivery == Delivery::Notice);
                if *end == TurnEnd::Completed {
                    assert_eq!(notices, [], "a notice was left behind");
                }
                self.now.queued = notices;
                let queued: Vec<_> = queued
                    .into_iter()
                    .map(|(_, text)| vec![Content::Text(text)])
                    .collect();
                assert_eq!(*unsent, queued, "what was not sent is given back in order");
                if *end == TurnEnd::Completed {
                    assert_eq!(queued.len(), 0);
                }
                self.now.in_turn = false;
                self.now.stopped = false;
                self.now.advised.clear();
                let broken_off = ["Interrupted", "HookStopped", "Deadline"];
                let told = format!("{end:?}");
                self.now.interrupted = broken_off.iter().any(|end| told.starts_with(end));
                self.now.asked = false;
                assert_eq!(self.now.deadline, None, "the deadline outlives its turn");
            }
        }
    }

    fn recorded(&mut self, entry: &Entry, sync: Sync, next: Option<&Effect>) {
        match entry {
            Entry::Message(message) => match message.message() {
                Message::User(content) => self.heard(content),
                Message::Assistant(reply) => {
                    let begun = std::mem::take(&mut self.now.begun);
                    let whole = reply.stop_reason.is_some();
                    // A second call under one id is not shown while it is written.
                    let is_shown = |tool_use: &&ToolUse| {
                        let words = "this call came with the id of an earlier call";
                        let input = &tool_use.input;
                        !matches!(input, ToolInput::Invalid { reason, .. } if reason.starts_with(words))
                    };
                    let calls = reply.tool_uses().filter(is_shown);
                    let ids: Vec<_> = calls.map(|tool_use| &tool_use.id).collect();
                    if whole {
                        let begun: Vec<_> = begun.iter().map(|(id, _)| id).collect();
                        assert_eq!(ids, begun, "what was shown is not what was recorded");
                    } else {
                        assert_eq!(ids, Vec::<&ToolUseId>::new());
                    }
                }
                Message::ToolResults(_) => panic!("results are never said"),
            },
            Entry::CallStarted { tool_use_id } => {
                assert_eq!(sync, Sync::Now);
                let runs = matches!(next, Some(Effect::RunTool { tool_use, .. })
                    if tool_use.id == *tool_use_id);
                assert!(runs, "{tool_use_id} is said to have begun and does not");
            }
            Entry::CallFinished(result) => {
                let id = &result.tool_use_id;
                assert!(self.record.has(id), "{id} is no call of the newest message");
                let again = self.record.answered.contains(id);
                assert!(!again, "{id} is answered twice");
                let runs = self.now.runs.values().any(|tool_use| tool_use.id == *id);
                assert!(!runs, "{id} is answered while it runs");
            }
            Entry::Permission { tool_use_id, .. } | Entry::CallRewritten { tool_use_id, .. } => {
                assert!(self.record.has(tool_use_id));
                assert!(!self.record.started.contains(tool_use_id));
            }
            Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::Continue(_)
            | Entry::Spent { .. }
            | Entry::Rewound { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::TurnEnd(_) => {}
        }
        self.journal.push(entry.clone());
        self.folded.apply(&reread(entry));
        self.record.note(entry);
        if sync == Sync::Now {
            self.durable = self.journal.len();
        }
    }

    /// A user message is the first of its queue, or words of the kernel's own.
    fn heard(&mut self, content: &[Content]) {
        let [Content::Text(text)] = content else {
            panic!("{content:?}");
        };
        let own = [
            "Reminder: ",
            "Your ",
            "You have not ",
            "Go on.",
            "objection",
        ];
        if own.iter().any(|own| text.starts_with(own)) {
            return;
        }
        let queued = &mut self.now.queued;
        let place = queued
            .iter()
            .position(|(_, queued)| queued == text)
            .unwrap();
        let (delivery, _) = queued.remove(place);
        let overtaken = queued
            .iter()
            .take(place)
            .any(|(other, _)| *other == delivery);
        assert!(!overtaken, "{text} overtook another");
    }

    fn run(&mut self, run: u64, tool_use: &ToolUse) {
        let ToolUse {
            id, name, input, ..
        } = tool_use;
        newer(&mut self.now.newest_run, run);
        assert!(matches!(input, ToolInput::Valid(_)), "{id} has no input");
        assert!(!self.now.stopped, "{id} begins after a hook's stop");
        let consulted = self.now.consults.values().any(|call| call.id == *id);
        assert!(!consulted, "{id} does not wait for advice");
        let advised = self.now.advised.get(id);
        assert!(!matches!(advised, Some(AdvisedVerdict::Deny { .. })));
        assert!(!input.json().contains("forbidden"), "{id} is refused");
        // What runs is what the model wrote, or what is on record in its place.
        let written = self.record.calls.iter().find(|call| call.id == *id);
        let rewritten = self.record.rewritten.get(id);
        if let Some(written) = written {
            let expected = rewritten.map_or(written.input.json(), |input| input.get());
            assert_eq!(input.json(), expected);
        }
        let hooked = self.kernel.settings().hooked.before.contains(name);
        assert!(!(hooked && self.now.call.is_some()), "{id} runs early");
        let free = name == "read";
        assert!(
            free || matches!(name.as_str(), "bash" | "write") || asked(name),
            "{name} may not run"
        );
        let most = self.kernel.settings().max_parallel_tools.max(1);
        assert!(self.now.runs.len() < most);
        let beside = self.now.runs.values();
        assert!(beside.into_iter().all(|other| other.name == "read"));
        if !self.now.runs.is_empty() {
            self.seen.insert("RunTool beside others".into());
        }
        if self.now.call.is_some() {
            self.seen.insert("RunTool early".into());
            // Law 5: speculation.
            let place = self.now.begun.iter().position(|(begun, _)| begun == id);
            let before = &self.now.begun[..=place.unwrap()];
            let reads = before.iter().all(|(_, name)| name == "read");
            assert!(reads, "{name} {id} ran early behind {before:?}");
        } else {
            let calls = &self.record.calls;
            let place = calls.iter().position(|call| call.id == *id).unwrap();
            let answered = |call: &ToolUse| self.record.answered.contains(&call.id);
            assert!(!answered(&calls[place]));
            let mut before = calls[..place].iter();
            if free {
                let ordered = before.all(|call| call.name == "read" || answered(call));
                assert!(ordered, "{id} overtook a call with effects");
            } else {
                assert!(before.all(answered), "{id} overtook another");
                assert!(self.now.runs.is_empty(), "{id} does not run alone");
            }
        }
        if !free {
            assert!(self.record.started.contains(id), "{id} is not on record");
            assert_eq!(self.durable, self.journal.len(), "the record is not safe");
            let rule = name.contains("rule") || input.json().contains("rule");
            let advised = advised == Some(&AdvisedVerdict::Allow) && !rule;
            let allowed = self.record.allowed.contains(id);
            assert!(!asked(name) || allowed || advised, "{id} is not allowed");
            assert!(self.acted.insert(id.clone()), "{id} runs twice");
        }
        self.now.runs.insert(run, tool_use.clone());
    }

    /// What holds after every step.
    pub(super) fn check(&self) {
        assert_eq!(self.kernel.transcript(), &self.folded, "law 3");
        assert_eq!(self.twin.transcript(), &self.folded);
        assert_eq!(self.kernel.is_idle(), !self.now.in_turn);
        let notices = self.now.queued.iter();
        let notices = notices.filter(|(delivery, _)| *delivery == Delivery::Notice);
        assert_eq!(
            self.kernel.wants_wake(),
            !self.now.in_turn && !self.now.interrupted && notices.count() > 0
        );
        // A turn waits for something, and nothing is under way outside of one.
        assert_eq!(self.now.is_quiet(), !self.now.in_turn);
        assert_eq!(self.folded.usage(), self.paid, "not all is counted");
    }
}

impl Now {
    /// Whether nothing is under way.
    fn is_quiet(&self) -> bool {
        self.call.is_none()
            && self.runs.is_empty()
            && self.asks.is_empty()
            && self.consults.is_empty()
            && self.timers.is_empty()
            && self.stop.is_none()
    }
}

impl Record {
    pub(super) fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => {
                *self = Self::default();
                if let Message::Assistant(reply) = message.message() {
                    self.calls = reply.tool_uses().cloned().collect();
                }
            }
            Entry::CallStarted { tool_use_id } => {
                self.started.insert(tool_use_id.clone());
            }
            Entry::CallRewritten { tool_use_id, input } => {
                self.rewritten.insert(tool_use_id.clone(), input.clone());
            }
            Entry::CallFinished(result) => {
                self.answered.insert(result.tool_use_id.clone());
            }
            Entry::Permission {
                tool_use_id,
                permission: Permission::Allowed { .. },
            } => {
                self.allowed.insert(tool_use_id.clone());
            }
            Entry::Permission { .. }
            | Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::Continue(_)
            | Entry::Spent { .. }
            | Entry::Rewound { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::TurnEnd(_) => {}
        }
    }

    fn has(&self, id: &ToolUseId) -> bool {
        self.calls.iter().any(|call| call.id == *id)
    }
}

/// An effect's name, and that of the reason or the end that it records.
fn kind(effect: &Effect) -> String {
    let name = |debug: String| {
        let end = debug.find([' ', '(', '{']).unwrap_or(debug.len());
        debug[..end].to_owned()
    };
    match effect {
        Effect::Record { entry, .. } => match entry {
            Entry::Continue(reason) => format!("Continue {}", name(format!("{reason:?}"))),
            Entry::TurnEnd(end) => format!("TurnEnd {}", name(format!("{end:?}"))),
            other => format!("Record {}", name(format!("{other:?}"))),
        },
        other => name(format!("{other:?}")),
    }
}

fn newer(newest: &mut u64, number: u64) {
    assert!(number > *newest, "a number is used twice");
    *newest = number;
}

fn asked(name: &str) -> bool {
    matches!(name, "ask" | "peek")
}
