//! Files by content.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{JudgedPaths, Tool, ToolContext, ToolError, ToolOutput, Withheld};

use super::answer::answer;
use super::found::Found;
use super::matcher::matcher;
use super::pattern::{Pattern, split};
use super::report::named;
use super::root::Root;
use super::searcher::Search;
use super::sink::Keep;
use super::walk::{Plan, Trouble, walk};
use super::{Count, Quit, SearchSettings, blocking};

/// How many lines of context may be asked for.
const MAX_CONTEXT: u32 = 50;

/// Finds lines that match a regular expression.
#[derive(Debug)]
pub struct Grep {
    settings: Arc<SearchSettings>,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepInput {
    /// Regular expression.
    pub pattern: String,
    /// File or folder to search.
    #[serde(default)]
    pub path: Option<String>,
    /// Only files like `*.rs` or `src/**`; `!` in front: only others.
    #[serde(default)]
    pub glob: Option<String>,
    /// What to show.
    #[serde(default)]
    pub mode: GrepMode,
    /// Lower and upper case alike.
    #[serde(default)]
    pub ignore_case: bool,
    /// Lines to show before and after.
    #[serde(default)]
    pub context: Option<Count>,
    /// Match across lines; `.` matches line ends too.
    #[serde(default)]
    pub multiline: bool,
    /// Show at most so many.
    #[serde(default)]
    pub limit: Option<Count>,
    /// Hidden and ignored files too.
    #[serde(default)]
    pub all: bool,
}

/// What is shown of what was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum GrepMode {
    #[default]
    #[doc = "The lines, with their numbers."]
    Lines,
    #[doc = "The files that have any."]
    Files,
    #[doc = "How many each file has."]
    Count,
}

impl Grep {
    /// A search with these bounds.
    #[must_use]
    pub fn new(settings: impl Into<Arc<SearchSettings>>) -> Self {
        Self {
            settings: settings.into(),
        }
    }
}

impl GrepInput {
    fn path(&self) -> &Path {
        Path::new(self.path.as_deref().unwrap_or("."))
    }
}

impl Tool for Grep {
    type Input = GrepInput;

    fn name(&self) -> &str {
        "grep"
    }

    fn description(&self) -> &str {
        r"Searches the contents of files with a regular expression in Rust's syntax (escape { } ( ) [ ] to find them as text; no look-around). Hidden, ignored and binary files are left out."
    }

    fn access(&self, input: &GrepInput) -> Access {
        Access::read_only().reading(input.path())
    }

    async fn run(&self, input: GrepInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        let settings = self.settings.within(context);
        let workspace = context.working_directory.clone();
        let (withheld, judged) = (context.withheld.clone(), context.judged.clone());
        blocking(context, move |quit| {
            search(&input, &workspace, &settings, quit, (&withheld, &judged))
        })
        .await
    }
}

fn search(
    input: &GrepInput,
    workspace: &Path,
    settings: &SearchSettings,
    quit: &Quit,
    (withheld, judged): (&Withheld, &JudgedPaths),
) -> Result<ToolOutput, ToolError> {
    let matcher =
        matcher(&input.pattern, input.ignore_case, input.multiline).map_err(ToolError::Failed)?;
    let keep = keep(input, settings)?;
    let (excludes, glob) = match input.glob.as_deref() {
        None => (false, None),
        Some(glob) => {
            let excludes = glob.starts_with('!');
            let bare = glob.strip_prefix('!').unwrap_or(glob);
            // Its folder would say where to search, which the path says.
            if let (Some(folder), rest) = split(bare) {
                return Err(ToolError::Failed(format!(
                    "glob: a pattern here is for the files below path, and {} leads out of it; \
                     give {} as path and {} as glob",
                    named(bare),
                    named(&folder.to_string_lossy()),
                    named(rest)
                )));
            }
            let pattern = Pattern::parse(bare)
                .map_err(|error| ToolError::Failed(format!("glob: {error}")))?;
            (excludes, Some(Arc::new(pattern)))
        }
    };
    let root = Root::find(workspace, input.path(), settings.view.as_ref(), judged)?;
    let found = AtomicBool::new(false);
    let make = || {
        let matcher = matcher.clone();
        Search::new(
            matcher,
            input.multiline,
            settings.heap_bytes,
            keep,
            quit,
            &found,
        )
    };
    let (searches, trouble) = if root.is_file {
        let mut search = make();
        let mut trouble = Trouble::default();
        search.one(&root.path, Path::new(""), &mut trouble);
        if quit.now() {
            return Err(ToolError::Cancelled);
        }
        (vec![search], trouble)
    } else {
        let plan = Plan {
            folder: root.path.clone(),
            pattern: glob,
            excludes,
            all: input.all,
            threads: settings.threads,
            quit: quit.clone(),
            withheld: withheld.clone(),
        };
        walk(&plan, workspace, make)?
    };
    let found = searches
        .into_iter()
        .map(|search| search.found)
        .reduce(Found::join);
    Ok(answer(input, settings, keep, &root, found, &trouble))
}

fn keep(input: &GrepInput, settings: &SearchSettings) -> Result<Keep, ToolError> {
    let invalid = |problem: String| ToolError::InvalidInput {
        tool: "grep".into(),
        problem,
    };
    let context = input.context.map_or(0, |context| context.0);
    if context > MAX_CONTEXT {
        return Err(invalid(format!(
            "context must be from 0 to {MAX_CONTEXT}, not {context}; read the file for more"
        )));
    }
    let limit = match input.limit {
        Some(Count(0)) => return Err(invalid("limit must be at least 1".into())),
        Some(Count(limit)) => usize::try_from(limit).unwrap_or(usize::MAX),
        None => settings.matches,
    };
    Ok(Keep {
        mode: input.mode,
        matches: limit.min(settings.matches),
        bytes: settings.characters.saturating_mul(4),
        context: u64::from(context),
    })
}
