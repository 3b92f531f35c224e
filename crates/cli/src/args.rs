//! The command line as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tooloop::Money;

use crate::exit::{Failure, Status};
use crate::initialize::Initialize;

/// A coding agent for the terminal.
///
/// With a terminal and without -p it talks with you; with -p, or at the end of a pipe, it does one
/// job and prints the answer.
#[derive(Debug, Parser)]
#[command(
    name = "tooloop",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 done, 1 the model or its provider failed, a replay differs or doctor found a problem, 2 usage,\n\
                  41 no or wrong key, 42 bad input, 44 no sandbox,\n\
                  52 settings, 53 turn limit, 54 internal fault, 59 tool call limit, 60 money or token limit, 61 time limit,\n\
                  62 no answer of the form asked for, 63 permission needed (--strict-permissions), 129 hung up, 130 interrupted,\n\
                  143 terminated."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: Box<RunArgs>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Play a recorded session through the real loop: no key, no network
    Demo(DemoArgs),
    /// Do a small job in a fresh folder with whatever model is at hand; without one, play the demo
    Hello(DemoArgs),
    /// Look at the notes that are kept about this project, and change them
    Memory(MemoryArgs),
    /// Look at recorded sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Show each setting and where its value comes from
    Config(Box<RunArgs>),
    /// Print the system prompt that a run here would have, or what its sections come to
    Prompt(Box<PromptArgs>),
    /// Say what is allowed here, and why
    #[command(subcommand)]
    Permissions(PermissionsCommand),
    /// List the kinds of subagents that a run here has, and where each is defined
    Agents(AgentsArgs),
    /// Play a session again, offline, and compare it with its record
    Replay(Box<ReplayArgs>),
    /// Look at what a run would find here: sandbox, settings, keys, programs, journal
    Doctor(DoctorArgs),
    /// Show what a folder's settings files want beyond what they may have, and trust the folder with it
    Trust(TrustArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AgentsArgs {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only those that are built in
    #[arg(long)]
    pub(crate) bare: bool,
    /// The folder that a run would work in
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<MemoryCommand>,
    /// The project's folder, or one in it
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List the notes; so does no command at all
    List,
    /// Print a note
    Show {
        /// The note's name
        name: String,
    },
    /// Open a note in your editor (VISUAL or EDITOR)
    Edit {
        /// The note's name
        name: String,
    },
    /// Delete a note
    Delete {
        /// The note's name
        name: String,
    },
    /// Print the folder that the notes are in
    Path,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The sections with their bytes and estimated tokens, and the definitions of tools
    #[arg(long)]
    pub(crate) sections: bool,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The folder that a run would work in
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// A file with settings that beat those of user and project
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The folder; the current one if none is named
    #[arg(value_name = "DIR", conflicts_with = "list")]
    pub(crate) directory: Option<PathBuf>,
    /// Trust it no more
    #[arg(long, conflicts_with = "list")]
    pub(crate) remove: bool,
    /// List the folders that something is known about
    #[arg(long)]
    pub(crate) list: bool,
    /// Ask nobody
    #[arg(short, long, conflicts_with_all = ["list", "remove"])]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The file of --record, a session's journal, or a session's id or the beginning of it
    #[arg(value_name = "FILE|SESSION")]
    pub(crate) recording: String,
    /// Whose results the calls have: those on record, or those of the tools, run for real in the
    /// current folder as far as the permissions allow, and compared with those on record
    #[arg(long, value_enum, default_value_t, value_name = "WHICH")]
    pub(crate) tools: ReplayTools,
    /// How to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// What decides about the calls of --tools live; the folder is also the one whose sessions are
    /// looked through.
    #[command(flatten)]
    pub(crate) rules: Box<RuleArgs>,
    /// With --tools live: apply all that the folder's settings files want: rules that allow and
    /// whatever else they widen
    #[arg(long, conflicts_with = "bare")]
    pub(crate) trust_folder: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayTools {
    /// The results on record; nothing is run
    #[default]
    Recorded,
    /// The tools are run as well
    Live,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Show the model's part without pauses
    #[arg(long)]
    pub(crate) fast: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub(crate) output_format: OutputFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions of this folder, the newest first
    List {
        /// How many at most
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// Each with its subagents below it
        #[arg(long)]
        all: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Go back to before a turn of a session: conversation and files. Without a turn, list them
    Rewind(RewindArgs),
    /// Begin a new session with the past of another one, and print its id
    Fork {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// The last turn that the new session has; all of them if this is not given
        #[arg(long, value_name = "TURN")]
        at: Option<usize>,
        /// The new session's id, a UUID
        #[arg(long, value_name = "UUID")]
        session_id: Option<String>,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show what was said and done in a session
    Show {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// The records as they stand in the journal
        #[arg(long)]
        json: bool,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Check a session's journal and name every fault; exit status 0 if there is none, 42 if there are
    Verify {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Show what a session has cost, and what missed the provider's cache
    Cost {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Rewrite a damaged journal with all that can be rescued; the original is kept beside it
    Repair {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Write a session down for people (md, html) or programs (json)
    Export {
        /// The session's id, its beginning, or a file
        #[arg(value_name = "ID|FILE")]
        session: String,
        /// In which form
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
        /// A new file to write to, instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Remove sessions for good, with their outputs and what was kept of files
    Rm {
        /// The sessions' ids, their beginnings, or files
        #[arg(value_name = "ID|FILE", required_unless_present = "older_than")]
        sessions: Vec<String>,
        /// All sessions of the folder that were not written to for so many days
        #[arg(long, value_name = "DAYS", conflicts_with = "sessions")]
        older_than: Option<u32>,
        /// Ask nobody
        #[arg(short, long)]
        yes: bool,
        /// The folder
        #[arg(short = 'C', long = "cd", value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PermissionsCommand {
    /// Take a call apart and say what is decided about it and by which rule; exit status 0 if it is
    /// allowed, 3 if somebody would be asked, 4 if it is denied
    Explain {
        /// The command; for other tools a path, a pattern, an address, or the input as JSON
        #[arg(value_name = "CALL", allow_hyphen_values = true)]
        call: String,
        /// The tool that is called
        #[arg(long, value_name = "NAME", default_value = "bash")]
        tool: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        rules: Box<RuleArgs>,
    },
    /// List all rules, the strongest first, with where they stand; the mode, the folders, the sandbox
    List {
        /// One JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        rules: Box<RuleArgs>,
    },
}

/// What decides about calls, as for a run.
#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    /// Calls that need no question
    #[arg(
        long = "allowedTools",
        alias = "allowed-tools",
        value_name = "RULES",
        num_args = 1
    )]
    pub(crate) allowed_tools: Vec<String>,
    /// Calls that are refused, whatever else says
    #[arg(
        long = "disallowedTools",
        alias = "disallowed-tools",
        value_name = "RULES",
        num_args = 1
    )]
    pub(crate) disallowed_tools: Vec<String>,
    /// What is done about calls that no rule decides
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<String>,
    /// The folder
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// A further folder that commands may work in
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// A file with settings that beat those of user and project
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Confine commands
    #[arg(long, value_name = "PROFILE")]
    pub(crate) sandbox: Option<String>,
    /// Read no settings file of the folder, not even what it forbids
    #[arg(long)]
    pub(crate) bare: bool,
}

impl RuleArgs {
    /// The run that these are of. It keeps no record.
    pub(crate) fn run(&self) -> Result<RunArgs, Failure> {
        let typed = Cli::try_parse_from(["tooloop", "--no-session-persistence"])
            .map_err(|error| Failure::new(Status::Internal, error.to_string()))?;
        Ok(RunArgs {
            allowed_tools: self.allowed_tools.clone(),
            disallowed_tools: self.disallowed_tools.clone(),
            permission_mode: self.permission_mode.clone(),
            directory: self.directory.clone(),
            add_dir: self.add_dir.clone(),
            settings: self.settings.clone(),
            sandbox: self.sandbox.clone(),
            bare: self.bare,
            ..*typed.run
        })
    }
}

#[derive(Debug, Args)]
pub(crate) struct RewindArgs {
    /// The session's id, its beginning, or a file
    #[arg(value_name = "ID|FILE")]
    pub(crate) session: String,
    /// The first turn that is undone
    #[arg(conflicts_with = "undo")]
    pub(crate) turn: Option<usize>,
    /// Only restore files
    #[arg(long, conflicts_with = "conversation")]
    pub(crate) files: bool,
    /// Only cut the conversation
    #[arg(long)]
    pub(crate) conversation: bool,
    /// Undo what the newest rewind did to files
    #[arg(long, conflicts_with = "conversation")]
    pub(crate) undo: bool,
    /// Also restore files that somebody else has changed since
    #[arg(long)]
    pub(crate) force: bool,
    /// Change nothing, only tell what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The folder
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; "-" reads it from standard input
    pub(crate) prompt: Option<String>,
    /// Do one job, print the answer and leave
    #[arg(short, long)]
    pub(crate) print: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// How prompts come in: text, or one JSON message a line
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,
    /// With stream-json: also the pieces of messages that are being written
    #[arg(long)]
    pub(crate) include_partial_messages: bool,
    /// With stream-json: also a record when a hook begins and when it has ended
    #[arg(long)]
    pub(crate) include_hook_events: bool,
    /// With stream-json: also a record of each prompt
    #[arg(long)]
    pub(crate) replay_user_messages: bool,
    #[arg(long, value_name = "NAME", help = tooloop::provider::MODEL_HELP)]
    pub(crate) model: Option<String>,
    /// The model server's address
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The format that the server at --base-url speaks
    #[arg(long, value_name = "FORMAT")]
    pub(crate) api: Option<String>,
    /// The most model calls for one prompt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// The most tool calls for one prompt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tool_calls: Option<u32>,
    /// The most money that the session may cost, in US dollars, a resumed one from its beginning on
    #[arg(long, value_name = "USD", value_parser = money)]
    pub(crate) max_budget_usd: Option<Money>,
    /// The most tokens that the session may use, sent and written, a resumed one from its beginning on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// The longest that the run may take, such as 90s, 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_time: Option<Duration>,
    /// Another model for the rest of a prompt whose model is overloaded three times in a row
    #[arg(long, value_name = "NAME")]
    pub(crate) fallback_model: Option<String>,
    /// The JSON schema that the answer must match: the schema itself, or @FILE
    #[arg(long, value_name = "SCHEMA")]
    pub(crate) json_schema: Option<String>,
    /// The tools that the model is given: default, none, bash-only, or names parted by commas
    #[arg(long, value_name = "TOOLS")]
    pub(crate) tools: Option<String>,
    /// Calls that need no question, such as "Bash(git log *)"; may be given more than once
    #[arg(
        long = "allowedTools",
        alias = "allowed-tools",
        value_name = "RULES",
        num_args = 1
    )]
    pub(crate) allowed_tools: Vec<String>,
    /// Calls that are refused, whatever else says
    #[arg(
        long = "disallowedTools",
        alias = "disallowed-tools",
        value_name = "RULES",
        num_args = 1
    )]
    pub(crate) disallowed_tools: Vec<String>,
    /// What is done about calls that no rule decides: default, acceptEdits, plan, dontAsk,
    /// bypassPermissions
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<String>,
    /// Who is asked about calls that no rule decides: stdio, the program that writes messages to
    /// standard input and reads the records (both stream-json)
    #[arg(long, value_name = "NAME", conflicts_with = "strict_permissions")]
    pub(crate) permission_prompt_tool: Option<String>,
    /// Without anybody to ask: end the run with status 63 at the first call that needs permission,
    /// rather than refuse it and go on
    #[arg(long)]
    pub(crate) strict_permissions: bool,
    /// What the system prompt says of the agent, its work, tools and surroundings; instructions stay
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub(crate) system_prompt: Option<String>,
    /// A file with that
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// What to add at the end of the system prompt
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "append_system_prompt_file"
    )]
    pub(crate) append_system_prompt: Option<String>,
    /// A file with what to add to the system prompt
    #[arg(long, value_name = "FILE")]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
    /// Go on with the newest session of this folder
    #[arg(short, long = "continue", conflicts_with_all = ["resume", "session_id"])]
    pub(crate) continue_newest: bool,
    /// Go on with this session
    #[arg(short, long, value_name = "ID", conflicts_with = "session_id")]
    pub(crate) resume: Option<String>,
    /// With -c or -r: leave that session as it is and go on in a new one
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// The new session's id, a UUID
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<String>,
    /// Keep no record of the session
    #[arg(long)]
    pub(crate) no_session_persistence: bool,
    /// Record the run into this new file, the model's part included, for "tooloop replay"
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Work in this folder
    #[arg(short = 'C', long = "cd", value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// A further folder that commands may work in
    #[arg(long, value_name = "DIR")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// A file with settings that beat those of user and project
    #[arg(long, value_name = "FILE")]
    pub(crate) settings: Option<PathBuf>,
    /// Read no settings file of the folder, not even what it forbids, no instruction files, and run
    /// no hooks but those of the managed file
    #[arg(long)]
    pub(crate) bare: bool,
    /// Apply, for this run, all that the folder's settings files want: hooks, rules that allow,
    /// whatever else they widen
    #[arg(long, conflicts_with = "bare")]
    pub(crate) trust_folder: bool,
    /// What holds commands and file tools: auto, workspace, read-only, required or off
    #[arg(long, value_name = "PROFILE")]
    pub(crate) sandbox: Option<String>,
    /// Add lines about all that happens to this file, without what was said and without keys
    #[arg(long, value_name = "FILE")]
    pub(crate) debug_file: Option<String>,
    /// Tell more on standard error
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Whether the run ends by itself
    #[arg(skip)]
    pub(crate) is_headless: bool,
    /// What the program at the other end asked for first
    #[arg(skip)]
    pub(crate) initialize: Initialize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The answer
    #[default]
    Text,
    /// One result object at the end
    Json,
    /// One JSON object a line, as things happen
    StreamJson,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// The prompt
    #[default]
    Text,
    /// One JSON message a line
    StreamJson,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown
    #[default]
    Md,
    /// One page without scripts
    Html,
    /// The journal as one JSON document
    Json,
}

