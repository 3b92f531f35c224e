//! Whether a request may be made, and is one that every provider accepts.

use std::collections::BTreeSet;

use tooloop_model::{Content, Message, Request, ToolUseId};

use crate::law::Law;
use crate::script::{Moment, Reply};
use crate::world::{Served, World};

impl World {
    /// The model is asked. Returns the number of the call, and what it will do.
    pub(crate) fn request(&mut self, request: &Request) -> Option<(u64, Reply)> {
        if !self.alive() {
            return None;
        }
        let reply = self.script.replies.get(self.used.replies).cloned();
        self.used.replies += 1;
        let reply = reply.unwrap_or_default();
        let messages = request.messages.len();
        self.moment(Moment::Request, messages as u64, || {
            format!(
                "request with {messages} messages, the model will {}",
                crate::words::reply(&reply)
            )
        });
        if !self.alive() {
            return None;
        }
        self.see("request");
        self.judge_request(request);
        let is_summary = is_summary(request);
        let again = std::mem::take(&mut self.record.again);
        if is_summary {
            self.see("summary");
            // What is tried again was a summary too.
            self.record.is_retry = false;
            let before = self
                .life
                .served
                .as_ref()
                .map(|served| served.model.as_str());
            let falls_back = request.model == "fallback" && before != Some("fallback");
            if falls_back && !self.record.in_turn {
                self.record.failures = 0;
            }
        } else {
            self.record.steps += u32::from(!again);
            self.record.going_on = false;
            self.life.too_long = false;
            self.steps_on();
        }
        self.life.call += 1;
        self.life.newest_fault = None;
        if let Some(before) = self
            .life
            .served
            .as_ref()
            .filter(|served| !served.is_summary)
        {
            self.life.stop_before_summary.clone_from(&before.stop);
        }
        let served = self.reserves(request);
        self.life.served = Some(Served {
            is_summary,
            ..served
        });
        self.alive().then_some((self.life.call, reply))
    }

    fn judge_request(&mut self, request: &Request) {
        let failed = self.life.append_failed;
        self.require(Law::RecordFirst, !failed, || {
            "the model is asked after an append that failed".into()
        });
        let summary = is_summary(request);
        let (in_turn, going_on) = (self.record.in_turn, self.record.going_on);
        let asked_for = summary && !in_turn && self.life.compacting > 0;
        self.require(Law::RecordFirst, in_turn && going_on || asked_for, || {
            format!("the model is asked without a reason on record, in a turn: {in_turn}")
        });
        let same = if summary {
            self.is_of_record(request)
        } else {
            request.messages == self.folded.messages()
        };
        self.require(Law::RecordFirst, same, || {
            "what the model is told is not what is on record".into()
        });
        let lost = self
            .record
            .wanted
            .iter()
            .find(|wanted| !says(request, wanted));
        let lost = lost.cloned().filter(|_| in_turn);
        self.require(Law::Truth, lost.is_none(), || {
            format!("the model is not told what the user wants now: {lost:?}")
        });
        let open = self.folded.open_calls().len();
        self.require(Law::Pairing, open == 0, || {
            format!("the model is asked while {open} calls are open")
        });
        let faults = faults(request);
        self.require(Law::Pairing, faults.is_empty(), || faults.join("; "));
        let talking = self
            .life
            .served
            .as_ref()
            .is_some_and(|served| served.stop.is_none() && !served.failed && !served.dropped);
        self.require(Law::Bounds, !talking, || {
            "the model is asked while it is still writing".into()
        });
        let busy = self.life.runs.iter().find(|run| run.is_under_way());
        let busy = busy.map(|run| run.id.clone());
        self.require(Law::Bounds, busy.is_none(), || {
            format!("the model is asked while {busy:?} runs")
        });
        let models = match (in_turn, self.record.fell_back) {
            (true, true) => vec!["fallback".into()],
            (true, false) => self.life.models.clone(),
            // Nothing is on record of who sums up what nobody waits for to go on.
            (false, _) => {
                let fallback = self.script.knobs.fallback.then(|| "fallback".into());
                self.life.models.iter().cloned().chain(fallback).collect()
            }
        };
        self.require(Law::Truth, models.contains(&request.model), || {
            format!("{} is asked, not one of {models:?}", request.model)
        });
        let knobs = &self.script.knobs;
        let cap = if self.record.escalated {
            knobs.larger_cap
        } else {
            knobs.cap
        };
        // A ceiling may make it smaller.
        let limited =
            knobs.limits.tokens.is_some() || knobs.limits.cost.is_some() || knobs.window.is_some();
        let asked = request.max_output_tokens;
        let less = asked.is_some_and(|asked| cap.is_none_or(|cap| asked < cap));
        let fits = asked == cap || limited && less || summary && asked.is_some();
        self.require(Law::Truth, fits, || {
            format!("the output cap is {:?}", request.max_output_tokens)
        });
        let over = !summary && knobs_spent(self);
        self.require(Law::Bounds, !over, || "the model is asked too often".into());
    }
}

