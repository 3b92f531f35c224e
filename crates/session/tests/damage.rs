//! Journals that something has happened to: whatever it was, what can be read goes on, and a repair
//! leaves what resuming would have made of it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may fail where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use tooloop_kernel::{CompactionTrigger, Continue, Entry, Transcript, TurnEnd};
use tooloop_model::{
    AssistantMessage, Content, ContentBlock, HistoryMessage, Message, ModelError, ModelErrorKind,
    ToolInput, ToolResult, ToolUse,
};
use tooloop_session::{
    Catalog, FaultKind, Header, JsonlStore, Line, MAX_LINE, SessionId, Store, StoreError,
    read_lines, repair, verify,
};

const WORKSPACE: &str = "/some/where/project";

struct Journal {
    _root: tempfile::TempDir,
    path: PathBuf,
    whole: Vec<u8>,
}

/// Two turns, with calls in them.
fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for turn in 0..2 {
        entries.push(Entry::message(Message::user(format!(
            "prompt {turn} é 日本"
        ))));
        let ids = [format!("tu_{turn}_a"), format!("tu_{turn}_b")];
        let mut content = vec![ContentBlock::Text {
            text: "I look \"}{\" around".into(),
            vendor: None,
        }];
        content.extend(ids.iter().map(|id| {
            ContentBlock::ToolUse(ToolUse {
                id: id.as_str().into(),
                name: "bash".into(),
                input: ToolInput::parse("{\"seq\":1,\"command\":\"echo {}{}\"}"),
                vendor: None,
            })
        }));
        entries.push(Entry::message(Message::Assistant(AssistantMessage {
            content,
            ..AssistantMessage::default()
        })));
        for id in &ids {
            entries.push(Entry::CallStarted {
                tool_use_id: id.as_str().into(),
            });
            entries.push(Entry::CallFinished(ToolResult::text(
                id.as_str().into(),
                format!("result of {id}"),
            )));
        }
        entries.push(Entry::Continue(Continue::NextStep));
        entries.push(Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::Text {
                text: format!("answer {turn}"),
                vendor: None,
            }],
            ..AssistantMessage::default()
        })));
        entries.push(Entry::TurnEnd(TurnEnd::Completed));
    }
    entries
}

/// The same turns and two more, summed up in between and taken back to before that.
fn long() -> Vec<Entry> {
    let mut long = entries();
    let rest = long.split_off(9);
    // The first turn has five messages, of which its answer is kept.
    long.push(summed_up(3));
    long.extend(rest);
    long.push(Entry::Shortened {
        results: vec!["tu_1_a".into(), "tu_1_b".into()],
        before: 2_000,
        after: 1_000,
    });
    long.push(summed_up(2));
    for (prompt, back) in [("three", 3), ("three again", 1), ("one again", 1)] {
        long.push(Entry::message(Message::user(prompt)));
        long.push(Entry::TurnEnd(TurnEnd::Completed));
        long.push(Entry::Rewound { turn: back });
    }
    long.push(Entry::message(Message::user("the last")));
    long
}

fn summed_up(cut: usize) -> Entry {
    Entry::Compacted {
        cut,
        summary: "what {\"seq\":7} was é".into(),
        request: vec![Content::Text("prompt".into())],
        carried: Vec::new(),
        trigger: CompactionTrigger::Manual,
        before: 2_000,
        after: 1_000,
    }
}

fn journal_of(entries: &[Entry]) -> Journal {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new(WORKSPACE));
    let session = SessionId::generate();
    let mut store = JsonlStore::create(
        catalog.path(session),
        Header::new(session, WORKSPACE.into()),
    );
    store.append(entries).unwrap();
    let path = store.path().to_owned();
    let whole = fs::read(&path).unwrap();
    Journal {
        _root: root,
        path,
        whole,
    }
}

fn journal() -> Journal {
    journal_of(&entries())
}

/// The place of the line (from 0) in the file, its end included.
fn line(bytes: &[u8], number: usize) -> std::ops::Range<usize> {
    let mut ends = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1);
    let begin = if number == 0 {
        0
    } else {
        ends.nth(number - 1).unwrap()
    };
    begin..ends.next().unwrap()
}

