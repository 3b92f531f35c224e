//! Sessions on a disk that fails, or takes its time.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tooloop::journal::{Flush, SessionId, Store, StoreError};
use tooloop::provider::ScriptedProvider;
use tooloop::{
    Access, Agent, Entry, SessionError, Tool, ToolContext, ToolError, ToolOutput, TurnEnd,
};

/// A disk on which something goes wrong once, and never again.
#[derive(Clone)]
struct Disk {
    kept: Arc<Mutex<Vec<Entry>>>,
    /// So many appends go well before one does not.
    appends: Arc<Mutex<Option<usize>>>,
    flush: Flush,
}

impl Store for Disk {
    fn session(&self) -> SessionId {
        SessionId::generate()
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut left = self.appends.lock().unwrap();
        match left.as_mut() {
            Some(0) => {
                *left = None;
                return Err(full());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        self.kept.lock().unwrap().extend_from_slice(entries);
        Ok(())
    }

    fn flush(&self) -> Flush {
        self.flush.clone()
    }
}

fn full() -> StoreError {
    StoreError::Io {
        action: "write to",
        path: "the disk".into(),
        source: std::io::ErrorKind::StorageFull.into(),
    }
}

fn disk(appends: Option<usize>, flush: Flush) -> Disk {
    Disk {
        kept: Arc::default(),
        appends: Arc::new(Mutex::new(appends)),
        flush,
    }
}

/// A tool whose calls are counted.
#[derive(Clone, Default)]
struct Count(Arc<Mutex<usize>>);

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Tool for Count {
    type Input = Nothing;

    fn name(&self) -> &str {
        "count"
    }

    fn description(&self) -> &str {
        "Counts."
    }

    fn access(&self, _: &Nothing) -> Access {
        // It asks nobody, and is on record before it runs.
        Access::session()
    }

    async fn run(&self, _: Nothing, _: &ToolContext) -> Result<ToolOutput, ToolError> {
        *self.0.lock().unwrap() += 1;
        Ok(ToolOutput::text("counted"))
    }
}

fn agent(count: &Count) -> Agent {
    let script = ScriptedProvider::new().call("t1", "count", "{}").say("ok");
    Agent::builder()
        .provider(Arc::new(script))
        .model("scripted")
        .tool(count.clone())
        .build()
        .unwrap()
}

#[tokio::test]
async fn after_an_append_that_failed_nothing_more_is_recorded() {
    let count = Count::default();
    // The prompt is written, the reply is not; then there is room again.
    let disk = disk(Some(1), Flush::blocking(|| Ok(())));
    let session = agent(&count).session_on(Box::new(disk.clone()), &[]);
    let error = session.prompt("go").await.unwrap_err();
    assert!(matches!(error, SessionError::Journal(_)), "{error}");
    // Who waited for the turn has been told why.
    drop(session.close().await);
    let kept = disk.kept.lock().unwrap();
    assert!(matches!(kept.as_slice(), [Entry::Message(_)]), "{kept:?}");
    assert_eq!(*count.0.lock().unwrap(), 0);
}

#[tokio::test]
async fn after_a_flush_that_failed_nothing_more_is_recorded() {
    let count = Count::default();
    let failed = Arc::new(Mutex::new(false));
    let flush =
        Flush::blocking(
            move || match std::mem::replace(&mut *failed.lock().unwrap(), true) {
                false => Err(full()),
                true => Ok(()),
            },
        );
    let disk = disk(None, flush);
    let session = agent(&count).session_on(Box::new(disk.clone()), &[]);
    let error = session.prompt("go").await.unwrap_err();
    assert!(matches!(error, SessionError::Journal(_)), "{error}");
    // Who waited for the turn has been told why.
    drop(session.close().await);
    let kept = disk.kept.lock().unwrap();
    let ended = kept.iter().any(|entry| matches!(entry, Entry::TurnEnd(_)));
    assert!(!ended, "{kept:?}");
    assert_eq!(*count.0.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_call_that_is_broken_off_before_it_began_does_not_begin() {
    let count = Count::default();
    let (open, gate) = watch::channel(false);
    let reached = Arc::new(Notify::new());
    let flush = Flush::Waiting(Arc::new({
        let reached = Arc::clone(&reached);
        move || {
            let mut gate = gate.clone();
            let reached = Arc::clone(&reached);
            async move {
                reached.notify_one();
                gate.wait_for(|open| *open).await.unwrap();
                Ok(())
            }
            .boxed()
        }
    }));
    let session = agent(&count).session_on(Box::new(disk(None, flush)), &[]);
    let turn = session.prompt("go");
    let meanwhile = async {
        // The session waits for the record of the call to be durable. What it is told meanwhile it
        // hears before the call's task has a turn.
        reached.notified().await;
        session.interrupt().await.unwrap();
        open.send(true).unwrap();
    };
    let (report, ()) = tokio::join!(turn, meanwhile);
    assert!(matches!(report.unwrap().end, TurnEnd::Interrupted { .. }));
    session.close().await.unwrap();
    assert_eq!(*count.0.lock().unwrap(), 0, "it began");
}
