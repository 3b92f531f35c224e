//! `tooloop`, a coding agent for the terminal.
//!
//! This file is the table of contents: what was typed, what is meant, which front end runs it, how
//! it ends. Each step is a module.

mod agents;
mod args;
mod callbacks;
mod control;
mod demo;
mod doctor;
mod exit;
mod hook_scripts;
mod initialize;
mod input;
mod interactive;
mod knowledge;
mod line;
mod output;
mod permissions;
mod print;
mod project_rules;
mod prompt;
mod questions;
mod records;
mod replay;
mod rewinding;
mod secrets;
mod sessions;
mod settings;
mod setup;
mod signals;
mod strict;
mod telemetry;
mod text;
mod toolset;
mod trust;
mod wall;
mod window;

use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::sync::mpsc;
use tooloop::{Approval, Mode, Planning};

use crate::args::{Cli, Command, InputFormat, OutputFormat, RunArgs};
use crate::control::Host;
use crate::exit::{Failure, Status};
use crate::initialize::Initialize;
use crate::input::Line;
use crate::print::{Print, Prompts, complain};
use crate::questions::Questions;
use crate::records::Records;
use crate::settings::Loaded;
use crate::setup::Setup;
use crate::signals::Signals;
use crate::strict::Strict;

fn main() -> ExitCode {
    // Where this process was started to shut a command in, that is all it does.
    tooloop::exec::sandbox_main();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
    };
    let format = match &cli.command {
        Some(Command::Replay(args)) => args.output_format,
        _ => cli.run.output_format,
    };
    let result = catch_unwind(AssertUnwindSafe(|| dispatch(cli))).unwrap_or_else(|_| {
        let words = "a fault inside tooloop ended the run; the session is recorded up to there";
        Err(Failure::new(Status::Internal, words))
    });
    let status = result.unwrap_or_else(|failure| {
        tell(&failure, format);
        failure.status
    });
    ExitCode::from(status.code())
}

/// Says what went wrong before, or beside, a turn. Programs that read records get one.
fn tell(failure: &Failure, format: OutputFormat) {
    if format == OutputFormat::Text {
        return complain(&failure.message);
    }
    let record = Records::new(None, false, false).failure(failure.status, &failure.message);
    if let Err(error) = write!(crate::output::stdout(), "{}", line::line(&record))
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        // It cannot be told where it is looked for. If nobody reads, nobody needs to be told.
        complain(&failure.message);
    }
}

fn not_parsed(error: &clap::Error) -> ExitCode {
    // Help and version are no errors, and go to standard output.
    drop(error.print());
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return ExitCode::SUCCESS;
    }
    let wants_records = std::env::args_os().any(|argument| {
        matches!(
            argument.to_str(),
            Some("json" | "stream-json" | "--output-format=json" | "--output-format=stream-json")
        )
    });
    if wants_records {
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default();
        tell(&Failure::usage(words), OutputFormat::Json);
    }
    ExitCode::from(Status::Usage.code())
}

fn dispatch(cli: Cli) -> Result<Status, Failure> {
    match cli.command {
        None => run(*cli.run),
        Some(Command::Demo(args)) => block_on(demo::demo(args)),
        Some(Command::Hello(args)) => block_on(demo::hello(args)),
        Some(Command::Config(args)) => config(&args),
        Some(Command::Prompt(args)) => block_on(prompt::run(*args)),
        Some(Command::Permissions(command)) => block_on(permissions::run(command)),
        Some(Command::Replay(args)) => block_on(replay::replay(*args)),
        Some(Command::Agents(args)) => agents::run(&args),
        Some(Command::Trust(args)) => trust::run(&args),
        Some(Command::Memory(args)) => knowledge::run(args),
        Some(Command::Sessions(command)) => sessions::run(command),
        Some(Command::Doctor(args)) => block_on(doctor::doctor(args)),
    }
}

/// How many descriptors a run is to find free: what it begins with, and some for its work.
const DESCRIPTORS: usize = 24;

/// How long threads that have nothing to do are kept. While there is one, work for threads is at
/// worst done later; without one, where there can be no more of them, it would be a fault.
const KEEP_THREADS: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// Whether this process gets what every run needs. Libraries take it for granted, so it is found
/// out before anything is begun.
fn probe() -> Result<(), Failure> {
    let refused = |what: &str, limit: &str, error: &std::io::Error| {
        let words = format!("cannot start: this process gets no {what}: {error} (see {limit})");
        Failure::new(Status::Internal, words)
    };
    let thread = std::thread::Builder::new().spawn(|| {});
    let thread = thread.map_err(|error| refused("thread", "ulimit -u", &error))?;
    // It does nothing that could fail.
    thread.join().unwrap_or_default();
    let descriptors: Result<Vec<_>, _> = std::fs::File::open("/dev/null").and_then(|null| {
        let more = (1..DESCRIPTORS).map(|_| null.try_clone());
        more.collect()
    });
    let what = format!("{DESCRIPTORS} file descriptors");
    descriptors
        .map(drop)
        .map_err(|error| refused(&what, "ulimit -n", &error))
}

