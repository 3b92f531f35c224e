//! A record as what a reader sees of it, whatever the form.

use std::collections::HashMap;

use jiff::Timestamp;
use tooloop::journal::{Line, Record};
use tooloop::provider::Redactor;
use tooloop::{
    AssistantMessage, Content, ContentBlock, Continue, Entry, Image, Message, Permission,
    ToolInput, ToolResult, ToolUse, ToolUseId, Transcript, Usage,
};

use crate::exit;
use crate::text::{clean, count, money, span};

/// A piece of an export. All text is harmless; nothing of it is marked up yet.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// A heading, where the kind has one of its own.
    pub(super) title: String,
    pub(super) text: String,
    pub(super) images: Vec<Image>,
    pub(super) time: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prompt,
    /// What the model said, in Markdown.
    Answer,
    Thinking,
    Call,
    Result,
    Failure,
    /// A word of the harness.
    Note,
}

impl Item {
    fn new(kind: Kind, title: impl Into<String>, text: &str) -> Self {
        Self {
            kind,
            title: title.into(),
            text: harmless(text),
            images: Vec::new(),
            time: None,
        }
    }

    fn note(text: &str) -> Self {
        Self::new(Kind::Note, "", text)
    }

    pub(super) fn without_secrets(mut self, redactor: &Redactor) -> Self {
        redactor.redact_text(&mut self.text);
        redactor.redact_text(&mut self.title);
        self
    }
}

/// Nothing in it steers a terminal or turns the order of what is read. Tabs stay.
fn harmless(text: &str) -> String {
    let parts: Vec<_> = text.split('\t').map(clean).collect();
    parts.join("\t")
}

