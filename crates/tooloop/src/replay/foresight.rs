//! What a record leads to, and what must have been so that it did.
//!
//! A journal holds what came of limits, rules and queues, not the limits, rules and queues. Here
//! they are read off what came of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tooloop_kernel::{
    Advice, Budget, CompactionTrigger, Continue, Delivery, Entry, Fallback, Input, Interrupter,
    Judgement, Limits, OutputCheck, OutputForm, OutputWay, Permission, Planned, Prepared, Settings,
    TurnEnd, Verdict,
};
use tooloop_model::{
    AssistantMessage, Content, JsonObject, Message, Money, Price, RawJson, ToolResult, ToolUse,
    ToolUseId,
};
use tooloop_policy::AccessEffect;

use super::gate::asked;
use super::recording::Recorded;
use super::words::{self, Closed, Misfit};

/// The output cap of every request here. A larger one is tried where the record says so.
pub(super) const CAP: u64 = 1;

/// Something that was said while the model or its tools were at work.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queued {
    pub(super) content: Vec<Content>,
    pub(super) delivery: Delivery,
}

/// Where the turn that `records` begin with ends, if it does.
pub(super) fn turn_end(records: &[Recorded]) -> Option<&TurnEnd> {
    records.iter().find_map(|record| match &record.entry {
        Entry::TurnEnd(end) => Some(end),
        _ => None,
    })
}

/// The model that writes, as its provider calls it.
pub(super) fn model(records: &[Recorded]) -> Option<&str> {
    records.iter().find_map(|record| match &record.entry {
        Entry::Message(message) => match message.message() {
            Message::Assistant(reply) => reply.model.as_deref(),
            Message::User(_) | Message::ToolResults(_) => None,
        },
        _ => None,
    })
}

/// What the next model call is made for, or why there is none: the first of both.
fn fork(records: &[Recorded]) -> Option<&Entry> {
    let mut entries = records.iter().map(|record| &record.entry);
    entries.find(|entry| matches!(entry, Entry::Continue(_) | Entry::TurnEnd(_)))
}

/// The limits of the turn that `records` begin with: those that it ran into, and no others.
pub(super) fn limits(settings: &mut Settings, records: &[Recorded]) {
    settings.max_turns = None;
    settings.stop_after_repeats = u32::MAX;
    settings.limits = Limits::default();
    settings.fallback = None;
    for record in records {
        match &record.entry {
            Entry::CallFinished(result) => {
                let limit = words::too_many(result);
                settings.limits.tool_calls = limit.or(settings.limits.tool_calls);
            }
            Entry::Continue(Continue::FallbackModel { model }) => {
                settings.fallback = Some(fallback(model));
            }
            Entry::TurnEnd(end) => {
                match end {
                    TurnEnd::MaxTurns { limit } => settings.max_turns = Some(*limit),
                    TurnEnd::LoopDetected { times } => settings.stop_after_repeats = *times,
                    TurnEnd::Deadline { limit_ms } => {
                        settings.limits.time = Some(Duration::from_millis(*limit_ms));
                    }
                    _ => {}
                }
                return;
            }
            _ => {}
        }
    }
}

/// The model that takes over, as far as it matters here.
pub(super) fn fallback(model: &str) -> Fallback {
    Fallback {
        model: model.into(),
        max_output_tokens: Some(CAP),
        escalated_output_tokens: None,
        window: None,
        price: None,
    }
}

