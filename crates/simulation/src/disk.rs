//! A disk that tells apart what is written and what is durable.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tooloop_kernel::Entry;
use tooloop_session::{Flush, Flushing, SessionId, Store, StoreError};

use crate::law::Law;
use crate::script::{DiskTrouble, Loss, Moment};
use crate::world::{Shared, World};

/// The bytes of one journal.
#[derive(Default)]
pub(crate) struct Disk {
    bytes: Vec<u8>,
    /// So many of them survive a loss of power.
    durable: usize,
    /// How many operations went well since the last trouble.
    appends: u32,
    flushes: u32,
}

impl Disk {
    pub(crate) const fn is_durable(&self, end: usize) -> bool {
        end <= self.durable
    }

    pub(crate) const fn all_durable(&self) -> bool {
        self.durable == self.bytes.len()
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is left after a death: entries, and where each ends. A torn line is cut off.
    pub(crate) fn reopen(&mut self, loss: Option<Loss>) -> Vec<(Entry, usize)> {
        if let Some(Loss::Power(percent)) = loss {
            let kept = share(self.bytes.len() - self.durable, percent);
            self.bytes.truncate(self.durable + kept);
        }
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n');
        self.bytes.truncate(whole.map_or(0, |end| end + 1));
        if matches!(loss, Some(Loss::Power(_))) {
            self.durable = self.bytes.len();
        }
        let mut end = 0;
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines
            .filter_map(|line| {
                end += line.len();
                Some((serde_json::from_slice(line).ok()?, end))
            })
            .collect()
    }

    fn trouble(&mut self, world: &mut Used<'_>, appending: bool) -> Option<DiskTrouble> {
        let fault = world.faults.get(*world.used)?;
        let (passed, meant) = match fault.what {
            DiskTrouble::Full => (&mut self.appends, appending),
            DiskTrouble::Flush | DiskTrouble::Slow(_) => (&mut self.flushes, !appending),
        };
        if !meant {
            return None;
        }
        if *passed < fault.skip {
            *passed += 1;
            return None;
        }
        (self.appends, self.flushes) = (0, 0);
        *world.used += 1;
        Some(fault.what)
    }
}

struct Used<'a> {
    faults: &'a [crate::script::DiskFault],
    used: &'a mut usize,
}

fn share(whole: usize, percent: u8) -> usize {
    whole * usize::from(percent.min(100)) / 100
}

/// The store of a session in such a world.
pub(crate) struct SimulatedStore {
    pub(crate) shared: Shared,
    pub(crate) session: SessionId,
}

impl Store for SimulatedStore {
    fn session(&self) -> SessionId {
        self.session
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut world = self.shared.lock();
        if !world.alive() || entries.is_empty() {
            return Ok(());
        }
        world.append(entries)
    }

    fn flush(&self) -> Flush {
        let shared = self.shared.clone();
        Flush::Waiting(std::sync::Arc::new(move || flush(shared.clone())))
    }
}

fn flush(shared: Shared) -> Flushing {
    let (target, wait, fails) = {
        let mut world = shared.lock();
        world.moment(Moment::Flush, 0, || "flush".into());
        let target = world.disk.len();
        let trouble = world.trouble(false);
        let usual = world.script.knobs.flush;
        match trouble {
            Some(DiskTrouble::Slow(wait)) => (target, wait, false),
            Some(DiskTrouble::Flush) => (target, usual, true),
            Some(DiskTrouble::Full) | None => (target, usual, false),
        }
    };
    Box::pin(async move {
        if wait > 0 {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        let result = {
            let mut world = shared.lock();
            if world.alive() && fails {
                world.life.flush_failed = true;
                world.see("flush fails");
                world.tell(|| "the flush fails".into());
                Some(Err(refused("sync")))
            } else if world.alive() {
                world.disk.durable = world.disk.durable.max(target);
                world.moment(Moment::Flushed, target as u64, || {
                    format!("{target} bytes are durable")
                });
                world.alive().then_some(Ok(()))
            } else {
                None
            }
        };
        match result {
            Some(result) => result,
            None => std::future::pending().await,
        }
    })
}

fn refused(action: &'static str) -> StoreError {
    StoreError::Io {
        action,
        path: PathBuf::from("simulated"),
        source: io::Error::from(io::ErrorKind::StorageFull),
    }
}

impl World {
    fn trouble(&mut self, appending: bool) -> Option<DiskTrouble> {
        let mut used = Used {
            faults: &self.script.disk,
            used: &mut self.used.disk,
        };
        self.disk.trouble(&mut used, appending)
    }

    fn append(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        let mut lines = Vec::new();
        for entry in entries {
            let written = serde_json::to_writer(&mut lines, entry);
            self.require(Law::OneFold, written.is_ok(), || {
                format!("{entry:?} cannot be written")
            });
            lines.push(b'\n');
        }
        self.life.appended = true;
        let failed = self.life.append_failed || self.life.flush_failed;
        self.require(Law::RecordFirst, !failed, || {
            format!("after the disk failed more is recorded: {entries:?}")
        });
        let before = self.disk.len();
        self.moment(Moment::Append, entries.len() as u64, || {
            format!("append {} entries", entries.len())
        });
        if let Some(Loss::Process(percent) | Loss::Power(percent)) = self.life.dead {
            let kept = share(lines.len(), percent);
            self.disk.bytes.extend(lines.iter().take(kept));
            return Ok(());
        }
        if self.trouble(true) == Some(DiskTrouble::Full) {
            self.see("append fails");
            self.tell(|| "no room: the append fails".into());
            self.life.append_failed = true;
            return Err(refused("write to"));
        }
        let mut end = before;
        for (entry, line) in entries
            .iter()
            .zip(lines.split_inclusive(|byte| *byte == b'\n'))
        {
            end += line.len();
            if let Ok(reread) = serde_json::from_slice::<Entry>(line) {
                let same = reread == *entry;
                self.require(Law::OneFold, same, || {
                    format!("{entry:?} is read back as {reread:?}")
                });
                self.entry(&reread, end);
            } else {
                self.break_law(Law::OneFold, format!("{entry:?} cannot be read back"));
            }
            if self.script.knobs.watched {
                self.life.unread.push_back(entry.clone());
            }
        }
        self.disk.bytes.append(&mut lines);
        self.moment(Moment::Appended, end as u64, || {
            format!("{end} bytes are written")
        });
        Ok(())
    }
}
