//! `tooloop demo` and `tooloop hello`: the first run.
//!
//! The demo plays a recorded model through the real loop, with the real bash tool, in a fresh
//! folder, and says so. Hello does a small job with whatever model is at hand, and plays the demo
//! if there is none. Both are put together as any run is: settings, sandbox and all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tooloop::exec::Processes;
use tooloop::journal::SessionId;
use tooloop::provider::ReplayProvider;
use tooloop::{
    AgentTypes, Content, ContentBlock, Entry, Event, Message, Mode, Session, StreamEvent, TurnEnd,
};

use crate::args::{Cli, DemoArgs, OutputFormat, RunArgs};
use crate::exit::{self, Failure, Status};
use crate::initialize::Initialize;
use crate::knowledge::Calls;
use crate::print::{self, Print, Prompts};
use crate::setup::{self, Asked, Open, Setup};
use crate::signals::Signals;
use crate::text::clean;
use crate::wall::Attempt;

/// What a small local model was asked, a line for each turn, and what it said, a message for each
/// call.
const PROMPTS: &str = include_str!("../recordings/demo.prompts.txt");
const RECORDING: &str = include_str!("../recordings/demo.json");

/// A job that any model can do and that changes nothing.
const SMALL_JOB: &str = "Which files are in this folder, and what is in each of them?";

pub(crate) async fn demo(args: DemoArgs) -> Result<Status, Failure> {
    recorded(args, &[]).await
}

/// Plays the recording; `remarks` say why, if it was not asked for.
async fn recorded(args: DemoArgs, remarks: &[&str]) -> Result<Status, Failure> {
    let pace = if args.fast { 0 } else { 15 };
    let provider = ReplayProvider::from_json(RECORDING)
        .map_err(|error| Failure::new(Status::Internal, error.to_string()))?
        .with_pace(Duration::from_millis(pace));
    let folder = Folder::new()?;
    // The recording is part of this program and its folder is made for it.
    let typed = typed(Mode::BypassPermissions)?;
    let loaded = setup::load_settings(&typed, &folder.0)?;
    let tried = Attempt::begin(&loaded.settings)
        .end(&loaded.settings)
        .await?;
    let open = Open::New(SessionId::generate());
    let asked = Asked {
        provider: Arc::new(provider),
        model: "recording".into(),
        fallback: None,
        agents: AgentTypes::default(),
    };
    let setup = setup::assemble(&typed, &folder.0, loaded, open, asked, tried)?;
    let note = "the model's part is a recording of a small local model; the loop, the commands and \
                what they print are real";
    play(Play {
        setup,
        folder: &folder.0,
        prompts: PROMPTS.lines().collect(),
        remarks,
        note,
        format: args.output_format,
    })
    .await
}

pub(crate) async fn hello(args: DemoArgs) -> Result<Status, Failure> {
    let folder = Folder::new()?;
    let typed = typed(Mode::Default)?;
    let loaded = setup::load_settings(&typed, &folder.0)?;
    let mut setup = match setup::setup(&typed, &folder.0, loaded).await {
        Ok(setup) => setup,
        Err(failure) if failure.status == Status::Auth => {
            return recorded(args, &[&failure.message, "so here is the demo:"]).await;
        }
        Err(failure) => return Err(failure),
    };
    for (name, text) in [
        ("notes.txt", "Buy milk.\nWater the plants.\n"),
        ("greet.sh", "#!/bin/sh\necho \"Hello, World!\"\n"),
    ] {
        fs::write(folder.0.join(name), text)
            .map_err(|error| Failure::new(Status::Internal, format!("{name}: {error}")))?;
    }
    let telemetry = std::mem::take(&mut setup.telemetry);
    let note = format!(
        "the model is {} ({}); nobody is asked, so what would need a question is refused",
        setup.model,
        setup.provider.name()
    );
    let played = play(Play {
        setup,
        folder: &folder.0,
        prompts: vec![SMALL_JOB],
        remarks: &[],
        note: &note,
        format: args.output_format,
    })
    .await;
    telemetry.finish(false).await;
    played
}

/// What somebody would have typed for this run.
fn typed(mode: Mode) -> Result<RunArgs, Failure> {
    let words = [
        "tooloop",
        "--bare",
        "--no-session-persistence",
        "--tools",
        "bash",
        "--max-turns",
        "12",
        "--permission-mode",
        mode.name(),
    ];
    Cli::try_parse_from(words)
        .map(|typed| *typed.run)
        .map_err(|error| Failure::new(Status::Internal, error.to_string()))
}

/// A fresh folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let name = format!("tooloop-demo-{}", uuid::Uuid::now_v7().simple());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).map_err(|error| {
            let path = path.display();
            Failure::new(
                Status::Internal,
                format!("cannot make the folder {path}: {error}"),
            )
        })?;
        // As it really is, which is how a sandbox knows it.
        Ok(Self(fs::canonicalize(&path).unwrap_or(path)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the temporary folder, where others clean up.
        drop(fs::remove_dir_all(&self.0));
    }
}

struct Play<'a> {
    setup: Setup,
    folder: &'a Path,
    prompts: Vec<&'a str>,
    remarks: &'a [&'a str],
    note: &'a str,
    format: OutputFormat,
}

