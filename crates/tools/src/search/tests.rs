use std::cell::Cell;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::report::{count, grouped, named};
use super::sink::Source;
use super::walk::{Plan, Trouble, Visit, walk};
use super::*;

/// A bound for what must happen, not a time to wait.
const SOON: Duration = Duration::from_secs(20);

/// Work that goes on until it is told that nobody waits, and says so at its end.
fn endless(
    began: tokio::sync::oneshot::Sender<()>,
    ended: mpsc::Sender<()>,
) -> impl FnOnce(&Quit) -> Result<(), ToolError> + Send + 'static {
    move |quit| {
        began.send(()).unwrap();
        while !quit.now() {
            std::thread::yield_now();
        }
        ended.send(()).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn a_cancelled_call_returns_when_its_threads_have_ended() {
    let context = ToolContext::new("/");
    let (began, begin) = tokio::sync::oneshot::channel();
    let (ended, end) = mpsc::channel();
    let cancellation = context.cancellation.clone();
    let canceller = tokio::spawn(async move {
        begin.await.unwrap();
        cancellation.cancel();
    });
    let done = blocking(&context, endless(began, ended)).await;
    assert!(matches!(done, Err(ToolError::Cancelled)));
    end.try_recv().unwrap();
    canceller.await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_threads() {
    let context = ToolContext::new("/");
    let (began, begin) = tokio::sync::oneshot::channel();
    let (ended, end) = mpsc::channel();
    tokio::select! {
        biased;
        _ = blocking(&context, endless(began, ended)) => unreachable!(),
        _ = begin => {}
    }
    end.recv_timeout(SOON).unwrap();
}

#[tokio::test]
async fn a_panic_ends_the_call_alone() {
    let context = ToolContext::new("/");
    let done = blocking::<()>(&context, |_| panic!("at the disco")).await;
    let error = done.unwrap_err().to_string();
    assert!(error.starts_with("the search broke off: "), "{error}");
}

struct Never;

impl Visit for Never {
    fn file(&mut self, _: &ignore::DirEntry, _: &Path, _: &mut Trouble) {
        unreachable!();
    }
}

#[test]
fn a_walk_and_a_reader_stop_when_nobody_waits() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "x").unwrap();
    let quit = Quit::default();
    let plan = Plan {
        folder: folder.path().into(),
        pattern: None,
        excludes: false,
        all: false,
        threads: 2,
        quit: quit.clone(),
        withheld: tooloop_tool::Withheld::nothing(),
    };
    let binary = Cell::new(false);
    let mut source = Source::new(std::io::repeat(b'x'), &quit, &binary);
    let mut buffer = [0; 8];
    assert_eq!(source.read(&mut buffer).unwrap(), 8);
    drop(QuitAtEnd(quit.clone()));
    assert_eq!(
        source.read(&mut buffer).unwrap_err().to_string(),
        "given up"
    );
    let ended = walk(&plan, folder.path(), || Never);
    assert!(matches!(ended, Err(ToolError::Cancelled)));
}

#[test]
fn of_a_binary_file_a_part_is_read() {
    let quit = Quit::default();
    let binary = Cell::new(true);
    let mut source = Source::new(std::io::repeat(0), &quit, &binary);
    assert_eq!(
        std::io::copy(&mut source, &mut std::io::sink()).unwrap(),
        4 << 20
    );
}

#[test]
fn numbers_are_readable() {
    assert_eq!(grouped(0), "0");
    assert_eq!(grouped(999), "999");
    assert_eq!(grouped(1000), "1,000");
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(count(1, "match"), "1 match");
    assert_eq!(count(0, "file"), "0 files");
    assert_eq!(named(&"é".repeat(300)), format!("{}…", "é".repeat(200)));
}
