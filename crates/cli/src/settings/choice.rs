//! Values that are one of a few words.

use tooloop::Mode;
use tooloop::provider::{ReasoningEcho, WireFormat};

use super::slot::is_variable;
use crate::toolset::{self, ToolSet};

/// A value that is one of a few words.
pub(super) trait Choice {
    fn choose(&mut self, word: &str) -> Result<(), Refusal>;
    fn word(&self) -> Option<String>;
    /// All words there are.
    fn words(&self) -> String;

    /// Whether a list is a value too: its items are one text then, with commas between them.
    fn takes_list(&self) -> bool {
        false
    }
}

/// Why a word is not taken.
pub(super) enum Refusal {
    NoSuchWord,
    Because(String),
}

impl Choice for Mode {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        *self = word.parse().map_err(|_| Refusal::NoSuchWord)?;
        Ok(())
    }

    fn word(&self) -> Option<String> {
        Some(self.name().to_owned())
    }

    fn words(&self) -> String {
        format!("one of {}", Self::ALL.map(Self::name).join(", "))
    }
}

impl Choice for Option<WireFormat> {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        *self = Some(WireFormat::parse(word).ok_or(Refusal::NoSuchWord)?);
        Ok(())
    }

    fn word(&self) -> Option<String> {
        self.map(|format| format.name().to_owned())
    }

    fn words(&self) -> String {
        format!(
            "one of {}",
            WireFormat::ALL.map(WireFormat::name).join(", ")
        )
    }
}

impl Choice for ToolSet {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        *self = Self::parse(word).map_err(Refusal::Because)?;
        Ok(())
    }

    fn word(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn words(&self) -> String {
        toolset::words()
    }
}

const ECHO_WORDS: [&str; 3] = ["auto", "never", "as_received"];

impl Choice for ReasoningEcho {
    fn choose(&mut self, word: &str) -> Result<(), Refusal> {
        *self = match word {
            "auto" => Self::Auto,
            "never" => Self::Never,
            "as_received" => Self::AsReceived,
            // A slip in one of our words must not become the name of a field.
            _ if !is_variable(word) || ECHO_WORDS.iter().any(|ours| is_slip(ours, word)) => {
                return Err(Refusal::NoSuchWord);
            }
            _ => Self::Field(word.to_owned()),
        };
        Ok(())
    }

    fn word(&self) -> Option<String> {
        Some(match self {
            Self::Auto => "auto".to_owned(),
            Self::Never => "never".to_owned(),
            Self::AsReceived => "as_received".to_owned(),
            Self::Field(field) => field.clone(),
        })
    }

    fn words(&self) -> String {
        format!("one of {}, or the name of a field", ECHO_WORDS.join(", "))
    }
}

fn is_slip(ours: &str, word: &str) -> bool {
    strsim::damerau_levenshtein(ours, &word.to_ascii_lowercase()) <= 2
}
