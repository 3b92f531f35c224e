//! What is shown of a reply while it is being written.

use std::time::Instant;

use tooloop::{BlockStart, StreamEvent};

use super::{Block, Doing, Last, View};
use crate::interactive::paint::{Out, Style, gap};
use crate::interactive::text::{self, Cleaner};

/// The longest run of blanks and line ends that is kept back until text follows it.
const MOST_HELD: usize = 256;

impl View {
    pub(super) fn delta(&mut self, event: &StreamEvent, now: Instant, outs: &mut Vec<Out>) {
        match event {
            StreamEvent::MessageStart { .. } => {
                self.shown = false;
                self.is_complete = false;
                self.settle(now, outs);
                self.turn_to(Doing::Waiting, now);
            }
            StreamEvent::BlockStart { block, .. } => {
                self.begin(block, now);
            }
            StreamEvent::TextDelta { text, .. } => {
                self.turn_to(Doing::Writing, now);
                self.text(text, outs);
            }
            StreamEvent::ThinkingDelta { .. } => self.turn_to(Doing::Thinking, now),
            StreamEvent::InputDelta { json, .. } => {
                if let Doing::Calling { size, .. } = &mut self.doing {
                    *size = size.saturating_add(json.len());
                }
            }
            StreamEvent::BlockStop { .. } => {
                self.end_text(outs);
                if let Some(Block::Thinking { since }) = self.block.take() {
                    let thought = text::span(now.saturating_duration_since(since));
                    self.note(Style::Dim, &format!("· thought for {thought}"), outs);
                }
                self.turn_to(Doing::Waiting, now);
            }
            StreamEvent::Usage(usage) => self.current = *usage,
            StreamEvent::VendorDelta { .. } | StreamEvent::MessageStop { .. } => {}
        }
    }

    fn begin(&mut self, block: &BlockStart, now: Instant) {
        let (kind, doing) = match block {
            BlockStart::Text => (Block::Text, Doing::Writing),
            BlockStart::Thinking | BlockStart::RedactedThinking(_) => {
                (Block::Thinking { since: now }, Doing::Thinking)
            }
            BlockStart::ToolUse { name, .. } => (
                Block::Other,
                Doing::Calling {
                    name: text::one_line(&text::clean(text::head(name, 64))),
                    size: 0,
                },
            ),
            BlockStart::Vendor(_) => (Block::Other, Doing::Waiting),
        };
        self.block = Some(kind);
        self.forget_text();
        // Text behind text is a part of its own.
        if kind == Block::Text && self.last == Last::Text {
            self.last = Last::Block;
        }
        self.turn_to(doing, now);
    }

    fn text(&mut self, text: &str, outs: &mut Vec<Out>) {
        let text = self.cleaner.feed(text);
        self.show_text(text, outs);
    }

    /// Shows what was held back of a text that ends here.
    pub(super) fn end_text(&mut self, outs: &mut Vec<Out>) {
        let rest = self.cleaner.finish();
        if !rest.is_empty() {
            self.show_text(rest, outs);
        }
        self.forget_text();
    }

    fn show_text(&mut self, mut text: String, outs: &mut Vec<Out>) {
        if self.last != Last::Text {
            let lead = text.len() - text.trim_start_matches('\n').len();
            text.drain(..lead);
        }
        let body = text.trim_end_matches(['\n', ' ']).len();
        if body == 0 {
            if self.last == Last::Text && self.held.len() < MOST_HELD {
                self.held.push_str(&text);
            }
            return;
        }
        if self.last != Last::Text {
            outs.push(gap());
        }
        let tail = text.split_off(body);
        let mut piece = std::mem::take(&mut self.held);
        piece.push_str(&text);
        outs.push(Out::Text(piece));
        self.held = text::head(&tail, MOST_HELD).to_owned();
        self.last = Last::Text;
        self.shown = true;
    }

    fn forget_text(&mut self) {
        self.held.clear();
        self.cleaner = Cleaner::default();
    }

    pub(super) fn voided(&mut self, now: Instant, outs: &mut Vec<Out>) {
        // What ran early for it is cancelled, and will have no answer.
        let ran = !self.calls.is_empty();
        self.calls.clear();
        self.order.clear();
        if self.shown || ran {
            self.note(
                Style::Bad,
                "✗ the reply was cut: what it said above is void; starting again",
                outs,
            );
        }
        self.forget_text();
        self.shown = false;
        self.block = None;
        self.turn_to(Doing::Waiting, now);
    }
}
