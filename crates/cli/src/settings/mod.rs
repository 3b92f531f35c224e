//! Settings: where they come from, what they may be, and who may set them.
//!
//! Sources in rising order: built-in defaults, the user's file, the folder's `.tooloop/config.toml`
//! and `.tooloop/local.toml`, a file named by a flag, variables `TOOLOOP_<KEY>`, flags, the managed
//! file. A later source replaces a value and adds to a list, so a deny rule from any source stays.
//! Beside each file the widespread JSON settings of the same strength are read ([`foreign`]). The
//! files of a folder may narrow; what they widen is applied only as far as a person has approved
//! it ([`Widening`]). What is wrong anywhere is collected and reported together with its place;
//! nothing is ever written.
//!
//! All keys stand in one table ([`key`]). This module must not know what a setting is for: it
//! builds no provider, policy or runtime, and knows no environment but the one handed in.
//!
//! ```ignore
//! let sources = Sources {
//!     flags: vec![("model", "small".to_owned())],
//!     ..Sources::new(folder, std::env::vars_os().collect())
//! };
//! let loaded = load(&sources, &Files::default())?;
//! assert_eq!(loaded.settings.model.as_deref(), Some("small"));
//! ```

mod choice;
mod error;
pub(crate) mod file;
mod foreign;
mod hook;
mod key;
mod layer;
mod layer_json;
mod list;
mod loader;
mod names;
mod number;
mod rules;
mod sandbox;
mod script;
mod served;
mod slot;
#[cfg(test)]
mod tests;
mod widening;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tooloop::hooks::HookRule;
use tooloop::provider::{ReasoningEcho, WireFormat, compat};
use tooloop::{Mode, Reach, Rule};

pub(crate) use error::{Fault, Place, Problem, SettingsError};
pub(crate) use key::PREFIX;
pub(crate) use rules::{RuleKind, Source, SourcedRule, Trust};
pub(crate) use sandbox::Sandbox;
pub(crate) use served::served;
pub(crate) use widening::{Approvals, Widening};

/// The paths within a workspace that a hook's command may mean, whether or not anything is there.
pub(crate) fn named_scripts(command: &str, workspace: &Path) -> Vec<PathBuf> {
    let home = std::env::home_dir();
    let mut variables = vec![
        (PROJECT_FOLDER_VARIABLE, workspace),
        (compat::PROJECT_FOLDER_VARIABLE, workspace),
        ("PWD", workspace),
    ];
    variables.extend(home.as_deref().map(|home| ("HOME", home)));
    script::named(command, workspace, &variables).unwrap_or_default()
}

use file::Demand;
use key::KEYS;
use loader::Loader;

use crate::toolset::ToolSet;

/// What the product is run with, as far as settings can say it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) model: Option<String>,
    pub(crate) fallback_model: Option<String>,
    pub(crate) explore_model: Option<String>,
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
    pub(crate) background_wait: Duration,
    pub(crate) max_parallel_tools: usize,
    pub(crate) tools: ToolSet,
    pub(crate) permission_mode: Mode,
    pub(crate) allowed_tools: Vec<Rule>,
    pub(crate) ask_tools: Vec<Rule>,
    pub(crate) disallowed_tools: Vec<Rule>,
    pub(crate) additional_directories: Vec<PathBuf>,
    pub(crate) disable_bypass_permissions: bool,
    pub(crate) allow_managed_rules_only: bool,
    pub(crate) allow_managed_hooks_only: bool,
    pub(crate) json_settings: bool,
    pub(crate) hooks: Vec<HookRule>,
    pub(crate) private_hosts: Vec<String>,
    pub(crate) sandbox: Sandbox,
    pub(crate) sandbox_network: Reach,
    /// Whether lines that stay within the sandbox need no question.
    pub(crate) sandbox_allows: bool,
    pub(crate) sandbox_writable: Vec<PathBuf>,
    pub(crate) sandbox_hidden: Vec<PathBuf>,
    pub(crate) sandbox_caches: bool,
    pub(crate) sandbox_hooks: bool,
    pub(crate) instructions: bool,
    pub(crate) shell: Option<PathBuf>,
    pub(crate) spool_max_bytes: u64,
    pub(crate) checkpoints: bool,
    pub(crate) memory: bool,
    pub(crate) compaction: bool,
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
            explore_model: None,
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
            background_wait: Duration::from_secs(300),
            max_parallel_tools: 10,
            tools: ToolSet::Default,
            permission_mode: Mode::Default,
            allowed_tools: Vec::new(),
            ask_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            additional_directories: Vec::new(),
            disable_bypass_permissions: false,
            allow_managed_rules_only: false,
            allow_managed_hooks_only: false,
            json_settings: true,
            hooks: Vec::new(),
            private_hosts: Vec::new(),
            sandbox: Sandbox::Auto,
            sandbox_network: Reach::Nothing,
            sandbox_allows: true,
            sandbox_writable: Vec::new(),
            sandbox_hidden: Vec::new(),
            sandbox_caches: true,
            sandbox_hooks: true,
            instructions: true,
            shell: None,
            spool_max_bytes: 1 << 30,
            checkpoints: true,
            memory: true,
            compaction: true,
            pass_environment: Vec::new(),
            withhold_environment: Vec::new(),
            debug_file: None,
            log: None,
            otlp_endpoint: None,
        }
    }
}

