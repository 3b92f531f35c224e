//! The table of keys. A new setting is a field of [`Settings`] with its default and one row here.

use tooloop::Mode;

use super::Settings;
use super::sandbox;
use super::slot::Slot;

/// A key of the settings.
pub(super) struct Key {
    pub(super) name: &'static str,
    /// What a file that came with a folder may do with it.
    pub(super) folder: Folder,
    /// Where its value is kept, and what that may be.
    pub(super) slot: for<'s> fn(&'s mut Settings) -> Slot<'s>,
    /// What it means, for the documentation.
    pub(super) doc: &'static str,
}

/// What a file of a folder may do with a key.
pub(super) enum Folder {
    /// Set it.
    Free,
    /// Set it if the new settings (first) are no wider than those before (second); else only if a
    /// person has approved that.
    Narrower(fn(&Settings, &Settings) -> bool),
    /// Set it to a model that is asked on the server in use; else only if a person has approved
    /// that.
    SameProvider,
    /// Set it if a person has approved that.
    WithTrust,
    /// Nothing.
    Never,
}

use Folder::{Free, Narrower, Never, SameProvider, WithTrust};

const DAY: u64 = 86_400_000;
const TOKENS: u64 = 100_000_000;

/// All keys, in the order in which they are shown.
#[rustfmt::skip]
pub(super) static KEYS: [Key; 51] = [
    key("model", SameProvider, |s| Slot::Text(&mut s.model), "the model's name, as the provider knows it"),
    key("fallback_model", SameProvider, |s| Slot::Text(&mut s.fallback_model), "the model for the rest of a prompt whose model is overloaded three times in a row"),
    key("explore_model", SameProvider, |s| Slot::Text(&mut s.explore_model), "the model for subagents that only look around; the one of the session if it is not set"),
    key("models_file", WithTrust, |s| Slot::Path(&mut s.models_file), "a file of model data (TOML) that beats what is known: windows, caps, prices; a relative path starts at the settings file's folder"),
    key("base_url", WithTrust, |s| Slot::Url(&mut s.base_url), "where the model is served, with or without `/v1`"),
    key("api", WithTrust, |s| Slot::Choice(&mut s.api), "the wire format spoken at `base_url`"),
    key("key_variable", WithTrust, |s| Slot::Variable(&mut s.key_variable), "the environment variable that holds the provider's key; it is withheld from commands"),
    key("extra_ca_file", WithTrust, |s| Slot::Path(&mut s.extra_ca_file), "a file of certificates (PEM) to trust besides the system's; a relative path starts at the settings file's folder"),
    key("reasoning_echo", WithTrust, |s| Slot::Choice(&mut s.reasoning_echo), "whether reasoning of earlier replies is sent back, and under which field"),
    key("context_window", Free, |s| Slot::Number(&mut s.context_window, 1..=TOKENS), "the model's context window in tokens, in place of what is known about the model"),
    key("max_output_tokens", Free, |s| Slot::Number(&mut s.max_output_tokens, 1..=TOKENS), "the most tokens in one reply"),
    key("compaction", Free, |s| Slot::Flag(&mut s.compaction), "whether the conversation is summed up by itself when it fills the model's window"),
    key("stream_first_byte_timeout_ms", Free, |s| Slot::Number(&mut s.stream_first_byte_timeout, 1..=DAY), "how long to wait for the first byte of a reply"),
    key("stream_idle_timeout_ms", Free, |s| Slot::Number(&mut s.stream_idle_timeout, 1..=DAY), "the longest silence within a reply"),
    key("stream_content_timeout_ms", Free, |s| Slot::Number(&mut s.stream_content_timeout, 1..=DAY), "the longest time with signs of life but no content"),
    key("retry_base_ms", Free, |s| Slot::Number(&mut s.retry_base, 0..=DAY), "the first wait before a failed model call is tried again; it doubles each time"),
    key("retry_max_wait_ms", Free, |s| Slot::Number(&mut s.retry_max_wait, 0..=DAY), "the longest such wait"),
    key("retry_max_attempts", Free, |s| Slot::Number(&mut s.retry_max_attempts, 1..=1000), "the most requests for one model call, the first included"),
    key("retry_max_total_ms", Free, |s| Slot::Number(&mut s.retry_max_total, 0..=DAY), "the most time spent on trying again"),
    key("retry_after_max_ms", Free, |s| Slot::Number(&mut s.retry_after_max, 0..=DAY), "the longest wait that a provider may ask for; the run ends at a longer one"),
    key("tool_timeout_ms", Free, |s| Slot::Number(&mut s.tool_timeout, 1..=600_000), "how long a command may run"),
    key("background_wait_ms", Free, |s| Slot::Number(&mut s.background_wait, 0..=DAY), "how long a headless run waits, after an answer, for background work to end"),
    key("max_parallel_tools", Free, |s| Slot::Number(&mut s.max_parallel_tools, 1..=64), "the most read-only calls at once"),
    key("tools", Narrower(|new, old| new.tools.is_within(&old.tools)), |s| Slot::Choice(&mut s.tools), "the tools that the model is given"),
    key("permission_mode", Narrower(is_stricter_mode), |s| Slot::Choice(&mut s.permission_mode), "what happens to a call that no rule speaks about"),
    key("allowed_tools", WithTrust, |s| Slot::Rules(&mut s.allowed_tools), "rules for calls that run without a question"),
    key("ask_tools", Free, |s| Slot::Rules(&mut s.ask_tools), "rules for calls that are asked about, even if they are allowed too"),
    key("disallowed_tools", Free, |s| Slot::Rules(&mut s.disallowed_tools), "rules for calls that never run, whatever else is said"),
    key("additional_directories", WithTrust, |s| Slot::Paths(&mut s.additional_directories), "further folders that may be worked in; a relative path starts at the settings file's folder"),
    key("disable_bypass_permissions", Narrower(|new, old| new.disable_bypass_permissions >= old.disable_bypass_permissions), |s| Slot::Flag(&mut s.disable_bypass_permissions), "whether `permission_mode` may not be `bypassPermissions`"),
    key("allow_managed_rules_only", Never, |s| Slot::Flag(&mut s.allow_managed_rules_only), "whether only rules of the managed file allow anything; for that file only"),
    key("allow_managed_hooks_only", Never, |s| Slot::Flag(&mut s.allow_managed_hooks_only), "whether only hooks of the managed file are run; for that file only"),
    key("json_settings", Never, |s| Slot::Flag(&mut s.json_settings), "whether the widespread JSON settings of managed, user and project are read as well"),
    key("private_hosts", WithTrust, |s| Slot::Hosts(&mut s.private_hosts), "hosts that `web_fetch` may talk to although their addresses are private"),
    key("sandbox", Narrower(sandbox::is_narrower), |s| Slot::Choice(&mut s.sandbox), "the wall around commands and file tools; `auto` goes without where none can be set up and says so, the others but `off` refuse to run then"),
    key("sandbox_network", Narrower(sandbox::reaches_no_further), |s| Slot::Choice(&mut s.sandbox_network), "what commands reach of the network"),
    key("sandbox_allows", Narrower(|new, old| new.sandbox_allows <= old.sandbox_allows), |s| Slot::Flag(&mut s.sandbox_allows), "whether commands that stay within the sandbox run without a question"),
    key("sandbox_writable", WithTrust, |s| Slot::Paths(&mut s.sandbox_writable), "files and folders that may be written beside the workspace and added folders"),
    key("sandbox_hidden", Free, |s| Slot::Paths(&mut s.sandbox_hidden), "files and folders that may not even be read"),
    key("sandbox_caches", Narrower(|new, old| new.sandbox_caches <= old.sandbox_caches), |s| Slot::Flag(&mut s.sandbox_caches), "whether the caches of package managers and compilers are writable"),
    key("sandbox_hooks", Narrower(|new, old| new.sandbox_hooks >= old.sandbox_hooks), |s| Slot::Flag(&mut s.sandbox_hooks), "whether hooks run in the sandbox too"),
    key("instructions", WithTrust, |s| Slot::Flag(&mut s.instructions), "whether instruction files (`AGENTS.md` and the like) are read"),
    key("shell", WithTrust, |s| Slot::Program(&mut s.shell), "the shell that runs commands, in place of `bash` or `sh`"),
    key("spool_max_bytes", Narrower(|new, old| new.spool_max_bytes <= old.spool_max_bytes), |s| Slot::Number(&mut s.spool_max_bytes, 0..=1 << 50), "how much output of one command is kept in a file"),
    key("checkpoints", WithTrust, |s| Slot::Flag(&mut s.checkpoints), "whether the old contents of changed files are kept, so that a rewind can restore them"),
    key("memory", Narrower(|new, old| new.memory <= old.memory), |s| Slot::Flag(&mut s.memory), "whether notes about the project are kept from session to session"),
    key("pass_environment", WithTrust, |s| Slot::Variables(&mut s.pass_environment), "variables that commands may see although they look like secrets or are withheld"),
    key("withhold_environment", Free, |s| Slot::Variables(&mut s.withhold_environment), "further variables that commands may not see"),
    key("debug_file", WithTrust, |s| Slot::Path(&mut s.debug_file), "a file that lines about all that happens are added to, without what was said and without keys"),
    key("log", WithTrust, |s| Slot::Text(&mut s.log), "what goes into `debug_file`: a level, or levels by room such as `tooloop=info,tooloop_provider=trace`; by default `debug`"),
    key("otlp_endpoint", WithTrust, |s| Slot::Url(&mut s.otlp_endpoint), "where traces are sent, unless the variables of OpenTelemetry say so; `/v1/traces` is added"),
];

