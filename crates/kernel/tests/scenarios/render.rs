//! Effects as text, one line each.

use tooloop_kernel::{
    Budget, Continue, During, Effect, Entry, Interrupter, Permission, Sync, TurnEnd,
};
use tooloop_model::{
    AssistantMessage, BlockStart, Content, ContentBlock, Message, Request, StreamEvent, ToolUse,
};

use crate::common::faults;

/// Longer texts are cut: a scenario tells what happens, not every word.
const LONGEST: usize = 64;

pub(crate) fn effects(effects: &[Effect]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shown = 0;
    // The ids of the tool uses that are shown.
    let mut ids = String::new();
    for (position, effect) in effects.iter().enumerate() {
        if let Effect::Show { call, event } = effect {
            shown += 1;
            if let StreamEvent::BlockStart {
                block: BlockStart::ToolUse { id, .. },
                ..
            } = event
            {
                ids = format!("{ids} {id}");
            }
            let next = effects.get(position + 1);
            if !matches!(next, Some(Effect::Show { .. })) {
                lines.push(format!("show {call} x{shown}{ids}"));
                shown = 0;
                ids.clear();
            }
        } else {
            lines.push(line(effect));
        }
    }
    lines
}

fn line(effect: &Effect) -> String {
    match effect {
        Effect::Record { entry, sync } => {
            let verb = match sync {
                Sync::Now => "record now:",
                Sync::Soon => "record",
            };
            format!("{verb} {}", self::entry(entry))
        }
        Effect::CallModel { call, request } => format!("call {call} {}", self::request(request)),
        Effect::CancelModel { call } => format!("cancel call {call}"),
        Effect::Show { call, event } => format!("show {call} {event:?}"),
        Effect::Void { call } => format!("void {call}"),
        Effect::RunTool { run, tool_use, .. } => format!("run {run} {}", self::tool_use(tool_use)),
        Effect::CancelTool { run } => format!("cancel run {run}"),
        Effect::Consult { consult, tool_use } => {
            format!("consult {consult} {}", self::tool_use(tool_use))
        }
        Effect::CancelConsult { consult } => format!("cancel consult {consult}"),
        Effect::Ask {
            ask,
            tool_use,
            reason,
            ..
        } => format!("ask {ask} {}: {reason}", self::tool_use(tool_use)),
        Effect::CancelAsk { ask } => format!("cancel ask {ask}"),
        Effect::AskStop { stop, active } => {
            format!(
                "ask whether to stop {stop}{}",
                if *active { ", again" } else { "" }
            )
        }
        Effect::CancelStop { stop } => format!("cancel stop {stop}"),
        Effect::StartTimer { timer, after } => format!("start timer {timer} of {after:?}"),
        Effect::CancelTimer { timer } => format!("cancel timer {timer}"),
        Effect::PrepareCompaction {
            compaction,
            trigger,
            ..
        } => format!("prepare compaction {compaction}, {}", trigger.name()),
        Effect::CancelCompaction { compaction } => format!("cancel compaction {compaction}"),
        Effect::CompactionEnded {
            compaction,
            failure,
            ..
        } => match failure {
            None => format!("compaction {compaction} done"),
            Some(failure) => format!("compaction {compaction} failed: {failure}"),
        },
        Effect::EndTurn { end, unsent } => {
            let unsent: Vec<_> = unsent.iter().map(|said| content(said)).collect();
            let unsent = if unsent.is_empty() {
                String::new()
            } else {
                format!(", unsent: {}", unsent.join(" / "))
            };
            format!("END {}{unsent}", self::end(end))
        }
    }
}

fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Message(message) => match message.message() {
            Message::User(said) => format!("user: {}", content(said)),
            Message::Assistant(reply) => assistant(reply),
            Message::ToolResults(results) => format!("results {results:?}"),
        },
        Entry::CallStarted { tool_use_id } => format!("started {tool_use_id}"),
        Entry::CallRewritten { tool_use_id, input } => {
            format!("rewritten {tool_use_id}: {}", input.get())
        }
        Entry::CallFinished(result) => {
            let error = if result.is_error { " (error)" } else { "" };
            let id = &result.tool_use_id;
            format!("finished {id}{error}: {}", content(&result.content))
        }
        Entry::Permission {
            tool_use_id,
            permission,
        } => match permission {
            Permission::Allowed { rule: None } => format!("allowed {tool_use_id}"),
            Permission::Allowed { rule: Some(rule) } => {
                format!("allowed {tool_use_id}, rule {rule}")
            }
            Permission::Denied { reason, stops } => {
                let stops = if *stops { " (stops)" } else { "" };
                format!("denied {tool_use_id}{stops}: {reason}")
            }
        },
        Entry::Retry {
            call,
            attempt,
            error,
            wait_ms,
            voided,
            left_out,
        } => {
            let voided = if *voided { ", voided" } else { "" };
            let without = left_out.map_or_else(String::new, |part| format!(", without {part:?}"));
            let error = short(&error.message);
            format!("retry of {call}, failure {attempt}, in {wait_ms} ms{voided}{without}: {error}")
        }
        Entry::Discarded { usage } => {
            format!("paid {} + {}", usage.input_tokens, usage.output_tokens)
        }
        Entry::Spent { tokens, cost: None } => format!("spent {tokens}"),
        Entry::Spent {
            tokens,
            cost: Some(cost),
        } => format!("spent {tokens}, {cost}"),
        Entry::Shortened { results, .. } => {
            let ids: Vec<_> = results.iter().map(ToString::to_string).collect();
            format!("shortened {}", ids.join(" "))
        }
        Entry::Compacted {
            cut,
            request,
            carried,
            trigger,
            ..
        } => {
            let said: Vec<_> = request
                .iter()
                .chain(carried)
                .map(|part| content(std::slice::from_ref(part)))
                .collect();
            let said = if said.is_empty() {
                String::new()
            } else {
                format!(", with {}", said.join(" / "))
            };
            format!("compacted {cut} ({}){said}", trigger.name())
        }
        Entry::Rewound { turn } => format!("rewound to before turn {turn}"),
        Entry::Continue(reason) => match reason {
            Continue::FallbackModel { model } => format!("go on: fallback model {model}"),
            reason => format!("go on: {}", self::reason(reason)),
        },
        Entry::TurnEnd(end) => format!("end: {}", self::end(end)),
    }
}

/// The cap, then who spoke, with the ids of the tool uses and the attachments. Fails if a strict provider would refuse
/// the request.
fn request(request: &Request) -> String {
    assert_eq!(faults(&request.messages), Vec::<String>::new());
    let messages: Vec<_> = request
        .messages
        .iter()
        .map(|message| match message.message() {
            Message::User(said) => format!("user{}", attached(said)),
            Message::Assistant(reply) => {
                let ids = reply.tool_uses().map(|tool_use| &tool_use.id);
                ids.fold("model".into(), |line, id| format!("{line} {id}"))
            }
            Message::ToolResults(results) => {
                let ids = results
                    .iter()
                    .map(|result| format!("{}{}", result.tool_use_id, attached(&result.content)));
                ids.fold("results".into(), |line, id| format!("{line} {id}"))
            }
        })
        .collect();
    let cap = match request.max_output_tokens {
        Some(cap) => format!(" cap {cap}"),
        None => String::new(),
    };
    let model = if request.model.is_empty() {
        String::new()
    } else {
        format!("{} ", request.model)
    };
    let form = if request.output_schema.is_some() {
        " in a form"
    } else {
        ""
    };
    format!("{model}[{}]{cap}{form}", messages.join(", "))
}

