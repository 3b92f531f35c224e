//! What fills the window of a session's model.
//!
//! A provider tells how many tokens a request had and not what they were of, so the shares are
//! estimates, brought to what it counted. It knows no session: it is made of the kernel's state.

use std::collections::{BTreeMap, HashMap};

use tooloop_kernel::{Kernel, estimate};
use tooloop_model::{AssistantMessage, Content, ContentBlock, Message, ToolUseId};

/// What fills the window, in tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextReport {
    /// The model that is asked.
    pub model: String,
    /// Its window; `None` if it is not known.
    pub window: Option<u64>,
    /// What is set aside for the reply; 0 if the window is not known.
    pub output_reserve: u64,
    /// Beyond so many tokens the conversation is summed up by itself; `None` if it is not.
    pub threshold: Option<u64>,
    /// What the next request sends, likely: what the provider has counted, and an estimate of the
    /// rest.
    pub used: u64,
    /// What the provider has counted of it; `None` if it has counted nothing, or other things.
    pub counted: Option<u64>,
    /// How far estimates were out, in percent of what was counted then; `None` before the first.
    pub estimate_error_percent: Option<u64>,
    /// What an estimated token is in the provider's tokens, by what was learnt.
    pub estimate_factor: f64,
    /// How often the conversation was summed up.
    pub compactions: u32,
    /// What it is made of. The sum is [`ContextReport::used`].
    pub rows: Vec<ContextRow>,
}

/// A part of what fills the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRow {
    /// What it is.
    pub kind: ContextKind,
    /// Which one of its kind: a section's, a tool's name; empty if there is one alone.
    pub name: String,
    /// Its tokens.
    pub tokens: u64,
}

/// What a part of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContextKind {
    /// The system prompt, or a section of it.
    System,
    /// The definition of a tool.
    Tool,
    /// The summary of what was said before, and what goes with it.
    Summary,
    /// What the user has said.
    User,
    /// What the harness has said in the user's place.
    Reminder,
    /// What the model has said, its reasoning included.
    Model,
    /// The calls that it has made.
    Calls,
    /// The results of a tool.
    Results,
}

impl ContextKind {
    /// Its name, as in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Tool => "tool",
            Self::Summary => "summary",
            Self::User => "user",
            Self::Reminder => "reminder",
            Self::Model => "model",
            Self::Calls => "calls",
            Self::Results => "results",
        }
    }
}

impl ContextReport {
    /// What is left of the window beside what is used and what is set aside for the reply; `None` if
    /// the window is not known.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        let window = self.window?;
        Some(window.saturating_sub(self.used.saturating_add(self.output_reserve)))
    }
}

/// What fills the window now. `sections` are those of the system prompt with their tokens; none if
/// they are not known.
pub(crate) fn report(kernel: &Kernel, sections: &[(String, u64)]) -> ContextReport {
    let room = kernel.room();
    let transcript = kernel.transcript();
    let settings = kernel.settings();
    let used = kernel.likely_input();
    let mut parts = Parts::default();
    if sections.is_empty() {
        let system = estimate::text(&settings.system);
        parts.add(ContextKind::System, "", system);
    }
    for (name, tokens) in sections {
        parts.add(ContextKind::System, name, *tokens);
    }
    for tool in settings.tools.iter() {
        parts.add(ContextKind::Tool, &tool.name, estimate::definition(tool));
    }
    let mut tools = HashMap::new();
    for (place, message) in transcript.messages().iter().enumerate() {
        match message.message() {
            // What stands for what was summed up is the first message.
            Message::User(_) if place == 0 && transcript.summed_up() > 0 => {
                parts.add(ContextKind::Summary, "", estimate::message(message));
            }
            Message::User(content) => {
                let reminders = content.iter().filter(|part| is_reminder(part));
                let reminders = reminders.map(text).fold(0, u64::saturating_add);
                let all = estimate::message(message);
                parts.add(ContextKind::Reminder, "", reminders);
                parts.add(ContextKind::User, "", all.saturating_sub(reminders));
            }
            Message::Assistant(reply) => {
                let calls = calls(reply, &mut tools);
                let all = estimate::message(message);
                parts.add(ContextKind::Calls, "", calls);
                parts.add(ContextKind::Model, "", all.saturating_sub(calls));
            }
            Message::ToolResults(results) => {
                for result in results {
                    let tool = tools.get(&result.tool_use_id).copied();
                    let tool = tool.unwrap_or("a call before the summary");
                    parts.add(ContextKind::Results, tool, estimate::result(result));
                }
            }
        }
    }
    ContextReport {
        model: settings.model.clone(),
        window: room.map(|room| room.window),
        output_reserve: room.map_or(0, |room| room.output),
        threshold: room
            .filter(|_| settings.compaction)
            .map(|room| room.threshold()),
        used,
        counted: kernel.counted_input(),
        estimate_error_percent: transcript.calibration().error_percent(),
        estimate_factor: transcript.calibration().factor(),
        compactions: transcript.compactions(),
        rows: parts.scaled(used),
    }
}

