//! What a person does to a running turn: says something, answers, interrupts, leaves. Pure; times
//! are handed in, and what is to be done about it is handed out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tooloop::{
    Content, EXIT_PLAN, Entry, Event, Message, Question, Reply, Rule, ToolResult, ToolUseId,
};

use super::calls;
use super::commands::{self, Typed};
use super::keys::Action;
use super::text::character_width;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Do {
    /// Say it to the running turn.
    Steer(String),
    /// Say it when the model would stop.
    FollowUp(String),
    /// End the turn.
    Interrupt,
    /// End the program.
    Leave,
    /// Answer a question; the words tell the person what was answered.
    Answer {
        ask: u64,
        reply: Reply,
        words: String,
    },
    /// Save rules for the project, and answer the question with them.
    Keep { ask: u64, rules: Vec<Rule> },
    /// Agree to a plan, and to edits without questions.
    AcceptEdits { ask: u64 },
    /// Show all of what is asked about.
    ShowAll(Box<Question>),
    /// Tell the person.
    Tell(String),
    /// The screen has another size.
    Resize(u16, u16),
}

/// A question takes keys only after it has been there for this long: who was typing when it came
/// up must not have answered it.
const GRACE: Duration = Duration::from_millis(400);
/// For how long it is shown that a key was no choice.
const STRAY_SHOWN: Duration = Duration::from_secs(2);
/// The most bytes that may be typed or pasted without being sent.
const MOST_DRAFT: usize = 1024 * 1024;
/// The most messages that may wait.
const MOST_QUEUED: usize = 100;

/// What was typed and not sent, what was said and not heard, what was asked and not answered.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    draft: String,
    queue: VecDeque<String>,
    asking: VecDeque<Asking>,
    interrupted: bool,
    /// Whether the prompt that the turn began with is on record: what is said after it was queued.
    begun: bool,
}

#[derive(Debug)]
struct Asking {
    question: Question,
    since: Instant,
    /// Whether the call was too long to be shown whole.
    more: bool,
    /// The reason for a no that is being typed.
    reason: Option<String>,
    /// When a key was pressed last that is no choice.
    stray: Option<Instant>,
    /// From when on keys are dropped for a moment: since a stray key, or since the answer to the
    /// question before.
    dropping: Option<Instant>,
}

