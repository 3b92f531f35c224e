//! What is in the workspace, so that a change can be told, by whomever it is made.
//!
//! It holds the files that git's rules do not leave out. The first look walks and keeps the
//! contents that git does not have; later ones ask the system about what is known, and walk again
//! only if a folder has changed.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tooloop_session::BlobId;

use super::git::{self, Index, ObjectId};
use super::manifest::Change;
use super::place::Root;
use super::state::{Kind, PathText, Stamp, State, now, step_of};
use super::store::{MOST_FILE, Store, Want};
use super::walk::{is_cancelled, stamp, walk};

/// How much is looked at, and how much of it is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Files and folders.
    pub(super) entries: usize,
    /// The largest file that is kept before anybody touches it.
    pub(super) file: u64,
    /// How much is kept at the first look.
    pub(super) first: u64,
    /// How long a walk may take.
    pub(super) walk: Duration,
    /// How long the first look may go on keeping.
    pub(super) keep: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 50_000,
            file: 8 << 20,
            first: 256 << 20,
            walk: Duration::from_secs(2),
            keep: Duration::from_secs(5),
        }
    }
}

/// Why the workspace is not looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Somebody wants it to end.
    Cancelled,
    /// It cannot be done.
    Because(String),
}

/// Tells whether to give up.
pub(super) type Quit<'q> = &'q dyn Fn() -> bool;

/// What is in the workspace.
#[derive(Debug)]
pub(super) struct Tree {
    base: PathBuf,
    root: Root,
    /// A folder that is none of the workspace's, whatever its place.
    except: PathBuf,
    bounds: Bounds,
    known: HashMap<PathBuf, Entry>,
    /// When the newest look began.
    looked: i64,
    /// Folders whose stamp is newer than that.
    noted: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    stamp: Stamp,
    /// Whether it must be read again, since it was changed in the moment of the look.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_fresh: bool,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Git(ObjectId),
    Is(State),
}

impl Tree {
    /// Looks for the first time.
    pub(super) fn first(
        base: &Path,
        except: &Path,
        bounds: Bounds,
        store: &mut Store,
        quit: Quit<'_>,
    ) -> Result<Self, Refusal> {
        let mut tree = Self::empty(base, except, bounds)?;
        tree.looked = now();
        let mut listing = walk(base, except, &bounds, quit)?;
        let index = Index::of(base);
        listing.add_missing(base, index.paths());
        let mut files = Vec::new();
        for (path, kind, stamp) in listing.entries {
            let tracked = match kind {
                Kind::File if stamp.size <= MOST_FILE => index.content(&path, &stamp),
                Kind::Folder | Kind::File | Kind::Link | Kind::Special => None,
            };
            match tracked {
                Some(id) => tree.insert(path, stamp, Content::Git(id)),
                None => files.push((path, kind, stamp)),
            }
        }
        // As many as can be.
        files.sort_by_key(|(_, _, stamp)| stamp.size);
        let until = Instant::now() + bounds.keep;
        let mut kept = 0_u64;
        for (path, kind, stamp) in files {
            is_cancelled(quit)?;
            kept = kept.saturating_add(stamp.size);
            let why = if kept > bounds.first {
                Some(format!(
                    "there are more than {} MiB of files",
                    bounds.first >> 20
                ))
            } else if Instant::now() > until {
                Some("there was no time to keep it".to_owned())
            } else {
                None
            };
            let state = match (&kind, why) {
                (Kind::File, Some(why)) => State::Unkept { why, stamp },
                _ => store.state(&tree.root, &path, &kind, stamp, Want::Content(bounds.file)),
            };
            tree.insert(path, stamp, Content::Is(state));
        }
        Ok(tree)
    }

    fn empty(base: &Path, except: &Path, bounds: Bounds) -> Result<Self, Refusal> {
        let root = Root::open(base).map_err(|error| {
            Refusal::Because(format!("the workspace cannot be opened: {error}"))
        })?;
        Ok(Self {
            base: base.to_owned(),
            root,
            except: except.to_owned(),
            bounds,
            known: HashMap::new(),
            looked: 0,
            noted: Vec::new(),
        })
    }

    fn insert(&mut self, path: PathBuf, stamp: Stamp, content: Content) {
        let entry = Entry {
            is_fresh: stamp.is_fresh_at(self.looked),
            stamp,
            content,
        };
        self.known.insert(path, entry);
    }