const fn key(
    name: &'static str,
    folder: Folder,
    slot: for<'s> fn(&'s mut Settings) -> Slot<'s>,
    doc: &'static str,
) -> Key {
    Key {
        name,
        folder,
        slot,
        doc,
    }
}

/// A folder may ask for less than a person would be asked about, and for no more than the person
/// has said before.
fn is_stricter_mode(new: &Settings, old: &Settings) -> bool {
    const fn strictness(mode: Mode) -> u8 {
        match mode {
            Mode::BypassPermissions => 0,
            Mode::AcceptEdits => 1,
            Mode::Default => 2,
            Mode::DontAsk => 3,
            Mode::Plan => 4,
        }
    }
    strictness(new.permission_mode)
        >= strictness(old.permission_mode).max(strictness(Mode::DontAsk))
}

/// The key of the hooks, which are tables and no row of ours.
pub(super) const HOOKS: &str = "hooks";

/// Tells whether a folder asks for what no folder gets, trusted or not.
pub(super) fn is_beyond_folders(new: &Settings, old: &Settings) -> bool {
    new.permission_mode == Mode::BypassPermissions && old.permission_mode != new.permission_mode
}

/// Variables with the prefix that are none of the settings.
pub(super) const RESERVED_VARIABLES: [&str; 3] =
    ["TOOLOOP_RUN", "TOOLOOP_BASH_ENV", "TOOLOOP_TRANSCRIPTS"];