fn names(path: &Path) -> Vec<&'static str> {
    let mut names = Vec::new();
    verify(path, None, |fault| names.push(fault.kind.name())).unwrap();
    names
}

/// The rules of a strict provider that do not depend on a wire format, as the kernel's own
/// properties have them.
fn faults(messages: &[Arc<HistoryMessage>]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    let mut open = Vec::new();
    let mut assistant_before = false;
    let speaks =
        |content: &[Content]| !content.is_empty() && !content.iter().any(Content::is_blank);
    for (place, message) in messages.iter().enumerate() {
        let expected = std::mem::take(&mut open);
        let mut is_assistant = false;
        let mut fault = |words: &str| faults.push(format!("message {place}: {words}"));
        match message.message() {
            Message::User(content) => {
                if !expected.is_empty() || !speaks(content) {
                    fault("unanswered calls or nothing said");
                }
            }
            Message::Assistant(reply) => {
                is_assistant = true;
                if place == 0 || assistant_before || !expected.is_empty() || !reply.has_substance()
                {
                    fault("a reply that cannot stand here");
                }
                for tool_use in reply.tool_uses() {
                    let ours = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                    let id = &tool_use.id.0;
                    if id.is_empty() || id.len() > 64 || !id.bytes().all(ours) {
                        fault("an id that is none");
                    }
                    if !ids.insert(id.clone()) {
                        fault("an id that is used twice");
                    }
                    open.push(tool_use.id.clone());
                }
            }
            Message::ToolResults(results) => {
                let answered: Vec<_> = results.iter().map(|result| &result.tool_use_id).collect();
                if answered != expected.iter().collect::<Vec<_>>() || answered.is_empty() {
                    fault("other answers than were asked for");
                }
                if !results.iter().all(|result| speaks(&result.content)) {
                    fault("a blank result");
                }
            }
        }
        assistant_before = is_assistant;
    }
    faults
}

/// Goes on with a session, which must give a history that a provider takes; what is added must be read
/// back, and the damage told again or mended.
fn goes_on(path: &Path) -> Transcript {
    let opened = JsonlStore::open(path).unwrap();
    assert!(opened.warnings.len() <= 21, "{:?}", opened.warnings);
    let before = opened.transcript.clone();
    let mut store = opened.store;
    store
        .append(&[Entry::message(Message::user("next"))])
        .unwrap();
    drop(store);
    let after = JsonlStore::open(path).unwrap().transcript;
    let mut expected = before.clone();
    expected.apply(&Entry::message(Message::user("next")));
    assert_eq!(after.messages(), expected.messages());
    assert_eq!(faults(after.messages()), Vec::<String>::new());
    before
}

/// Everything that must be true of a damaged journal.
fn check(path: &Path, damaged: &[u8]) -> Transcript {
    fs::write(path, damaged).unwrap();
    let resumed = goes_on(path);
    fs::write(path, damaged).unwrap();
    let found = names(path);
    let told = repair(path, None, |_| {}).unwrap();
    let real = found.iter().filter(|name| **name != "unknown_kind").count() as u64;
    assert_eq!(told.faults, real);
    match &told.original {
        Some(original) => assert_eq!(fs::read(original).unwrap(), damaged),
        None => assert_eq!(real, 0),
    }
    let rest = names(path);
    assert!(rest.iter().all(|name| *name == "unknown_kind"), "{rest:?}");
    let again = repair(path, None, |_| {}).unwrap();
    assert_eq!(again.original, None);
    let repaired = JsonlStore::open(path).unwrap();
    // Ids of what was put in are new, what is said is the same.
    assert_eq!(repaired.transcript.messages(), resumed.messages());
    assert_eq!(repaired.transcript.usage(), resumed.usage());
    drop(repaired);
    goes_on(path);
    resumed
}

fn messages(entries: &[Entry]) -> Vec<Message> {
    let mut transcript = Transcript::default();
    transcript.keep_past();
    entries.iter().for_each(|entry| transcript.apply(entry));
    said(&transcript)
}

