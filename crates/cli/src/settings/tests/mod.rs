//! Tests of the sources together. No test touches the environment of its process.

mod disk;
mod documentation;
mod folder;
mod hooks;
mod json;
mod managed;
mod sources;
mod values;

use std::io;
use std::path::{Path, PathBuf};

use super::file::Demand;
use super::loader::TRUST_HINT;
use super::*;

const USER: &str = "/u/config.toml";
const PROJECT: &str = "/w/.tooloop/config.toml";
const LOCAL: &str = "/w/.tooloop/local.toml";
const EXPLICIT: &str = "/x/extra.toml";
const MANAGED_FILE: &str = "/etc/m.toml";
const JSON_USER: &str = "/u/settings.json";
const JSON_PROJECT: &str = "/w/.claude/settings.json";
const JSON_LOCAL: &str = "/w/.claude/settings.local.json";
const JSON_MANAGED: &str = "/etc/m.json";

/// Files and other sources that exist only for one test.
#[derive(Default)]
struct World {
    files: Vec<(&'static str, Vec<u8>)>,
    sources: Sources,
}

impl World {
    fn new() -> Self {
        Self {
            files: Vec::new(),
            sources: Sources {
                user: Some(USER.into()),
                project: Some("/w".into()),
                managed: Some(MANAGED_FILE.into()),
                json_user: Some(JSON_USER.into()),
                json_managed: Some(JSON_MANAGED.into()),
                working_directory: "/w".into(),
                environment: vec![("HOME".into(), "/home/me".into())],
                ..Sources::default()
            },
        }
    }

    fn file(mut self, path: &'static str, text: impl Into<Vec<u8>>) -> Self {
        if path == EXPLICIT {
            self.sources.explicit = Some(path.into());
        }
        self.files.push((path, text.into()));
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((name.into(), value.into()));
        self
    }

    fn flag(mut self, key: &'static str, value: &str) -> Self {
        self.sources.flags.push((key, value.to_owned()));
        self
    }

    /// With all approved that the folder's files want now.
    fn trusting(mut self) -> Self {
        let wanted = self.load().unwrap().widenings.into_iter();
        let wanted = wanted
            .map(|widening| widening.fingerprint.unwrap())
            .collect();
        self.sources.approvals = Approvals::These(wanted);
        self
    }

    /// The same files but this one.
    fn instead(mut self, path: &'static str, text: impl Into<Vec<u8>>) -> Self {
        self.files.retain(|(name, _)| *name != path);
        self.file(path, text)
    }

    fn load(&self) -> Result<Loaded, SettingsError> {
        load_with(&self.sources, &|path: &Path, _: Demand| {
            self.files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| text.clone())
                .ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn settings(&self) -> Settings {
        self.load().unwrap().settings
    }

    /// All problems, a line each.
    fn error(&self) -> String {
        self.load().unwrap_err().to_string()
    }
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn texts(rules: &[Rule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

/// Value and origin of a key.
fn described(loaded: &Loaded, key: &str) -> (String, String) {
    let lines = loaded.describe();
    let (_, value, origin, _) = lines.into_iter().find(|(name, ..)| *name == key).unwrap();
    (value, origin)
}

fn user_of(variables: &[(&str, &str)]) -> Option<PathBuf> {
    let environment = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    Sources::new("/w".into(), environment).user
}
