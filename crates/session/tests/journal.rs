//! Journals on a real file system.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail where it stands"
)]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tooloop_kernel::{CompactionTrigger, Continue, Entry, Transcript, TurnEnd};
use tooloop_model::{
    AssistantMessage, Content, ContentBlock, JsonObject, Message, ToolInput, ToolResult, ToolUse,
};
use tooloop_session::{
    Catalog, ForkedFrom, Header, JsonlStore, Line, MemoryStore, Record, SessionId, Store,
    StoreError, WorksFor, conformance, inherited_outputs, outputs_beside, read_lines, read_past,
    read_records, read_whole, subagents_beside, subagents_of,
};

fn entries() -> Vec<Entry> {
    let tool_use = ToolUse {
        id: "tu_1".into(),
        name: "bash".into(),
        input: ToolInput::Valid(JsonObject::parse("{\"command\": \"printf '\\u65e5'\"}").unwrap()),
        vendor: None,
    };
    vec![
        Entry::message(Message::user("say é 日本 👩‍👩‍👧")),
        Entry::message(Message::Assistant(AssistantMessage {
            content: vec![ContentBlock::ToolUse(tool_use)],
            ..AssistantMessage::default()
        })),
        Entry::CallStarted {
            tool_use_id: "tu_1".into(),
        },
        Entry::CallFinished(ToolResult::text("tu_1".into(), "日")),
        Entry::TurnEnd(TurnEnd::Completed),
    ]
}

fn says(text: &str) -> Entry {
    Entry::message(Message::Assistant(AssistantMessage {
        content: vec![ContentBlock::Text {
            text: text.into(),
            vendor: None,
        }],
        ..AssistantMessage::default()
    }))
}

fn summed_up(cut: usize, summary: &str) -> Entry {
    Entry::Compacted {
        cut,
        summary: summary.into(),
        request: vec![Content::Text("what é is wanted".into())],
        carried: vec![Content::Text("the plan".into())],
        trigger: CompactionTrigger::Auto,
        before: 900,
        after: 90,
    }
}

/// A conversation that was cut short, summed up twice and taken back to before both.
fn long() -> Vec<Entry> {
    let long = format!("begin {} end", "日".repeat(400));
    let mut entries = entries();
    entries[3] = Entry::CallFinished(ToolResult::text("tu_1".into(), long));
    entries.insert(4, Entry::Continue(Continue::NextStep));
    entries.insert(5, says("first"));
    entries.extend([
        Entry::message(Message::user("two")),
        Entry::Shortened {
            results: vec!["tu_1".into()],
            before: 900,
            after: 500,
        },
        says("second"),
        Entry::TurnEnd(TurnEnd::Completed),
        // Of the six messages that there are, the first turn.
        summed_up(4, "the first turn"),
        Entry::message(Message::user("three")),
        says("third"),
        Entry::TurnEnd(TurnEnd::Completed),
        summed_up(3, "both turns"),
        Entry::message(Message::user("four")),
        says("fourth"),
        Entry::TurnEnd(TurnEnd::Completed),
        Entry::Rewound { turn: 4 },
        Entry::Rewound { turn: 2 },
        Entry::message(Message::user("two, otherwise")),
        says("second, otherwise"),
        Entry::TurnEnd(TurnEnd::Completed),
        Entry::Rewound { turn: 1 },
        Entry::message(Message::user("anew")),
    ]);
    entries
}

/// What entries come to while they are written.
fn live(entries: &[Entry]) -> Transcript {
    let mut transcript = Transcript::default();
    transcript.keep_past();
    entries.iter().for_each(|entry| transcript.apply(entry));
    transcript
}

fn write(catalog: &Catalog, entries: &[Entry]) -> JsonlStore {
    let session = SessionId::generate();
    let header = Header::new(session, "/w".into());
    let mut store = JsonlStore::create(catalog.path(session), header);
    for entry in entries {
        store.append(std::slice::from_ref(entry)).unwrap();
    }
    store
}

