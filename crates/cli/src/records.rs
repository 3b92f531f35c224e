//! The records of `--output-format stream-json`, in the vocabulary that agent SDKs parse.
//!
//! `docs/stream-json.md` describes each. Fields are added in later versions, never renamed.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value, json};
use tooloop::hooks::{HookEnd, HookNote};
use tooloop::{
    AssistantMessage, CompactionState, Content, ContentBlock, Continue, Denial, DeniedBy, Entry,
    Message, SandboxRefusal, StopReason, StreamEvent, ToolInput, ToolResult, ToolUseId, TurnEnd,
    TurnReport, Usage,
};

use crate::control;
use crate::exit::{self, Status};
use crate::print::Answer;

/// The version of the records.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// Makes the records of one session.
#[derive(Debug)]
pub(crate) struct Records {
    session: Option<String>,
    seq: u64,
    partial: bool,
    /// The model that writes, as the first record names it.
    model: String,
    /// Whether prompts are written as records.
    echo: bool,
    /// The ids of the prompts that are on their way into the session.
    prompts: VecDeque<Option<String>>,
    /// The replies that are being streamed, by the call that began the subagent.
    streaming: HashMap<Option<ToolUseId>, Streaming>,
    /// The call that began the subagent whose records are written.
    parent: Option<ToolUseId>,
}

/// A reply that is being streamed.
#[derive(Debug)]
struct Streaming {
    call: u64,
    /// The signatures of blocks that have not ended.
    signatures: HashMap<usize, String>,
}

/// The most bytes of one piece of a reply.
const PIECE: usize = 100_000;

/// What the first record tells.
#[derive(Debug)]
pub(crate) struct Init<'a> {
    pub(crate) workspace: String,
    pub(crate) model: &'a str,
    pub(crate) tools: Vec<String>,
    pub(crate) permission_mode: String,
    pub(crate) sandbox: Value,
    pub(crate) resumed: bool,
}

impl Records {
    pub(crate) fn new(session: Option<String>, partial: bool, echo: bool) -> Self {
        Self {
            session,
            seq: 0,
            partial,
            model: String::new(),
            echo,
            prompts: VecDeque::new(),
            streaming: HashMap::new(),
            parent: None,
        }
    }

    /// A prompt goes to the session, perhaps with an id.
    pub(crate) fn prompted(&mut self, id: Option<String>) {
        self.prompts.push_back(id);
    }

    /// Whose records the next ones are: those of the subagent that this call began, or of the
    /// session itself. Returns whose they were.
    pub(crate) fn of(&mut self, parent: Option<ToolUseId>) -> Option<ToolUseId> {
        std::mem::replace(&mut self.parent, parent)
    }

    /// Puts a record into its envelope.
    pub(crate) fn record(&mut self, kind: &str, body: Value) -> Value {
        self.seq = self.seq.saturating_add(1);
        let mut record = Map::new();
        record.insert("type".into(), kind.into());
        if let Value::Object(body) = body {
            record.extend(body);
        }
        if let Some(parent) = &self.parent
            && !record.contains_key("parent_tool_use_id")
        {
            record.insert("parent_tool_use_id".into(), parent.to_string().into());
        }
        record
            .entry("uuid")
            .or_insert_with(|| uuid::Uuid::now_v7().to_string().into());
        record.insert("session_id".into(), self.session.clone().into());
        record.insert("seq".into(), self.seq.into());
        Value::Object(record)
    }

    pub(crate) fn init(&mut self, init: &Init<'_>) -> Value {
        init.model.clone_into(&mut self.model);
        self.record(
            "system",
            json!({
                "subtype": "init",
                "schema_version": SCHEMA_VERSION,
                "tooloop_version": env!("CARGO_PKG_VERSION"),
                "cwd": init.workspace,
                "model": init.model,
                "tools": init.tools,
                "permissionMode": init.permission_mode,
                "sandbox": init.sandbox,
                "resumed": init.resumed,
                "mcp_servers": [],
                "slash_commands": [],
            }),
        )
    }

    /// The conversation is being summed up, or not any more.
    pub(crate) fn compaction(&mut self, state: &CompactionState) -> Value {
        let status = match state {
            CompactionState::Begun => Some("compacting"),
            CompactionState::Done | CompactionState::Failed(_) => None,
        };
        self.record("system", json!({ "subtype": "status", "status": status }))
    }

