//! What it costs to record an entry, written only and made durable, and to go on with a session.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a benchmark may fail where it stands, and tells figures"
)]

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group};
use tooloop_kernel::{Continue, Entry, TurnEnd};
use tooloop_model::{
    AssistantMessage, ContentBlock, Message, ModelError, ModelErrorKind, ToolInput, ToolResult,
    ToolUse, ToolUseId, Usage,
};
use tooloop_session::{Catalog, Flush, Header, JsonlStore, SessionId, Store};

fn append(criterion: &mut Criterion) {
    let root = tempfile::tempdir().expect("a folder");
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let session = SessionId::generate();
    let header = Header::new(session, "/w".into());
    let mut store = JsonlStore::create(catalog.path(session), header);
    let entry = [Entry::message(Message::user("x".repeat(1000)))];
    let Flush::Blocking(flush) = store.flush() else {
        return;
    };
    let mut group = criterion.benchmark_group("journal");
    group.throughput(Throughput::Elements(1));
    group.bench_function("append 1 kB", |bencher| {
        bencher.iter(|| store.append(&entry).expect("written"));
    });
    group.bench_function("append 1 kB and sync", |bencher| {
        bencher.iter(|| {
            store.append(&entry).expect("written");
            flush().expect("synced");
        });
    });
    group.finish();
}

fn read_back(criterion: &mut Criterion) {
    let root = tempfile::tempdir().expect("a folder");
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let session = SessionId::generate();
    let path = catalog.path(session);
    let mut store = JsonlStore::create(path.clone(), Header::new(session, "/w".into()));
    let entries: Vec<_> = (0..10_000)
        .map(|number| Entry::message(Message::user(format!("{number} {}", "x".repeat(200)))))
        .collect();
    store.append(&entries).expect("written");
    drop(store);
    tell(&path);
    criterion.bench_function("open 10,000 entries", |bencher| {
        bencher.iter(|| {
            let opened = JsonlStore::open(&path).expect("readable");
            opened.transcript
        });
    });
}

/// A turn with a call, as entries.
fn turn(number: usize) -> Vec<Entry> {
    let id = ToolUseId(format!("tu_{number}"));
    let reply = |content| {
        Entry::message(Message::Assistant(AssistantMessage {
            content,
            ..AssistantMessage::default()
        }))
    };
    vec![
        Entry::message(Message::user(format!("prompt {number}"))),
        reply(vec![ContentBlock::ToolUse(ToolUse {
            id: id.clone(),
            name: "bash".into(),
            input: ToolInput::parse("{\"command\":\"cat a long file\"}"),
            vendor: None,
        })]),
        Entry::CallStarted {
            tool_use_id: id.clone(),
        },
        Entry::CallFinished(ToolResult::text(id, "x".repeat(2_000))),
        Entry::Continue(Continue::NextStep),
        Entry::Retry {
            call: 1,
            attempt: 1,
            error: ModelError::new(ModelErrorKind::Overloaded, "no capacity"),
            wait_ms: 1_000,
            voided: false,
            left_out: None,
        },
        Entry::Continue(Continue::Retry),
        reply(vec![ContentBlock::Text {
            text: "an answer ".repeat(20),
            vendor: None,
        }]),
        Entry::Discarded {
            usage: Usage::default(),
        },
        Entry::TurnEnd(TurnEnd::Completed),
    ]
}

/// 100,000 entries, of which all but the newest 1,000 are of turns that were taken back.
fn read_back_rewound(criterion: &mut Criterion) {
    let root = tempfile::tempdir().expect("a folder");
    let catalog = Catalog::new(root.path(), Path::new("/w"));
    let session = SessionId::generate();
    let path = catalog.path(session);
    let mut store = JsonlStore::create(path.clone(), Header::new(session, "/w".into()));
    for round in 0..100 {
        if round > 0 {
            store
                .append(&[Entry::Rewound { turn: 1 }])
                .expect("written");
        }
        let entries: Vec<_> = (0..100)
            .flat_map(|number| turn(round * 100 + number))
            .collect();
        store.append(&entries).expect("written");
    }
    drop(store);
    tell(&path);
    criterion.bench_function("open 100,000 entries, most taken back", |bencher| {
        bencher.iter(|| JsonlStore::open(&path).expect("readable").transcript);
    });
}

/// What opening it costs a process that does nothing else.
fn tell(path: &Path) {
    let program = std::env::current_exe().expect("a program");
    let told = std::process::Command::new(program)
        .env(ALONE, path)
        .output()
        .expect("it runs");
    eprint!("{}", String::from_utf8_lossy(&told.stderr));
}

/// Names the journal that the process is to open, and nothing else.
const ALONE: &str = "TOOLOOP_BENCH_OPEN";

fn alone(path: &Path) {
    let before = peak_kb();
    let opened = JsonlStore::open(path).expect("readable");
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    eprintln!(
        "open {} kB with {} messages: {} ms of the processor, {} kB of memory",
        std::fs::metadata(path).expect("there").len() / 1000,
        opened.transcript.messages().len(),
        time.tv_sec * 1000 + time.tv_nsec / 1_000_000,
        peak_kb() - before
    );
}

/// The peak of this process's memory in kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

criterion_group!(benches, append, read_back, read_back_rewound);

fn main() {
    if let Some(path) = std::env::var_os(ALONE) {
        return alone(Path::new(&path));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
