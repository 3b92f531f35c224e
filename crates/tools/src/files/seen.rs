//! What the model has seen of files, one record for all file tools of a session.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

/// How many files are remembered; of more, the one that was met longest ago is forgotten.
const FILES: usize = 4096;

/// How many bytes are taken in between two looks at the cancellation.
const STRETCH: usize = 4 << 20;

/// What stands for a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint(blake3::Hash);

impl Fingerprint {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// Of bytes so many that whoever waits may have gone meanwhile: then there is none.
    pub(crate) fn of_many(bytes: &[u8], is_cancelled: &dyn Fn() -> bool) -> Option<Self> {
        let mut hasher = blake3::Hasher::new();
        for stretch in bytes.chunks(STRETCH) {
            if is_cancelled() {
                return None;
            }
            hasher.update(stretch);
        }
        Some(Self(hasher.finalize()))
    }
}

/// How a file stands to what the model knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// It was never read.
    Unseen,
    /// It is not as it was when it was last read or written.
    Stale,
    /// It is.
    Fresh,
}

/// How many large files have their mark remembered.
const MARKS: usize = 64;

/// Where a line of a large file starts, so that going on from there need not count lines again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The file's size and time when it was like that.
    pub(crate) version: (u64, Option<SystemTime>),
    pub(crate) line: u64,
    pub(crate) byte: u64,
}

/// The files of a session that the model has seen, by real path.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    clock: u64,
    files: HashMap<PathBuf, File>,
    marks: HashMap<PathBuf, Mark>,
}

#[derive(Debug)]
struct File {
    met: u64,
    content: Fingerprint,
    /// The part that was read last, and whether it was answered with a stub since.
    part: Option<(Part, bool)>,
    /// Fires if the read that this is known from was thrown away: then it is not known.
    thrown_away: Option<CancellationToken>,
}

impl File {
    fn is_known(&self) -> bool {
        let thrown_away = self.thrown_away.as_ref();
        !thrown_away.is_some_and(CancellationToken::is_cancelled)
    }
}

/// The part of a file that a read asks for.
pub(crate) type Part = (i64, usize);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view(&self, path: &Path, content: Fingerprint) -> View {
        let state = self.lock();
        match state.files.get(path).filter(|file| file.is_known()) {
            None => View::Unseen,
            Some(file) if file.content == content => View::Fresh,
            Some(_) => View::Stale,
        }
    }

    /// The model has read a part. True if it is to be told that nothing has changed: that is said
    /// once for a content, and whoever asks again after that gets the text each time. A read that
    /// ran while the model wrote may be thrown away later, which `thrown_away` then tells.
    pub(crate) fn read(
        &self,
        path: PathBuf,
        content: Fingerprint,
        part: Part,
        thrown_away: &CancellationToken,
    ) -> bool {
        let mut state = self.lock();
        let met = state.clock.saturating_add(1);
        let known = state
            .files
            .get_mut(&path)
            .filter(|file| file.content == content && file.is_known());
        if let Some(file) = known
            && let Some((last, is_told)) = &mut file.part
            && *last == part
        {
            let is_told = std::mem::replace(is_told, true);
            file.met = met;
            state.clock = met;
            return !is_told;
        }
        let thrown_away = Some(thrown_away.clone());
        state.meet(path, content, Some((part, false)), thrown_away);
        false
    }

    /// The model knows the whole of a file, since it is the one that wrote it.
    pub(crate) fn wrote(&self, path: PathBuf, content: Fingerprint) {
        self.lock().meet(path, content, None, None);
    }

    /// The files that were met last, newest first, each with the part that was read last. Whoever
    /// asks has told them all anew: no part of them is said to be known already.
    pub(crate) fn met_last(&self, most: usize) -> Vec<(PathBuf, Option<Part>)> {
        let mut state = self.lock();
        let mut files: Vec<_> = state.files.iter_mut().collect();
        files.retain(|(_, file)| file.is_known());
        files.sort_unstable_by_key(|(_, file)| std::cmp::Reverse(file.met));
        let told = |file: &mut File| {
            file.part.as_mut().map(|(part, is_told)| {
                *is_told = true;
                *part
            })
        };
        let files = files
            .into_iter()
            .map(|(path, file)| (path.clone(), told(file)));
        let mut files: Vec<_> = files.collect();
        files.truncate(most);
        files
    }

    /// A place in a large file from which its lines can be counted up to `line`.
    pub(crate) fn mark(
        &self,
        path: &Path,
        version: (u64, Option<SystemTime>),
        line: u64,
    ) -> Option<Mark> {
        let mark = self.lock().marks.get(path).copied();
        mark.filter(|mark| mark.version == version && mark.line <= line)
    }

    pub(crate) fn set_mark(&self, path: PathBuf, mark: Mark) {
        let mut state = self.lock();
        if state.marks.len() >= MARKS && !state.marks.contains_key(&path) {
            state.marks.clear();
        }
        state.marks.insert(path, mark);
    }

    /// What the model knew of a file is no more.
    pub(crate) fn forget(&self, path: &Path) {
        self.lock().files.remove(path);
    }
}

impl State {
    fn meet(
        &mut self,
        path: PathBuf,
        content: Fingerprint,
        part: Option<(Part, bool)>,
        thrown_away: Option<CancellationToken>,
    ) {
        self.clock += 1;
        let file = File {
            met: self.clock,
            content,
            part,
            thrown_away,
        };
        self.files.insert(path, file);
        if self.files.len() > FILES
            && let Some(oldest) = self.files.iter().min_by_key(|(_, file)| file.met)
        {
            let oldest = oldest.0.clone();
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn many_bytes_are_known_as_few_are_unless_nobody_waits() {
        let bytes = b"abc".repeat(STRETCH);
        let whole = Fingerprint::of_many(&bytes, &|| false);
        assert_eq!(whole, Some(Fingerprint::of(&bytes)));
        assert_eq!(
            Fingerprint::of_many(b"", &|| false),
            Some(Fingerprint::of(b""))
        );
        let asked = Cell::new(0);
        let is_cancelled = || asked.replace(asked.get() + 1) == 1;
        assert_eq!(Fingerprint::of_many(&bytes, &is_cancelled), None);
        assert_eq!(asked.get(), 2);
    }
}
