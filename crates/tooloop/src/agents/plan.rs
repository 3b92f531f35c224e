//! Plans that are presented before anything is changed.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::{Access, Mode};
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::Subagents;
use crate::gate::{change, read};

/// The name of the tool that presents a plan.
pub const EXIT_PLAN: &str = "exit_plan";

/// What becomes of the plan that a model presents in plan mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planning {
    /// Whoever is asked about calls is asked about it; a yes ends the mode, and the work begins.
    Asks,
    /// It is the answer of the turn.
    Answers,
}

/// Presents a plan. Where somebody is asked about it, it runs when they have said yes.
pub(crate) struct ExitPlan {
    pub(crate) planning: Planning,
    pub(crate) session: Arc<Subagents>,
}

/// What the model passes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExitPlanInput {
    /// The whole plan, as Markdown: what is changed where, in which order, and how it is checked.
    plan: String,
}

impl Tool for ExitPlan {
    type Input = ExitPlanInput;

    fn name(&self) -> &'static str {
        EXIT_PLAN
    }

    fn description(&self) -> &'static str {
        "In plan mode, and only there: presents your finished plan to the user, who lets you carry it \
         out or says what to change. Not for questions, nor for findings."
    }

    fn access(&self, _: &ExitPlanInput) -> Access {
        Access::session()
    }

    async fn run(&self, input: ExitPlanInput, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.plan.trim().is_empty() {
            let words = "the plan is blank: write down what you are going to do";
            return Err(ToolError::Failed(words.into()));
        }
        if self.planning == Planning::Answers {
            return Ok(ToolOutput::text(
                "The plan is told to the user. That ends your work.",
            ));
        }
        let Some(policy) = self.session.policy() else {
            return Err(ToolError::Failed("there is no session to plan for".into()));
        };
        change(&policy, |policy| {
            // Whoever has said yes may have chosen another mode.
            if policy.mode == Mode::Plan {
                policy.mode = Mode::Default;
            }
        });
        let mode = read(&policy, |policy| policy.mode);
        Ok(ToolOutput::text(format!(
            "The user agrees to the plan. Plan mode is over (the mode is {mode} now): carry it out."
        )))
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            planning: self.planning,
            session: scope.shared(Subagents::default),
        })
    }
}

/// What comes of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A plan that a tool presents.
    Presented,
    /// A plan that is the answer.
    Answered,
    /// What a subagent has found.
    Reported,
}

/// Whether the model knows that the session is in plan mode.
#[derive(Debug, Default)]
pub(crate) struct ModeTold {
    plans: bool,
}

impl ModeTold {
    /// What the model is to be told with what the user says next, if the mode is another one than it
    /// knows of.
    pub(crate) fn reminder(&mut self, mode: Mode, ends: Ends) -> Option<String> {
        let plans = mode == Mode::Plan;
        if std::mem::replace(&mut self.plans, plans) == plans {
            return None;
        }
        let words = if plans {
            let end = match ends {
                Ends::Presented => {
                    "Look around, think, and when your plan stands, present it with exit_plan."
                }
                Ends::Answered => "Look around, think, and answer with your plan.",
                Ends::Reported => "Look around and report.",
            };
            format!(
                "Plan mode is on: change nothing, neither files nor anything else; calls that would \
                 are refused. {end}"
            )
        } else {
            "Plan mode is over: you may make changes again, as far as you are let.".into()
        };
        Some(words)
    }

    /// It was told in another way that the mode is over.
    pub(crate) const fn is_over(&mut self) {
        self.plans = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_told_once_when_it_begins_and_once_when_it_ends() {
        let mut told = ModeTold::default();
        assert_eq!(told.reminder(Mode::Default, Ends::Presented), None);
        let words = told.reminder(Mode::Plan, Ends::Presented).unwrap();
        assert!(words.contains("exit_plan"), "{words}");
        assert_eq!(told.reminder(Mode::Plan, Ends::Presented), None);
        let words = told.reminder(Mode::AcceptEdits, Ends::Presented).unwrap();
        assert!(words.contains("over"), "{words}");
        assert_eq!(told.reminder(Mode::Default, Ends::Presented), None);
        let words = told.reminder(Mode::Plan, Ends::Answered).unwrap();
        assert!(!words.contains("exit_plan"), "{words}");
        told.is_over();
        assert_eq!(told.reminder(Mode::Default, Ends::Presented), None);
    }
}