/// How room is made before the next model call.
pub(super) fn room(records: &[Recorded]) -> Option<Planned> {
    let mut entries = records.iter().map(|record| &record.entry);
    let first = entries.find(|entry| {
        matches!(
            entry,
            Entry::Continue(_)
                | Entry::TurnEnd(_)
                | Entry::Shortened { .. }
                | Entry::Compacted { .. }
        )
    })?;
    match first {
        Entry::Shortened {
            results,
            before,
            after,
        } => Some(Planned::Shorten {
            results: results.clone(),
            before: *before,
            after: *after,
        }),
        Entry::Compacted { .. } => planned(first),
        Entry::Continue(Continue::Compact) => {
            let came = entries.find(|entry| match entry {
                Entry::Compacted { .. } | Entry::TurnEnd(_) => true,
                Entry::Continue(reason) => !matches!(
                    reason,
                    Continue::Compact | Continue::Retry | Continue::FallbackModel { .. }
                ),
                _ => false,
            });
            // Of one that came to nothing only that is known.
            let trigger = match came {
                Some(Entry::TurnEnd(TurnEnd::ContextLimit { .. })) => CompactionTrigger::TooLong,
                _ => CompactionTrigger::Auto,
            };
            came.and_then(planned).or(Some(Planned::Compact {
                trigger,
                cut: None,
                before: u64::MAX,
                after: 0,
            }))
        }
        _ => None,
    }
}

const fn planned(entry: &Entry) -> Option<Planned> {
    match entry {
        Entry::Compacted {
            cut,
            trigger,
            before,
            after,
            ..
        } => Some(Planned::Compact {
            trigger: *trigger,
            cut: Some(*cut),
            before: *before,
            after: *after,
        }),
        _ => None,
    }
}

/// What was gathered for a summary, as far as it is on record.
pub(super) fn prepared(records: &[Recorded]) -> Prepared {
    let mut entries = records.iter().map(|record| &record.entry);
    let carried = entries.find_map(|entry| match entry {
        Entry::Compacted { carried, .. } => Some(carried.clone()),
        _ => None,
    });
    Prepared {
        carried: carried.unwrap_or_default(),
        ..Prepared::default()
    }
}

/// What may be spent on the next model call, such that it is made or not, and booked or not, as it
/// is on record.
pub(super) fn spending(settings: &mut Settings, records: &[Recorded]) {
    settings.price = None;
    (settings.limits.tokens, settings.limits.cost) = match fork(records) {
        Some(Entry::TurnEnd(TurnEnd::Budget(Budget::Tokens { .. }))) => (Some(0), None),
        Some(Entry::TurnEnd(TurnEnd::Budget(Budget::Cost { .. }))) => {
            settings.price = Some(Price {
                input: 1.0,
                output: 1.0,
                cache_read: 1.0,
                cache_write: 1.0,
            });
            (None, Some(Money(0)))
        }
        Some(Entry::TurnEnd(TurnEnd::Budget(Budget::UnknownPrice { model }))) => {
            settings.model.clone_from(model);
            (None, Some(Money(0)))
        }
        _ if books(records) => (Some(u64::MAX), None),
        _ => (None, None),
    };
}

/// Whether what the next reply comes to is booked.
pub(super) fn books(records: &[Recorded]) -> bool {
    let mut entries = records.iter().map(|record| &record.entry);
    let decided = |entry: &&Entry| {
        matches!(
            entry,
            Entry::Continue(_) | Entry::TurnEnd(_) | Entry::Spent { .. }
        )
    };
    matches!(entries.find(decided), Some(Entry::Spent { .. }))
}

/// Whether somebody was told that the model is done, after the reply that `records` begin behind.
pub(super) fn stop_hook(message: &AssistantMessage, records: &[Recorded]) -> bool {
    match fork(records) {
        Some(
            Entry::Continue(Continue::StopHookBlocked)
            | Entry::TurnEnd(TurnEnd::StopHookPrevented { .. }),
        ) => true,
        // Nothing else takes time once all is said and done.
        Some(Entry::TurnEnd(
            TurnEnd::Interrupted { .. } | TurnEnd::Deadline { .. } | TurnEnd::HookStopped { .. },
        )) => all_answered(message, records),
        _ => false,
    }
}

