//! The rows at the bottom: what goes on, what is typed, what is asked. Pure.

use std::time::{Duration, Instant};

use super::controls::{Controls, Input};
use super::paint::{Line, Style};
use super::screen::Live;
use super::text;
use super::view::{Activity, View};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each picture of it stands.
pub(crate) const SPIN: Duration = Duration::from_millis(120);
/// From when on it is said how long something has been going on.
const WORTH_SAYING: Duration = Duration::from_secs(1);

/// The rows for a turn that began at `begun`.
pub(crate) fn rows(
    view: &View,
    controls: &Controls,
    begun: Instant,
    now: Instant,
    columns: usize,
) -> Live {
    let mut live = Live {
        rows: vec![status(view, controls, begun, now, columns)],
        cursor: None,
    };
    match controls.input(now) {
        Input::Nothing => {}
        Input::Draft(draft) => typed(&mut live, "> ", draft, columns),
        Input::DraftBeforeAnswer(draft) => {
            let words = "  a question waits: Enter sends this first, Ctrl-U deletes it";
            live.rows.push(Line::new(Style::Notice, words));
            typed(&mut live, "> ", draft, columns);
        }
        Input::Choices {
            always,
            more,
            is_plan,
            is_stray,
        } => {
            live.rows.extend(choices(always, more, is_plan, columns));
            if is_stray {
                live.rows
                    .push(Line::new(Style::Notice, "  that is not a choice"));
            }
        }
        Input::Reason(reason) => typed(&mut live, "  why not: ", reason, columns),
    }
    live
}

/// The choices, on as many rows as they take.
fn choices(always: bool, more: bool, is_plan: bool, columns: usize) -> Vec<Line> {
    const MARK: &str = "  allow? ";
    const PLAN: &str = "  agree? ";
    let keys = [
        ("y", "yes", is_plan),
        ("e", "yes, and edit without asking", is_plan),
        ("n", "keep planning", is_plan),
        ("d", "keep planning, because …", is_plan),
        ("y", "once", !is_plan),
        ("a", "always, this session", always),
        ("p", "always, this project", always),
        ("n", "no", !is_plan),
        ("d", "no, because …", !is_plan),
        ("v", "view all", more),
        ("esc", "interrupt", true),
    ];
    let mut rows = Vec::new();
    let mut row = Line::new(Style::Notice, if is_plan { PLAN } else { MARK });
    let mut is_empty = true;
    for (key, words, offered) in keys {
        if !offered {
            continue;
        }
        let gap = if is_empty { "" } else { "  " };
        let wide = text::width(gap) + text::width(key) + 1 + text::width(words);
        if !is_empty && row.width() + wide > columns {
            let next = Line::new(Style::Notice, " ".repeat(MARK.len()));
            rows.push(std::mem::replace(&mut row, next));
        } else {
            row = row.and(Style::Plain, gap);
        }
        row = row
            .and(Style::Bold, key)
            .and(Style::Plain, format!(" {words}"));
        is_empty = false;
    }
    rows.push(row);
    rows
}

/// A row with the end of what is typed, and the cursor behind it.
fn typed(live: &mut Live, mark: &str, text: &str, columns: usize) {
    // One column for the cursor.
    let room = columns.saturating_sub(text::width(mark) + 1);
    let from = text.floor_char_boundary(text.len().saturating_sub(4 * columns + 4));
    let tail = text::clean(text.get(from..).unwrap_or_default()).replace('\n', "⏎");
    let tail = if from > 0 {
        text::cut_front(&format!("…{tail}"), room)
    } else {
        text::cut_front(&tail, room)
    };
    live.cursor = Some(text::width(mark) + text::width(&tail));
    live.rows
        .push(Line::new(Style::Bold, mark).and(Style::Plain, tail));
}

fn status(view: &View, controls: &Controls, begun: Instant, now: Instant, columns: usize) -> Line {
    let total = now.saturating_duration_since(begun);
    let mut activity = view.activity(now);
    if controls.is_interrupted() {
        activity = told("interrupting");
    } else if controls.is_asking() {
        activity = told("waiting for your answer");
    }
    let pictures = total.as_millis() / SPIN.as_millis();
    let picture = usize::try_from(pictures % 10).unwrap_or(0);
    let spinner = SPINNER.get(picture).copied().unwrap_or("·");

    let usage = view.usage();
    let mut parts = vec![text::elapsed(total)];
    if !usage.is_empty() {
        parts.push(format!(
            "↑{} ↓{}",
            text::count(usage.input_tokens),
            text::count(usage.output_tokens)
        ));
    }
    match controls.queued() {
        0 => {}
        queued => parts.push(format!("{queued} queued")),
    }
    parts.push(if controls.is_interrupted() {
        "ctrl-c leaves".into()
    } else {
        "esc to interrupt".into()
    });
    let mut end = format!(" · {}", parts.join(" · "));
    while text::width(&end) > columns / 2 && !parts.is_empty() {
        // How long it takes goes last.
        parts.pop();
        end = if parts.is_empty() {
            String::new()
        } else {
            format!(" · {}", parts.join(" · "))
        };
    }

    let Activity {
        what,
        elapsed,
        detail,
    } = activity;
    let since = if elapsed >= WORTH_SAYING && total.saturating_sub(elapsed) >= WORTH_SAYING {
        format!(" {}", text::elapsed(elapsed))
    } else {
        String::new()
    };
    let fixed = text::width(spinner) + 1 + text::width(&since) + text::width(&end);
    let room = columns.saturating_sub(fixed);
    // A long command leaves half of the row to the newest of its output.
    let most = if detail.is_empty() {
        room
    } else {
        room.div_ceil(2)
    };
    let what = text::cut(&what, most);
    let left = room.saturating_sub(text::width(&what));
    let mut line = Line::new(Style::Accent, spinner)
        .and(Style::Plain, format!(" {what}"))
        .and(Style::Dim, since);
    if left > 10 && !detail.is_empty() {
        line = line.and(Style::Dim, format!(" · {}", text::cut(&detail, left - 3)));
    }
    line.and(Style::Dim, end)
}

