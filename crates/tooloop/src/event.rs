//! What happens, for front ends.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tooloop_kernel::{CompactionTrigger, Entry};
use tooloop_model::{StreamEvent, ToolUse, ToolUseId};
use tooloop_tool::SandboxRefusal;

use crate::hooks::HookNote;
use crate::{Question, TurnReport};

/// One thing that happened. Few kinds, each with a whole life: what lasts is [`Event::Recorded`].
#[derive(Debug, Clone)]
pub enum Event {
    /// An entry is on record.
    Recorded(Arc<Entry>),
    /// A piece of the reply that is being written. Pieces of one block that nobody has read yet
    /// are joined.
    Delta {
        /// The model call.
        call: u64,
        /// The piece.
        event: StreamEvent,
    },
    /// The pieces of this reply are void.
    Voided {
        /// The model call.
        call: u64,
    },
    /// A tool runs.
    ToolStarted {
        /// The call.
        tool_use: ToolUse,
    },
    /// A tool tells how far it is; a newer one replaces an older one.
    ToolProgress {
        /// The call.
        tool_use_id: ToolUseId,
        /// The newest of its output.
        text: String,
    },
    /// A tool has ended. What the model is told is recorded in its own time.
    ToolEnded {
        /// The call.
        tool_use_id: ToolUseId,
        /// How long it ran.
        duration: Duration,
        /// What a person may be shown in place of the result.
        details: Option<String>,
        /// What the sandbox refused it on the way.
        refusals: Vec<SandboxRefusal>,
    },
    /// The conversation is summed up, or that has ended. What stands in its place is recorded.
    Compaction {
        /// Why.
        trigger: CompactionTrigger,
        /// How far it is.
        state: CompactionState,
    },
    /// Somebody is asked about a call.
    Asked(Question),
    /// A hook begins, or has ended. What is wrong with one is an [`Event::Warning`] as well.
    Hook(Arc<HookNote>),
    /// Background work has something to say. The model is told before its next step; if no turn is
    /// under way, with the next prompt, or at once by [`crate::Session::wake`].
    Noticed(String),
    /// Something that a person should know and that stops nothing.
    Warning(String),
    /// Something happened to a subagent. Whom it asks is asked as [`Event::Asked`] all the same.
    Subagent {
        /// The call that began it.
        tool_use_id: ToolUseId,
        /// What kind of agent it is.
        agent: Arc<str>,
        /// What happened; another one of these if it happened to a subagent of its own.
        event: Box<Self>,
    },
    /// The turn is over.
    TurnEnded(Arc<TurnReport>),
    /// The reader was so slow that this many events are lost to it.
    Lagged {
        /// How many.
        missed: u64,
    },
}

/// How far summing up is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionState {
    /// It has begun.
    Begun,
    /// It is done.
    Done,
    /// It was not done, and why.
    Failed(String),
}

/// The most events that wait for one reader. Recorded entries are shared, so that a full queue
/// costs little beside the session itself.
const CAPACITY: usize = 65_536;

/// The events of a session from the moment of [`crate::Session::events`] on.
#[derive(Debug)]
pub struct Events(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Event>,
    missed: u64,
    closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// The next event; `None` when the session is closed and all events were read.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            // Taken before the look, so that nothing that comes between is missed.
            let ready = self.0.ready.notified();
            {
                let mut state = self.0.lock();
                if let Some(event) = state.waiting.pop_front() {
                    return Some(event);
                }
                if state.missed > 0 {
                    let missed = std::mem::take(&mut state.missed);
                    return Some(Event::Lagged { missed });
                }
                if state.closed {
                    return None;
                }
            }
            ready.await;
        }
    }

    /// The next event if one is there.
    pub fn try_next(&mut self) -> Option<Event> {
        self.0.lock().waiting.pop_front()
    }
}

/// Tells all readers.
#[derive(Debug, Default)]
pub(crate) struct Broadcast {
    readers: Mutex<Readers>,
    /// Who hears of it as well, if a subagent tells.
    above: Option<Above>,
}

/// Those who hear what happens to a subagent: the readers of the session that it works for.
#[derive(Debug)]
struct Above {
    events: Arc<Broadcast>,
    tool_use_id: ToolUseId,
    agent: Arc<str>,
}

#[derive(Debug, Default)]
struct Readers {
    queues: Vec<Weak<Queue>>,
    closed: bool,
}