fn assistant(reply: &AssistantMessage) -> String {
    let blocks = reply.content.iter().map(|block| match block {
        ContentBlock::Text { text, .. } => format!("text {:?}", short(text)),
        ContentBlock::Thinking { text, .. } => format!("thinking {:?}", short(text)),
        ContentBlock::RedactedThinking(data) => format!("redacted {}", data.data.get()),
        ContentBlock::ToolUse(tool_use) => self::tool_use(tool_use),
        ContentBlock::Vendor(data) => format!("vendor {}", data.data.get()),
    });
    let blocks: Vec<_> = blocks.collect();
    let stop = match &reply.stop_reason {
        Some(reason) => format!("{reason:?}"),
        None => "interrupted".into(),
    };
    format!("model ({stop}): {}", blocks.join(", "))
        .trim_end()
        .into()
}

fn tool_use(tool_use: &ToolUse) -> String {
    let ToolUse { id, name, .. } = tool_use;
    format!("{name} {id} {}", tool_use.input.json())
}

fn content(content: &[Content]) -> String {
    let parts: Vec<_> = content
        .iter()
        .map(|part| match part {
            Content::Text(text) => short(text),
            Content::Image(image) => format!("image {}", image.media_type),
            Content::Document(document) => format!("document {}", document.media_type),
        })
        .collect();
    parts.join(" + ")
}

/// The attachments of a content.
fn attached(content: &[Content]) -> String {
    let names = content.iter().filter_map(|part| match part {
        Content::Text(_) => None,
        Content::Image(_) => Some("+image"),
        Content::Document(_) => Some("+document"),
    });
    names.collect()
}

fn short(text: &str) -> String {
    let text = text.replace('\n', "\\n");
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}...", text.split_at(cut).0.trim_end()),
        None => text,
    }
}

fn end(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Completed => "completed".into(),
        TurnEnd::MaxTurns { limit } => format!("max turns {limit}"),
        TurnEnd::ContextLimit { message } => format!("context limit: {message}"),
        TurnEnd::ModelError { error, attempts } => {
            format!("model error after {attempts}: {}", short(&error.message))
        }
        TurnEnd::OutputLimit => "output limit".into(),
        TurnEnd::Interrupted { during, by } => {
            let during = match during {
                During::Model => "model",
                During::Tools => "tools",
            };
            let by = match by {
                Interrupter::User => "",
                Interrupter::Shutdown => ", shutdown",
            };
            format!("interrupted, {during}{by}")
        }
        TurnEnd::Refused => "refused".into(),
        TurnEnd::LoopDetected { times } => format!("loop detected {times}"),
        TurnEnd::MaxToolCalls { limit } => format!("max tool calls {limit}"),
        TurnEnd::Budget(Budget::Tokens { limit, spent, next }) => {
            format!("budget: {spent} + {next} of {limit} tokens")
        }
        TurnEnd::Budget(Budget::Cost { limit, spent, next }) => {
            format!("budget: {spent} + {next} of {limit}")
        }
        TurnEnd::Budget(Budget::UnknownPrice { model }) => format!("budget: price of {model}"),
        TurnEnd::Deadline { limit_ms } => format!("deadline {limit_ms} ms"),
        TurnEnd::StructuredOutputFailed { tries, problem } => {
            format!("structured output failed after {tries}: {problem}")
        }
        TurnEnd::HookStopped { reason } => format!("hook stopped: {reason}"),
        TurnEnd::StopHookPrevented { reason } => format!("stop hook prevented: {reason}"),
    }
}

fn reason(reason: &Continue) -> &'static str {
    match reason {
        Continue::NextStep => "next step",
        Continue::Retry => "retry",
        Continue::EscalateOutput => "escalate output",
        Continue::ContinueOutput => "continue output",
        Continue::Steered => "steered",
        Continue::FollowUp => "follow up",
        Continue::FallbackModel { .. } => "fallback model",
        Continue::Compact => "compact",
        Continue::PauseTurn => "pause turn",
        Continue::SchemaRetry => "schema retry",
        Continue::StopHookBlocked => "stop hook blocked",
        Continue::Reminder => "reminder",
    }
}
