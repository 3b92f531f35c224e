//! What one hook has said, read from what it printed and how it ended.
//!
//! A hook that cannot be understood has said nothing, and that is told: it neither allows nor denies.
//! A decision that is not known is a question, since the hook wanted something.

use serde_json::{Map, Value};
use tooloop_model::JsonObject;

use super::{HookEnd, HookEvent, HookOutcome, HookRule, names};

/// The most characters that a hook may have the model read.
const CONTEXT: usize = 10_000;

/// How much of a failed hook's errors is told, in lines and in characters.
const ERROR_LINES: usize = 4;
const ERROR_CHARACTERS: usize = 400;

/// What one hook has said.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub(super) decided: Option<Decided>,
    pub(super) input: Option<JsonObject>,
    pub(super) block: Option<String>,
    pub(super) context: Vec<String>,
    pub(super) stop: Option<String>,
    /// What the user is to be told.
    pub(super) message: Option<String>,
    /// Its output is not to be shown.
    pub(super) is_quiet: bool,
    /// What is wrong with it, for a person.
    pub(super) warnings: Vec<String>,
}

/// What a hook says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decided {
    Allow,
    Ask(String),
    Deny(String),
}

/// Reads what a hook has said. `told` is the input of the call as the hook was told it.
pub(super) fn read(
    rule: &HookRule,
    outcome: &HookOutcome,
    tool: Option<&str>,
    told: &Value,
) -> Answer {
    let mut answer = Answer::default();
    let reader = Reader { rule, tool, told };
    match &outcome.end {
        HookEnd::Exited(0) => reader.printed(outcome, &mut answer),
        HookEnd::Exited(2) => reader.blocked(&outcome.stderr, &mut answer),
        HookEnd::Exited(status) => {
            let errors = first_lines(&outcome.stderr);
            reader.warn(format!("ended with status {status}{errors}"), &mut answer);
        }
        HookEnd::TimedOut => {
            let limit = rule.timeout.as_secs_f64();
            let words = format!("took longer than {limit} s and was ended: it is not heard");
            reader.warn(words, &mut answer);
        }
        HookEnd::Failed { reason } => reader.warn(format!("did not run: {reason}"), &mut answer),
    }
    answer
}

struct Reader<'a> {
    rule: &'a HookRule,
    tool: Option<&'a str>,
    told: &'a Value,
}