/// What each variable of a setting starts with.
pub(crate) const PREFIX: &str = "TOOLOOP_";

impl Key {
    /// The environment variable that sets the key.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_ascii_uppercase())
    }
}

/// Words for which other products and habits stand, and our key for the same.
const OTHER_WORDS: [(&str, &str); 11] = [
    ("additional_dirs", "additional_directories"),
    ("allow", "allowed_tools"),
    ("api_key", "key_variable"),
    ("ask", "ask_tools"),
    ("ca_file", "extra_ca_file"),
    ("deny", "disallowed_tools"),
    ("denied_tools", "disallowed_tools"),
    ("max_tokens", "max_output_tokens"),
    ("mode", "permission_mode"),
    ("permissions", "disallowed_tools"),
    ("timeout", "tool_timeout_ms"),
];

/// The place of a key in the table.
pub(super) fn find(name: &str) -> Option<(usize, &'static Key)> {
    KEYS.iter().enumerate().find(|(_, key)| key.name == name)
}

/// The key that was probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    const LEAST: f64 = 0.7;
    let name = in_our_style(name);
    if let Some((_, key)) = OTHER_WORDS.iter().find(|(word, _)| *word == name) {
        return Some(key);
    }
    KEYS.iter()
        .map(|key| key.name)
        .chain([HOOKS])
        .map(|key| (strsim::jaro_winkler(key, &name), key))
        .filter(|(likeness, _)| *likeness >= LEAST)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, key)| key)
}

/// `allowedTools` and `allowed-tools` as `allowed_tools`.
fn in_our_style(name: &str) -> String {
    let mut ours = String::with_capacity(name.len() + 4);
    let mut after_small = false;
    for character in name.chars() {
        if character.is_uppercase() && after_small {
            ours.push('_');
        }
        after_small = character.is_lowercase() || character.is_ascii_digit();
        if character == '-' {
            ours.push('_');
        } else {
            ours.extend(character.to_lowercase());
        }
    }
    ours
}
