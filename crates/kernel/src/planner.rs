//! What a model's window has room for, and what goes when it is full.
//!
//! Pure arithmetic over a history: what is to be cut short, what is to be summed up, what is kept.
//! When that is done, and what comes of it, is the machine's part (`machine/compacting.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use tooloop_model::{Content, ContentBlock, HistoryMessage, Message, ToolUse, ToolUseId};

use crate::estimate;

/// The tokens between the point at which the conversation is summed up and the reply that must
/// still fit: what one step may add before anybody counts it.
const MARGIN: u64 = 13_000;

/// The newest tokens that a summary leaves as they are.
const KEEP: u64 = 20_000;

/// The longest summary.
const SUMMARY: u64 = 8_000;

/// What tools carry over, five pieces of 5,000 tokens.
const CARRIED: u64 = 25_000;

/// A window below this is shared out more sparingly.
const SMALL_WINDOW: u64 = 32_000;

/// A result that likely has fewer tokens is left as it is.
const LEAST_STALE: u64 = 150;

/// What is left of a result that is cut short, in characters: so much of its beginning, and so much
/// of its end.
pub(crate) const LEFT: usize = 120;

/// How a model's window is shared out, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// The whole window, input and output together.
    pub window: u64,
    /// The system prompt and the tools.
    pub fixed: u64,
    /// What is set aside for the reply.
    pub output: u64,
}

impl Room {
    /// Shares a window out. `cap` is the output cap.
    #[must_use]
    pub fn new(window: u64, fixed: u64, cap: Option<u64>) -> Self {
        let free = window.saturating_sub(fixed);
        let most = if window < SMALL_WINDOW {
            free / 6
        } else {
            free / 3
        };
        Self {
            window,
            fixed,
            output: cap.map_or(most, |cap| cap.min(most)),
        }
    }

    /// Beyond so many tokens of input the conversation is summed up: the window less the output cap
    /// and 13,000 tokens, or less in a small window.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        let free = self.window.saturating_sub(self.fixed);
        let margin = MARGIN.min(free / 9);
        self.window
            .saturating_sub(self.output)
            .saturating_sub(margin)
    }

    /// Beyond so many tokens of input there is no room for a reply that is worth it.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.window.saturating_sub((self.output / 2).clamp(1, 1024))
    }

    /// What the conversation may have before it is summed up.
    const fn conversation(&self) -> u64 {
        let free = self.window.saturating_sub(self.fixed);
        let margin = if free / 9 < MARGIN { free / 9 } else { MARGIN };
        free.saturating_sub(self.output).saturating_sub(margin)
    }

    /// The newest tokens that a summary leaves as they are.
    pub(crate) fn keep(&self) -> u64 {
        KEEP.min(self.conversation() / 5)
    }

    /// The longest summary.
    pub(crate) fn summary(&self) -> u64 {
        SUMMARY.min(self.conversation() / 6).max(64)
    }

    /// What tools may carry over in all.
    pub(crate) fn carried(&self) -> u64 {
        CARRIED.min(self.conversation() / 6)
    }

    /// What the input must come down to for cutting results short to be worth it.
    pub(crate) const fn relief(&self) -> u64 {
        self.fixed.saturating_add(self.conversation() / 10 * 6)
    }
}

/// Where what no model has answered yet begins: it is kept whatever its size, and its results are
/// never shortened.
fn unseen(messages: &[Arc<HistoryMessage>]) -> usize {
    let newest = messages
        .iter()
        .rposition(|message| matches!(message.message(), Message::Assistant(_)));
    match newest {
        None => 0,
        Some(reply) => match messages.get(reply.saturating_add(1)).map(|m| m.message()) {
            // The reply's calls, and their results.
            Some(Message::ToolResults(_)) => reply,
            Some(Message::User(_) | Message::Assistant(_)) | None => reply.saturating_add(1),
        },
    }
}

/// How many of the oldest messages a summary stands for, if it leaves the newest `keep` tokens, or
/// what is not answered yet if that is more. Never parts a call from its result.
pub(crate) fn cut(messages: &[Arc<HistoryMessage>], keep: u64) -> usize {
    let mut cut = unseen(messages);
    let after = messages.get(cut..).unwrap_or_default();
    let mut tokens = estimate::messages(after);
    for (place, message) in messages.iter().enumerate().take(cut).rev() {
        tokens = tokens.saturating_add(estimate::message(message));
        if tokens > keep {
            break;
        }
        if begins(message) {
            cut = place;
        }
    }
    cut
}

/// Whether a history may begin with this message.
pub(crate) fn begins(message: &HistoryMessage) -> bool {
    match message.message() {
        Message::User(_) | Message::Assistant(_) => true,
        Message::ToolResults(_) => false,
    }
}

/// The results that may be cut short: those that are older than what is kept, and those of calls
/// that were made again later; of what the model has seen.
pub(crate) fn stale(messages: &[Arc<HistoryMessage>], keep: u64) -> Vec<ToolUseId> {
    let unseen = unseen(messages);
    let cut = cut(messages, keep);
    let mut again: HashSet<(&str, &str)> = HashSet::new();
    let mut superseded: HashSet<&ToolUseId> = HashSet::new();
    for message in messages.iter().rev() {
        if let Message::Assistant(reply) = message.message() {
            for tool_use in reply.content.iter().rev().filter_map(tool_use) {
                if !again.insert((&tool_use.name, tool_use.input.json())) {
                    superseded.insert(&tool_use.id);
                }
            }
        }
    }
    let mut results = Vec::new();
    for (place, message) in messages.iter().enumerate().take(unseen) {
        let Message::ToolResults(answers) = message.message() else {
            continue;
        };
        for answer in answers {
            let tokens = estimate::result(answer);
            if tokens >= LEAST_STALE && (place < cut || superseded.contains(&answer.tool_use_id)) {
                results.push(answer.tool_use_id.clone());
            }
        }
    }
    results
}

