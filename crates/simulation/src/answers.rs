//! Whether the answer to a call is true.

use std::time::Duration;

use tooloop_model::{Content, ToolInput, ToolResult, ToolUse, ToolUseId};

use crate::law::Law;
use crate::script::{Advised, Form, Place, ToolKind};
use crate::tools;
use crate::world::World;

impl World {
    /// An answer is recorded: there is one for each call, and it tells what is so.
    pub(crate) fn answers(&mut self, result: &ToolResult) {
        let id = &result.tool_use_id;
        let again = self.record.answered.contains(id);
        let Some(call) = self.record.call(id).cloned() else {
            return self.break_law(Law::Pairing, format!("{id} is answered and is no call"));
        };
        self.require(Law::Pairing, !again, || format!("{id} is answered twice"));
        let Some(Content::Text(text)) = result.content.first() else {
            return self.break_law(Law::Truth, format!("{id} is answered with nothing"));
        };
        let kind = Kind::of(text);
        self.see(kind.name());
        let holds = self.is_true(kind, &call, result, text);
        self.record.refused |= kind == Kind::OverLimit;
        self.record.ran += u32::from(matches!(
            kind,
            Kind::Outcome | Kind::Silent | Kind::ToolDied
        ));
        let (ran, limit) = (self.record.ran, self.script.knobs.limits.calls);
        self.require(Law::Ceiling, limit.is_none_or(|limit| ran <= limit), || {
            format!("{ran} calls have run in a turn")
        });
        self.require(Law::Truth, holds, || {
            format!("the answer to {id} is not so ({}): {text:?}", kind.name())
        });
    }

    fn is_true(&self, kind: Kind, call: &ToolUse, result: &ToolResult, text: &str) -> bool {
        let id = &call.id;
        let started = self.record.started.contains_key(id);
        let had_effect = self.effects.contains_key(id);
        let ran = self.begun.contains(id);
        let input = self.record.input(call);
        let advised = self.life.advised.get(id).copied();
        let untouched = !started && !had_effect && !ran;
        let late = text.contains("the time limit");
        let wanted = if late {
            self.time_is_up(Duration::ZERO)
        } else {
            self.wants_an_end()
        };
        match kind {
            Kind::Outcome => self.came_to(id, text) && self.is_told(id, result),
            Kind::Answered => call.name == tools::name(ToolKind::Answer) && started,
            Kind::OverLimit => {
                let limit = self.script.knobs.limits.calls;
                let limit = limit.map(|limit| format!("not run: the limit of {limit} "));
                let told = limit.is_some_and(|limit| text.starts_with(&limit));
                result.is_error && untouched && told
            }
            Kind::Silent => self.came_to(id, text) || self.silent(id),
            Kind::ToolDied => result.is_error && self.panicked(id),
            Kind::StoppedBefore => result.is_error && self.life.hook_stops && untouched,
            Kind::InterruptedBefore => result.is_error && wanted && untouched,
            Kind::InterruptedWhile => {
                // A read-only call may be told to run and be cancelled before it is.
                let read_only = tools::kind(&call.name) == Some(ToolKind::Look);
                result.is_error && wanted && (started || read_only)
            }
            Kind::Denied => {
                let said = self.life.answers.get(id).copied();
                let denied = tools::plan_of(&self.script, &input)
                    .is_some_and(|plan| plan.place == Place::Denied);
                let nobody = !self.script.knobs.asks;
                result.is_error
                    && untouched
                    && said != Some(true)
                    && (said == Some(false) || denied || nobody || advised == Some(Advised::Deny))
            }
            Kind::Broken => {
                let cut = text.starts_with("your output was cut");
                let invalid = matches!(call.input, ToolInput::Invalid { .. });
                result.is_error && untouched && (invalid || cut)
            }
            Kind::Unknown => {
                let form = self.script.knobs.form == Some(Form::Tool);
                let there = match tools::kind(&call.name) {
                    Some(ToolKind::Answer) => form,
                    Some(_) => true,
                    None => false,
                };
                result.is_error && untouched && !there
            }
            Kind::Misfit => {
                let fits = tools::plan_of(&self.script, &input).is_some();
                result.is_error && untouched && !fits
            }
            Kind::OutcomeUnknown => result.is_error && self.life.resuming && started,
            Kind::NotBegun => result.is_error && self.life.resuming && untouched,
            Kind::Nowhere => false,
        }
    }

