//! Walking the files below a folder with several threads.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};
use tooloop_tool::{ToolError, Withheld};

use super::Quit;
use super::pattern::Pattern;
use super::root::harmless;

/// The largest file of ignore rules that is read, in bytes.
const MAX_RULES: u64 = 4 << 20;

/// What is walked.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The folder, without links.
    pub(super) folder: PathBuf,
    /// What the paths below it have to match.
    pub(super) pattern: Option<Arc<Pattern>>,
    /// Whether it says what is left out.
    pub(super) excludes: bool,
    /// Whether files that are hidden or ignored count too.
    pub(super) all: bool,
    pub(super) threads: usize,
    pub(super) quit: Quit,
    /// What rules forbid to show.
    pub(super) withheld: Withheld,
}

/// Takes what one thread meets.
pub(super) trait Visit: Send {
    /// A file that matches, or a link to something. The path is relative to the folder.
    fn file(&mut self, entry: &DirEntry, below: &Path, trouble: &mut Trouble);

    /// A folder on the way.
    fn folder(&mut self, below: &Path) {
        let _ = below;
    }
}

/// What could not be looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Folders that may not be read.
    pub(super) denied_folders: u64,
    /// Files that may not be read.
    pub(super) denied_files: u64,
    /// What could not be read for another reason.
    pub(super) unreadable: u64,
    /// Folders whose ignore rules are not a file, or too large a one.
    pub(super) bad_rules: u64,
    /// Files, and folders with all in them, that permission rules withhold.
    pub(super) withheld: u64,
}

impl Trouble {
    fn add(&mut self, other: &Self) {
        self.denied_folders += other.denied_folders;
        self.denied_files += other.denied_files;
        self.unreadable += other.unreadable;
        self.bad_rules += other.bad_rules;
        self.withheld += other.withheld;
    }

    /// Counts a file that could not be read.
    pub(super) fn file(&mut self, error: &std::io::Error) {
        match error.kind() {
            // It was there a moment ago.
            ErrorKind::NotFound => {}
            ErrorKind::PermissionDenied => self.denied_files += 1,
            _ => self.unreadable += 1,
        }
    }

    fn folder(&mut self, error: &ignore::Error) {
        // Rules that do not parse, and the like, leave no file out.
        let Some(error) = error.io_error() else {
            return;
        };
        match error.kind() {
            ErrorKind::NotFound => {}
            ErrorKind::PermissionDenied => self.denied_folders += 1,
            _ => self.unreadable += 1,
        }
    }

    /// A line for each kind, without a line's end.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let denied: Vec<String> = [(self.denied_folders, "folder"), (self.denied_files, "file")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| super::report::count(count, what))
            .collect();
        if !denied.is_empty() {
            lines.push(format!(
                "({} left out: permission denied)",
                denied.join(" and ")
            ));
        }
        if self.unreadable > 0 {
            let what = super::report::count(self.unreadable, "file");
            lines.push(format!("({what} left out: reading failed)"));
        }
        if self.withheld > 0 {
            let what = super::report::count(self.withheld, "entry").replace("entrys", "entries");
            lines.push(format!(
                "({what} left out: a permission rule withholds them)"
            ));
        }
        if self.bad_rules > 0 {
            let what = super::report::count(self.bad_rules, "folder");
            lines.push(format!(
                "({what} left out: the ignore file in it is no regular file, or too large; set all \
                 to search without ignore files)"
            ));
        }
        lines
    }
}

/// Walks. Gives what each thread took, and what could not be looked at.
pub(super) fn walk<V: Visit>(
    plan: &Plan,
    workspace: &Path,
    make: impl Fn() -> V,
) -> Result<(Vec<V>, Trouble), ToolError> {
    if !plan.all {
        check_rules_above(&plan.folder)?;
    }
    let names_hidden = plan
        .pattern
        .as_ref()
        .is_some_and(|pattern| !plan.excludes && pattern.names_hidden());
    let shared = Trouble::default();
    let shared = Arc::new(Mutex::new(shared));
    let gate = Gate {
        plan: plan.clone(),
        names_hidden: names_hidden && !plan.all,
        trouble: Arc::clone(&shared),
    };
    let walker = WalkBuilder::new(&plan.folder)
        .hidden(!plan.all && !names_hidden)
        .parents(!plan.all)
        .ignore(!plan.all)
        .git_global(!plan.all)
        .git_ignore(!plan.all)
        .git_exclude(!plan.all)
        // Where there is no repository at all, its rules are meant all the same.
        .require_git(in_repository(&plan.folder))
        .follow_links(false)
        .threads(plan.threads.max(1))
        .current_dir(workspace)
        .filter_entry(move |entry| gate.passes(entry))
        .build_parallel();
    let taken = Mutex::new(Vec::new());
    walker.visit(&mut Builder {
        plan,
        make,
        taken: &taken,
    });
    if plan.quit.now() {
        return Err(ToolError::Cancelled);
    }
    let taken = taken.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut trouble = shared
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    let mut visits = Vec::with_capacity(taken.len());
    for (visit, its) in taken {
        trouble.add(&its);
        visits.push(visit);
    }
    Ok((visits, trouble))
}

