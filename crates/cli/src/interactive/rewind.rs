//! `/rewind`.

use tooloop::{Rewind, Rewound, What};

use super::editor::Line;
use super::paint::Style;
use super::{Failure, Front};
use crate::rewinding;

/// What `/rewind` is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    List,
    Undo,
    Back(usize, What),
}

/// How it is used.
const USAGE: &str = "/rewind N goes back to before turn N: conversation and files. /rewind N files \
                     and /rewind N conversation take back one of the two; /rewind undo restores \
                     the files of the newest rewind.";

impl Front {
    /// Returns what is put into the editor.
    pub(super) async fn rewind(&mut self, wanted: &str) -> Result<String, Failure> {
        let Some(wanted) = parse(wanted) else {
            self.say(Style::Notice, USAGE).await?;
            return Ok(String::new());
        };
        if wanted == Wanted::List {
            self.list_turns().await?;
            return Ok(String::new());
        }
        let told = match self.rewound(wanted, true).await {
            Ok(told) => told,
            Err(refused) => {
                self.say(Style::Notice, &refused.to_string()).await?;
                return Ok(String::new());
            }
        };
        for words in rewinding::words(&told, true, "it stays as it is") {
            self.say(Style::Plain, &words).await?;
        }
        let nothing = match wanted {
            Wanted::Back(turn, what) if what.conversation() => {
                let words = format!("The conversation ends before turn {turn} then.");
                self.say(Style::Plain, &words).await?;
                false
            }
            Wanted::Back(..) | Wanted::Undo | Wanted::List => {
                told.files.restored.is_empty() && told.files.removed.is_empty()
            }
        };
        if nothing {
            self.say(Style::Notice, "There is nothing to restore.")
                .await?;
            return Ok(String::new());
        }
        let words = "Type y and Enter to do it; anything else leaves all as it is.";
        self.say(Style::Bold, words).await?;
        let answer = match self.read("").await? {
            Line::Text(answer) => answer,
            Line::Broken(_)
            | Line::Woken
            | Line::ControlC { .. }
            | Line::End
            | Line::Stopped(_)
            | Line::Failed(_) => String::new(),
        };
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            self.say(Style::Dim, "All is left as it is.").await?;
            return Ok(String::new());
        }
        match self.rewound(wanted, false).await {
            Ok(done) => {
                for words in rewinding::words(&done, false, "it was left as it is") {
                    self.say(Style::Plain, &words).await?;
                }
                self.say(Style::Dim, "Rewound.").await?;
                Ok(rewinding::text_of(&done.prompt))
            }
            Err(failed) => {
                self.say(Style::Bad, &failed.to_string()).await?;
                Ok(String::new())
            }
        }
    }

    async fn rewound(
        &self,
        wanted: Wanted,
        dry_run: bool,
    ) -> Result<Rewound, tooloop::SessionError> {
        let session = self.session.as_ref();
        let session = session.ok_or(tooloop::SessionError::Closed)?;
        match wanted {
            Wanted::Back(turn, what) => {
                let rewind = Rewind {
                    turn,
                    what,
                    dry_run,
                    ..Rewind::default()
                };
                session.rewind_to(rewind).await
            }
            Wanted::Undo | Wanted::List => session.undo_rewind(false, dry_run).await,
        }
    }

    async fn list_turns(&self) -> Result<(), Failure> {
        let id = self.session()?.id().to_string();
        let path = self
            .agent
            .catalog()
            .and_then(|catalog| catalog.find(&id).ok());
        let turns = match path {
            Some(path) => tooloop::past_turns(&path)?,
            None => Vec::new(),
        };
        if turns.is_empty() {
            let words = "No turn is on record yet.";
            return self.say(Style::Notice, words).await;
        }
        for turn in &turns {
            self.say(Style::Plain, &rewinding::line(turn)).await?;
        }
        self.say(Style::Dim, USAGE).await
    }
}

fn parse(wanted: &str) -> Option<Wanted> {
    let words: Vec<_> = wanted.split_whitespace().collect();
    match words.as_slice() {
        [] => Some(Wanted::List),
        ["undo"] => Some(Wanted::Undo),
        [turn, rest @ ..] => {
            let what = match rest {
                [] | ["both"] => What::Both,
                ["files"] => What::Files,
                ["conversation"] => What::Conversation,
                _ => return None,
            };
            Some(Wanted::Back(turn.parse().ok()?, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_for_in_few_words() {
        let cases = [
            ("", Some(Wanted::List)),
            (" undo ", Some(Wanted::Undo)),
            ("3", Some(Wanted::Back(3, What::Both))),
            ("12  files", Some(Wanted::Back(12, What::Files))),
            ("1 conversation", Some(Wanted::Back(1, What::Conversation))),
            ("files", None),
            ("3 all", None),
            ("3 files now", None),
            ("-1", None),
        ];
        for (wanted, meaning) in cases {
            assert_eq!(parse(wanted), meaning, "{wanted:?}");
        }
    }
}