/// An amount of dollars.
fn money(text: &str) -> Result<Money, String> {
    let dollars: f64 = text
        .trim()
        .trim_start_matches('$')
        .parse()
        .map_err(|_| "it is no amount of dollars such as 0.50".to_owned())?;
    Money::usd(dollars)
        .filter(|money| *money > Money(0))
        .ok_or_else(|| "it must be more than nothing".to_owned())
}

/// A length of time: a number of seconds, or numbers with the units h, m, s and ms.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "it is no length of time such as 90s, 10m or 1h30m".to_owned();
    let mut left = text.trim();
    let mut sum = Duration::ZERO;
    if left.is_empty() {
        return Err(wrong());
    }
    while !left.is_empty() {
        let digits = left.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = left.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, rest) = rest.split_at(letters);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "" if rest.is_empty() && sum.is_zero() => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        sum = sum.saturating_add(Duration::from_millis(number.saturating_mul(millis)));
        left = rest;
    }
    if sum.is_zero() {
        return Err("it must be more than nothing".to_owned());
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(time("1500ms"), Ok(Duration::from_millis(1500)));
        for text in ["", "0", "soon", "-5", "5d", "1h30", "10 m", "m"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_of_money_are_read() {
        assert_eq!(money("0.5"), Ok(Money(500_000_000)));
        assert_eq!(money("$2"), Ok(Money(2_000_000_000)));
        for text in ["", "0", "-1", "NaN", "inf", "much"] {
            assert!(money(text).is_err(), "{text}");
        }
    }
}
