//! Reading the files, and what they import.

use std::collections::HashSet;
use std::fs::Metadata;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::decode::decode;
use super::imports::{imports, is_surely_a_file};
use super::{InstructionFile, InstructionSources, MOST_INSTRUCTION_BYTES};
use tooloop_tools::no_links;

/// How deep files may import each other.
const DEEPEST: usize = 5;

/// The most files that are read.
const MOST_FILES: usize = 64;

/// How deep folders of rules are looked into.
const RULES_DEEP: usize = 4;

/// The most entries of a folder of rules that are read, the first by name.
const MOST_ENTRIES: usize = 200;

/// The most entries of a folder of rules that are looked at.
const MOST_LISTED: usize = 10_000;

/// Whose word it is that a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user's, whose files may name any other.
    User,
    /// The project's: nothing outside of it is read.
    Project,
}

/// Reads files and collects what is wrong with them.
pub(super) struct Loader<'s> {
    sources: &'s InstructionSources,
    pub(super) files: Vec<InstructionFile>,
    pub(super) warnings: Vec<String>,
    /// By device and number.
    pub(super) read: HashSet<(u64, u64)>,
    /// The folders of rules that were read, by device and number: links may lead round.
    folders: HashSet<(u64, u64)>,
    /// The files that import the one that is read, outermost first.
    importing: Vec<(u64, u64)>,
    is_full: bool,
}

/// Why a file is not read.
enum Refusal {
    /// It is not there.
    Missing,
    Because(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            ErrorKind::PermissionDenied => Self::Because("permission denied".into()),
            _ => Self::Because(error.to_string()),
        }
    }
}

impl<'s> Loader<'s> {
    pub(super) fn new(sources: &'s InstructionSources, read: HashSet<(u64, u64)>) -> Self {
        Self {
            sources,
            files: Vec::new(),
            warnings: Vec::new(),
            read,
            folders: HashSet::new(),
            importing: Vec::new(),
            is_full: false,
        }
    }

    /// Reads a file of a well-known name, if it is there.
    pub(super) fn file(&mut self, path: &Path, owner: Owner) {
        match self.add(path, owner) {
            Ok(()) => {}
            // A link that leads nowhere was meant to lead somewhere.
            Err(Refusal::Missing) if path.symlink_metadata().is_err() => {}
            Err(Refusal::Missing) => self.warn(path, "it is a link that leads nowhere"),
            Err(Refusal::Because(why)) => self.warn(path, &why),
        }
    }

    /// Reads all files of a folder of the project: rules first, then the files of well-known names.
    pub(super) fn folder(&mut self, folder: &Path) {
        let sources = self.sources;
        for name in &sources.rules {
            self.rules(&folder.join(name), Owner::Project, RULES_DEEP);
        }
        for name in &sources.names {
            self.file(&folder.join(name), Owner::Project);
        }
        for name in &sources.unread {
            let path = folder.join(name);
            // A link to a file that is read says nothing new.
            let is_read =
                |metadata: &Metadata| self.read.contains(&(metadata.dev(), metadata.ino()));
            if std::fs::metadata(&path).is_ok_and(|metadata| !is_read(&metadata)) {
                self.warn(
                    &path,
                    "it is meant for another agent; import it with @ to use it",
                );
            }
        }
    }

    /// Reads a file, or the rules in a folder.
    pub(super) fn file_or_folder(&mut self, path: &Path, owner: Owner) {
        if path.is_dir() {
            self.rules(path, owner, RULES_DEEP);
        } else {
            self.file(path, owner);
        }
    }

    /// Reads the Markdown files of a folder, by name, those of folders in it included.
    fn rules(&mut self, folder: &Path, owner: Owner, deep: usize) {
        let Ok(metadata) = std::fs::metadata(folder) else {
            return;
        };
        if !self.folders.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        let entries = entries.take(MOST_LISTED).filter_map(Result::ok);
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        if paths.len() > MOST_ENTRIES {
            let name = self.sources.name(folder);
            self.warnings.push(format!(
                "instructions: of {name} only the first {MOST_ENTRIES} entries by name are read"
            ));
            paths.truncate(MOST_ENTRIES);
        }
        for path in paths {
            if self.is_full {
                return;
            }
            if path.is_dir() {
                if deep > 1 {
                    self.rules(&path, owner, deep - 1);
                }
            } else if path.extension().is_some_and(|end| end == "md") {
                self.file(&path, owner);
            }
        }
    }

