//! Plays a recorded session again, without a model, without tools and without any network.
//!
//! The real kernel is driven by what the record says came in: prompts, replies and failures of the
//! model, answers of tools and of people, interrupts, deaths of the process. Each entry that the
//! kernel would record is compared with the one on record; the first that differs ends the replay.
//! `docs/replay.md` tells why it is the kernel that is driven, and what is taken from the record.
//!
//! ```
//! use std::sync::Arc;
//! use tooloop::provider::ScriptedProvider;
//! use tooloop::replay::{Recording, Replay};
//! use tooloop::Agent;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let agent = Agent::builder()
//! #     .provider(Arc::new(ScriptedProvider::new().say("Hello, World!")))
//! #     .journal(folder.path())
//! #     .build()?;
//! # let session = agent.session()?;
//! # let id = session.id();
//! # session.prompt("Greet the world.").await?;
//! # session.close().await?;
//! # let journal = agent.catalog().expect("it keeps journals").path(id);
//! let recording = Recording::open(&journal)?;
//! let replayed = Replay::new(&recording).run(|_| {});
//! assert_eq!(replayed.difference, None);
//! assert_eq!(replayed.entries, 3);
//! # Ok(())
//! # }
//! ```

mod compare;
mod foresight;
mod gate;
mod inputs;
mod live;
mod normal;
mod player;
mod record;
mod recording;
mod reply;
mod words;

use std::fmt;
use std::sync::Arc;

use tooloop_model::ToolUseId;

use crate::{Agent, Event, TurnReport};

pub(crate) use record::RecordingStore;
pub use recording::{Recorded, Recording, ReplayError};

use live::Live;
use player::{Played, Player};

/// A replay that is to be run.
#[derive(Debug)]
pub struct Replay<'a> {
    recording: &'a Recording,
}

/// What a replay came to.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// How many entries came as they were recorded.
    pub entries: usize,
    /// How many turns came to their end.
    pub turns: usize,
    /// Whether the record ends in the middle of a turn.
    pub unfinished: bool,
    /// What the last turn that came to its end came to.
    pub report: Option<Arc<TurnReport>>,
    /// The first difference; `None` if all came as it was recorded.
    pub difference: Option<Difference>,
    /// The calls whose tools, run for real, came to another result.
    pub tools: Vec<ToolDifference>,
    /// The calls that were not run for real, since there is no result on record.
    pub not_run: Vec<ToolUseId>,
    /// How many recorded model calls this session did not ask for: those of other agents.
    pub calls_left: usize,
}

impl Replayed {
    /// Whether nothing differed.
    #[must_use]
    pub const fn is_same(&self) -> bool {
        self.difference.is_none() && self.tools.is_empty()
    }
}

/// Where a replay first differed from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The record's number (`seq`); `None` behind the last one.
    pub record: Option<u64>,
    /// What differs, with the place and both values, shortened.
    pub words: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            Some(record) => write!(formatter, "record {record}: {}", self.words),
            None => write!(formatter, "behind the last record: {}", self.words),
        }
    }
}

/// A tool that came to another result than the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDifference {
    /// The call.
    pub tool_use_id: ToolUseId,
    /// The tool.
    pub tool: String,
    /// What it was run with, as JSON text.
    pub input: String,
    /// How the results differ: a unified diff, shortened, durations and temporary names made alike.
    pub diff: String,
}

impl<'a> Replay<'a> {
    /// A replay of that recording.
    #[must_use]
    pub const fn new(recording: &'a Recording) -> Self {
        Self { recording }
    }

    /// Runs to the end of the record or to the first difference. `told` gets what a front end would
    /// be told.
    pub fn run(self, mut told: impl FnMut(Event)) -> Replayed {
        let mut player = Player::new(self.recording);
        while let Some(played) = player.next() {
            if let Played::Event(event) = played {
                told(event);
            }
        }
        player.replayed()
    }

    /// The same, with the agent's tools run for real in its folder, as its policy allows. The
    /// session still goes on with the recorded results; where a real one is another,
    /// [`Replayed::tools`] says so. The agent's provider is never asked.
    pub async fn run_with_tools(self, agent: &Agent, mut told: impl FnMut(Event)) -> Replayed {
        let mut player = Player::new(self.recording);
        let mut live = Live::new(agent, self.recording);
        while let Some(played) = player.next() {
            match played {
                Played::Event(event) => told(event),
                Played::Run { tool_use, recorded } => live.run(tool_use, recorded).await,
            }
        }
        let replayed = player.replayed();
        let (tools, not_run) = live.end().await;
        Replayed {
            tools,
            not_run,
            ..replayed
        }
    }
}