fn open(path: &Path) -> (JsonlStore, Vec<Entry>, Vec<String>) {
    let mut entries = Vec::new();
    let read = read_lines(path, |line| match line {
        Line::Record(record) => entries.push(record.entry),
        Line::Unknown(record) => panic!("{record:?}"),
    })
    .unwrap();
    let opened = JsonlStore::open(path).unwrap();
    assert_eq!(opened.warnings, read.warnings);
    assert_eq!(opened.transcript, read.transcript);
    (opened.store, entries, opened.warnings)
}

#[test]
fn both_stores_hold_to_the_contract() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    conformance::check(
        || {
            let session = SessionId::generate();
            JsonlStore::create(catalog.path(session), Header::new(session, "/w".into()))
        },
        |store| {
            let mut kept = Vec::new();
            read_records(store.path(), |record| kept.push(record.entry)).unwrap();
            kept
        },
    )
    .unwrap();
    // A store that keeps nothing is told so by the same check.
    conformance::check(MemoryStore::new, |_| Vec::new()).unwrap_err();
}

#[test]
fn a_session_in_which_nothing_was_said_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let store = write(&catalog, &[]);
    assert!(!store.path().exists());
    let store = write(&catalog, &entries());
    let mode = fs::metadata(store.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a session is its owner's alone");
}

#[test]
fn records_form_a_chain() {
    let root = tempfile::tempdir().unwrap();
    let store = write(&Catalog::new(root.path(), Path::new("/w")), &entries());
    let mut records: Vec<Record> = Vec::new();
    read_records(store.path(), |record| records.push(record)).unwrap();
    let seqs: Vec<_> = records.iter().map(|record| record.seq).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5]);
    for pair in records.windows(2) {
        assert_eq!(pair[1].parent.as_ref(), Some(&pair[0].id));
    }
}

#[test]
fn a_journal_cut_at_every_byte_opens_and_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    cut_at_every_byte(&catalog, &entries(), "\n");
    // What is before the first summary is the same again.
    cut_at_every_byte(&catalog, &long(), "\"compacted\"");
}

/// Cuts it at every byte from this text on.
fn cut_at_every_byte(catalog: &Catalog, all: &[Entry], from: &str) {
    let path = write(catalog, all).path().to_owned();
    let whole = fs::read(&path).unwrap();
    let from = String::from_utf8(whole.clone())
        .unwrap()
        .find(from)
        .unwrap();
    for cut in from..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let (mut store, kept, warnings) = open(&path);
        assert_eq!(kept, all[..kept.len()], "cut at {cut}");
        let torn = cut > 0 && whole[..cut].last() != Some(&b'\n');
        let complete = whole.get(cut) == Some(&b'\n');
        assert_eq!(warnings.len(), usize::from(torn && !complete), "{cut}");
        store
            .append(&[Entry::message(Message::user("next"))])
            .unwrap();
        drop(store);
        let (_, again, warnings) = open(&path);
        assert_eq!(warnings, [""; 0], "cut at {cut}");
        assert_eq!(again.len(), kept.len() + 1);
        let transcript = live(&again);
        let last = transcript.messages().last().unwrap();
        assert_eq!(last.message(), &Message::user("next"));
    }
}

