//! A person is asked, once, whether they trust a folder.

use tooloop_testkit::{ModelServer, Scratch, anthropic};

use super::pty::Pty;
use super::{CONTROL_D, ENTER, bash};

const QUESTION: &str = "Do you trust this folder? [y/n/q] ";
const OWN: &str = ".tooloop/config.toml";

fn folder(command: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(OWN, format!("allowed_tools = [\"Bash({command})\"]\n"));
    scratch
}

/// One prompt whose call is allowed by the folder's own rule.
fn works(scratch: &Scratch, server: &ModelServer) {
    let mut person = Pty::start(scratch, server, &["go"]);
    person.shows("● bash  touch");
    person.shows("All done.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(!person.text().contains("Do you trust"));
}

#[test]
fn yes_is_remembered_until_something_changes() {
    let replies = || [bash("c1", "touch one"), anthropic::say("All done.")];
    let scratch = folder("touch one");
    let server = ModelServer::start(replies());
    let mut person = Pty::start(&scratch, &server, &["go"]);
    person.shows("want more than files that come with a folder may have");
    person.shows("Calls that would need no question:");
    person.shows("Bash(touch one)  (.tooloop/config.toml:1)");
    person.shows("In all: 1 rule.");
    person.shows(QUESTION);
    person.keys(ENTER);
    person.shows("Please say y, n or q.");
    person.shows(QUESTION);
    person.keys("y");
    person.keys(ENTER);
    person.shows("All done.");
    assert!(scratch.workspace().join("one").exists());
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    server.assert_clean();

    let server = ModelServer::start(replies());
    works(&scratch, &server);

    scratch.write(
        OWN,
        "allowed_tools = [\"Bash(touch one)\", \"Bash(rm *)\"]\n",
    );
    let server = ModelServer::start(Vec::<tooloop_testkit::Reply>::new());
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("This is new in its settings files, or has changed since");
    person.shows("Bash(rm *)  (.tooloop/config.toml:1)");
    person.shows("In all: 1 rule.");
    person.shows(QUESTION);
    assert!(!person.text().contains("Bash(touch one)"));
    person.keys("q");
    person.keys(ENTER);
    assert_eq!(person.ends(), 0);
}

#[test]
fn no_works_without_it_and_is_not_asked_again() {
    let scratch = folder("touch one");
    let server = ModelServer::start(Vec::<tooloop_testkit::Reply>::new());
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows(QUESTION);
    person.keys("n");
    person.keys(ENTER);
    person.shows("`allowed_tools` is not");
    person.shows("> ");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);

    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows("`allowed_tools` is not");
    person.shows("> ");
    assert!(!person.text().contains(QUESTION));
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
}

#[test]
fn the_end_of_the_input_is_no_yes() {
    let scratch = folder("touch one");
    let server = ModelServer::start(Vec::<tooloop_testkit::Reply>::new());
    let mut person = Pty::start(&scratch, &server, &[]);
    person.shows(QUESTION);
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(!scratch.data().join("tooloop/trusted.json").exists());
}
