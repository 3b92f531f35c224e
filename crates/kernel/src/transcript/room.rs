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
}

#[derive(Debug, Clone)]
struct Before {
    messages: Vec<Arc<HistoryMessage>>,
    turns: Vec<usize>,
    summed_up: usize,
}

impl Past {
    /// The newest state in which nothing of this turn was summed up.
    fn before(&self, turn: usize) -> Option<&Before> {
        let mut states = self.before.iter().flatten().rev();
        states.find(|state| state.summed_up < turn)
    }

    /// Removes that state and all newer ones.
    fn take_before(&mut self, turn: usize) -> Option<Before> {
        let states = self.before.as_mut()?;
        let place = states.iter().rposition(|state| state.summed_up < turn)?;
        states.drain(place..).next()
    }
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

    /// Whether the conversation can be taken back to before this turn, counted from 1.
    #[must_use]
    pub fn reaches(&self, turn: usize) -> bool {
        turn > self.summed_up || self.past.before(turn).is_some()
    }

    /// The conversation from this turn on, counted from 1, as it was before any of that turn was
    /// summed up; `None` if there is no such turn, or it was and that is not kept.
    #[must_use]
    pub fn since(&self, turn: usize) -> Option<&[Arc<HistoryMessage>]> {
        let place = turn.checked_sub(1)?;
        let (messages, turns) = if turn > self.summed_up {
            (&self.messages, &self.turns)
        } else {
            let whole = self.past.before(turn)?;
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

    /// Takes the conversation back to before any of this turn was summed up. Returns whether that was
    /// kept.
    pub(super) fn restore(&mut self, turn: usize) -> bool {
        let Some(before) = self.past.take_before(turn) else {
            return false;
        };
        self.messages = before.messages;
        self.turns = before.turns;
        self.summed_up = before.summed_up;
        self.count = None;
        true
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
                Some(rest) => *begins = rest.saturating_add(1),
                // Turns that were summed up before begin with the first message.
                None => {
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

#[cfg(test)]
mod tests {
    use tooloop_model::{
        AssistantMessage, ContentBlock, Image, StopReason, ToolInput, ToolUse, Usage,
    };

    use super::*;
    use crate::count::Count;
    use crate::{CompactionTrigger, Entry, TurnEnd};

    fn apply(transcript: &mut Transcript, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            transcript.apply(&entry);
        }
    }

    fn folded(entries: impl IntoIterator<Item = Entry>) -> Transcript {
        let mut transcript = Transcript::default();
        apply(&mut transcript, entries);
        transcript
    }

    fn user(text: &str) -> Entry {
        Entry::message(Message::user(text))
    }

    fn image() -> Content {
        Content::Image(Image {
            media_type: "image/png".into(),
            data: "AAAA".into(),
        })
    }

    fn picture() -> Entry {
        Entry::message(Message::User(vec![image()]))
    }

    /// A complete reply; `input_tokens` is 0 if the provider counts nothing.
    fn reply(block: ContentBlock, input_tokens: u64) -> Entry {
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![block],
            stop_reason: Some(StopReason::EndTurn),
            usage: Usage {
                input_tokens,
                output_tokens: input_tokens.min(10),
                ..Usage::default()
            },
            ..AssistantMessage::default()
        }))
    }

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text {
            text: text.into(),
            vendor: None,
        }
    }

    fn call(id: &str) -> Entry {
        let tool_use = ContentBlock::ToolUse(ToolUse {
            id: id.into(),
            name: "read".into(),
            input: ToolInput::parse("{}"),
            vendor: None,
        });
        reply(tool_use, 0)
    }

    fn result(id: &str) -> Entry {
        Entry::CallFinished(ToolResult::text(id.into(), "out"))
    }

    fn turn(number: usize) -> [Entry; 3] {
        [
            user(&format!("prompt {number}")),
            reply(text(&format!("reply {number}")), 0),
            Entry::TurnEnd(TurnEnd::Completed),
        ]
    }

    fn summed_up(cut: usize) -> Entry {
        Entry::Compacted {
            cut,
            summary: "summary".into(),
            request: Vec::new(),
            carried: Vec::new(),
            trigger: CompactionTrigger::Manual,
            before: 2,
            after: 1,
        }
    }