/// Whether it asks for a summary.
fn is_summary(request: &Request) -> bool {
    let newest = request.messages.last().map(|newest| newest.message());
    let Some(Message::User(content)) = newest else {
        return false;
    };
    let asks = |text: &str| text.contains("is about to be summed up");
    content
        .iter()
        .any(|part| matches!(part, Content::Text(text) if asks(text)))
}

/// Whether a user's message in it is this, word for word.
fn says(request: &Request, words: &str) -> bool {
    request
        .messages
        .iter()
        .any(|message| match message.message() {
            Message::User(content) => content
                .iter()
                .any(|part| matches!(part, Content::Text(text) if text == words)),
            Message::Assistant(_) | Message::ToolResults(_) => false,
        })
}

impl World {
    /// A summary is of the whole conversation, or of the newest part of it with words that say so.
    fn is_of_record(&self, request: &Request) -> bool {
        let Some((_, told)) = request.messages.split_last() else {
            return false;
        };
        let known = self.folded.messages();
        if told == known {
            return true;
        }
        let Some((first, newest)) = told.split_first() else {
            return false;
        };
        let left_out = |text: &str| text.starts_with("(The beginning of the conversation is left");
        let says_so = match first.message() {
            Message::User(content) => {
                matches!(content.first(), Some(Content::Text(text)) if left_out(text))
            }
            Message::Assistant(_) | Message::ToolResults(_) => false,
        };
        says_so && known.ends_with(newest)
    }

    /// Whether the newest request is more than the model's window holds.
    pub(crate) fn is_too_long(&self) -> bool {
        let (input, _) = self.sent();
        self.script
            .knobs
            .window
            .is_some_and(|window| input > window)
    }
}

fn knobs_spent(world: &World) -> bool {
    let limit = world.script.knobs.max_turns;
    !world.record.again && limit.is_some_and(|limit| world.record.steps >= limit)
}

/// Which of a strict provider's rules a conversation breaks, those apart that depend on a format.
fn faults(request: &Request) -> Vec<String> {
    let mut faults = Vec::new();
    let messages = &request.messages;
    if !matches!(
        messages.first().map(|first| first.message()),
        Some(Message::User(_))
    ) {
        faults.push("it does not begin with a user message".into());
    }
    if let Some(Message::Assistant(_)) = messages.last().map(|last| last.message()) {
        faults.push("it ends with the model's own words".into());
    }
    let mut ids = BTreeSet::new();
    let mut open: Vec<&ToolUseId> = Vec::new();
    let mut assistant_before = false;
    for (place, message) in messages.iter().enumerate() {
        let mut fault = |words: &str| faults.push(format!("message {place}: {words}"));
        let expected = std::mem::take(&mut open);
        let is_assistant = matches!(message.message(), Message::Assistant(_));
        match message.message() {
            Message::User(content) => {
                if !expected.is_empty() {
                    fault("the calls before it have no answer");
                }
                speaks(content, &mut fault);
            }
            Message::Assistant(reply) => {
                if !expected.is_empty() {
                    fault("the calls before it have no answer");
                }
                if assistant_before {
                    fault("the model speaks twice in a row");
                }
                if !reply.has_substance() {
                    fault("nothing is in it");
                }
                for tool_use in reply.tool_uses() {
                    if !usable(&tool_use.id) {
                        fault("a call has no usable id");
                    }
                    if !ids.insert(&tool_use.id) {
                        fault("the id of a call was used before");
                    }
                    open.push(&tool_use.id);
                }
            }
            Message::ToolResults(results) => {
                let answered: Vec<_> = results.iter().map(|result| &result.tool_use_id).collect();
                if answered != expected || answered.is_empty() {
                    fault("the answers are not those of the calls before it");
                }
                for result in results {
                    speaks(&result.content, &mut fault);
                }
            }
        }
        assistant_before = is_assistant;
    }
    faults
}

fn speaks(content: &[Content], fault: &mut impl FnMut(&str)) {
    if content.is_empty() || content.iter().any(Content::is_blank) {
        fault("it is blank");
    }
}

/// Whether an id can be sent. Ids go back to their provider as they came; a codec replaces what its
/// format cannot carry.
fn usable(id: &ToolUseId) -> bool {
    !id.0.trim().is_empty()
}
