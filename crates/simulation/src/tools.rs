//! Tools whose calls go as the script says.

use std::path::PathBuf;
use std::time::Duration;

use tooloop_model::{JsonObject, RawJson, ToolDefinition, ToolInput, ToolUseId};
use tooloop_policy::Access;
use tooloop_tool::{DynTool, ToolContext, ToolError, ToolFuture, ToolOutput};

use crate::law::Law;
use crate::record::expected_calls;
use crate::script::{Advised, CallPlan, How, Moment, Place, Script, ToolKind};
use crate::world::{Run, Shared, World};

/// How long a call hangs before its own time is over, in milliseconds.
pub(crate) const HANG: u64 = 600_000;

pub(crate) const fn name(tool: ToolKind) -> &'static str {
    match tool {
        ToolKind::Look => "look",
        ToolKind::Act => "act",
        ToolKind::Put => "put",
        ToolKind::Note => "note",
        ToolKind::Answer => "structured_output",
        ToolKind::Gone => "gone",
    }
}

pub(crate) fn kind(name: &str) -> Option<ToolKind> {
    Some(match name {
        "look" => ToolKind::Look,
        "act" => ToolKind::Act,
        "put" => ToolKind::Put,
        "note" => ToolKind::Note,
        "structured_output" => ToolKind::Answer,
        _ => return None,
    })
}

/// How a call with this input goes; `None` if the input does not fit.
pub(crate) fn plan_of(script: &Script, input: &ToolInput) -> Option<CallPlan> {
    let ToolInput::Valid(input) = input else {
        return None;
    };
    plan_in(script, input)
}

fn plan_in(script: &Script, input: &JsonObject) -> Option<CallPlan> {
    let number = input.get().strip_prefix("{\"plan\":")?.strip_suffix('}')?;
    let place: usize = number.parse().ok()?;
    Some(script.calls.get(place).cloned().unwrap_or_default())
}

#[derive(Debug)]
pub(crate) struct SimulatedTool {
    pub(crate) kind: ToolKind,
    pub(crate) shared: Shared,
}

impl SimulatedTool {
    fn plan(&self, input: &JsonObject) -> Result<CallPlan, ToolError> {
        let plan = plan_in(&self.shared.lock().script, input);
        plan.ok_or_else(|| ToolError::InvalidInput {
            tool: name(self.kind).into(),
            problem: "there is no plan".into(),
        })
    }
}

impl DynTool for SimulatedTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: name(self.kind).into(),
            description: "does as the script says".into(),
            input_schema: RawJson::from_value(&serde_json::json!({"type": "object"})),
        }
    }

    fn access(&self, input: &JsonObject) -> Result<Access, ToolError> {
        let place = self.plan(input)?.place;
        let path = self.shared.lock().touched_path();
        Ok(match self.kind {
            ToolKind::Look if place == Place::Free => Access::read_only().reading(path),
            ToolKind::Look => Access::read_only().host(place.host()).reading(path),
            ToolKind::Act | ToolKind::Gone | ToolKind::Answer => {
                Access::effectful().host(place.host()).reading(path)
            }
            ToolKind::Put => Access::idempotent().host(place.host()).reading(path),
            ToolKind::Note => Access::session(),
        })
    }

    fn run<'a>(&'a self, input: &'a JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let plan = self.plan(input)?;
            let begun = self.shared.lock().call_begins(self.kind, &plan, context);
            let Some(run) = begun else {
                return std::future::pending().await;
            };
            let presence = Presence {
                life: self.shared.lock().life.number,
                shared: self.shared.clone(),
                run,
            };
            let result = goes(self.kind, &plan, context, &presence).await;
            drop(presence);
            result
        })
    }
}

/// Tells when a call's future is gone.
struct Presence {
    shared: Shared,
    life: u32,
    run: usize,
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut world = self.shared.lock();
        if world.life.number == self.life
            && let Some(run) = world.life.runs.get_mut(self.run)
        {
            run.live = false;
        }
    }
}

