//! Going back to an earlier turn, and forking a session there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use tooloop_kernel::{Entry, Transcript};
use tooloop_model::{Content, HistoryMessage, Message};
use tooloop_session::{ForkedFrom, Header, JsonlStore, Line, SessionId, files_beside, read_past};

use crate::checkpoints::{self, Back, How};
use crate::session::Command;
use crate::{FilesRewound, Session, SessionError};

/// What is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum What {
    /// What was said.
    Conversation,
    /// What was changed in files.
    Files,
    /// Both.
    #[default]
    Both,
}

impl What {
    /// Whether files are restored.
    #[must_use]
    pub const fn files(self) -> bool {
        matches!(self, Self::Files | Self::Both)
    }

    /// Whether the conversation is cut.
    #[must_use]
    pub const fn conversation(self) -> bool {
        matches!(self, Self::Conversation | Self::Both)
    }
}

/// How to go back to before a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewind {
    /// The first turn that is undone, from 1.
    pub turn: usize,
    /// What is taken back.
    pub what: What,
    /// Also restores files that somebody else has changed since.
    pub force: bool,
    /// Changes nothing, only says what would be done.
    pub dry_run: bool,
}

/// What a rewind came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rewound {
    /// What the turn had begun with, if the conversation was cut.
    pub prompt: Vec<Content>,
    /// What became of the files.
    pub files: FilesRewound,
    /// Background work that is under way and may change files again.
    pub background: Vec<String>,
}

impl Session {
    /// Goes back to before a turn: cuts the conversation, restores files, or both. What is cut stays
    /// in the journal; what is overwritten is kept, so that [`Session::undo_rewind`] brings it back.
    ///
    /// # Errors
    /// If a turn is under way, there is no such turn, files are wanted and not kept, or the journal
    /// fails. Nothing is done then, but if the journal fails after files were restored.
    pub async fn rewind_to(&self, rewind: Rewind) -> Result<Rewound, SessionError> {
        let transcript = self.transcript().await?;
        let turns = transcript.turns().len();
        let turn = rewind.turn;
        if rewind.what.conversation() && !(1..=turns).contains(&turn) {
            return Err(SessionError::NoSuchTurn { turn, turns });
        }
        let mut rewound = Rewound {
            background: self.background(),
            ..Rewound::default()
        };
        if rewind.what.files() {
            let turn = u32::try_from(turn).unwrap_or(u32::MAX);
            let how = How {
                force: rewind.force,
                dry: rewind.dry_run,
            };
            rewound.files = self.rewind_files(Back::Turn(turn), how).await?;
        }
        if rewind.what.conversation() {
            rewound.prompt = match transcript.since(turn) {
                Some(messages) => prompt_of(messages),
                None => self.past_prompt(turn).await,
            };
            if !rewind.dry_run {
                self.rewind(turn).await?;
            }
        }
        Ok(rewound)
    }

    /// Undoes what the newest rewind did to files. Undone again, it is redone. The conversation is
    /// left as it is.
    ///
    /// # Errors
    /// As for [`Session::rewind_to`].
    pub async fn undo_rewind(&self, force: bool, dry_run: bool) -> Result<Rewound, SessionError> {
        let how = How {
            force,
            dry: dry_run,
        };
        Ok(Rewound {
            files: self.rewind_files(Back::Rewind, how).await?,
            background: self.background(),
            ..Rewound::default()
        })
    }

    /// What a turn began with that was summed up, if it is recorded.
    async fn past_prompt(&self, turn: usize) -> Vec<Content> {
        let Some(journal) = self.journal.clone() else {
            return Vec::new();
        };
        let turns = tokio::task::spawn_blocking(move || past_turns(&journal));
        let turns = turns.await.ok().and_then(Result::ok).unwrap_or_default();
        let turn = turns.into_iter().find(|past| past.number == turn);
        turn.map_or_else(Vec::new, |past| past.prompt)
    }

    async fn rewind_files(&self, back: Back, how: How) -> Result<FilesRewound, SessionError> {
        let (reply, answer) = oneshot::channel();
        let command = Command::RewindFiles { back, how, reply };
        self.tell(command).await?;
        answer.await.map_err(|_| SessionError::Closed)?
    }
}