impl Broadcast {
    /// Tells the readers of `events` as well, that it happened to this subagent.
    pub(crate) fn of_subagent(events: Arc<Self>, tool_use_id: ToolUseId, agent: Arc<str>) -> Self {
        Self {
            readers: Mutex::default(),
            above: Some(Above {
                events,
                tool_use_id,
                agent,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self) -> Events {
        let queue = Arc::new(Queue::default());
        let mut readers = self.lock();
        queue.lock().closed = readers.closed;
        readers.queues.push(Arc::downgrade(&queue));
        Events(queue)
    }

    /// Whether anybody reads, so that what nobody wants need not be made.
    pub(crate) fn is_watched(&self) -> bool {
        let above = || {
            let above = self.above.as_ref();
            above.is_some_and(|above| above.events.is_watched())
        };
        !self.lock().queues.is_empty() || above()
    }

    pub(crate) fn send(&self, event: &Event) {
        self.lock().queues.retain(|queue| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            push(&mut queue.lock(), event);
            queue.ready.notify_one();
            true
        });
        if let Some(above) = self
            .above
            .as_ref()
            .filter(|above| above.events.is_watched())
        {
            above.events.send(&match event {
                Event::Asked(question) => Event::Asked(question.clone()),
                event => Event::Subagent {
                    tool_use_id: above.tool_use_id.clone(),
                    agent: Arc::clone(&above.agent),
                    event: Box::new(event.clone()),
                },
            });
        }
    }

    pub(crate) fn close(&self) {
        let mut readers = self.lock();
        readers.closed = true;
        for queue in readers.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            queue.lock().closed = true;
            queue.ready.notify_one();
        }
    }
}

fn push(state: &mut State, event: &Event) {
    if let Some(newest) = state.waiting.back_mut()
        && join(newest, event)
    {
        return;
    }
    if state.waiting.len() >= CAPACITY {
        state.missed = state.missed.saturating_add(1);
        return;
    }
    state.waiting.push_back(event.clone());
}

/// Joins `event` to `newest` if both are pieces of one thing.
fn join(newest: &mut Event, event: &Event) -> bool {
    match (newest, event) {
        (
            Event::Delta {
                call,
                event: newest,
            },
            Event::Delta {
                call: same,
                event: next,
            },
        ) if call == same => match (newest, next) {
            (
                StreamEvent::TextDelta { index, text },
                StreamEvent::TextDelta {
                    index: same,
                    text: more,
                },
            )
            | (
                StreamEvent::ThinkingDelta { index, text },
                StreamEvent::ThinkingDelta {
                    index: same,
                    text: more,
                },
            )
            | (
                StreamEvent::InputDelta { index, json: text },
                StreamEvent::InputDelta {
                    index: same,
                    json: more,
                },
            ) if index == same => {
                text.push_str(more);
                true
            }
            _ => false,
        },
        (
            Event::ToolProgress { tool_use_id, text },
            Event::ToolProgress {
                tool_use_id: same,
                text: newer,
            },
        ) if tool_use_id == same => {
            text.clone_from(newer);
            true
        }
        (
            Event::Subagent {
                tool_use_id, event, ..
            },
            Event::Subagent {
                tool_use_id: same,
                event: newer,
                ..
            },
        ) if tool_use_id == same => join(event, newer),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(text: &str) -> Event {
        Event::Delta {
            call: 1,
            event: StreamEvent::TextDelta {
                index: 0,
                text: text.into(),
            },
        }
    }

    #[test]
    fn a_slow_reader_gets_joined_pieces_and_loses_none() {
        let broadcast = Broadcast::default();
        let mut events = broadcast.subscribe();
        for text in ["a", "b", "c"] {
            broadcast.send(&delta(text));
        }
        broadcast.send(&Event::Voided { call: 1 });
        let Some(Event::Delta {
            event: StreamEvent::TextDelta { text, .. },
            ..
        }) = events.try_next()
        else {
            panic!("the pieces come first")
        };
        assert_eq!(text, "abc");
        assert!(matches!(events.try_next(), Some(Event::Voided { call: 1 })));
    }

    #[tokio::test]
    async fn a_reader_that_never_reads_is_told_what_it_missed() {
        let broadcast = Broadcast::default();
        let mut events = broadcast.subscribe();
        for _ in 0..CAPACITY + 3 {
            broadcast.send(&Event::Voided { call: 1 });
        }
        broadcast.close();
        for _ in 0..CAPACITY {
            assert!(matches!(events.next().await, Some(Event::Voided { .. })));
        }
        assert!(matches!(
            events.next().await,
            Some(Event::Lagged { missed: 3 })
        ));
        assert!(events.next().await.is_none());
    }
}