/// The tool that takes the answer of the turn that `records` begin with, if one of its replies shows
/// that there is one.
pub(super) fn answer_tool(records: &[Recorded]) -> Option<String> {
    for (at, record) in records.iter().enumerate() {
        match &record.entry {
            Entry::Message(message) => {
                let behind = records.get(at.saturating_add(1)..).unwrap_or_default();
                if let Message::Assistant(reply) = message.message()
                    && let Some(form) = output(reply, behind, None)
                    && let OutputWay::Tool(name) = form.way
                {
                    return Some(name);
                }
            }
            Entry::TurnEnd(_) => return None,
            _ => {}
        }
    }
    None
}

/// The form that the answer was to have, as far as the reply shows it that `records` begin behind.
/// `tool` is the one that takes it, if that is known.
pub(super) fn output(
    message: &AssistantMessage,
    records: &[Recorded],
    tool: Option<&String>,
) -> Option<OutputForm> {
    let form = |way, problem: Option<&str>| {
        Some(OutputForm {
            check: Arc::new(RecordedCheck(problem.map(str::to_owned))),
            way,
            tries: match turn_end(records) {
                Some(TurnEnd::StructuredOutputFailed { tries, .. }) => *tries,
                _ => u32::MAX,
            },
        })
    };
    let native = || OutputWay::Native(RawJson::from_value(&serde_json::Value::Null));
    let by_tool = |failed| Some(OutputWay::Tool(called(message, records, failed)?));
    let has_calls = message.tool_uses().next().is_some();
    match fork(records)? {
        Entry::Continue(Continue::SchemaRetry) if has_calls => form(by_tool(true)?, None),
        Entry::Continue(Continue::SchemaRetry) => {
            let mut said = records.iter().filter_map(|record| match &record.entry {
                Entry::Message(message) => words::said(message.message()),
                _ => None,
            });
            match words::misfit(said.next()?)? {
                Misfit::Form { problem } => form(native(), Some(&problem)),
                Misfit::Tool { name } => form(OutputWay::Tool(name), Some("")),
            }
        }
        Entry::TurnEnd(TurnEnd::StructuredOutputFailed { .. }) if has_calls => {
            form(by_tool(true)?, None)
        }
        Entry::TurnEnd(TurnEnd::StructuredOutputFailed { problem, .. }) => {
            form(native(), Some(problem))
        }
        // A turn ends behind the answers of tools only if one of them took the model's answer.
        Entry::Continue(Continue::FollowUp | Continue::StopHookBlocked)
        | Entry::TurnEnd(
            TurnEnd::Completed
            | TurnEnd::StopHookPrevented { .. }
            | TurnEnd::Deadline { .. }
            | TurnEnd::HookStopped { .. },
        ) if has_calls && all_answered(message, records) => form(by_tool(false)?, None),
        // It goes on for another reason, but what was refused counts.
        Entry::Continue(_) => {
            let tool = tool.filter(|name| all_failed(message, records, name))?;
            form(OutputWay::Tool(tool.clone()), None)
        }
        _ => None,
    }
}

/// Judges answers as they were judged.
#[derive(Debug)]
struct RecordedCheck(Option<String>);

impl OutputCheck for RecordedCheck {
    fn check(&self, _: &str) -> Result<RawJson, String> {
        match &self.0 {
            None => Ok(RawJson::from_value(&serde_json::Value::Null)),
            Some(problem) => Err(problem.clone()),
        }
    }
}

/// Whether the reply has all its answers, each by its tool.
fn all_answered(message: &AssistantMessage, records: &[Recorded]) -> bool {
    let fates = fates(records);
    message.tool_uses().all(|tool_use| {
        let finished = fates.get(&tool_use.id).and_then(|fate| fate.finished);
        finished.is_some_and(|(_, result)| words::closed(result).is_none())
    })
}

/// The tool whose calls in this reply all failed, or one of which did not.
fn called(message: &AssistantMessage, records: &[Recorded], failed: bool) -> Option<String> {
    let mut names = message.tool_uses().map(|call| &call.name);
    names
        .find(|name| all_failed(message, records, name) == failed)
        .cloned()
}

