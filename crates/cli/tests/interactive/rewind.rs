//! `/rewind`.

use super::*;

#[test]
fn a_turn_is_taken_back_and_its_prompt_is_edited() {
    let server = ModelServer::start([
        bash("c1", "echo one > made"),
        anthropic::say("One is made."),
        bash("c2", "echo two > made; echo two > other"),
        anthropic::say("Two is made."),
        anthropic::say("Three then."),
    ]);
    let scratch = Scratch::new();
    let made = || std::fs::read_to_string(scratch.workspace().join("made")).unwrap();
    let mut person = Pty::start(&scratch, &server, &["--allowedTools", "Bash", "make one"]);
    person.shows("One is made.");
    person.is_asked();
    person.keys("make two\r");
    person.shows("Two is made.");
    person.is_asked();
    person.keys("/rewind\r");
    person.shows("make one  (1 file)");
    person.shows("make two  (2 files)");
    person.shows("/rewind N goes back");
    person.shows("> ");
    person.keys("/rewind 9\r");
    person.shows("there is no turn 9");
    person.shows("> ");
    // Said first, and left as it is without a yes.
    person.keys("/rewind 2\r");
    person.shows("would restore made");
    person.shows("would remove other");
    person.shows("The conversation ends before turn 2 then.");
    person.shows("Type y and Enter");
    person.shows("> ");
    person.keys("n\r");
    person.shows("All is left as it is.");
    assert_eq!(made(), "two\n");
    person.shows("> ");
    person.keys("/rewind 2\r");
    person.shows("Type y and Enter");
    person.shows("> ");
    person.keys("y\r");
    person.shows("restored made");
    person.shows("removed other");
    person.shows("Rewound.");
    assert_eq!(made(), "one\n");
    // The prompt is there to be edited.
    person.shows("> make two");
    person.keys(", no, three\r");
    person.shows("Three then.");
    person.is_asked();
    let last = server.request(4);
    let texts = last.texts();
    assert_eq!(texts.last().unwrap().1, "make two, no, three");
    assert!(!last.mentions("Two is made."), "{}", last.body);
    person.keys("/rewind undo\r");
    person.shows("would restore made");
    person.shows("Type y and Enter");
    person.shows("> ");
    person.keys("y\r");
    person.shows("Rewound.");
    assert_eq!(made(), "two\n");
    person.shows("> ");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    server.assert_clean();
}