async fn play(play: Play<'_>) -> Result<Status, Failure> {
    let Setup {
        agent,
        processes,
        model,
        mode,
        limits,
        warnings,
        sandbox,
        temp,
        ..
    } = play.setup;
    let agent = agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let session = agent.session()?;
    if play.format != OutputFormat::StreamJson {
        print::complain(&sandbox.line());
    }
    for words in play.remarks {
        print::complain(words);
    }
    warnings.iter().for_each(|words| print::complain(words));
    let told = if play.format == OutputFormat::Text {
        tell_all(session, &processes, &play.prompts, play.note, play.folder).await
    } else {
        print::complain(play.note);
        let first = play.prompts.first().copied().unwrap_or(SMALL_JOB);
        print::run(Print {
            session,
            processes,
            signals: Signals::listen()?,
            prompts: Prompts::One(first.to_owned()),
            format: play.format,
            partial: false,
            hook_events: false,
            echo: true,
            initialize: Initialize::default(),
            background_wait: std::time::Duration::ZERO,
            model,
            tools: agent.tool_names(),
            permission_mode: mode.to_string(),
            sandbox: sandbox.record(),
            resumed: false,
            warnings,
            limits,
            verbose: false,
            host: None,
            strict: None,
            calls: Calls::default(),
        })
        .await
    };
    if let Some(temp) = temp {
        // All that could write there has ended.
        temp.sweep();
    }
    told
}

/// Tells a person of all turns, and ends the session.
async fn tell_all(
    session: Session,
    processes: &Processes,
    prompts: &[&str],
    note: &str,
    folder: &Path,
) -> Result<Status, Failure> {
    let folder = folder.display();
    let mut told = say(&format!("tooloop: {note}\nfolder: {folder}\n")).map(|()| Status::Done);
    for prompt in prompts {
        if !matches!(told, Ok(Status::Done)) {
            break;
        }
        told = match say(&format!("\n> {prompt}\n\n")) {
            Ok(()) => narrate(&session, processes, prompt).await,
            Err(failure) => Err(failure),
        };
    }
    let closed = session.close().await;
    processes.end_all(Duration::from_secs(2)).await;
    closed?;
    told
}

/// Tells what happens as it happens, for a person.
async fn narrate(
    session: &Session,
    processes: &Processes,
    prompt: &str,
) -> Result<Status, Failure> {
    let mut events = session.events();
    let mut signals = crate::signals::Signals::new()
        .map_err(|error| Failure::new(Status::Internal, error.to_string()))?;
    let mut stopped = None;
    let mut turn = std::pin::pin!(session.prompt(prompt));
    let report = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => say(&tell(event))?,
            report = &mut turn => break report?,
            status = signals.next() => {
                if stopped.replace(status).is_some() {
                    processes.end_all_now();
                }
                session.interrupt().await?;
            }
        }
    };
    while let Some(event) = events.try_next() {
        say(&tell(event))?;
    }
    let seconds = report.duration.as_secs_f64();
    let words = exit::words(&report.end).unwrap_or_else(|| "done".into());
    say(&format!(
        "\n({words}; {} model calls, {seconds:.1} s)\n",
        report.steps
    ))?;
    Ok(match (report.end, stopped) {
        (TurnEnd::Interrupted { .. }, Some(status)) => status,
        (end, _) => Status::of(&end),
    })
}

fn tell(event: Event) -> String {
    let text = match event {
        Event::Delta {
            event: StreamEvent::TextDelta { text, .. },
            ..
        } => text,
        Event::Voided { .. } => "\n(that reply was cut; it is asked for again)\n".into(),
        Event::Recorded(entry) => match &*entry {
            Entry::Message(message) => match message.message() {
                Message::Assistant(reply) => {
                    let calls = reply.content.iter().filter_map(|block| match block {
                        ContentBlock::ToolUse(tool_use) => Some(tool_use),
                        ContentBlock::Text { .. }
                        | ContentBlock::Thinking { .. }
                        | ContentBlock::RedactedThinking(_)
                        | ContentBlock::Vendor(_) => None,
                    });
                    let end = if reply.text().is_empty() { "" } else { "\n" };
                    calls.fold(end.to_owned(), |mut text, call| {
                        let input: serde_json::Value =
                            serde_json::from_str(call.input.json()).unwrap_or_default();
                        let command = input.get("command").and_then(serde_json::Value::as_str);
                        let command = command.unwrap_or(call.input.json());
                        text.push_str(&format!(
                            "● {}  {}\n",
                            call.name,
                            command.replace('\n', "\n        ")
                        ));
                        text
                    })
                }
                Message::User(_) | Message::ToolResults(_) => return String::new(),
            },
            Entry::CallFinished(result) => {
                let texts = result.content.iter().filter_map(|part| match part {
                    Content::Text(text) => Some(text.as_str()),
                    Content::Image(_) | Content::Document(_) => None,
                });
                let text: String = texts.collect();
                format!("  {}\n\n", text.replace('\n', "\n  "))
            }
            Entry::Retry { error, .. } => format!("({}; it is tried again)\n", error.message),
            Entry::CallStarted { .. }
            | Entry::CallRewritten { .. }
            | Entry::Permission { .. }
            | Entry::Discarded { .. }
            | Entry::Continue(_)
            | Entry::Spent { .. }
            | Entry::Shortened { .. }
            | Entry::Compacted { .. }
            | Entry::Rewound { .. }
            | Entry::TurnEnd(_) => return String::new(),
        },
        Event::Warning(words) | Event::Noticed(words) => format!("({words})\n"),
        Event::Delta { .. }
        | Event::Hook(_)
        | Event::Compaction { .. }
        | Event::ToolStarted { .. }
        | Event::ToolProgress { .. }
        | Event::ToolEnded { .. }
        | Event::Asked(_)
        | Event::Subagent { .. }
        | Event::TurnEnded(_)
        | Event::Lagged { .. } => return String::new(),
    };
    clean(&text)
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = crate::output::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| {
            Failure::new(
                Status::BrokenPipe,
                format!("cannot write to standard output: {error}"),
            )
        })
}