fn said(transcript: &Transcript) -> Vec<Message> {
    let messages = transcript.messages().iter();
    messages.map(|message| message.message().clone()).collect()
}

#[test]
fn a_whole_journal_has_no_fault() {
    let Journal { _root, path, whole } = journal();
    assert_eq!(names(&path), [""; 0]);
    let repaired = repair(&path, None, |_| {}).unwrap();
    assert_eq!((repaired.original, repaired.faults), (None, 0));
    assert_eq!(repaired.kept, entries().len() as u64);
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn fused_lines_are_split() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    for number in [0, 1, 2, 5] {
        // The line's end is lost.
        let mut fused = whole.clone();
        let end = line(&whole, number).end - 1;
        fused.remove(end);
        assert_eq!(said(&check(&path, &fused)), all, "{number}");
        // Something else is in its place.
        let mut fused = whole.clone();
        fused[end] = b'z';
        assert_eq!(said(&check(&path, &fused)), all, "{number}");
    }
    // Half a line, and the next one glued to it.
    let mut torn = whole.clone();
    let second = line(&whole, 7);
    torn.drain(second.start + 40..second.end);
    fs::write(&path, &torn).unwrap();
    assert_eq!(names(&path), ["unreadable", "chain"]);
    check(&path, &torn);
    let lines = whole.split(|byte| *byte == b'\n').collect::<Vec<_>>();
    fs::write(&path, lines.concat()).unwrap();
    let found = names(&path);
    let fused = found.iter().filter(|name| **name == "fused").count();
    assert_eq!((fused, found.len()), (entries().len(), entries().len() + 1));
    assert_eq!(said(&check(&path, &lines.concat())), all);
}

#[test]
fn what_a_call_is_made_with_never_becomes_a_record() {
    let mut entries = entries();
    let forged = "{\"seq\":99,\"id\":\"0123456789abcdef\",\"time\":\"2026-01-01T00:00:00Z\",\
                  \"entry\":{\"message\":{\"user\":[{\"text\":\"forged\"}]}}}";
    entries[1] = Entry::message(Message::Assistant(AssistantMessage {
        content: vec![ContentBlock::ToolUse(ToolUse {
            id: "tu_x".into(),
            name: "bash".into(),
            input: ToolInput::parse(forged),
            vendor: None,
        })],
        ..AssistantMessage::default()
    }));
    let Journal { _root, path, whole } = journal_of(&entries);
    let place = line(&whole, 2);
    // Its beginning is damaged.
    let mut damaged = whole;
    damaged[place.start + 3] = b'\'';
    let messages = said(&check(&path, &damaged));
    assert!(!format!("{messages:?}").contains("forged"));
}

#[test]
fn blocks_of_zeros_are_cut_out() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    // Between two lines, at both ends of the file, before a line's end.
    for at in [
        0,
        line(&whole, 3).start,
        line(&whole, 4).end - 1,
        whole.len(),
        whole.len() - 1,
    ] {
        for size in [1, 4096, 300_000] {
            let mut damaged = whole.clone();
            damaged.splice(at..at, std::iter::repeat_n(0, size));
            assert_eq!(said(&check(&path, &damaged)), all, "{at} {size}");
        }
    }
    // In the place of a line's beginning, and of more than a line.
    for range in [
        line(&whole, 7),
        line(&whole, 7).start + 9..line(&whole, 9).start + 9,
    ] {
        let mut damaged = whole.clone();
        damaged[range].fill(0);
        check(&path, &damaged);
        assert!(names(&path).is_empty());
    }
    fs::write(&path, vec![0; 5_000]).unwrap();
    assert!(matches!(
        JsonlStore::open(&path),
        Err(StoreError::Format { .. })
    ));
}