/// Tells records.
#[derive(Debug, Default)]
pub(super) struct Teller {
    /// The tools of calls that have no answer yet.
    open: HashMap<ToolUseId, String>,
    first: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl Teller {
    pub(super) fn tell(&mut self, line: &Line) -> Vec<Item> {
        match line {
            Line::Record(record) => self.record(record),
            Line::Unknown(record) => {
                let kind = record.kind().unwrap_or_default();
                let words = format!("(an entry that this version does not know: {kind})");
                vec![Item::note(&words)]
            }
        }
    }

    fn record(&mut self, record: &Record) -> Vec<Item> {
        self.first.get_or_insert(record.time);
        self.newest = Some(record.time);
        let mut items = match &record.entry {
            Entry::Message(message) => match message.message() {
                Message::User(content) => {
                    self.open.clear();
                    let said: Vec<_> = Content::said(content).cloned().collect();
                    if said.is_empty() {
                        // Nobody said it but the harness.
                        Vec::new()
                    } else {
                        vec![with_content(Item::new(Kind::Prompt, "Prompt", ""), &said)]
                    }
                }
                Message::Assistant(reply) => self.reply(reply),
                Message::ToolResults(results) => {
                    results.iter().map(|result| self.result(result)).collect()
                }
            },
            Entry::CallFinished(result) => vec![self.result(result)],
            Entry::CallStarted { .. } => Vec::new(),
            Entry::CallRewritten { tool_use_id, input } => {
                let tool = self.tool(tool_use_id);
                vec![Item::note(&format!(
                    "{tool} is run with {} in its place",
                    input.get()
                ))]
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => {
                let tool = self.tool(tool_use_id);
                let words = match permission {
                    Permission::Allowed { rule: None } => format!("allowed: {tool}"),
                    Permission::Allowed { rule: Some(rule) } => {
                        format!("allowed: {tool}, and from now on {rule}")
                    }
                    Permission::Denied { reason, .. } => format!("refused: {tool}: {reason}"),
                };
                vec![Item::note(&words)]
            }
            Entry::Retry {
                attempt,
                error,
                wait_ms,
                ..
            } => vec![Item::note(&format!(
                "the model call failed, attempt {attempt}; tried again after {wait_ms} ms: {}",
                error.message
            ))],
            Entry::Discarded { usage } => {
                vec![Item::note(&format!(
                    "a reply was thrown away: {}",
                    used(*usage)
                ))]
            }
            Entry::Spent { .. } => Vec::new(),
            Entry::Continue(reason) => match reason {
                Continue::NextStep | Continue::Retry | Continue::Compact => Vec::new(),
                Continue::FallbackModel { model } => {
                    vec![Item::note(&format!("another model goes on: {model}"))]
                }
                Continue::EscalateOutput
                | Continue::ContinueOutput
                | Continue::Steered
                | Continue::FollowUp
                | Continue::PauseTurn
                | Continue::SchemaRetry
                | Continue::StopHookBlocked
                | Continue::Reminder => {
                    let name = reason.name().replace('_', " ");
                    vec![Item::note(&format!("goes on: {name}"))]
                }
            },
            Entry::TurnEnd(end) => {
                let words = exit::words(end).unwrap_or_else(|| "completed".into());
                vec![Item::note(&format!("end of the turn: {words}"))]
            }
            Entry::Shortened {
                results,
                before,
                after,
            } => vec![Item::note(&format!(
                "{} old results were cut short to make room: about {before} tokens, now {after}",
                results.len()
            ))],
            Entry::Compacted {
                summary,
                before,
                after,
                ..
            } => vec![Item::note(&format!(
                "the conversation was summed up: about {before} tokens, now {after}\n\n{summary}"
            ))],
            Entry::Rewound { turn } => vec![Item::note(&format!(
                "taken back to before turn {turn}: what was said since is no part of the \
                 conversation any more"
            ))],
        };
        for item in &mut items {
            item.time = Some(record.time);
        }
        items
    }

    /// What it all came to.
    pub(super) fn sum(&self, transcript: &Transcript) -> Vec<Item> {
        let mut words = vec![format!("in all {}", used(transcript.usage()))];
        let spent = transcript.spent();
        if spent.0 > 0 {
            words.push(money(spent.as_usd()));
        }
        if let (Some(first), Some(newest)) = (self.first, self.newest) {
            let long = newest.duration_since(first).unsigned_abs();
            words.push(format!("{} from the first record to the last", span(long)));
        }
        vec![Item::note(&words.join(" · "))]
    }

    fn reply(&mut self, reply: &AssistantMessage) -> Vec<Item> {
        let mut items = Vec::new();
        for block in &reply.content {
            match block {
                ContentBlock::Text { text, .. } if text.trim().is_empty() => {}
                ContentBlock::Text { text, .. } => {
                    items.push(Item::new(Kind::Answer, "Answer", text));
                }
                ContentBlock::Thinking { text, .. } => {
                    items.push(Item::new(Kind::Thinking, "Thinking", text));
                }
                ContentBlock::RedactedThinking(_) => {
                    let words = "(only the provider can read it)";
                    items.push(Item::new(Kind::Thinking, "Thinking", words));
                }
                ContentBlock::ToolUse(tool_use) => items.push(self.call(tool_use)),
                ContentBlock::Vendor(_) => {
                    items.push(Item::note("(a block that only the provider understands)"));
                }
            }
        }
        if !reply.usage.is_empty() {
            let model = reply.model.as_deref().unwrap_or_default();
            items.push(Item::note(
                format!("{model} {}", used(reply.usage)).trim_start(),
            ));
        }
        items
    }

    fn call(&mut self, tool_use: &ToolUse) -> Item {
        self.open.insert(tool_use.id.clone(), tool_use.name.clone());
        let input = match &tool_use.input {
            ToolInput::Valid(input) => serde_json::to_string_pretty(&input.to_value())
                .unwrap_or_else(|_| input.get().to_owned()),
            ToolInput::Invalid { raw, reason } => format!("{raw}\n({reason})"),
        };
        Item::new(Kind::Call, harmless(&tool_use.name), &input)
    }

    fn result(&mut self, result: &ToolResult) -> Item {
        let tool = self.tool(&result.tool_use_id);
        self.open.remove(&result.tool_use_id);
        let (kind, title) = if result.is_error {
            (Kind::Failure, format!("{tool} failed"))
        } else {
            (Kind::Result, format!("{tool}: result"))
        };
        with_content(Item::new(kind, harmless(&title), ""), &result.content)
    }

    fn tool(&self, id: &ToolUseId) -> String {
        let name = self.open.get(id).cloned();
        name.unwrap_or_else(|| "a call".into())
    }
}

fn with_content(mut item: Item, content: &[Content]) -> Item {
    let mut texts = Vec::new();
    for part in content {
        match part {
            Content::Text(text) => texts.push(harmless(text)),
            Content::Image(image) => item.images.push(image.clone()),
            Content::Document(document) => {
                let title = document.title.as_deref().unwrap_or("without a name");
                texts.push(format!(
                    "(a document, {title}, {})",
                    harmless(&document.media_type)
                ));
            }
        }
    }
    item.text = texts.join("\n");
    item
}

fn used(usage: Usage) -> String {
    let mut words = format!("{} tokens in", count(usage.input_tokens));
    if usage.cache_read_tokens > 0 {
        words.push_str(&format!(
            " ({} from the cache)",
            count(usage.cache_read_tokens)
        ));
    }
    words.push_str(&format!(", {} out", count(usage.output_tokens)));
    words
}
