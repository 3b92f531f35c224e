//! The machine's side that keeps the conversation within the model's window.
//!
//! Cheap first: results that the model has seen are cut short; if that is not enough, the oldest part
//! of the conversation is summed up by the model. Both append an entry and edit nothing. What it must
//! hold to: a call is never parted from its result, what the model has not seen yet stays whole, what
//! the user wants now stays word for word, and it must shrink or it is not done.

use std::sync::Arc;

use tooloop_model::{AssistantMessage, Content, HistoryMessage, Message, ModelError};

use super::{Kernel, Phase};
use crate::ledger::Reservation;
use crate::{
    CompactionTrigger, Continue, Delivery, Effect, Entry, Planned, Prepared, Room, Sync, TurnEnd,
    attachments, estimate, planner,
};

/// So many steps are made at least between two times that room is made, unless nothing fits.
const HYSTERESIS: u32 = 5;

/// After so many failures in a row the conversation is not summed up by itself any more.
const FAILURES: u32 = 3;

/// So often in a row the window may be full again before [`HYSTERESIS`] steps were made.
const REFILLS: u32 = 2;

/// So often a summary's request is made smaller when the provider finds it too long.
const SMALLER: u32 = 3;

/// What the model is asked for a summary with.
const REQUEST: &str = include_str!("../summary_request.md");

/// A conversation that is being summed up.
pub(super) struct Compaction {
    number: u64,
    trigger: CompactionTrigger,
    focus: Option<String>,
    prepared: Prepared,
    then: Then,
    /// How often the request for the summary was too long.
    too_long: u32,
    /// The tokens that the next request would likely have had.
    before: u64,
}

/// What follows.
enum Then {
    /// The model is called, for this reason.
    Call(Option<Continue>),
    /// Nothing: no turn is under way.
    Rest,
}

/// How the upkeep of the conversation has gone.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Steps made since room was made; `None` if it never was.
    steps: Option<u32>,
    /// Summaries that failed in a row.
    failures: u32,
    /// How often in a row the window was full again before [`HYSTERESIS`] steps.
    refills: u32,
}

impl Upkeep {
    pub(super) const fn step(&mut self) {
        if let Some(steps) = &mut self.steps {
            *steps = steps.saturating_add(1);
        }
    }

    fn is_soon(&self) -> bool {
        self.steps.is_some_and(|steps| steps < HYSTERESIS)
    }
}

/// A summary that was decided on elsewhere.
#[derive(Clone, Copy)]
struct PlannedSummary {
    trigger: CompactionTrigger,
    cut: Option<usize>,
    before: u64,
    after: u64,
}

/// What is to be done before the next request.
enum Upcoming {
    /// Nothing.
    Send,
    /// The conversation is summed up.
    Compact,
    /// It would be in vain.
    Hopeless(String),
}