/// What the input rows show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input<'a> {
    /// Nothing is typed, nothing asked.
    Nothing,
    /// What is typed.
    Draft(&'a str),
    /// What is typed, while a question waits until it is sent or deleted.
    DraftBeforeAnswer(&'a str),
    /// The choices: whether there are rules to add, whether more can be shown, and whether a plan is
    /// what is asked about.
    Choices {
        always: bool,
        more: bool,
        is_plan: bool,
        /// Whether a key was pressed just now that is no choice.
        is_stray: bool,
    },
    /// The reason for a no.
    Reason(&'a str),
}

impl Controls {
    /// Whether the turn was told to end.
    pub(crate) const fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether somebody is asked.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// How many messages wait.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// What the input rows show.
    pub(crate) fn input(&self, now: Instant) -> Input<'_> {
        let Some(asking) = self.asking.front() else {
            return match self.draft.as_str() {
                "" => Input::Nothing,
                draft => Input::Draft(draft),
            };
        };
        match &asking.reason {
            Some(reason) => Input::Reason(reason),
            None if !self.draft.is_empty() => Input::DraftBeforeAnswer(&self.draft),
            None if asking.is_open(now) => Input::Choices {
                always: !asking.question.rules.is_empty(),
                more: asking.more,
                is_plan: is_plan(&asking.question),
                is_stray: within(asking.stray, STRAY_SHOWN, now),
            },
            None => Input::Nothing,
        }
    }

    /// A question has come up. The same one again changes nothing.
    pub(crate) fn ask(&mut self, question: Question, now: Instant) {
        if !self.knows(question.ask) {
            self.asking.push_back(Asking {
                more: calls::is_long(&question.tool_use)
                    || question.rules.iter().any(calls::is_long_rule),
                question,
                since: now,
                reason: None,
                stray: None,
                dropping: None,
            });
        }
    }

    /// Whether this question has come up.
    pub(crate) fn knows(&self, ask: u64) -> bool {
        self.asking.iter().any(|asking| asking.question.ask == ask)
    }

    /// Takes an event in. What the person said to the running turn is given back when the model
    /// gets it.
    pub(crate) fn take(&mut self, event: &Event, now: Instant) -> Option<String> {
        match event {
            Event::Asked(question) => self.ask(question.clone(), now),
            Event::Recorded(entry) => return self.recorded(entry, now),
            Event::TurnEnded(_) => self.asking.clear(),
            Event::Subagent { event, .. } => self.heard_of(event, now),
            Event::Delta { .. }
            | Event::Voided { .. }
            | Event::Hook(_)
            | Event::Compaction { .. }
            | Event::ToolStarted { .. }
            | Event::ToolProgress { .. }
            | Event::ToolEnded { .. }
            | Event::Noticed(_)
            | Event::Warning(_)
            | Event::Lagged { .. } => {}
        }
        None
    }

    /// Something happened to a subagent: what it asked may be answered.
    fn heard_of(&mut self, event: &Event, now: Instant) {
        match event {
            Event::Subagent { event, .. } => self.heard_of(event, now),
            Event::Recorded(entry) => match &**entry {
                Entry::CallFinished(ToolResult {
                    tool_use_id: id, ..
                })
                | Entry::Permission {
                    tool_use_id: id, ..
                } => self.withdraw(id, |question| question.agent.is_some(), now),
                _ => {}
            },
            _ => {}
        }
    }

    /// Nobody wants to know any more whether a call may run.
    fn withdraw(&mut self, id: &ToolUseId, whose: impl Fn(&Question) -> bool, now: Instant) {
        let front = self.asking.front().map(|asking| asking.question.ask);
        self.asking.retain(|asking| {
            let question = &asking.question;
            question.tool_use.id != *id || !whose(question)
        });
        if let Some(next) = self.asking.front_mut()
            && front != Some(next.question.ask)
        {
            next.dropping = Some(now);
        }
    }

    fn recorded(&mut self, entry: &Entry, now: Instant) -> Option<String> {
        match entry {
            Entry::Message(message) => match message.message() {
                Message::User(_) if !std::mem::replace(&mut self.begun, true) => None,
                Message::User(content) => self.heard(content),
                Message::Assistant(_) | Message::ToolResults(_) => None,
            },
            // Answered without us: it was interrupted, or a hook was quicker.
            Entry::CallFinished(ToolResult {
                tool_use_id: id, ..
            })
            | Entry::Permission {
                tool_use_id: id, ..
            } => {
                self.withdraw(id, |question| question.agent.is_none(), now);
                None
            }
            Entry::CallStarted { .. }
            | Entry::CallRewritten { .. }
            | Entry::Retry { .. }
            | Entry::Discarded { .. }
            | Entry::Continue(_)
            | Entry::Spent { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::Rewound { .. }
            | Entry::TurnEnd(_) => None,
        }
    }

    fn heard(&mut self, content: &[Content]) -> Option<String> {
        let [Content::Text(text)] = content else {
            return None;
        };
        let place = self.queue.iter().position(|queued| queued == text)?;
        self.queue.remove(place)
    }

    /// What was typed or said and has not reached the model.
    pub(crate) fn into_unsent(self) -> String {
        let mut parts: Vec<_> = self.queue.into();
        if !self.draft.trim().is_empty() {
            parts.push(self.draft);
        }
        parts.join("\n")
    }

    /// Takes an action in.
    pub(crate) fn act(&mut self, action: Action, now: Instant) -> Option<Do> {
        match action {
            Action::Resize(columns, rows) => return Some(Do::Resize(columns, rows)),
            Action::Redraw => return None,
            Action::ControlC if self.interrupted => return Some(Do::Leave),
            Action::ControlC => return self.interrupt(),
            Action::Type(_)
            | Action::Paste(_)
            | Action::Backspace
            | Action::DeleteWord
            | Action::DeleteAll
            | Action::Enter
            | Action::FollowUp
            | Action::Escape => {}
        }
        if let Some(asking) = self.asking.front_mut() {
            if asking.reason.is_some() {
                return self.reason(action, now);
            }
            if self.draft.is_empty() && asking.is_open(now) && !self.interrupted {
                return self.choice(action, now);
            }
        }
        self.edit(action)
    }

    fn interrupt(&mut self) -> Option<Do> {
        (!std::mem::replace(&mut self.interrupted, true)).then_some(Do::Interrupt)
    }

    fn edit(&mut self, action: Action) -> Option<Do> {
        match action {
            Action::Enter => self.send(Do::Steer),
            Action::FollowUp => self.send(Do::FollowUp),
            Action::Escape => self.interrupt(),
            other => edit(&mut self.draft, other).map(Do::Tell),
        }
    }

    fn send(&mut self, how: fn(String) -> Do) -> Option<Do> {
        match commands::parse(&self.draft) {
            Typed::Blank => {
                self.draft.clear();
                None
            }
            Typed::Command(_) | Typed::Unknown { .. } => {
                let words = "Commands wait for the end of the turn; Esc interrupts it. (A blank \
                             first sends the line to the model.)";
                Some(Do::Tell(words.into()))
            }
            Typed::Prompt if self.queue.len() >= MOST_QUEUED => {
                Some(Do::Tell("Too many messages wait already.".into()))
            }
            Typed::Prompt => {
                let text = std::mem::take(&mut self.draft);
                self.queue.push_back(text.clone());
                Some(how(text))
            }
        }
    }

    fn choice(&mut self, action: Action, now: Instant) -> Option<Do> {
        let asking = self.asking.front_mut()?;
        let typed = match action {
            Action::Type(typed) => typed,
            Action::Escape => return self.interrupt(),
            // There is no answer that is given by not looking.
            Action::Enter | Action::FollowUp => return None,
            other => return self.edit(other),
        };
        if within(asking.dropping, GRACE, now) {
            // Who types a text without looking answers nothing with the letters in it.
            asking.dropping = Some(now);
            return None;
        }
        let is_plan = is_plan(&asking.question);
        let (reply, words) = match typed.to_ascii_lowercase() {
            'e' if is_plan => {
                let ask = self.next_question(now)?.ask;
                return Some(Do::AcceptEdits { ask });
            }
            'y' if is_plan => (Reply::Allow, "✓ agreed to the plan".into()),
            'y' => (Reply::Allow, "✓ allowed once".into()),
            'a' | 'p' if asking.question.rules.is_empty() => return None,
            'a' => {
                let words = in_words(&asking.question.rules);
                (
                    Reply::AllowForSession,
                    format!("✓ allowed for this session by {words}"),
                )
            }
            'p' => {
                let Question { ask, rules, .. } = self.next_question(now)?;
                return Some(Do::Keep { ask, rules });
            }
            'v' if asking.more => return Some(Do::ShowAll(Box::new(asking.question.clone()))),
            'n' => denied(""),
            'd' => {
                asking.reason = Some(String::new());
                return None;
            }
            _ => {
                asking.stray = Some(now);
                asking.dropping = Some(now);
                return None;
            }
        };
        self.answer(reply, words, now)
    }

    fn reason(&mut self, action: Action, now: Instant) -> Option<Do> {
        let asking = self.asking.front_mut()?;
        let typed = asking.reason.as_mut()?;
        match action {
            Action::Enter | Action::FollowUp => {
                let (reply, words) = denied(typed.trim());
                self.answer(reply, words, now)
            }
            Action::Escape => {
                asking.reason = None;
                None
            }
            other => edit(typed, other).map(Do::Tell),
        }
    }

    fn answer(&mut self, reply: Reply, words: String, now: Instant) -> Option<Do> {
        let ask = self.next_question(now)?.ask;
        Some(Do::Answer { ask, reply, words })
    }

    /// Takes the question that was answered away. The next one comes up now.
    fn next_question(&mut self, now: Instant) -> Option<Question> {
        let answered = self.asking.pop_front()?;
        if let Some(next) = self.asking.front_mut() {
            next.dropping = Some(now);
        }
        Some(answered.question)
    }
}

/// Whether it is a plan that is asked about.
fn is_plan(question: &Question) -> bool {
    question.tool_use.name == EXIT_PLAN
}

impl Asking {
    fn is_open(&self, now: Instant) -> bool {
        self.dropping.is_some() || now.saturating_duration_since(self.since) >= GRACE
    }
}

/// Whether that was less than so long ago.
fn within(then: Option<Instant>, time: Duration, now: Instant) -> bool {
    then.is_some_and(|then| now.saturating_duration_since(then) < time)
}

/// The rules, as the end of a sentence.
pub(crate) fn in_words(rules: &[Rule]) -> String {
    let words: Vec<_> = rules.iter().map(calls::short_rule).collect();
    let many = if words.len() == 1 { "rule" } else { "rules" };
    format!("the {many} {}", words.join(", "))
}

fn denied(reason: &str) -> (Reply, String) {
    if reason.is_empty() {
        let reason = "the user said no".to_owned();
        (Reply::Deny { reason }, "✗ denied".into())
    } else {
        let words = format!("✗ denied: {reason}");
        let reason = format!("the user said no: {reason}");
        (Reply::Deny { reason }, words)
    }
}

/// Changes what is typed; gives words back if it cannot be done.
fn edit(text: &mut String, action: Action) -> Option<String> {
    match action {
        Action::Type(typed) => return insert(text, typed.encode_utf8(&mut [0; 4])),
        Action::Paste(pasted) => return insert(text, &pasted),
        Action::Backspace => {
            // A character goes with all that is put upon it.
            while let Some(last) = text.pop() {
                if character_width(last) > 0 || last == '\n' {
                    break;
                }
            }
        }
        Action::DeleteWord => {
            let kept = text.trim_end();
            let kept = kept.trim_end_matches(|last: char| !last.is_whitespace());
            text.truncate(kept.len());
        }
        Action::DeleteAll => text.clear(),
        Action::Enter
        | Action::FollowUp
        | Action::Escape
        | Action::ControlC
        | Action::Redraw
        | Action::Resize(..) => {}
    }
    None
}

fn insert(text: &mut String, more: &str) -> Option<String> {
    if text.len() + more.len() > MOST_DRAFT {
        return Some("That is too much text: not taken.".into());
    }
    text.push_str(more);
    None
}

#[cfg(test)]
#[path = "controls_tests.rs"]
mod tests;
