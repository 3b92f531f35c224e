//! `/help`, `/memory`, and lines that call what people have written: commands and skills.

use super::commands::{COMMANDS, KEYS, nearest};
use super::paint::{self, Out, Style, gap};
use super::{Failure, Front};
use crate::knowledge::{self, Called};

impl Front {
    /// The prompt that a line stands for; where it stands for none, that is said.
    pub(super) async fn called(&self, name: &str, line: &str) -> Result<Option<String>, Failure> {
        match self.calls.expand(line) {
            Called::Prompt(expanded) => {
                for note in expanded.notes {
                    self.say(Style::Notice, &note).await?;
                }
                Ok(Some(expanded.text))
            }
            Called::Broken(words) => {
                self.say(Style::Notice, &words).await?;
                Ok(None)
            }
            Called::Nothing => {
                let meant = nearest(name, &self.calls.names()).map_or_else(
                    || "/help lists them".into(),
                    |meant| format!("{meant} is the nearest"),
                );
                let words = format!(
                    "There is no command /{name}: {meant}. (A blank first sends the line to the \
                     model.)"
                );
                self.say(Style::Notice, &words).await?;
                Ok(None)
            }
        }
    }

    /// Lists commands, ours and others, and keys.
    pub(super) async fn help(&self) -> Result<(), Failure> {
        let (entries, warnings) = self.calls.list();
        let mut outs: Vec<Out> = COMMANDS.map(|(name, words)| entry(name, words)).into();
        outs.push(gap());
        if !entries.is_empty() {
            let entries = entries.iter();
            outs.extend(entries.map(|one| entry(&one.usage, &one.description)));
            outs.push(gap());
        }
        outs.extend(KEYS.map(|(name, words)| entry(name, words)));
        self.print(&outs).await?;
        for warning in warnings {
            self.say(Style::Notice, &warning).await?;
        }
        Ok(())
    }

    /// Lists the notes, and says how they are changed.
    pub(super) async fn memory(&self) -> Result<(), Failure> {
        let session = self.session()?;
        let Some(store) = knowledge::store(session.workspace()) else {
            let words = "There is no folder for notes: set HOME or XDG_DATA_HOME.";
            return self.say(Style::Notice, words).await;
        };
        match knowledge::list(&store) {
            Ok(list) => {
                for line in list.lines() {
                    self.say(Style::Plain, line).await?;
                }
            }
            Err(error) => self.say(Style::Notice, &error.to_string()).await?,
        }
        let words = "tooloop memory show NAME, edit NAME and delete NAME work on them.";
        self.say(Style::Dim, words).await
    }
}

/// How wide the names are.
const WIDTH: usize = 13;

fn entry(name: &str, words: &str) -> Out {
    let padding = " ".repeat(WIDTH.saturating_sub(name.len()));
    Out::Line(
        paint::Line::new(Style::Bold, format!("  {name}{padding}  ")).and(Style::Plain, words),
    )
}