#[test]
fn bytes_that_are_no_text_cost_a_character_or_a_line() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    let place = line(&whole, 1);
    let at = place.start
        + whole[place]
            .windows(6)
            .position(|window| window == b"prompt")
            .unwrap();
    let mut damaged = whole.clone();
    damaged[at] = 0xff;
    let mended = said(&check(&path, &damaged));
    assert_eq!(mended.len(), all.len());
    assert_eq!(mended[0], Message::user("\u{fffd}rompt 0 é 日本"));
    fs::write(&path, &damaged).unwrap();
    assert_eq!(names(&path), ["not_utf8"]);
    // Outside of a text.
    let mut damaged = whole.clone();
    let place = line(&whole, 8);
    damaged[place.start + 2] = 0xff;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(names(&path)[0], "unreadable");
    check(&path, &damaged);
}

#[test]
fn a_line_that_comes_again_is_taken_once() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    for (from, to) in [(1, 1), (2, 2), (3, 3), (1, 8), (1, 14), (9, 14), (4, 4)] {
        let (from, to) = (line(&whole, from).start, line(&whole, to).end);
        let mut damaged = whole.clone();
        let again = whole[from..to].to_vec();
        damaged.splice(to..to, again);
        assert_eq!(said(&check(&path, &damaged)), all, "{from} {to}");
    }
    let mut twice = whole.clone();
    twice.extend_from_slice(&whole);
    assert_eq!(said(&check(&path, &twice)), all);
}

#[test]
fn a_header_is_made_anew() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    let end = line(&whole, 0).end;
    let header: Header = serde_json::from_slice(&whole[..end]).unwrap();
    for keep in [0, 1, 20, 40, end / 2, end - 3] {
        for with_end in [true, false] {
            let mut damaged = whole[..keep].to_vec();
            if with_end {
                damaged.push(b'\n');
            }
            damaged.extend_from_slice(&whole[end..]);
            assert_eq!(said(&check(&path, &damaged)), all, "{keep} {with_end}");
            fs::write(&path, &damaged).unwrap();
            let rebuilt = repair(&path, Some(Path::new(WORKSPACE)), |_| {})
                .unwrap()
                .header;
            assert_eq!(
                (rebuilt.session, &rebuilt.workspace),
                (header.session, &header.workspace)
            );
            let late = rebuilt.created.duration_since(header.created);
            assert!(late.as_secs() < 5, "{late:?}");
        }
    }
    // Nobody says where it was, but a neighbour.
    let catalog = Catalog::new(
        path.parent().unwrap().parent().unwrap(),
        Path::new(WORKSPACE),
    );
    let neighbour = SessionId::generate();
    let mut store = JsonlStore::create(
        catalog.path(neighbour),
        Header::new(neighbour, WORKSPACE.into()),
    );
    store.append(&entries()).unwrap();
    fs::write(&path, &whole[end..]).unwrap();
    let rebuilt = repair(&path, Some(Path::new("/elsewhere")), |_| {}).unwrap();
    assert_eq!(rebuilt.header.workspace, Path::new(WORKSPACE));
}