/// Whether the reply has calls of this tool, and all of them failed.
fn all_failed(message: &AssistantMessage, records: &[Recorded], name: &str) -> bool {
    let fates = fates(records);
    let is_error = |id: &ToolUseId| {
        let finished = fates.get(id).and_then(|fate| fate.finished);
        finished.is_some_and(|(_, result)| result.is_error)
    };
    let calls = || message.tool_uses().filter(|call| call.name == name);
    calls().next().is_some() && calls().all(|call| is_error(&call.id))
}

/// What ends a turn from outside, if this does.
pub(super) fn breaks_off(end: &TurnEnd, deadline: Option<u64>) -> Option<Input> {
    match end {
        TurnEnd::Interrupted { by, .. } => Some(match by {
            Interrupter::User => Input::Interrupt,
            Interrupter::Shutdown => Input::Shutdown,
        }),
        TurnEnd::HookStopped { reason } => Some(Input::HookStop {
            reason: reason.clone(),
        }),
        TurnEnd::Deadline { .. } => deadline.map(|timer| Input::TimerFired { timer }),
        TurnEnd::Completed
        | TurnEnd::MaxTurns { .. }
        | TurnEnd::MaxToolCalls { .. }
        | TurnEnd::Budget(_)
        | TurnEnd::ContextLimit { .. }
        | TurnEnd::ModelError { .. }
        | TurnEnd::OutputLimit
        | TurnEnd::Refused
        | TurnEnd::LoopDetected { .. }
        | TurnEnd::StructuredOutputFailed { .. }
        | TurnEnd::StopHookPrevented { .. } => None,
    }
}

/// What was queued by the time that the reply was done which `records` begin behind: said before
/// the next model call, and not by the kernel itself.
pub(super) fn queued(records: &[Recorded]) -> Vec<Queued> {
    let mut said: Vec<Vec<Content>> = Vec::new();
    let mut calls = false;
    for record in records {
        match &record.entry {
            Entry::Message(message) => match words::said(message.message()) {
                Some(content) if calls && said.is_empty() && words::is_reminder(content) => {}
                Some(content) => said.push(content.clone()),
                None => return Vec::new(),
            },
            Entry::CallFinished(_) => calls = true,
            Entry::Continue(reason) => return by_reason(said, reason),
            // Something waited, since the model was done.
            Entry::TurnEnd(TurnEnd::MaxTurns { .. }) if !calls => {
                let words = "(what was said then did not reach the model and is not on record)";
                return vec![Queued {
                    content: vec![Content::Text(words.into())],
                    delivery: Delivery::FollowUp,
                }];
            }
            // The process died before it could record why it goes on.
            Entry::TurnEnd(TurnEnd::Interrupted { .. }) => break,
            Entry::TurnEnd(_) => return Vec::new(),
            _ => {}
        }
    }
    by_reason(said, &Continue::Steered)
}

fn by_reason(said: Vec<Vec<Content>>, reason: &Continue) -> Vec<Queued> {
    let newest = match reason {
        Continue::Steered => Delivery::Steer,
        Continue::FollowUp => Delivery::FollowUp,
        Continue::Reminder => Delivery::Notice,
        // What was said is the kernel's.
        Continue::NextStep
        | Continue::Retry
        | Continue::EscalateOutput
        | Continue::ContinueOutput
        | Continue::FallbackModel { .. }
        | Continue::Compact
        | Continue::PauseTurn
        | Continue::SchemaRetry
        | Continue::StopHookBlocked => return Vec::new(),
    };
    let last = said.len().saturating_sub(1);
    let said = said.into_iter().enumerate();
    // Notices are said first.
    said.map(|(at, content)| Queued {
        content,
        delivery: if at == last { newest } else { Delivery::Notice },
    })
    .collect()
}

