//! What is shown of calls, and of questions about them.

use std::time::{Duration, Instant};

use tooloop::{Entry, Event, Question, Rule, ToolResult, ToolUse, ToolUseId};

use super::{Doing, Last, View};
use crate::interactive::calls::{self, Outcome};
use crate::interactive::paint::{Out, Style, line};
use crate::interactive::text;

/// A call that has no answer yet.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) tool_use: ToolUse,
    pub(super) headed: bool,
    pub(super) running: Option<Instant>,
    pub(super) progress: String,
    pub(super) duration: Option<Duration>,
    pub(super) details: Option<String>,
    pub(super) denied: bool,
    /// What the sandbox refused, in words.
    pub(super) refusals: Vec<String>,
}

impl Call {
    fn new(tool_use: ToolUse) -> Self {
        Self {
            tool_use,
            headed: false,
            running: None,
            progress: String::new(),
            duration: None,
            details: None,
            denied: false,
            refusals: Vec::new(),
        }
    }
}

impl View {
    /// All of what is asked about, however long.
    pub(crate) fn all_of(&mut self, question: &Question) -> Vec<Out> {
        let mut outs = calls::all(&question.tool_use, self.columns);
        let rules: Vec<_> = question.rules.iter().map(calls::rule).collect();
        outs.extend(always(&rules, self.columns));
        outs.extend(denying(&question.denying, self.columns));
        self.last = Last::Heading(question.tool_use.id.clone());
        outs
    }

    pub(super) fn know(&mut self, tool_use: &ToolUse) {
        if !self.calls.contains_key(&tool_use.id) {
            self.order.push(tool_use.id.clone());
            let call = Call::new(tool_use.clone());
            self.calls.insert(tool_use.id.clone(), call);
        }
    }

    pub(super) fn started(&mut self, tool_use: &ToolUse, now: Instant, outs: &mut Vec<Out>) {
        self.know(tool_use);
        if let Some(call) = self.calls.get_mut(&tool_use.id) {
            call.running = Some(now);
        }
        if self.is_complete {
            self.head_alone(outs);
        }
    }

    /// Shows the heading of a call that runs if the reply has no other. Of several each gets its
    /// heading with its result, or they would mix.
    pub(super) fn head_alone(&mut self, outs: &mut Vec<Out>) {
        let [only] = self.order.as_slice() else {
            return;
        };
        let id = only.clone();
        if self
            .calls
            .get(&id)
            .is_some_and(|call| call.running.is_some())
        {
            self.head(&id, outs);
        }
    }

