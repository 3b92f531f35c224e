//! The JSON settings that are widespread in projects: permissions and hooks are read, the rest is
//! another product's affair.
//!
//! People save such files with byte order marks, comments and commas too many; all of that is read.
//! What stands in `permissions`, is not understood and might deny something is an error, since a
//! rule that is dropped in silence denies nothing. Whatever else is not understood draws a warning.
//! This only reads a text; what is done with it is the loader's affair.

mod hooks;
mod rule;

use std::path::{Path, PathBuf};

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use tooloop::hooks::HookRule;
use tooloop::{Mode, Rule};

use super::RuleKind;
use super::error::{Fault, shortened};
use super::layer::MOST_ITEMS;

/// How much that is odd is said of one file.
const MOST_DOUBTS: usize = 20;

/// What a file says; offsets are in bytes.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pub(super) rules: Vec<ForeignRule>,
    pub(super) mode: Option<(usize, Mode)>,
    pub(super) directories: Vec<(usize, String, PathBuf)>,
    /// Nobody may switch the questions off.
    pub(super) no_bypass: Option<usize>,
    /// Only the managed file may allow anything.
    pub(super) managed_rules_only: Option<usize>,
    /// Only the hooks of the managed file are run.
    pub(super) managed_hooks_only: Option<usize>,
    /// No hooks are run.
    pub(super) no_hooks: Option<usize>,
    pub(super) hooks: Vec<(usize, HookRule)>,
    /// What keeps the run from starting.
    pub(super) faults: Vec<(usize, Fault)>,
    /// What is passed over, to be read after its place.
    pub(super) doubts: Vec<(usize, String)>,
}

/// A rule of such a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ForeignRule {
    pub(super) kind: RuleKind,
    pub(super) at: usize,
    pub(super) written: String,
    /// The same for our policy: more than one if a rule that holds back can be read in two ways.
    pub(super) rules: Vec<Rule>,
}

/// What the file belongs to.
#[derive(Clone, Copy)]
pub(super) struct Ground<'g> {
    /// The folder that is worked in.
    pub(super) root: &'g Path,
    pub(super) home: Option<&'g Path>,
    /// An offset as file and line.
    pub(super) place: &'g dyn Fn(usize) -> String,
}

/// Reads the text of a file.
pub(super) fn read(text: &str, ground: Ground<'_>) -> Foreign {
    let mut foreign = Foreign::default();
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let value = match parse_to_ast(text, &CollectOptions::default(), &options) {
        Ok(parsed) => parsed.value,
        Err(error) => {
            let what = error.kind().to_string().to_lowercase();
            foreign
                .faults
                .push((error.range().start, Fault::Json(what)));
            return foreign;
        }
    };
    match value {
        // A file without anything in it says nothing.
        None | Some(Value::NullKeyword(_)) => {}
        Some(Value::Object(object)) => foreign.top(&object.properties, ground),
        Some(other) => foreign.fault(other.start(), "settings", "must be an object"),
    }
    foreign
}

impl Foreign {
    fn fault(&mut self, at: usize, key: &'static str, what: impl Into<String>) {
        let what = what.into();
        self.faults.push((at, Fault::Value { key, what }));
    }

    fn doubt(&mut self, at: usize, what: impl Into<String>) {
        match self.doubts.len() {
            0..MOST_DOUBTS => self.doubts.push((at, what.into())),
            MOST_DOUBTS => self
                .doubts
                .push((at, "there is more that is odd here".to_owned())),
            _ => {}
        }
    }

    /// Whether nothing more is said, so that it need not be found out.
    fn is_full_of_doubts(&self) -> bool {
        self.doubts.len() > MOST_DOUBTS
    }

    /// Whether a list or an object is so long that the file is refused.
    fn is_endless(&mut self, at: usize, key: &'static str, length: usize) -> bool {
        let is_endless = length > MOST_ITEMS;
        if is_endless {
            self.fault(at, key, format!("holds more than {MOST_ITEMS} items"));
        }
        is_endless
    }