async fn goes(
    tool: ToolKind,
    plan: &CallPlan,
    context: &ToolContext,
    presence: &Presence,
) -> Result<ToolOutput, ToolError> {
    let shared = &presence.shared;
    if let Some(wait) = plan.notice {
        leaves_work(shared.clone(), context, wait);
    }
    context.progress.report("begun");
    let mut cancelled = !heeds(plan.before, plan, context).await;
    if !cancelled && tool != ToolKind::Look && !shared.lock().has_effect(&context.tool_use_id) {
        return std::future::pending().await;
    }
    cancelled = cancelled || !heeds(plan.after, plan, context).await;
    if plan.how == How::Hangs && !cancelled {
        cancelled = !heeds(HANG, plan, context).await;
    }
    let ended = shared
        .lock()
        .call_ends(presence.run, plan.how, cancelled, context);
    let Some(outcome) = ended else {
        return std::future::pending().await;
    };
    let fingerprint = Some(format!("{:?} {cancelled}", plan.how));
    let output = ToolOutput {
        fingerprint,
        ..ToolOutput::text(outcome.clone())
    };
    match plan.how {
        _ if cancelled => Err(ToolError::Failed(outcome)),
        How::Works | How::Silent => Ok(output),
        How::Talks => Ok(ToolOutput {
            content: vec![tooloop_model::Content::Text(format!(
                "{outcome}{}",
                " and more".repeat(60)
            ))],
            ..output
        }),
        How::Fails | How::Hangs => Ok(ToolOutput {
            is_error: true,
            ..output
        }),
        // Like a panic, without its words on the screen.
        How::Panics => std::panic::resume_unwind(Box::new("simulated")),
    }
}

/// Waits. Returns whether the call goes on: not if it is cancelled, unless it does not heed that.
async fn heeds(millis: u64, plan: &CallPlan, context: &ToolContext) -> bool {
    let whole = Duration::from_millis(millis);
    let wait = tokio::time::sleep(whole);
    tokio::pin!(wait);
    tokio::select! {
        biased;
        () = context.cancellation.cancelled() => {}
        () = &mut wait, if millis > 0 => return true,
        () = std::future::ready(()), if millis == 0 => return true,
    }
    let stubborn = Duration::from_millis(plan.stubborn);
    tokio::time::timeout(stubborn, wait).await.is_ok()
}

/// Work that goes on after the call has answered.
fn leaves_work(shared: Shared, context: &ToolContext, wait: u64) {
    let work = context.background.begin("work");
    // It dies with the runtime, as a process of a tool does with its session.
    drop(tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let notice = shared.lock().notices();
        if let Some(notice) = notice {
            work.finish(notice);
        }
    }));
}

impl World {
    fn call_begins(
        &mut self,
        tool: ToolKind,
        plan: &CallPlan,
        context: &ToolContext,
    ) -> Option<usize> {
        let id = &context.tool_use_id;
        let cancelled = context.cancellation.is_cancelled();
        self.require(Law::Stale, !cancelled, || {
            format!("{id} begins after it was cancelled")
        });
        self.moment(Moment::CallBegins, self.life.runs.len() as u64, || {
            format!("{} {id} begins", name(tool))
        });
        if !self.alive() {
            return None;
        }
        let free = plan.place == Place::Free || self.life.granted.contains(plan.place.host());
        let advised = self.life.advised.get(id).copied();
        let spared = advised == Some(Advised::Allow) && plan.place == Place::Asked;
        let read_only =
            tool == ToolKind::Look && (free || spared) && !self.life.answers.contains_key(id);
        if let Some(call) = self.record.call(id) {
            let as_written = plan_of(&self.script, &self.record.input(call)).as_ref() == Some(plan);
            self.require(Law::Truth, as_written, || {
                format!("{id} runs with an input that is not on record")
            });
        }
        let path = self.touched_path();
        let is_judged = tool == ToolKind::Note || context.judged.get(&path).is_ok();
        self.require(Law::Access, is_judged, || {
            format!(
                "{id} begins and touches {}, with which it was not judged",
                path.display()
            )
        });
        let waits = self.script.knobs.tool_hook && !self.life.advised.contains_key(id);
        let refused = matches!(advised, Some(Advised::Deny | Advised::Stop));
        let unasked = advised == Some(Advised::Ask) && self.life.answers.get(id) != Some(&true);
        self.require(Law::Permission, !(waits || refused || unasked), || {
            format!("{id} begins, the hook says {advised:?}")
        });
        if read_only {
            self.see("call: read-only");
            self.reads(id);
        } else {
            self.see("call: with effects");
            self.acts(tool, plan, id);
        }
        self.life.runs.push(Run {
            id: id.clone(),
            call: self.life.call,
            read_only,
            outcome: None,
            panicked: false,
            live: true,
            cancelled: false,
            cancellation: context.cancellation.clone(),
        });
        self.alive().then(|| self.life.runs.len() - 1)
    }

