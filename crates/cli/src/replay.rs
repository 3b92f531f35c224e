//! `tooloop replay`, and what `--record` takes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tooloop::Event;
use tooloop::journal::SessionId;
use tooloop::provider::{Cassette, CassetteError, ScriptedProvider};
use tooloop::replay::{Recording, Replay, ReplayError, Replayed, ToolDifference};

use crate::args::{OutputFormat, ReplayArgs, ReplayTools, RunArgs};
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::records::{Init, Records};
use crate::settings::Settings;
use crate::setup::{self, Asked, Open, Setup};
use crate::signals::Signals;
use crate::wall::{Attempt, SandboxReport};
use crate::{secrets, sessions, text};

/// What a run is to be recorded on: a new file, without the keys that this process knows.
pub(crate) fn recording(
    args: &RunArgs,
    settings: &Settings,
    open: &Open,
    workspace: &Path,
) -> Result<Option<Cassette>, Failure> {
    let Some(path) = &args.record else {
        return Ok(None);
    };
    let redactor = secrets::for_records(settings);
    let mut header = Map::new();
    header.insert("tooloop_version".into(), env!("CARGO_PKG_VERSION").into());
    header.insert("session".into(), open.session().into());
    header.insert("workspace".into(), workspace.display().to_string().into());
    let cassette = Cassette::create_with(path, redactor, header);
    cassette
        .map(Some)
        .map_err(|error| Failure::usage(format!("--record: {error}")))
}

/// Says at the end of a run that its recording is of no use.
pub(crate) fn complain_about(recording: Option<&Cassette>) {
    if let Some(problem) = recording.and_then(Cassette::problem) {
        complain(&problem);
    }
}

/// Plays a session again and compares it with its record.
pub(crate) async fn replay(args: ReplayArgs) -> Result<Status, Failure> {
    let workspace = setup::workspace(args.rules.directory.as_deref())?;
    let recording = Recording::open(&find(&args.recording, &workspace)?).map_err(unreadable)?;
    for warning in &recording.warnings {
        complain(warning);
    }
    let mut teller = Teller::new(args.output_format, &recording);
    let replayed = match args.tools {
        ReplayTools::Recorded => Replay::new(&recording).run(|event| teller.event(event)),
        ReplayTools::Live => live(&args, &workspace, &recording, &mut teller).await?,
    };
    Ok(teller.end(&replayed))
}

/// The file of that name, or the journal of that session.
fn find(wanted: &str, workspace: &Path) -> Result<PathBuf, Failure> {
    let path = Path::new(wanted);
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let catalog = sessions::catalog(sessions::root(&setup::environment), workspace)?;
    sessions::find(&catalog, wanted)
}

fn unreadable(error: ReplayError) -> Failure {
    match error {
        ReplayError::Journal(error) => Failure::new(Status::Input, error.to_string()),
        ReplayError::Cassette(CassetteError::Io { .. }) => Failure::usage(error.to_string()),
        ReplayError::Cassette(_) | ReplayError::NoSession { .. } => {
            Failure::new(Status::Input, error.to_string())
        }
    }
}

/// Runs the tools as well.
async fn live(
    args: &ReplayArgs,
    workspace: &Path,
    recording: &Recording,
    teller: &mut Teller,
) -> Result<Replayed, Failure> {
    let run = RunArgs {
        trust_folder: args.trust_folder,
        ..args.rules.run()?
    };
    let loaded = setup::load_settings(&run, workspace)?;
    let tried = Attempt::begin(&loaded.settings)
        .end(&loaded.settings)
        .await?;
    let open = Open::New(SessionId::generate());
    // Never asked.
    let asked = Asked {
        provider: Arc::new(ScriptedProvider::new()),
        model: "recording".into(),
        fallback: None,
        agents: tooloop::AgentTypes::default(),
    };
    let Setup {
        agent,
        processes,
        warnings,
        sandbox,
        // Held until all has ended.
        temp: _temp,
        ..
    } = setup::assemble(&run, workspace, loaded, open, asked, tried)?;
    complain(&sandbox.line());
    warnings.iter().for_each(|warning| complain(warning));
    let agent = agent
        .build()
        .map_err(|error| Failure::settings(error.to_string()))?;
    let mut signals = Signals::listen()?;
    let replay = Replay::new(recording).run_with_tools(&agent, |event| teller.event(event));
    let replayed = tokio::select! {
        replayed = replay => Ok(replayed),
        status = signals.next() => Err(Failure::new(status, "interrupted; the replay is not complete")),
    };
    tokio::select! {
        () = processes.end_all(Duration::from_secs(2)) => {}
        _ = signals.next() => processes.end_all_now(),
    }
    replayed
}

