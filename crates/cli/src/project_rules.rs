//! The rules that a person has saved for a project by saying "always, in this project".
//!
//! They are kept with the person's own settings, in `projects.toml` beside `config.toml`, under the
//! path of the project's folder, and never in the folder: what is cloned can bring none along. The
//! file may be edited; what else stands in it stays as it is. One that cannot be understood is not
//! touched, and said to be so. This module must not know who saves rules, nor what they mean.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use toml_edit::{Array, Document, DocumentMut, Item, Table, Value};
use tooloop::Rule;

use crate::settings::file::{self, Demand};

/// The list of a project's rules.
const KEY: &str = "allowed_tools";

/// What a new file begins with.
const HEAD: &str = "\
# Rules that were saved by \"always, in this project\", each project under its folder. Calls that one
# of them covers run there without a question. Only you can put rules here, never a project.

";

/// How often, and how long between, another process is waited for.
const TRIES: u32 = 40;
const WAIT: Duration = Duration::from_millis(50);

/// The saved rules of one project.
#[derive(Debug, Clone)]
pub(crate) struct ProjectRules {
    file: Option<PathBuf>,
    project: PathBuf,
}

/// A rule and where it stands: line and column, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedRule {
    pub(crate) rule: Rule,
    pub(crate) at: (usize, usize),
}

/// Why rules could not be read or saved; names the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectRulesError {
    place: String,
    what: String,
}

impl fmt::Display for ProjectRulesError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

impl ProjectRules {
    /// Those of the project in this folder (absolute, links resolved). `settings` is the person's
    /// settings file; without one there are no rules, and none can be saved.
    pub(crate) fn of(project: &Path, settings: Option<&Path>) -> Self {
        Self {
            file: settings.map(|settings| settings.with_file_name("projects.toml")),
            project: project.to_owned(),
        }
    }

    /// The file that they are kept in, whether it is there or not.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads them.
    ///
    /// # Errors
    /// If the file is there and cannot be read or understood.
    pub(crate) fn load(&self) -> Result<Vec<SavedRule>, ProjectRulesError> {
        let Some(path) = &self.file else {
            return Ok(Vec::new());
        };
        let Some(text) = read(path)? else {
            return Ok(Vec::new());
        };
        let text = text.trim_start_matches('\u{feff}');
        let document = Document::parse(text).map_err(|error| syntax(path, text, &error))?;
        let key = self.key(path)?;
        let mut found = Vec::new();
        for (project, item) in document.iter() {
            let rules = check(path, text, project, item)?;
            if project == key {
                found = rules;
            }
        }
        Ok(found)
    }

    /// Adds rules. Those that are there already are not added again.
    ///
    /// # Errors
    /// If they cannot be saved; then the file is as it was.
    pub(crate) fn add(&self, rules: &[Rule]) -> Result<(), ProjectRulesError> {
        let Some(path) = &self.file else {
            return Err(ProjectRulesError {
                place: "no file for rules".into(),
                what: "set HOME or XDG_CONFIG_HOME".into(),
            });
        };
        let failed = |error: io::Error| wrong(path, None, file::reason(&error));
        let key = self.key(path)?;
        if let Some(folder) = path.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(failed)?;
        }
        // Held until the new file is in place, so that no other process's rules are lost.
        let _lock = lock(path).map_err(failed)?;
        // A link, as those who keep their settings elsewhere make it, stays one.
        let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let old = read(path)?;
        let text = old.as_deref().unwrap_or(HEAD);
        let (mark, body) = match text.strip_prefix('\u{feff}') {
            Some(body) => ("\u{feff}", body),
            None => ("", text),
        };
        let checked = Document::parse(body).map_err(|error| syntax(path, body, &error))?;
        for (project, item) in checked.iter() {
            check(path, body, project, item)?;
        }
        let mut document = checked.into_mut();
        if !insert(&mut document, key, rules) {
            return Err(wrong(path, None, "it is not of the form that it must have"));
        }
        let new = format!("{mark}{document}");
        if Some(&new) != old.as_ref() {
            replace(path, &new).map_err(failed)?;
        }
        Ok(())
    }

    /// The name of the project in the file.
    fn key(&self, path: &Path) -> Result<&str, ProjectRulesError> {
        let unnamed = || {
            wrong(
                path,
                None,
                "the project's folder has a name that is no text",
            )
        };
        self.project.to_str().ok_or_else(unnamed)
    }
}

fn wrong(path: &Path, at: Option<(usize, usize)>, what: impl Into<String>) -> ProjectRulesError {
    let place = match at {
        Some((line, column)) => format!("{}:{line}:{column}", path.display()),
        None => path.display().to_string(),
    };
    ProjectRulesError {
        place,
        what: what.into(),
    }
}

fn syntax(path: &Path, text: &str, error: &toml_edit::TomlError) -> ProjectRulesError {
    let at = error.span().map_or(text.len(), |span| span.start);
    let what = format!("not valid TOML: {}", error.message());
    wrong(path, Some(file::position(text, at)), what)
}

