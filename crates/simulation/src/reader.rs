//! A reader of a session's events, as a front end is one.

use tooloop::{Event, Events};
use tooloop_kernel::Entry;
use tooloop_model::{Message, StreamEvent};

use crate::law::Law;
use crate::world::{Shared, World};

/// What a reader has seen of the reply that is being written.
#[derive(Default)]
struct Shown {
    call: u64,
    text: String,
}

/// Reads until the session is over.
pub(crate) async fn read(shared: Shared, mut events: Events) {
    let mut shown = Shown::default();
    while let Some(event) = events.next().await {
        let mut world = shared.lock();
        if !world.alive() {
            return;
        }
        world.reads_event(&mut shown, &event);
    }
}

impl World {
    fn reads_event(&mut self, shown: &mut Shown, event: &Event) {
        match event {
            Event::Recorded(entry) => {
                let expected = self.life.unread.pop_front();
                let same = expected.as_ref() == Some(&**entry);
                self.require(Law::RecordFirst, same, || {
                    format!("{entry:?} is told, on record is {expected:?}")
                });
                self.compare(shown, entry);
            }
            Event::Delta { call, event } => {
                if shown.call != *call {
                    let left = std::mem::take(&mut shown.text);
                    self.left(&left);
                    shown.call = *call;
                }
                if let StreamEvent::TextDelta { text, .. } = event {
                    shown.text.push_str(text);
                }
            }
            Event::Voided { call } => {
                if shown.call == *call {
                    shown.text.clear();
                }
            }
            Event::TurnEnded(_) => {
                let left = std::mem::take(&mut shown.text);
                self.left(&left);
            }
            // A hook that says nothing is warned of too.
            Event::Warning(words) => {
                self.life.warned += usize::from(words.starts_with("nothing is running"));
            }
            Event::Lagged { missed } => {
                self.break_law(Law::Report, format!("{missed} events are lost"));
            }
            Event::Hook(_)
            | Event::ToolStarted { .. }
            | Event::Compaction { .. }
            | Event::Subagent { .. }
            | Event::ToolProgress { .. }
            | Event::ToolEnded { .. }
            | Event::Asked(_)
            | Event::Noticed(_) => {}
        }
    }

    fn compare(&mut self, shown: &mut Shown, entry: &Entry) {
        let Entry::Message(message) = entry else {
            return;
        };
        let Message::Assistant(reply) = message.message() else {
            return;
        };
        let seen = std::mem::take(&mut shown.text);
        let text = reply.text();
        // Of what was interrupted, blank blocks are left out.
        let same = seen == text || reply.stop_reason.is_none() && seen.trim() == text.trim();
        self.require(Law::Truth, same, || {
            format!("the user has seen {seen:?}, on record is {text:?}")
        });
    }

    /// What was shown and is neither on record nor void.
    fn left(&mut self, text: &str) {
        let blank = text.trim().is_empty();
        self.require(Law::Truth, blank, || {
            format!("the user has seen {text:?}, which is neither on record nor void")
        });
    }
}