fn told(what: &str) -> Activity {
    Activity {
        what: what.into(),
        elapsed: Duration::ZERO,
        detail: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tooloop::{Entry, Event, Message, Question, StreamEvent, ToolInput, ToolUse, Usage};

    use super::*;
    use crate::interactive::keys::Action;

    struct Bench {
        view: View,
        controls: Controls,
        begun: Instant,
        now: Instant,
    }

    impl Bench {
        fn new() -> Self {
            let begun = Instant::now();
            let mut bench = Self {
                view: View::new(200, begun),
                controls: Controls::default(),
                begun,
                now: begun,
            };
            let prompt = Arc::new(Entry::message(Message::user("go")));
            bench.take(&Event::Recorded(prompt));
            bench
        }

        fn take(&mut self, event: &Event) {
            self.view.take(event, self.now);
            self.controls.take(event, self.now);
        }

        fn passes(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn runs(&mut self, command: &str) {
            let input = format!(r#"{{"command":"{command}"}}"#);
            let tool_use = call(&input);
            self.take(&Event::ToolStarted { tool_use });
        }

        fn types(&mut self, text: &str) {
            for typed in text.chars() {
                self.controls.act(Action::Type(typed), self.now);
            }
        }

        fn rows(&self, columns: usize) -> Live {
            rows(&self.view, &self.controls, self.begun, self.now, columns)
        }

        fn row(&self, columns: usize) -> String {
            self.rows(columns).rows[0].plain()
        }
    }

    fn call(input: &str) -> ToolUse {
        ToolUse {
            id: "1".into(),
            name: "bash".into(),
            input: ToolInput::parse(input),
            vendor: None,
        }
    }

    #[test]
    fn it_tells_what_runs_and_for_how_long() {
        let mut bench = Bench::new();
        assert_eq!(
            bench.row(80),
            "⠋ waiting for the model · 0s · esc to interrupt"
        );
        let usage = Usage {
            input_tokens: 12_345,
            output_tokens: 67,
            ..Usage::default()
        };
        bench.take(&Event::Delta {
            call: 1,
            event: StreamEvent::Usage(usage),
        });
        bench.passes(3);
        bench.runs("cargo test");
        bench.passes(62);
        bench.take(&Event::ToolProgress {
            tool_use_id: "1".into(),
            text: "old line\n\u{1b}[1mCompiling foo\n\n".into(),
        });
        assert_eq!(
            bench.row(100),
            "⠙ bash cargo test 1m02s · Compiling foo · 1m05s · ↑12.3k ↓67 · esc to interrupt"
        );
    }

    #[test]
    fn it_is_one_row_whatever_the_width_and_the_words() {
        let mut bench = Bench::new();
        bench.runs("echo 日本語の長いコマンド; echo 日本語の長いコマンド; sleep 100");
        bench.passes(100);
        bench.types("日本語 and a very long message that does not fit at all");
        for columns in 8..120 {
            let live = bench.rows(columns);
            for row in &live.rows {
                assert!(row.width() <= columns, "{columns}: {row:?}");
            }
            assert!(live.cursor.unwrap() < columns, "{columns}: {live:?}");
        }
        assert!(bench.row(60).contains("1m40s"), "{}", bench.row(60));
    }

    #[test]
    fn what_is_typed_is_shown_by_its_end() {
        let mut bench = Bench::new();
        bench.types("ab\n日本");
        let live = bench.rows(80);
        assert_eq!(live.rows[1].plain(), "> ab⏎日本");
        assert_eq!(live.cursor, Some(9));
        bench.types(&"x".repeat(1_000));
        let live = bench.rows(20);
        assert_eq!(live.rows[1].plain(), format!("> …{}", "x".repeat(16)));
        assert_eq!(live.cursor, Some(19));
    }

    #[test]
    fn a_question_shows_its_choices() {
        let mut bench = Bench::new();
        let question = Question {
            denying: Vec::new(),
            ask: 1,
            agent: None,
            tool_use: call("{}"),
            reason: "why".into(),
            cause: None,
            rules: Vec::new(),
        };
        bench.take(&Event::Asked(question));
        assert!(bench.row(80).contains("waiting for your answer"));
        assert_eq!(bench.rows(80).rows.len(), 1);
        bench.passes(1);
        assert_eq!(
            bench.rows(80).rows[1].plain(),
            "  allow? y once  n no  d no, because …  esc interrupt"
        );
        let wrapped = choices(true, true, false, 40);
        let wrapped: Vec<_> = wrapped.iter().map(Line::plain).collect();
        assert_eq!(
            wrapped,
            [
                "  allow? y once  a always, this session",
                "         p always, this project  n no",
                "         d no, because …  v view all",
                "         esc interrupt",
            ]
        );
        bench.types("dno tests");
        let live = bench.rows(80);
        assert_eq!(live.rows[1].plain(), "  why not: no tests");
        assert_eq!(live.cursor, Some(19));
    }

    #[test]
    fn queued_messages_and_an_interrupt_are_told() {
        let mut bench = Bench::new();
        bench.types("only src");
        bench.controls.act(Action::Enter, bench.now);
        assert!(bench.row(80).contains("1 queued"), "{}", bench.row(80));
        bench.controls.act(Action::Escape, bench.now);
        assert_eq!(
            bench.row(80),
            "⠋ interrupting · 0s · 1 queued · ctrl-c leaves"
        );
    }
}