/// One thread runs everything but disk flushes: a session is one conversation, and what takes time
/// happens elsewhere.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Where it fails, orphans are found by their mark alone.
    tooloop::exec::own_process().unwrap_or_default();
    // Keys are in our environment; without this, commands of the same user could read it there.
    tooloop::exec::hide_memory().unwrap_or_default();
    probe()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(KEEP_THREADS)
        .build()
        .map_err(|error| Failure::new(Status::Internal, format!("cannot start: {error}")))?;
    let result = runtime.block_on(future);
    // Threads that wait for input must not hold the end up.
    runtime.shutdown_background();
    result
}

fn run(args: RunArgs) -> Result<Status, Failure> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let headless = args.print
        || !terminal
        || args.output_format != OutputFormat::Text
        || args.input_format != InputFormat::Text;
    // Refused here too where there is a terminal: nothing that is asked for is passed over.
    asks_host(&args)?;
    let workspace = setup::workspace(args.directory.as_deref())?;
    if headless {
        let args = RunArgs {
            is_headless: true,
            ..args
        };
        block_on(headless_run(args, &workspace))
    } else {
        interactive::check_terminal()?;
        // The terminal is still as it was found, and nothing has been begun.
        match setup::load_settings_asking(&args, &workspace)? {
            Some(loaded) => block_on(interactive_run(args, &workspace, loaded)),
            None => Ok(Status::Done),
        }
    }
}

async fn headless_run(mut args: RunArgs, workspace: &std::path::Path) -> Result<Status, Failure> {
    let asks_host = asks_host(&args)?;
    let mut signals = Signals::listen()?;
    let prompts = match args.input_format {
        InputFormat::Text => Prompts::One(piped_prompt(&args, &mut signals).await?),
        InputFormat::StreamJson => {
            let mut lines = input::lines();
            let first = first_line(&args, &mut lines, &mut signals).await?;
            // What cannot be honoured is refused when the line is answered.
            let initialize = first.as_ref().and_then(Line::initialize);
            if let Some(Ok(initialize)) = initialize.map(Initialize::parse)
                && initialize.apply(&mut args).is_ok()
            {
                args.initialize = initialize;
            }
            Prompts::Lines(lines, first)
        }
    };
    let loaded = setup::load_settings(&args, workspace)?;
    // A server may be asked for its models here, which takes as long as the server likes.
    let mut setup = tokio::select! {
        setup = setup::setup(&args, workspace, loaded) => setup?,
        status = signals.next() => {
            return Err(not_begun(status));
        }
    };
    let telemetry = std::mem::take(&mut setup.telemetry);
    let status = headless_session(&mut args, workspace, setup, prompts, signals, asks_host).await;
    telemetry.finish(args.verbose).await;
    status
}

/// Whether the program at the other end of standard input and output is asked about calls.
fn asks_host(args: &RunArgs) -> Result<bool, Failure> {
    let Some(name) = &args.permission_prompt_tool else {
        return Ok(false);
    };
    if name != "stdio" {
        return Err(Failure::usage(format!(
            "--permission-prompt-tool {name}: there is no such tool to ask; \"stdio\" asks the \
             program that reads the records"
        )));
    }
    if args.input_format != InputFormat::StreamJson
        || args.output_format != OutputFormat::StreamJson
    {
        return Err(Failure::usage(
            "--permission-prompt-tool stdio needs --input-format stream-json and --output-format \
             stream-json",
        ));
    }
    Ok(true)
}

