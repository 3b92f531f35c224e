//! What one hook has said, read from what it printed and how it ended.
//!
//! Decisions are found behind and before other output. Where there may be one that cannot be read, the
//! careful outcome applies to events that can refuse, and a warning says so.

use serde_json::{Map, Value};
use tooloop_model::JsonObject;

use super::printed::{Printed, shown};
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

impl Answer {
    /// Takes in a decision: the strictest counts.
    fn decide(&mut self, decided: Decided) {
        let is_stricter = |one: &Decided| one.rank() < decided.rank();
        if self.decided.as_ref().is_none_or(is_stricter) {
            self.decided = Some(decided);
        }
    }

    /// Takes in what the same hook said after this. The newest rewritten input counts.
    fn add(&mut self, next: Self) {
        if let Some(decided) = next.decided {
            self.decide(decided);
        }
        self.input = next.input.or(self.input.take());
        self.block = self.block.take().or(next.block);
        self.context.extend(next.context);
        self.stop = self.stop.take().or(next.stop);
        self.message = self.message.take().or(next.message);
        self.is_quiet |= next.is_quiet;
        self.warnings.extend(next.warnings);
    }
}

/// What a hook says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decided {
    Allow,
    Ask(String),
    Deny(String),
}

/// Reads what a hook has said to `input`.
pub(super) fn read(
    rule: &HookRule,
    outcome: &HookOutcome,
    tool: Option<&str>,
    input: &Value,
) -> Answer {
    let mut answer = Answer::default();
    let reader = Reader { rule, tool, input };
    match &outcome.end {
        HookEnd::Exited(0) => reader.printed(outcome, &mut answer),
        HookEnd::Exited(2) => reader.blocked(&shown(&outcome.stderr), &mut answer),
        HookEnd::Exited(status) => {
            let errors = first_lines(&shown(&outcome.stderr));
            reader.warn(format!("ended with status {status}{errors}"), &mut answer);
        }
        HookEnd::TimedOut => {
            let limit = rule.timeout.as_secs_f64();
            reader.warn(
                format!("took longer than {limit} s and was ended"),
                &mut answer,
            );
            reader.refusals(outcome, &mut answer);
        }
        HookEnd::Failed { reason } => reader.warn(format!("failed: {reason}"), &mut answer),
    }
    answer
}

impl Decided {
    const fn rank(&self) -> u8 {
        match self {
            Self::Allow => 0,
            Self::Ask(_) => 1,
            Self::Deny(_) => 2,
        }
    }
}

