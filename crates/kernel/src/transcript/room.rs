//! How a transcript makes room, and how it gets back to what it had before.

use std::sync::Arc;

use tooloop_model::{Content, HistoryMessage, Message, ToolResult, ToolUseId};

use super::Transcript;
use crate::planner::{LEFT, begins};
use crate::{Calibration, Continue, LeftOut, attachments, estimate};

/// What a transcript was before it was summed up, each time, if that is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Past {
    /// `None` if it is not kept.
    before: Option<Vec<Before>>,
    /// It was needed and not there.
    lacking: bool,
}

#[derive(Debug, Clone)]
struct Before {
    messages: Vec<Arc<HistoryMessage>>,
    turns: Vec<usize>,
    summed_up: usize,
}

impl PartialEq for Past {
    /// What a transcript is does not depend on what else is kept.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Transcript {
    /// How many of the first turns have begun in a part of the conversation that was summed up.
    #[must_use]
    pub const fn summed_up(&self) -> usize {
        self.summed_up
    }

    /// How often the conversation was summed up.
    #[must_use]
    pub const fn compactions(&self) -> u32 {
        self.compactions
    }

    /// What the user wants now: the message that began the newest turn, and what was said to that
    /// turn since.
    #[must_use]
    pub fn request(&self) -> &[Arc<HistoryMessage>] {
        &self.request
    }

    /// What the conversation began with.
    #[must_use]
    pub fn opening(&self) -> &[Arc<HistoryMessage>] {
        &self.opening
    }

    /// How far the estimate of what is not counted yet has been out.
    #[must_use]
    pub const fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// From now on what is summed up is kept as well, so that the conversation can be taken back to
    /// before it. That takes memory for as long as it is kept.
    pub fn keep_past(&mut self) {
        self.past.before.get_or_insert_default();
    }

    /// What was summed up is not kept any more.
    pub fn forget_past(&mut self) {
        self.past.before = None;
    }

    /// Whether an entry took the conversation back to before what was summed up, and could not, since
    /// that was not kept ([`Transcript::keep_past`]). What the entries come to is not known then.
    #[must_use]
    pub const fn lacks_past(&self) -> bool {
        self.past.lacking
    }

    /// Whether the conversation can be taken back to before this turn, counted from 1.
    #[must_use]
    pub fn reaches(&self, turn: usize) -> bool {
        turn > self.summed_up || self.past.before.is_some()
    }

    /// The conversation from this turn on, counted from 1, as it was before any of that turn was
    /// summed up; `None` if there is no such turn, or it was and that is not kept.
    #[must_use]
    pub fn since(&self, turn: usize) -> Option<&[Arc<HistoryMessage>]> {
        let place = turn.checked_sub(1)?;
        let (messages, turns) = if turn > self.summed_up {
            (&self.messages, &self.turns)
        } else {
            let mut before = self.past.before.iter().flatten().rev();
            let whole = before.find(|before| before.summed_up < turn)?;
            (&whole.messages, &whole.turns)
        };
        messages.get(*turns.get(place)?..)
    }

    /// Whether a summary can stand for that many of the oldest messages: no call is parted from its
    /// result.
    #[must_use]
    pub fn may_be_cut(&self, cut: usize) -> bool {
        let whole = cut == self.messages.len();
        let begins = self.messages.get(cut).is_some_and(|kept| begins(kept));
        self.open.is_empty() && cut > 0 && (whole || begins)
    }

    pub(super) fn restore(&mut self, turn: usize) -> bool {
        let before = self.past.before.as_mut();
        let Some(before) = before else {
            self.past.lacking = true;
            return false;
        };
        while let Some(newest) = before.pop() {
            if newest.summed_up < turn {
                self.messages = newest.messages;
                self.turns = newest.turns;
                self.summed_up = newest.summed_up;
                self.count = None;
                return true;
            }
        }
        false
    }

