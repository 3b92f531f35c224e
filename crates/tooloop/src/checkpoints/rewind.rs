//! Restoring files.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::keeper::{Keeper, Located};
use super::manifest::{Begun, By, Change, Changed, Found, Line};
use super::place::Root;
use super::state::{PathText, Stamp, State};
use super::store::{MOST_FILE, Want};
use super::tree::Quit;

/// What was, or would be, done to files. Paths are relative to the workspace, or absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesRewound {
    /// Files that are again as they were: their content, their mode, or that they are there.
    pub restored: Vec<PathBuf>,
    /// Files that are gone again, since they were not there before.
    pub removed: Vec<PathBuf>,
    /// Files that somebody else has changed meanwhile. They were left alone, unless forced.
    pub changed_by_others: Vec<PathBuf>,
    /// Files that cannot be restored, and why.
    pub lost: Vec<(PathBuf, String)>,
    /// What is not known at all: sentences for a person.
    pub unknown: Vec<String>,
}

impl FilesRewound {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A place in the record of changes to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// To before this turn.
    Turn(u32),
    /// To before the newest rewind.
    Rewind,
}

/// How files are restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct How {
    /// Also those that somebody else has changed.
    pub(crate) force: bool,
    /// Only say what would be done.
    pub(crate) dry: bool,
}

/// What is to be done at a path.
struct Step {
    path: PathText,
    target: State,
    current: State,
}

/// What the changes of a file from some place on come to.
struct Course {
    target: State,
    expected: State,
    /// Nobody else came between.
    is_unbroken: bool,
}

impl Keeper {
    /// Says what a rewind would do, and does it unless it is `dry`.
    ///
    /// # Errors
    /// If it could not be recorded: then nothing is done.
    pub(super) fn rewind(
        &mut self,
        back: Back,
        turns: u32,
        how: How,
        has_work: bool,
        quit: Quit<'_>,
    ) -> io::Result<FilesRewound> {
        let How { force, dry } = how;
        let cancelled = |_| io::Error::from(io::ErrorKind::Interrupted);
        self.load(quit).map_err(cancelled)?;
        self.history.catch_up(turns);
        self.catch_work(has_work, quit);
        let start = match back {
            Back::Turn(turn) => self.history.start_of(turn),
            Back::Rewind => self.history.newest_rewind().unwrap_or(self.history.len()),
        };
        let mut report = FilesRewound::default();
        for (turn, why) in self.history.unwatched(start) {
            report.unknown.push(format!(
                "what a command of turn {turn} changed was not watched: {why}"
            ));
        }
        let steps = self.plan(start, force, &mut report);
        if dry {
            for step in &steps {
                report.count(step.path.path(), &step.target);
            }
        } else if !steps.is_empty() {
            self.carry_out(turns, steps, &mut report)?;
        }
        report.sort();
        Ok(report)
    }

    fn plan(&mut self, start: usize, force: bool, report: &mut FilesRewound) -> Vec<Step> {
        let mut steps = Vec::new();
        for (path, course) in self.courses(start) {
            let shown = path.path().to_owned();
            if let State::Unknown { why } = &course.target {
                report.lost.push((shown, why.clone()));
                continue;
            }
            let current = self.look(path.path(), Want::Name);
            if self.is_same(path.path(), &course.target, &current) {
                continue;
            }
            if let State::Unknown { why } = &current {
                report.lost.push((shown, why.clone()));
                continue;
            }
            let is_ours =
                course.is_unbroken && self.is_same(path.path(), &course.expected, &current);
            if !is_ours {
                report.changed_by_others.push(shown.clone());
                if !force {
                    continue;
                }
            }
            let why = match &course.target {
                State::Unkept { why, .. } => Some(why.clone()),
                State::Special => Some("it was a pipe, a socket or a device".into()),
                State::File { blob, .. } if !self.store.blobs.holds(*blob) => {
                    Some("its old content is not kept, or was let go of to make room".to_owned())
                }
                State::Absent
                | State::Folder { .. }
                | State::File { .. }
                | State::Link { .. }
                | State::Unknown { .. } => None,
            };
            match why {
                Some(why) => report.lost.push((shown, why)),
                None => steps.push(Step {
                    path,
                    target: course.target,
                    current,
                }),
            }
        }
        steps
    }

