//! Programs that want a terminal: shells, REPLs, installers, full-screen programs.
//!
//! The program runs on a terminal of its own and the model sees the screen as a person would. What
//! is typed is opaque: nobody can prove what a program makes of it, so each start and each
//! sending is judged as such.

mod keys;
mod list;
mod live;
mod screen;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tooloop_exec::{Command, Environment, Shell, TerminalSize};
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use crate::confinement::{ToolConfinement, Wall};
use crate::ending::not_started;
use crate::jobs::short;
use crate::{Ops, Wait};
use list::Terminals;
use live::{Live, Typed};

/// How much may be typed at once.
const INPUT: usize = 64 * 1024;

/// For how long a screen is waited for where the call does not say.
const WAIT: Duration = Duration::from_secs(2);

/// How long a call that was cancelled may still take.
const PROMPT: Duration = Duration::from_millis(50);

/// The largest sizes.
const MAX_ROWS: u16 = 200;
const MAX_COLUMNS: u16 = 400;

/// Runs programs on terminals, types into them and shows their screens.
pub struct Terminal {
    settings: Arc<TerminalSettings>,
    terminals: Arc<Terminals>,
}

/// What a [`Terminal`] needs of the world.
#[derive(Debug, Clone)]
pub struct TerminalSettings {
    /// The machine that programs run on.
    pub ops: Arc<dyn Ops>,
    /// What programs find in their environment: see [`Environment::fit_terminal`].
    pub environment: Arc<Environment>,
    /// The shell that starts them.
    pub shell: Shell,
    /// The sandbox that programs run in; `None`: none.
    pub confinement: Option<ToolConfinement>,
    /// How many may run at once.
    pub running: usize,
    /// After how long a silence a screen counts as complete.
    pub quiet: Duration,
    /// How long a program may take to read what is typed.
    pub typing: Duration,
}