/// What became of one call.
#[derive(Debug, Default)]
struct Fate<'a> {
    /// Where it is on record as about to run.
    started: Option<usize>,
    permission: Option<&'a Permission>,
    finished: Option<(usize, &'a ToolResult)>,
    /// What it was run with in place of what the model wrote, before somebody was asked.
    rewritten: Option<&'a JsonObject>,
}

impl Fate<'_> {
    /// What hooks had the model told with a refusal. With what a tool said it is one.
    fn told_beside(&self) -> Vec<String> {
        let denied = matches!(self.permission, Some(Permission::Denied { .. }));
        let Some((_, result)) = self.finished.filter(|_| denied) else {
            return Vec::new();
        };
        let texts = result.content.iter().skip(1).filter_map(|part| match part {
            Content::Text(text) => Some(text.clone()),
            Content::Image(_) | Content::Document(_) => None,
        });
        texts.collect()
    }

    /// What somebody had to allow runs as what has effects does.
    const fn has_effects(&self) -> bool {
        self.started.is_some() || matches!(self.permission, Some(Permission::Allowed { .. }))
    }
}

/// How the calls of a reply were judged that `records` begin behind.
pub(super) fn judgements(
    calls: impl IntoIterator<Item = ToolUseId>,
    records: &[Recorded],
) -> HashMap<ToolUseId, Judgement> {
    let fates = fates(records);
    let order: Vec<ToolUseId> = calls.into_iter().collect();
    let mut judgements = HashMap::new();
    let mut before = Before::default();
    for id in order.iter().cloned() {
        let fate = fates.get(&id);
        let done = fate
            .and_then(|fate| fate.finished)
            .map_or(usize::MAX, |(at, _)| at);
        let judgement = fate.map_or_else(Judgement::allow_read_only, |fate| {
            judge(fate, done < before.effects_done, done < before.all_done)
        });
        before.all_done = before.all_done.max(done);
        if fate.is_some_and(Fate::has_effects) {
            before.effects_done = before.effects_done.max(done);
        }
        judgements.insert(id, judgement);
    }
    for id in beside(&fates, &order) {
        if let Some(judgement) = judgements.get_mut(id) {
            judgement.access.effect = AccessEffect::Delegated;
        }
    }
    judgements
}

/// The calls that are on record as about to run beside which others ran that stand after them.
fn beside<'a>(
    fates: &BTreeMap<&ToolUseId, Fate<'_>>,
    order: &'a [ToolUseId],
) -> Vec<&'a ToolUseId> {
    let ran = |id: &ToolUseId| {
        let fate = fates.get(id)?;
        let (at, result) = fate.finished.unzip();
        let answered = result.is_some_and(|result| words::rejection(result).is_some());
        // One that only reads is on record when it is done.
        let begun = fate.started.or_else(|| at.filter(|_| !answered))?;
        (fate.permission.is_none()).then_some((fate.started, begun, at.unwrap_or(usize::MAX)))
    };
    let mut found = Vec::new();
    for (place, id) in order.iter().enumerate() {
        let Some((Some(_), _, done)) = ran(id) else {
            continue;
        };
        let mut after = order.iter().skip(place.saturating_add(1)).filter_map(ran);
        if after.any(|(_, begun, _)| begun < done) {
            found.push(id);
            // What began beside it is of its kind, if it is on record as about to run.
            let later = order.iter().skip(place.saturating_add(1));
            found.extend(later.filter(|id| {
                ran(id).is_some_and(|(started, begun, _)| started.is_some() && begun < done)
            }));
        }
    }
    found
}

/// When the last of the calls before was answered, and the last of those with effects.
#[derive(Debug, Default)]
struct Before {
    all_done: usize,
    effects_done: usize,
}

/// What was said of calls before they were judged, as far as it shows: what they were run with in
/// place of what the model wrote, and what the model is told beside a refusal.
pub(super) fn advice<'a>(
    calls: impl Iterator<Item = &'a ToolUse>,
    records: &[Recorded],
) -> HashMap<ToolUseId, Advice> {
    let fates = fates(records);
    let advice = calls.filter_map(|call| {
        let fate = fates.get(&call.id)?;
        let advice = Advice {
            input: fate.rewritten.cloned(),
            context: fate.told_beside(),
            ..Advice::default()
        };
        (advice != Advice::default()).then(|| (call.id.clone(), advice))
    });
    advice.collect()
}