#[test]
fn what_was_summed_up_and_taken_back_is_read_as_it_was_live() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let all = long();
    let counts = |transcript: &Transcript| {
        let messages = transcript.messages().len();
        (
            messages,
            transcript.turns().to_vec(),
            transcript.summed_up(),
        )
    };
    let mut seen = Vec::new();
    for end in 1..=all.len() {
        let entries = &all[..end];
        let expected = live(entries);
        let path = write(&catalog, entries).path().to_owned();
        let opened = JsonlStore::open(&path).unwrap();
        assert_eq!(opened.warnings, [""; 0], "{entries:?}");
        assert_eq!(opened.transcript, expected, "after {end} entries");
        drop(opened);
        let past = read_past(&path, |_| {}).unwrap().transcript;
        assert_eq!(past, expected, "after {end} entries");
        // And from there on the way leads back as it does live.
        let whole = read_whole(&path).unwrap();
        for turn in 1..=expected.turns().len() {
            let back = Entry::Rewound { turn };
            let mut read = whole.clone();
            read.apply(&back);
            let mut was = expected.clone();
            was.apply(&back);
            assert_eq!(read, was, "after {end} entries, back to {turn}");
            assert!(read.messages().len() < expected.messages().len().max(2));
        }
        if matches!(
            all[end - 1],
            Entry::Compacted { .. } | Entry::Rewound { .. }
        ) {
            seen.push(counts(&expected));
        }
    }
    let expected = [
        (3, vec![0, 1], 1),
        (3, vec![0, 0, 1], 2),
        (3, vec![0, 0, 1], 2),
        (1, vec![0], 1),
        (0, vec![], 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_bad_line_in_the_middle_is_named_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = write(&Catalog::new(root.path(), Path::new("/w")), &entries())
        .path()
        .to_owned();
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[2] = "{\"seq\":2,\0\0".into();
    let damaged = lines.join("\n") + "\n";
    fs::write(&path, &damaged).unwrap();
    let (_, kept, warnings) = open(&path);
    assert_eq!(kept.len(), 4);
    assert!(warnings[0].contains("line 3"), "{warnings:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
}

#[test]
fn one_writer_a_session() {
    let root = tempfile::tempdir().unwrap();
    let store = write(&Catalog::new(root.path(), Path::new("/w")), &entries());
    let path = store.path().to_owned();
    let error = JsonlStore::open(&path).unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, StoreError::Locked { .. }), "{words}");
    assert!(
        words.contains(&format!("by process {}", std::process::id())),
        "{words}"
    );
    // Reading needs no lock, and the lock ends with its holder.
    read_records(&path, |_| ()).unwrap();
    drop(store);
    open(&path);
}

#[test]
fn a_fork_has_the_past_and_a_future_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let parent = write(&catalog, &entries());
    let mut lines = Vec::new();
    let header = read_past(parent.path(), |line| lines.push(line))
        .unwrap()
        .header;
    let session = SessionId::generate();
    let mut forked = Header::new(session, header.workspace.clone());
    forked.forked_from = Some(tooloop_session::ForkedFrom {
        session: header.session,
        record: lines.last().map(|line| line.id().to_owned()),
    });
    let mut fork = JsonlStore::fork(catalog.path(session), forked, lines);
    fork.append(&[Entry::message(Message::user("another way"))])
        .unwrap();
    let path = fork.path().to_owned();
    drop(fork);
    let (_, kept, _) = open(&path);
    assert_eq!(kept.len(), entries().len() + 1);
    let mut untouched = 0;
    read_records(parent.path(), |_| untouched += 1).unwrap();
    assert_eq!(untouched, entries().len());
}

#[test]
fn a_journal_that_cannot_be_written_says_so_and_stays_that_way() {
    let root = tempfile::tempdir().unwrap();
    let blocked = root.path().join("file");
    fs::write(&blocked, "").unwrap();
    let session = SessionId::generate();
    let path = blocked.join("s.jsonl");
    let mut store = JsonlStore::create(path, Header::new(session, "/w".into()));
    let error = store.append(&entries()).unwrap_err();
    assert!(
        error.to_string().contains("cannot make the folder"),
        "{error}"
    );
    let error = store.append(&entries()).unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error}");
}

