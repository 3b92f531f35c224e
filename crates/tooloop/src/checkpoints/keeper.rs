//! What is kept when: before a call changes something, and after it has.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tooloop_session::Blobs;

use super::manifest::{self, Begun, By, Change, Changed, Found, History, Line, Manifest};
use super::place::Root;
use super::state::{PathText, State};
use super::store::{MOST_FILE, Store, Want};
use super::tree::{Bounds, Quit, Refusal, Tree};

/// How many changes of one call are recorded.
const MOST_CHANGES: usize = 20_000;

/// What a call may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Touched {
    /// These files, by absolute paths.
    Files(Vec<PathBuf>),
    /// Nobody can tell.
    Anything,
}

/// Where and how much is kept.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) workspace: PathBuf,
    /// Further folders in which files may be restored.
    pub(crate) folders: Vec<PathBuf>,
    /// The session's folder for this.
    pub(crate) folder: PathBuf,
    /// Those of the sessions that it was forked from.
    pub(crate) inherited: Vec<PathBuf>,
    /// The most bytes of old contents.
    pub(crate) cap: u64,
}

/// Keeps the old contents of one session. It blocks: not to be called where others wait.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) place: Place,
    bounds: Bounds,
    pub(super) store: Store,
    manifest: Manifest,
    pub(super) history: History,
    is_loaded: bool,
    watch: Watch,
    /// Background work was under way at the newest look.
    had_work: bool,
    /// Subagents were at work at the newest look.
    beside: bool,
    /// The newest turn.
    turn: u32,
}

#[derive(Debug)]
enum Watch {
    NotYet,
    On(Box<Tree>),
    Off(String),
}

/// Where a path is, as far as it may be restored.
pub(super) struct Located {
    pub(super) base: PathBuf,
    pub(super) below: PathBuf,
}

impl Keeper {
    pub(super) fn new(place: Place, bounds: Bounds) -> Self {
        let inherited = place.inherited.iter().map(|folder| folder.join(BLOBS));
        let blobs = Blobs::new(place.folder.join(BLOBS), inherited.collect(), place.cap);
        Self {
            bounds,
            store: Store::new(blobs),
            manifest: Manifest::new(place.folder.join(manifest::NAME)),
            history: History::default(),
            is_loaded: false,
            watch: Watch::NotYet,
            had_work: false,
            beside: false,
            turn: 0,
            place,
        }
    }

    /// A call is about to run: keeps what is there.
    pub(super) fn before(
        &mut self,
        turn: u32,
        call: &str,
        touched: &Touched,
        has_work: bool,
        quit: Quit<'_>,
    ) -> Result<(), Refusal> {
        self.turn = turn;
        self.load(quit)?;
        self.had_work |= has_work;
        self.make_room();
        match touched {
            Touched::Files(paths) => {
                let files = self.found(paths);
                self.append(&[Line::Begun(Begun {
                    turn,
                    call: call.into(),
                    by: By::Tool,
                    files,
                })]);
            }
            Touched::Anything => {
                self.look_around(quit)?;
                self.append(&[Line::Begun(Begun {
                    turn,
                    call: call.into(),
                    by: By::Command,
                    files: Vec::new(),
                })]);
            }
        }
        Ok(())
    }

    /// The call has run.
    pub(super) fn after(&mut self, has_work: bool, quit: Quit<'_>) {
        self.close_open(quit);
        self.had_work = has_work;
    }

    /// A call of a subagent is about to run, perhaps beside others: keeps what is there. Returns what
    /// [`Keeper::after_beside`] wants to know.
    pub(super) fn before_beside(
        &mut self,
        turn: u32,
        touched: &Touched,
        quit: Quit<'_>,
    ) -> Result<Vec<Found>, Refusal> {
        self.turn = turn;
        if !self.is_loaded {
            self.load(quit)?;
        }
        self.make_room();
        match touched {
            Touched::Files(paths) => Ok(self.found(paths)),
            Touched::Anything => {
                self.look_around(quit)?;
                self.beside = true;
                Ok(Vec::new())
            }
        }
    }