    /// A read-only call begins.
    fn reads(&mut self, id: &ToolUseId) {
        if self.record.call(id).is_some() {
            let answered = self.record.answered.contains(id);
            return self.require(Law::OnceOnly, !answered, || {
                format!("{id} begins and is answered")
            });
        }
        self.see("call: early");
        let call = self.life.call;
        let runs = self.life.runs.iter();
        let early = runs.filter(|run| run.call == call && run.read_only).count();
        let served = self.life.served.as_ref();
        let free = served.map_or(0, |served| {
            let calls = expected_calls(&served.calls).into_iter();
            let calls = calls.filter(|(_, is_valid)| *is_valid);
            calls
                .map(|(call, _)| call)
                .take_while(|call| call.complete && call.free)
                .count()
        });
        self.require(Law::OnceOnly, early < free, || {
            format!("{id} begins early, {free} calls may and {early} did")
        });
    }

    /// A call begins that is not read-only.
    fn acts(&mut self, tool: ToolKind, plan: &CallPlan, id: &ToolUseId) {
        let known = self
            .record
            .call(id)
            .is_some_and(|call| call.name == name(tool));
        self.require(Law::OnceOnly, known, || {
            format!("{id} begins, its message is not on record")
        });
        let started = self.record.started.get(id).copied();
        self.require(Law::RecordFirst, started.is_some(), || {
            format!("{id} begins, and that is not on record")
        });
        let durable = started.is_none_or(|end| self.disk.is_durable(end));
        self.require(Law::RecordFirst, durable, || {
            format!("{id} begins, and that is not durable")
        });
        let new = self.begun.insert(id.clone());
        self.require(Law::OnceOnly, new, || {
            format!("{id} begins for the second time")
        });
        let answered = self.record.answered.contains(id);
        let ordered = self.record.is_in_order(id);
        self.require(Law::OnceOnly, ordered && !answered, || {
            format!("{id} begins out of order, answered: {answered}")
        });
        let mut beside = self.life.runs.iter();
        let alone = !beside.any(Run::is_under_way);
        self.require(Law::OnceOnly, alone, || format!("{id} does not run alone"));
        let host = plan.place.host();
        let allowed = tool == ToolKind::Note
            || plan.place == Place::Free
            || self.life.answers.get(id) == Some(&true)
            || self.life.advised.get(id) == Some(&Advised::Allow)
            || self.life.granted.contains(host);
        let denied = tool != ToolKind::Note && plan.place == Place::Denied;
        self.require(Law::Permission, allowed && !denied, || {
            format!("{id} begins and is not allowed")
        });
    }

    /// The path that a call would touch now. Each effect changes it, like `cd` or a new link.
    fn touched_path(&self) -> PathBuf {
        format!("/at/{}", self.effects.len()).into()
    }

    /// A call changes the world. Returns whether it did.
    fn has_effect(&mut self, id: &ToolUseId) -> bool {
        if !self.alive() {
            return false;
        }
        self.moment(Moment::Effect, 0, || format!("{id} has its effect"));
        if !self.alive() {
            // Who dies at this moment has done it.
            *self.effects.entry(id.clone()).or_default() += u32::from(self.broken.is_none());
            return false;
        }
        let times = self.effects.entry(id.clone()).or_default();
        *times += 1;
        let times = *times;
        self.require(Law::OnceOnly, times == 1, || {
            format!("{id} has had its effect {times} times")
        });
        self.alive()
    }

    fn call_ends(
        &mut self,
        run: usize,
        how: How,
        cancelled: bool,
        context: &ToolContext,
    ) -> Option<String> {
        let id = &context.tool_use_id;
        let number = self.number();
        let outcome = if how == How::Silent && !cancelled {
            String::new()
        } else {
            format!("outcome {number} of {id}")
        };
        self.moment(Moment::CallEnds, number, || {
            format!("{id} ends: {how:?}, cancelled: {cancelled}")
        });
        if !self.alive() {
            return None;
        }
        let ended = self.life.runs.get_mut(run)?;
        ended.outcome = Some(outcome.clone());
        ended.panicked = how == How::Panics && !cancelled;
        ended.cancelled |= context.cancellation.is_cancelled();
        Some(outcome)
    }

    /// Background work has something to say.
    fn notices(&mut self) -> Option<String> {
        if !self.alive() {
            return None;
        }
        let notice = self.speak(tooloop_kernel::Delivery::Notice, None);
        self.steps += 1;
        self.tell(|| format!("background work says {notice:?}"));
        Some(notice)
    }
}