/// Where settings are read from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The user's file.
    pub(crate) user: Option<PathBuf>,
    /// The root of the workspace, whose `.tooloop` is looked into.
    pub(crate) project: Option<PathBuf>,
    /// The file of whoever looks after the machine.
    pub(crate) managed: Option<PathBuf>,
    /// The widespread JSON settings of the user, and of whoever looks after the machine.
    pub(crate) json_user: Option<PathBuf>,
    pub(crate) json_managed: Option<PathBuf>,
    /// What a person has approved of the folder's files.
    pub(crate) approvals: Approvals,
    /// No hooks are run but those of the managed files.
    pub(crate) bare: bool,
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
            managed: Some(MANAGED.into()),
            json_user: json_user_file(&environment, &folder),
            json_managed: Some(compat::MANAGED_SETTINGS.into()),
            approvals: Approvals::Nothing,
            bare: false,
            project: Some(folder.clone()),
            explicit: None,
            working_directory: folder,
            environment,
            flags: Vec::new(),
        }
    }
}

/// The variable by which hooks find the folder that they are run for.
pub(crate) const PROJECT_FOLDER_VARIABLE: &str = "TOOLOOP_PROJECT_DIR";

/// The file of whoever looks after the machine.
pub(crate) const MANAGED: &str = "/etc/tooloop/config.toml";

/// The user's file in the widespread form, by the name that it has as a file of the folder if it is
/// one.
fn json_user_file(environment: &[(OsString, OsString)], folder: &Path) -> Option<PathBuf> {
    let path = match absolute_variable(environment, compat::USER_FOLDER_VARIABLE) {
        Some(folder) => folder.join(compat::USER_FILE),
        None => absolute_variable(environment, "HOME")?.join(compat::USER_SETTINGS),
    };
    let of_folder = folder.join(compat::PROJECT_SETTINGS);
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let is_same = real(&path).is_some_and(|path| real(&of_folder) == Some(path));
    Some(if is_same { of_folder } else { path })
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
    /// All that the folder's files would widen, applied or not.
    pub(crate) widenings: Vec<Widening>,
    /// Where values came from, by place in the table of keys; nothing for defaults.
    origins: Vec<(usize, Place)>,
}

impl Loaded {
    /// Each key with its value and where that came from, in the order of the table.
    /// The last part is what the key is for.
    pub(crate) fn describe(&self) -> Vec<(&'static str, String, String, &'static str)> {
        let mut settings = self.settings.clone();
        let describe = |(index, key): (usize, &key::Key)| {
            let mut origins: Vec<String> = self
                .origins
                .iter()
                .filter(|(of, _)| *of == index)
                .map(|(_, place)| place.origin())
                .collect();
            // Parts of a list may stand on one line.
            origins.dedup();
            let origin = if origins.is_empty() {
                "default".to_owned()
            } else {
                origins.join(", ")
            };
            let value = (key.slot)(&mut settings).show();
            (key.name, value, origin, key.doc)
        };
        let mut described: Vec<_> = KEYS.iter().enumerate().map(describe).collect();
        let hooks = &self.settings.hooks;
        let shown: Vec<String> = hooks.iter().map(hook::shown).collect();
        let mut origins: Vec<&str> = hooks.iter().map(|hook| &*hook.source).collect();
        if origins.is_empty() {
            origins.push("default");
        }
        let doc = "commands that are run when something happens; tables in a file";
        described.push((key::HOOKS, format!("{shown:?}"), origins.join(", "), doc));
        described
    }
}

/// Files as they were when they were first read, so that whatever is decided about them is decided
/// about what is then applied.
#[derive(Debug, Default)]
pub(crate) struct Files(RefCell<HashMap<(PathBuf, Demand), Contents>>);

type Contents = Result<Vec<u8>, (io::ErrorKind, String)>;

impl Files {
    fn read(&self, path: &Path, demand: Demand, read: file::Read<'_>) -> io::Result<Vec<u8>> {
        let mut files = self.0.borrow_mut();
        let found = files.entry((path.to_owned(), demand)).or_insert_with(|| {
            read(path, demand).map_err(|error| (error.kind(), error.to_string()))
        });
        found
            .clone()
            .map_err(|(kind, words)| io::Error::new(kind, words))
    }
}

/// Reads all sources.
///
/// # Errors
/// All that is wrong in any of them.
pub(crate) fn load(sources: &Sources, files: &Files) -> Result<Loaded, SettingsError> {
    load_with(sources, &|path, demand| {
        files.read(path, demand, &file::read)
    })
}

fn load_with(sources: &Sources, read: file::Read<'_>) -> Result<Loaded, SettingsError> {
    // Whether the JSON settings are read is a setting too. Both passes see the same files.
    let files = Files::default();
    let read = |path: &Path, demand: Demand| files.read(path, demand, read);
    match Loader::new(sources, &read, false).all() {
        Ok(loaded) if !loaded.settings.json_settings => Ok(loaded),
        Ok(_) | Err(_) => Loader::new(sources, &read, true).all(),
    }
}
