//! Settings: where they come from, what they may be, and who may set them.
//!
//! Sources in rising order: built-in defaults, the user's file, the folder's `.tooloop/config.toml`
//! and `.tooloop/local.toml`, a file named by a flag, variables `TOOLOOP_<KEY>`, flags. A later
//! source replaces a value and adds to a list, so a deny rule from any source stays. The files of
//! a folder are not trusted: they may narrow, never widen. What is wrong anywhere is collected and
//! reported together with its place; nothing is ever written.
//!
//! All keys stand in one table ([`key`]). This module must not know what a setting is for: it
//! builds no provider, policy or runtime, and knows no environment but the one handed in.
//!
//! ```ignore
//! let sources = Sources {
//!     flags: vec![("model", "small".to_owned())],
//!     ..Sources::new(folder, std::env::vars_os().collect())
//! };
//! let loaded = load(&sources)?;
//! assert_eq!(loaded.settings.model.as_deref(), Some("small"));
//! ```

mod choice;
mod error;
pub(crate) mod file;
mod key;
mod list;
mod loader;
mod number;
mod rules;
mod slot;
#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tooloop::provider::{ReasoningEcho, WireFormat};
use tooloop::{Mode, Rule};

pub(crate) use error::{Fault, Place, Problem, SettingsError};
pub(crate) use rules::{RuleKind, Source, SourcedRule, Trust};

use key::KEYS;
use loader::Loader;

use crate::toolset::ToolSet;

/// What the product is run with, as far as settings can say it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) model: Option<String>,
    pub(crate) fallback_model: Option<String>,
    pub(crate) models_file: Option<PathBuf>,
    pub(crate) base_url: Option<String>,
    pub(crate) api: Option<WireFormat>,
    pub(crate) key_variable: Option<String>,
    pub(crate) extra_ca_file: Option<PathBuf>,
    pub(crate) reasoning_echo: ReasoningEcho,
    pub(crate) context_window: Option<u64>,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) stream_first_byte_timeout: Duration,
    pub(crate) stream_idle_timeout: Duration,
    pub(crate) stream_content_timeout: Duration,
    pub(crate) retry_base: Duration,
    pub(crate) retry_max_wait: Duration,
    pub(crate) retry_max_attempts: u32,
    pub(crate) retry_max_total: Duration,
    pub(crate) retry_after_max: Duration,
    pub(crate) tool_timeout: Duration,
    pub(crate) max_parallel_tools: usize,
    pub(crate) tools: ToolSet,
    pub(crate) permission_mode: Mode,
    pub(crate) allowed_tools: Vec<Rule>,
    pub(crate) ask_tools: Vec<Rule>,
    pub(crate) disallowed_tools: Vec<Rule>,
    pub(crate) private_hosts: Vec<String>,
    pub(crate) sandbox: Sandbox,
    pub(crate) shell: Option<PathBuf>,
    pub(crate) spool_max_bytes: u64,
    pub(crate) checkpoints: bool,
    pub(crate) pass_environment: Vec<String>,
    /// Holds the key variable too, if one is named.
    pub(crate) withhold_environment: Vec<String>,
    pub(crate) debug_file: Option<PathBuf>,
    pub(crate) log: Option<String>,
    pub(crate) otlp_endpoint: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            model: None,
            fallback_model: None,
            models_file: None,
            base_url: None,
            api: None,
            key_variable: None,
            extra_ca_file: None,
            reasoning_echo: ReasoningEcho::Auto,
            context_window: None,
            max_output_tokens: None,
            stream_first_byte_timeout: Duration::from_secs(60),
            stream_idle_timeout: Duration::from_secs(90),
            stream_content_timeout: Duration::from_secs(300),
            retry_base: Duration::from_millis(500),
            retry_max_wait: Duration::from_secs(32),
            retry_max_attempts: 10,
            retry_max_total: Duration::from_secs(300),
            retry_after_max: Duration::from_secs(60),
            tool_timeout: Duration::from_secs(120),
            max_parallel_tools: 10,
            tools: ToolSet::Default,
            permission_mode: Mode::Default,
            allowed_tools: Vec::new(),
            ask_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            private_hosts: Vec::new(),
            sandbox: Sandbox::Off,
            shell: None,
            spool_max_bytes: 1 << 30,
            checkpoints: true,
            pass_environment: Vec::new(),
            withhold_environment: Vec::new(),
            debug_file: None,
            log: None,
            otlp_endpoint: None,
        }
    }
}

/// What holds a command besides the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    /// Nothing.
    Off,
}

/// Where settings are read from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The user's file.
    pub(crate) user: Option<PathBuf>,
    /// The root of the workspace, whose `.tooloop` is looked into.
    pub(crate) project: Option<PathBuf>,
    /// A file named by a flag; it must be there.
    pub(crate) explicit: Option<PathBuf>,
    /// What relative paths in variables and flags start from.
    pub(crate) working_directory: PathBuf,
    /// All variables there are; those with another prefix than `TOOLOOP_` are passed over, but
    /// `HOME`.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Key and value of each flag that stands for a setting, in their order on the command line.
    pub(crate) flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// The usual places for a folder and an environment: the user's file and the folder's own.
    pub(crate) fn new(folder: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        Self {
            user: user_file(&environment),
            project: Some(folder.clone()),
            explicit: None,
            working_directory: folder,
            environment,
            flags: Vec::new(),
        }
    }
}

/// `$XDG_CONFIG_HOME/tooloop/config.toml`, or below `~/.config`. Relative values do not count.
pub(crate) fn user_file(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let folder = absolute_variable(environment, "XDG_CONFIG_HOME").map_or_else(
        || absolute_variable(environment, "HOME").map(|home| home.join(".config")),
        |folder| Some(folder.to_owned()),
    )?;
    Some(folder.join("tooloop/config.toml"))
}

fn absolute_variable<'e>(environment: &'e [(OsString, OsString)], name: &str) -> Option<&'e Path> {
    environment
        .iter()
        .find(|(other, _)| other == OsStr::new(name))
        .map(|(_, value)| Path::new(value))
        .filter(|path| path.is_absolute())
}

/// Settings and what is known about them.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    /// What a person should see: settings that were not applied, and variables that mean nothing.
    pub(crate) warnings: Vec<String>,
    /// The permission rules of all sources, those that are applied, the weakest source first.
    pub(crate) rules: Vec<SourcedRule>,
    pub(crate) trust: Trust,
    /// Where values came from, by place in the table of keys; nothing for defaults.
    origins: Vec<(usize, Place)>,
}

impl Loaded {
    /// Each key with its value and where that came from, in the order of the table.
    /// The last part is what the key is for.
    pub(crate) fn describe(&self) -> Vec<(&'static str, String, String, &'static str)> {
        let mut settings = self.settings.clone();
        let describe = |(index, key): (usize, &key::Key)| {
            let origins: Vec<String> = self
                .origins
                .iter()
                .filter(|(of, _)| *of == index)
                .map(|(_, place)| place.origin())
                .collect();
            let origin = if origins.is_empty() {
                "default".to_owned()
            } else {
                origins.join(", ")
            };
            let value = (key.slot)(&mut settings).show();
            (key.name, value, origin, key.doc)
        };
        KEYS.iter().enumerate().map(describe).collect()
    }
}

/// Reads all sources.
///
/// # Errors
/// All that is wrong in any of them.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, SettingsError> {
    load_with(sources, &file::read)
}

fn load_with(sources: &Sources, read: file::Read<'_>) -> Result<Loaded, SettingsError> {
    let mut loader = Loader::new(sources, read);
    loader.files();
    loader.environment();
    loader.flags();
    loader.finish()
}