#[test]
fn a_newer_format_and_a_foreign_file_are_refused_with_words() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x.jsonl");
    let newer = "{\"tooloop_session\":2,\"session\":\"0190163d-8694-739b-aea5-966c26f8ad91\",\
                 \"created\":\"2026-01-01T00:00:00Z\",\"workspace\":\"/w\"}\n";
    for (text, words) in [
        (newer, "newer version"),
        ("hello\n", "not the header"),
        ("", "not the header"),
    ] {
        fs::write(&path, text).unwrap();
        let error = JsonlStore::open(&path).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("line 1"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn sessions_are_found_by_name_and_by_age() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/some where/pröject"));
    assert_eq!(catalog.newest(), None);
    let one = write(&catalog, &entries());
    let two = write(&catalog, &entries());
    let time = fs::metadata(one.path()).unwrap().modified().unwrap();
    let file = OpenOptions::new().append(true).open(one.path()).unwrap();
    file.set_modified(time + std::time::Duration::from_secs(60))
        .unwrap();
    assert_eq!(catalog.newest().as_deref(), Some(one.path()));
    let (list, all, errors) = catalog.list(1);
    assert_eq!((list.len(), all, errors.len()), (1, 2, 0));
    assert_eq!(list[0].prompt, "say é 日本 👩‍👩‍👧");
    let id = two.session().to_string();
    assert_eq!(catalog.find(&id).unwrap(), two.path());
    // The other project does not list it, but finds it by its whole name.
    let elsewhere = Catalog::new(root.path(), Path::new("/other"));
    assert_eq!(elsewhere.find(&id).unwrap(), two.path());
    assert!(elsewhere.find(&id[..8]).is_err());
    assert!(matches!(
        catalog.find("0"),
        Err(StoreError::Ambiguous { .. })
    ));
}

#[test]
fn a_fork_knows_where_the_outputs_of_its_past_are() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let mut parent = None;
    let mut paths: Vec<std::path::PathBuf> = Vec::new();
    for _ in 0..3 {
        let id = SessionId::generate();
        let header = Header {
            forked_from: parent.map(|session| ForkedFrom {
                session,
                record: None,
            }),
            ..Header::new(id, "/w".into())
        };
        let path = catalog.path(id);
        let mut store = JsonlStore::create(path.clone(), header.clone());
        store.append(&entries()).unwrap();
        let expected: Vec<_> = paths
            .iter()
            .rev()
            .map(|path| outputs_beside(path))
            .collect();
        assert_eq!(inherited_outputs(&path, &header), expected);
        parent = Some(id);
        paths.push(path);
    }
    // Of a journal that is gone only its own are known.
    let newest = paths.pop().unwrap();
    let (header, _) = read_records(&newest, |_| {}).unwrap();
    let before = paths.pop().unwrap();
    fs::remove_file(&before).unwrap();
    assert_eq!(
        inherited_outputs(&newest, &header),
        [outputs_beside(&before)]
    );
}

#[test]
fn subagents_are_kept_beside_whom_they_work_for_and_go_with_it() {
    let root = tempfile::tempdir().unwrap();
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let make = |path: std::path::PathBuf, header: Header| {
        let mut store = JsonlStore::create(path.clone(), header);
        store.append(&entries()).unwrap();
        path
    };
    let id = SessionId::generate();
    let path = make(catalog.path(id), Header::new(id, "/w".into()));
    let working_for = |parent: SessionId, agent: &str| Header {
        works_for: Some(WorksFor {
            session: parent,
            tool_use: "tu_1".into(),
            agent: agent.into(),
        }),
        ..Header::new(SessionId::generate(), "/w".into())
    };
    let first = working_for(id, "explore");
    let below = |journal: &Path, header: &Header| {
        subagents_beside(journal).join(format!("{}.jsonl", header.session))
    };
    let child = make(below(&path, &first), first.clone());
    let second = working_for(first.session, "general");
    let grandchild = make(below(&child, &second), second.clone());
    let told = |journal: &Path| {
        let summaries = subagents_of(journal).into_iter();
        summaries.map(|summary| summary.header).collect::<Vec<_>>()
    };
    assert_eq!(told(&path), std::slice::from_ref(&first));
    assert_eq!(told(&child), std::slice::from_ref(&second));
    assert_eq!(told(&grandchild), []);
    // They are no sessions of their own, but found by name.
    assert_eq!(catalog.list(10).1, 1);
    assert_eq!(catalog.newest(), Some(path.clone()));
    assert_eq!(catalog.find(&first.session.to_string()).unwrap(), child);
    let second = second.session.to_string();
    assert_eq!(catalog.find(&second).unwrap(), grandchild);
    assert_eq!(catalog.find(second.get(..35).unwrap()).unwrap(), grandchild);
    tooloop_session::remove(&path).unwrap();
    assert!(!subagents_beside(&path).exists());
    assert!(catalog.find(&second).is_err());
}
