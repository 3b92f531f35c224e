//! `tooloop sessions rewind` and `tooloop sessions fork`, and rewinds in words.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tooloop::journal::{SessionId, read_records};
use tooloop::provider::ScriptedProvider;
use tooloop::{Agent, Content, PastTurn, Rewind, Rewound, SessionError, What};

use crate::args::RewindArgs;
use crate::block_on;
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::text::{self, clean};

/// How many files of a kind are named.
const NAMED: usize = 40;

/// How much of a prompt a list shows, in characters.
const SHOWN: usize = 60;

/// Goes back, or lists the turns.
pub(crate) fn rewind(
    root: Option<PathBuf>,
    path: &Path,
    args: &RewindArgs,
) -> Result<Status, Failure> {
    let turn = match args.turn {
        Some(turn) => turn,
        None if args.undo => 0,
        None => return list(path),
    };
    block_on(go_back(root, path, turn, args))
}

async fn go_back(
    root: Option<PathBuf>,
    path: &Path,
    turn: usize,
    args: &RewindArgs,
) -> Result<Status, Failure> {
    let (header, _) = read_records(path, |_| {}).map_err(SessionError::from)?;
    // Nobody is asked to write a reply: no model is needed.
    let agent = Agent::builder()
        .provider(Arc::new(ScriptedProvider::new()))
        .workspace(&header.workspace)
        .checkpoints(true);
    let agent = root.into_iter().fold(agent, tooloop::AgentBuilder::journal);
    let agent = agent
        .build()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let session = agent.resume(path)?;
    session.warnings().iter().for_each(|words| complain(words));
    let what = match (args.files, args.conversation) {
        (true, _) => What::Files,
        (_, true) => What::Conversation,
        (false, false) => What::Both,
    };
    let rewound = if args.undo {
        session.undo_rewind(args.force, args.dry_run).await
    } else {
        let rewind = Rewind {
            turn,
            what,
            force: args.force,
            dry_run: args.dry_run,
        };
        session.rewind_to(rewind).await
    };
    let closed = session.close().await;
    let rewound = rewound?;
    closed?;
    let mut lines = words(&rewound, args.dry_run, "--force restores it too");
    let cuts = !args.undo && what.conversation();
    lines.push(match (cuts, args.dry_run) {
        (true, true) => format!("would cut the conversation before turn {turn}"),
        (true, false) => format!("cut the conversation before turn {turn}"),
        (false, _) if rewound.files.is_empty() => "nothing to restore".into(),
        (false, _) => String::new(),
    });
    lines.retain(|line| !line.is_empty());
    let files = &rewound.files;
    // With --force, files that others changed are restored too.
    let is_whole = files.lost.is_empty()
        && (args.force || files.changed_by_others.is_empty())
        && files.unknown.is_empty();
    let printed = print(&lines)?;
    Ok(match printed {
        Status::Done if !is_whole => Status::NotRestored,
        other => other,
    })
}

fn print(lines: &[String]) -> Result<Status, Failure> {
    let mut out = crate::output::stdout();
    for line in lines {
        if writeln!(out, "{line}").is_err() {
            return Ok(Status::BrokenPipe);
        }
    }
    Ok(Status::Done)
}

fn list(path: &Path) -> Result<Status, Failure> {
    let turns = tooloop::past_turns(path)?;
    if turns.is_empty() {
        complain("the session has no turn to go back to");
    }
    print(&turns.iter().map(line).collect::<Vec<_>>())
}

/// Begins a session with the past of another one.
pub(crate) fn fork(path: &Path, at: Option<usize>, id: Option<&str>) -> Result<Status, Failure> {
    let id = match id {
        None => SessionId::generate(),
        Some(id) => id
            .parse()
            .map_err(|_| Failure::usage(format!("--session-id {id:?} is not a UUID")))?,
    };
    let target = path.with_file_name(format!("{id}.jsonl"));
    if target.exists() {
        return Err(Failure::usage(format!("there is a session {id} already")));
    }
    tooloop::fork_journal(path, target, id, at)?;
    print(&[id.to_string()])
}

/// A turn on one line.
pub(crate) fn line(turn: &PastTurn) -> String {
    let begun = turn.begun.to_zoned_datetime(jiff::tz::TimeZone::system());
    let prompt = clean(&text_of(&turn.prompt)).replace(['\n', '\t'], " ");
    let shown = text::cut(&prompt, SHOWN);
    let files = match turn.files.len() {
        0 => String::new(),
        1 => "  (1 file)".into(),
        many => format!("  ({many} files)"),
    };
    format!(
        "{:>3}  {}  {shown}{files}",
        turn.number,
        begun.strftime("%Y-%m-%d %H:%M")
    )
}

/// The text of a prompt.
pub(crate) fn text_of(prompt: &[Content]) -> String {
    let texts = Content::said(prompt).filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        Content::Image(_) | Content::Document(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What a rewind does, or would do, line by line. `hint` is said of what others have changed.
pub(crate) fn words(rewound: &Rewound, dry: bool, hint: &str) -> Vec<String> {
    let files = &rewound.files;
    let (restored, removed) = if dry {
        ("would restore", "would remove")
    } else {
        ("restored", "removed")
    };
    let mut lines = Vec::new();
    let shown = |path: &Path| clean(&path.display().to_string());
    let named = |verb: &str, paths: &[PathBuf]| {
        let paths = paths.iter();
        paths
            .map(|path| format!("{verb} {}", shown(path)))
            .collect::<Vec<_>>()
    };
    lines.extend(cut(named(restored, &files.restored), restored));
    lines.extend(cut(named(removed, &files.removed), removed));
    let others = files.changed_by_others.iter().map(|path| {
        let path = shown(path);
        format!("{path} was changed by somebody else meanwhile: {hint}")
    });
    lines.extend(cut(others.collect(), "changed by somebody else:"));
    let lost = files.lost.iter().map(|(path, why)| {
        let path = shown(path);
        format!("cannot restore {path}: {}", clean(why))
    });
    lines.extend(cut(lost.collect(), "cannot restore"));
    lines.extend(files.unknown.iter().map(|words| clean(words)));
    let work = rewound.background.iter();
    lines.extend(work.map(|title| format!("{} goes on and may change files again", clean(title))));
    lines
}

/// Names a few, and counts the rest.
fn cut(mut lines: Vec<String>, verb: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(NAMED);
    if more > 0 {
        lines.truncate(NAMED);
        lines.push(format!("{verb} {more} more"));
    }
    lines
}