const fn tool_use(block: &ContentBlock) -> Option<&ToolUse> {
    match block {
        ContentBlock::ToolUse(tool_use) => Some(tool_use),
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::RedactedThinking(_)
        | ContentBlock::Vendor(_) => None,
    }
}

/// The newest messages that have at most so many tokens, for a request that is to be a summary's;
/// if some are left out, words that say so stand in their place, and what the user wants.
pub(crate) fn fitting(
    messages: &[Arc<HistoryMessage>],
    request: &[Arc<HistoryMessage>],
    most: u64,
) -> Vec<Arc<HistoryMessage>> {
    let mut tokens = estimate::messages(request);
    let mut from = messages.len();
    for (place, message) in messages.iter().enumerate().rev() {
        tokens = tokens.saturating_add(estimate::message(message));
        if tokens > most {
            break;
        }
        if begins(message) {
            from = place;
        }
    }
    if from == 0 {
        return messages.to_vec();
    }
    let words = "(The beginning of the conversation is left out here: it does not fit. What the \
                 user wants now:)";
    let mut said = vec![Content::Text(words.into())];
    for message in request {
        if let Message::User(content) = message.message() {
            said.extend(content.iter().cloned());
        }
    }
    let mut fitting = vec![Arc::new(HistoryMessage::new(Message::User(said)))];
    fitting.extend(messages.get(from..).unwrap_or_default().iter().cloned());
    fitting
}

#[cfg(test)]
mod tests {
    use tooloop_model::{AssistantMessage, JsonObject, ToolInput, ToolResult};

    use super::*;

    #[test]
    fn windows_are_shared_out() {
        let room = Room::new(100_000, 10_000, Some(8_000));
        assert_eq!(room.output, 8_000);
        assert_eq!(room.threshold(), 82_000);
        assert_eq!(room.limit(), 98_976);
        assert_eq!(room.keep(), 14_400);
        assert_eq!(room.summary(), 8_000);
        assert_eq!(room.carried(), 12_000);
        assert_eq!(room.relief(), 53_200);
        let large = Room::new(1_000_000, 0, Some(10_000));
        assert_eq!(large.threshold(), 977_000);
        assert_eq!((large.keep(), large.carried()), (20_000, 25_000));
        let small = Room::new(12_000, 0, None);
        assert_eq!(small.output, 2_000);
        assert_eq!(small.limit(), 11_000);
        assert_eq!(Room::new(100_000, 0, Some(1)).limit(), 99_999);
    }

    fn user(text: &str) -> Arc<HistoryMessage> {
        let content = vec![Content::Text(text.into())];
        Arc::new(HistoryMessage::new(Message::User(content)))
    }

    fn reply(content: Vec<ContentBlock>) -> Arc<HistoryMessage> {
        Arc::new(HistoryMessage::new(Message::Assistant(AssistantMessage {
            content,
            ..AssistantMessage::default()
        })))
    }

    fn call(id: &str, input: &str) -> Arc<HistoryMessage> {
        reply(vec![ContentBlock::ToolUse(ToolUse {
            id: ToolUseId(id.into()),
            name: "read".into(),
            input: JsonObject::parse(input).map_or_else(
                |_| ToolInput::Invalid {
                    raw: input.into(),
                    reason: String::new(),
                },
                ToolInput::Valid,
            ),
            vendor: None,
        })])
    }

    fn result(id: &str, length: usize) -> Arc<HistoryMessage> {
        let result = ToolResult::text(ToolUseId(id.into()), "x".repeat(length));
        Arc::new(HistoryMessage::new(Message::ToolResults(vec![result])))
    }

    #[test]
    fn as_many_tokens_as_are_kept_are_kept() {
        let messages = [user("one"), user("two"), user("three"), reply(Vec::new())];
        let newest = estimate::messages(&messages[2..]);
        assert_eq!(cut(&messages, newest), 2);
        assert_eq!(cut(&messages, newest - 1), 3);
        let request = [user("sum up")];
        let whole = |from: usize| {
            estimate::messages(&request) + estimate::messages(messages.get(from..).unwrap_or(&[]))
        };
        let fits = fitting(&messages, &request, whole(0));
        assert_eq!(fits.len(), 4);
        let fits = fitting(&messages, &request, whole(0) - 1);
        assert!(!fits.contains(&messages[0]), "{fits:?}");
    }

    #[test]
    fn results_of_calls_made_again_are_stale() {
        let again = [
            user("go"),
            call("a", r#"{"n":1}"#),
            result("a", 4_000),
            call("b", r#"{"n":2}"#),
            result("b", 4_000),
            call("c", r#"{"n":1}"#),
            result("c", 4_000),
            reply(Vec::new()),
        ];
        let ids =
            |found: Vec<ToolUseId>| -> Vec<String> { found.into_iter().map(|id| id.0).collect() };
        let all = estimate::messages(&again);
        assert_eq!(ids(stale(&again, all)), ["a"]);
        assert_eq!(ids(stale(&again, 0)), ["a", "b", "c"]);
        // Short ones stay.
        let short = [
            user("go"),
            call("a", "{}"),
            result("a", 10),
            call("b", "{}"),
            result("b", 10),
            reply(Vec::new()),
        ];
        assert_eq!(ids(stale(&short, 0)), [""; 0]);
    }
}
