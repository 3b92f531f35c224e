//! `tooloop`, a coding agent for the terminal.
//!
//! This file is the table of contents: what was typed, what is meant, which front end runs it, how
//! it ends. Each step is a module.

mod args;
mod demo;
mod exit;
mod input;
mod interactive;
mod output;
mod print;
mod records;
mod sessions;
mod settings;
mod setup;
mod signals;
mod text;
mod toolset;

use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command, InputFormat, OutputFormat, RunArgs};
use crate::exit::{Failure, Status};
use crate::print::{Print, Prompts, complain};
use crate::records::Records;
use crate::signals::Signals;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
    };
    let format = cli.run.output_format;
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
    let record = Records::new(None, false).failure(failure.status, &failure.message);
    // If nobody reads, nobody needs to be told.
    drop(writeln!(std::io::stdout(), "{record}"));
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
        Some(Command::Sessions(command)) => sessions::run(command),
    }
}

/// One thread runs everything but disk flushes: a session is one conversation, and what takes time
/// happens elsewhere.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // Where it fails, orphans are found by their mark alone.
    tooloop::exec::own_process().unwrap_or_default();
    // Keys are in our environment; without this, commands of the same user could read it there.
    tooloop::exec::hide_memory().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
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
    let workspace = setup::workspace(args.directory.as_deref())?;
    if headless {
        block_on(headless_run(args, &workspace))
    } else {
        block_on(interactive_run(args, &workspace))
    }
}

async fn headless_run(args: RunArgs, workspace: &std::path::Path) -> Result<Status, Failure> {
    let prompts = match args.input_format {
        InputFormat::Text => {
            let (prompt, warning) = input::prompt(args.prompt.as_deref())?;
            warning.iter().for_each(|warning| complain(warning));
            Prompts::One(prompt)
        }
        InputFormat::StreamJson => Prompts::Lines(input::lines()),
    };
    let mut signals = Signals::new().map_err(|error| {
        let words = format!("cannot listen for signals: {error}");
        Failure::new(Status::Internal, words)
    })?;
    // A server may be asked for its models here, which takes as long as the server likes.
    let setup = tokio::select! {
        setup = setup::setup(&args, workspace) => setup?,
        status = signals.next() => {
            return Err(Failure::new(status, "ended by a signal before the session began"));
        }
    };
    let agent = setup
        .agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let session = setup.open.start(&agent)?;
    let mut warnings = setup.warnings;
    warnings.extend(session.warnings().iter().cloned());
    warnings.iter().for_each(|warning| complain(warning));
    if args.verbose {
        complain(&format!(
            "session {}, model {}, {}, sandbox off",
            session.id(),
            setup.model,
            workspace.display()
        ));
    }
    print::run(Print {
        session,
        processes: setup.processes,
        prompts,
        format: args.output_format,
        partial: args.include_partial_messages,
        model: setup.model,
        tools: agent.tool_names(),
        permission_mode: setup.mode.to_string(),
        resumed: setup.open.is_resumed(),
        warnings,
        limits: setup.limits,
        verbose: args.verbose,
    })
    .await
}

async fn interactive_run(args: RunArgs, workspace: &std::path::Path) -> Result<Status, Failure> {
    let setup = setup::setup(&args, workspace).await?;
    interactive::run(args.prompt, setup, workspace).await
}

fn config(args: &RunArgs) -> Result<Status, Failure> {
    let workspace = setup::workspace(args.directory.as_deref())?;
    let loaded = setup::load_settings(args, &workspace)?;
    let mut out = std::io::stdout().lock();
    for (key, value, origin, doc) in loaded.describe() {
        let doc = if args.verbose {
            format!("# {doc}\n")
        } else {
            String::new()
        };
        if writeln!(out, "{doc}{key} = {value}  ({origin})").is_err() {
            return Ok(Status::BrokenPipe);
        }
    }
    for warning in &loaded.warnings {
        complain(warning);
    }
    Ok(Status::Done)
}