struct Reader<'a> {
    rule: &'a HookRule,
    tool: Option<&'a str>,
    input: &'a Value,
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
                answer.decide(Decided::Deny(reason));
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
        if self.is_echo(&outcome.stdout) {
            return;
        }
        let printed = Printed::parse(&outcome.stdout);
        for object in &printed.objects {
            answer.add(self.object(object));
        }
        if printed.has_other_text && answer.decided == Some(Decided::Allow) {
            // What a hook repeats of a call may hold such an object.
            answer.decided = None;
            self.warn(
                "printed a consent among other output: it is not used",
                answer,
            );
        }
        let doubt = if outcome.is_cut {
            Some("printed more than 64 KiB")
        } else if printed.objects.is_empty() && self.decides(&outcome.stderr) {
            Some("printed its decision on standard error")
        } else {
            printed.doubt
        };
        if let Some(doubt) = doubt {
            return self.careful(doubt, answer);
        }
        let is_context = matches!(
            self.rule.event,
            HookEvent::UserPromptSubmit | HookEvent::SessionStart | HookEvent::SubagentStart
        );
        if is_context && printed.objects.is_empty() && !printed.begins_like_json {
            let text = shown(&outcome.stdout);
            let text = text.trim();
            if !text.is_empty() {
                answer.context.push(cut(text));
            }
        }
    }

    /// What it refused before it was ended.
    fn refusals(&self, outcome: &HookOutcome, answer: &mut Answer) {
        for object in Printed::parse(&outcome.stdout).objects {
            let said = self.object(&object);
            answer.add(Answer {
                decided: said.decided.filter(|decided| *decided != Decided::Allow),
                block: said.block,
                stop: said.stop,
                warnings: said.warnings,
                ..Answer::default()
            });
        }
    }

    fn object(&self, object: &Map<String, Value>) -> Answer {
        let mut answer = Answer::default();
        self.said(object, &mut answer);
        answer
    }

    /// Whether a hook printed its own input, or the beginning of it.
    fn is_echo(&self, text: &str) -> bool {
        let text = text.trim();
        text.starts_with('{') && self.input.to_string().starts_with(text)
    }

    /// Whether a text that is not read for decisions holds one.
    fn decides(&self, text: &str) -> bool {
        !self.is_echo(text) && !Printed::parse(text).objects.is_empty()
    }

    /// There may be a decision that cannot be read.
    fn careful(&self, doubt: &str, answer: &mut Answer) {
        let event = self.rule.event;
        let reason = || self.named(&format!("{doubt}: a decision may be in it"));
        let is_stop = matches!(event, HookEvent::Stop | HookEvent::SubagentStop);
        let is_active = self.input.get("stop_hook_active") == Some(&Value::Bool(true));
        let outcome = match event {
            HookEvent::PreToolUse => {
                answer.decide(Decided::Ask(reason()));
                "the call is asked about"
            }
            HookEvent::PermissionRequest => {
                answer.decide(Decided::Ask(reason()));
                "the question stays open"
            }
            // Once is enough: a hook that is never understood must not keep a turn going.
            HookEvent::Stop | HookEvent::SubagentStop if is_active => "the turn may end",
            HookEvent::UserPromptSubmit
            | HookEvent::PreCompact
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::Stop
            | HookEvent::SubagentStop => {
                answer.block.get_or_insert_with(reason);
                if is_stop {
                    "the turn goes on"
                } else {
                    "it counts as a refusal"
                }
            }
            HookEvent::SessionStart
            | HookEvent::SubagentStart
            | HookEvent::SessionEnd
            | HookEvent::Notification => "it is not used",
        };
        self.warn(format!("{doubt}: {outcome}"), answer);
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
            return self.careful("hookSpecificOutput is no object", answer);
        };
        let about = self.text(more, "hookEventName", answer);
        if about.is_some_and(|about| about != self.rule.event.name()) {
            let words = "hookSpecificOutput is about another event";
            return self.careful(words, answer);
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
            "approve" | "allow" if about_a_call => answer.decide(Decided::Allow),
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
                    Some("allow") => answer.decide(Decided::Allow),
                    Some("ask") => answer.decide(Decided::Ask(cut(&reason))),
                    Some("deny") => answer.decide(Decided::Deny(cut(&reason))),
                    Some(other) => self.unknown("permissionDecision", other, answer),
                }
                self.input(more, answer);
            }
            HookEvent::PermissionRequest => {
                let Some(decision) = more.get("decision") else {
                    return;
                };
                let Value::Object(decision) = decision else {
                    return self.careful("decision is no object", answer);
                };
                let message = self.text(decision, "message", answer).unwrap_or_default();
                match self.text(decision, "behavior", answer).as_deref() {
                    Some("allow") => {
                        answer.decide(Decided::Allow);
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

    /// A word that is not known in the place of a decision.
    fn unknown(&self, key: &str, word: &str, answer: &mut Answer) {
        let doubt = format!("{key} is {:?}, which is not known", short(word, 40));
        self.careful(&doubt, answer);
    }

    fn input(&self, said: &Map<String, Value>, answer: &mut Answer) {
        match said.get("updatedInput") {
            None | Some(Value::Null) => {}
            Some(Value::Object(input)) => {
                let tool = self.tool.unwrap_or_default();
                let none = Value::Null;
                let told = self.input.get("tool_input").unwrap_or(&none);
                let input = names::with_our_fields(tool, input.clone(), told);
                match JsonObject::parse(&Value::Object(input).to_string()) {
                    Ok(input) => answer.input = Some(input),
                    Err(error) => {
                        self.careful(&format!("updatedInput cannot be used: {error}"), answer);
                    }
                }
            }
            Some(_) => self.careful("updatedInput is no object", answer),
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
            let doubt = format!("{key} is of the wrong type");
            match key {
                "continue" | "decision" | "permissionDecision" | "behavior" | "hookEventName" => {
                    self.careful(&doubt, answer);
                }
                _ => self.warn(format!("{doubt}: it is not used"), answer),
            }
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