    /// What the sandbox refused a call.
    pub(crate) fn refused(&mut self, id: &ToolUseId, refusal: &SandboxRefusal) -> Value {
        let body = json!({
            "subtype": "sandbox_refusal",
            "tool_use_id": id,
            "what": refusal.what,
            "rule": refusal.rule,
            "grant": refusal.grant,
        });
        self.record("system", body)
    }

    /// The records of an entry.
    pub(crate) fn entries(&mut self, entry: &Entry) -> Vec<Value> {
        let mut records = Vec::new();
        if let Entry::Message(message) = entry
            && let Message::Assistant(reply) = message.message()
            && self.streaming.remove(&self.parent).is_some()
            && reply.stop_reason.is_some()
        {
            let event = json!({
                "type": "message_delta",
                "delta": {
                    "stop_reason": reply.stop_reason.as_ref().map(stop_reason),
                    "stop_sequence": null,
                },
                "usage": usage(reply.usage),
            });
            records.push(self.stream_event(&event));
            records.push(self.stream_event(&json!({ "type": "message_stop" })));
        }
        records.extend(self.entry(entry));
        records
    }

    /// The record of an entry, if it has one.
    fn entry(&mut self, entry: &Entry) -> Option<Value> {
        Some(match entry {
            Entry::Message(message) => match message.message() {
                Message::Assistant(reply) => {
                    let body = json!({
                        "message": assistant(reply),
                        "parent_tool_use_id": self.parent,
                    });
                    self.record("assistant", body)
                }
                Message::User(content) => {
                    let content: Vec<_> = Content::said(content).map(part).collect();
                    if content.is_empty() {
                        return None;
                    }
                    let mut body = json!({
                        "message": { "role": "user", "content": content },
                        "parent_tool_use_id": self.parent,
                    });
                    if self.parent.is_none() {
                        let id = self.prompts.pop_front().flatten();
                        if !self.echo {
                            return None;
                        }
                        if let Some(id) = id {
                            set(&mut body, "uuid", id);
                        }
                    }
                    self.record("user", body)
                }
                Message::ToolResults(_) => return None,
            },
            Entry::CallFinished(result) => {
                let body = json!({
                    "message": { "role": "user", "content": [tool_result(result)] },
                    "parent_tool_use_id": self.parent,
                });
                self.record("user", body)
            }
            Entry::Retry {
                attempt,
                error,
                wait_ms,
                voided,
                ..
            } => self.record(
                "system",
                json!({
                    "subtype": "api_retry",
                    "attempt": attempt,
                    "retry_delay_ms": wait_ms,
                    "error": error.message,
                    "error_kind": error.kind,
                    "error_status": error.status,
                    "voided": voided,
                }),
            ),
            Entry::Continue(reason) => {
                let mut body = json!({ "subtype": "continue", "reason": reason.name() });
                if let Continue::FallbackModel { model } = reason {
                    set(&mut body, "model", model.clone());
                }
                self.record("system", body)
            }
            Entry::Shortened {
                results,
                before,
                after,
            } => self.record(
                "system",
                json!({
                    "subtype": "results_shortened",
                    "tool_use_ids": results,
                    "pre_tokens": before,
                    "post_tokens": after,
                }),
            ),
            Entry::Compacted {
                cut,
                summary,
                trigger,
                before,
                after,
                ..
            } => self.record(
                "system",
                json!({
                    "subtype": "compact_boundary",
                    "compact_metadata": {
                        "trigger": trigger.name(),
                        "messages": cut,
                        "pre_tokens": before,
                        "post_tokens": after,
                    },
                    "summary": summary,
                }),
            ),
            Entry::Rewound { turn } => {
                self.record("system", json!({ "subtype": "rewound", "turn": turn }))
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => self.record(
                "system",
                json!({
                    "subtype": "permission",
                    "tool_use_id": tool_use_id,
                    "permission": permission,
                }),
            ),
            Entry::CallRewritten { tool_use_id, input } => self.record(
                "system",
                json!({
                    "subtype": "call_rewritten",
                    "tool_use_id": tool_use_id,
                    "input": input.to_value(),
                }),
            ),
            Entry::CallStarted { .. }
            | Entry::Discarded { .. }
            | Entry::Spent { .. }
            | Entry::TurnEnd(_) => return None,
        })
    }

    /// What was told of this reply is void.
    pub(crate) fn voided(&mut self, call: u64) -> Value {
        self.streaming.remove(&self.parent);
        self.record(
            "system",
            json!({ "subtype": "message_voided", "model_call": call }),
        )
    }

    pub(crate) fn control_response(&mut self, response: Value) -> Value {
        self.record("control_response", json!({ "response": response }))
    }

    /// Asks the program at the other end.
    pub(crate) fn control_request(&mut self, id: &str, request: Value) -> Value {
        let body = json!({ "request_id": id, "request": request });
        self.record("control_request", body)
    }

    /// What it was asked is void.
    pub(crate) fn control_cancel(&mut self, id: &str) -> Value {
        self.record("control_cancel_request", json!({ "request_id": id }))
    }

    pub(crate) fn warning(&mut self, words: &str) -> Value {
        self.record("system", json!({ "subtype": "warning", "message": words }))
    }

    /// The record of a hook that begins or has ended.
    pub(crate) fn hook(&mut self, note: &HookNote) -> Value {
        let name = match &note.tool_use_id {
            Some(id) => format!("{}:{id}", note.event),
            None => note.event.to_string(),
        };
        let mut body = json!({
            "subtype": if note.outcome.is_some() { "hook_response" } else { "hook_started" },
            "hook_id": note.hook,
            "hook_name": name,
            "hook_event": note.event.name(),
            "command": note.command,
            "source": note.source,
            "tool_use_id": note.tool_use_id,
        });
        if let Some(outcome) = &note.outcome {
            let (word, status) = match &outcome.end {
                HookEnd::Exited(0) => ("success", Some(0)),
                HookEnd::Exited(2) => ("blocked", Some(2)),
                HookEnd::Exited(status) => ("error", Some(*status)),
                HookEnd::TimedOut => ("timeout", None),
                HookEnd::Failed { .. } => ("error", None),
            };
            set(&mut body, "outcome", word);
            set(&mut body, "exit_code", status);
            set(&mut body, "stdout", outcome.stdout.clone());
            set(&mut body, "stderr", outcome.stderr.clone());
            set(&mut body, "duration_ms", millis(outcome.duration));
        }
        self.record("system", body)
    }

    pub(crate) fn notice(&mut self, words: &str) -> Value {
        self.record("system", json!({ "subtype": "notice", "message": words }))
    }

    /// The records of a piece of a reply: the events of a message stream.
    pub(crate) fn piece(&mut self, call: u64, event: &StreamEvent) -> Vec<Value> {
        if !self.partial {
            return Vec::new();
        }
        let mut events = Vec::new();
        let current = self.streaming.get(&self.parent).map(|reply| reply.call);
        if current != Some(call) {
            let (id, model) = match event {
                StreamEvent::MessageStart { id, model } => (id.clone(), model.clone()),
                _ => (None, None),
            };
            events.push(json!({
                "type": "message_start",
                "message": {
                    "id": id.unwrap_or_else(|| format!("msg_{call}")),
                    "type": "message",
                    "role": "assistant",
                    "model": model.unwrap_or_else(|| self.model.clone()),
                    "content": [],
                    "stop_reason": null,
                    "stop_sequence": null,
                    "usage": usage(Usage::default()),
                },
            }));
            let telling = Streaming {
                call,
                signatures: HashMap::new(),
            };
            self.streaming.insert(self.parent.clone(), telling);
        }
        if let Some(telling) = self.streaming.get_mut(&self.parent) {
            telling.add(event, &mut events);
        }
        let events = events.iter().map(|event| self.stream_event(event));
        events.collect()
    }

    fn stream_event(&mut self, event: &Value) -> Value {
        self.record(
            "stream_event",
            json!({ "event": event, "parent_tool_use_id": self.parent }),
        )
    }

    /// The last record of a turn. `why` says more of its end than the end itself does.
    pub(crate) fn result(
        &mut self,
        report: &TurnReport,
        status: Status,
        why: Option<String>,
    ) -> Value {
        let done = status == Status::Done;
        let subtype = match status {
            Status::Done => "success",
            Status::MaxTurns => "error_max_turns",
            Status::MaxToolCalls => "error_max_tool_calls",
            Status::Budget if report.end.name() == "max_tokens" => "error_max_tokens",
            Status::Budget => "error_max_budget_usd",
            Status::Deadline => "error_max_time",
            Status::Schema => "error_max_structured_output_retries",
            Status::Permission => "error_permission_needed",
            _ => "error_during_execution",
        };
        let mut body = json!({
            "subtype": subtype,
            "is_error": !done,
            "reason": match status {
                Status::Permission => "permission_needed",
                _ if !done && report.end == TurnEnd::Completed => "background_unfinished",
                _ => report.end.name(),
            },
            "exit_status": status.code(),
            "duration_ms": millis(report.duration),
            "duration_api_ms": millis(report.model_duration),
            "num_turns": report.steps,
            "total_cost_usd": report.cost_usd,
            "usage": usage(report.usage),
            "modelUsage": report
                .model_usage
                .iter()
                .map(|(model, used)| (model.clone(), usage(*used)))
                .collect::<Map<_, _>>(),
            "cache_hit_percent": report.usage.cache_hit_percent(),
            "permission_denials": report.denials.iter().map(denial).collect::<Vec<_>>(),
        });
        if done {
            set(&mut body, "result", report.answer());
            if let Some(answer) = &report.structured_output {
                set(&mut body, "structured_output", answer.to_value());
            }
        } else {
            set(
                &mut body,
                "errors",
                why.or_else(|| exit::words(&report.end))
                    .into_iter()
                    .collect::<Vec<_>>(),
            );
            if !report.text.is_empty() {
                set(&mut body, "partial_result", report.text.clone());
            }
        }
        if !report.unsent.is_empty() {
            let unsent: Vec<_> = report
                .unsent
                .iter()
                .map(|content| content.iter().map(part).collect::<Vec<_>>())
                .collect();
            set(&mut body, "unsent", unsent);
        }
        if !report.background.is_empty() {
            set(&mut body, "background", report.background.clone());
        }
        self.record("result", body)
    }

    /// The last record of a prompt that was for us and not for the model.
    pub(crate) fn answer(&mut self, answer: &Answer, status: Status) -> Value {
        let done = answer.words.is_ok();
        let mut body = json!({
            "subtype": if done { "success" } else { "error_during_execution" },
            "is_error": !done,
            "reason": if done { "completed" } else { "not_run" },
            "exit_status": status.code(),
            "duration_ms": millis(answer.duration),
            "duration_api_ms": 0,
            "num_turns": 0,
            "total_cost_usd": answer.spent.cost_usd,
            "usage": usage(answer.spent.usage),
            "permission_denials": [],
        });
        match &answer.words {
            Ok(text) => set(&mut body, "result", text.clone()),
            Err(words) => set(&mut body, "errors", vec![words.clone()]),
        }
        for (key, value) in &answer.fields {
            set(&mut body, key, value.clone());
        }
        self.record("result", body)
    }

    /// The last record of a run that came to no turn.
    pub(crate) fn failure(&mut self, status: Status, message: &str) -> Value {
        let body = without_turn(status, "not_run", message);
        self.record("result", body)
    }

    /// The last record of a run that ended its background work, when each turn has its `result`.
    pub(crate) fn unfinished(
        &mut self,
        status: Status,
        message: &str,
        background: Vec<String>,
    ) -> Value {
        let mut body = without_turn(status, "background_unfinished", message);
        set(&mut body, "background", background);
        self.record("result", body)
    }
}

/// The fields of a `result` that belongs to no turn.
fn without_turn(status: Status, reason: &str, message: &str) -> Value {
    json!({
                "subtype": if status == Status::Deadline {
                    "error_max_time"
                } else {
                    "error_during_execution"
                },
                "is_error": true,
                "reason": reason,
                "exit_status": status.code(),
                "duration_ms": 0,
                "duration_api_ms": 0,
                "num_turns": 0,
                "total_cost_usd": 0.0,
                "usage": usage(Usage::default()),
                "permission_denials": [],
                "errors": [message],
    })
}

fn set(body: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(body) = body {
        body.insert(key.into(), value.into());
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Counts as the records' readers expect them: what came from a cache or went into one is told
/// beside the input, not within it.
pub(crate) fn usage(usage: Usage) -> Value {
    let fresh = usage
        .input_tokens
        .saturating_sub(usage.cache_read_tokens)
        .saturating_sub(usage.cache_write_tokens);
    json!({
        "input_tokens": fresh,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    })
}

fn denial(denial: &Denial) -> Value {
    let input = serde_json::from_str(&denial.input).unwrap_or_else(|_| json!(denial.input));
    json!({
        "tool_name": denial.tool,
        "tool_use_id": denial.tool_use_id,
        "tool_input": input,
        "reason": denial.reason,
        "decided_by": match denial.by {
            DeniedBy::Policy => "policy",
            DeniedBy::Answer => "answer",
            DeniedBy::Nobody => "nobody",
            DeniedBy::Hook => "hook",
        },
        "cause": denial.cause.map(control::cause),
    })
}

fn assistant(reply: &AssistantMessage) -> Value {
    json!({
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": reply.content.iter().map(block).collect::<Vec<_>>(),
        "stop_reason": reply.stop_reason.as_ref().map(stop_reason),
        "stop_sequence": null,
        "usage": usage(reply.usage),
    })
}

fn stop_reason(reason: &StopReason) -> &str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal => "refusal",
        StopReason::ContentFilter => "content_filter",
        StopReason::Pause => "pause_turn",
        StopReason::ContextWindow => "model_context_window_exceeded",
        StopReason::Other(word) => word,
    }
}

fn block(block: &ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text, .. } => json!({ "type": "text", "text": text }),
        ContentBlock::Thinking { text, vendor } => json!({
            "type": "thinking",
            "thinking": text,
            "signature": vendor.as_ref().and_then(|vendor| vendor.data.as_string()).unwrap_or_default(),
        }),
        ContentBlock::RedactedThinking(vendor) => json!({
            "type": "redacted_thinking",
            "data": vendor.data.as_string().map_or_else(|| vendor.data.to_value(), Value::from),
        }),
        ContentBlock::ToolUse(tool_use) => json!({
            "type": "tool_use",
            "id": tool_use.id,
            "name": tool_use.name,
            "input": match &tool_use.input {
                ToolInput::Valid(input) => input.to_value(),
                ToolInput::Invalid { raw, .. } => json!({ "invalid_json": raw }),
            },
        }),
        ContentBlock::Vendor(vendor) => vendor.data.to_value(),
    }
}

