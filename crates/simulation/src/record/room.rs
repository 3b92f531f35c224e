//! Whether room may be made, and what of the conversation is left then.

use std::sync::Arc;

use tooloop_kernel::CompactionTrigger;
use tooloop_model::{HistoryMessage, Message, ToolUseId};

use crate::law::Law;
use crate::world::World;

/// So many steps lie at least between two times that room is made, unless the window is full.
const APART: u32 = 5;

impl World {
    /// Where what the model has not seen yet begins.
    fn unseen(&self) -> usize {
        let messages = self.folded.messages();
        let mut all = messages.iter();
        let is_reply =
            |message: &Arc<HistoryMessage>| matches!(message.message(), Message::Assistant(_));
        let Some(reply) = all.rposition(is_reply) else {
            return 0;
        };
        match messages.get(reply + 1).map(|next| next.message()) {
            Some(Message::ToolResults(_)) => reply,
            Some(Message::User(_) | Message::Assistant(_)) | None => reply + 1,
        }
    }

    /// Results are cut short.
    pub(super) fn cuts_short(&mut self, results: &[ToolUseId], before: u64, after: u64) {
        self.see("results cut short");
        let in_turn = self.record.in_turn;
        self.require(Law::Report, in_turn, || {
            "results are cut short outside of a turn".into()
        });
        let unseen = self.unseen();
        let mut new = Vec::new();
        for message in self.folded.messages().iter().skip(unseen) {
            if let Message::ToolResults(answers) = message.message() {
                let ids = answers.iter().map(|answer| answer.tool_use_id.clone());
                new.extend(ids.filter(|id| results.contains(id)));
            }
        }
        self.require(Law::Truth, new.is_empty(), || {
            format!("{new:?} is cut short, and the model has not seen it")
        });
        self.makes_room(before, after);
        self.is_apart(before);
        self.life.since_room = Some(0);
    }

    /// The oldest messages are summed up.
    pub(super) fn is_summed_up(
        &mut self,
        cut: usize,
        summary: &str,
        trigger: CompactionTrigger,
        (before, after): (u64, u64),
    ) {
        self.see(match trigger {
            CompactionTrigger::Auto => "summed up: automatic",
            CompactionTrigger::Manual => "summed up: manual",
            CompactionTrigger::TooLong => "summed up: too long",
        });
        let may = self.folded.may_be_cut(cut) && cut <= self.unseen();
        self.require(Law::Pairing, may, || {
            format!("{cut} messages are summed up, which cannot be parted from the rest")
        });
        let said = self.life.served.as_ref().is_some_and(|served| {
            served.is_summary && served.stop.is_some() && served.text.trim() == summary
        });
        self.require(Law::Truth, said && !summary.is_empty(), || {
            format!("the model did not sum it up as {summary:?}")
        });
        let refused = std::mem::take(&mut self.life.summary_refused);
        self.require(Law::Permission, !refused, || {
            "it is summed up against the word of a hook".into()
        });
        let in_turn = self.record.in_turn;
        let manual = trigger == CompactionTrigger::Manual;
        self.require(Law::Report, in_turn != manual, || {
            format!("it is summed up ({}), in a turn: {in_turn}", trigger.name())
        });
        self.makes_room(before, after);
        if trigger == CompactionTrigger::Auto {
            self.is_apart(before);
        }
        self.record.sums_up = false;
        self.life.failed_summaries = 0;
        self.life.since_room = Some(0);
    }

    fn makes_room(&mut self, before: u64, after: u64) {
        self.require(Law::Bounds, after < before, || {
            format!("room is made, and {before} tokens become {after}")
        });
    }

    /// Room was not made just before, unless the window is full.
    fn is_apart(&mut self, before: u64) {
        let window = self.script.knobs.window.unwrap_or(200_000);
        // As much as is set aside for a reply at most.
        let full = before > window.saturating_sub((window / 12).clamp(1, 1024));
        let since = self.life.since_room;
        let apart = full || since.is_none_or(|steps| steps >= APART);
        self.require(Law::Bounds, apart, || {
            format!("room is made at {before} tokens of {window}, {since:?} steps after it was")
        });
    }
}
