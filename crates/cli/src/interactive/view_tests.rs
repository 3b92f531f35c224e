//! Events of turns, and what is shown of them.

use std::sync::Arc;

use tooloop::{
    AssistantMessage, BlockStart, ContentBlock, Continue, Entry, Message, ModelError,
    ModelErrorKind, Permission, Question, StopReason, StreamEvent, ToolInput, ToolResult, ToolUse,
    TurnEnd, TurnReport,
};

use super::*;

struct Bench {
    view: View,
    now: Instant,
    outs: Vec<Out>,
}

impl Bench {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            view: View::new(80, now),
            now,
            outs: Vec::new(),
        }
    }

    fn take(&mut self, event: Event) -> &mut Self {
        self.outs.extend(self.view.take(&event, self.now));
        self
    }

    fn passes(&mut self, millis: u64) -> &mut Self {
        self.now += Duration::from_millis(millis);
        self
    }

    fn delta(&mut self, event: StreamEvent) -> &mut Self {
        self.take(Event::Delta { call: 1, event })
    }

    fn block(&mut self, index: usize, block: BlockStart) -> &mut Self {
        self.delta(StreamEvent::BlockStart { index, block })
    }

    fn says(&mut self, pieces: &[&str]) -> &mut Self {
        self.block(0, BlockStart::Text);
        for piece in pieces {
            self.delta(StreamEvent::TextDelta {
                index: 0,
                text: (*piece).into(),
            });
        }
        self.delta(StreamEvent::BlockStop { index: 0 })
    }

    fn record(&mut self, entry: Entry) -> &mut Self {
        self.take(Event::Recorded(Arc::new(entry)))
    }

    fn replies(&mut self, calls: &[&ToolUse]) -> &mut Self {
        let content = calls
            .iter()
            .map(|call| ContentBlock::ToolUse((*call).clone()))
            .collect();
        self.record(Entry::message(Message::Assistant(AssistantMessage {
            content,
            stop_reason: Some(StopReason::ToolUse),
            ..AssistantMessage::default()
        })))
    }

    fn starts(&mut self, call: &ToolUse) -> &mut Self {
        self.take(Event::ToolStarted {
            tool_use: call.clone(),
        })
    }

    fn ends(&mut self, call: &ToolUse, result: &str) -> &mut Self {
        self.take(Event::ToolEnded {
            tool_use_id: call.id.clone(),
            duration: Duration::from_millis(1_200),
            details: None,
            refusals: Vec::new(),
        });
        self.answered(call, result)
    }

    fn answered(&mut self, call: &ToolUse, result: &str) -> &mut Self {
        self.record(Entry::CallFinished(ToolResult::text(
            call.id.clone(),
            result,
        )))
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        for out in &self.outs {
            match out {
                Out::Text(text) => shown.push_str(text),
                Out::Line(line) => {
                    if !shown.is_empty() && !shown.ends_with('\n') {
                        shown.push('\n');
                    }
                    shown.push_str(&line.plain());
                    shown.push('\n');
                }
            }
        }
        shown
    }

    fn what(&self) -> String {
        self.view.activity(self.now).what
    }
}