    fn top(&mut self, properties: &[ObjectProp<'_>], ground: Ground<'_>) {
        self.twice(properties, &["permissions", "hooks"], "settings");
        for property in properties {
            let (name, at, value) = parts(property);
            match name {
                "permissions" => self.permissions(value, ground),
                "hooks" => self.hooks(value, ground),
                "allowManagedPermissionRulesOnly" => {
                    self.managed_rules_only = self.truth(at, name, value);
                }
                "allowManagedHooksOnly" => self.managed_hooks_only = self.truth(at, name, value),
                "disableAllHooks" => self.no_hooks = self.truth(at, name, value),
                _ => self.stranger(name, at, value),
            }
        }
    }

    /// A key beside ours: another product's, unless it is a slip.
    fn stranger(&mut self, name: &str, at: usize, value: &Value<'_>) {
        let shown = shortened(name);
        let folded = name.to_ascii_lowercase();
        let holds_back = matches!(&*folded, "deny" | "ask") || slip(name, "deny");
        if slip(name, "permissions") && holds_more(value) {
            let words = format!("is missing, but there is `{shown}`: write `permissions`");
            self.fault(at, "permissions", words);
        } else if is_list(value) && holds_back {
            let words = format!("is where rules stand: put `{shown}` into it");
            self.fault(at, "permissions", words);
        } else if slip(name, "hooks") && holds_more(value) {
            self.doubt(
                at,
                format!("`{shown}` is not read: `hooks` is the nearest valid key"),
            );
        }
    }

    fn permissions(&mut self, value: &Value<'_>, ground: Ground<'_>) {
        let Value::Object(object) = value else {
            let words = format!("must be an object, not {}", found(value));
            return self.fault(value.start(), "permissions", words);
        };
        const KEYS: [&str; 6] = [
            "allow",
            "deny",
            "ask",
            "defaultMode",
            "additionalDirectories",
            "disableBypassPermissionsMode",
        ];
        let (at, length) = (value.start(), object.properties.len());
        if self.is_endless(at, "permissions", length) {
            return;
        }
        self.twice(&object.properties, &KEYS, "permissions");
        for property in &object.properties {
            let (name, at, value) = parts(property);
            match name {
                "deny" => self.rules(RuleKind::Deny, value, ground),
                "ask" => self.rules(RuleKind::Ask, value, ground),
                "allow" => self.rules(RuleKind::Allow, value, ground),
                "defaultMode" => self.mode(value),
                "additionalDirectories" => self.directories(value, ground),
                // Whatever it says, somebody wanted the questions kept.
                "disableBypassPermissionsMode" => match value {
                    Value::BooleanLit(truth) if !truth.value => {}
                    _ => self.no_bypass = Some(at),
                },
                // They speak of what there is none of here.
                "disableAutoMode"
                | "skipAutoPermissionPrompt"
                | "skipDangerousModePermissionPrompt" => {}
                _ => self.unknown(name, at, value, &KEYS),
            }
        }
    }

    /// A key within `permissions` that is none: an error if it may be meant to deny.
    fn unknown(&mut self, name: &str, at: usize, value: &Value<'_>, keys: &[&'static str]) {
        let folded = name.to_ascii_lowercase();
        let nearest = keys
            .iter()
            .map(|key| {
                (
                    strsim::jaro_winkler(&key.to_ascii_lowercase(), &folded),
                    *key,
                )
            })
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .filter(|(likeness, _)| *likeness >= 0.7);
        let nearest = match nearest {
            _ if ["block", "disallow", "forbid", "reject"]
                .iter()
                .any(|word| folded.starts_with(word)) =>
            {
                Some("deny")
            }
            Some((_, key)) => Some(key),
            None => None,
        };
        let hint = match nearest {
            Some(key) => format!("the nearest valid key is `{key}`"),
            None => format!("the valid keys are {}", keys.join(", ")),
        };
        let holds_back = matches!(nearest, Some("deny" | "ask"));
        let widens = matches!(nearest, Some("allow" | "additionalDirectories"));
        let shown = shortened(name);
        if holds_back || (holds_more(value) && !widens) {
            let words = format!("has an unknown key `{shown}`, which may be meant to deny: {hint}");
            self.fault(at, "permissions", words);
        } else {
            let words = format!("`permissions.{shown}` is no key that is known here, {hint}");
            self.doubt(at, words);
        }
    }

    fn rules(&mut self, kind: RuleKind, value: &Value<'_>, ground: Ground<'_>) {
        let (key, may_drop) = match kind {
            RuleKind::Deny => ("permissions.deny", false),
            RuleKind::Ask => ("permissions.ask", false),
            RuleKind::Allow => ("permissions.allow", true),
        };
        let wrong = |foreign: &mut Self, at, what: String| {
            if may_drop {
                foreign.doubt(at, format!("`{key}` {what}; it is not applied"));
            } else {
                foreign.fault(at, key, what);
            }
        };
        let Value::Array(array) = value else {
            let words = format!("must be a list of rules, not {}", found(value));
            return wrong(self, value.start(), words);
        };
        if self.is_endless(value.start(), key, array.elements.len()) {
            return;
        }
        for element in &array.elements {
            let at = element.start();
            let Value::StringLit(text) = element else {
                wrong(
                    self,
                    at,
                    format!("must hold strings only, not {}", found(element)),
                );
                continue;
            };
            match rule::translate(&text.value, kind, ground) {
                Ok(rules) => self.rules.push(ForeignRule {
                    kind,
                    at,
                    written: text.value.to_string(),
                    rules,
                }),
                Err(error) => wrong(self, at, format!("has a wrong rule: {error}")),
            }
        }
    }

