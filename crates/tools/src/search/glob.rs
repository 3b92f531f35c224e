//! Files by name.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{JudgedPaths, Tool, ToolContext, ToolError, ToolOutput, Withheld};

use super::look::Looker;
use super::pattern::{Pattern, split};
use super::report::{Report, count, grouped, named};
use super::root::Root;
use super::walk::{Plan, Trouble, Visit, walk};
use super::{Quit, SearchSettings, blocking};
use crate::no_links;

/// How many folders are named where no file matches.
const FOLDERS: usize = 5;

/// Finds files by a pattern for their paths.
#[derive(Debug)]
pub struct Glob {
    settings: Arc<SearchSettings>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobInput {
    /// Such as `src/**/*.rs` or `*.{yml,yaml}`.
    pub pattern: String,
    /// Folder to look in.
    #[serde(default)]
    pub path: Option<String>,
    /// Hidden and ignored files too.
    #[serde(default)]
    pub all: bool,
}

impl Glob {
    /// A search with these bounds.
    #[must_use]
    pub fn new(settings: impl Into<Arc<SearchSettings>>) -> Self {
        Self {
            settings: settings.into(),
        }
    }
}

impl GlobInput {
    /// The folder that is looked in.
    fn folder(&self) -> PathBuf {
        let given = Path::new(self.path.as_deref().unwrap_or("."));
        match split(&self.pattern).0 {
            Some(base) => given.join(base),
            None => given.to_owned(),
        }
    }
}

impl Tool for Glob {
    type Input = GlobInput;

    fn name(&self) -> &str {
        "glob"
    }

    fn description(&self) -> &str {
        "Finds files by name, newest first. A pattern without / matches at any depth. Hidden files \
         are found only if the pattern names the dot, ignored files only with all."
    }

    fn access(&self, input: &GlobInput) -> Access {
        Access::read_only().reading(input.folder())
    }

    async fn run(&self, input: GlobInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let settings = self.settings.within(context);
        let workspace = context.working_directory.clone();
        let (withheld, judged) = (context.withheld.clone(), context.judged.clone());
        blocking(context, move |quit| {
            find(&input, &workspace, &settings, quit, (&withheld, &judged))
        })
        .await
    }
}

fn find(
    input: &GlobInput,
    workspace: &Path,
    settings: &SearchSettings,
    quit: &Quit,
    (withheld, judged): (&Withheld, &JudgedPaths),
) -> Result<ToolOutput, ToolError> {
    let pattern = Pattern::parse(&input.pattern).map_err(ToolError::Failed)?;
    let pattern = Arc::new(pattern);
    let root = Root::find(workspace, &input.folder(), settings.view.as_ref(), judged)?;
    if root.is_file {
        return Err(ToolError::Failed(format!(
            "{} is a file: give the folder to look in as path",
            root.name()
        )));
    }
    let plan = Plan {
        folder: root.path.clone(),
        pattern: Some(Arc::clone(&pattern)),
        excludes: false,
        all: input.all,
        threads: settings.threads,
        quit: quit.clone(),
        withheld: withheld.clone(),
    };
    let (visits, trouble) = walk(&plan, workspace, || Newest {
        limit: settings.paths,
        root: root.path.clone(),
        pattern: Arc::clone(&pattern),
        kept: BinaryHeap::new(),
        looker: Looker::default(),
        found: 0,
        folders: BTreeSet::new(),
    })?;
    let merged = visits.into_iter().reduce(Newest::join);
    Ok(answer(input, settings, &root, merged, &trouble))
}

fn answer(
    input: &GlobInput,
    settings: &SearchSettings,
    root: &Root,
    newest: Option<Newest>,
    trouble: &Trouble,
) -> ToolOutput {
    let (kept, found, folders) = newest.map_or_else(Default::default, |newest| {
        (newest.kept.into_sorted_vec(), newest.found, newest.folders)
    });
    let mut report = Report::new(settings.characters);
    let mut notes = trouble.lines();
    let mut shown = 0_u64;
    for (_, path) in &kept {
        if !report.add(&root.show(Path::new(path))) {
            break;
        }
        shown += 1;
    }
    if found == 0 {
        report.add(&nothing(input, root, &folders));
    } else if shown < found {
        notes.push(format!(
            "({} of {} shown, the newest; {} left out: narrow the pattern or give a path)",
            grouped(shown),
            count(found, "file"),
            grouped(found - shown)
        ));
    }
    ToolOutput {
        details: Some(count(found, "file")),
        ..ToolOutput::text(report.finish(&notes))
    }
}

fn nothing(input: &GlobInput, root: &Root, folders: &BTreeSet<PathBuf>) -> String {
    let pattern = named(&input.pattern);
    let mut text = format!("no files match {pattern} in {}", root.name());
    if !folders.is_empty() {
        let folders: Vec<String> = folders
            .iter()
            .map(|folder| format!("{}/", root.show(folder)))
            .collect();
        text.push_str(&format!("; folders do: {}", folders.join(", ")));
    }
    if !input.all {
        text.push_str(" (hidden and ignored files were left out; all: true takes them in)");
    }
    text
}

/// The newest files of one thread: no more of them than can be shown.
struct Newest {
    limit: usize,
    root: PathBuf,
    pattern: Arc<Pattern>,
    /// The one to give up first is on top: the oldest, of those the last by path.
    kept: BinaryHeap<(Reverse<(i64, u64)>, OsString)>,
    looker: Looker,
    found: u64,
    folders: BTreeSet<PathBuf>,
}

impl Newest {
    fn keep(&mut self, modified: (i64, u64), path: &Path) {
        let modified = Reverse(modified);
        if self.kept.len() >= self.limit {
            let better = self
                .kept
                .peek()
                .is_some_and(|worst| (modified, path.as_os_str()) < (worst.0, worst.1.as_os_str()));
            if !better {
                return;
            }
            self.kept.pop();
        }
        self.kept.push((modified, path.as_os_str().to_owned()));
    }

    fn join(mut self, other: Self) -> Self {
        self.found += other.found;
        for (Reverse(modified), path) in other.kept {
            self.keep(modified, Path::new(&path));
        }
        self.folders.extend(other.folders);
        while self.folders.len() > FOLDERS {
            self.folders.pop_last();
        }
        self
    }
}

impl Visit for Newest {
    fn file(&mut self, entry: &DirEntry, below: &Path, trouble: &mut Trouble) {
        let look = match self.looker.look(entry.path()) {
            Ok(look) => look,
            Err(error) => return trouble.file(&error),
        };
        let is_file = if look.kind.is_symlink() {
            // A link to a file is a file by another name; it is listed, and never walked.
            fs::metadata(entry.path()).is_ok_and(|target| target.is_file())
        } else {
            look.kind.is_file()
        };
        if is_file {
            self.found += 1;
            self.keep(look.modified, below);
        }
    }

    fn folder(&mut self, below: &Path) {
        if self.found == 0
            && self.pattern.matches(below)
            && no_links::stat(&self.root.join(below)).is_ok()
        {
            self.folders.insert(below.to_owned());
            if self.folders.len() > FOLDERS {
                self.folders.pop_last();
            }
        }
    }
}
