//! `/compact`, `/context`, `/cost`.

use super::*;

#[test]
fn what_was_said_is_summed_up_and_what_fills_the_window_is_told() {
    let counted = |input, text: &str| {
        let usage = anthropic::Usage {
            input,
            ..anthropic::Usage::default()
        };
        Reply::stream([
            anthropic::open_with(usage),
            anthropic::text(0, text),
            anthropic::end("end_turn"),
        ])
    };
    let long = "A long answer. ".repeat(300);
    let server = ModelServer::start([
        counted(3_000, &long),
        counted(4_300, "Yes."),
        // Broken off by the person.
        begun("## Task"),
        counted(4_800, "## Task\nNothing much."),
        counted(3_300, "Gone on."),
    ]);
    let scratch = Scratch::new();
    let mut person = Pty::start(&scratch, &server, &["tell me"]);
    person.shows("A long answer.");
    person.is_asked();
    person.keys("is that all\r");
    person.shows("Yes.");
    person.is_asked();
    person.keys("/compact the end\r");
    person.shows("the conversation is summed up");
    server.wait_for_requests(3, LONG).unwrap();
    person.keys(ESCAPE);
    person.shows("The conversation was not summed up: it was interrupted.");
    person.shows("> ");
    person.keys("/context\r");
    person.shows("what the model has said");
    person.shows("set aside for the reply");
    person.shows("free");
    person.shows("> ");
    person.keys("/compact\r");
    person.shows("the conversation was summed up: about");
    person.shows("> ");
    person.keys("go on\r");
    person.shows("Gone on.");
    person.is_asked();
    assert!(!server.request(4).mentions("A long answer."));
    person.keys("/cost\r");
    person.shows("this session: ");
    person.shows("cache: 0 % of what");
    person.shows("> ");
    person.keys(CONTROL_D);
    assert_eq!(person.ends(), 0);
    assert!(person.is_restored());
    server.assert_clean();
}
