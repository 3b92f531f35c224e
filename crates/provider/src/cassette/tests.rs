use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use futures_util::StreamExt;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tooloop_model::{
    BlockStart, HistoryMessage, Message, MessageBuilder, ModelErrorKind, Request, StopReason,
    ToolDefinition,
};

use super::*;
use crate::{Provider, Redactor, Reply, ScriptedProvider, request};

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("fixture.jsonl")
    }

    fn recording(&self, inner: ScriptedProvider) -> RecordingProvider {
        let redactor = Redactor::new(["hunter2hunter2".into()]);
        RecordingProvider::new(Arc::new(inner), &self.path(), redactor).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }
}

/// What a call comes to: what was said, or the error.
async fn ask(provider: &dyn Provider, request: Request) -> Result<String, ModelError> {
    let mut stream = provider.stream(request, CancellationToken::new()).await?;
    let mut builder = MessageBuilder::new();
    while let Some(event) = stream.next().await {
        builder.push(event?).unwrap();
    }
    Ok(builder.finish().unwrap().text())
}

fn asked(texts: &[&str]) -> Request {
    request("m", texts.iter().map(|text| Message::user(*text)))
}

fn in_pieces(pieces: &[&str]) -> Vec<StreamEvent> {
    let mut events = vec![StreamEvent::BlockStart {
        index: 0,
        block: BlockStart::Text,
    }];
    for piece in pieces {
        events.push(StreamEvent::TextDelta {
            index: 0,
            text: (*piece).into(),
        });
        events.push(StreamEvent::Usage(tooloop_model::Usage::default()));
    }
    events
}