    /// What is different from the look before.
    pub(super) fn look(
        &mut self,
        store: &mut Store,
        quit: Quit<'_>,
    ) -> Result<Vec<Change>, Refusal> {
        let before = self.looked;
        let moment = now();
        let differences = match self.glance(quit)? {
            Some(differences) => differences,
            None => self.walk_again(quit)?,
        };
        let new_rules = differences
            .iter()
            .any(|(path, _)| path.file_name().is_some_and(|name| name == ".gitignore"));
        let moved = self.moved(&differences);
        let mut changes = Changes::default();
        self.looked = moment;
        for (path, found) in differences {
            if let Err(refusal) = is_cancelled(quit) {
                self.looked = before;
                return Err(refusal);
            }
            let Some((kind, stamp)) = found else {
                if let Some(entry) = self.known.remove(&path) {
                    changes.add(path, entry, State::Absent);
                }
                continue;
            };
            let want = Want::Content(self.bounds.file);
            let state = store.state(&self.root, &path, &kind, stamp, want);
            let old = match self.known.get(&path) {
                Some(entry) => Some(entry.clone()),
                None if moved.contains(&stamp.inode) => Some(Entry::absent(State::Absent)),
                // It was there, and the rules left it out.
                None if is_before(stamp.changed, before) => None,
                None if new_rules && is_older(&self.base.join(&path), before) => {
                    let why = "git's rules left it out before".into();
                    Some(Entry::absent(State::Unknown { why }))
                }
                None => Some(Entry::absent(State::Absent)),
            };
            if let Some(old) = old {
                changes.add(path.clone(), old, state.clone());
            }
            self.insert(path, stamp, Content::Is(state));
        }
        for folder in std::mem::take(&mut self.noted) {
            if let Some(entry) = self.known.get_mut(&folder) {
                entry.is_fresh = entry.stamp.is_fresh_at(moment);
            }
        }
        Ok(changes.settle(&self.base, store))
    }

    /// What was known and is not at its path any more. Found at another one it has come there
    /// since, though the times of what is in a folder that was moved are as old as before.
    fn moved(&self, differences: &[Difference]) -> HashSet<u64> {
        let gone = |(path, found): &Difference| {
            let inode = self.known.get(path)?.stamp.inode;
            let is_there = (found.as_ref()).is_some_and(|(_, stamp)| stamp.inode == inode);
            (inode != 0 && !is_there).then_some(inode)
        };
        differences.iter().filter_map(gone).collect()
    }

    /// Asks the system about all that is known. `None` if a folder has changed, so that there may
    /// be more by now.
    fn glance(&self, quit: Quit<'_>) -> Result<Option<Vec<Difference>>, Refusal> {
        let known: Vec<_> = self.known.iter().collect();
        let threads = match known.len() {
            0..2_000 => 1,
            _ => std::thread::available_parallelism().map_or(1, |most| most.get().min(4)),
        };
        let share = known.len().div_ceil(threads).max(1);
        let is_over = AtomicBool::new(false);
        let look = |known: &[(&PathBuf, &Entry)]| {
            let mut differences = Vec::new();
            for (path, entry) in known {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let found = stamp(&self.base.join(path));
                if entry.is_as(found.as_ref()) {
                    continue;
                }
                if entry.is_folder() || matches!(found, Some((Kind::Folder, _))) {
                    is_over.store(true, Ordering::Relaxed);
                }
                differences.push(((*path).clone(), found));
            }
            differences
        };
        is_cancelled(quit)?;
        let mut shares = known.chunks(share);
        let first = shares.next().unwrap_or_default();
        let differences = std::thread::scope(|scope| {
            let others: Vec<_> = shares.map(|share| scope.spawn(|| look(share))).collect();
            let mut differences = look(first);
            for other in others {
                match other.join() {
                    Ok(more) => differences.extend(more),
                    // What it would have found, a walk finds.
                    Err(_) => is_over.store(true, Ordering::Relaxed),
                }
            }
            differences
        });
        is_cancelled(quit)?;
        Ok((!is_over.load(Ordering::Relaxed)).then_some(differences))
    }

    fn walk_again(&self, quit: Quit<'_>) -> Result<Vec<Difference>, Refusal> {
        let listing = walk(&self.base, &self.except, &self.bounds, quit)?;
        let listed: HashSet<&Path> = listing.entries.iter().map(|(path, ..)| &**path).collect();
        // What is known stays known while it is there, whatever the rules say by now.
        let mut differences: Vec<Difference> = self
            .known
            .iter()
            .filter(|(path, _)| !listed.contains(path.as_path()))
            .filter_map(|(path, entry)| {
                let found = stamp(&self.base.join(path));
                (!entry.is_as(found.as_ref())).then(|| (path.clone(), found))
            })
            .collect();
        drop(listed);
        for (path, kind, stamp) in listing.entries {
            let found = Some((kind, stamp));
            let known = self.known.get(&path);
            if !known.is_some_and(|entry| entry.is_as(found.as_ref())) {
                differences.push((path, found));
            }
        }
        Ok(differences)
    }

    /// Takes note of what a call has made of a file that it named, so that the next look does not
    /// take it for news.
    pub(super) fn note(&mut self, path: &Path, state: &State) {
        if let Some(folder) = path.parent()
            && let Some(entry) = self.known.get_mut(folder)
            && let Some((Kind::Folder, stamp)) = stamp(&self.base.join(folder))
            && entry.stamp.permissions() == stamp.permissions()
        {
            entry.stamp = stamp;
            entry.is_fresh = false;
            self.noted.push(folder.to_owned());
        }
        self.set(path, state);
    }

    /// What is known of a file from now on. It is read again at the next look.
    pub(super) fn set(&mut self, path: &Path, state: &State) {
        if state.is_there() {
            let entry = Entry::absent(state.clone());
            self.known.insert(path.to_owned(), entry);
        } else {
            self.known.remove(path);
        }
    }