    pub(super) fn compact(
        &mut self,
        cut: usize,
        summary: &str,
        request: &[Content],
        carried: &[Content],
    ) {
        if !self.may_be_cut(cut) {
            return;
        }
        if let Some(before) = &mut self.past.before {
            before.push(Before {
                messages: self.messages.clone(),
                turns: self.turns.clone(),
                summed_up: self.summed_up,
            });
        }
        self.compactions = self.compactions.saturating_add(1);
        let head = Message::User(head(summary, request, carried));
        let head = Arc::new(HistoryMessage::new(head));
        let gone = self.messages.get(..cut).unwrap_or_default();
        let removed = estimate::messages(gone);
        let count = self.count.take();
        self.count = count.and_then(|count| count.replaced(cut, removed, &head));
        self.messages.splice(..cut, [head]);
        for (number, begins) in self.turns.iter_mut().enumerate() {
            match begins.checked_sub(cut) {
                Some(rest) if number >= self.summed_up => *begins = rest.saturating_add(1),
                Some(_) | None => {
                    *begins = 0;
                    self.summed_up = self.summed_up.max(number.saturating_add(1));
                }
            }
        }
    }

    pub(super) fn shorten(&mut self, results: &[ToolUseId]) {
        let mut removed = 0_u64;
        for message in &mut self.messages {
            let Message::ToolResults(answers) = message.message() else {
                continue;
            };
            if !answers
                .iter()
                .any(|answer| results.contains(&answer.tool_use_id))
            {
                continue;
            }
            let answers = answers
                .iter()
                .map(|answer| {
                    if results.contains(&answer.tool_use_id) {
                        shortened(answer)
                    } else {
                        answer.clone()
                    }
                })
                .collect();
            let shorter = Arc::new(HistoryMessage::new(Message::ToolResults(answers)));
            removed = removed.saturating_add(
                estimate::message(message).saturating_sub(estimate::message(&shorter)),
            );
            *message = shorter;
        }
        self.count = self.count.map(|count| count.shortened(removed));
    }

    /// Whether there are images or documents, in what came before the newest reply and in what came
    /// after it.
    #[must_use]
    pub(crate) fn attachments(&self) -> (bool, bool) {
        let (old, new) = self.messages.split_at(self.unanswered());
        let any = |messages: &[Arc<HistoryMessage>]| {
            messages
                .iter()
                .any(|one| attachments::count(one.message()) > 0)
        };
        (any(old), any(new))
    }

    /// Whether there is reasoning that would be sent back.
    #[must_use]
    pub(crate) fn has_thinking(&self) -> bool {
        let mut messages = self.messages.iter();
        messages.any(|one| attachments::without_thinking(one.message()).is_some())
    }

    /// Where that begins which no model has answered.
    fn unanswered(&self) -> usize {
        let newest = self
            .messages
            .iter()
            .rposition(|one| matches!(one.message(), Message::Assistant(_)));
        newest.map_or(0, |newest| newest.saturating_add(1))
    }

    /// Leaves this out of the conversation.
    pub(super) fn leave_out(&mut self, what: LeftOut) {
        let unanswered = self.unanswered();
        let mut removed = 0_u64;
        for (place, message) in self.messages.iter_mut().enumerate() {
            let concerned = match what {
                LeftOut::Thinking | LeftOut::Attachments => true,
                LeftOut::NewAttachments => place >= unanswered,
                LeftOut::OldAttachments => place < unanswered,
            };
            if !concerned {
                continue;
            }
            let rest = match what {
                LeftOut::Thinking => attachments::without_thinking(message.message()),
                LeftOut::NewAttachments | LeftOut::OldAttachments | LeftOut::Attachments => {
                    attachments::without(message.message(), attachments::REFUSED)
                }
            };
            let Some(rest) = rest else { continue };
            let rest = Arc::new(HistoryMessage::new(rest));
            if place < self.count.map_or(0, |count| count.messages) {
                let less = estimate::message(message).saturating_sub(estimate::message(&rest));
                removed = removed.saturating_add(less);
            }
            // What the user wants is told by the same messages.
            for wanted in self.request.iter_mut().chain(&mut self.opening) {
                if Arc::ptr_eq(wanted, message) {
                    *wanted = Arc::clone(&rest);
                }
            }
            *message = rest;
        }
        self.count = self.count.map(|count| count.shortened(removed));
    }