    /// What a hook has for the model goes with the call's one result.
    fn is_told(&self, id: &ToolUseId, result: &ToolResult) -> bool {
        let told = self.life.advised.get(id) == Some(&Advised::Tell);
        let context = Content::Text(format!("of {id}"));
        let times = result.content.iter().filter(|part| **part == context);
        times.count() == usize::from(told)
    }

    /// A run that began with the newest message came to this.
    fn came_to(&self, id: &ToolUseId, text: &str) -> bool {
        let mut runs = self.life.runs.iter();
        runs.any(|run| {
            run.id == *id
                && run.call == self.life.call
                && !run.cancelled
                && run
                    .outcome
                    .as_ref()
                    .is_some_and(|outcome| text.starts_with(outcome.as_str()))
        })
    }

    fn silent(&self, id: &ToolUseId) -> bool {
        let mut runs = self.life.runs.iter();
        runs.any(|run| {
            run.id == *id && run.call == self.life.call && run.outcome.as_deref() == Some("")
        })
    }

    fn panicked(&self, id: &ToolUseId) -> bool {
        let mut runs = self.life.runs.iter();
        runs.any(|run| run.id == *id && run.call == self.life.call && run.panicked)
    }
}

/// What an answer says, by its words.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Outcome,
    Answered,
    OverLimit,
    Silent,
    ToolDied,
    InterruptedBefore,
    StoppedBefore,
    InterruptedWhile,
    Denied,
    Broken,
    Unknown,
    Misfit,
    OutcomeUnknown,
    NotBegun,
    Nowhere,
}

impl Kind {
    fn of(text: &str) -> Self {
        let kinds = [
            ("outcome ", Self::Outcome),
            ("The answer is taken", Self::Answered),
            ("the answer does not have its form", Self::Answered),
            ("not run: the limit of", Self::OverLimit),
            ("not run: the time limit", Self::InterruptedBefore),
            (
                "interrupted by the time limit while",
                Self::InterruptedWhile,
            ),
            ("(no output)", Self::Silent),
            ("the tool failed inside", Self::ToolDied),
            ("not run: the user interrupted", Self::InterruptedBefore),
            ("not run: the program was ended", Self::InterruptedBefore),
            (
                "interrupted by the end of the program",
                Self::InterruptedWhile,
            ),
            ("not run: a hook ended the turn", Self::StoppedBefore),
            (
                "interrupted by the user while it ran",
                Self::InterruptedWhile,
            ),
            ("permission denied, not run", Self::Denied),
            ("the input of this call is not", Self::Broken),
            ("your output was cut", Self::Broken),
            (
                "nothing was run: this call came with the id of",
                Self::Broken,
            ),
            ("there is no tool named", Self::Unknown),
            ("invalid input for", Self::Misfit),
            ("interrupted, outcome unknown", Self::OutcomeUnknown),
            ("interrupted: the harness ended before", Self::NotBegun),
        ];
        let mut kinds = kinds.into_iter();
        kinds
            .find(|(begin, _)| text.starts_with(begin))
            .map_or(Self::Nowhere, |(_, kind)| kind)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Outcome => "answer: outcome",
            Self::Answered => "answer: a form",
            Self::OverLimit => "answer: too many calls",
            Self::Silent => "answer: no output",
            Self::ToolDied => "answer: the tool failed inside",
            Self::InterruptedBefore => "answer: interrupted before",
            Self::StoppedBefore => "answer: stopped by a hook before",
            Self::InterruptedWhile => "answer: interrupted while it ran",
            Self::Denied => "answer: denied",
            Self::Broken => "answer: broken input",
            Self::Unknown => "answer: unknown tool",
            Self::Misfit => "answer: misfit",
            Self::OutcomeUnknown => "answer: outcome unknown",
            Self::NotBegun => "answer: not begun",
            Self::Nowhere => "answer: from nowhere",
        }
    }
}