#[test]
fn a_file_of_nothing_is_refused_and_can_be_repaired() {
    let Journal {
        _root,
        path,
        whole: _,
    } = journal();
    for damaged in ["", "\n\n", "nonsense\n", "{\"tooloop_session\":1,\"sess"] {
        fs::write(&path, damaged).unwrap();
        let error = JsonlStore::open(&path).unwrap_err().to_string();
        assert!(error.contains("sessions repair"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        let repaired = repair(&path, Some(Path::new(WORKSPACE)), |_| {}).unwrap();
        assert_eq!(repaired.header.workspace, Path::new(WORKSPACE));
        assert_eq!(names(&path), [""; 0], "{damaged}");
        goes_on(&path);
    }
    let newer = "{\"tooloop_session\":2,\"sess";
    fs::write(&path, newer).unwrap();
    for error in [
        JsonlStore::open(&path).unwrap_err(),
        repair(&path, None, |_| {}).unwrap_err(),
        verify(&path, None, |_| {}).unwrap_err(),
    ] {
        let words = error.to_string();
        let named = words.contains("format is 2") && words.contains("formats up to 1");
        assert!(named && words.contains("newer"), "{words}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn marks_of_editors_are_no_part_of_a_line() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    let text = String::from_utf8(whole).unwrap();
    let mut marked = vec![0xef, 0xbb, 0xbf];
    marked.extend_from_slice(text.replace('\n', "\r\n").as_bytes());
    fs::write(&path, &marked).unwrap();
    assert_eq!(names(&path), ["byte_order_mark", "carriage_returns"]);
    assert!(JsonlStore::open(&path).unwrap().warnings.is_empty());
    assert_eq!(said(&check(&path, &marked)), all);
    let spaced = text.replace('\n', "\n\n  \n");
    fs::write(&path, &spaced).unwrap();
    assert_eq!(names(&path), [""; 0]);
}

#[test]
fn a_line_that_is_far_too_long_is_passed_over() {
    let Journal { _root, path, whole } = journal();
    let all = messages(&entries());
    let at = line(&whole, 6).start;
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&whole[..at]).unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        file.write_all(&block).unwrap();
    }
    file.write_all(b"\n").unwrap();
    file.write_all(&whole[at..]).unwrap();
    drop(file);
    let opened = JsonlStore::open(&path).unwrap();
    assert_eq!(said(&opened.transcript), all);
    assert_eq!(opened.warnings.len(), 1);
    assert!(
        opened.warnings[0].contains("104857600"),
        "{:?}",
        opened.warnings
    );
    drop(opened);
    repair(&path, None, |_| {}).unwrap();
    assert_eq!(names(&path), [""; 0]);
    assert_eq!(fs::read(&path).unwrap(), whole);
    // And none is written that would not be read.
    let mut store = JsonlStore::open(&path).unwrap().store;
    let long = Entry::message(Message::user("x".repeat(MAX_LINE)));
    let error = store.append(&[long]).unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn what_a_newer_version_has_written_is_passed_over_and_kept() {
    let Journal { _root, path, whole } = journal();
    let text = String::from_utf8(whole).unwrap();
    let strange = text.replace(
        "{\"continue\":\"next_step\"}",
        "{\"dreamt\":{\"of\": 1.50,\"n\":12345678901234567890123}}",
    );
    assert_ne!(strange, text);
    fs::write(&path, &strange).unwrap();
    assert_eq!(names(&path), ["unknown_kind", "unknown_kind"]);
    let opened = JsonlStore::open(&path).unwrap();
    assert_eq!(said(&opened.transcript), messages(&entries()));
    assert!(
        opened.warnings[0].contains("dreamt"),
        "{:?}",
        opened.warnings
    );
    drop(opened);
    assert_eq!(repair(&path, None, |_| {}).unwrap().original, None);
    assert_eq!(fs::read_to_string(&path).unwrap(), strange);
    // It survives the repair of something else, to the letter.
    fs::write(&path, format!("{strange}{{\"seq\"")).unwrap();
    repair(&path, None, |_| {}).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), strange);
    // New members of what is known are nothing to speak of.
    let more = text.replace("{\"seq\":3,", "{\"mood\":\"good\",\"seq\":3,");
    fs::write(&path, more).unwrap();
    assert_eq!(names(&path), [""; 0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let user = |text: &str| Entry::message(Message::user(text));
    let reply = |ids: &[&str]| {
        let content = ids.iter().map(|id| {
            ContentBlock::ToolUse(ToolUse {
                id: (*id).into(),
                name: "bash".into(),
                input: ToolInput::parse("{}"),
                vendor: None,
            })
        });
        Entry::message(Message::Assistant(AssistantMessage {
            content: content.collect(),
            ..AssistantMessage::default()
        }))
    };
    let says = || {
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::Text {
                text: "well".into(),
                vendor: None,
            }],
            ..AssistantMessage::default()
        }))
    };
    let answer = |id: &str| Entry::CallFinished(ToolResult::text(id.into(), "done"));
    let started = |id: &str| Entry::CallStarted {
        tool_use_id: id.into(),
    };
    let end = || Entry::TurnEnd(TurnEnd::Completed);
    let results = Entry::message(Message::ToolResults(vec![ToolResult::text(
        "a".into(),
        "done",
    )]));
    let cases: Vec<(Vec<Entry>, &[&str])> = vec![
        (vec![user("x"), answer("a")], &["no_such_call"]),
        (
            vec![user("x"), reply(&["a"]), started("b")],
            &["no_such_call"],
        ),
        (
            vec![user("x"), reply(&["a", "b"]), answer("a"), answer("a")],
            &["answered_before"],
        ),
        (
            vec![user("x"), reply(&["a"]), answer("a"), started("a")],
            &["answered_before"],
        ),
        (
            vec![user("x"), reply(&["a"]), started("a"), started("a")],
            &["started_twice"],
        ),
        (
            vec![user("x"), reply(&["a", "b"]), answer("b"), user("y")],
            &["unanswered"],
        ),
        (
            vec![user("x"), reply(&["a"]), says(), end()],
            &["unanswered"],
        ),
        (vec![says(), end()], &["reply_to_nothing"]),
        (vec![user("x"), says(), says()], &["reply_to_nothing"]),
        (vec![user("x"), end(), says()], &["reply_to_nothing"]),
        (
            vec![user("x"), says(), end(), Entry::Continue(Continue::Retry)],
            &["outside_of_turn"],
        ),
        (vec![user("x"), says(), end(), end()], &["outside_of_turn"]),
        (
            vec![user("x"), reply(&["a"]), results],
            &["results_as_message"],
        ),
        (
            vec![user("x"), reply(&["a", "a"]), answer("a")],
            &["tool_use_id"],
        ),
        (
            vec![user("x"), reply(&["a b"]), answer("a b")],
            &["tool_use_id", "no_such_call"],
        ),
        (vec![user(" ")], &["blank"]),
        (
            vec![user("x"), says(), end(), Entry::Rewound { turn: 2 }],
            &["no_such_turn"],
        ),
        (
            vec![
                user("x"),
                says(),
                end(),
                Entry::Rewound { turn: 1 },
                user("y"),
            ],
            &[],
        ),
        // A summary that is asked for again while no turn is under way.
        (
            vec![
                user("x"),
                says(),
                end(),
                Entry::Retry {
                    call: 2,
                    attempt: 1,
                    error: ModelError::new(ModelErrorKind::Overloaded, "later"),
                    wait_ms: 1,
                    voided: false,
                    left_out: None,
                },
            ],
            &[],
        ),
        // A summary for what is not there, for all there is, for a part of a pair.
        (
            vec![user("x"), says(), end(), summed_up(0)],
            &["no_such_cut"],
        ),
        (
            vec![user("x"), says(), end(), summed_up(3)],
            &["no_such_cut"],
        ),
        (
            vec![user("x"), says(), end(), summed_up(usize::MAX)],
            &["no_such_cut"],
        ),
        (
            vec![
                user("x"),
                reply(&["a"]),
                answer("a"),
                says(),
                end(),
                summed_up(2),
            ],
            &["no_such_cut"],
        ),
        (
            vec![user("x"), reply(&["a"]), summed_up(1)],
            &["no_such_cut"],
        ),
        (vec![summed_up(1)], &["no_such_cut"]),
        (
            vec![
                user("x"),
                reply(&["a"]),
                answer("a"),
                says(),
                end(),
                summed_up(3),
            ],
            &[],
        ),
        // What it stands for can be taken back by then, and it stands for no turn.
        (
            vec![
                user("x"),
                says(),
                end(),
                summed_up(1),
                Entry::Rewound { turn: 2 },
            ],
            &["no_such_turn"],
        ),
        (
            vec![
                user("x"),
                says(),
                end(),
                summed_up(1),
                Entry::Rewound { turn: 1 },
            ],
            &[],
        ),
        // A death while calls ran is none.
        (vec![user("x"), reply(&["a"]), started("a")], &[]),
        (vec![user("x"), user("y"), says()], &[]),
    ];
    for (entries, expected) in cases {
        let Journal { _root, path, whole } = journal_of(&entries);
        assert_eq!(names(&path), expected, "{entries:?}");
        check(&path, &whole);
    }
}

