//! A person who is asked about calls.

use tooloop_testkit::{ModelServer, Scratch, anthropic};

use crate::pty::Pty;
use crate::{CHOICES, CONTROL_D, ESCAPE, bash};

fn start(scratch: &Scratch, server: &ModelServer, arguments: &[&str]) -> Pty {
    Pty::start_with(scratch, server, arguments, &[("TOOLOOP_SANDBOX", "off")])
}

/// C34: the session's rule covers the same call alone.
#[test]
fn always_for_the_session_is_for_the_very_same_call() {
    let server = ModelServer::start([
        bash("c1", "touch 1.txt"),
        bash("c2", "touch 1.txt"),
        bash("c3", "rm 1.txt"),
        anthropic::say("All done."),
    ]);
    let scratch = Scratch::new();
    let mut person = start(&scratch, &server, &["go"]);
    person.shows("the rule Bash(touch 1.txt)");
    person.shows(CHOICES);
    person.shows("a always, this session");
    person.keys("a");
    person.shows("✓ allowed for this session");
    person.shows("│ rm 1.txt");
    person.shows(CHOICES);
    person.keys("n");
    person.shows("All done.");
    person.is_asked();
    assert!(scratch.workspace().join("1.txt").exists());

    person.keys("/permissions\r");
    person.shows("[1] Bash(touch 1.txt)");
    person.shows("this session");
    person.keys("/permissions explain rm 1.txt; ls\r");
    person.shows("decision: ask: `rm 1.txt` is not covered");
    person.keys("/permissions explain touch 1.txt\r");
    person.shows("decision: allow");
    person.keys("/permissions remove 1\r");
    person.shows("Bash(touch 1.txt) allows nothing any more.");
    person.keys("/permissions explain touch 1.txt\r");
    person.shows("decision: ask: ");
    person.keys("/permissions forget\r");
    person.shows("/permissions [list");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    server.assert_clean();
}

#[test]
fn always_for_the_project_holds_the_next_time() {
    let server = ModelServer::start([
        bash("c1", "touch 1.txt"),
        anthropic::say("Once."),
        bash("c2", "touch 1.txt"),
        anthropic::say("Twice."),
    ]);
    let scratch = Scratch::new();
    let saved = scratch.write(
        scratch.config().join("tooloop/projects.toml"),
        "# mine\n[\"/elsewhere\"]\nallowed_tools = [\"Bash(make)\"] # why\n",
    );
    let mut person = start(&scratch, &server, &["go"]);
    person.shows(CHOICES);
    person.shows("p always, this project");
    person.keys("p");
    person.shows("✓ allowed in this project by the rule Bash(touch 1.txt), saved in");
    person.shows("Once.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    let text = scratch.read(&saved);
    assert!(
        text.starts_with("# mine\n[\"/elsewhere\"]\nallowed_tools = [\"Bash(make)\"] # why\n"),
        "{text}"
    );
    assert!(!scratch.workspace().join(".tooloop").exists());

    let mut person = start(&scratch, &server, &["again"]);
    person.shows("Twice.");
    person.is_asked();
    person.keys("/permissions\r");
    person.shows("saved: ");
    person.shows("projects.toml");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(!person.text().contains("asks: "));
    server.assert_clean();
}

#[test]
fn a_file_of_rules_that_is_broken_meanwhile_is_left_alone_and_told() {
    let server = ModelServer::start([bash("c1", "touch 1.txt"), anthropic::say("Once.")]);
    let scratch = Scratch::new();
    let mut person = start(&scratch, &server, &["go"]);
    person.shows(CHOICES);
    let broken = "[\"/w\"\n";
    let saved = scratch.write(scratch.config().join("tooloop/projects.toml"), broken);
    person.keys("p");
    person.shows("✓ allowed for this session by the rule Bash(touch 1.txt); not saved:");
    person.shows("not valid TOML");
    person.shows("Once.");
    person.is_asked();
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert_eq!(scratch.read(&saved), broken);
}

#[test]
fn of_a_long_command_the_end_is_seen_and_all_of_it_on_demand() {
    let middle = "echo of the middle\n";
    let command = format!(
        "echo first\n{}{middle}{}rm -r everything",
        "echo before\n".repeat(100),
        "echo after\n".repeat(100)
    );
    let server = ModelServer::start([bash("c1", &command), anthropic::say("Well.")]);
    let scratch = Scratch::new();
    let mut person = start(&scratch, &server, &["go"]);
    person.shows("│ echo first");
    person.shows("are not shown here: v shows all of it");
    person.shows("│ rm -r everything");
    person.shows("v view all");
    assert!(!person.text().contains(middle.trim_end()));
    person.keys("v");
    person.shows("│ echo first");
    person.shows("│ echo of the middle");
    person.shows("│ rm -r everything");
    person.shows(CHOICES);
    person.keys(ESCAPE);
    person.shows("Interrupted");
    person.shows("> ");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
}
