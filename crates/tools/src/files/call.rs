//! One call of a file tool: what it works on, and how its errors read.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tooloop_tool::{JudgedPaths, NotJudged, Scope, ToolContext, ToolError};

use super::listing;
use super::machine::{FileKind, OpenFile};
use super::page::BYTES;
use super::seen::Seen;
use super::text::size;
use crate::Ops;

/// The size up to which files are read whole to know their content.
pub(crate) const WHOLE: u64 = 10 << 20;

/// How much is read between two looks at the cancellation.
const STRETCH: u64 = 1 << 20;

/// What the file tools of a session share.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    ops: Arc<dyn Ops>,
    seen: Arc<Seen>,
}

impl Files {
    pub(crate) fn new(ops: Arc<dyn Ops>) -> Self {
        Self {
            ops,
            seen: Arc::default(),
        }
    }

    pub(crate) fn for_session(&self, scope: &Scope) -> Self {
        Self {
            ops: Arc::clone(&self.ops),
            seen: scope.shared(Seen::default),
        }
    }

    /// What the model has seen of files in the session.
    pub(crate) fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen)
    }

    /// The same machine, of which nothing was seen.
    pub(crate) fn unseen(&self) -> Self {
        Self::new(Arc::clone(&self.ops))
    }

    /// Does work that blocks. It ends soon if the call is cancelled or dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &ToolContext,
        work: impl FnOnce(&Call) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let cancellation = context.cancellation.child_token();
        let call = Call {
            ops: Arc::clone(&self.ops),
            seen: Arc::clone(&self.seen),
            workspace: context.working_directory.clone(),
            judged: context.judged.clone(),
            room: context.room_for(BYTES, 1_000),
            cancellation: cancellation.clone(),
            thrown_away: context.cancellation.clone(),
        };
        let _dropped = cancellation.drop_guard();
        let work = tokio::task::spawn_blocking(move || {
            call.check()?;
            work(&call)
        });
        match work.await {
            Ok(outcome) => outcome,
            Err(error) => failed(format!("the tool broke off: {error}")),
        }
    }
}

/// One call.
pub(crate) struct Call {
    pub(crate) ops: Arc<dyn Ops>,
    pub(crate) seen: Arc<Seen>,
    pub(crate) workspace: PathBuf,
    judged: JudgedPaths,
    /// How many bytes of text are shown at most.
    pub(crate) room: usize,
    cancellation: CancellationToken,
    /// Fires also after the call is over, if nobody was told of what it read.
    pub(crate) thrown_away: CancellationToken,
}

impl Call {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        Ok(())
    }

    /// The path that the model means.
    pub(crate) fn path(&self, given: &str) -> Result<PathBuf, ToolError> {
        if given.is_empty() {
            return failed("the path is empty");
        }
        Ok(self.workspace.join(given))
    }

    /// The place of a path with the links of its directory resolved, as they were when the call was
    /// judged. The last part may be a link.
    pub(crate) fn entry(&self, given: &str) -> Result<PathBuf, ToolError> {
        let path = self.path(given)?;
        match self.judged.get(&path) {
            Ok(Some(judged)) => Ok(judged.entry.clone()),
            Ok(None) => Ok(self.resolved(&path)),
            Err(error) => failed(format!("cannot open {given}: {error}")),
        }
    }

    /// The same for a path that is to be written.
    pub(crate) fn written_entry(&self, given: &str) -> Result<PathBuf, ToolError> {
        if let Ok(Some(judged)) = self.judged.get(&self.path(given)?)
            && !judged.may_write
        {
            return failed(format!("cannot write {given}: {NotJudged}"));
        }
        self.entry(given)
    }

    /// Follows the links of a path's directory, as far as that is there.
    fn resolved(&self, path: &Path) -> PathBuf {
        let path: PathBuf = path.components().collect();
        for parent in path.ancestors().skip(1) {
            if let Ok(folder) = self.ops.open(parent)
                && let Ok(rest) = path.strip_prefix(parent)
            {
                return folder.real_path.join(rest);
            }
        }
        path
    }

    /// What is at a path; `None` if nothing is.
    pub(crate) fn find(&self, given: &str) -> Result<Option<OpenFile>, ToolError> {
        let path = self.path(given)?;
        let opened = match self.judged.get(&path) {
            Ok(None) => self.ops.open(&path),
            // Where a link leads by now does not count.
            Ok(Some(judged)) => self.reopen(&judged.real),
            Err(error) => return failed(format!("cannot open {given}: {error}")),
        };
        match opened {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => failed(format!("cannot open {given}: {}", words(&error))),
        }
    }

    /// Opens a real path, if it still is one.
    pub(crate) fn reopen(&self, real: &Path) -> io::Result<OpenFile> {
        let file = self.ops.open(real)?;
        if file.real_path == real {
            Ok(file)
        } else {
            Err(io::Error::other(NotJudged))
        }
    }

    /// The plain file at a path.
    pub(crate) fn file(&self, given: &str) -> Result<OpenFile, ToolError> {
        match self.find(given)? {
            Some(file) => plain(given, file),
            None => failed(listing::missing(self, given)),
        }
    }

    /// All bytes of a file, unless there are more than `most`.
    pub(crate) fn bytes(
        &self,
        given: &str,
        file: &mut OpenFile,
        most: u64,
    ) -> Result<Option<Vec<u8>>, ToolError> {
        if file.size > most {
            return Ok(None);
        }
        let expected = usize::try_from(file.size).unwrap_or_default();
        let mut bytes = Vec::with_capacity(expected.saturating_add(1));
        loop {
            self.check()?;
            let left = (most + 1).saturating_sub(length(&bytes));
            if left == 0 {
                return Ok(None);
            }
            let mut stretch = (&mut file.content).take(left.min(STRETCH));
            match stretch.read_to_end(&mut bytes) {
                Ok(0) => return Ok(Some(bytes)),
                Ok(_) => {}
                Err(error) => return failed(format!("cannot read {given}: {}", words(&error))),
            }
        }
    }
}

pub(crate) fn plain(given: &str, file: OpenFile) -> Result<OpenFile, ToolError> {
    match file.kind {
        FileKind::File => Ok(file),
        other => failed(format!("{given} is {}, not a file", kind(other))),
    }
}

pub(crate) const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "a file",
        FileKind::Folder => "a folder",
        FileKind::Link => "a link",
        FileKind::Fifo => "a named pipe",
        FileKind::Socket => "a socket",
        FileKind::Device => "a device",
    }
}

pub(crate) fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

pub(crate) fn too_large<T>(given: &str, bytes: u64, hint: &str) -> Result<T, ToolError> {
    failed(format!("{given} is too large, {}: {hint}", size(bytes)))
}

pub(crate) fn failed<T>(words: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Failed(words.into()))
}

/// An error of the system without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error ") {
        text.truncate(end);
    }
    text
}

/// A path as the model would write it: within the workspace a relative one.
pub(crate) fn shown(path: &Path, workspace: &Path) -> String {
    path.strip_prefix(workspace)
        .ok()
        .filter(|inside| !inside.as_os_str().is_empty())
        .unwrap_or(path)
        .display()
        .to_string()
}