    fn words(messages: &[Arc<HistoryMessage>]) -> Vec<String> {
        let words = messages.iter().map(|message| match message.message() {
            Message::User(content) => match content.as_slice() {
                [Content::Text(text)] if text.ends_with("summary") => "summary".into(),
                [Content::Text(text)] => text.clone(),
                other => format!("{other:?}"),
            },
            Message::Assistant(reply) => reply.text(),
            Message::ToolResults(results) => format!("{results:?}"),
        });
        words.collect()
    }

    fn since(transcript: &Transcript, turn: usize) -> Option<Vec<String>> {
        transcript.since(turn).map(words)
    }

    /// Three turns and two summaries, of two turns and of all three, and a fourth turn.
    fn summed_up_twice(mut transcript: Transcript) -> Transcript {
        apply(&mut transcript, turn(1).into_iter().chain(turn(2)));
        assert_eq!(transcript.compactions(), 0);
        apply(&mut transcript, [summed_up(4)]);
        apply(&mut transcript, turn(3));
        apply(&mut transcript, [summed_up(3)]);
        apply(&mut transcript, turn(4));
        transcript
    }

    #[test]
    fn kept_turns_are_reached_through_each_summary() {
        let mut kept = Transcript::default();
        kept.keep_past();
        let kept = summed_up_twice(kept);
        assert_eq!((kept.compactions(), kept.summed_up()), (2, 3));
        assert_eq!(words(&kept.messages), ["summary", "prompt 4", "reply 4"]);
        let turns = [
            vec!["prompt 1", "reply 1", "prompt 2", "reply 2"],
            vec!["prompt 2", "reply 2"],
            vec!["prompt 3", "reply 3"],
            vec!["prompt 4", "reply 4"],
        ];
        for (number, expected) in (1..).zip(turns) {
            let found = since(&kept, number).unwrap();
            assert_eq!(found, expected, "since turn {number}");
            assert!(kept.reaches(number), "turn {number}");
        }
        assert_eq!((since(&kept, 0), since(&kept, 5)), (None, None));
        for (turn, left, summed_up) in [
            (1, vec![], 0),
            (2, vec!["prompt 1", "reply 1"], 0),
            (3, vec!["summary"], 2),
            (4, vec!["summary"], 3),
        ] {
            let mut rewound = kept.clone();
            rewound.apply(&Entry::Rewound { turn });
            assert_eq!(words(&rewound.messages), left, "before turn {turn}");
            assert_eq!(rewound.turns().len(), turn - 1);
            assert_eq!(rewound.summed_up(), summed_up, "before turn {turn}");
            // Older turns are still there.
            assert_eq!(since(&rewound, 1).is_some(), turn > 1);
        }
    }

    #[test]
    fn turns_that_are_not_kept_are_not_reached() {
        let never = summed_up_twice(Transcript::default());
        let mut forgotten = Transcript::default();
        forgotten.keep_past();
        let mut forgotten = summed_up_twice(forgotten);
        forgotten.forget_past();
        let mut late = summed_up_twice(Transcript::default());
        late.keep_past();
        apply(&mut late, [summed_up(3)]);
        apply(&mut late, turn(5));
        let first = 4;
        for transcript in [never, forgotten, late] {
            for turn in 1..=transcript.turns().len() {
                let reaches = turn >= first;
                assert_eq!(transcript.reaches(turn), reaches, "turn {turn}");
                assert_eq!(since(&transcript, turn).is_some(), reaches, "turn {turn}");
                let mut rewound = transcript.clone();
                rewound.apply(&Entry::Rewound { turn });
                assert_eq!(rewound == transcript, !reaches, "turn {turn}");
                // What is kept stays when another turn is not.
                assert!(rewound.reaches(first), "turn {turn}");
            }
        }
    }

    #[test]
    fn a_summary_of_a_part_leaves_later_turns() {
        let mut transcript = folded(turn(1).into_iter().chain(turn(2)));
        apply(&mut transcript, [summed_up(2)]);
        let left = ["summary", "prompt 2", "reply 2"];
        for summaries in [1, 2] {
            assert_eq!(words(&transcript.messages), left);
            assert_eq!(transcript.turns(), [0, 1]);
            assert_eq!(transcript.summed_up(), 1);
            assert_eq!(transcript.compactions(), summaries);
            // The next summary stands for this one.
            apply(&mut transcript, [summed_up(1)]);
        }
    }

