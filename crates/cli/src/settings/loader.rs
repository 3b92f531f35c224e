//! Lays one source over the other and collects what is wrong.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::error::{Fault, Place, Problem, SettingsError, printable};
use super::file::{self, Demand, Read, position};
use super::key::{self, Folder, Key, PREFIX, RESERVED_VARIABLES};
use super::slot::{Base, Wrong};
use super::{Loaded, Settings, Sources, Trust as FolderTrust, absolute_variable};

/// Whether a source may set whatever it likes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The person has written it, or named it for this run.
    Person,
    /// It came with the folder.
    Folder,
}

/// Settings as they grow.
pub(super) struct Loader<'l> {
    sources: &'l Sources,
    read: Read<'l>,
    settings: Settings,
    origins: Vec<(usize, Place)>,
    warnings: Vec<String>,
    problems: Vec<Problem>,
}

impl<'l> Loader<'l> {
    pub(super) fn new(sources: &'l Sources, read: Read<'l>) -> Self {
        Self {
            sources,
            read,
            settings: Settings::default(),
            origins: Vec::new(),
            warnings: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Reads all files, the strongest last.
    pub(super) fn files(&mut self) {
        let sources = self.sources;
        if let Some(path) = &sources.user {
            self.file(path, Demand::Optional, Trust::Person);
        }
        if let Some(root) = &sources.project {
            let folder = root.join(".tooloop");
            self.file(&folder.join("config.toml"), Demand::Optional, Trust::Folder);
            self.file(&folder.join("local.toml"), Demand::Optional, Trust::Folder);
        }
        if let Some(path) = &sources.explicit {
            self.file(path, Demand::Explicit, Trust::Person);
        }
    }

    fn file(&mut self, path: &Path, demand: Demand, trust: Trust) {
        let bytes = match (self.read)(path, demand) {
            Ok(bytes) => bytes,
            Err(error) => {
                let is_missing =
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
                if !(is_missing && demand == Demand::Optional) {
                    let fault = Fault::Unreadable(file::reason(&error));
                    self.problem(Place::in_file(path, None), fault);
                }
                return;
            }
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.text(text.strip_prefix('\u{feff}').unwrap_or(text), path, trust),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let valid = String::from_utf8_lossy(valid);
                let place = Place::in_file(path, Some(position(&valid, valid.len())));
                self.problem(place, Fault::Unreadable("it is not UTF-8 text".to_owned()));
            }
        }
    }

    fn text(&mut self, text: &str, path: &Path, trust: Trust) {
        let place = |offset| Place::in_file(path, Some(position(text, offset)));
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let offset = error.span().map_or(text.len(), |span| span.start);
                self.problem(place(offset), Fault::Syntax(error.message().to_owned()));
                return;
            }
        };
        let path = self.sources.working_directory.join(path);
        let folder = path.parent().unwrap_or(&path);
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            let at = place(name.span().start);
            let Some((index, key)) = key::find(name.get_ref()) else {
                let fault = Fault::UnknownKey {
                    key: name.get_ref().clone().into_owned(),
                    nearest: key::nearest(name.get_ref()),
                    is_table: value.get_ref().is_table(),
                };
                self.problem(at, fault);
                continue;
            };
            let mut settings = self.settings.clone();
            let home = self.home();
            let base = Base {
                folder,
                home: home.as_deref(),
            };
            let wrong = (key.slot)(&mut settings).assign(value, base);
            if !wrong.is_empty() {
                for Wrong { at, what } in wrong {
                    self.problem(
                        place(at),
                        Fault::Value {
                            key: key.name,
                            what,
                        },
                    );
                }
            } else if trust == Trust::Folder && self.is_wider(key, &settings) {
                self.refuse(key, &at);
            } else {
                self.accept(index, key, settings, at);
            }
        }
    }

    fn is_wider(&self, key: &Key, settings: &Settings) -> bool {
        match key.folder {
            Folder::Free => false,
            Folder::Narrower(is_narrower) => !is_narrower(settings, &self.settings),
            Folder::Never => true,
        }
    }

    /// Says that a folder's setting is not applied.
    fn refuse(&mut self, key: &Key, at: &Place) {
        let user = match &self.sources.user {
            Some(path) => path.display().to_string(),
            None => "your own settings file".to_owned(),
        };
        self.warnings.push(printable(&format!(
            "{at}: `{}` is not applied: this folder is not trusted, and an untrusted folder \
             cannot widen settings; put it into {user}, or set {} or a flag",
            key.name,
            key.variable(),
        )));
    }

    /// Reads the variables.
    pub(super) fn environment(&mut self) {
        let mut variables = Vec::new();
        for (name, value) in &self.sources.environment {
            let name = name.to_string_lossy();
            if name.starts_with(PREFIX) && !RESERVED_VARIABLES.contains(&&*name) {
                variables.push((name, value));
            }
        }
        variables.sort();
        for (name, value) in variables {
            let lower = name.trim_start_matches(PREFIX).to_ascii_lowercase();
            let found = key::find(&lower).filter(|(_, key)| key.variable() == name);
            let Some((index, key)) = found else {
                let nearest = key::nearest(&lower).and_then(key::find);
                self.warnings.push(printable(&match nearest {
                    Some((_, key)) => {
                        format!("{name} is no setting, the nearest is {}", key.variable())
                    }
                    None => format!("{name} is no setting"),
                }));
                continue;
            };
            let place = Place::Variable(name.into_owned());
            match value.to_str() {
                // As usual in an environment, empty is not set.
                Some("") => {}
                Some(value) => self.value(index, key, value, place),
                None => {
                    let what = "is not UTF-8 text".to_owned();
                    self.problem(
                        place,
                        Fault::Value {
                            key: key.name,
                            what,
                        },
                    );
                }
            }
        }
    }

    /// Reads the flags.
    pub(super) fn flags(&mut self) {
        for (name, value) in &self.sources.flags {
            let place = Place::Flag(name);
            match key::find(name) {
                Some((index, key)) => self.value(index, key, value, place),
                None => {
                    let fault = Fault::UnknownKey {
                        key: (*name).to_owned(),
                        nearest: key::nearest(name),
                        is_table: false,
                    };
                    self.problem(place, fault);
                }
            }
        }
    }

    fn value(&mut self, index: usize, key: &Key, value: &str, place: Place) {
        let mut settings = self.settings.clone();
        let home = self.home();
        let base = Base {
            folder: &self.sources.working_directory,
            home: home.as_deref(),
        };
        let wrong = (key.slot)(&mut settings).assign_text(value, base);
        if wrong.is_empty() {
            self.accept(index, key, settings, place);
            return;
        }
        for Wrong { at: _, what } in wrong {
            let fault = Fault::Value {
                key: key.name,
                what,
            };
            self.problem(place.clone(), fault);
        }
    }

    fn accept(&mut self, index: usize, key: &Key, mut settings: Settings, place: Place) {
        let is_list = (key.slot)(&mut settings).is_list();
        self.origins
            .retain(|(other, from)| *other != index || (is_list && *from != place));
        self.origins.push((index, place));
        self.settings = settings;
    }

    fn problem(&mut self, place: Place, fault: Fault) {
        self.problems.push(Problem { place, fault });
    }

    fn home(&self) -> Option<PathBuf> {
        absolute_variable(&self.sources.environment, "HOME").map(Path::to_owned)
    }

    /// Gives the settings, if nothing was wrong anywhere.
    pub(super) fn finish(mut self) -> Result<Loaded, SettingsError> {
        if !self.problems.is_empty() {
            return Err(SettingsError {
                problems: self.problems,
            });
        }
        self.withhold_key();
        Ok(Loaded {
            settings: self.settings,
            warnings: self.warnings,
            rules: Vec::new(),
            trust: FolderTrust::NotNeeded,
            origins: self.origins,
        })
    }

    /// The variable that holds the key is withheld from commands, whatever its name looks like.
    fn withhold_key(&mut self) {
        let Some(name) = &self.settings.key_variable else {
            return;
        };
        let withheld = &mut self.settings.withhold_environment;
        if withheld.contains(name) {
            return;
        }
        withheld.push(name.clone());
        let named = key::find("key_variable");
        let list = key::find("withhold_environment");
        if let (Some((named, _)), Some((list, _))) = (named, list) {
            let place = self.origins.iter().find(|(index, _)| *index == named);
            if let Some((_, place)) = place {
                self.origins.push((list, place.clone()));
            }
        }
    }
}