    fn warn(&mut self, path: &Path, why: &str) {
        let name = self.sources.name(path);
        self.warnings
            .push(format!("instructions: {name} is not read: {why}"));
    }

    /// Adds a file, and before it those that it imports: what it says itself counts more.
    fn add(&mut self, path: &Path, owner: Owner) -> Result<(), Refusal> {
        let real = std::fs::canonicalize(path)?;
        if owner == Owner::Project && !real.starts_with(self.sources.border()) {
            let what = match self.sources.root {
                Some(_) => "repository",
                None => "folder",
            };
            let real = crate::prompt::shown(&real);
            return Err(Refusal::Because(format!(
                "it leads out of the {what}, to {real}"
            )));
        }
        let withheld = &self.sources.withheld;
        if withheld.holds(&real) || withheld.holds(path) {
            return Err(Refusal::Because("a rule withholds it".into()));
        }
        let file = no_links::open_file(&real)?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        if self.importing.contains(&identity) {
            return Err(Refusal::Because("it imports itself in a circle".into()));
        }
        if !self.read.insert(identity) {
            return Ok(());
        }
        if self.files.len() + self.importing.len() >= MOST_FILES {
            if !std::mem::replace(&mut self.is_full, true) {
                let why = format!("no more than {MOST_FILES} files are");
                self.warn(path, &why);
            }
            return Ok(());
        }
        let mut bytes = Vec::new();
        let most = u64::try_from(MOST_INSTRUCTION_BYTES).unwrap_or(u64::MAX);
        file.take(most).read_to_end(&mut bytes)?;
        let is_cut = metadata.len() > most;
        let (mut text, lossy) =
            decode(&bytes, is_cut).map_err(|why| Refusal::Because(why.to_owned()))?;
        if let Some(end) = text.rfind('\n').filter(|_| is_cut) {
            // The line that the bound went through.
            text.truncate(end);
        }
        if lossy {
            let name = self.sources.name(path);
            self.warnings.push(format!(
                "instructions: {name} is not UTF-8 throughout: other bytes are replaced"
            ));
        }
        self.importing.push(identity);
        self.imported(path, &real, &text, owner);
        self.importing.pop();
        let is_same = |other: &InstructionFile| other.text == text;
        if !text.is_empty() && !self.files.iter().any(is_same) {
            let told = u64::try_from(text.len()).unwrap_or(u64::MAX);
            self.files.push(InstructionFile {
                name: self.sources.name(path),
                path: real,
                text,
                bytes: if is_cut { metadata.len() } else { told },
            });
        }
        Ok(())
    }

    fn imported(&mut self, path: &Path, real: &Path, text: &str, owner: Owner) {
        let folder = real.parent().unwrap_or(real);
        for word in imports(text) {
            let target = match (word.strip_prefix("~/"), owner, &self.sources.home) {
                (Some(rest), Owner::User, Some(home)) => home.join(rest),
                (Some(_), Owner::Project, _) => {
                    let why = "files of a project import nothing from the home folder";
                    self.not_imported(path, word, why);
                    continue;
                }
                (Some(_), Owner::User, None) | (None, _, _) => folder.join(word),
            };
            if self.importing.len() > DEEPEST {
                if target.is_file() {
                    let why = format!("imports go {DEEPEST} deep at most");
                    self.not_imported(path, word, &why);
                }
                continue;
            }
            match self.add(&plain(&target), owner) {
                Ok(()) => {}
                // It may be the name of a person, or of anything else.
                Err(_) if !is_surely_a_file(word) && !target.is_file() => {}
                Err(Refusal::Missing) => self.not_imported(path, word, "there is no such file"),
                Err(Refusal::Because(why)) => self.not_imported(path, word, &why),
            }
        }
    }

    fn not_imported(&mut self, path: &Path, word: &str, why: &str) {
        let name = self.sources.name(path);
        let word = crate::prompt::on_one_line(word);
        let warning = format!("instructions: {name} imports @{word}, which is not read: {why}");
        // A file may say the same thing many times.
        if self.warnings.len() < MOST_FILES && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// The path without `.` and `..`, to be shown; a link in it is followed when it is opened.
fn plain(path: &Path) -> PathBuf {
    crate::paths::normal(path)
}