    #[test]
    fn a_summary_never_parts_a_call_from_its_result() {
        let entries = [user("go"), call("a"), result("a"), reply(text("done"), 0)];
        let transcript = folded(entries);
        for (cut, may) in [false, true, false, true, true, false]
            .into_iter()
            .enumerate()
        {
            assert_eq!(transcript.may_be_cut(cut), may, "{cut}");
            let mut summarised = transcript.clone();
            summarised.apply(&summed_up(cut));
            assert_eq!(summarised != transcript, may, "{cut}");
        }
        let open = folded([user("go"), call("a")]);
        assert_eq!([0, 1, 2].map(|cut| open.may_be_cut(cut)), [false; 3]);
    }

    #[test]
    fn refused_attachments_are_replaced_and_not_counted() {
        let mut transcript = folded([picture()]);
        assert_eq!(transcript.attachments(), (false, true));
        let kept = transcript.clone();
        transcript.leave_out(LeftOut::OldAttachments);
        assert_eq!(transcript, kept);
        transcript.leave_out(LeftOut::NewAttachments);
        assert_eq!(transcript.attachments(), (false, false));

        let transcript = folded([picture(), reply(text("seen"), 1_000), picture()]);
        let counted = Count::new(1_010, 2);
        assert_eq!(
            (transcript.count(), transcript.attachments()),
            (Some(counted), (true, true))
        );
        let [old, _, _] = &transcript.messages[..] else {
            panic!("{transcript:?}");
        };
        let words = "(An image was left out: the provider refused it.)";
        let rest = HistoryMessage::new(Message::user(words));
        let removed = estimate::message(old) - estimate::message(&rest);
        for (what, left, count) in [
            (LeftOut::NewAttachments, (true, false), counted),
            (
                LeftOut::OldAttachments,
                (false, true),
                counted.shortened(removed),
            ),
            (
                LeftOut::Attachments,
                (false, false),
                counted.shortened(removed),
            ),
        ] {
            let mut transcript = transcript.clone();
            transcript.leave_out(what);
            assert_eq!(transcript.attachments(), left, "{what:?}");
            assert_eq!(transcript.count(), Some(count), "{what:?}");
        }
    }

    #[test]
    fn counts_correct_the_estimate() {
        let long = "x".repeat(3_500);
        let transcript = folded([
            user("go"),
            reply(text("yes"), 1_000),
            user(&long),
            reply(text("yes"), 3_010),
        ]);
        // The second prompt is estimated at some 1,000 tokens and counted as 2,000.
        assert!(transcript.calibration().apply(1_000) > 1_200);
        assert_eq!(transcript.calibration().error_percent(), Some(49));
    }

    #[test]
    fn shortened_results_keep_their_beginning_and_end() {
        let texts = |texts: &[&str]| -> Vec<Content> {
            let texts = texts.iter();
            texts.map(|text| Content::Text((*text).into())).collect()
        };
        let (a, b) = ("ä".repeat(120), "b".repeat(120));
        let cut = |head: &str, cut: &str, tail: &str| {
            texts(&[&format!(
                "{head}\n[... {cut} were cut to make room: make the call again if you need them \
                 ...]\n{tail}"
            )])
        };
        let with_image = vec![Content::Text("short".into()), image()];
        for (content, expected) in [
            (texts(&[&format!("{a}{b}")]), None),
            (
                texts(&[&format!("{a}.{b}")]),
                Some(cut(&a, "1 characters of this result", &b)),
            ),
            (
                texts(&[&a, &b]),
                Some(cut(&a, "1 characters of this result", &b)),
            ),
            (
                texts(&["", &a, "...", &b]),
                Some(cut(&a, "5 characters of this result", &b)),
            ),
            (
                with_image,
                Some(cut(
                    "short",
                    "0 characters of this result, and what was no text",
                    "",
                )),
            ),
        ] {
            let result = ToolResult {
                content,
                ..ToolResult::text("a".into(), "")
            };
            let expected = ToolResult {
                content: expected.unwrap_or_else(|| result.content.clone()),
                ..result.clone()
            };
            assert_eq!(shortened(&result), expected);
        }
    }
}
