//! Whether an entry fits what went before, and what is done where it does not.

use std::collections::BTreeSet;

use tooloop_kernel::{Entry, OpenCall, Transcript};
use tooloop_model::{AssistantMessage, Content, ContentBlock, Message, ToolResult, ToolUseId};

use crate::FaultKind;

/// What becomes of an entry.
#[derive(Debug, Default)]
pub(crate) struct Fitted {
    /// What is put in before it.
    pub(crate) before: Vec<Entry>,
    /// What is put in its place, which may be nothing; `None` if it stays.
    pub(crate) instead: Option<Vec<Entry>>,
    pub(crate) faults: Vec<FaultKind>,
}

/// Fits an entry to what went before.
pub(crate) fn fit(transcript: &Transcript, entry: &Entry) -> Fitted {
    let mut fitted = Fitted::default();
    let ended = transcript.newest_end().is_some();
    match entry {
        Entry::Message(message) => match message.message() {
            Message::User(content) => {
                if let Some(content) = without_blanks(content) {
                    fitted.faults.push(FaultKind::Blank);
                    if content.is_empty() {
                        return fitted.with(Vec::new());
                    }
                    fitted.close(transcript);
                    return fitted.with(vec![Entry::message(Message::User(content))]);
                }
                fitted.close(transcript);
            }
            Message::Assistant(reply) => {
                fitted.close(transcript);
                let last = transcript.messages().last().map(|last| last.message());
                let follows = !fitted.before.is_empty()
                    || matches!(last, Some(Message::User(_) | Message::ToolResults(_)));
                if (!follows || ended) && reply.has_substance() {
                    fitted.faults.push(FaultKind::ReplyToNothing);
                    fitted.before.push(Entry::message(Message::user(
                        "(a part of the record is missing here)",
                    )));
                }
                if let Some(reply) = fitted.with_ids(transcript, reply) {
                    return fitted.with(vec![Entry::message(Message::Assistant(reply))]);
                }
            }
            Message::ToolResults(results) => {
                fitted.faults.push(FaultKind::ResultsAsMessage);
                let answers = results
                    .iter()
                    .filter(|result| {
                        misfit(transcript, &result.tool_use_id, Told::Answer).is_none()
                    })
                    .map(|result| Entry::CallFinished(result.clone()))
                    .collect();
                return fitted.with(answers);
            }
        },
        Entry::CallStarted { tool_use_id } => {
            if let Some(fault) = misfit(transcript, tool_use_id, Told::Start) {
                return fitted.without(fault);
            }
        }
        Entry::Permission { tool_use_id, .. } | Entry::CallRewritten { tool_use_id, .. } => {
            if let Some(fault) = misfit(transcript, tool_use_id, Told::Permission) {
                return fitted.without(fault);
            }
        }
        Entry::CallFinished(result) => {
            if let Some(fault) = misfit(transcript, &result.tool_use_id, Told::Answer) {
                return fitted.without(fault);
            }
            if let Some(mut content) = without_blanks(&result.content) {
                fitted.faults.push(FaultKind::Blank);
                if content.is_empty() {
                    content.push(Content::Text("(no output)".into()));
                }
                return fitted.with(vec![Entry::CallFinished(ToolResult {
                    content,
                    ..result.clone()
                })]);
            }
        }
        Entry::Continue(_) | Entry::TurnEnd(_) => {
            if ended {
                return fitted.without(FaultKind::OutsideOfTurn);
            }
        }
        Entry::Rewound { turn } => {
            let turns = transcript.turns().len();
            if !(1..=turns).contains(turn) {
                return fitted.without(FaultKind::NoSuchTurn { turn: *turn, turns });
            }
        }
        Entry::Compacted { cut, .. } => {
            let messages = transcript.messages().len();
            if !transcript.may_be_cut(*cut) {
                return fitted.without(FaultKind::NoSuchCut {
                    cut: *cut,
                    messages,
                });
            }
        }
        // A summary may be asked for, and asked for again, while no turn is under way.
        Entry::Retry { .. }
        | Entry::Discarded { .. }
        | Entry::Spent { .. }
        | Entry::Shortened { .. } => {}
    }
    fitted
}

