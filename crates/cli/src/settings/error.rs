//! What is wrong with settings, and where. Values that might be secret are never repeated.

use std::fmt;
use std::path::{Path, PathBuf};

/// All that is wrong with the settings, in the order of the sources; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsError {
    pub(crate) problems: Vec<Problem>,
    /// What may be done about it, if that is not plain.
    pub(crate) hint: Option<String>,
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n{hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingsError {}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&format!("{}: {}", self.place, self.fault)))
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no such key.
    UnknownKey {
        key: String,
        nearest: Option<&'static str>,
        is_table: bool,
    },
    /// The value has the wrong type, or is not among those allowed.
    Value { key: &'static str, what: String },
    /// The file is no TOML.
    Syntax(String),
    /// The file is no JSON.
    Json(String),
    /// The file cannot be read.
    Unreadable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey {
                key,
                nearest,
                is_table,
            } => {
                write!(f, "unknown key `{}`", shortened(key))?;
                match nearest {
                    Some(nearest) => write!(f, ", the nearest valid key is `{nearest}`")?,
                    None => f.write_str(", `tooloop config` lists the keys there are")?,
                }
                if *is_table {
                    f.write_str(" (only hooks are tables: other keys stand at the top)")?;
                }
                Ok(())
            }
            Self::Value { key, what } => write!(f, "`{key}` {what}"),
            Self::Syntax(what) => write!(f, "not valid TOML: {what}"),
            Self::Json(what) => write!(f, "not valid JSON: {what}"),
            Self::Unreadable(what) => write!(f, "cannot read settings: {what}"),
        }
    }
}

/// Where something is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a file; line and column count from 1, the column in characters.
    File {
        path: PathBuf,
        at: Option<(usize, usize)>,
    },
    /// In a variable of the environment.
    Variable(String),
    /// In a flag, by the key it stands for.
    Flag(&'static str),
}

impl Place {
    pub(super) fn in_file(path: &Path, at: Option<(usize, usize)>) -> Self {
        Self::File {
            path: path.to_owned(),
            at,
        }
    }

    /// The place as an origin of a value: without the column.
    pub(crate) fn origin(&self) -> String {
        match self {
            Self::File {
                path,
                at: Some((line, _)),
            } => printable(&format!("{}:{line}", path.display())),
            Self::File { .. } | Self::Variable(_) | Self::Flag(_) => printable(&self.to_string()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, at } => {
                write!(f, "{}", path.display())?;
                match at {
                    Some((line, column)) => write!(f, ":{line}:{column}"),
                    None => Ok(()),
                }
            }
            Self::Variable(name) => f.write_str(name),
            Self::Flag(key) => write!(f, "--{}", key.replace('_', "-")),
        }
    }
}

/// Text from a file without the power to steer a terminal.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The first characters of a text that may be of any length.
pub(super) fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
