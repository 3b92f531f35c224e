//! Folders in which people keep Markdown for their agents, and files read from them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::front_matter::{self, FrontMatter};
use crate::no_links;

/// A folder that is looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder; it need not be there.
    pub path: PathBuf,
    /// Where links may lead: files that are really outside of it are not read. `None`: anywhere.
    pub within: Option<PathBuf>,
}

impl Place {
    /// A folder of a project: nothing outside of `root` is read through it.
    #[must_use]
    pub fn of_project(path: impl Into<PathBuf>, root: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            within: Some(root.into()),
        }
    }

    /// A folder of a person, whose links lead where they like.
    #[must_use]
    pub fn of_user(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            within: None,
        }
    }

    /// Reads a file of it: a regular one, of at most `most` bytes.
    ///
    /// # Errors
    /// If it cannot be read, is no regular file, is longer, or is really elsewhere.
    pub fn read(&self, path: &Path, most: usize) -> io::Result<Vec<u8>> {
        if let Some(within) = &self.within {
            let real = std::fs::canonicalize(path)?;
            let within = std::fs::canonicalize(within)?;
            if !real.starts_with(&within) {
                let words = format!("it is a link out of {}", within.display());
                return Err(io::Error::other(words));
            }
            // Not what the path may lead to by now.
            return bounded(no_links::open_file(&real)?, most);
        }
        read_regular(path, most)
    }

    /// Reads a Markdown file of it.
    ///
    /// # Errors
    /// Words that name the file, and the line where there is one.
    pub fn read_markdown(&self, path: &Path, most: usize) -> Result<FrontMatter, String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let bytes = self.read(path, most).map_err(|error| told(&error))?;
        front_matter::parse(&bytes).map_err(|error| {
            let (line, problem) = (error.line, error.problem);
            format!("{}:{line}: {problem}", path.display())
        })
    }
}

/// Reads a regular file of at most `most` bytes; a pipe or a device is not waited for.
pub(crate) fn read_regular(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    bounded(file, most)
}

/// Reads a file of at most `most` bytes.
pub(crate) fn bounded(file: File, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}