    /// Whether a path is looked at.
    pub(super) fn knows(&self, path: &Path) -> bool {
        self.known.contains_key(path)
    }

    /// The contents that it may have to give back.
    pub(super) fn blobs(&self) -> impl Iterator<Item = BlobId> {
        self.known
            .values()
            .filter_map(|entry| match &entry.content {
                Content::Is(State::File { blob, .. }) => Some(*blob),
                Content::Is(_) | Content::Git(_) => None,
            })
    }

    /// Writes it down, for whoever comes after a death. `at` is how long the record of changes is.
    pub(super) fn save(&self, path: &Path, at: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.known.len().saturating_mul(200));
        let head = Head {
            at,
            looked: self.looked,
        };
        serde_json::to_writer(&mut bytes, &head)?;
        bytes.push(b'\n');
        for (path, entry) in &self.known {
            serde_json::to_writer(&mut bytes, &(PathRef(path), entry))?;
            bytes.push(b'\n');
        }
        let unnamed = path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&unnamed)?.write_all(&bytes)?;
        std::fs::rename(unnamed, path)
    }

    /// Reads one back, and where the record of changes goes on from it.
    pub(super) fn load(
        path: &Path,
        base: &Path,
        except: &Path,
        bounds: Bounds,
    ) -> io::Result<(Self, u64)> {
        let mut lines = BufReader::new(std::fs::File::open(path)?.take(MOST_SAVED)).lines();
        let head = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        let head: Head = serde_json::from_str(&head)?;
        let refused = |_| io::Error::other("the workspace cannot be opened");
        let mut tree = Self::empty(base, except, bounds).map_err(refused)?;
        tree.looked = head.looked;
        for line in lines {
            let (path, entry): (PathText, Entry) = serde_json::from_str(&line?)?;
            tree.known.insert(path.0, entry);
        }
        Ok((tree, head.at))
    }
}

/// The most bytes of a tree on disk.
const MOST_SAVED: u64 = 128 << 20;

#[derive(Serialize, Deserialize)]
struct Head {
    at: u64,
    looked: i64,
}

/// A path that may be other than it was: `None` if nothing is there.
type Difference = (PathBuf, Option<(Kind, Stamp)>);

impl Entry {
    /// What is known without a stamp.
    const fn absent(state: State) -> Self {
        Self {
            stamp: Stamp::none(),
            is_fresh: true,
            content: Content::Is(state),
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.content, Content::Is(State::Folder { .. }))
    }

    /// Whether this is surely what was found.
    fn is_as(&self, found: Option<&(Kind, Stamp)>) -> bool {
        found.is_some_and(|(_, stamp)| self.stamp == *stamp && !self.is_fresh)
    }
}

/// Whether a file's time is surely before a moment.
const fn is_before(time: i64, moment: i64) -> bool {
    time.saturating_add(step_of(time)) < moment
}

/// Whether a file was there before a moment, as far as the system tells.
fn is_older(path: &Path, moment: i64) -> bool {
    let created = std::fs::symlink_metadata(path).and_then(|metadata| metadata.created());
    created.map_or(true, |created| {
        let since = created.duration_since(std::time::UNIX_EPOCH);
        let since = since
            .ok()
            .and_then(|since| i64::try_from(since.as_nanos()).ok());
        since.is_none_or(|created| is_before(created, moment))
    })
}

/// Changes, some of which wait for git.
#[derive(Default)]
struct Changes {
    certain: Vec<Change>,
    waiting: Vec<(ObjectId, Stamp, Change)>,
}

impl Changes {
    fn add(&mut self, path: PathBuf, old: Entry, after: State) {
        // The workspace itself is not the workspace's to change.
        if path.as_os_str().is_empty() {
            return;
        }
        let path = PathText(path);
        match old.content {
            Content::Is(before) if before == after => {}
            Content::Is(before) => self.certain.push(Change {
                path,
                before,
                after,
            }),
            Content::Git(id) => {
                let before = State::Absent;
                let change = Change {
                    path,
                    before,
                    after,
                };
                self.waiting.push((id, old.stamp, change));
            }
        }
    }

    /// Has git give the old contents.
    fn settle(mut self, base: &Path, store: &mut Store) -> Vec<Change> {
        let ids: Vec<_> = self.waiting.iter().map(|(id, ..)| *id).collect();
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        git::contents(base, &ids, MOST_FILE, |_, content| {
            let Some((_, stamp, mut change)) = waiting.next() else {
                return;
            };
            change.before = match content {
                Ok(bytes) if bytes.len() as u64 == stamp.size => {
                    store.given(&bytes, stamp.permissions())
                }
                Ok(_) => State::Unkept {
                    why: "git keeps it in another form".into(),
                    stamp,
                },
                Err(why) => State::Unkept { why, stamp },
            };
            if change.before != change.after {
                self.certain.push(change);
            }
        });
        self.certain
    }
}

/// A path to be written.
struct PathRef<'p>(&'p Path);

impl Serialize for PathRef<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PathText(self.0.to_owned()).serialize(serializer)
    }
}