    /// What became of each file from a place on.
    fn courses(&self, start: usize) -> Vec<(PathText, Course)> {
        let mut places: HashMap<&Path, usize> = HashMap::new();
        let mut courses: Vec<(PathText, Course)> = Vec::new();
        for (_, change) in self.history.since(start) {
            let place = *places.entry(change.path.path()).or_insert(courses.len());
            match courses.get_mut(place) {
                Some((_, course)) => {
                    course.is_unbroken &= course.expected == change.before;
                    course.expected = change.after.clone();
                }
                None => {
                    let course = Course {
                        target: change.before.clone(),
                        expected: change.after.clone(),
                        is_unbroken: true,
                    };
                    courses.push((change.path.clone(), course));
                }
            }
        }
        above_something_is_a_folder(&mut courses);
        below_nothing_is_nothing(&mut courses);
        courses
    }

    /// Whether what is there is this. Of what was too large to be read, the stamp tells.
    fn is_same(&self, path: &Path, wanted: &State, current: &State) -> bool {
        match wanted {
            State::Unkept { stamp, .. } => self.stamp(path).is_some_and(|now| now == *stamp),
            other => other == current,
        }
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let Located { base, below } = self.locate(path)?;
        let metadata = fs::symlink_metadata(base.join(below)).ok()?;
        Some(Stamp::of(&metadata))
    }

    fn carry_out(
        &mut self,
        turns: u32,
        steps: Vec<Step>,
        report: &mut FilesRewound,
    ) -> io::Result<()> {
        let mut ready = Vec::new();
        for step in steps {
            // Kept, so that this can be undone.
            let now = self.look(step.path.path(), Want::Content(MOST_FILE));
            if now == step.current {
                ready.push(step);
            } else {
                report.changed_by_others.push(step.path.0);
            }
        }
        let wanted = ready.len();
        let on_the_way = self.on_the_way(&ready);
        ready.extend(on_the_way);
        let found = |step: &Step| Found {
            path: step.path.clone(),
            state: step.current.clone(),
        };
        self.must_append(Line::Begun(Begun {
            turn: turns,
            call: "rewind".into(),
            by: By::Rewind,
            files: ready.iter().map(found).collect(),
        }))?;
        let outcomes = self.in_order(&ready);
        let mut files = Vec::new();
        for (place, (step, outcome)) in ready.into_iter().zip(outcomes).enumerate() {
            match outcome {
                // Nobody wanted it for itself.
                _ if place >= wanted => {}
                Ok(()) => report.count(step.path.path(), &step.target),
                Err(why) => report.lost.push((step.path.0.clone(), why)),
            }
            let after = self.look(step.path.path(), Want::Name);
            self.note(step.path.path(), &after);
            if after != step.current {
                files.push(Change {
                    path: step.path,
                    before: step.current,
                    after,
                });
            }
        }
        self.append(&[Line::Changed(Changed {
            turn: turns,
            by: By::Rewind,
            files,
        })]);
        Ok(())
    }

    /// The folders that somebody else has removed, and that files are to be restored in: they are
    /// made on the way, and are changes as well.
    fn on_the_way(&mut self, steps: &[Step]) -> Vec<Step> {
        let mut seen: HashSet<PathBuf> = steps
            .iter()
            .map(|step| step.path.path().to_owned())
            .collect();
        let mut made = Vec::new();
        for step in steps {
            if !matches!(step.target, State::File { .. } | State::Link { .. }) {
                continue;
            }
            for folder in step.path.path().ancestors().skip(1) {
                let is_inside = !folder.as_os_str().is_empty() && self.locate(folder).is_some();
                if !is_inside || !seen.insert(folder.to_owned()) {
                    continue;
                }
                let current = self.look(folder, Want::Name);
                if current == State::Absent {
                    made.push(Step {
                        path: PathText(folder.to_owned()),
                        target: State::Folder { mode: 0o755 },
                        current,
                    });
                }
            }
        }
        made
    }

