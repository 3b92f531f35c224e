//! What git has of the workspace's files.
//!
//! The index says, without a process, which files are as git knows them; those need not be copied,
//! since git gives their content when it is wanted. The process that gives it may not fetch
//! anything and runs no filter: a content whose length is not the file's is not taken.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::state::Stamp;

/// The largest index that is read.
const MOST_INDEX: u64 = 64 << 20;

/// How many contents are asked for at once: the names must fit a pipe, whoever reads it.
const ASKED: usize = 200;

/// How long git may take to give them.
const PATIENCE: Duration = Duration::from_secs(20);

/// Names a content in git's store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct ObjectId([u8; 20]);

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<ObjectId> for String {
    fn from(id: ObjectId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for ObjectId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = "not the name of an object";
        let mut id = [0; 20];
        if text.len() != 40 {
            return Err(wrong);
        }
        for (place, pair) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong)?;
            *place = u8::from_str_radix(pair, 16).map_err(|_| wrong)?;
        }
        Ok(Self(id))
    }
}

/// The plain files in git's index, by their path below the workspace.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<PathBuf, Tracked>,
    written: i64,
}

#[derive(Debug)]
struct Tracked {
    id: ObjectId,
    changed: (u32, u32),
    modified: (u32, u32),
    inode: u32,
    size: u32,
}

impl Index {
    /// The index of the repository that the workspace is in; empty if there is none that can be
    /// made use of.
    pub(super) fn of(workspace: &Path) -> Self {
        Self::find(workspace).unwrap_or_default()
    }

    fn find(workspace: &Path) -> Option<Self> {
        program()?;
        let (root, git) = workspace.ancestors().find_map(|folder| {
            let git = folder.join(".git");
            let kind = fs::symlink_metadata(&git).ok()?;
            if kind.is_dir() {
                return Some((folder, git));
            }
            let text = kind.is_file().then(|| fs::read_to_string(&git).ok())??;
            let path = text.strip_prefix("gitdir:")?.trim();
            Some((folder, folder.join(path)))
        })?;
        let path = git.join("index");
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > MOST_INDEX {
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        let below = workspace.strip_prefix(root).ok()?;
        Some(Self {
            entries: parse(&bytes, below)?,
            written: Stamp::of(&metadata).modified,
        })
    }

    /// The content of a file, if it is as git knows it.
    pub(super) fn content(&self, path: &Path, stamp: &Stamp) -> Option<ObjectId> {
        let tracked = self.entries.get(path)?;
        let time = |(seconds, rest): (u32, u32)| {
            i64::from(seconds)
                .saturating_mul(1_000_000_000)
                .saturating_add(i64::from(rest))
        };
        // The index keeps the lower half of large numbers.
        let low = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap_or_default();
        let is_same = time(tracked.changed) == stamp.changed
            && time(tracked.modified) == stamp.modified
            && tracked.inode == low(stamp.inode)
            && tracked.size == low(stamp.size);
        // What was changed in the moment of the index may have been changed after it.
        (is_same && stamp.modified < self.written).then_some(tracked.id)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.keys().map(PathBuf::as_path)
    }
}

/// Reads an index of version 2, 3 or 4 that names objects by 20 bytes.
fn parse(bytes: &[u8], below: &Path) -> Option<HashMap<PathBuf, Tracked>> {
    let mut rest = Bytes(bytes);
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let version = rest.number()?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = rest.number()?;
    let mut entries = HashMap::new();
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..count {
        let start = rest.0.len();
        let changed = (rest.number()?, rest.number()?);
        let modified = (rest.number()?, rest.number()?);
        let _device = rest.number()?;
        let inode = rest.number()?;
        let mode = rest.number()?;
        let _owner = (rest.number()?, rest.number()?);
        let size = rest.number()?;
        let id = ObjectId(rest.take(20)?.try_into().ok()?);
        let flags = rest.short()?;
        let is_extended = version >= 3 && flags & 0x4000 != 0;
        let more = if is_extended { rest.short()? } else { 0 };
        if version == 4 {
            let cut = rest.offset()?;
            name.truncate(name.len().checked_sub(cut)?);
        } else {
            name.clear();
        }
        name.extend_from_slice(rest.until_zero()?);
        if version != 4 {
            // Padded to eight, with one zero at least, which is taken already.
            let length = start.checked_sub(rest.0.len())?;
            rest.take((8 - length % 8) % 8)?;
        }
        let is_whole = flags & 0x3000 == 0 && more & 0x6000 == 0;
        let is_file = mode & 0o170_000 == 0o100_000;
        let path = Path::new(OsStr::from_bytes(&name));
        if is_whole
            && is_file
            && let Ok(path) = path.strip_prefix(below)
        {
            let tracked = Tracked {
                id,
                changed,
                modified,
                inode,
                size,
            };
            entries.insert(path.to_owned(), tracked);
        }
    }
    Some(entries)
}

struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn until_zero(&mut self) -> Option<&'b [u8]> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let taken = self.take(length)?;
        self.take(1)?;
        Some(taken)
    }

    /// A number in git's encoding for offsets.
    fn offset(&mut self) -> Option<usize> {
        let mut byte = *self.take(1)?.first()?;
        let mut number = usize::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = *self.take(1)?.first()?;
            number = number.checked_add(1)?.checked_mul(128)?;
            number = number.checked_add(usize::from(byte & 0x7f))?;
        }
        Some(number)
    }
}

