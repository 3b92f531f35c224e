//! A person at a running turn.

use std::sync::Arc;

use tooloop::{ToolInput, ToolResult, ToolUse};

use super::*;

const CHOICES: Input<'_> = Input::Choices {
    always: true,
    more: false,
    is_plan: false,
    is_stray: false,
};
const FEWER_CHOICES: Input<'_> = Input::Choices {
    always: false,
    more: false,
    is_plan: false,
    is_stray: false,
};

struct Person {
    controls: Controls,
    now: Instant,
}

impl Person {
    fn new() -> Self {
        let mut person = Self {
            controls: Controls::default(),
            now: Instant::now(),
        };
        // The prompt that the turn begins with.
        assert_eq!(person.hears("go"), None);
        person
    }

    fn types(&mut self, text: &str) -> Vec<Do> {
        text.chars()
            .filter_map(|typed| self.presses(Action::Type(typed)))
            .collect()
    }

    fn presses(&mut self, action: Action) -> Option<Do> {
        self.controls.act(action, self.now)
    }

    fn hears(&mut self, text: &str) -> Option<String> {
        let entry = Entry::message(Message::user(text));
        self.controls
            .take(&Event::Recorded(Arc::new(entry)), self.now)
    }

    fn is_asked(&mut self, ask: u64, rule: Option<&str>) {
        let question = Question {
            denying: Vec::new(),
            ask,
            agent: None,
            tool_use: ToolUse {
                id: "call".into(),
                name: "bash".into(),
                input: ToolInput::parse("{}"),
                vendor: None,
            },
            reason: "why".into(),
            cause: None,
            rules: rule.into_iter().map(|rule| rule.parse().unwrap()).collect(),
        };
        self.controls.take(&Event::Asked(question), self.now);
    }

    fn waits(&mut self) {
        self.now += GRACE;
    }

    fn sees(&self) -> Input<'_> {
        self.controls.input(self.now)
    }
}

fn answer(ask: u64, reply: Reply, words: &str) -> Option<Do> {
    Some(Do::Answer {
        ask,
        reply,
        words: words.into(),
    })
}

#[test]
fn what_is_typed_is_said_and_waits_until_it_is_heard() {
    let mut person = Person::new();
    assert_eq!(person.types("only 日本x"), []);
    assert_eq!(person.presses(Action::Backspace), None);
    assert_eq!(person.sees(), Input::Draft("only 日本"));
    let said = "only 日本".to_owned();
    assert_eq!(person.presses(Action::Enter), Some(Do::Steer(said.clone())));
    person.types("then commit");
    assert_eq!(
        person.presses(Action::FollowUp),
        Some(Do::FollowUp("then commit".into()))
    );
    assert_eq!(
        (person.sees(), person.controls.queued()),
        (Input::Nothing, 2)
    );
    assert_eq!(person.hears("a reminder of the loop"), None);
    assert_eq!(person.hears("only 日本"), Some(said));
    assert_eq!(person.controls.queued(), 1);
    person.types("half a");
    assert_eq!(person.controls.into_unsent(), "then commit\nhalf a");
}

#[test]
fn a_prompt_that_says_the_same_is_not_taken_for_what_is_queued() {
    let mut person = Person {
        controls: Controls::default(),
        now: Instant::now(),
    };
    person.types("go");
    person.presses(Action::Enter);
    assert_eq!(person.hears("go"), None);
    assert_eq!(person.hears("go"), Some("go".into()));
}

#[test]
fn a_paste_is_kept_whole() {
    let mut person = Person::new();
    assert_eq!(person.presses(Action::Paste("a\nb\n".into())), None);
    assert_eq!(
        person.presses(Action::Enter),
        Some(Do::Steer("a\nb\n".into()))
    );
    let huge = Action::Paste("x".repeat(MOST_DRAFT + 1));
    assert!(matches!(person.presses(huge), Some(Do::Tell(_))));
    assert_eq!(person.sees(), Input::Nothing);
}

#[test]
fn editing_takes_words_and_whole_characters() {
    let mut person = Person::new();
    person.types("one two  ");
    person.presses(Action::DeleteWord);
    assert_eq!(person.sees(), Input::Draft("one "));
    person.types("e\u{301}");
    person.presses(Action::Backspace);
    assert_eq!(person.sees(), Input::Draft("one "));
    person.presses(Action::DeleteAll);
    person.presses(Action::Backspace);
    assert_eq!(person.sees(), Input::Nothing);
    person.types("  ");
    assert_eq!(person.presses(Action::Enter), None);
    assert_eq!(person.sees(), Input::Nothing);
}

#[test]
fn commands_are_not_said_to_the_model() {
    let mut person = Person::new();
    person.types("/exit");
    assert!(matches!(person.presses(Action::Enter), Some(Do::Tell(_))));
    assert_eq!(person.sees(), Input::Draft("/exit"));
    person.presses(Action::DeleteAll);
    person.types("/etc/hosts is wrong");
    assert!(matches!(person.presses(Action::Enter), Some(Do::Steer(_))));
}

