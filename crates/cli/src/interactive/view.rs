//! Events of a turn as what is shown of them: lines for the scrollback, and the state of the live
//! row. Pure; times are handed in. Knows nothing of keys and of questions beyond showing them.

mod calling;
mod entries;
mod reply;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tooloop::{CompactionState, Event, ToolResult, ToolUseId, Usage};

use self::calling::Call;
use super::calls;
use super::paint::{Out, Style, gap, line};
use super::text::{self, Cleaner};
use super::words;

/// How much of a tool's newest output is kept for the live row.
const MOST_PROGRESS: usize = 1_024;

/// What is shown of a turn.
#[derive(Debug)]
pub(crate) struct View {
    columns: usize,
    doing: Doing,
    /// Since when.
    since: Instant,
    /// The calls that have no answer yet, by id, and their order.
    calls: HashMap<ToolUseId, Call>,
    order: Vec<ToolUseId>,
    /// Whether these are all calls of the newest reply.
    is_complete: bool,
    /// Those of them that subagents were asked about.
    asked_by_agents: HashSet<ToolUseId>,
    /// The call whose question stands last and that has no result yet.
    questioned: Option<ToolUseId>,
    /// Results of other calls, which would part that question from its answer and its result.
    later: Vec<ToolResult>,
    cleaner: Cleaner,
    /// White space at the end of the text so far.
    held: String,
    last: Last,
    /// Whether the reply that is being written has put anything on the screen.
    shown: bool,
    block: Option<Block>,
    usage: Usage,
    /// What the reply that is being written has used so far.
    current: Usage,
}

/// What stands last in the scrollback.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    Text,
    /// The heading of this call, or of a question about it.
    Heading(ToolUseId),
    Block,
    Start,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking { since: Instant },
    Other,
}

/// What the model's side is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    Waiting,
    Thinking,
    Writing,
    /// A call is being written: its tool, and how many characters of it came.
    Calling {
        name: String,
        size: usize,
    },
    Retrying {
        until: Instant,
        attempt: u32,
    },
}

/// What the live row tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Activity {
    /// What is going on.
    pub(crate) what: String,
    /// For how long.
    pub(crate) elapsed: Duration,
    /// The newest output of what runs.
    pub(crate) detail: String,
}

impl View {
    pub(crate) fn new(columns: usize, now: Instant) -> Self {
        Self {
            columns,
            doing: Doing::Waiting,
            since: now,
            calls: HashMap::new(),
            order: Vec::new(),
            is_complete: false,
            asked_by_agents: HashSet::new(),
            questioned: None,
            later: Vec::new(),
            cleaner: Cleaner::default(),
            held: String::new(),
            last: Last::Start,
            shown: false,
            block: None,
            usage: Usage::default(),
            current: Usage::default(),
        }
    }

    pub(crate) const fn resize(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// What the turn has used so far.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.usage;
        usage.add(self.current);
        usage
    }

    /// What is going on.
    pub(crate) fn activity(&self, now: Instant) -> Activity {
        let since = |then: Instant| now.saturating_duration_since(then);
        let running: Vec<_> = self
            .order
            .iter()
            .filter_map(|id| self.calls.get(id))
            .filter_map(|call| Some((call, call.running?)))
            .collect();
        if let Some((call, begun)) = running.first() {
            let brief = calls::brief(&call.tool_use, self.columns);
            return Activity {
                what: match running.len() {
                    1 => brief,
                    many => format!("{many} tools: {brief}"),
                },
                elapsed: since(*begun),
                detail: call.progress.clone(),
            };
        }
        let (what, elapsed) = match &self.doing {
            Doing::Waiting => ("waiting for the model".into(), since(self.since)),
            Doing::Thinking => ("thinking".into(), since(self.since)),
            Doing::Writing => ("writing".into(), since(self.since)),
            Doing::Calling { name, size } => {
                let size = u64::try_from(*size).unwrap_or(u64::MAX);
                let size = text::count(size);
                (
                    format!("writing a call of {name} ({size} characters)"),
                    since(self.since),
                )
            }
            Doing::Retrying { until, attempt } => {
                let left = until.saturating_duration_since(now);
                let left = left.as_secs().saturating_add(1);
                (
                    format!("attempt {attempt} failed, trying again in {left}s"),
                    Duration::ZERO,
                )
            }
        };
        Activity {
            what,
            elapsed,
            detail: String::new(),
        }
    }