fn part(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!({ "type": "text", "text": text }),
        Content::Image(image) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": image.media_type, "data": image.data },
        }),
        Content::Document(document) => json!({
            "type": "document",
            "source": { "type": "base64", "media_type": document.media_type, "data": document.data },
        }),
    }
}

fn tool_result(result: &ToolResult) -> Value {
    // One text is told as a string, as most readers expect.
    let content = match result.content.as_slice() {
        [Content::Text(text)] => Value::from(text.as_str()),
        parts => parts.iter().map(part).collect(),
    };
    json!({
        "type": "tool_result",
        "tool_use_id": result.tool_use_id,
        "content": content,
        "is_error": result.is_error,
    })
}

impl Streaming {
    /// Adds the stream events of a piece.
    fn add(&mut self, event: &StreamEvent, events: &mut Vec<Value>) {
        use tooloop::BlockStart;
        let delta = |index: &usize, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let event = match event {
            StreamEvent::BlockStart { index, block } => {
                let block = match block {
                    BlockStart::Text => json!({ "type": "text", "text": "" }),
                    BlockStart::Thinking => {
                        json!({ "type": "thinking", "thinking": "", "signature": "" })
                    }
                    BlockStart::ToolUse { id, name } => {
                        json!({ "type": "tool_use", "id": id, "name": name, "input": {} })
                    }
                    BlockStart::RedactedThinking(vendor) => json!({
                        "type": "redacted_thinking",
                        "data": vendor.data.as_string().map_or_else(|| vendor.data.to_value(), Value::from),
                    }),
                    BlockStart::Vendor(vendor) => vendor.data.to_value(),
                };
                json!({ "type": "content_block_start", "index": index, "content_block": block })
            }
            StreamEvent::TextDelta { index, text } => {
                let pieces = pieces(text);
                return events.extend(
                    pieces.map(|text| delta(index, json!({ "type": "text_delta", "text": text }))),
                );
            }
            StreamEvent::ThinkingDelta { index, text } => {
                return events.extend(pieces(text).map(|text| {
                    delta(index, json!({ "type": "thinking_delta", "thinking": text }))
                }));
            }
            StreamEvent::InputDelta { index, json } => {
                return events.extend(pieces(json).map(|json| {
                    delta(
                        index,
                        json!({ "type": "input_json_delta", "partial_json": json }),
                    )
                }));
            }
            // Each one replaces the last, so one record follows when the block ends.
            StreamEvent::VendorDelta { index, data } => {
                if let Some(signature) = data.data.as_string() {
                    self.signatures.insert(*index, signature);
                }
                return;
            }
            StreamEvent::BlockStop { index } => {
                if let Some(signature) = self.signatures.remove(index) {
                    let signature = json!({ "type": "signature_delta", "signature": signature });
                    events.push(delta(index, signature));
                }
                json!({ "type": "content_block_stop", "index": index })
            }
            // The end is written with the usage, once that is known.
            StreamEvent::MessageStart { .. }
            | StreamEvent::MessageStop { .. }
            | StreamEvent::Usage(_) => return,
        };
        events.push(event);
    }
}

/// The text in pieces that fit a line each.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let (piece, after) = text.split_at(text.floor_char_boundary(PIECE));
        rest = (!after.is_empty()).then_some(after);
        Some(piece)
    })
}