#[test]
fn a_lost_line_before_a_summary_parts_no_call_from_its_result() {
    let all = long();
    let Journal { _root, path, whole } = journal_of(&all);
    assert_eq!(names(&path), [""; 0]);
    check(&path, &whole);
    let mut without_cut = 0;
    for number in 1..=all.len() {
        let lost = line(&whole, number);
        let mut damaged = whole.clone();
        damaged.drain(lost.clone());
        fs::write(&path, &damaged).unwrap();
        without_cut += names(&path)
            .iter()
            .filter(|name| **name == "no_such_cut")
            .count();
        check(&path, &damaged);
        // Half of it is left.
        let mut damaged = whole.clone();
        damaged.drain(lost.start + lost.len() / 2..lost.end);
        check(&path, &damaged);
    }
    assert!(without_cut > 0, "no summary has lost its place");
}

#[test]
fn records_that_are_out_of_their_chain_are_named() {
    let Journal { _root, path, whole } = journal();
    let mut without = whole.clone();
    without.drain(line(&whole, 7));
    let mut kinds = Vec::new();
    fs::write(&path, &without).unwrap();
    let verified = verify(&path, None, |fault| kinds.push(fault)).unwrap();
    assert_eq!((verified.faults, verified.records), (1, 17));
    assert_eq!(
        (kinds[0].line, kinds[0].offset),
        (8, line(&whole, 7).start as u64)
    );
    assert_eq!(
        kinds[0].kind,
        FaultKind::Chain {
            seq: 8,
            expected: 7,
            has_parent: false
        }
    );
    check(&path, &without);
    // A repair numbers anew and keeps the names.
    let mut ids = Vec::new();
    read_lines(&path, |line| match line {
        Line::Record(record) => ids.push((record.seq, record.id)),
        Line::Unknown(_) => panic!(),
    })
    .unwrap();
    let text = String::from_utf8(whole).unwrap();
    for (index, (seq, id)) in ids.iter().enumerate().take(17) {
        assert_eq!(*seq, index as u64 + 1);
        assert!(text.contains(id.as_str()));
    }
}