    /// It has run. `others` tells whether calls of that kind still run.
    pub(super) fn after_beside(
        &mut self,
        turn: u32,
        found: Vec<Found>,
        others: bool,
        quit: Quit<'_>,
    ) {
        if found.is_empty() {
            // What cannot be looked at is found by the next look.
            drop(self.look_around(quit));
            self.beside = others;
            return;
        }
        let files = self.changes(found);
        if !files.is_empty() {
            let by = By::Work;
            self.append(&[Line::Changed(Changed { turn, by, files })]);
        }
    }

    /// The conversation was taken back to before this turn.
    pub(super) fn cut(&mut self, turn: u32, quit: Quit<'_>) {
        let loaded = self.load(quit);
        if loaded.is_ok() && self.history.len() > 0 {
            self.append(&[Line::Cut { turn }]);
        }
    }

    /// Takes note of what background work has changed by now.
    pub(super) fn catch_work(&mut self, has_work: bool, quit: Quit<'_>) {
        if self.had_work && matches!(self.watch, Watch::On(_)) {
            // What cannot be looked at is found by the next look.
            drop(self.look_around(quit));
        }
        self.had_work = has_work;
    }

    /// Whether background work may have changed something since the newest look.
    pub(super) const fn had_work(&self) -> bool {
        self.had_work
    }

    /// Reads what is on record, and ends what a death has left open.
    pub(super) fn load(&mut self, quit: Quit<'_>) -> Result<(), Refusal> {
        if !self.is_loaded {
            let path = self.place.folder.join(manifest::NAME);
            let history = &mut self.history;
            let read = manifest::read(&path, 0, |line, _| history.apply(&line));
            if let Err(error) = read {
                self.store.complain(format!(
                    "what was changed before cannot be rewound: {}: {error}",
                    path.display()
                ));
            }
            self.is_loaded = true;
            if self
                .history
                .open()
                .is_some_and(|open| open.by == By::Command)
            {
                self.watch = self.saved();
            }
        }
        if self.history.open().is_some() {
            self.close_open(quit);
        }
        super::walk::is_cancelled(quit)
    }

    /// The tree as it was before the command that a death has cut off.
    fn saved(&self) -> Watch {
        let path = self.place.folder.join(TREE);
        let loaded = Tree::load(&path, &self.place.workspace, self.except(), self.bounds);
        let Ok((mut tree, at)) = loaded else {
            return Watch::NotYet;
        };
        let changes = self.place.folder.join(manifest::NAME);
        let read = manifest::read(&changes, at, |line, _| match line {
            Line::Seen { files } | Line::Begun(Begun { files, .. }) => {
                for file in &files {
                    tree.set(file.path.path(), &file.state);
                }
            }
            Line::Changed(changed) => {
                for file in &changed.files {
                    tree.set(file.path.path(), &file.after);
                }
            }
            Line::Cut { .. } | Line::Unwatched { .. } => {}
        });
        match read {
            Ok(()) => Watch::On(Box::new(tree)),
            Err(_) => Watch::NotYet,
        }
    }

    /// Finds out what came of the call that is open.
    fn close_open(&mut self, quit: Quit<'_>) {
        let Some(open) = self.history.open().cloned() else {
            return;
        };
        let turn = open.turn;
        let line = match open.by {
            By::Command | By::Work => match self.differences(quit) {
                Ok(files) if files.len() > MOST_CHANGES => Line::Unwatched {
                    turn,
                    why: format!("it changed {} files", files.len()),
                },
                Ok(files) => Line::Changed(Changed {
                    turn,
                    by: By::Command,
                    files,
                }),
                Err(why) => Line::Unwatched { turn, why },
            },
            By::Tool | By::Rewind => {
                let files = self.changes(open.files);
                Line::Changed(Changed {
                    turn,
                    by: open.by,
                    files,
                })
            }
        };
        self.append(&[line]);
    }