#[tokio::test]
async fn what_was_answered_is_answered_again() {
    let fixture = Fixture::new();
    let overloaded = ModelError::new(ModelErrorKind::Overloaded, "no room");
    let mut broken: Vec<_> = in_pieces(&["half"]).into_iter().map(Ok).collect();
    broken.push(Err(ModelError::new(ModelErrorKind::CutStream, "cut")));
    let inner = ScriptedProvider::new()
        .say("one")
        .fail(overloaded.clone())
        .then(Reply::Events(broken))
        .say("two");
    let recording = fixture.recording(inner);
    let mut recorded = Vec::new();
    let requests = [
        asked(&["a"]),
        asked(&["a", "b"]),
        asked(&["a", "b"]),
        asked(&["a", "b"]),
    ];
    for request in &requests {
        recorded.push(ask(&recording, request.clone()).await);
    }
    assert_eq!(recording.problem(), None);

    let playing = CassetteProvider::open(fixture.path()).unwrap();
    let mut played = Vec::new();
    for request in &requests {
        played.push(ask(&playing, request.clone()).await);
    }
    assert_eq!(played, recorded);
    assert_eq!(played[0].as_deref(), Ok("one"));
    assert_eq!(played[1], Err(overloaded));
    playing.finish().unwrap();
    assert_eq!(playing.info("m"), recording.info("m"));
    let mode = fs::metadata(fixture.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // What was asked before is not written again.
    assert_eq!(fixture.text().matches(r#""text":"a""#).count(), 1);
}

#[tokio::test]
async fn the_first_difference_is_told_and_no_retry_mends_it() {
    let fixture = Fixture::new();
    let recording = fixture.recording(ScriptedProvider::new().say("one"));
    ask(&recording, asked(&["a"])).await.unwrap();
    let open = || CassetteProvider::open(fixture.path()).unwrap();
    let told = |error: &ModelError| {
        assert!(!error.kind.is_retryable());
        error.message.split_once(": ").unwrap().1.to_owned()
    };

    let playing = open();
    let error = ask(&playing, asked(&["b"])).await.unwrap_err();
    assert_eq!(
        told(&error),
        "the request differs from call 1 at /messages/0/user/0/text: expected \"a\", came \"b\""
    );
    let words = playing.finish().unwrap_err().to_string();
    assert_eq!(words, error.message);

    let playing = open();
    let words = playing.finish().unwrap_err().to_string();
    assert!(
        words.ends_with(
            "1 recorded calls were never asked for; the first is call 1, whose newest message is \
             {\"user\":[{\"text\":\"a\"}]}"
        ),
        "{words}"
    );
    ask(&playing, asked(&["a"])).await.unwrap();
    let error = ask(&playing, asked(&["a"])).await.unwrap_err();
    assert_eq!(
        told(&error),
        "all recorded calls have been asked for, and this is one more"
    );
    assert!(playing.finish().is_err());
}

#[tokio::test]
async fn what_differs_between_machines_is_passed_over_on_demand_only() {
    let fixture = Fixture::new();
    let with = |model: &str, system: &str, tool: &str, text: &str| Request {
        system: system.into(),
        tools: Arc::from([ToolDefinition {
            name: tool.into(),
            description: String::new(),
            input_schema: tooloop_model::RawJson::parse("{}").unwrap(),
        }]),
        ..request(model, [Message::user(text)])
    };
    let recording = fixture.recording(ScriptedProvider::new().say("one"));
    ask(&recording, with("m", "in /there", "t", "at /there"))
        .await
        .unwrap();
    let open = || CassetteProvider::open(fixture.path()).unwrap();
    for (request, place, lenient) in [
        (
            with("n", "in /there", "t", "at /there"),
            "/model",
            open().ignoring_model(),
        ),
        (
            with("m", "other", "t", "at /there"),
            "/system",
            open().ignoring_system(),
        ),
        (
            with("m", "in /there", "u", "at /there"),
            "/tools/0/name",
            open().ignoring_tools(),
        ),
        (
            with("m", "in /here", "t", "at /here"),
            "/system",
            open().reading("/here", "/there"),
        ),
    ] {
        let error = ask(&open(), request.clone()).await.unwrap_err();
        assert!(
            error.message.contains(&format!("call 1 at {place}: ")),
            "{error}"
        );
        assert_eq!(ask(&lenient, request).await.unwrap(), "one");
    }
}

#[tokio::test]
async fn calls_beside_each_other_may_come_in_any_order() {
    let fixture = Fixture::new();
    let recording = fixture.recording(ScriptedProvider::new().say("one").say("two"));
    for text in ["a", "b"] {
        ask(&recording, asked(&[text])).await.unwrap();
    }
    let playing = CassetteProvider::open(fixture.path()).unwrap();
    assert_eq!(ask(&playing, asked(&["b"])).await.unwrap(), "two");
    assert_eq!(ask(&playing, asked(&["a"])).await.unwrap(), "one");
    playing.finish().unwrap();
}

#[tokio::test]
async fn a_call_that_was_dropped_is_recorded_so_far() {
    let fixture = Fixture::new();
    let inner = ScriptedProvider::new().then(Reply::Hold(in_pieces(&["half"])));
    let recording = fixture.recording(inner);
    let mut stream = recording
        .stream(asked(&["a"]), CancellationToken::new())
        .await
        .unwrap();
    stream.next().await.unwrap().unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let content = CassetteContent::read(&fixture.path()).unwrap();
    let reply = &content.calls[0].reply;
    assert!(reply.cancelled && reply.events.len() == 2, "{reply:?}");
    let playing = CassetteProvider::open(fixture.path()).unwrap();
    let error = ask(&playing, asked(&["a"])).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
}

#[tokio::test]
async fn no_secret_gets_onto_the_tape_and_the_requests_still_match() {
    let fixture = Fixture::new();
    let mut events = in_pieces(&["it is hunt", "er2hunter2, or sk-ant-", "api03-aBcD1234"]);
    events.push(StreamEvent::MessageStop {
        stop_reason: StopReason::EndTurn,
    });
    let recording = fixture.recording(ScriptedProvider::new().events(events).say("two"));
    let request = Request {
        system: "hunter2hunter2".into(),
        ..asked(&["my key is hunter2hunter2"])
    };
    let said = ask(&recording, request.clone()).await.unwrap();
    let mut next = request.clone();
    let reply = Message::user(said.clone());
    next.messages.push(Arc::new(HistoryMessage::new(reply)));
    ask(&recording, next.clone()).await.unwrap();
    let text = fixture.text();
    assert!(
        !text.contains("hunter2") && !text.contains("aBcD1234"),
        "{text}"
    );

    let redactor = Redactor::new(["hunter2hunter2".into()]);
    let playing = CassetteProvider::open(fixture.path())
        .unwrap()
        .redacting(redactor);
    let played = ask(&playing, request).await.unwrap();
    assert_eq!(played, "it is [redacted], or [redacted]");
    ask(&playing, next).await.unwrap();
    playing.finish().unwrap();
}

#[test]
fn nothing_is_replaced() {
    let fixture = Fixture::new();
    fs::write(fixture.path(), "mine").unwrap();
    let inner = Arc::new(ScriptedProvider::new());
    let error = RecordingProvider::new(inner, &fixture.path(), Redactor::off()).unwrap_err();
    assert!(error.to_string().contains("is there already"), "{error}");
    assert_eq!(fixture.text(), "mine");
}

#[tokio::test]
async fn a_recording_that_cannot_be_written_disturbs_nothing_and_is_told() {
    let inner = Arc::new(ScriptedProvider::new().say("one").say("two"));
    // The file that is always full: made by opening it, since it is there already.
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let recording = RecordingProvider::onto(inner, Cassette::on(full, Path::new("/dev/full")));
    assert_eq!(ask(&recording, asked(&["a"])).await.unwrap(), "one");
    assert_eq!(ask(&recording, asked(&["b"])).await.unwrap(), "two");
    let problem = recording.problem().unwrap();
    assert!(
        problem.starts_with("the recording /dev/full is not complete: it cannot be written: "),
        "{problem}"
    );
}

#[tokio::test]
async fn files_that_are_no_recordings() {
    let fixture = Fixture::new();
    let recording = fixture.recording(ScriptedProvider::new().say("one").say("two"));
    for texts in [&["a"][..], &["a", "b"]] {
        ask(&recording, asked(texts)).await.unwrap();
    }
    let whole = fixture.text();
    let refused = |text: &str| {
        fs::write(fixture.path(), text).unwrap();
        let error = CassetteProvider::open(fixture.path()).unwrap_err();
        error.to_string().split_once(", ").unwrap().1.to_owned()
    };
    for (text, words) in [
        ("", "line 1: this is no recording: "),
        ("{}\n", "line 1: this is not the first line of a recording"),
        (
            "{\"tooloop_cassette\":2}\n",
            "line 1: it was recorded by a newer version",
        ),
        (
            "{\"tooloop_cassette\":1}\nx\n",
            "line 2: this is no recording: ",
        ),
        (
            "{\"tooloop_cassette\":1}\n{\"call\":{}}\n",
            "line 2: this call cannot be read: ",
        ),
    ] {
        let told = refused(text);
        assert!(told.starts_with(words), "{told}");
    }
    let lines: Vec<&str> = whole.lines().collect();
    let told = refused(&format!("{}\n{}\n", lines[0], lines[2]));
    assert_eq!(
        told,
        "line 2: it begins with 1 messages of call 1, which are not there"
    );
    // Cut anywhere, it holds the calls that are whole.
    for length in lines[0].len() + 1..whole.len() {
        fs::write(fixture.path(), &whole.as_bytes()[..length]).unwrap();
        let calls = CassetteContent::read(&fixture.path()).unwrap().calls.len();
        let ended = whole.as_bytes()[..length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert!(calls + 1 >= ended, "{calls} calls in {length} bytes");
    }
}