    fn mode(&mut self, value: &Value<'_>) {
        /// Modes of the other product that are none of ours. Each asks less than our default.
        const OTHERS: [&str; 3] = ["auto", "delegate", "manual"];
        const KEY: &str = "permissions.defaultMode";
        let at = value.start();
        let Value::StringLit(text) = value else {
            return self.fault(at, KEY, format!("must be a mode, not {}", found(value)));
        };
        let word = &*text.value;
        match word.parse::<Mode>() {
            Ok(Mode::BypassPermissions) => self.doubt(
                at,
                format!("`{KEY}` is not applied: such a file cannot switch all questions off"),
            ),
            Ok(mode) => self.mode = Some((at, mode)),
            Err(_) if OTHERS.contains(&word) => {
                self.doubt(
                    at,
                    format!("`{KEY}` is not applied: there is no mode {word:?} here"),
                );
            }
            Err(_) => {
                let modes = Mode::ALL.map(Mode::name).join(", ");
                let words = format!("must be one of {modes}, not {:?}", shortened(word));
                self.fault(at, KEY, words);
            }
        }
    }

    fn directories(&mut self, value: &Value<'_>, ground: Ground<'_>) {
        const KEY: &str = "permissions.additionalDirectories";
        let Value::Array(array) = value else {
            let words = format!("`{KEY}` is not applied: it must be a list of folders");
            return self.doubt(value.start(), words);
        };
        if self.is_endless(value.start(), KEY, array.elements.len()) {
            return;
        }
        for element in &array.elements {
            let at = element.start();
            match element {
                Value::StringLit(text) if !text.value.trim().is_empty() => {
                    let written = text.value.to_string();
                    let path = match (written.strip_prefix("~/"), ground.home) {
                        (Some(rest), Some(home)) => home.join(rest),
                        (Some(_) | None, _) => ground.root.join(&written),
                    };
                    self.directories.push((at, written, path));
                }
                _ => self.doubt(
                    at,
                    format!("`{KEY}` holds what is no folder; it is not applied"),
                ),
            }
        }
    }

    fn truth(&mut self, at: usize, key: &str, value: &Value<'_>) -> Option<usize> {
        match value {
            Value::BooleanLit(truth) => truth.value.then_some(at),
            _ => {
                self.doubt(
                    value.start(),
                    format!("`{key}` is not applied: it must be true or false"),
                );
                None
            }
        }
    }

    /// A key that stands there twice: one of them would be forgotten.
    fn twice(&mut self, properties: &[ObjectProp<'_>], keys: &[&'static str], of: &'static str) {
        for key in keys {
            let mut found = properties
                .iter()
                .filter(|property| parts(property).0 == *key);
            if let (Some(_), Some(second)) = (found.next(), found.next()) {
                let at = parts(second).1;
                self.fault(at, of, format!("has `{key}` twice"));
            }
        }
    }
}

/// Name, offset of the name, and value.
fn parts<'p>(property: &'p ObjectProp<'_>) -> (&'p str, usize, &'p Value<'p>) {
    (
        property.name.as_str(),
        property.range.start,
        &property.value,
    )
}

fn is_list(value: &Value<'_>) -> bool {
    matches!(value, Value::Array(_))
}

/// Whether it may hold rules.
fn holds_more(value: &Value<'_>) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Whether one word was written for the other.
fn slip(name: &str, word: &str) -> bool {
    if name.len().abs_diff(word.len()) > 3 {
        return false;
    }
    let folded = name.to_ascii_lowercase();
    let most = if word.len() > 5 { 3 } else { 1 };
    name != word && strsim::damerau_levenshtein(&folded, word) <= most
}

fn found(value: &Value<'_>) -> String {
    match value {
        Value::StringLit(text) => format!("the string {:?}", shortened(&text.value)),
        Value::NumberLit(number) => format!("the number {}", shortened(number.value)),
        Value::BooleanLit(truth) => truth.value.to_string(),
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::NullKeyword(_) => "null".to_owned(),
    }
}