/// Decides on each entry before it is queued.
struct Gate {
    plan: Plan,
    names_hidden: bool,
    trouble: Arc<Mutex<Trouble>>,
}

impl Gate {
    fn passes(&self, entry: &DirEntry) -> bool {
        let name = entry.file_name();
        if self.plan.quit.now() || name == ".git" {
            return false;
        }
        let pattern = self.plan.pattern.as_deref();
        if self.names_hidden && is_hidden(name) && !pattern.is_some_and(|it| it.names(name)) {
            return false;
        }
        if self.plan.withheld.holds(entry.path()) {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            trouble.withheld += 1;
            return false;
        }
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        if !is_folder {
            return pattern.is_none_or(|pattern| {
                pattern.matches(below(entry, &self.plan.folder)) != self.plan.excludes
            });
        }
        let wanted = pattern.is_none_or(|pattern| {
            let matches = pattern.matches(below(entry, &self.plan.folder));
            if self.plan.excludes {
                !matches
            } else {
                // One that matches itself is looked at, so that it can be told of.
                matches || pattern.may_be_below(name, entry.depth())
            }
        });
        wanted && self.has_good_rules(entry.path())
    }

    /// The library opens what bears the name of an ignore file, whatever it is: a pipe would hold
    /// the search for ever.
    fn has_good_rules(&self, folder: &Path) -> bool {
        let good = self.plan.all || bad_rules(folder).is_none();
        if !good {
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            trouble.bad_rules += 1;
        }
        good
    }
}

/// The file of ignore rules in a folder that must not be read.
fn bad_rules(folder: &Path) -> Option<PathBuf> {
    [".gitignore", ".ignore", ".git/info/exclude"]
        .into_iter()
        .map(|name| folder.join(name))
        .find(|path| {
            path.metadata()
                .is_ok_and(|found| !found.is_dir() && (!found.is_file() || found.len() > MAX_RULES))
        })
}

fn check_rules_above(folder: &Path) -> Result<(), ToolError> {
    match folder.ancestors().find_map(bad_rules) {
        None => Ok(()),
        Some(path) => Err(ToolError::Failed(format!(
            "the ignore file {} is no regular file, or too large: set all to search without ignore \
             files",
            harmless(&path.to_string_lossy())
        ))),
    }
}

fn in_repository(folder: &Path) -> bool {
    folder
        .ancestors()
        .any(|folder| folder.join(".git").exists() || folder.join(".jj").exists())
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

/// The path of an entry below the folder of the walk. All begin with that folder letter by letter,
/// so there is no need to compare part by part, which shows where there are many.
fn below<'e>(entry: &'e DirEntry, folder: &Path) -> &'e Path {
    let path = entry.path();
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let rest = path
            .as_os_str()
            .as_bytes()
            .strip_prefix(folder.as_os_str().as_bytes());
        if let Some(rest) = rest {
            return Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)));
        }
    }
    path.strip_prefix(folder).unwrap_or(path)
}

struct Builder<'w, V, M> {
    plan: &'w Plan,
    make: M,
    taken: &'w Mutex<Vec<(V, Trouble)>>,
}

impl<'w, V: Visit + 'w, M: Fn() -> V> ParallelVisitorBuilder<'w> for Builder<'w, V, M> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 'w> {
        Box::new(Visitor {
            plan: self.plan,
            visit: Some((self.make)()),
            trouble: Trouble::default(),
            taken: self.taken,
        })
    }
}

/// One thread's eyes. What it took is handed over once, when the thread is done.
struct Visitor<'w, V> {
    plan: &'w Plan,
    visit: Option<V>,
    trouble: Trouble,
    taken: &'w Mutex<Vec<(V, Trouble)>>,
}

impl<V: Visit> ParallelVisitor for Visitor<'_, V> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        if self.plan.quit.now() {
            return WalkState::Quit;
        }
        let Some(visit) = &mut self.visit else {
            return WalkState::Quit;
        };
        match entry {
            Ok(entry) => {
                let below = below(&entry, &self.plan.folder);
                if entry.file_type().is_some_and(|kind| kind.is_dir()) {
                    visit.folder(below);
                } else {
                    visit.file(&entry, below, &mut self.trouble);
                }
            }
            Err(error) => self.trouble.folder(&error),
        }
        WalkState::Continue
    }
}

impl<V> Drop for Visitor<'_, V> {
    fn drop(&mut self) {
        if let Some(visit) = self.visit.take() {
            self.taken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((visit, std::mem::take(&mut self.trouble)));
        }
    }
}