/// The text of the file; `None` if there is none.
fn read(path: &Path) -> Result<Option<String>, ProjectRulesError> {
    let bytes = match file::read(path, Demand::Optional) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(path, None, file::reason(&error))),
    };
    let text = String::from_utf8(bytes);
    text.map(Some)
        .map_err(|_| wrong(path, None, "it is not UTF-8 text"))
}

/// The rules of one project in the file.
fn check(
    path: &Path,
    text: &str,
    project: &str,
    item: &Item,
) -> Result<Vec<SavedRule>, ProjectRulesError> {
    let place = |span: Option<std::ops::Range<usize>>| {
        let start = span.map_or(0, |span| span.start);
        file::position(text, start)
    };
    let at = |span| Some(place(span));
    let Some(table) = item.as_table_like() else {
        let what = format!("`{project}` must be a table with the rules of a project's folder");
        return Err(wrong(path, at(item.span()), what));
    };
    let mut found = Vec::new();
    for (key, item) in table.iter() {
        if key != KEY {
            let what = format!("unknown key `{key}`, there is only `{KEY}` here");
            return Err(wrong(path, at(item.span()), what));
        }
        let Some(rules) = item.as_array() else {
            let what = format!("`{KEY}` must be a list of rules such as [\"Bash(make check)\"]");
            return Err(wrong(path, at(item.span()), what));
        };
        for value in rules {
            let rule = match value.as_str() {
                Some(rule) => rule.parse::<Rule>().map_err(|error| error.to_string()),
                None => Err("it is no string".to_owned()),
            };
            let rule = rule.map_err(|error| {
                let what = format!("`{KEY}` has a wrong rule: {error}");
                wrong(path, at(value.span()), what)
            })?;
            found.push(SavedRule {
                rule,
                at: place(value.span()),
            });
        }
    }
    Ok(found)
}

/// Puts the rules into the document; says false if it has another form.
fn insert(document: &mut DocumentMut, project: &str, rules: &[Rule]) -> bool {
    if !document.contains_key(project) {
        // What stands last, such as a comment, stays in front of the new table.
        let tail = document.trailing().as_str().unwrap_or_default().trim_end();
        let gap = if tail.is_empty() { "\n" } else { "\n\n" };
        let prefix = format!("{tail}{gap}");
        document.set_trailing("");
        let mut table = Table::new();
        table.decor_mut().set_prefix(prefix);
        document.insert(project, Item::Table(table));
    }
    let table = document.entry(project);
    let table = table.or_insert_with(|| Item::Table(Table::new()));
    let Some(table) = table.as_table_like_mut() else {
        return false;
    };
    let list = table.entry(KEY).or_insert_with(|| Array::new().into());
    let Some(list) = list.as_array_mut() else {
        return false;
    };
    // One rule a line, unless whoever wrote the list wants it otherwise.
    let on_lines = list.is_empty()
        || list.iter().any(|value| {
            let prefix = value.decor().prefix().and_then(|prefix| prefix.as_str());
            prefix.is_some_and(|prefix| prefix.contains('\n'))
        });
    for rule in rules {
        let text = rule.to_string();
        if list.iter().any(|value| value.as_str() == Some(&text)) {
            continue;
        }
        if on_lines {
            // What follows the last rule, such as a comment, stays in front of the new one.
            let tail = list.trailing().as_str().unwrap_or_default().trim_end();
            let prefix = format!("{tail}\n    ");
            list.push_formatted(Value::from(text).decorated(prefix, ""));
            list.set_trailing("\n");
            list.set_trailing_comma(true);
        } else {
            list.push(text);
        }
    }
    true
}

/// The right to write the file, for as long as what is given back lives.
fn lock(path: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path.with_extension("toml.lock"))?;
    for _ in 0..TRIES {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                std::thread::sleep(WAIT);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("another process holds it"))
}

/// Puts a new file in the place of the old one: whole at any time.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("toml.{}", std::process::id()));
    let written = write(&temporary, path, text);
    if written.is_err() {
        // There may be none.
        drop(std::fs::remove_file(&temporary));
    }
    written
}