    /// First makes room, from the deepest on, then makes folders, then files.
    fn in_order(&self, steps: &[Step]) -> Vec<Result<(), String>> {
        let is_folder = |state: &State| matches!(state, State::Folder { .. });
        let mut order: Vec<_> = steps.iter().enumerate().collect();
        order.sort_by_key(|(_, step)| step.path.path().components().count());
        let mut outcomes: Vec<Result<(), String>> = steps.iter().map(|_| Ok(())).collect();
        let mut run = |place: usize, step: &Step, act: &dyn Fn(&Root, &Path) -> io::Result<()>| {
            if let Some(outcome) = outcomes.get_mut(place)
                && outcome.is_ok()
            {
                *outcome = self.at(step, act).map_err(|error| error.to_string());
            }
        };
        for (place, step) in order.iter().rev() {
            let changes_kind = is_folder(&step.current) != is_folder(&step.target);
            if step.current.is_there() && (step.target == State::Absent || changes_kind) {
                run(*place, step, &|root, below| {
                    if is_folder(&step.current) {
                        root.remove_folder(below)
                    } else {
                        root.remove(below)
                    }
                });
            }
        }
        for (place, step) in &order {
            if let State::Folder { mode } = step.target {
                run(*place, step, &|root, below| root.make_folder(below, mode));
            }
        }
        for (place, step) in &order {
            match &step.target {
                State::File { blob, mode, .. } => run(*place, step, &|root, below| {
                    let bytes = self.store.blobs.read(*blob)?;
                    root.write(below, &bytes, *mode)
                }),
                State::Link { target } => run(*place, step, &|root, below| {
                    root.write_link(below, target.path().as_os_str())
                }),
                State::Absent
                | State::Folder { .. }
                | State::Special
                | State::Unkept { .. }
                | State::Unknown { .. } => {}
            }
        }
        outcomes
    }

    fn at(&self, step: &Step, act: &dyn Fn(&Root, &Path) -> io::Result<()>) -> io::Result<()> {
        let Some(Located { base, below }) = self.locate(step.path.path()) else {
            return Err(io::Error::other("it is outside of the workspace"));
        };
        act(&Root::open(&base)?, &below)
    }
}

/// Where something was found before anything became of the folder that it is in, that folder was
/// there: somebody else has removed it since, and a rewind has made it again on its way.
fn above_something_is_a_folder(courses: &mut Vec<(PathText, Course)>) {
    let mut folders: HashSet<PathBuf> = HashSet::new();
    courses.retain(|(path, course)| match course.target {
        State::Absent => !folders.contains(path.path()),
        State::Folder { .. }
        | State::File { .. }
        | State::Link { .. }
        | State::Special
        | State::Unkept { .. } => {
            folders.extend(path.path().ancestors().skip(1).map(Path::to_owned));
            true
        }
        State::Unknown { .. } => true,
    });
}

/// A tool that names a folder need not name what is in it. Where the folder was not there, or was
/// none, nothing was below it, whatever a later change found there.
fn below_nothing_is_nothing(courses: &mut [(PathText, Course)]) {
    let no_folders: HashSet<PathBuf> = courses
        .iter()
        .filter(|(_, course)| match course.target {
            State::Absent | State::File { .. } | State::Link { .. } | State::Special => true,
            State::Folder { .. } | State::Unkept { .. } | State::Unknown { .. } => false,
        })
        .map(|(path, _)| path.path().to_owned())
        .collect();
    for (path, course) in courses {
        let mut above = path.path().ancestors().skip(1);
        if above.any(|folder| no_folders.contains(folder)) {
            course.target = State::Absent;
        }
    }
}

impl FilesRewound {
    fn count(&mut self, path: &Path, target: &State) {
        let list = match target {
            State::Absent => &mut self.removed,
            State::Folder { .. }
            | State::File { .. }
            | State::Link { .. }
            | State::Special
            | State::Unkept { .. }
            | State::Unknown { .. } => &mut self.restored,
        };
        list.push(path.to_owned());
    }

    fn sort(&mut self) {
        self.restored.sort();
        self.removed.sort();
        self.changed_by_others.sort();
        self.changed_by_others.dedup();
        self.lost.sort();
    }
}
