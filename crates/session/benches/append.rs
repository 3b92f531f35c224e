//! What it costs to record an entry: written only, and made durable.
#![expect(clippy::expect_used, reason = "a benchmark may fail where it stands")]

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tooloop_kernel::Entry;
use tooloop_model::Message;
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
    criterion.bench_function("open 10,000 entries", |bencher| {
        bencher.iter(|| {
            let mut transcript = tooloop_kernel::Transcript::default();
            let opened = JsonlStore::open(&path, |record| transcript.apply(&record.entry));
            opened.expect("readable");
            transcript
        });
    });
}

criterion_group!(benches, append, read_back);
criterion_main!(benches);