fn write(temporary: &Path, path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(temporary)?;
    if let Ok(old) = std::fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(temporary, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bench {
        folder: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
            }
        }

        fn rules(&self, project: &str) -> ProjectRules {
            let settings = self.folder.path().join("tooloop/config.toml");
            ProjectRules::of(Path::new(project), Some(&settings))
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("tooloop/projects.toml")
        }

        fn write(&self, text: &str) {
            std::fs::create_dir_all(self.file().parent().unwrap()).unwrap();
            std::fs::write(self.file(), text).unwrap();
        }

        fn text(&self) -> String {
            std::fs::read_to_string(self.file()).unwrap()
        }
    }

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    fn loaded(rules: &ProjectRules) -> Vec<String> {
        let loaded = rules.load().unwrap().into_iter();
        loaded.map(|saved| saved.rule.to_string()).collect()
    }

    #[test]
    fn rules_are_saved_for_their_project_alone() {
        let bench = Bench::new();
        let (one, other) = (bench.rules("/w/one"), bench.rules("/w/o \"ther"));
        assert_eq!(one.load(), Ok(Vec::new()));
        one.add(&[rule("Bash(touch 1.txt)")]).unwrap();
        one.add(&[rule("Bash(a\nb)"), rule("Bash(touch 1.txt)")])
            .unwrap();
        other.add(&[rule("Edit(/w/x)")]).unwrap();
        assert_eq!(loaded(&one), ["Bash(touch 1.txt)", "Bash(a\nb)"]);
        assert_eq!(loaded(&other), ["Edit(/w/x)"]);
        assert_eq!(loaded(&bench.rules("/w")), [""; 0]);
        assert_eq!(
            bench.text(),
            format!(
                "{HEAD}[\"/w/one\"]\nallowed_tools = [\n    \"Bash(touch 1.txt)\",\n    \
                 \"\"\"\nBash(a\nb)\"\"\",\n]\n\n['/w/o \"ther']\nallowed_tools = [\n    \
                 \"Edit(/w/x)\",\n]\n"
            )
        );
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(bench.file())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let left = std::fs::read_dir(bench.file().parent().unwrap()).unwrap();
        assert_eq!(left.count(), 2, "the file and its lock");
    }

    #[test]
    fn what_else_stands_there_stays_as_it_is() {
        let bench = Bench::new();
        bench.write(
            "# mine\n[\"/w/b\"] # b first\nallowed_tools = [\"Bash(b)\"] # on one line\n\n# then a\n\
             [\"/w/a\"]\nallowed_tools = [\n  # why\n  \"Bash(a)\", # a\n  # last\n]\n",
        );
        bench.rules("/w/a").add(&[rule("Bash(c)")]).unwrap();
        bench.rules("/w/b").add(&[rule("Bash(d)")]).unwrap();
        assert_eq!(
            bench.text(),
            "# mine\n[\"/w/b\"] # b first\nallowed_tools = [\"Bash(b)\", \"Bash(d)\"] # on one \
             line\n\n# then a\n[\"/w/a\"]\nallowed_tools = [\n  # why\n  \"Bash(a)\", # a\n  # \
             last\n    \"Bash(c)\",\n]\n"
        );
        assert_eq!(loaded(&bench.rules("/w/a")), ["Bash(a)", "Bash(c)"]);
        let saved = bench.rules("/w/a").load().unwrap();
        assert_eq!(saved[0].at, (9, 3));
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_not_touched() {
        for (text, place, what) in [
            ("[\"/w/a\"", ":1:8: ", "not valid TOML"),
            ("\"/w/a\" = 1\n", ":1:10: ", "must be a table"),
            ("[\"/w/b\"]\nallow = []\n", ":2:9: ", "unknown key `allow`"),
            (
                "[\"/w/b\"]\ndisallowed_tools = [\"Bash\"]\n",
                ":2:20: ",
                "unknown key",
            ),
            (
                "[\"/w/b\"]\nallowed_tools = \"Bash\"\n",
                ":2:17: ",
                "must be a list",
            ),
            (
                "[\"/w/b\"]\nallowed_tools = [\n  \"Bash(\"]\n",
                ":3:3: ",
                "wrong rule",
            ),
        ] {
            let bench = Bench::new();
            bench.write(text);
            let rules = bench.rules("/w/a");
            for error in [
                rules.load().unwrap_err(),
                rules.add(&[rule("Bash(x)")]).unwrap_err(),
            ] {
                let error = error.to_string();
                assert!(
                    error.contains(place) && error.contains(what),
                    "{text}: {error}"
                );
            }
            assert_eq!(bench.text(), text);
        }
    }

    #[test]
    fn a_mark_windows_line_ends_and_a_link_stay() {
        let bench = Bench::new();
        let elsewhere = bench.folder.path().join("dotfiles.toml");
        std::fs::write(&elsewhere, "\u{feff}# mine\r\n").unwrap();
        std::fs::create_dir_all(bench.file().parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, bench.file()).unwrap();
        bench.rules("/w/a").add(&[rule("Bash(x)")]).unwrap();
        assert!(bench.file().symlink_metadata().unwrap().is_symlink());
        let text = std::fs::read_to_string(&elsewhere).unwrap();
        assert!(text.starts_with("\u{feff}"), "{text:?}");
        assert!(text.contains("# mine"), "{text:?}");
        assert_eq!(loaded(&bench.rules("/w/a")), ["Bash(x)"]);
    }

    #[test]
    fn several_who_save_at_once_lose_nothing() {
        let bench = Bench::new();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let rules = bench.rules("/w/a");
                scope.spawn(move || rules.add(&[rule(&format!("Bash({number})"))]).unwrap());
            }
        });
        assert_eq!(bench.rules("/w/a").load().unwrap().len(), 8);
    }

    #[test]
    fn without_a_home_nothing_is_saved() {
        let rules = ProjectRules::of(Path::new("/w"), None);
        assert_eq!(rules.load(), Ok(Vec::new()));
        assert!(rules.add(&[rule("Bash(x)")]).is_err());
    }
}