fn bash(id: &str, command: &str) -> ToolUse {
    ToolUse {
        id: id.into(),
        name: "bash".into(),
        input: ToolInput::parse(&format!(r#"{{"command":"{command}"}}"#)),
        vendor: None,
    }
}

fn report(end: TurnEnd) -> TurnReport {
    TurnReport {
        end,
        structured_output: None,
        model_usage: Vec::new(),
        text: String::new(),
        steps: 2,
        usage: Usage::default(),
        cost_usd: None,
        duration: Duration::from_secs(12),
        model_duration: Duration::ZERO,
        denials: Vec::new(),
        unsent: Vec::new(),
        background: Vec::new(),
    }
}

#[test]
fn a_turn_with_a_tool_reads_from_top_to_bottom() {
    let mut bench = Bench::new();
    let call = bash("1", "git status");
    bench
        .says(&["\n\nLet me ", "look.\n", "\n"])
        .replies(&[&call])
        .starts(&call)
        .ends(&call, "clean\n")
        .says(&["All ", "is \u{1b}[3", "1mwell.", "\n"])
        .take(Event::TurnEnded(Arc::new(report(TurnEnd::Completed))));
    assert_eq!(
        bench.shown(),
        "\nLet me look.\n\n● bash  git status\n  │ clean\n  └ ok · 1.2 s\n\nAll is well.\n\n  2 \
         steps · 12 s\n"
    );
}

#[test]
fn blank_ends_are_kept_back_and_inner_ones_shown() {
    let mut bench = Bench::new();
    bench.says(&["one", "\n", "\n", "two ", " three", "  \n\n"]);
    assert_eq!(bench.shown(), "\none\n\ntwo  three");
    bench.says(&["four"]);
    assert_eq!(bench.shown(), "\none\n\ntwo  three\n\nfour");
}

#[test]
fn the_live_row_follows_the_reply() {
    let mut bench = Bench::new();
    assert_eq!(bench.what(), "waiting for the model");
    bench.block(0, BlockStart::Thinking);
    assert_eq!(bench.what(), "thinking");
    bench
        .passes(3_400)
        .delta(StreamEvent::ThinkingDelta {
            index: 0,
            text: "hidden".into(),
        })
        .delta(StreamEvent::BlockStop { index: 0 });
    assert_eq!(bench.shown(), "\n  · thought for 3.4 s\n");
    bench.says(&["x"]).block(
        2,
        BlockStart::ToolUse {
            id: "1".into(),
            name: "bash".into(),
        },
    );
    bench.delta(StreamEvent::InputDelta {
        index: 2,
        json: "{\"command\":".into(),
    });
    assert_eq!(bench.what(), "writing a call of bash (11 characters)");
    let call = bash("1", "sleep 5");
    bench.replies(&[&call]);
    assert_eq!(bench.what(), "waiting for the model");
    bench.starts(&call).passes(2_000);
    let activity = bench.view.activity(bench.now);
    assert_eq!(
        (activity.what.as_str(), activity.elapsed),
        ("bash sleep 5", Duration::from_secs(2))
    );
    bench.ends(&call, "done");
    assert_eq!(bench.what(), "waiting for the model");
}

#[test]
fn calls_that_run_together_do_not_mix() {
    let mut bench = Bench::new();
    let (first, second) = (bash("1", "cat a"), bash("2", "cat b"));
    bench
        .starts(&first)
        .starts(&second)
        .replies(&[&first, &second]);
    assert_eq!(bench.what(), "2 tools: bash cat a");
    bench
        .says(&["meanwhile"])
        .ends(&second, "b")
        .ends(&first, "a");
    assert_eq!(
        bench.shown(),
        "\nmeanwhile\n\n● bash  cat b\n  │ b\n  └ ok · 1.2 s\n● bash  cat a\n  │ a\n  └ ok · \
         1.2 s\n"
    );
}

fn question(call: &ToolUse) -> Event {
    Event::Asked(Question {
        denying: Vec::new(),
        ask: 1,
        agent: None,
        tool_use: call.clone(),
        reason: "not covered".into(),
        cause: None,
        rules: Vec::new(),
    })
}

#[test]
fn other_results_do_not_part_a_question_from_its_result() {
    let mut bench = Bench::new();
    let (read, write, next) = (
        bash("1", "cat a"),
        bash("2", "touch b"),
        bash("3", "touch c"),
    );
    bench
        .starts(&read)
        .replies(&[&read, &write, &next])
        .take(question(&write))
        .ends(&read, "a");
    let remark = bench.view.remark(Style::Dim, "✓ allowed once");
    bench.outs.extend(remark);
    bench
        .starts(&write)
        .ends(&write, "")
        .take(question(&next))
        .answered(&next, "no");
    assert_eq!(
        bench.shown(),
        "\n● bash\n    │ touch b\n  asks: not covered\n  ✓ allowed once\n  └ ok · 1.2 s\n● bash  \
         cat a\n  │ a\n  └ ok · 1.2 s\n● bash\n    │ touch c\n  asks: not covered\n  │ no\n  └ ok\n"
    );
}

#[test]
fn a_call_that_never_ran_is_shown_with_its_answer() {
    let mut bench = Bench::new();
    let (unknown, denied) = (bash("1", "x"), bash("2", "rm -rf /"));
    bench.replies(&[&unknown, &denied]);
    bench.record(Entry::CallFinished(ToolResult::error(
        "1".into(),
        "there is no such tool",
    )));
    bench
        .record(Entry::Permission {
            tool_use_id: "2".into(),
            permission: Permission::Denied {
                reason: "a rule".into(),
                stops: false,
            },
        })
        .record(Entry::CallFinished(ToolResult::error(
            "2".into(),
            "permission denied",
        )));
    assert_eq!(
        bench.shown(),
        "\n● bash  x\n  │ there is no such tool\n  └ failed\n● bash  rm -rf /\n  │ permission \
         denied\n  └ not run\n"
    );
}

#[test]
fn a_reply_that_was_cut_is_told_to_be_void() {
    let mut bench = Bench::new();
    let early = bash("1", "ls");
    bench
        .says(&["The answer is"])
        .starts(&early)
        .take(Event::Voided { call: 1 });
    let error = ModelError::new(ModelErrorKind::CutStream, "the connection\nbroke.");
    bench.record(Entry::Retry {
        call: 1,
        attempt: 1,
        error,
        wait_ms: 2_300,
        voided: true,
        left_out: None,
    });
    assert_eq!(bench.what(), "attempt 1 failed, trying again in 3s");
    bench.passes(2_300).says(&["The answer is 4."]);
    assert_eq!(
        bench.shown(),
        "\nThe answer is\n\n  ✗ the reply was cut: what it said above is void; starting \
         again\n  the connection\n  broke: trying again in 2.3 s (attempt 1 failed)\n\nThe answer \
         is 4."
    );
    assert_eq!(bench.what(), "waiting for the model");
}

#[test]
fn a_failure_before_any_text_voids_nothing() {
    let mut bench = Bench::new();
    bench
        .block(0, BlockStart::Thinking)
        .take(Event::Voided { call: 1 });
    assert_eq!(bench.shown(), "");
    bench
        .says(&["x"])
        .replies(&[])
        .take(Event::Voided { call: 2 });
    assert_eq!(bench.shown(), "\nx");
}

#[test]
fn a_question_stands_over_its_answer_and_its_result() {
    let mut bench = Bench::new();
    let call = bash("1", "touch x\\u001b[2K");
    bench.replies(&[&call]).take(Event::Asked(Question {
        denying: Vec::new(),
        ask: 1,
        agent: None,
        tool_use: call.clone(),
        reason: "`touch x` is not\ncovered".into(),
        cause: None,
        rules: vec!["Bash(touch x)".parse().unwrap()],
    }));
    let remark = bench.view.remark(Style::Dim, "✓ allowed once");
    bench.outs.extend(remark);
    bench.starts(&call).ends(&call, "");
    assert_eq!(
        bench.shown(),
        "\n● bash\n    │ touch x\\u{1b}[2K\n  asks: `touch x` is not covered\n  always would add the \
         rule Bash(touch x)\n  ✓ allowed once\n  └ ok · 1.2 s\n"
    );
}

#[test]
fn nothing_of_what_others_say_acts_on_the_terminal() {
    let mut bench = Bench::new();
    let evil = "\u{1b}]0;x\u{7}\u{1b}[2Jevil\u{9b}1m";
    let call = ToolUse {
        name: evil.into(),
        ..bash("1", "\\u001b[2J")
    };
    bench.says(&[evil]).starts(&call).take(Event::ToolProgress {
        tool_use_id: "1".into(),
        text: evil.into(),
    });
    let activity = bench.view.activity(bench.now);
    assert!(!activity.what.contains(char::is_control), "{activity:?}");
    assert_eq!(activity.detail, "evil");
    bench
        .ends(&call, evil)
        .take(Event::Asked(Question {
            denying: Vec::new(),
            ask: 1,
            agent: None,
            tool_use: call,
            reason: evil.into(),
            cause: None,
            rules: Vec::new(),
        }))
        .take(Event::Warning(evil.into()));
    bench.outs.extend(prompt(evil));
    let said = bench.view.said(evil);
    bench.outs.extend(said);
    let shown = bench.shown();
    assert!(
        !shown.contains(|c: char| c.is_control() && c != '\n'),
        "{shown:?}"
    );
}

#[test]
fn tokens_of_finished_and_running_replies_are_summed() {
    let mut bench = Bench::new();
    let usage = |input_tokens, output_tokens| Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    };
    bench.delta(StreamEvent::Usage(usage(10, 1)));
    bench.delta(StreamEvent::Usage(usage(10, 5)));
    assert_eq!(bench.view.usage(), usage(10, 5));
    bench.record(Entry::message(Message::Assistant(AssistantMessage {
        usage: usage(10, 6),
        ..AssistantMessage::default()
    })));
    bench.record(Entry::Discarded { usage: usage(7, 0) });
    bench.delta(StreamEvent::Usage(usage(20, 2)));
    assert_eq!(bench.view.usage(), usage(37, 8));
}

#[test]
fn what_a_person_should_know_is_told() {
    let mut bench = Bench::new();
    bench
        .record(Entry::Continue(Continue::NextStep))
        .record(Entry::Continue(Continue::ContinueOutput))
        .record(Entry::Continue(Continue::Reminder))
        .take(Event::Lagged { missed: 3 });
    let said = bench.view.said("one\ntwo");
    bench.outs.extend(said);
    assert_eq!(
        bench.shown(),
        "\n  · cut by the output limit: asked to go on\n  · reminded\n  The screen \
         was too slow: 3 events are not shown.\n\n> one\n  two\n"
    );
}
