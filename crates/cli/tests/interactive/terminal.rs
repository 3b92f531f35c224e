//! What reaches the terminal, and the state that it is left in.

use rustix::process::Signal;
use tooloop_testkit::{ModelServer, Scratch, anthropic, wait_until};

use crate::bash;
use crate::pty::{LONG, Pty};
use crate::{CHOICES, CONTROL_C, CONTROL_D, ENTER};

#[test]
fn an_unfinished_control_string_hides_no_answer() {
    for opener in ["\u{1b}P", "\u{1b}]", "\u{1b}_", "\u{9d}"] {
        let answer = format!("FIRST {opener}open\n\nLAST-LINE");
        let server = ModelServer::start([anthropic::say(&answer)]);
        let scratch = Scratch::new();
        let mut person = Pty::start(&scratch, &server, &["go"]);
        person.shows("FIRST open");
        person.shows("LAST-LINE");
        person.is_asked();
        person.keys(CONTROL_D);
        assert_eq!(person.ends(), 0);
    }
}

#[test]
fn a_paste_without_an_end_keeps_its_text() {
    let server = ModelServer::start([
        anthropic::say("First."),
        bash("c1", "touch one"),
        anthropic::say("Second."),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    // After a pause the keys are keys again.
    person.keys("\u{1b}[200~never closed\rsecond line");
    person.shows("second line");
    person.keys(ENTER);
    person.shows("First.");
    person.is_asked();
    // So they are after Ctrl-C, which then only ends the paste.
    person.keys("\u{1b}[200~again");
    person.keys(CONTROL_C);
    person.shows("again");
    person.keys(ENTER);
    person.shows(CHOICES);
    // Beside a question too: the text waits, and the question can be answered.
    person.keys("\u{1b}[200~meanwhile");
    person.shows("> meanwhile");
    person.keys("\u{15}");
    person.shows(CHOICES);
    person.keys("y");
    person.shows("Second.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(server.request(0).mentions("never closed\nsecond line"));
    assert!(scratch.workspace().join("one").exists());
}

#[test]
fn signals_leave_the_terminal_as_it_was() {
    for (signal, status) in [
        (Signal::QUIT, 131),
        (Signal::ABORT, 134),
        (Signal::TERM, 143),
        (Signal::HUP, 129),
    ] {
        let server = ModelServer::start([anthropic::say("unused")]);
        let scratch = Scratch::new();
        let mut person = Pty::start(&scratch, &server, &[]);
        person.shows("> ");
        assert!(!person.is_restored());
        person.signal(signal);
        assert_eq!(person.ends(), status, "{signal:?}");
        assert!(person.is_restored(), "{signal:?}");
        let raw = String::from_utf8_lossy(&person.raw()).into_owned();
        let (on, off) = (raw.rfind("\u{1b}[?2004h"), raw.rfind("\u{1b}[?2004l"));
        assert!(on < off, "{signal:?}: {raw:?}");
    }
}

#[test]
fn windows_of_few_cells_keep_question_and_text() {
    for first in [(80, 24), (1, 1)] {
        let server = ModelServer::start([
            bash("c1", "echo 漢字漢字 >> ran; cat ran"),
            anthropic::say("漢字 to the end."),
        ]);
        let scratch = Scratch::new();
        let mut person = Pty::start_sized(&scratch, &server, &["go"], &[], first);
        server.wait_for_requests(1, LONG).unwrap();
        for (columns, rows) in [(1, 1), (1, 24), (2, 2), (5, 3)] {
            person.resize(columns, rows);
        }
        person.resize(80, 24);
        person.shows(CHOICES);
        person.keys("y");
        person.shows("漢字 to the end.");
        person.is_asked();
        person.keys(CONTROL_D);
        assert_eq!(person.ends(), 0);
        let ran = std::fs::read_to_string(scratch.workspace().join("ran")).unwrap();
        assert_eq!(ran, "漢字漢字\n");
        server.assert_clean();
    }
}

#[test]
fn a_closed_terminal_is_not_taken_for_the_user() {
    let server = ModelServer::start([
        bash("c1", "touch begun; exec sleep 3111"),
        anthropic::say("Again."),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["--allowedTools=Bash(*)", "go"]);
    person.shows("touch begun");
    let begun = scratch.workspace().join("begun");
    assert!(wait_until(LONG, || begun.exists()));
    person.signal(Signal::HUP);
    assert_eq!(person.ends(), 129);
    let mut person = Pty::start(&scratch, &server, &["-p", "--continue", "next"]);
    person.shows("Again.");
    assert_eq!(person.ends(), 0);
    let request = server.request(1);
    assert!(request.mentions("its terminal was closed) while it ran: its outcome is unknown"));
    assert!(!request.mentions("by the user"));
}

#[test]
fn a_stopped_process_gives_the_terminal_back_and_takes_it_again() {
    let server = ModelServer::start([anthropic::say("Here again.")]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("> ");
    person.signal(Signal::TSTP);
    person.is_stopped();
    assert!(person.is_restored());
    person.signal(Signal::CONT);
    person.has_the_terminal();
    person.keys("go");
    person.shows("go");
    person.keys(ENTER);
    person.shows("Here again.");
    assert!(!person.is_restored());
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
}

#[test]
fn a_headless_answer_cannot_act_on_the_terminal() {
    let wild = "A\u{1b}[2JB \u{1b}]52;c;aGk=\u{7}C\rD\u{202e}E\u{9b}F";
    let server = ModelServer::start([
        bash("c1", "touch 'a\u{1b}]52;c;aGk=\u{7}'"),
        anthropic::say(wild),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["-p", "go \u{1b}[2J"]);
    person.shows("A\\u{1b}[2JB \\u{1b}]52;c;aGk=\\u{7}C\\rD\\u{202e}E\\u{9b}F\n");
    assert_eq!(person.ends(), 0);
    let raw = String::from_utf8_lossy(&person.raw()).into_owned();
    assert!(raw.contains("not run: "), "{raw:?}");
    let acts = ['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}'];
    assert!(!raw.contains(acts), "{raw:?}");
    let mut person = Pty::start(&scratch, &server, &["sessions", "list"]);
    assert_eq!(person.ends(), 0);
    assert!(!person.text().contains(acts), "{:?}", person.text());
    let text = person.text();
    let id = text.split_whitespace().next().unwrap();
    let mut person = Pty::start(&scratch, &server, &["sessions", "show", id]);
    assert_eq!(person.ends(), 0);
    let raw = String::from_utf8_lossy(&person.raw()).into_owned();
    assert!(!raw.contains(acts), "{raw:?}");
}