#[test]
fn an_original_is_never_overwritten() {
    let Journal { _root, path, whole } = journal();
    let mut originals = BTreeSet::new();
    for round in 0..3 {
        let damaged = format!("{}torn {round}", String::from_utf8(whole.clone()).unwrap());
        fs::write(&path, &damaged).unwrap();
        let original = repair(&path, None, |_| {}).unwrap().original.unwrap();
        assert_eq!(fs::read_to_string(&original).unwrap(), damaged);
        assert!(originals.insert(original));
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
    let names = fs::read_dir(path.parent().unwrap()).unwrap();
    assert_eq!(names.count(), 4, "something was left behind");
}

#[test]
fn a_session_in_use_is_not_repaired() {
    let Journal {
        _root,
        path,
        whole: _,
    } = journal();
    let opened = JsonlStore::open(&path).unwrap();
    let error = repair(&path, None, |_| {}).unwrap_err().to_string();
    assert!(
        error.contains(&format!("by process {}", std::process::id())),
        "{error}"
    );
    drop(opened);
    repair(&path, None, |_| {}).unwrap();
}

#[test]
fn many_faults_are_told_in_few_words() {
    let Journal { _root, path, whole } = journal();
    let mut damaged = whole;
    for _ in 0..100 {
        damaged.extend_from_slice(b"nonsense\n");
    }
    fs::write(&path, damaged).unwrap();
    let warnings = JsonlStore::open(&path).unwrap().warnings;
    assert_eq!(warnings.len(), 21);
    assert!(
        warnings[20].contains("80 more faults") && warnings[20].contains("sessions verify"),
        "{}",
        warnings[20]
    );
}

#[derive(Debug, Clone)]
enum Harm {
    Flip {
        at: usize,
        bit: u8,
    },
    Set {
        at: usize,
        byte: u8,
    },
    Cut {
        from: usize,
        length: usize,
    },
    Zero {
        at: usize,
        length: usize,
    },
    Insert {
        at: usize,
        bytes: Vec<u8>,
    },
    Again {
        from: usize,
        length: usize,
        to: usize,
    },
    Truncate {
        at: usize,
    },
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        6 => (at(), 0..8_u8).prop_map(|(at, bit)| Harm::Flip { at, bit }),
        2 => (at(), prop::sample::select(b"\"\\{}[]:,\n\r 0a\x80\xff".to_vec()))
            .prop_map(|(at, byte)| Harm::Set { at, byte }),
        2 => (at(), 1..600_usize).prop_map(|(from, length)| Harm::Cut { from, length }),
        2 => (at(), 1..600_usize).prop_map(|(at, length)| Harm::Zero { at, length }),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, bytes)| Harm::Insert { at, bytes }),
        1 => (at(), 1..900_usize, at())
            .prop_map(|(from, length, to)| Harm::Again { from, length, to }),
        1 => at().prop_map(|at| Harm::Truncate { at }),
    ]
}