impl Kernel {
    /// How the window of the model that is asked is shared out, if it is known.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        let window = self.asked().window?;
        Some(Room::new(window, self.fixed(), self.cap()))
    }

    /// The output cap that leaves the next request within the window.
    pub(super) fn fitting_cap(&self, cap: Option<u64>) -> Option<u64> {
        let (Some(cap), Some(room)) = (cap, self.room()) else {
            return cap;
        };
        let likely = self.likely_input();
        let left = room
            .window
            .saturating_sub(likely)
            .saturating_sub(likely / 16);
        // The provider has the last word on whether that little is too much.
        Some(cap.min(left.max(room.output.min(256))))
    }

    /// Calls the model, after room was made if there is too little.
    pub(super) fn call_model(&mut self, reason: Option<Continue>, out: &mut Vec<Effect>) {
        match self.upcoming(out) {
            Upcoming::Send => self.send(reason, out),
            Upcoming::Compact => {
                self.begin_compaction(CompactionTrigger::Auto, None, Then::Call(reason), out);
            }
            Upcoming::Hopeless(message) => self.end(TurnEnd::ContextLimit { message }, out),
        }
    }

    fn upcoming(&mut self, out: &mut Vec<Effect>) -> Upcoming {
        if let Some(upcoming) = self.as_planned(out) {
            return upcoming;
        }
        let Some(room) = self.room() else {
            return Upcoming::Send;
        };
        let likely = self.likely_input();
        if likely <= room.threshold() || !self.settings.compaction {
            return Upcoming::Send;
        }
        let full = likely > room.limit();
        if self.upkeep.is_soon() {
            if !full {
                return Upcoming::Send;
            }
            if self.upkeep.refills >= REFILLS {
                return Upcoming::Hopeless(format!(
                    "making room does not help: the window was full again before {HYSTERESIS} \
                     steps, {} times in a row. {}",
                    REFILLS.saturating_add(1),
                    self.sizes()
                ));
            }
        }
        if self.shorten(room, likely, out) {
            return Upcoming::Send;
        }
        let cut = planner::cut(self.transcript.messages(), self.keep(room));
        if cut > 0 && self.upkeep.failures < FAILURES {
            return Upcoming::Compact;
        }
        // The window may be larger than it is taken to be: the provider has the last word.
        Upcoming::Send
    }

    /// What was decided elsewhere.
    fn as_planned(&mut self, out: &mut Vec<Effect>) -> Option<Upcoming> {
        let planned = self.settings.planned.take_if(|planned| match planned {
            Planned::Shorten { .. } => true,
            Planned::Compact { .. } => false,
        });
        if let Some(Planned::Shorten {
            results,
            before,
            after,
        }) = planned
        {
            let entry = Entry::Shortened {
                results,
                before,
                after,
            };
            self.record(entry, Sync::Soon, out);
            return Some(Upcoming::Send);
        }
        (self.planned()?.trigger == CompactionTrigger::Auto).then_some(Upcoming::Compact)
    }

    /// The summary that was decided on elsewhere, if one was.
    const fn planned(&self) -> Option<PlannedSummary> {
        match self.settings.planned {
            Some(Planned::Compact {
                trigger,
                cut,
                before,
                after,
            }) => Some(PlannedSummary {
                trigger,
                cut,
                before,
                after,
            }),
            Some(Planned::Shorten { .. }) | None => None,
        }
    }

    /// The newest tokens that stay, as they are estimated.
    fn keep(&self, room: Room) -> u64 {
        self.transcript.calibration().undo(room.keep())
    }

    /// Cuts stale results short, if that is enough.
    fn shorten(&mut self, room: Room, likely: u64, out: &mut Vec<Effect>) -> bool {
        let results = planner::stale(self.transcript.messages(), self.keep(room));
        if results.is_empty() {
            return false;
        }
        let entry = |after| Entry::Shortened {
            results: results.clone(),
            before: likely,
            after,
        };
        let mut shorter = self.transcript.clone();
        shorter.apply(&entry(0));
        let kept = std::mem::replace(&mut self.transcript, shorter);
        let after = self.likely_input();
        self.transcript = kept;
        if after > room.relief() {
            return false;
        }
        self.record(entry(after), Sync::Soon, out);
        self.made_room();
        true
    }

    fn made_room(&mut self) {
        self.upkeep.refills = if self.upkeep.is_soon() {
            self.upkeep.refills.saturating_add(1)
        } else {
            0
        };
        self.upkeep.steps = Some(0);
    }

    /// What fills the window, for a person.
    fn sizes(&self) -> String {
        let tools = self.settings.tools.iter().map(estimate::definition);
        let tools = tools.fold(0, u64::saturating_add);
        let request = estimate::messages(self.transcript.request());
        let messages = estimate::messages(self.transcript.messages());
        format!(
            "In tokens, about: the system prompt {}, the tools {tools}, the conversation {messages}, \
             of which what you asked for {request}; the model's window has {}",
            estimate::text(&self.settings.system),
            self.asked().window.unwrap_or_default(),
        )
    }

    // ---- summing up

    /// Somebody wants the conversation summed up.
    pub(super) fn compact_now(&mut self, focus: Option<String>, out: &mut Vec<Effect>) {
        if !self.is_idle() {
            return;
        }
        self.turn = super::Turn::default();
        self.begin_compaction(CompactionTrigger::Manual, focus, Then::Rest, out);
    }

    fn begin_compaction(
        &mut self,
        trigger: CompactionTrigger,
        focus: Option<String>,
        then: Then,
        out: &mut Vec<Effect>,
    ) {
        self.newest.compaction = self.newest.compaction.saturating_add(1);
        let number = self.newest.compaction;
        self.compaction = Some(Box::new(Compaction {
            number,
            trigger,
            focus,
            prepared: Prepared::default(),
            then,
            // What was too long without being asked for a summary is too long with it.
            too_long: u32::from(trigger == CompactionTrigger::TooLong),
            before: self
                .planned()
                .map_or_else(|| self.likely_input(), |planned| planned.before),
        }));
        if self.cut(trigger) == 0 {
            let words = "there is nothing that could be summed up".into();
            return self.compaction_failed(words, out);
        }
        self.phase = Phase::Preparing;
        let carried = self.room().map_or(0, |room| room.carried());
        out.push(Effect::PrepareCompaction {
            compaction: number,
            trigger,
            room: self.transcript.calibration().undo(carried),
        });
    }

    /// How many of the oldest messages a summary would stand for.
    fn cut(&self, trigger: CompactionTrigger) -> usize {
        if let Some(cut) = self.planned().and_then(|planned| planned.cut) {
            return cut;
        }
        let keep = match (trigger, self.room()) {
            (CompactionTrigger::Manual, _) | (_, None) => 0,
            // The window is smaller than it was taken to be.
            (CompactionTrigger::TooLong, Some(room)) => self.keep(room) / 2,
            (CompactionTrigger::Auto, Some(room)) => self.keep(room),
        };
        planner::cut(self.transcript.messages(), keep)
    }

    /// What a summary needs is there.
    pub(super) fn prepared(&mut self, compaction: u64, prepared: Prepared, out: &mut Vec<Effect>) {
        let Some(current) = self.compaction.as_mut() else {
            return;
        };
        if current.number != compaction || !matches!(self.phase, Phase::Preparing) {
            return;
        }
        if let Some(reason) = prepared.refused {
            return self.compaction_failed(format!("a hook refused it: {reason}"), out);
        }
        current.prepared = prepared;
        self.ask_summary(Continue::Compact, out);
    }

    /// Asks for the summary: with the very prefix that a provider has in its cache.
    pub(super) fn ask_summary(&mut self, reason: Continue, out: &mut Vec<Effect>) {
        let Some(compaction) = &self.compaction else {
            return;
        };
        let mut words = REQUEST.to_owned();
        let focus = compaction.focus.iter();
        for more in focus.chain(&compaction.prepared.instructions) {
            words.push_str("\nLook most closely at this: ");
            words.push_str(more.trim());
            words.push('\n');
        }
        let room = self.room();
        let cap = room.map(|room| room.summary()).or_else(|| self.cap());
        let whole = self.transcript.messages();
        let messages = attachments::left_out_of_summary(whole);
        let messages = messages.as_slice();
        let mut messages = match room {
            None => messages.to_vec(),
            Some(room) => {
                let most = room
                    .window
                    .saturating_sub(room.fixed)
                    .saturating_sub(room.summary())
                    .saturating_sub(estimate::text(&words));
                let most = self.transcript.calibration().undo(most);
                // Each time the provider finds it too long, a quarter less of what there is.
                let most = (0..compaction.too_long).fold(
                    match compaction.too_long {
                        0 => most,
                        _ => most.min(estimate::messages(messages)),
                    },
                    |most, _| most.saturating_mul(3) / 4,
                );
                // The newest count is better than any estimate.
                if compaction.too_long == 0 && compaction.before <= room.limit() {
                    messages.to_vec()
                } else {
                    planner::fitting(messages, self.transcript.request(), most)
                }
            }
        };
        messages.push(Arc::new(HistoryMessage::new(Message::user(words))));
        let known = self.transcript.messages();
        let is_known =
            |one: &&Arc<HistoryMessage>| known.iter().any(|known| Arc::ptr_eq(known, one));
        let ends = messages.iter().take(1).chain(messages.last());
        let beside: Vec<_> = ends.filter(|one| !is_known(one)).cloned().collect();
        let in_turn = matches!(compaction.then, Then::Call(_));
        let reservation = match self.reserve(cap, &beside) {
            Ok(reservation) => reservation,
            Err(budget) if in_turn => return self.end(TurnEnd::Budget(*budget), out),
            Err(budget) => {
                let end = TurnEnd::Budget(*budget);
                let words = format!("the limit is reached: {}", end.name());
                return self.compaction_failed(words, out);
            }
        };
        if in_turn {
            self.record(Entry::Continue(reason), Sync::Soon, out);
        }
        self.request(messages, None, reservation, true, out);
    }

    /// The summary is there.
    pub(super) fn summarised(
        &mut self,
        reservation: Reservation,
        message: &AssistantMessage,
        written: u64,
        out: &mut Vec<Effect>,
    ) {
        let usage = message.usage;
        self.discard(usage, out);
        self.settle(reservation, usage, written, true, out);
        let Some(compaction) = self.compaction.take() else {
            return;
        };
        let summary = message.text();
        let summary = summary.trim();
        if summary.is_empty() {
            self.compaction = Some(compaction);
            let words = "the model wrote no summary".into();
            return self.compaction_failed(words, out);
        }
        let cut = self.cut(compaction.trigger);
        let request = self.request_before(cut);
        let entry = |after| Entry::Compacted {
            cut,
            summary: summary.to_owned(),
            request: request.clone(),
            carried: compaction.prepared.carried.clone(),
            trigger: compaction.trigger,
            before: compaction.before,
            after,
        };
        let mut shorter = self.transcript.clone();
        shorter.forget_past();
        shorter.apply(&entry(0));
        // Whatever was counted, what has fewer bytes is shorter.
        let is_shorter =
            estimate::messages(shorter.messages()) < estimate::messages(self.transcript.messages());
        let kept = std::mem::replace(&mut self.transcript, shorter);
        let planned = self.planned();
        let after = planned.map_or_else(|| self.likely_input(), |planned| planned.after);
        self.transcript = kept;
        let after = match planned {
            None if is_shorter => after.min(compaction.before.saturating_sub(1)),
            None | Some(_) => after,
        };
        if planned.is_none() && !is_shorter {
            let before = compaction.before;
            self.compaction = Some(compaction);
            let words = format!(
                "it would not be shorter: about {after} tokens in place of {before}. {}",
                self.sizes()
            );
            return self.compaction_failed(words, out);
        }
        self.record(entry(after), Sync::Soon, out);
        self.settings.planned = None;
        self.upkeep.failures = 0;
        self.made_room();
        let Compaction {
            number: compaction,
            trigger,
            then,
            ..
        } = *compaction;
        out.push(Effect::CompactionEnded {
            compaction,
            trigger,
            failure: None,
        });
        match then {
            Then::Call(reason) => self.send(reason, out),
            Then::Rest => self.rest(out),
        }
    }

    /// What the user wants, where a summary of the oldest `cut` messages would leave nothing of it.
    fn request_before(&self, cut: usize) -> Vec<Content> {
        let transcript = &self.transcript;
        let kept = transcript.messages().get(cut..).unwrap_or_default();
        let is_in = |messages: &[Arc<HistoryMessage>], one: &Arc<HistoryMessage>| {
            messages.iter().any(|other| Arc::ptr_eq(other, one))
        };
        let done = transcript.newest_end() == Some(&TurnEnd::Completed);
        let request = if done { &[] } else { transcript.request() };
        let mut content: Vec<Content> = Vec::new();
        let say = |content: &mut Vec<Content>, messages: &[Arc<HistoryMessage>]| {
            for message in messages.iter().filter(|one| !is_in(kept, one)) {
                if let Message::User(said) = message.message() {
                    content.extend(attachments::replaced(said, attachments::COMPACTED));
                }
            }
        };
        // Later work hangs on what it all began with; not if that alone takes the room.
        let opening = transcript.opening();
        let room = self.room().map_or(0, |room| room.keep() / 2);
        let is_earlier = opening.iter().all(|one| !is_in(request, one));
        if is_earlier && estimate::messages(opening) <= room {
            say(&mut content, opening);
        }
        if !content.is_empty() {
            let words = "(So the conversation began.)";
            content.insert(0, Content::Text(words.into()));
            if !request.iter().all(|one| is_in(kept, one)) {
                let words = "(And this is to be done now:)";
                content.push(Content::Text(words.into()));
            }
        }
        say(&mut content, request);
        content
    }

    /// The provider found a request too long.
    pub(super) fn too_long(&mut self, error: ModelError, is_summary: bool, out: &mut Vec<Effect>) {
        if is_summary {
            let Some(compaction) = self.compaction.as_mut() else {
                return;
            };
            compaction.too_long = compaction.too_long.saturating_add(1);
            if compaction.too_long > SMALLER {
                self.turn.failures = 0;
                self.turn.empty_replies = 0;
                let words = format!("the request for the summary is too long: {}", error.message);
                return self.compaction_failed(words, out);
            }
            return self.ask_summary(Continue::Compact, out);
        }
        let helps = self.settings.compaction
            && !self.turn.rescued
            && (self.asked().window.is_some() || self.planned().is_some())
            && self.cut(CompactionTrigger::TooLong) > 0;
        if !helps {
            let message = match self.asked().window {
                Some(_) => format!("{}. {}", error.message, self.sizes()),
                None => error.message,
            };
            return self.end(TurnEnd::ContextLimit { message }, out);
        }
        self.turn.rescued = true;
        let then = Then::Call(Some(Continue::Retry));
        self.begin_compaction(CompactionTrigger::TooLong, None, then, out);
    }

    pub(super) fn compaction_failed(&mut self, reason: String, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        self.settings.planned = None;
        let Some(compaction) = self.compaction.take() else {
            return;
        };
        let Compaction {
            number,
            trigger,
            then,
            ..
        } = *compaction;
        out.push(Effect::CompactionEnded {
            compaction: number,
            trigger,
            failure: Some(reason.clone()),
        });
        match (then, trigger) {
            (Then::Rest, _) => self.rest(out),
            (Then::Call(_), CompactionTrigger::TooLong) => {
                let message = format!(
                    "the provider found the request too long, and the conversation could not be \
                     summed up: {reason}"
                );
                self.end(TurnEnd::ContextLimit { message }, out);
            }
            (Then::Call(next), CompactionTrigger::Auto | CompactionTrigger::Manual) => {
                self.upkeep.failures = self.upkeep.failures.saturating_add(1);
                self.upkeep.steps = Some(0);
                self.send(next, out);
            }
        }
    }

    /// The conversation was summed up, or not, while no turn was under way; what was said meanwhile
    /// begins one.
    fn rest(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Idle;
        let is_said = |delivery| matches!(delivery, Delivery::Steer | Delivery::FollowUp);
        let next = self
            .queue
            .iter()
            .position(|queued| is_said(queued.delivery));
        if let Some(queued) = next.and_then(|next| self.queue.remove(next)) {
            self.hear(queued.content, Delivery::Steer, out);
        }
    }

    /// Breaks off a summary that no turn waits for. Returns whether there was one.
    pub(super) fn break_off_manual(&mut self, out: &mut Vec<Effect>) -> bool {
        let manual = self.compaction.as_ref();
        if !manual.is_some_and(|compaction| matches!(compaction.then, Then::Rest)) {
            return false;
        }
        let _ = self.break_off("it was interrupted", "", out);
        self.compaction_failed("it was interrupted".into(), out);
        true
    }

    /// The number of the summary that is under way, if one is.
    pub(super) fn compaction_number(&self) -> Option<u64> {
        self.compaction.as_ref().map(|compaction| compaction.number)
    }
}