    /// What has become of files that were looked at.
    fn changes(&mut self, found: Vec<Found>) -> Vec<Change> {
        let mut files = Vec::new();
        for Found { path, state } in found {
            let after = self.look(path.path(), Want::Name);
            self.note(path.path(), &after);
            if after != state || matches!(state, State::Unknown { .. }) {
                files.push(Change {
                    path,
                    before: state,
                    after,
                });
            }
        }
        files
    }

    /// What has changed since the newest look, or why that is not known.
    fn differences(&mut self, quit: Quit<'_>) -> Result<Vec<Change>, String> {
        match &mut self.watch {
            Watch::NotYet => Err("the run ended before it was looked at".into()),
            Watch::Off(why) => Err(why.clone()),
            Watch::On(tree) => match tree.look(&mut self.store, quit) {
                Ok(changes) => Ok(changes),
                Err(Refusal::Cancelled) => Err("the look at it was cut off".into()),
                Err(Refusal::Because(why)) => {
                    self.watch = Watch::Off(why.clone());
                    Err(why)
                }
            },
        }
    }

    /// Takes note of what is there before a call that may change anything.
    fn look_around(&mut self, quit: Quit<'_>) -> Result<(), Refusal> {
        match &mut self.watch {
            Watch::Off(_) => {}
            Watch::NotYet => {
                let workspace = self.place.workspace.clone();
                let except = self.except().to_owned();
                match Tree::first(&workspace, &except, self.bounds, &mut self.store, quit) {
                    Ok(mut tree) => {
                        self.add_named(&mut tree);
                        if let Err(error) = self.save(&tree) {
                            self.store.complain(format!(
                                "what is in the workspace cannot be recorded: {error}"
                            ));
                        }
                        self.watch = Watch::On(Box::new(tree));
                    }
                    Err(Refusal::Because(why)) => {
                        self.store.complain(format!(
                            "what commands change is not kept and cannot be rewound: {why}"
                        ));
                        self.watch = Watch::Off(why);
                    }
                    Err(Refusal::Cancelled) => return Err(Refusal::Cancelled),
                }
            }
            Watch::On(tree) => match tree.look(&mut self.store, quit) {
                Ok(files) if files.is_empty() => {}
                Ok(files) => {
                    let line = if (self.had_work || self.beside) && files.len() <= MOST_CHANGES {
                        Line::Changed(Changed {
                            turn: self.turn,
                            by: By::Work,
                            files,
                        })
                    } else {
                        let found = |change: Change| Found {
                            path: change.path,
                            state: change.after,
                        };
                        Line::Seen {
                            files: files.into_iter().map(found).collect(),
                        }
                    };
                    self.append(&[line]);
                }
                Err(Refusal::Because(why)) => self.watch = Watch::Off(why),
                Err(Refusal::Cancelled) => return Err(Refusal::Cancelled),
            },
        }
        Ok(())
    }

    /// Files that the rules leave out are looked at all the same once a call has named them.
    fn add_named(&mut self, tree: &mut Tree) {
        let named: Vec<_> = self.history.named().map(Path::to_owned).collect();
        for path in named {
            if path.is_relative() && !tree.knows(&path) {
                let state = self.look(&path, Want::Content(self.bounds.file));
                tree.note(&path, &state);
            }
        }
    }

