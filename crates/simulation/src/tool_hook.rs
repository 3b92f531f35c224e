//! A hook that is told of calls before they are judged, and says what the script says.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tooloop::hooks::{HookEnd, HookEvent, HookOutcome, HookRule, HookRunner, Hooks};
use tooloop_model::{JsonObject, ToolUseId};

use crate::law::Law;
use crate::script::{AdvicePlan, Advised, Knobs, Moment, Prepared, SummaryPlan};
use crate::world::{Shared, World};

/// How long a hook may take that is told of a summary.
const SUMMARY: Duration = Duration::from_secs(2);

/// The hooks of a world: one for calls of the tools that are no one's answer, one for summaries.
pub(crate) fn hooks(shared: &Shared, knobs: &Knobs) -> Hooks {
    let rule = |event| HookRule::new(event, "simulated");
    let calls = rule(HookEvent::PreToolUse).matching("look|act|put|note");
    let summaries = HookRule {
        timeout: SUMMARY,
        ..rule(HookEvent::PreCompact)
    };
    let calls = knobs.tool_hook.then_some(calls);
    let summaries = knobs.summary_hook.then_some(summaries);
    Hooks {
        rules: calls.into_iter().chain(summaries).collect(),
        runner: std::sync::Arc::new(SimulatedRunner(shared.clone())),
    }
}

#[derive(Debug)]
struct SimulatedRunner(Shared);

impl HookRunner for SimulatedRunner {
    fn run(&self, rule: &HookRule, input: Value) -> BoxFuture<'static, HookOutcome> {
        if rule.event == HookEvent::PreCompact {
            return prepare(self.0.clone(), rule.timeout);
        }
        let shared = self.0.clone();
        let id = input.get("tool_use_id").and_then(Value::as_str);
        let id = ToolUseId(id.unwrap_or_default().into());
        let plan = shared.lock().consulted(&id);
        let timeout = rule.timeout;
        Box::pin(async move {
            let Some(plan) = plan else {
                return std::future::pending().await;
            };
            let wait = match plan.what {
                Advised::Late => timeout,
                _ => Duration::from_millis(plan.wait),
            };
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let said = shared.lock().advises(&id, plan.what);
            match said {
                Some(said) => said,
                None => std::future::pending().await,
            }
        })
    }
}

/// What is said before the conversation is summed up.
fn prepare(shared: Shared, timeout: Duration) -> BoxFuture<'static, HookOutcome> {
    let plan = shared.lock().told_of_summary();
    Box::pin(async move {
        let Some(plan) = plan else {
            return std::future::pending().await;
        };
        let wait = match plan.what {
            Prepared::Late => timeout,
            Prepared::Nothing | Prepared::Refuse => Duration::from_millis(plan.wait),
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let said = shared.lock().says_of_summary(plan.what);
        match said {
            Some(said) => said,
            None => std::future::pending().await,
        }
    })
}

impl World {
    fn told_of_summary(&mut self) -> Option<SummaryPlan> {
        self.moment(Moment::Hook, 1, || "a hook is told of a summary".into());
        if !self.alive() {
            return None;
        }
        self.see("summary hook");
        let plan = self.script.summaries.get(self.used.summaries).cloned();
        self.used.summaries += 1;
        Some(plan.unwrap_or(SummaryPlan {
            wait: 0,
            what: Prepared::Nothing,
        }))
    }

    fn says_of_summary(&mut self, what: Prepared) -> Option<HookOutcome> {
        self.moment(Moment::Answer, 2, || {
            format!("the hook says of the summary: {what:?}")
        });
        if !self.alive() {
            return None;
        }
        self.life.summary_refused = what == Prepared::Refuse;
        Some(match what {
            Prepared::Nothing => HookOutcome::exited(0, "", ""),
            Prepared::Refuse => HookOutcome::exited(2, "", "not now"),
            Prepared::Late => HookOutcome {
                end: HookEnd::TimedOut,
                ..HookOutcome::exited(0, "", "")
            },
        })
    }

    fn consulted(&mut self, id: &ToolUseId) -> Option<AdvicePlan> {
        self.moment(Moment::Hook, 0, || format!("a hook is told of {id}"));
        if !self.alive() {
            return None;
        }
        self.see("tool hook");
        let open = self.record.call(id).is_some()
            && !self.record.answered.contains(id)
            && !self.record.started.contains_key(id);
        self.require(Law::RecordFirst, open, || {
            format!("a hook is told of {id}, which is no open call on record")
        });
        let again = self.life.told_of.insert(id.clone());
        self.require(Law::OnceOnly, again, || {
            format!("a hook is told of {id} twice")
        });
        let plan = self.script.advice.get(self.used.advice).cloned();
        self.used.advice += 1;
        Some(plan.unwrap_or(AdvicePlan {
            wait: 0,
            what: Advised::Nothing,
        }))
    }

    fn advises(&mut self, id: &ToolUseId, advised: Advised) -> Option<HookOutcome> {
        self.moment(Moment::Answer, 1, || {
            format!("the hook says of {id}: {advised:?}")
        });
        if !self.alive() {
            return None;
        }
        self.life.advised.insert(id.clone(), advised);
        let decides = |word: &str| json!({ "permissionDecision": word });
        let specific = |fields: Value| json!({ "hookSpecificOutput": fields }).to_string();
        let printed = match advised {
            Advised::Nothing => String::new(),
            Advised::Allow => specific(decides("allow")),
            Advised::Ask => specific(decides("ask")),
            Advised::Deny => specific(decides("deny")),
            Advised::Rewrite(plan) => {
                let input = json!({ "plan": plan });
                if let Ok(input) = JsonObject::parse(&input.to_string()) {
                    self.life.rewritten.insert(id.clone(), input);
                }
                specific(json!({ "updatedInput": input }))
            }
            Advised::Tell => specific(json!({ "additionalContext": format!("of {id}") })),
            Advised::Stop => {
                self.life.hook_stops = true;
                json!({ "continue": false }).to_string()
            }
            Advised::Fail => return Some(HookOutcome::exited(1, "", "it failed")),
            Advised::Late => {
                return Some(HookOutcome {
                    end: HookEnd::TimedOut,
                    ..HookOutcome::exited(0, "", "")
                });
            }
        };
        Some(HookOutcome::exited(0, printed, ""))
    }
}