fn harmed(whole: &[u8], first: usize, harms: &[Harm]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for harm in harms {
        let size = bytes.len() - first;
        if size == 0 {
            break;
        }
        let place = |at: usize| first + at % size;
        match harm.clone() {
            Harm::Flip { at, bit } => bytes[place(at)] ^= 1 << bit,
            Harm::Set { at, byte } => bytes[place(at)] = byte,
            Harm::Cut { from, length } => {
                let from = place(from);
                let to = bytes.len().min(from + length);
                bytes.drain(from..to);
            }
            Harm::Zero { at, length } => {
                let at = place(at);
                let to = bytes.len().min(at + length);
                bytes[at..to].fill(0);
            }
            Harm::Insert { at, bytes: new } => {
                let at = place(at);
                bytes.splice(at..at, new);
            }
            Harm::Again { from, length, to } => {
                let (from, to) = (place(from), place(to));
                let end = bytes.len().min(from + length);
                let again = bytes[from..end].to_vec();
                bytes.splice(to..to, again);
            }
            Harm::Truncate { at } => bytes.truncate(place(at)),
        }
    }
    bytes
}

/// Behind an entry of an unknown kind nothing is judged by its place, but ids must be ids all the same.
#[test]
fn an_id_is_mended_behind_what_is_not_known() {
    let Journal { _root, path, whole } = journal();
    let header = line(&whole, 0).end;
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let user = lines[1];
    let reply = lines
        .iter()
        .find(|line| line.contains("tool_use\":{"))
        .unwrap();
    let id = reply.split("\"tool_use\":{\"id\":\"").nth(1).unwrap();
    let id = &id[..id.find('"').unwrap()];
    let unknown = user.replacen("\"message\"", "\"massage\"", 1);
    // The reply comes first: it answers nothing, and its id is none.
    let bad = reply.replacen(&format!("\"id\":\"{id}\""), "\"id\":\"a!\"", 1);
    assert!(unknown != user && bad != **reply);
    let mut damaged = whole[..header].to_vec();
    for line in [&unknown, &bad, &bad] {
        damaged.extend_from_slice(line.as_bytes());
        damaged.push(b'\n');
    }
    check(&path, &damaged);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Behind a whole header anything may have happened.
    #[test]
    fn whatever_happened_it_goes_on(
        harms in prop::collection::vec(harm(), 1..6),
        is_long in any::<bool>(),
    ) {
        let entries = if is_long { long() } else { entries() };
        let Journal { _root, path, whole } = journal_of(&entries);
        let header = line(&whole, 0).end;
        check(&path, &harmed(&whole, header, &harms));
    }

    /// Nothing panics, wherever it happened, and only the header refuses.
    #[test]
    fn no_file_is_too_bad_to_be_read(harms in prop::collection::vec(harm(), 1..6)) {
        let Journal { _root, path, whole } = journal();
        let damaged = harmed(&whole, 0, &harms);
        fs::write(&path, &damaged).unwrap();
        match JsonlStore::open(&path) {
            Ok(opened) => drop(opened),
            Err(StoreError::Format { line, .. }) => assert!(line <= whole.len()),
            Err(error) => panic!("{error}"),
        }
        fs::write(&path, &damaged).unwrap();
        if repair(&path, None, |_| {}).is_ok() {
            prop_assert!(names(&path).iter().all(|name| *name == "unknown_kind"));
        }
    }
}