    /// Why the loop goes on tells what the newest messages of the user are to it.
    pub(super) fn goes_on(&mut self, reason: &Continue) {
        let is_user =
            |message: &&Arc<HistoryMessage>| matches!(message.message(), Message::User(_));
        match reason {
            Continue::FollowUp => {
                let newest = self.messages.last().filter(is_user);
                self.request = newest.map_or_else(Vec::new, |newest| vec![Arc::clone(newest)]);
            }
            Continue::Steered => {
                let newest = self.messages.iter().rev().take_while(is_user);
                let mut newest: Vec<_> = newest.filter(|newest| !self.is_wanted(newest)).collect();
                newest.reverse();
                self.request.extend(newest.into_iter().cloned());
            }
            Continue::NextStep
            | Continue::Retry
            | Continue::EscalateOutput
            | Continue::ContinueOutput
            | Continue::FallbackModel { .. }
            | Continue::Compact
            | Continue::PauseTurn
            | Continue::SchemaRetry
            | Continue::StopHookBlocked
            | Continue::Reminder => {}
        }
    }

    fn is_wanted(&self, message: &Arc<HistoryMessage>) -> bool {
        self.request.iter().any(|asked| Arc::ptr_eq(asked, message))
    }

    /// Whether the newest turn has messages of the user alone.
    pub(super) fn begins_turn(&self) -> bool {
        let begins = self.turns.len().checked_sub(1);
        let begins = begins.filter(|newest| *newest >= self.summed_up);
        let begins = begins.and_then(|newest| self.turns.get(newest));
        let said = begins.and_then(|begins| self.messages.get(*begins..));
        let is_user = |message: &Arc<HistoryMessage>| matches!(message.message(), Message::User(_));
        said.is_some_and(|said| said.iter().all(is_user))
    }

    /// A provider has counted the first `messages` messages.
    pub(super) fn learn(&mut self, tokens: u64, messages: usize) {
        let Some(count) = self.count.filter(|count| count.is_exact()) else {
            return;
        };
        let new = self.messages.get(count.messages..messages);
        if let (Some(new), Some(counted)) = (new, tokens.checked_sub(count.tokens)) {
            self.calibration.learn(estimate::messages(new), counted);
        }
    }
}

/// What is said in place of what was summed up.
fn head(summary: &str, request: &[Content], carried: &[Content]) -> Vec<Content> {
    let mut content = vec![Content::Text(format!(
        "(The conversation up to here was summed up to make room. This is the summary; what follows \
         it is the newest part, as it was said.)\n\n{summary}"
    ))];
    if !request.is_empty() {
        let words = "(What the user asked for, word for word:)";
        content.push(Content::Text(words.into()));
        content.extend(request.iter().cloned());
    }
    content.extend(carried.iter().cloned());
    content.retain(|part| !part.is_blank());
    content
}

/// A result of which the beginning and the end are left.
fn shortened(result: &ToolResult) -> ToolResult {
    let mut text = String::new();
    let mut others = 0_usize;
    for part in &result.content {
        match part {
            Content::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(more);
            }
            Content::Image(_) | Content::Document(_) => others = others.saturating_add(1),
        }
    }
    let at = |nth: usize| {
        text.char_indices()
            .nth(nth)
            .map_or(text.len(), |(at, _)| at)
    };
    let characters = text.chars().count();
    let cut = characters.saturating_sub(LEFT.saturating_mul(2));
    if cut == 0 && others == 0 {
        return result.clone();
    }
    let head = if cut == 0 { text.len() } else { at(LEFT) };
    let tail = head.max(at(characters.saturating_sub(LEFT)));
    let pictures = if others > 0 {
        ", and what was no text"
    } else {
        ""
    };
    let words = format!(
        "{}\n[... {cut} characters of this result{pictures} were cut to make room: make the call \
         again if you need them ...]\n{}",
        text.get(..head).unwrap_or_default(),
        text.get(tail..).unwrap_or_default(),
    );
    ToolResult {
        content: vec![Content::Text(words)],
        ..result.clone()
    }
}