async fn headless_session(
    args: &mut RunArgs,
    workspace: &std::path::Path,
    setup: Setup,
    prompts: Prompts,
    signals: Signals,
    asks_host: bool,
) -> Result<Status, Failure> {
    let host = asks_host.then(|| Host {
        questions: Questions::default(),
        saved: setup.saved_rules.clone(),
        workspace: workspace.to_owned(),
        home: setup::environment("HOME").map(Into::into),
        may_bypass: setup.mode == Mode::BypassPermissions,
        sent: std::collections::BTreeMap::new(),
    });
    let strict = args.strict_permissions.then(Strict::default);
    let approval = match (&host, &strict) {
        (Some(host), _) => Approval::By(Arc::new(host.questions.clone())),
        (None, Some(strict)) => Approval::By(Arc::new(strict.clone())),
        (None, None) => Approval::Nobody,
    };
    let planning = match &host {
        Some(_) => Some(Planning::Asks),
        None => (setup.mode == Mode::Plan).then_some(Planning::Answers),
    };
    let agent = setup.agent.approval(approval);
    let agent = match planning.filter(|_| setup.plans) {
        Some(planning) => agent.planning(planning),
        None => agent,
    };
    let agent = agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let session = setup.open.start(&agent)?;
    let mut warnings = setup.warnings;
    warnings.extend(session.warnings().iter().cloned());
    if args.output_format != OutputFormat::StreamJson {
        complain(&setup.sandbox.line());
    }
    warnings.iter().for_each(|warning| complain(warning));
    if args.verbose {
        complain(&format!(
            "session {}, model {}, {}",
            session.id(),
            setup.model,
            workspace.display()
        ));
        let lines = setup.sandbox.lines();
        lines.iter().skip(1).for_each(|line| complain(line));
    }
    let recording = setup.recording;
    let temp = setup.temp;
    let result = print::run(Print {
        session,
        processes: setup.processes,
        signals,
        prompts,
        format: args.output_format,
        partial: args.include_partial_messages,
        hook_events: args.include_hook_events,
        echo: args.replay_user_messages,
        initialize: std::mem::take(&mut args.initialize),
        background_wait: setup.background_wait,
        model: setup.model,
        tools: agent.tool_names(),
        permission_mode: setup.mode.to_string(),
        sandbox: setup.sandbox.record(),
        resumed: setup.open.is_resumed(),
        warnings,
        limits: setup.limits,
        verbose: args.verbose,
        host,
        strict,
        calls: setup.calls,
    })
    .await;
    if let Some(temp) = temp {
        // All that could write there has ended.
        temp.sweep();
    }
    replay::complain_about(recording.as_ref());
    result
}

/// The first line of standard input. It may be a request that shapes the session, so the session
/// begins after it. `None` at the end of the input.
async fn first_line(
    args: &RunArgs,
    lines: &mut mpsc::Receiver<Line>,
    signals: &mut Signals,
) -> Result<Option<Line>, Failure> {
    let most = args.max_time.unwrap_or(std::time::Duration::MAX);
    tokio::select! {
        line = tokio::time::timeout(most, lines.recv()) => line.map_err(|_| {
            let words = "the time limit (--max-time) was reached while waiting for the first message";
            Failure::new(Status::Deadline, words)
        }),
        status = signals.next() => Err(not_begun(status)),
    }
}

fn not_begun(status: Status) -> Failure {
    Failure::new(status, "ended by a signal before the session began")
}

/// Whoever writes the prompt into a pipe may take as long as they like. So it is read on a thread,
/// which the end of the process does not wait for.
async fn piped_prompt(args: &RunArgs, signals: &mut Signals) -> Result<String, Failure> {
    let given = args.prompt.clone();
    let reading = tokio::task::spawn_blocking(move || input::prompt(given.as_deref()));
    let (prompt, warning) = tokio::select! {
        read = reading => read.map_err(|error| {
            Failure::new(Status::Internal, format!("cannot read standard input: {error}"))
        })??,
        status = signals.next() => return Err(not_begun(status)),
    };
    warning.iter().for_each(|warning| complain(warning));
    Ok(prompt)
}

async fn interactive_run(
    args: RunArgs,
    workspace: &std::path::Path,
    loaded: Loaded,
) -> Result<Status, Failure> {
    let mut setup = setup::setup(&args, workspace, loaded).await?;
    let telemetry = std::mem::take(&mut setup.telemetry);
    let recording = setup.recording.clone();
    let status = interactive::run(args.prompt, setup, workspace).await;
    replay::complain_about(recording.as_ref());
    telemetry.finish(args.verbose).await;
    status
}

fn config(args: &RunArgs) -> Result<Status, Failure> {
    let workspace = setup::workspace(args.directory.as_deref())?;
    let loaded = setup::load_settings(args, &workspace)?;
    let mut out = crate::output::stdout();
    for (key, value, origin, doc) in loaded.describe() {
        let doc = if args.verbose {
            format!("# {doc}\n")
        } else {
            String::new()
        };
        if writeln!(out, "{doc}{key} = {value}  ({origin})").is_err() {
            return Ok(Status::BrokenPipe);
        }
        let rules = loaded.rules.iter().filter(|rule| rule.kind.key() == key);
        for rule in rules.filter(|_| args.verbose) {
            let (kind, source) = (rule.kind.name(), rule.source.name());
            let (written, place) = (text::one_line(&rule.written), rule.place.origin());
            if writeln!(out, "    {kind} {written}  ({source}, {place})").is_err() {
                return Ok(Status::BrokenPipe);
            }
        }
    }
    for warning in &loaded.warnings {
        complain(warning);
    }
    Ok(Status::Done)
}