    /// Takes an event in.
    pub(crate) fn take(&mut self, event: &Event, now: Instant) -> Vec<Out> {
        let mut outs = Vec::new();
        match event {
            Event::Delta { event, .. } => self.delta(event, now, &mut outs),
            Event::Recorded(entry) => self.recorded(entry, now, &mut outs),
            Event::Voided { .. } => self.voided(now, &mut outs),
            Event::ToolStarted { tool_use } => self.started(tool_use, now, &mut outs),
            Event::ToolProgress { tool_use_id, text } => {
                if let Some(call) = self.calls.get_mut(tool_use_id) {
                    let tail = text::clean(tail(text));
                    let newest = tail.lines().rev().find(|line| !line.trim().is_empty());
                    call.progress = text::one_line(newest.unwrap_or_default());
                }
            }
            Event::ToolEnded {
                tool_use_id,
                duration,
                details,
                refusals,
            } => {
                if let Some(call) = self.calls.get_mut(tool_use_id) {
                    call.running = None;
                    call.duration = Some(*duration);
                    call.details.clone_from(details);
                    call.refusals = refusals.iter().map(ToString::to_string).collect();
                }
                self.turn_to(Doing::Waiting, now);
            }
            Event::Asked(question) => self.asked(question, now, &mut outs),
            Event::Subagent { agent, event, .. } => self.heard_of(agent, event, now, &mut outs),
            Event::Warning(words) => self.note(Style::Notice, words, &mut outs),
            Event::Compaction { state, .. } => {
                if *state == CompactionState::Begun {
                    self.note(Style::Dim, "· the conversation is summed up …", &mut outs);
                }
            }
            // What it has to say is a warning.
            Event::Hook(_) => {}
            Event::Noticed(words) => {
                let first = words.lines().next().unwrap_or_default();
                self.note(Style::Dim, first, &mut outs);
            }
            Event::TurnEnded(report) => {
                self.settle(now, &mut outs);
                self.end_text(&mut outs);
                outs.push(gap());
                if let Some((style, words)) = words::end(&report.end) {
                    outs.extend(self.lines(style, &words));
                }
                outs.push(line(Style::Dim, words::took(report)));
                self.last = Last::Block;
            }
            Event::Lagged { missed } => {
                let words = format!("The screen was too slow: {missed} events are not shown.");
                self.note(Style::Notice, &words, &mut outs);
            }
        }
        outs
    }

    /// Shows what somebody says to the running turn.
    pub(crate) fn said(&mut self, text: &str) -> Vec<Out> {
        let mut outs = Vec::new();
        self.end_text(&mut outs);
        self.last = Last::Start;
        outs.push(gap());
        outs.extend(prompt(text));
        outs
    }

    /// Shows a remark about the call whose heading stands last, or about nothing else.
    pub(crate) fn remark(&mut self, style: Style, words: &str) -> Vec<Out> {
        let mut outs = Vec::new();
        self.end_text(&mut outs);
        if self.last == Last::Text {
            self.part(&mut outs);
        }
        outs.extend(self.lines(style, words));
        outs
    }

    fn turn_to(&mut self, doing: Doing, now: Instant) {
        if self.doing != doing {
            self.doing = doing;
            self.since = now;
        }
    }

    /// Begins something that is not text, with a gap where it follows text or the prompt.
    fn part(&mut self, outs: &mut Vec<Out>) {
        self.end_text(outs);
        match self.last {
            Last::Text | Last::Start => outs.push(gap()),
            Last::Heading(_) | Last::Block => {}
        }
        self.last = Last::Block;
    }

    fn note(&mut self, style: Style, words: &str, outs: &mut Vec<Out>) {
        self.part(outs);
        outs.extend(self.lines(style, words));
    }

    fn lines(&self, style: Style, words: &str) -> impl Iterator<Item = Out> {
        let columns = self.columns.saturating_sub(3).max(20);
        text::wrap(&text::clean(words), columns)
            .into_iter()
            .map(move |one| line(style, format!("  {one}")))
    }
}

fn tail(text: &str) -> &str {
    let from = text.floor_char_boundary(text.len().saturating_sub(MOST_PROGRESS));
    text.get(from..).unwrap_or(text)
}

/// What somebody said, as it stands in the scrollback.
pub(crate) fn prompt(text: &str) -> Vec<Out> {
    let mark = |number| if number == 0 { "> " } else { "  " };
    text::clean(text)
        .lines()
        .enumerate()
        .map(|(number, one)| line(Style::Bold, format!("{}{one}", mark(number))))
        .collect()
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
