//! What is sent after a resume is to the byte what would have been sent without one, so that a
//! provider's cache of the conversation holds.

use std::fs;

use tooloop_testkit::{ModelServer, Scratch, Steps, anthropic, hold, openai_chat};

use crate::support::{
    Api, both, finish, front_end, interrupt, journal, resume, session_of, speak, wait_for_file,
    wait_for_piece, wait_for_result,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xfc\xcf\xc0P\x0f\0\x04\x85\x01\x80\x84\xa9\x8c!\0\0\0\0IEND\xaeB`\x82";

/// JSON as some models write it.
const ODD: &str = "{ \"path\" :\"dot.png\",\n \"offset\":1.0e0, \"\\u65e5\": [1.50, 1E2] }";

fn thoughtful(api: Api) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::thinking(0, "plan\u{2028} é", "c2lnbmF0dXJl"),
            anthropic::redacted_thinking(1, "b3BhcXVl"),
            anthropic::text(2, "I look\r\n  "),
            anthropic::tool_use(3, "tu_1", "read", &["{\"path\":\"dot.png\"}"]),
            anthropic::tool_use(4, "tu_odd", "read", &[ODD]),
            anthropic::end("tool_use"),
        ]),
        Api::Chat => Steps::from([
            openai_chat::reasoning("reasoning_content", "plan\u{2028} é"),
            openai_chat::content("I look\r\n  "),
            openai_chat::tool_delta(0, "tu_1", "read", "{\"path\":\"dot.png\"}"),
            openai_chat::tool_delta(1, "tu_odd", "read", ODD),
            openai_chat::finish("tool_calls"),
            openai_chat::done(),
        ]),
    }
}

fn begun(api: Api) -> Steps {
    match api {
        Api::Messages => Steps::from([
            anthropic::open(),
            anthropic::thinking(0, "more", "c2lnMg=="),
            anthropic::text_start(1),
            anthropic::text_delta(1, "It is "),
        ]),
        Api::Chat => Steps::from([
            openai_chat::reasoning("reasoning_content", "more"),
            openai_chat::content("It is "),
        ]),
    }
    .then(hold())
}

both! {
    fn a_resumed_session_sends_the_same_bytes(api) {
        let scratch = Scratch::new();
        scratch.write("dot.png", PNG);
        let server = ModelServer::start([
            thoughtful(api),
            api.bashes(&[("tu_2", "echo 'é \"x\"'; exit 3"), ("tu_3", "touch begun; sleep 60"), ("tu_4", "true")]),
            begun(api),
            api.say("whole"),
            api.say("live"),
            api.say("resumed"),
            api.say("forked"),
        ]);
        let running = front_end(&scratch, &server, api).start();
        speak(&running, "look");
        wait_for_file(&scratch.workspace().join("begun"));
        interrupt(&running);
        assert_eq!(wait_for_result(&running, 1)["reason"], "interrupted");
        speak(&running, "and then");
        wait_for_piece(&running, "text_delta");
        // The first text was that of the first reply: wait for the one that is held.
        server.wait_for_requests(3, crate::support::LONG).unwrap();
        running
            .wait_for_record(crate::support::LONG, |record| {
                record["event"]["delta"]["text"] == "It is "
            })
            .unwrap();
        interrupt(&running);
        assert_eq!(wait_for_result(&running, 2)["reason"], "interrupted");
        speak(&running, "once more");
        assert_eq!(wait_for_result(&running, 3)["result"], "whole");
        let session = session_of(&running);
        let path = journal(&scratch, &session);
        let before = fs::read(&path).unwrap();
        speak(&running, "next");
        assert_eq!(wait_for_result(&running, 4)["result"], "live");
        running.close_stdin();
        finish(&running);

        fs::write(&path, &before).unwrap();
        assert_eq!(resume(&scratch, &server, api, &session, "next").answer(), "resumed");
        fs::write(&path, &before).unwrap();
        let fork = crate::support::tooloop(&scratch, &server, api).args(["-r", &session, "--fork-session", "next"]);
        assert_eq!(finish(&fork.start()).answer(), "forked");
        let [live, resumed, forked] = [4, 5, 6].map(|index| server.request(index));
        for (part, text) in [("an image", "iVBOR"), ("an odd input", "tu_odd"), ("an interrupt", "interrupted")] {
            assert!(live.mentions(text), "{part} is missing: {}", live.body);
        }
        let text = |raw: &[u8]| String::from_utf8(raw.to_vec()).unwrap();
        assert_eq!(text(&live.raw), text(&resumed.raw));
        assert_eq!(text(&live.raw), text(&forked.raw));
        server.assert_clean();
    }
}
