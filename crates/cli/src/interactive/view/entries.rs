//! What is shown of what comes on record.

use std::time::{Duration, Instant};

use tooloop::{Continue, Entry, Message, Permission, Usage};

use super::{Doing, View};
use crate::interactive::paint::{Out, Style};
use crate::interactive::text;

impl View {
    pub(super) fn recorded(&mut self, entry: &Entry, now: Instant, outs: &mut Vec<Out>) {
        match entry {
            Entry::Message(message) => match message.message() {
                Message::Assistant(reply) => {
                    self.usage.add(reply.usage);
                    self.current = Usage::default();
                    self.shown = false;
                    self.turn_to(Doing::Waiting, now);
                    self.is_complete = true;
                    for tool_use in reply.tool_uses() {
                        self.know(tool_use);
                    }
                    self.head_alone(outs);
                }
                Message::User(_) | Message::ToolResults(_) => {}
            },
            Entry::CallFinished(result) => self.finished(result, now, outs),
            Entry::Permission {
                tool_use_id,
                permission: Permission::Denied { .. },
            } => {
                if let Some(call) = self.calls.get_mut(tool_use_id) {
                    call.denied = true;
                }
            }
            Entry::Retry {
                attempt,
                error,
                wait_ms,
                ..
            } => {
                let wait = Duration::from_millis(*wait_ms);
                let message = error.message.trim_end_matches('.');
                let words = format!(
                    "{message}: trying again in {} (attempt {attempt} failed)",
                    text::span(wait)
                );
                self.note(Style::Notice, &words, outs);
                self.current = Usage::default();
                let until = now.checked_add(wait).unwrap_or(now);
                self.turn_to(
                    Doing::Retrying {
                        until,
                        attempt: *attempt,
                    },
                    now,
                );
            }
            Entry::Discarded { usage } => {
                self.usage.add(*usage);
                self.current = Usage::default();
            }
            Entry::Continue(reason) => {
                let words = match reason {
                    Continue::FallbackModel { model } => {
                        let words = format!("· overloaded again and again: {model} goes on");
                        return self.note(Style::Dim, &words, outs);
                    }
                    Continue::PauseTurn => "paused by the provider: asked to go on",
                    Continue::SchemaRetry => {
                        "told that its answer does not have the form asked for"
                    }
                    Continue::StopHookBlocked => "told by a hook to go on",
                    Continue::EscalateOutput => "asked again with a larger output limit",
                    Continue::ContinueOutput => "cut by the output limit: asked to go on",
                    Continue::Reminder => "reminded",
                    Continue::NextStep
                    | Continue::Compact
                    | Continue::Retry
                    | Continue::Steered
                    | Continue::FollowUp => return,
                };
                self.note(Style::Dim, &format!("· {words}"), outs);
            }
            Entry::CallRewritten { tool_use_id, input } => {
                let known = self.calls.get(tool_use_id);
                let tool = known.map_or("a call", |call| &*call.tool_use.name);
                let words = format!("· a hook has {tool} run with {}", input.get());
                self.note(Style::Dim, &words, outs);
            }
            Entry::Shortened {
                results,
                before,
                after,
            } => {
                let results = results.len();
                let words = format!(
                    "· {results} old results were cut short to make room: about {before} tokens, \
                     now {after}"
                );
                self.note(Style::Dim, &words, outs);
            }
            Entry::Compacted { before, after, .. } => {
                let words =
                    format!("· the conversation was summed up: about {before} tokens, now {after}");
                self.note(Style::Notice, &words, outs);
            }
            Entry::CallStarted { .. }
            | Entry::Permission {
                permission: Permission::Allowed { .. },
                ..
            }
            | Entry::Spent { .. }
            | Entry::Rewound { .. }
            | Entry::TurnEnd(_) => {}
        }
    }
}