    fn save(&self, tree: &Tree) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = std::fs::DirBuilder::new();
        let builder = builder.recursive(true).mode(0o700);
        builder.create(&self.place.folder)?;
        tree.save(&self.place.folder.join(TREE), self.manifest.bytes())
    }

    /// The journals are changed all the time, wherever they are.
    fn except(&self) -> &Path {
        self.place.folder.parent().unwrap_or(&self.place.folder)
    }

    /// What is at these paths and at the folders on the way that are not there yet.
    fn found(&mut self, paths: &[PathBuf]) -> Vec<Found> {
        let mut files: Vec<Found> = Vec::new();
        for path in paths {
            let shown = self.shown(path);
            let mut all: Vec<_> = shown.ancestors().skip(1).collect();
            all.retain(|folder| !folder.as_os_str().is_empty() && self.locate(folder).is_some());
            all.reverse();
            for folder in all {
                if files.iter().any(|file| file.path.path() == folder) {
                    continue;
                }
                let state = self.look(folder, Want::Name);
                if state == State::Absent {
                    let path = PathText(folder.to_owned());
                    files.push(Found { path, state });
                }
            }
            if files.iter().any(|file| file.path.path() == shown) {
                continue;
            }
            let state = self.look(&shown, Want::Content(MOST_FILE));
            let path = PathText(shown);
            files.push(Found { path, state });
        }
        files
    }

    /// What is at a path as it is recorded.
    pub(super) fn look(&mut self, path: &Path, want: Want) -> State {
        let Some(Located { base, below }) = self.locate(path) else {
            return State::Unknown {
                why: "it is outside of the workspace".into(),
            };
        };
        match Root::open(&base) {
            Ok(root) => self.store.look(&root, &below, want),
            Err(error) => State::Unknown {
                why: format!("{}: {error}", base.display()),
            },
        }
    }

    /// Where a path as it is recorded is; `None` if nothing may be restored there.
    pub(super) fn locate(&self, path: &Path) -> Option<Located> {
        let located = |base: &Path, below: &Path| Located {
            base: base.to_owned(),
            below: below.to_owned(),
        };
        if path.is_relative() {
            return Some(located(&self.place.workspace, path));
        }
        self.place.folders.iter().find_map(|folder| {
            let below = path.strip_prefix(folder).ok()?;
            (!below.as_os_str().is_empty()).then(|| located(folder, below))
        })
    }

    /// A path as it is recorded.
    fn shown(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.place.workspace);
        below.unwrap_or(path).to_owned()
    }

    pub(super) fn note(&mut self, path: &Path, state: &State) {
        if let Watch::On(tree) = &mut self.watch
            && path.is_relative()
        {
            tree.note(path, state);
        }
    }

    /// Writes lines and folds them.
    pub(super) fn append(&mut self, lines: &[Line]) {
        if let Err(error) = self.manifest.append(lines) {
            self.store.complain(format!(
                "what is changed from now on cannot be rewound: {error}"
            ));
        }
        lines.iter().for_each(|line| self.history.apply(line));
    }

    /// Like [`Keeper::append`], for what must not go on without its record.
    pub(super) fn must_append(&mut self, line: Line) -> std::io::Result<()> {
        self.manifest.append(std::slice::from_ref(&line))?;
        self.history.apply(&line);
        Ok(())
    }

    /// Lets go of the contents that only the oldest turns need, when most of the room is taken.
    fn make_room(&mut self) {
        let blobs = &mut self.store.blobs;
        if blobs.bytes() <= blobs.cap() / 5 * 4 {
            return;
        }
        let mut needed: HashMap<_, usize> = HashMap::new();
        for (place, (_, change)) in self.history.since(0).iter().enumerate() {
            if let State::File { blob, .. } = change.before {
                needed.insert(blob, place);
            }
        }
        if let Watch::On(tree) = &self.watch {
            needed.extend(tree.blobs().map(|blob| (blob, usize::MAX)));
        }
        let spared = self.history.start_of(self.turn);
        let mut kept: Vec<_> = blobs
            .iter()
            .map(|(blob, _)| (needed.get(&blob).copied(), blob))
            .collect();
        kept.sort_unstable_by_key(|(place, _)| *place);
        for (place, blob) in kept {
            let is_spared = place.is_some_and(|place| place >= spared);
            if is_spared || blobs.bytes() <= blobs.cap() / 5 * 3 {
                return;
            }
            blobs.remove(blob);
        }
    }
}

const BLOBS: &str = "blobs";
const TREE: &str = "tree";
