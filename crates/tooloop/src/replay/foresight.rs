//! What a record leads to, and what must have been so that it did.
//!
//! A journal holds what came of limits, rules and queues, not the limits, rules and queues. Here
//! they are read off what came of them.

use std::collections::{BTreeMap, HashMap};

use tooloop_kernel::{
    Continue, Delivery, Entry, Judgement, Permission, Settings, TurnEnd, Verdict,
};
use tooloop_model::{Content, Message, ToolResult, ToolUseId};

use super::gate::asked;
use super::recording::Recorded;
use super::words::{self, Closed};

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

/// The limits of the turn that `records` begin with: the one that it ran into, and no other.
pub(super) fn limits(settings: &mut Settings, records: &[Recorded]) {
    settings.max_turns = None;
    settings.stop_after_repeats = u32::MAX;
    match turn_end(records) {
        Some(TurnEnd::MaxTurns { limit }) => settings.max_turns = Some(*limit),
        Some(TurnEnd::LoopDetected { times }) => settings.stop_after_repeats = *times,
        _ => {}
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
            Entry::TurnEnd(_) => return Vec::new(),
            _ => {}
        }
    }
    Vec::new()
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
    started: bool,
    permission: Option<&'a Permission>,
    finished: Option<(usize, &'a ToolResult)>,
}

/// How the calls of a reply were judged that `records` begin behind.
pub(super) fn judgements(
    calls: impl IntoIterator<Item = ToolUseId>,
    records: &[Recorded],
) -> HashMap<ToolUseId, Judgement> {
    let fates = fates(records);
    let mut judgements = HashMap::new();
    // When the last of the calls with effects so far was done.
    let mut effects_done = 0;
    for id in calls {
        let fate = fates.get(&id);
        let finished = fate.and_then(|fate| fate.finished);
        if fate.is_some_and(|fate| fate.started) {
            effects_done = effects_done.max(finished.map_or(usize::MAX, |(at, _)| at));
        }
        let overtook = finished.is_some_and(|(at, _)| at < effects_done);
        let judgement = fate.map_or_else(Judgement::allow_read_only, |fate| judge(fate, overtook));
        judgements.insert(id, judgement);
    }
    judgements
}

fn judge(fate: &Fate<'_>, overtook: bool) -> Judgement {
    // A rule that refuses and somebody who does leave the same record.
    if fate.permission.is_some() {
        return asked();
    }
    if fate.started {
        return Judgement::allow_effectful();
    }
    let Some((_, result)) = fate.finished else {
        return Judgement::allow_read_only();
    };
    match (words::closed(result), words::rejection(result)) {
        (Some(Closed::NotBegun), _) => Judgement::allow_effectful(),
        (Some(Closed::NotAllowed), _) => asked(),
        (Some(Closed::Running | Closed::Dead), _) => Judgement::allow_read_only(),
        (None, Some(text)) if overtook || words::is_rejection(text) => Judgement {
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
                fates.entry(tool_use_id).or_default().started = true;
            }
            Entry::Permission {
                tool_use_id,
                permission,
            } => fates.entry(tool_use_id).or_default().permission = Some(permission),
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
