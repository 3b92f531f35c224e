//! The paths that a line reads and writes, resolved from where it runs.

use std::path::{Path, PathBuf};

use crate::{
    FileFacts,
    places::is_inside,
    places::{Extent, TouchedPath},
    shell::{
        Analysis, Command, Direction, Origin, Part, Piece, Resolved, Subcommand, Touched, Unknown,
        Word, is_git, is_open, normal, skip_globals,
    },
};

/// Where a line runs, and what the runtime knows of the files there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) directory: Option<&'a Path>,
    pub(crate) home: Option<&'a Path>,
    pub(crate) roots: &'a [PathBuf],
    pub(crate) facts: &'a FileFacts,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn git_risk(self) -> Option<&'a str> {
        self.facts.git_risk.as_deref()
    }
}

/// Returns the paths that a shell line names, absolute where that is known, so that the runtime can
/// tell where links among them lead: see [`FileFacts::links`].
///
/// ```
/// use tooloop_policy::named_paths;
///
/// let paths = named_paths("cd a; cat b ~/c", Some("/w".as_ref()), Some("/h".as_ref()));
/// for path in ["/w/a", "/w/a/b", "/h/c"] {
///     assert!(paths.contains(&path.into()), "{path}");
/// }
/// ```
#[must_use]
pub fn named_paths(line: &str, directory: Option<&Path>, home: Option<&Path>) -> Vec<PathBuf> {
    let analysis = crate::shell::analyse(line);
    let none = FileFacts::default();
    let at = Surroundings {
        directory,
        home,
        roots: &[],
        facts: &none,
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    let touched = read(&analysis, at)
        .into_iter()
        .chain(written(&analysis, at));
    for path in touched.flat_map(|touched| touched.paths) {
        if path.is_absolute() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The paths that a line reads, and those that its words may be.
pub(crate) fn read(analysis: &Analysis, at: Surroundings<'_>) -> Vec<TouchedPath> {
    let folders = analysis.folders(at.directory, at.home);
    let mut found = Vec::new();
    let mut add = |touched: &Touched, is_sure: bool, is_deep: bool| {
        let resolved = analysis.resolve(touched, &folders);
        let resolved = resolved.or_else(|| absolute_start(&touched.word));
        let extent = extent(touched, resolved.as_ref(), is_deep, at);
        let path = resolved.map(|resolved| resolved.path);
        // Of a path from an unknown folder the name is known.
        let path = path.or_else(|| touched.word.literal().map(PathBuf::from));
        found.push(TouchedPath {
            part: touched.part,
            is_bounded: extent != Extent::Any || is_bounded(analysis, touched, at),
            paths: with_links(path, at.facts),
            extent,
            is_sure,
        });
    };
    for (index, redirect) in analysis.redirects().iter().enumerate() {
        if redirect.direction == Direction::Read {
            let part = Part::Redirect(index);
            add(&analysis.redirected(part, redirect), true, false);
        }
    }
    for (index, command) in analysis.commands().iter().enumerate() {
        let mut paths = analysis.read_by(index);
        let is_recursive = walks(command);
        if is_recursive && paths.is_empty() {
            paths.push(analysis.here(index));
        }
        for touched in paths {
            add(&touched, true, is_recursive);
        }
        // Any word may be a path; whether it is one is not certain.
        for touched in analysis.named_by(index) {
            if touched.word.literal() != Some("") {
                add(&touched, false, false);
            }
        }
    }
    found
}

/// The folder in which an absolute path begins that is not fully known.
fn absolute_start(word: &Word) -> Option<Resolved> {
    let (folder, _) = word.prefix().rsplit_once('/')?;
    let is_absolute = word.prefix().starts_with('/') && word.literal().is_none();
    is_absolute.then(|| Resolved {
        path: normal(&Path::new("/").join(folder)),
        is_whole: false,
    })
}

fn extent(
    touched: &Touched,
    resolved: Option<&Resolved>,
    is_deep: bool,
    at: Surroundings<'_>,
) -> Extent {
    // Without a directory a relative path is all that can be known.
    let is_relative = || {
        at.directory.is_none() && touched.is_where_line_starts() && touched.word.literal().is_some()
    };
    match resolved {
        Some(path) if path.is_whole && is_deep => Extent::Deep,
        Some(path) if path.is_whole => Extent::Whole,
        Some(_) if !is_open(&touched.word) => Extent::Below,
        None if is_relative() => Extent::Whole,
        Some(_) | None => Extent::Any,
    }
}

/// Checks whether a command reads what is below the folders that it is given.
fn walks(command: &Command) -> bool {
    let is_recursive = || {
        command.arguments().iter().any(|word| {
            let text = word.prefix();
            let is_short = text.starts_with('-') && !text.starts_with("--");
            text.starts_with("--recursive")
                || text.starts_with("--dereference-recursive")
                || text.starts_with("--archive")
                || is_short && text.contains(['r', 'R', 'a'])
        })
    };
    match command
        .program()
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default()
    {
        "rg" | "ag" | "ack" | "tar" | "rsync" | "scp" | "7z" => true,
        "grep" | "egrep" | "fgrep" | "cp" | "zip" | "diff" => is_recursive(),
        "git" => matches!(subcommand(command), Some("grep" | "archive")),
        _ => false,
    }
}

fn subcommand(command: &Command) -> Option<&str> {
    let Subcommand::At { index, .. } = skip_globals(&command.words) else {
        return None;
    };
    command.words.get(index).and_then(Word::literal)
}

/// Checks whether a word whose value is not known can only be a path inside of the folders that the
/// line names.
fn is_bounded(analysis: &Analysis, touched: &Touched, at: Surroundings<'_>) -> bool {
    let word = &touched.word;
    let climbs = |word: &Word| {
        word.pieces.iter().any(|piece| match piece {
            Piece::Text(text) => text.contains(".."),
            Piece::Unknown(_) => false,
        })
    };
    if climbs(word) {
        return false;
    }
    word.unknowns().all(|unknown| match unknown {
        Unknown::Glob | Unknown::Number | Unknown::Process => true,
        Unknown::Tilde => false,
        Unknown::Brace => {
            let raw = &word.raw;
            !raw.starts_with(['/', '~', '$'])
                && !["..", "{/", ",/", "~", "$", "`", "\\", "'", "\""]
                    .iter()
                    .any(|bad| raw.contains(bad))
        }
        Unknown::Variable { .. } => {
            let name = variable(&word.raw);
            name.is_some_and(|name| takes_inside_values(analysis, name, at))
        }
        Unknown::Output { .. } => prints_inside_paths(analysis, touched.part),
    })
}

/// The variable with which a word begins, if the rest of it is text.
fn variable(raw: &str) -> Option<&str> {
    let raw = raw.strip_prefix('"').unwrap_or(raw).strip_prefix('$')?;
    let (name, rest) = match raw.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => {
            let end = raw.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            raw.split_at_checked(end.unwrap_or(raw.len()))?
        }
    };
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty() && !rest.contains(['$', '`'])).then_some(name)
}

/// Checks whether the line gives a variable its value, and only names of files inside of the roots.
fn takes_inside_values(analysis: &Analysis, name: &str, at: Surroundings<'_>) -> bool {
    let commands = analysis.commands().iter();
    let assigned = commands.flat_map(|command| &command.assignments);
    let mut values = assigned
        .filter(|assignment| assignment.name == name)
        .peekable();
    let is_inside_value = |value: &Word| {
        let is_known = value
            .unknowns()
            .all(|unknown| matches!(unknown, Unknown::Glob | Unknown::Number));
        let text = value.prefix();
        let is_relative = !text.starts_with(['/', '~']) && !value.raw.contains("..");
        let is_inside = || {
            let path = Path::new(text);
            value.literal().is_some() && path.is_absolute() && is_inside(path, at.roots)
        };
        is_known && (is_relative && (!text.is_empty() || !value.pieces.is_empty()) || is_inside())
    };
    values.peek().is_some()
        && values.all(|assignment| assignment.values.iter().all(is_inside_value))
}

/// Checks whether what the commands of the line print are paths below the folders that they name.
fn prints_inside_paths(analysis: &Analysis, part: Part) -> bool {
    let Part::Command(reader) = part else {
        return false;
    };
    let commands = analysis.commands();
    let parent = |command: &Command| match command.origin {
        Origin::Words { parent, .. } => commands.get(parent),
        Origin::Line | Origin::Text { .. } => None,
    };
    let is_behind_find = commands
        .get(reader)
        .and_then(parent)
        .is_some_and(|parent| parent.program() == Some("find"));
    if is_behind_find {
        return true;
    }
    commands.iter().enumerate().all(|(index, command)| {
        let has = |wanted: &[&str]| {
            let mut words = command.arguments().iter().filter_map(Word::literal);
            words.any(|word| wanted.contains(&word))
        };
        let reads_nothing = || analysis.read_by(index).is_empty();
        index == reader
            || command.words.is_empty()
            || match command.program() {
                Some("find" | "fd" | "fdfind" | "ls" | "xargs" | "cd" | "pwd" | "true") => true,
                Some("sort" | "uniq" | "head" | "tail" | "wc" | "tac" | "nl") => reads_nothing(),
                Some("grep" | "rg") => {
                    reads_nothing()
                        || has(&["-l", "-L", "--files", "--files-with-matches", "-rl", "-lr"])
                }
                Some("git") => match subcommand(command) {
                    Some("ls-files" | "ls-tree") => true,
                    Some("diff" | "show" | "log") => has(&["--name-only"]),
                    Some(_) | None => false,
                },
                Some(_) | None => false,
            }
    })
}

/// The paths that a line writes.
pub(crate) fn written(analysis: &Analysis, at: Surroundings<'_>) -> Vec<TouchedPath> {
    let folders = analysis.folders(at.directory, at.home);
    let effects = analysis.known_effects();
    let mut found: Vec<TouchedPath> = Vec::new();
    for touched in &effects.writes {
        let resolved = analysis.resolve(touched, &folders);
        let resolved = resolved.or_else(|| absolute_start(&touched.word));
        let extent = extent(touched, resolved.as_ref(), touched.is_deep, at);
        let path = resolved.map(|resolved| resolved.path);
        let path = path.or_else(|| touched.word.literal().map(PathBuf::from));
        found.push(TouchedPath {
            part: touched.part,
            is_bounded: extent != Extent::Any,
            paths: with_links(path, at.facts),
            extent,
            is_sure: true,
        });
    }
    // What changes the files of a working tree as a whole.
    const REWRITE: &[&str] = &[
        "am",
        "apply",
        "checkout",
        "cherry-pick",
        "clean",
        "merge",
        "pull",
        "rebase",
        "reset",
        "restore",
        "revert",
        "stash",
        "switch",
    ];
    for (index, command) in analysis.commands().iter().enumerate() {
        let part = Part::Command(index);
        let is_known = found.iter().any(|touched| touched.part == part);
        let rewrites = || subcommand(command).is_some_and(|name| REWRITE.contains(&name));
        if is_git(command) && !is_known && rewrites() {
            found.push(TouchedPath {
                part,
                is_bounded: false,
                paths: Vec::new(),
                extent: Extent::Any,
                is_sure: true,
            });
        }
    }
    found
}

/// A path, and where it leads through a link.
fn with_links(path: Option<PathBuf>, facts: &FileFacts) -> Vec<PathBuf> {
    let Some(path) = path else {
        return Vec::new();
    };
    let links = facts.links.iter().filter(|(named, _)| *named == path);
    let mut paths: Vec<PathBuf> = links.map(|(_, real)| real.clone()).collect();
    paths.push(path);
    paths
}