/// The tokens of the calls in a reply, whose tools are noted.
fn calls<'a>(reply: &'a AssistantMessage, tools: &mut HashMap<&'a ToolUseId, &'a str>) -> u64 {
    let mut tokens = 0_u64;
    for block in &reply.content {
        let ContentBlock::ToolUse(tool_use) = block else {
            continue;
        };
        tools.insert(&tool_use.id, &tool_use.name);
        for part in [&*tool_use.id.0, &*tool_use.name, tool_use.input.json()] {
            tokens = tokens.saturating_add(estimate::text(part));
        }
    }
    tokens
}

fn is_reminder(part: &Content) -> bool {
    match part {
        Content::Text(text) => text.starts_with("<reminder>\n") && text.ends_with("\n</reminder>"),
        Content::Image(_) | Content::Document(_) => false,
    }
}

fn text(part: &Content) -> u64 {
    match part {
        Content::Text(text) => estimate::text(text),
        Content::Image(_) | Content::Document(_) => 0,
    }
}

/// Parts in the order of their kinds; sections and tools in their own order, results by size.
#[derive(Default)]
struct Parts {
    rows: Vec<ContextRow>,
    places: BTreeMap<(ContextKind, String), usize>,
}

impl Parts {
    fn add(&mut self, kind: ContextKind, name: &str, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let place = *self
            .places
            .entry((kind, name.to_owned()))
            .or_insert(self.rows.len());
        match self.rows.get_mut(place) {
            Some(row) => row.tokens = row.tokens.saturating_add(tokens),
            None => self.rows.push(ContextRow {
                kind,
                name: name.to_owned(),
                tokens,
            }),
        }
    }

    /// The parts so that they come to this sum.
    fn scaled(self, sum: u64) -> Vec<ContextRow> {
        let mut rows = self.rows;
        rows.sort_by_key(|row| {
            let size = match row.kind {
                ContextKind::Results => u64::MAX.saturating_sub(row.tokens),
                ContextKind::System
                | ContextKind::Tool
                | ContextKind::Summary
                | ContextKind::User
                | ContextKind::Reminder
                | ContextKind::Model
                | ContextKind::Calls => 0,
            };
            (row.kind, size)
        });
        let estimated: u128 = rows.iter().map(|row| u128::from(row.tokens)).sum();
        // Each ends where its share of the sum ends, so that nothing is lost by rounding.
        let mut before = 0_u128;
        let mut told = 0_u64;
        for row in &mut rows {
            before = before.saturating_add(u128::from(row.tokens));
            let end = (before * u128::from(sum)).checked_div(estimated);
            let end = end.and_then(|end| u64::try_from(end).ok()).unwrap_or(sum);
            row.tokens = end.saturating_sub(told);
            told = end;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_to_the_sum() {
        let mut parts = Parts::default();
        parts.add(ContextKind::Results, "read", 10);
        parts.add(ContextKind::Results, "bash", 20);
        parts.add(ContextKind::User, "", 1);
        parts.add(ContextKind::Results, "read", 30);
        parts.add(ContextKind::Reminder, "", 0);
        parts.add(ContextKind::Tool, "read", 2);
        parts.add(ContextKind::Tool, "bash", 3);
        let rows = parts.scaled(100);
        let row = |kind, name: &str, tokens| ContextRow {
            kind,
            name: name.into(),
            tokens,
        };
        assert_eq!(
            rows,
            [
                row(ContextKind::Tool, "read", 3),
                row(ContextKind::Tool, "bash", 4),
                row(ContextKind::User, "", 2),
                row(ContextKind::Results, "read", 60),
                row(ContextKind::Results, "bash", 31),
            ]
        );
        assert!(Parts::default().scaled(7).is_empty());
    }
}