impl Fitted {
    /// Answers what has no answer.
    fn close(&mut self, transcript: &Transcript) {
        let open: Vec<&OpenCall> = transcript
            .open_calls()
            .iter()
            .filter(|call| call.result.is_none())
            .collect();
        if open.is_empty() {
            return;
        }
        let words = "not answered: the record of this call is incomplete, its outcome is unknown";
        self.before.extend(
            open.iter()
                .map(|call| Entry::CallFinished(ToolResult::error(call.id.clone(), words))),
        );
        let ids = open.iter().map(|call| call.id.to_string()).collect();
        self.faults.push(FaultKind::Unanswered { ids });
    }

    /// The reply with ids that a provider takes, if it has others.
    fn with_ids(
        &mut self,
        transcript: &Transcript,
        reply: &AssistantMessage,
    ) -> Option<AssistantMessage> {
        let mut own = BTreeSet::new();
        let mut changed = None;
        for (place, block) in reply.content.iter().enumerate() {
            let ContentBlock::ToolUse(tool_use) = block else {
                continue;
            };
            let taken = |id: &ToolUseId| transcript.knows(id) || own.contains(id);
            let id = usable(&tool_use.id, taken);
            if id != tool_use.id {
                self.faults.push(FaultKind::ToolUseId {
                    id: tool_use.id.to_string(),
                    instead: id.to_string(),
                });
                let changed = changed.get_or_insert_with(|| reply.clone());
                if let Some(ContentBlock::ToolUse(tool_use)) = changed.content.get_mut(place) {
                    tool_use.id = id.clone();
                }
            }
            own.insert(id);
        }
        changed
    }

    fn with(mut self, entries: Vec<Entry>) -> Self {
        self.instead = Some(entries);
        self
    }

    fn without(mut self, fault: FaultKind) -> Self {
        self.faults.push(fault);
        self.with(Vec::new())
    }
}

/// What is told of a call.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    Start,
    Permission,
    Answer,
}

fn misfit(transcript: &Transcript, id: &ToolUseId, told: Told) -> Option<FaultKind> {
    let text = id.to_string();
    let open = transcript.open_calls().iter().find(|call| call.id == *id);
    match open {
        None if transcript.knows(id) => Some(FaultKind::AnsweredBefore { id: text }),
        None => Some(FaultKind::NoSuchCall { id: text }),
        Some(call) if call.result.is_some() => Some(FaultKind::AnsweredBefore { id: text }),
        Some(call) if call.started && told == Told::Start => {
            Some(FaultKind::StartedTwice { id: text })
        }
        Some(_) => None,
    }
}

/// What says something, if not all does.
fn without_blanks(content: &[Content]) -> Option<Vec<Content>> {
    let blank = content.is_empty() || content.iter().any(Content::is_blank);
    blank.then(|| {
        content
            .iter()
            .filter(|part| !part.is_blank())
            .cloned()
            .collect()
    })
}

/// An id as every provider takes it, that no other call has.
fn usable(id: &ToolUseId, taken: impl Fn(&ToolUseId) -> bool) -> ToolUseId {
    let ours = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    let clean: String =
        id.0.chars()
            .take(48)
            .map(|character| if ours(character) { character } else { '_' })
            .collect();
    let fits = (1..=64).contains(&id.0.len()) && id.0.chars().all(ours);
    if fits && !taken(id) {
        return id.clone();
    }
    let clean = if clean.is_empty() { "call" } else { &clean };
    let mut number = 2_u64;
    loop {
        let id = ToolUseId(format!("{clean}_{number}"));
        if !taken(&id) {
            return id;
        }
        number = number.saturating_add(1);
    }
}