/// How a call was judged. It may have been answered before one with effects that stands before it,
/// or before any.
fn judge(fate: &Fate<'_>, overtook_effects: bool, overtook: bool) -> Judgement {
    // A rule that refuses and somebody who does leave the same record.
    if fate.permission.is_some() {
        return asked();
    }
    if fate.started.is_some() {
        return Judgement::allow_effectful();
    }
    let Some((_, result)) = fate.finished else {
        return Judgement::allow_read_only();
    };
    if words::too_many(result).is_some() {
        return if overtook {
            Judgement::allow_read_only()
        } else {
            Judgement::allow_effectful()
        };
    }
    match (words::closed(result), words::rejection(result)) {
        (Some(Closed::NotBegun), _) => Judgement::allow_effectful(),
        (Some(Closed::NotAllowed), _) => asked(),
        (Some(Closed::Running | Closed::Dead), _) => Judgement::allow_read_only(),
        (None, Some(text)) if overtook_effects || words::is_rejection(text) => Judgement {
            verdict: Verdict::Invalid {
                message: text.into(),
            },
            ..Judgement::allow_effectful()
        },
        (None, _) => Judgement::allow_read_only(),
    }
}

fn fates(records: &[Recorded]) -> BTreeMap<&ToolUseId, Fate<'_>> {
    let mut fates: BTreeMap<&ToolUseId, Fate<'_>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        match &record.entry {
            Entry::CallStarted { tool_use_id } => {
                fates.entry(tool_use_id).or_default().started = Some(at);
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => fates.entry(tool_use_id).or_default().permission = Some(permission),
            Entry::CallRewritten { tool_use_id, input } => {
                let next = records.get(at.saturating_add(1)).map(|next| &next.entry);
                let answered = matches!(next, Some(Entry::Permission { tool_use_id: id, .. })
                    if id == tool_use_id);
                let fate = fates.entry(tool_use_id).or_default();
                if !answered {
                    fate.rewritten.get_or_insert(input);
                }
            }
            Entry::CallFinished(result) => {
                let fate = fates.entry(&result.tool_use_id).or_default();
                fate.finished.get_or_insert((at, result));
            }
            Entry::Message(message) if matches!(message.message(), Message::Assistant(_)) => break,
            Entry::TurnEnd(_) => break,
            _ => {}
        }
    }
    fates
}

/// For each reply of the turn that `records` begin with, whose calls have all been answered: which
/// outcomes were the same. Equal numbers are equal outcomes. Only what led to something is known.
pub(super) fn repeats(records: &[Recorded], remind_after: u32) -> Vec<usize> {
    let mut labels: Vec<usize> = Vec::new();
    let same = |labels: &mut Vec<usize>, times: u32| {
        let times = usize::try_from(times).unwrap_or(usize::MAX);
        let from = labels.len().saturating_sub(times);
        let first = labels.get(from).copied().unwrap_or_default();
        for label in labels.iter_mut().skip(from) {
            *label = first;
        }
    };
    let mut calls = false;
    for record in records {
        match &record.entry {
            Entry::Message(message) => match message.message() {
                Message::Assistant(_) => calls = false,
                Message::User(content) => {
                    if calls && words::is_reminder(content) {
                        same(&mut labels, remind_after);
                    }
                }
                Message::ToolResults(_) => {}
            },
            Entry::CallFinished(_) if !calls => {
                calls = true;
                labels.push(labels.len());
            }
            Entry::TurnEnd(end) => {
                if let TurnEnd::LoopDetected { times } = end {
                    same(&mut labels, *times);
                }
                break;
            }
            _ => {}
        }
    }
    labels
}