    fn head(&mut self, id: &ToolUseId, outs: &mut Vec<Out>) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut call.headed, true) {
            return;
        }
        let heading = calls::heading(&call.tool_use, self.columns);
        self.part(outs);
        outs.extend(heading);
        self.last = Last::Heading(id.clone());
        self.shown = true;
    }

    /// Something happened to a subagent. Its calls are not shown, but for those that it asked about.
    pub(super) fn heard_of(
        &mut self,
        agent: &str,
        event: &Event,
        now: Instant,
        outs: &mut Vec<Out>,
    ) {
        let agent = || text::one_line(&text::clean(agent));
        match event {
            Event::Subagent { agent, event, .. } => self.heard_of(agent, event, now, outs),
            Event::Warning(words) => {
                self.note(Style::Notice, &format!("{}: {words}", agent()), outs);
            }
            Event::ToolEnded { refusals, .. } => {
                for refusal in refusals {
                    self.note(Style::Notice, &format!("{}: {refusal}", agent()), outs);
                }
            }
            Event::Recorded(entry) => {
                if let Entry::CallFinished(result) = &**entry {
                    let id = &result.tool_use_id;
                    if self.asked_by_agents.remove(id) {
                        self.order.retain(|other| other != id);
                        self.calls.remove(id);
                        if self.questioned.as_ref() == Some(id) {
                            self.settle(now, outs);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn asked(&mut self, question: &Question, now: Instant, outs: &mut Vec<Out>) {
        self.settle(now, outs);
        self.know(&question.tool_use);
        self.part(outs);
        outs.extend(calls::whole(&question.tool_use, self.columns));
        let reason = text::one_line(&text::reveal(&question.reason));
        outs.extend(broken(
            Style::Notice,
            &match &question.agent {
                Some(agent) => format!("{} asks: {reason}", text::one_line(&text::clean(agent))),
                None => format!("asks: {reason}"),
            },
            self.columns,
        ));
        let rules: Vec<_> = question.rules.iter().map(calls::short_rule).collect();
        outs.extend(always(&rules, self.columns));
        outs.extend(denying(&question.denying, self.columns));
        let id = question.tool_use.id.clone();
        if let Some(call) = self.calls.get_mut(&id) {
            call.headed = true;
        }
        if question.agent.is_some() {
            self.asked_by_agents.insert(id.clone());
        }
        self.questioned = Some(id.clone());
        self.last = Last::Heading(id);
    }

    /// Shows the results that waited for the result of a question's call.
    pub(super) fn settle(&mut self, now: Instant, outs: &mut Vec<Out>) {
        self.questioned = None;
        for result in std::mem::take(&mut self.later) {
            self.finished(&result, now, outs);
        }
    }

    pub(super) fn finished(&mut self, result: &ToolResult, now: Instant, outs: &mut Vec<Out>) {
        let id = &result.tool_use_id;
        if self.questioned.as_ref().is_some_and(|other| other != id) {
            self.later.push(result.clone());
            return;
        }
        self.order.retain(|other| other != id);
        let Some(mut call) = self.calls.remove(id) else {
            return;
        };
        if self.last != Last::Heading(id.clone()) {
            let heading = if std::mem::replace(&mut call.headed, true) {
                vec![calls::again(&call.tool_use, self.columns)]
            } else {
                calls::heading(&call.tool_use, self.columns)
            };
            self.part(outs);
            outs.extend(heading);
        }
        for refusal in &call.refusals {
            outs.extend(self.lines(Style::Notice, refusal));
        }
        let outcome = Outcome {
            duration: call.duration,
            details: call.details.as_deref(),
            denied: call.denied,
        };
        outs.extend(calls::preview(result, outcome, self.columns));
        self.last = Last::Block;
        if self.questioned.as_ref() == Some(id) {
            self.settle(now, outs);
        }
        if self.calls.is_empty() {
            self.doing = Doing::Waiting;
            self.since = now;
        }
    }
}

/// What "always" would add.
fn always(rules: &[String], columns: usize) -> Vec<Out> {
    let say = |words: &str| broken(Style::Dim, words, columns);
    match rules {
        [] => Vec::new(),
        [rule] => say(&format!("always would add the rule {rule}")),
        rules => {
            let mut outs = say("always would add these rules:");
            outs.extend(rules.iter().flat_map(|rule| say(&format!("- {rule}"))));
            outs
        }
    }
}

/// What a no adds to the rules that deny.
fn denying(rules: &[Rule], columns: usize) -> Vec<Out> {
    if rules.is_empty() {
        return Vec::new();
    }
    let rules: Vec<_> = rules.iter().map(calls::short_rule).collect();
    let words = format!(
        "a no holds for the rest of the session: {} is then denied (/permissions takes it back)",
        rules.join(", ")
    );
    broken(Style::Notice, &words, columns)
}

/// Words on as many rows as they take, those behind the first further in.
fn broken(style: Style, words: &str, columns: usize) -> Vec<Out> {
    let rows = calls::rows(words, columns.saturating_sub(4)).into_iter();
    rows.enumerate()
        .map(|(number, row)| {
            let indent = if number == 0 { "  " } else { "    " };
            line(style, format!("{indent}{row}"))
        })
        .collect()
}