/// Where git is.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("git"))
        .find(|program| {
            fs::metadata(program)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        })
}

/// Asks git for contents, each at most `most` bytes, and hands them over in their order.
pub(super) fn contents(
    workspace: &Path,
    ids: &[ObjectId],
    most: u64,
    mut take: impl FnMut(usize, Result<Vec<u8>, String>),
) {
    let mut place = 0;
    for ids in ids.chunks(ASKED) {
        let mut given = 0;
        let outcome = ask(workspace, ids, most, |content| {
            take(place + given, content);
            given += 1;
        });
        if let Err(error) = outcome {
            for missing in given..ids.len() {
                take(
                    place + missing,
                    Err(format!("git does not give it: {error}")),
                );
            }
        }
        place += ids.len();
    }
}

/// A process of git that ends with this value.
struct Asked(Child);

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn ask(
    workspace: &Path,
    ids: &[ObjectId],
    most: u64,
    mut take: impl FnMut(Result<Vec<u8>, String>),
) -> io::Result<()> {
    let program = program().ok_or_else(|| io::Error::other("there is no git"))?;
    let mut command = Command::new(program);
    command
        .args(["-c", "protocol.allow=never", "-c", "safe.directory=*"])
        .args(["cat-file", "--batch"])
        .current_dir(workspace)
        .env_clear()
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for name in ["PATH", "HOME"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(OsString::from(name), value);
        }
    }
    let mut asked = Asked(command.spawn()?);
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let mut names = asked.0.stdin.take().ok_or_else(gone)?;
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    names.write_all(text.as_bytes())?;
    drop(names);
    let output = asked.0.stdout.take().ok_or_else(gone)?;
    let mut answers = BufReader::new(Patient {
        output,
        until: Instant::now() + PATIENCE,
    });
    for _ in ids {
        let mut line = String::new();
        if answers.by_ref().take(4096).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut words = line.split_ascii_whitespace().skip(1);
        let size: Option<u64> = match (words.next(), words.next()) {
            (Some("blob"), Some(size)) => size.parse().ok(),
            _ => None,
        };
        let Some(size) = size else {
            take(Err("git does not have it any more".into()));
            continue;
        };
        if size > most {
            io::copy(&mut answers.by_ref().take(size), &mut io::sink())?;
            take(Err(format!("larger than {} MiB", most >> 20)));
        } else {
            let mut content = Vec::new();
            answers.by_ref().take(size).read_to_end(&mut content)?;
            if content.len() as u64 != size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            take(Ok(content));
        }
        answers.by_ref().take(1).read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

/// Reads until a moment, then no more.
struct Patient {
    output: ChildStdout,
    until: Instant,
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let output: BorrowedFd<'_> = self.output.as_fd();
        let mut waited = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut waited, timeout.as_ref()) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => self.output.read(buffer),
            Err(error) => Err(error.into()),
        }
    }
}