#[test]
fn the_first_interrupts_and_the_second_leaves() {
    for first in [Action::Escape, Action::ControlC] {
        let mut person = Person::new();
        person.types("half");
        assert_eq!(person.presses(first), Some(Do::Interrupt));
        assert_eq!(person.presses(Action::Escape), None);
        assert_eq!(person.presses(Action::ControlC), Some(Do::Leave));
        assert_eq!(person.controls.into_unsent(), "half");
    }
}

#[test]
fn every_answer_has_its_key() {
    let no = |reason: &str| Reply::Deny {
        reason: reason.into(),
    };
    let rule = Some("Bash(touch x)");
    let mut person = Person::new();
    for ask in 1..=6 {
        person.is_asked(ask, rule);
    }
    person.waits();
    assert_eq!(person.sees(), CHOICES);
    assert_eq!(
        person.presses(Action::Type('y')),
        answer(1, Reply::Allow, "✓ allowed once")
    );
    person.waits();
    assert_eq!(
        person.presses(Action::Type('A')),
        answer(
            2,
            Reply::AllowForSession,
            "✓ allowed for this session by the rule Bash(touch x)"
        )
    );
    person.waits();
    assert_eq!(
        person.presses(Action::Type('n')),
        answer(3, no("the user said no"), "✗ denied")
    );
    person.waits();
    assert_eq!(person.types("duse mv 语"), []);
    assert_eq!(person.sees(), Input::Reason("use mv 语"));
    assert_eq!(
        person.presses(Action::Enter),
        answer(4, no("the user said no: use mv 语"), "✗ denied: use mv 语")
    );
    person.waits();
    assert_eq!(
        person.presses(Action::Type('p')),
        Some(Do::Keep {
            ask: 5,
            rules: vec!["Bash(touch x)".parse().unwrap()],
        })
    );
    person.waits();
    assert_eq!(person.types("dx"), []);
    assert_eq!(person.presses(Action::Escape), None);
    assert_eq!(person.sees(), CHOICES);
    assert_eq!(person.presses(Action::Escape), Some(Do::Interrupt));
}

#[test]
fn without_a_rule_there_is_no_always() {
    let mut person = Person::new();
    person.is_asked(1, None);
    person.waits();
    assert_eq!(person.sees(), FEWER_CHOICES);
    assert_eq!(person.presses(Action::Type('a')), None);
    assert_eq!(person.presses(Action::Type('p')), None);
    assert_eq!(person.presses(Action::Enter), None);
    assert_eq!(person.sees(), FEWER_CHOICES);
}

#[test]
fn who_is_typing_does_not_answer_by_chance() {
    let mut person = Person::new();
    person.types("an");
    person.is_asked(1, Some("Bash(touch x)"));
    person.waits();
    assert_eq!(person.types("y day"), []);
    assert_eq!(person.sees(), Input::DraftBeforeAnswer("any day"));
    assert!(matches!(person.presses(Action::Enter), Some(Do::Steer(_))));
    assert_eq!(person.sees(), CHOICES);

    let mut person = Person::new();
    person.is_asked(1, Some("Bash(touch x)"));
    assert_eq!(person.types("yes"), []);
    assert_eq!(person.sees(), Input::DraftBeforeAnswer("yes"));

    let mut person = Person::new();
    person.is_asked(1, Some("Bash(touch x)"));
    person.waits();
    assert_eq!(person.presses(Action::Paste("yes".into())), None);
    assert_eq!(person.sees(), Input::DraftBeforeAnswer("yes"));
    person.presses(Action::DeleteAll);
}

#[test]
fn a_stray_key_changes_nothing() {
    let mut person = Person::new();
    person.is_asked(1, Some("Bash(touch x)"));
    person.waits();
    for stray in ('!'..='~').filter(|key| !"yYaApPnNdD".contains(*key)) {
        assert_eq!(person.presses(Action::Type(stray)), None);
        assert!(matches!(
            person.sees(),
            Input::Choices { is_stray: true, .. }
        ));
    }
    // A word that is typed without looking answers nothing with its letters.
    assert_eq!(person.types("only yesterday"), []);
    assert!(matches!(
        person.sees(),
        Input::Choices { is_stray: true, .. }
    ));
    person.waits();
    assert!(matches!(
        person.presses(Action::Type('y')),
        Some(Do::Answer { .. })
    ));
    assert_eq!(person.sees(), Input::Nothing);
}

#[test]
fn the_next_question_takes_no_key_at_once() {
    let mut person = Person::new();
    person.is_asked(1, None);
    person.is_asked(2, None);
    person.waits();
    assert!(person.presses(Action::Type('y')).is_some());
    // Pressed twice by mistake: it neither answers nor begins a message.
    assert_eq!(person.presses(Action::Type('y')), None);
    assert_eq!(person.sees(), FEWER_CHOICES);
}

#[test]
fn a_question_that_is_settled_elsewhere_goes_away() {
    let mut person = Person::new();
    person.is_asked(1, None);
    person.is_asked(1, None);
    person.waits();
    let result = ToolResult::error("call".into(), "interrupted");
    let entry = Arc::new(Entry::CallFinished(result));
    person.controls.take(&Event::Recorded(entry), person.now);
    assert_eq!(person.sees(), Input::Nothing);
    assert!(!person.controls.is_asking());
}