/// What a turn began with: what the user said before the model did. These are its messages and what
/// follows them.
fn prompt_of(messages: &[Arc<HistoryMessage>]) -> Vec<Content> {
    let said = messages
        .iter()
        .map_while(|message| match message.message() {
            Message::User(content) => Some(Content::said(content).cloned().collect::<Vec<_>>()),
            Message::Assistant(_) | Message::ToolResults(_) => None,
        });
    said.last().unwrap_or_default()
}

/// A turn of a recorded conversation, as it is after all rewinds.
#[derive(Debug, Clone, PartialEq)]
pub struct PastTurn {
    /// Its number, from 1.
    pub number: usize,
    /// When it began.
    pub begun: jiff::Timestamp,
    /// What it began with.
    pub prompt: Vec<Content>,
    /// The files that calls changed in it, as far as that was recorded.
    pub files: Vec<PathBuf>,
}

/// A conversation that is read back, with the line at which each of its turns begins.
struct Past {
    transcript: Transcript,
    starts: Vec<Start>,
    lines: usize,
}

/// Where a turn begins.
struct Start {
    line: usize,
    time: jiff::Timestamp,
    prompt: Vec<Content>,
}

impl Default for Past {
    fn default() -> Self {
        let mut transcript = Transcript::default();
        transcript.keep_past();
        Self {
            transcript,
            starts: Vec::new(),
            lines: 0,
        }
    }
}

impl Past {
    fn apply(&mut self, line: &Line) {
        if let Line::Record(record) = line {
            self.transcript.apply(&record.entry);
            let turns = self.transcript.turns().len();
            self.starts.truncate(turns);
            if self.starts.len() < turns {
                self.starts.push(Start {
                    line: self.lines,
                    time: record.time,
                    prompt: Vec::new(),
                });
            }
            if let (Entry::Message(_), Some(newest)) = (&record.entry, self.starts.last_mut())
                && turns > self.transcript.summed_up()
                && let Some(messages) = self.transcript.since(turns)
            {
                newest.prompt = prompt_of(messages);
            }
        }
        self.lines = self.lines.saturating_add(1);
    }
}

/// The turns of a recorded session. The session may be in use.
///
/// # Errors
/// If the journal cannot be read.
pub fn past_turns(journal: &Path) -> Result<Vec<PastTurn>, SessionError> {
    let mut past = Past::default();
    read_past(journal, |line| past.apply(&line))?;
    let turns = u32::try_from(past.starts.len()).unwrap_or(u32::MAX);
    // Without a record of changes there is nothing to tell of them.
    let files = checkpoints::changed_files(&files_beside(journal), turns).unwrap_or_default();
    let files = files.into_iter().chain(std::iter::repeat_with(Vec::new));
    let starts = past.starts.iter().zip(files).enumerate();
    Ok(starts
        .map(|(place, (start, files))| PastTurn {
            number: place.saturating_add(1),
            begun: start.time,
            prompt: start.prompt.clone(),
            files,
        })
        .collect())
}

/// Makes a new session at `target` that has the past of the one in `journal`, up to the end of
/// turn number `at` or to its newest record. That one stays as it is, and may be in use. Files are
/// left as they are.
///
/// # Errors
/// If the journal cannot be read, there is no such turn, or the new one cannot be written.
pub fn fork_journal(
    journal: &Path,
    target: PathBuf,
    id: SessionId,
    at: Option<usize>,
) -> Result<(), SessionError> {
    let mut past = Past::default();
    let mut lines = Vec::new();
    let read = read_past(journal, |line| {
        past.apply(&line);
        lines.push(line);
    })?;
    let parent = read.header;
    let turns = past.starts.len();
    if let Some(turn) = at {
        if !(1..=turns).contains(&turn) {
            return Err(SessionError::NoSuchTurn { turn, turns });
        }
        if let Some(next) = past.starts.get(turn) {
            lines.truncate(next.line);
        }
    }
    let header = Header {
        forked_from: Some(ForkedFrom {
            session: parent.session,
            record: lines.last().map(|line| line.id().to_owned()),
        }),
        ..Header::new(id, parent.workspace)
    };
    let files = files_beside(&target);
    JsonlStore::fork(target, header, lines).make()?;
    checkpoints::inherit(&files_beside(journal), &files, at.unwrap_or(turns));
    Ok(())
}