impl TerminalSettings {
    /// The shell of this system, eight terminals, 150 ms of silence, 5 s to read what is typed.
    pub fn new(ops: Arc<dyn Ops>, environment: impl Into<Arc<Environment>>) -> Self {
        Self {
            ops,
            environment: environment.into(),
            shell: Shell::system().clone(),
            confinement: None,
            running: 8,
            quiet: Duration::from_millis(150),
            typing: Duration::from_secs(5),
        }
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TerminalAction {
    #[expect(missing_docs, reason = "the name says it, and each word costs tokens")]
    Start,
    #[expect(missing_docs, reason = "the name says it, and each word costs tokens")]
    Send,
    #[expect(missing_docs, reason = "the name says it, and each word costs tokens")]
    Read,
    #[expect(missing_docs, reason = "the name says it, and each word costs tokens")]
    Stop,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TerminalInput {
    #[expect(missing_docs, reason = "the name says it, and each word costs tokens")]
    pub action: TerminalAction,
    /// For start: what to run.
    #[serde(default)]
    pub command: Option<String>,
    /// For the others: the terminal, such as term_1.
    #[serde(default)]
    pub id: Option<String>,
    /// Text to type, as it is; a newline is the enter key.
    #[serde(default)]
    pub input: Option<String>,
    /// Keys to press after it, such as enter, esc, up, ctrl-c, f1.
    #[serde(default)]
    pub keys: Option<Vec<String>>,
    /// How long to wait for a quiet screen; 2000 after start and send.
    #[serde(default)]
    pub wait_ms: Option<Wait<60_000>>,
    /// Lines of the screen: 24.
    #[serde(default)]
    #[schemars(range(min = 2, max = 200))]
    pub rows: Option<u16>,
    /// Its columns: 80.
    #[serde(default)]
    #[schemars(range(min = 2, max = 400))]
    pub cols: Option<u16>,
}

impl Terminal {
    /// Terminals.
    #[must_use]
    pub fn new(settings: TerminalSettings) -> Self {
        Self {
            settings: Arc::new(settings),
            terminals: Arc::default(),
        }
    }

    async fn start(
        &self,
        input: &TerminalInput,
        context: &ToolContext,
    ) -> Result<Arc<Live>, ToolError> {
        let text = given(input.command.as_deref(), "start needs a command")?;
        let settings = &self.settings;
        self.terminals.admit(settings.running)?;
        let size = TerminalSize {
            rows: input.rows.unwrap_or(24),
            columns: input.cols.unwrap_or(80),
        };
        let directory: &Path = &context.working_directory;
        let mut command = Command::new(text, directory, Arc::clone(&settings.environment));
        command.shell = settings.shell.clone();
        let wall = match &settings.confinement {
            Some(confinement) => confinement.wall_for(context, directory)?,
            None => None,
        };
        command.sandbox = wall.as_ref().map(Wall::confined);
        let started = tokio::select! {
            started = settings.ops.open_terminal(command, size) => started,
            () = context.cancellation.cancelled() => return Err(ToolError::Cancelled),
        };
        let terminal = started.map_err(|error| not_started(&error))?;
        let background = &context.background;
        let title = short(text);
        let grants = context.grants.clone();
        let terminals = &self.terminals;
        Ok(terminals.add(title, terminal, size, background, (wall, grants)))
    }

    fn find(&self, input: &TerminalInput) -> Result<Arc<Live>, ToolError> {
        let id = given(
            input.id.as_deref(),
            "name the terminal in id, such as term_1",
        )?;
        self.terminals.find(id)
    }

    async fn act(
        &self,
        input: &TerminalInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let cancellation = &context.cancellation;
        let wait = input.wait_ms.map(|wait| wait.0);
        let mut note = None;
        let (live, seen, usual) = match input.action {
            TerminalAction::Start => (self.start(input, context).await?, 0, WAIT),
            TerminalAction::Send => {
                let live = self.find(input)?;
                let seen;
                (seen, note) = send(&live, input, self.settings.typing, cancellation).await?;
                (live, seen, WAIT)
            }
            TerminalAction::Read => {
                let live = self.find(input)?;
                let seen = live.shown();
                let is_told = resize(&live, input)? && live.is_running();
                (live, seen, if is_told { WAIT } else { Duration::ZERO })
            }
            TerminalAction::Stop => {
                let live = self.find(input)?;
                tokio::select! {
                    () = live.stop() => {}
                    // It goes on, and kills at its end.
                    () = cancellation.cancelled() => return Err(ToolError::Cancelled),
                }
                (live, u64::MAX, WAIT)
            }
        };
        let quiet = self.settings.quiet;
        let wait = wait.unwrap_or(usual);
        if live.settle(seen, quiet, wait, cancellation).await {
            return Ok(show(&live, note.as_deref(), context.room));
        }
        if input.action == TerminalAction::Start {
            // Nobody has been told of it. Should that take longer, it goes on, and kills at its end.
            timeout(PROMPT, live.stop()).await.unwrap_or_default();
        }
        Err(ToolError::Cancelled)
    }
}

/// Types what is to be typed. Gives how much had been printed before, and what is to be said.
async fn send(
    live: &Live,
    input: &TerminalInput,
    limit: Duration,
    cancellation: &CancellationToken,
) -> Result<(u64, Option<String>), ToolError> {
    let bytes = typed(input, live)?;
    if let Some(end) = live.end() {
        return Err(ToolError::Failed(format!(
            "{} has ended: {end}; start another one",
            live.id
        )));
    }
    resize(live, input)?;
    let _typing = tokio::select! {
        typing = live.typing.lock() => typing,
        () = cancellation.cancelled() => return Err(ToolError::Cancelled),
    };
    let seen = *live.printed.borrow();
    match live.type_bytes(&bytes, limit, cancellation).await {
        Typed::All => Ok((seen, None)),
        Typed::Part(taken) => {
            let all = bytes.len();
            let note = format!("(the program took only the first {taken} of {all} bytes)");
            Ok((seen, Some(note)))
        }
        Typed::Cancelled => Err(ToolError::Cancelled),
    }
}

fn given<'a>(value: Option<&'a str>, problem: &str) -> Result<&'a str, ToolError> {
    value
        .filter(|value| !value.trim().is_empty())
        .ok_or_else(|| invalid(problem))
}

fn invalid(problem: impl Into<String>) -> ToolError {
    ToolError::InvalidInput {
        tool: "terminal".into(),
        problem: problem.into(),
    }
}

/// The bytes to type.
fn typed(input: &TerminalInput, live: &Live) -> Result<Vec<u8>, ToolError> {
    let mut bytes = keys::text(input.input.as_deref().unwrap_or_default());
    let application_cursor = live.application_cursor();
    for name in input.keys.iter().flatten() {
        bytes.extend(keys::key(name, application_cursor)?);
    }
    if bytes.is_empty() {
        return Err(invalid("send needs input or keys"));
    }
    if bytes.len() > INPUT {
        return Err(ToolError::Failed(format!(
            "the input has {} bytes, and at most {INPUT} are typed at once: put it into a file",
            bytes.len()
        )));
    }
    Ok(bytes)
}

fn check_size(input: &TerminalInput) -> Result<(), ToolError> {
    let fits = |number: Option<u16>, most| number.is_none_or(|number| (2..=most).contains(&number));
    if fits(input.rows, MAX_ROWS) && fits(input.cols, MAX_COLUMNS) {
        return Ok(());
    }
    Err(invalid(format!(
        "rows must be from 2 to {MAX_ROWS} and cols from 2 to {MAX_COLUMNS}"
    )))
}

/// Changes the size if another one is asked for; `true` if so.
fn resize(live: &Live, input: &TerminalInput) -> Result<bool, ToolError> {
    live.resize(input.rows, input.cols)
        .map_err(|error| ToolError::Failed(format!("{} keeps its size: {error}", live.id)))
}

/// What the model sees.
fn show(live: &Live, note: Option<&str>, room: usize) -> ToolOutput {
    let (mut view, size) = live.show();
    let id = &live.id;
    let mut text = String::new();
    view.fit(room.saturating_sub(500));
    if view.left_out > 0 || !view.scrolled.is_empty() {
        if view.left_out > 0 {
            text.push_str(&format!("[... {} lines left out ...]\n", view.left_out));
        }
        for line in &view.scrolled {
            text.push_str(line);
            text.push('\n');
        }
    }
    let TerminalSize { rows, columns } = size;
    text.push_str(&format!("--- screen of {id}, {rows}x{columns} ---\n"));
    for line in &view.lines {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("---\n");
    for note in note
        .into_iter()
        .chain(live.notes().iter().map(String::as_str))
    {
        text.push_str(note);
        text.push('\n');
    }
    let state = match live.end() {
        Some(end) => format!("({id} has ended: {end}"),
        None => format!("({id} is running"),
    };
    let (row, column) = view.cursor;
    text.push_str(&format!("{state}; cursor at row {row}, column {column}"));
    if view.is_alternate {
        text.push_str("; alternate screen");
    }
    text.push(')');
    ToolOutput::text(text)
}

impl Tool for Terminal {
    type Input = TerminalInput;

    fn name(&self) -> &str {
        "terminal"
    }

    fn description(&self) -> &str {
        "Runs programs that need a terminal: REPLs, debuggers, installers, full-screen programs. \
         Start one, send input, read its screen, stop it. Each call answers with the screen. For \
         plain commands use bash."
    }

    fn access(&self, input: &TerminalInput) -> Access {
        match input.action {
            // A pager or a prompt makes a harmless line a way to run anything.
            TerminalAction::Start => {
                let line = input.command.as_deref().unwrap_or_default();
                Access::command(line).typing(line)
            }
            TerminalAction::Send => {
                let mut text = input.input.clone().unwrap_or_default();
                for key in input.keys.iter().flatten() {
                    text.push_str(&format!("<{key}>"));
                }
                // The program has what its terminal was given: typed text that uses it needs a rule
                // or an answer of its own.
                let live = self.find(input).ok();
                let grants = live.iter().flat_map(|live| live.grants.iter().cloned());
                grants.fold(Access::effectful().typing(text), Access::wanting)
            }
            // What has scrolled off is shown once, so a look that is thrown away would lose it.
            TerminalAction::Read | TerminalAction::Stop => Access::session(),
        }
    }

    async fn run(
        &self,
        input: TerminalInput,
        context: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        check_size(&input)?;
        self.act(&input, context).await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            settings: Arc::clone(&self.settings),
            terminals: scope.shared(Terminals::default),
        })
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Terminal")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