impl Reader<'_> {
    fn warn(&self, words: impl AsRef<str>, answer: &mut Answer) {
        answer.warnings.push(self.named(words.as_ref()));
    }

    /// What is said of a hook names it.
    fn named(&self, words: &str) -> String {
        let HookRule {
            event,
            command,
            source,
            ..
        } = self.rule;
        let command = short(command, 80);
        format!("{event} hook {source} ({command}): {words}")
    }

    /// It ended with status 2.
    fn blocked(&self, stderr: &str, answer: &mut Answer) {
        let said = stderr.trim();
        let reason = if said.is_empty() {
            format!(
                "the hook {} refuses, and does not say why",
                self.rule.source
            )
        } else {
            cut(said)
        };
        match self.rule.event {
            HookEvent::PreToolUse | HookEvent::PermissionRequest => {
                answer.decided = Some(Decided::Deny(reason));
            }
            HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::SubagentStop
            | HookEvent::PreCompact => answer.block = Some(reason),
            // There is nothing that could be blocked.
            HookEvent::SessionStart
            | HookEvent::SubagentStart
            | HookEvent::SessionEnd
            | HookEvent::Notification => {
                self.warn(reason, answer);
            }
        }
    }

    /// It ended well.
    fn printed(&self, outcome: &HookOutcome, answer: &mut Answer) {
        let text = outcome.stdout.trim();
        if !text.starts_with('{') {
            let is_context = matches!(
                self.rule.event,
                HookEvent::UserPromptSubmit | HookEvent::SessionStart | HookEvent::SubagentStart
            );
            if is_context && !text.is_empty() {
                answer.context.push(cut(text));
            }
            return;
        }
        if outcome.is_cut {
            return self.warn("printed more than is read: it is not heard", answer);
        }
        match serde_json::from_str::<Map<String, Value>>(text) {
            Ok(said) => self.said(&said, answer),
            Err(error) => self.warn(
                format!("printed what begins like JSON and is none ({error}): it is not heard"),
                answer,
            ),
        }
    }

    fn said(&self, said: &Map<String, Value>, answer: &mut Answer) {
        answer.is_quiet = self.field(said, "suppressOutput", Value::as_bool, answer) == Some(true);
        answer.message = self.text(said, "systemMessage", answer);
        let reason = self.text(said, "reason", answer);
        let stop_reason = self.text(said, "stopReason", answer);
        if self.field(said, "continue", Value::as_bool, answer) == Some(false) {
            let words = stop_reason.or_else(|| reason.clone());
            answer.stop =
                Some(words.unwrap_or_else(|| format!("the hook {} wants it so", self.rule.source)));
        }
        if let Some(decision) = self.text(said, "decision", answer) {
            self.decision(&decision, reason, answer);
        }
        let Some(more) = said.get("hookSpecificOutput") else {
            return;
        };
        let Value::Object(more) = more else {
            return self.warn("hookSpecificOutput is no object: it is not heard", answer);
        };
        let about = self.text(more, "hookEventName", answer);
        if about.is_some_and(|about| about != self.rule.event.name()) {
            let words = "hookSpecificOutput is about another event: it is not heard";
            return self.warn(words, answer);
        }
        self.specific(more, answer);
    }

    /// The older way to say whether something may be.
    fn decision(&self, decision: &str, reason: Option<String>, answer: &mut Answer) {
        let about_a_call = matches!(
            self.rule.event,
            HookEvent::PreToolUse | HookEvent::PermissionRequest
        );
        match decision {
            "approve" | "allow" if about_a_call => answer.decided = Some(Decided::Allow),
            "approve" | "allow" => {}
            "block" | "deny" => self.blocked(&reason.unwrap_or_default(), answer),
            other => self.unknown("decision", other, answer),
        }
    }

    fn specific(&self, more: &Map<String, Value>, answer: &mut Answer) {
        let context = self.text(more, "additionalContext", answer);
        answer.context.extend(context.map(|text| cut(&text)));
        match self.rule.event {
            HookEvent::PreToolUse => {
                let reason = self.text(more, "permissionDecisionReason", answer);
                let reason =
                    reason.unwrap_or_else(|| format!("the hook {} says so", self.rule.source));
                match self.text(more, "permissionDecision", answer).as_deref() {
                    None => {}
                    Some("allow") => answer.decided = Some(Decided::Allow),
                    Some("ask") => answer.decided = Some(Decided::Ask(cut(&reason))),
                    Some("deny") => answer.decided = Some(Decided::Deny(cut(&reason))),
                    Some(other) => self.unknown("permissionDecision", other, answer),
                }
                self.input(more, answer);
            }
            HookEvent::PermissionRequest => {
                let Some(decision) = more.get("decision") else {
                    return;
                };
                let Value::Object(decision) = decision else {
                    return self.warn("decision is no object: it is not heard", answer);
                };
                let message = self.text(decision, "message", answer).unwrap_or_default();
                match self.text(decision, "behavior", answer).as_deref() {
                    Some("allow") => {
                        answer.decided = Some(Decided::Allow);
                        self.input(decision, answer);
                    }
                    Some("deny") => {
                        self.blocked(&message, answer);
                        if decision.get("interrupt") == Some(&Value::Bool(true)) {
                            answer.stop = Some(message);
                        }
                    }
                    None => {}
                    Some(other) => self.unknown("behavior", other, answer),
                }
            }
            HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::UserPromptSubmit
            | HookEvent::Stop
            | HookEvent::SubagentStart
            | HookEvent::SubagentStop
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::PreCompact
            | HookEvent::Notification => {}
        }
    }

    /// It wanted something, and nobody knows what.
    fn unknown(&self, key: &str, word: &str, answer: &mut Answer) {
        let words = format!("{key} is {:?}, which is not known", short(word, 40));
        if self.rule.event == HookEvent::PreToolUse {
            answer.decided = Some(Decided::Ask(self.named(&words)));
        }
        self.warn(words, answer);
    }

    fn input(&self, said: &Map<String, Value>, answer: &mut Answer) {
        match said.get("updatedInput") {
            None | Some(Value::Null) => {}
            Some(Value::Object(input)) => {
                let tool = self.tool.unwrap_or_default();
                let input = names::with_our_fields(tool, input.clone(), self.told);
                match JsonObject::parse(&Value::Object(input).to_string()) {
                    Ok(input) => answer.input = Some(input),
                    Err(error) => {
                        self.warn(format!("updatedInput cannot be used: {error}"), answer);
                    }
                }
            }
            Some(_) => self.warn("updatedInput is no object: it is not taken", answer),
        }
    }

    fn text(&self, said: &Map<String, Value>, key: &str, answer: &mut Answer) -> Option<String> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.field(said, key, text, answer)
    }

    fn field<T>(
        &self,
        said: &Map<String, Value>,
        key: &str,
        read: impl Fn(&Value) -> Option<T>,
        answer: &mut Answer,
    ) -> Option<T> {
        let value = said.get(key).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.warn(
                format!("{key} is of the wrong type: it is not heard"),
                answer,
            );
        }
        read
    }
}

/// What the model may be told, bounded.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CONTEXT) {
        None => text.into(),
        Some((at, _)) => {
            let left_out = text.chars().count().saturating_sub(CONTEXT);
            let (kept, _) = text.split_at(at);
            format!("{kept}\n[... {left_out} more characters of a hook are left out]")
        }
    }
}

fn first_lines(stderr: &str) -> String {
    let lines: Vec<_> = stderr.trim().lines().take(ERROR_LINES).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(": {}", short(&lines.join("; "), ERROR_CHARACTERS))
}

fn short(text: &str, characters: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(characters).map(clean).collect();
    if text.chars().count() > characters {
        short.push_str("...");
    }
    short
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