/// Tells a person or a program what is played.
struct Teller {
    format: OutputFormat,
    records: Records,
    broken: bool,
}

impl Teller {
    fn new(format: OutputFormat, recording: &Recording) -> Self {
        let mut teller = Self {
            format,
            records: Records::new(recording.session.clone(), false, true),
            broken: false,
        };
        if format == OutputFormat::StreamJson {
            let workspace = recording.workspace.as_deref().unwrap_or(Path::new(""));
            let init = teller.records.init(&Init {
                workspace: workspace.display().to_string(),
                model: "recording",
                tools: Vec::new(),
                permission_mode: "recorded".into(),
                sandbox: SandboxReport::off().record(),
                resumed: !recording.past.is_empty(),
            });
            teller.line(&init.to_string());
            for warning in &recording.warnings {
                let warning = teller.records.warning(warning);
                teller.line(&warning.to_string());
            }
        }
        teller
    }

    fn event(&mut self, event: Event) {
        let Event::Recorded(entry) = event else {
            return;
        };
        match self.format {
            OutputFormat::Text => self.write(&sessions::tell(&entry)),
            OutputFormat::Json => {}
            OutputFormat::StreamJson => {
                for record in self.records.entries(&entry) {
                    self.line(&record.to_string());
                }
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    fn write(&mut self, text: &str) {
        let mut out = crate::output::stdout();
        self.broken = self.broken || out.write_all(text.as_bytes()).is_err();
    }

    fn end(mut self, replayed: &Replayed) -> Status {
        let status = if replayed.is_same() {
            Status::Done
        } else {
            Status::Model
        };
        if self.format == OutputFormat::Text {
            tell(replayed);
        } else {
            let result = self.result(replayed, status);
            self.line(&result.to_string());
        }
        let flushed = crate::output::stdout().flush();
        if self.broken || flushed.is_err() {
            return Status::BrokenPipe;
        }
        status
    }

    fn result(&mut self, replayed: &Replayed, status: Status) -> Value {
        let mut errors = Vec::new();
        errors.extend(replayed.difference.as_ref().map(ToString::to_string));
        errors.extend(replayed.tools.iter().map(headline));
        let mut result = match &replayed.report {
            Some(report) => self.records.result(report, status, None),
            None => self.records.failure(status, ""),
        };
        let done = status == Status::Done;
        let subtype = if done {
            "success"
        } else {
            "error_during_execution"
        };
        let more = json!({
            "subtype": subtype,
            "is_error": !done,
            "reason": if done { "replayed" } else { "replay_differs" },
            "replayed": replayed.entries,
            "turns": replayed.turns,
            "unfinished": replayed.unfinished,
            "errors": errors,
            "difference": replayed.difference.as_ref().map(|difference| json!({
                "record": difference.record,
                "words": difference.words,
            })),
            "tool_differences": replayed.tools.iter().map(tool_difference).collect::<Vec<_>>(),
            "not_run": replayed.not_run,
        });
        if let (Value::Object(result), Value::Object(more)) = (&mut result, more) {
            result.extend(more);
        }
        result
    }
}

fn headline(difference: &ToolDifference) -> String {
    let ToolDifference { tool, input, .. } = difference;
    let input: String = input.chars().take(200).collect();
    format!("{tool} {input}: the result is not the recorded one")
}

fn tool_difference(difference: &ToolDifference) -> Value {
    json!({
        "tool_use_id": difference.tool_use_id,
        "tool": difference.tool,
        "input": difference.input,
        "diff": difference.diff,
    })
}

/// What it came to, for a person.
fn tell(replayed: &Replayed) {
    for difference in &replayed.tools {
        let diff = text::clean(&difference.diff);
        complain(&format!("{}\n{diff}", text::clean(&headline(difference))));
    }
    for id in &replayed.not_run {
        complain(&format!("{id} was not run: its result is not on record"));
    }
    let entries = replayed.entries;
    match &replayed.difference {
        Some(difference) => complain(&text::clean(&format!(
            "the replay differs after {entries} entries: {difference}"
        ))),
        None => {
            let unfinished = if replayed.unfinished {
                "; the record ends in the middle of a turn"
            } else {
                ""
            };
            complain(&format!(
                "replayed: {entries} entries, as recorded{unfinished}"
            ));
        }
    }
}
