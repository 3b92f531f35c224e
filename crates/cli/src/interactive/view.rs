//! Events of a turn as what is shown of them: lines for the scrollback, and the state of the live
//! row. Pure; times are handed in. Knows nothing of keys and of questions beyond showing them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tooloop::{
    BlockStart, Continue, Entry, Event, Message, Permission, Question, StreamEvent, ToolResult,
    ToolUse, ToolUseId, Usage,
};

use super::calls::{self, Outcome};
use super::paint::{Out, Style, gap, line};
use super::text::{self, Cleaner};
use super::words;

/// The longest run of blanks and line ends that is kept back until text follows it.
const MOST_HELD: usize = 256;
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

#[derive(Debug)]
struct Call {
    tool_use: ToolUse,
    headed: bool,
    running: Option<Instant>,
    progress: String,
    duration: Option<Duration>,
    details: Option<String>,
    denied: bool,
}

impl Call {
    fn new(tool_use: ToolUse) -> Self {
        Self {
            tool_use,
            headed: false,
            running: None,
            progress: String::new(),
            duration: None,
            details: None,
            denied: false,
        }
    }
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
                }
                for refusal in refusals {
                    self.note(Style::Notice, &refusal.to_string(), &mut outs);
                }
                self.turn_to(Doing::Waiting, now);
            }
            Event::Asked(question) => self.asked(question, &mut outs),
            Event::Warning(words) => self.note(Style::Notice, words, &mut outs),
            // What it has to say is a warning.
            Event::Hook(_) => {}
            Event::Noticed(words) => {
                let first = words.lines().next().unwrap_or_default();
                self.note(Style::Dim, first, &mut outs);
            }
            Event::TurnEnded(report) => {
                self.forget_text();
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
        self.forget_text();
        self.last = Last::Start;
        let mut outs = vec![gap()];
        outs.extend(prompt(text));
        outs
    }

    /// Shows a remark about the call whose heading stands last, or about nothing else.
    pub(crate) fn remark(&mut self, style: Style, words: &str) -> Vec<Out> {
        let mut outs = Vec::new();
        self.forget_text();
        if self.last == Last::Text {
            self.part(&mut outs);
        }
        outs.extend(self.lines(style, words));
        outs
    }

    /// All of what is asked about, however long.
    pub(crate) fn all_of(&mut self, question: &Question) -> Vec<Out> {
        let mut outs = calls::all(&question.tool_use, self.columns);
        let rules: Vec<_> = question.rules.iter().map(calls::rule).collect();
        outs.extend(always(&rules, self.columns));
        self.last = Last::Heading(question.tool_use.id.clone());
        outs
    }

    fn turn_to(&mut self, doing: Doing, now: Instant) {
        if self.doing != doing {
            self.doing = doing;
            self.since = now;
        }
    }

    fn delta(&mut self, event: &StreamEvent, now: Instant, outs: &mut Vec<Out>) {
        match event {
            StreamEvent::MessageStart { .. } => {
                self.shown = false;
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
        let mut text = self.cleaner.feed(text);
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

    /// Begins something that is not text, with a gap where it follows text or the prompt.
    fn part(&mut self, outs: &mut Vec<Out>) {
        self.forget_text();
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

    fn recorded(&mut self, entry: &Entry, now: Instant, outs: &mut Vec<Out>) {
        match entry {
            Entry::Message(message) => match message.message() {
                Message::Assistant(reply) => {
                    self.usage.add(reply.usage);
                    self.current = Usage::default();
                    self.shown = false;
                    self.turn_to(Doing::Waiting, now);
                    for tool_use in reply.tool_uses() {
                        self.know(tool_use);
                    }
                }
                Message::User(_) | Message::ToolResults(_) => {}
            },
            Entry::CallFinished(result) => self.finished(result, now, outs),
            Entry::Permission {
                tool_use_id,
                permission: Permission::Denied { .. },
            } => {
                if let Some(call) = self.calls.get_mut(tool_use_id) {
                    call.denied = true;
                }
            }
            Entry::Retry {
                attempt,
                error,
                wait_ms,
                ..
            } => {
                let wait = Duration::from_millis(*wait_ms);
                let message = error.message.trim_end_matches('.');
                let words = format!(
                    "{message}: trying again in {} (attempt {attempt} failed)",
                    text::span(wait)
                );
                self.note(Style::Notice, &words, outs);
                self.current = Usage::default();
                let until = now.checked_add(wait).unwrap_or(now);
                self.turn_to(
                    Doing::Retrying {
                        until,
                        attempt: *attempt,
                    },
                    now,
                );
            }
            Entry::Discarded { usage } => {
                self.usage.add(*usage);
                self.current = Usage::default();
            }
            Entry::Continue(reason) => {
                let words = match reason {
                    Continue::FallbackModel { model } => {
                        let words = format!("· overloaded again and again: {model} goes on");
                        return self.note(Style::Dim, &words, outs);
                    }
                    Continue::PauseTurn => "paused by the provider: asked to go on",
                    Continue::SchemaRetry => {
                        "told that its answer does not have the form asked for"
                    }
                    Continue::StopHookBlocked => "told by a hook to go on",
                    Continue::EscalateOutput => "asked again with a larger output limit",
                    Continue::ContinueOutput => "cut by the output limit: asked to go on",
                    Continue::Reminder => "told that it repeats itself",
                    Continue::NextStep
                    | Continue::Retry
                    | Continue::Steered
                    | Continue::FollowUp => return,
                };
                self.note(Style::Dim, &format!("· {words}"), outs);
            }
            Entry::CallRewritten { tool_use_id, input } => {
                let known = self.calls.get(tool_use_id);
                let tool = known.map_or("a call", |call| &*call.tool_use.name);
                let words = format!("· a hook has {tool} run with {}", input.get());
                self.note(Style::Dim, &words, outs);
            }
            Entry::CallStarted { .. }
            | Entry::Permission {
                permission: Permission::Allowed { .. },
                ..
            }
            | Entry::Spent { .. }
            | Entry::Rewound { .. }
            | Entry::TurnEnd(_) => {}
        }
    }

    fn voided(&mut self, now: Instant, outs: &mut Vec<Out>) {
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

    fn know(&mut self, tool_use: &ToolUse) {
        if !self.calls.contains_key(&tool_use.id) {
            self.order.push(tool_use.id.clone());
            let call = Call::new(tool_use.clone());
            self.calls.insert(tool_use.id.clone(), call);
        }
    }

    fn started(&mut self, tool_use: &ToolUse, now: Instant, outs: &mut Vec<Out>) {
        self.know(tool_use);
        // Where several run at once each gets its heading with its result, or they would mix.
        let alone = self
            .calls
            .values()
            .all(|call| !call.headed || call.tool_use.id == tool_use.id);
        if let Some(call) = self.calls.get_mut(&tool_use.id) {
            call.running = Some(now);
        }
        if alone {
            self.head(&tool_use.id, outs);
        }
    }

    fn head(&mut self, id: &ToolUseId, outs: &mut Vec<Out>) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut call.headed, true) {
            return;
        }
        let heading = calls::heading(&call.tool_use, self.columns);
        self.part(outs);
        outs.extend(heading);
        self.last = Last::Heading(id.clone());
        self.shown = true;
    }

    fn asked(&mut self, question: &Question, outs: &mut Vec<Out>) {
        self.know(&question.tool_use);
        self.part(outs);
        outs.extend(calls::whole(&question.tool_use, self.columns));
        let reason = text::one_line(&text::reveal(&question.reason));
        outs.extend(broken(
            Style::Notice,
            &format!("asks: {reason}"),
            self.columns,
        ));
        let rules: Vec<_> = question.rules.iter().map(calls::short_rule).collect();
        outs.extend(always(&rules, self.columns));
        let id = question.tool_use.id.clone();
        if let Some(call) = self.calls.get_mut(&id) {
            call.headed = true;
        }
        self.last = Last::Heading(id);
    }

    fn finished(&mut self, result: &ToolResult, now: Instant, outs: &mut Vec<Out>) {
        let id = &result.tool_use_id;
        self.order.retain(|other| other != id);
        let Some(mut call) = self.calls.remove(id) else {
            return;
        };
        if self.last != Last::Heading(id.clone()) {
            let heading = if std::mem::replace(&mut call.headed, true) {
                vec![calls::again(&call.tool_use, self.columns)]
            } else {
                calls::heading(&call.tool_use, self.columns)
            };
            self.part(outs);
            outs.extend(heading);
        }
        let outcome = Outcome {
            duration: call.duration,
            details: call.details.as_deref(),
            denied: call.denied,
        };
        outs.extend(calls::preview(result, outcome, self.columns));
        self.last = Last::Block;
        if self.calls.is_empty() {
            self.doing = Doing::Waiting;
            self.since = now;
        }
    }
}

/// What "always" would add.
fn always(rules: &[String], columns: usize) -> Vec<Out> {
    let say = |words: &str| broken(Style::Dim, words, columns);
    match rules {
        [] => Vec::new(),
        [rule] => say(&format!("always would add the rule {rule}")),
        rules => {
            let mut outs = say("always would add these rules:");
            outs.extend(rules.iter().flat_map(|rule| say(&format!("- {rule}"))));
            outs
        }
    }
}

/// Words on as many rows as they take, those behind the first further in.
fn broken(style: Style, words: &str, columns: usize) -> Vec<Out> {
    let rows = calls::rows(words, columns.saturating_sub(4)).into_iter();
    rows.enumerate()
        .map(|(number, row)| {
            let indent = if number == 0 { "  " } else { "    " };
            line(style, format!("{indent}{row}"))
        })
        .collect()
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
