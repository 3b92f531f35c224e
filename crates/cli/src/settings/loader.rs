//! Lays one source over the other and collects what is wrong. The two kinds of files are read by
//! [`super::layer`] and [`super::layer_json`].

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use tooloop::hooks::HookRule;
use tooloop::provider::{WireFormat, compat, names_provider};
use tooloop::{Mode, Rule};

use super::error::{Fault, Place, Problem, SettingsError, printable};
use super::file::{self, Demand, Read, position};
use super::key::{self, Folder, Key, PREFIX, RESERVED_VARIABLES};
use super::list;
use super::names;
use super::served::served;
use super::slot::{Base, Slot, Wrong};
use super::widening::{Widening, fingerprint};
use super::{
    Approvals, Loaded, RuleKind, Settings, Source, SourcedRule, Sources, Trust, absolute_variable,
};

/// What can be done about what is left out of a folder's files.
pub(super) const TRUST_HINT: &str = "`tooloop trust` shows what this folder's files want and trusts \
    them with it; --trust-folder does for one run; your own settings can say the same";

/// Settings as they grow.
pub(super) struct Loader<'l> {
    pub(super) sources: &'l Sources,
    pub(super) read: Read<'l>,
    /// Whether the JSON settings are read too.
    with_json: bool,
    pub(super) settings: Settings,
    pub(super) origins: Vec<(usize, Place)>,
    pub(super) warnings: Vec<String>,
    rules: Vec<SourcedRule>,
    hooks: Vec<(Source, HookRule)>,
    widenings: Vec<Widening>,
    problems: Vec<Problem>,
    /// Whether something is wrong with a file in JSON.
    json_is_wrong: bool,
}

/// A file of settings that is being read.
#[derive(Clone, Copy)]
pub(super) struct Layer<'f> {
    pub(super) path: &'f Path,
    pub(super) text: &'f str,
    pub(super) source: Source,
}

impl Layer<'_> {
    pub(super) fn place(&self, offset: usize) -> Place {
        Place::in_file(self.path, Some(position(self.text, offset)))
    }
}

impl<'l> Loader<'l> {
    pub(super) fn new(sources: &'l Sources, read: Read<'l>, with_json: bool) -> Self {
        Self {
            sources,
            read,
            with_json,
            settings: Settings::default(),
            origins: Vec::new(),
            warnings: Vec::new(),
            rules: Vec::new(),
            hooks: Vec::new(),
            widenings: Vec::new(),
            problems: Vec::new(),
            json_is_wrong: false,
        }
    }

    /// Reads all sources, the strongest last.
    pub(super) fn all(mut self) -> Result<Loaded, SettingsError> {
        let sources = self.sources;
        self.json(sources.json_user.as_deref(), Source::User);
        self.toml(sources.user.as_deref(), Demand::Optional, Source::User);
        if let Some(root) = &sources.project {
            for (json, own, source) in [
                (compat::PROJECT_SETTINGS, "config.toml", Source::Project),
                (compat::LOCAL_SETTINGS, "local.toml", Source::Local),
            ] {
                let json = root.join(json);
                // In the home folder this is the person's own file, which was read above.
                if sources.json_user.as_ref() != Some(&json) {
                    self.json(Some(&json), source);
                }
                let own = root.join(".tooloop").join(own);
                self.toml(Some(&own), Demand::Optional, source);
            }
        }
        if let Some(path) = &sources.explicit {
            self.explicit(path);
        }
        self.environment();
        self.flags();
        self.json(sources.json_managed.as_deref(), Source::Managed);
        self.toml(
            sources.managed.as_deref(),
            Demand::Optional,
            Source::Managed,
        );
        self.finish()
    }

    fn toml(&mut self, path: Option<&Path>, demand: Demand, source: Source) {
        let Some(path) = path else { return };
        if let Some(text) = self.text(path, demand) {
            self.toml_layer(Layer {
                path,
                text: &text,
                source,
            });
        }
    }

    /// Reads a file that was named, of whichever kind it is.
    fn explicit(&mut self, path: &Path) {
        let is_json = path.extension().is_some_and(|end| end == "json");
        if !is_json {
            return self.toml(Some(path), Demand::Explicit, Source::Explicit);
        }
        if let Some(text) = self.text(path, Demand::Explicit) {
            self.json_layer(Layer {
                path,
                text: &text,
                source: Source::Explicit,
            });
        }
    }

    fn json(&mut self, path: Option<&Path>, source: Source) {
        let Some(path) = path.filter(|_| self.with_json) else {
            return;
        };
        let before = self.problems.len();
        if let Some(text) = self.text(path, Demand::Optional) {
            self.json_layer(Layer {
                path,
                text: &text,
                source,
            });
        }
        self.json_is_wrong |= self.problems.len() > before;
    }

    /// The text of a file without a byte order mark; `None` if it is missing or cannot be read.
    fn text(&mut self, path: &Path, demand: Demand) -> Option<String> {
        let bytes = match (self.read)(path, demand) {
            Ok(bytes) => bytes,
            Err(error) => {
                let is_missing =
                    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
                if !(is_missing && demand == Demand::Optional) {
                    let fault = Fault::Unreadable(file::reason(&error));
                    self.problem(Place::in_file(path, None), fault);
                }
                return None;
            }
        };
        match std::str::from_utf8(&bytes) {
            Ok(text) => Some(text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let valid = String::from_utf8_lossy(valid);
                let place = Place::in_file(path, Some(position(&valid, valid.len())));
                self.problem(place, Fault::Unreadable("it is not UTF-8 text".to_owned()));
                None
            }
        }
    }

    /// Reads the variables.
    fn environment(&mut self) {
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
                Some(value) => self.value(index, key, value, place, Source::Environment),
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
    fn flags(&mut self) {
        for (name, value) in &self.sources.flags {
            let place = Place::Flag(name);
            match key::find(name) {
                Some((index, key)) => self.value(index, key, value, place, Source::Flag),
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

    fn value(&mut self, index: usize, key: &Key, value: &str, place: Place, source: Source) {
        let mut settings = self.settings.clone();
        let home = self.home();
        let base = Base {
            folder: &self.sources.working_directory,
            home: home.as_deref(),
        };
        let wrong = (key.slot)(&mut settings).assign_text(value, base);
        if !wrong.is_empty() {
            for Wrong { at: _, what } in wrong {
                let fault = Fault::Value {
                    key: key.name,
                    what,
                };
                self.problem(place.clone(), fault);
            }
            return;
        }
        if !self.may_set(key, source) {
            return self.misplaced(key, place);
        }
        for item in list::items(value).unwrap_or_default() {
            self.sourced(key.name, &item, place.clone(), source);
        }
        self.accept(index, key, settings, place);
    }

    /// Tells whether such a source may set the key at all.
    pub(super) fn may_set(&self, key: &Key, source: Source) -> bool {
        let is_for_managed = key.name.starts_with("allow_managed_");
        !is_for_managed || source == Source::Managed
    }

    pub(super) fn misplaced(&mut self, key: &Key, place: Place) {
        let what = match &self.sources.managed {
            Some(path) => format!("can be set in {} only", path.display()),
            None => "can be set in the managed file only".to_owned(),
        };
        self.problem(
            place,
            Fault::Value {
                key: key.name,
                what,
            },
        );
    }

    /// Keeps a rule with its source, if the key is one of rules.
    pub(super) fn sourced(&mut self, key: &str, written: &str, place: Place, source: Source) {
        let kinds = [RuleKind::Deny, RuleKind::Ask, RuleKind::Allow];
        let kind = kinds.into_iter().find(|kind| kind.key() == key);
        if let (Some(kind), Ok(rule)) = (kind, written.parse()) {
            self.rule(kind, rule, written, place, source);
        }
    }

    pub(super) fn rule(
        &mut self,
        kind: RuleKind,
        rule: Rule,
        written: &str,
        place: Place,
        source: Source,
    ) {
        self.rules.push(SourcedRule {
            kind,
            rule,
            written: written.to_owned(),
            source,
            place,
        });
    }

    pub(super) fn hook(&mut self, source: Source, hook: HookRule) {
        self.hooks.push((source, hook));
    }

    /// Whether the hooks of this source are run.
    pub(super) fn runs_hooks(&self, source: Source) -> bool {
        !self.sources.bare || source == Source::Managed
    }

    /// Tells whether new settings are wider than those there are; the same again is not.
    pub(super) fn is_wider(&self, key: &Key, settings: &Settings) -> bool {
        if *settings == self.settings {
            return false;
        }
        match key.folder {
            Folder::Free => false,
            Folder::Narrower(is_narrower) => !is_narrower(settings, &self.settings),
            Folder::SameProvider => {
                let mut settings = settings.clone();
                !matches!((key.slot)(&mut settings), Slot::Text(Some(model)) if self.is_served_alike(key.name, model))
            }
            Folder::WithTrust | Folder::Never => true,
        }
    }

    /// Whether a model is asked on the same server as the one that a person has chosen, here or by a
    /// flag or a variable.
    fn is_served_alike(&self, key: &str, model: &str) -> bool {
        // Further models are asked where the first one is, unless they name a provider.
        if key != "model" && !names_provider(model) {
            return true;
        }
        let environment = |name: &str| {
            let variables = &self.sources.environment;
            let value = variables.iter().find(|(other, _)| other == name);
            value.and_then(|(_, value)| value.to_str().map(str::to_owned))
        };
        let said = |name: &str| {
            let flags = &self.sources.flags;
            let flag = flags.iter().rev().find(|(flag, _)| *flag == name);
            let variable = || environment(&format!("{PREFIX}{}", name.to_ascii_uppercase()));
            flag.map(|(_, value)| value.clone())
                .or_else(|| variable().filter(|value| !value.is_empty()))
        };
        let mut settings = self.settings.clone();
        settings.base_url = said("base_url").or(settings.base_url);
        settings.api = said("api")
            .and_then(|name| WireFormat::parse(&name))
            .or(settings.api);
        let own = said("model").or_else(|| settings.model.clone());
        served(&settings, own.as_deref(), &environment)
            == served(&settings, Some(model), &environment)
    }

    /// Takes down what a folder's file would widen, and tells whether a person has approved it.
    pub(super) fn widens(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        key: &'static str,
        value: &str,
        shown: &str,
    ) -> bool {
        self.widens_as(layer, at, key, Ok(fingerprint(key, value)), shown)
    }

    /// The same, with a fingerprint that is known, or with why there is none.
    pub(super) fn widens_as(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        key: &'static str,
        fingerprint: Result<String, String>,
        shown: &str,
    ) -> bool {
        let approvals = &self.sources.approvals;
        let approved = match &fingerprint {
            Ok(fingerprint) => approvals.cover(fingerprint),
            Err(_) => *approvals == Approvals::Everything,
        };
        self.widenings.push(Widening {
            source: layer.source,
            place: layer.place(at),
            key,
            shown: shown.to_owned(),
            fingerprint,
            approved,
        });
        approved
    }

    /// Says that something of a folder's file is not applied; `which` if it is not all of a key.
    pub(super) fn left_out(&mut self, place: &Place, key: &str, which: Option<&str>) {
        let why = match &self.sources.approvals {
            Approvals::Nothing => "this folder is not trusted",
            Approvals::These(_) | Approvals::Everything => {
                "it is new, or has changed since this folder was trusted"
            }
        };
        let which = which.map_or_else(String::new, |which| format!(" ({which})"));
        self.warnings.push(printable(&format!(
            "{place}: `{key}`{which} is not applied: {why}"
        )));
    }

    pub(super) fn accept(&mut self, index: usize, key: &Key, settings: Settings, place: Place) {
        self.settings = settings;
        self.origin(index, key, place);
    }

    /// Notes where a value, or a part of a list, comes from.
    pub(super) fn origin(&mut self, index: usize, key: &Key, place: Place) {
        let is_list = (key.slot)(&mut self.settings).is_list();
        self.origins
            .retain(|(other, from)| *other != index || (is_list && *from != place));
        self.origins.push((index, place));
    }

    pub(super) fn problem(&mut self, place: Place, fault: Fault) {
        self.problems.push(Problem { place, fault });
    }

    pub(super) fn home(&self) -> Option<PathBuf> {
        absolute_variable(&self.sources.environment, "HOME").map(Path::to_owned)
    }

    /// Gives the settings, if nothing was wrong anywhere.
    fn finish(mut self) -> Result<Loaded, SettingsError> {
        if !self.problems.is_empty() {
            let hint = "a file in JSON that is meant for another product is left alone with \
                        TOOLOOP_JSON_SETTINGS=false, or json_settings = false in your own file";
            return Err(SettingsError {
                problems: self.problems,
                hint: self.json_is_wrong.then(|| hint.to_owned()),
            });
        }
        self.withhold_key();
        self.hold_bypass();
        self.doubt_names();
        if self.settings.allow_managed_rules_only {
            self.rules
                .retain(|rule| rule.kind != RuleKind::Allow || rule.source == Source::Managed);
            let allowed = self
                .rules
                .iter()
                .filter(|rule| rule.kind == RuleKind::Allow);
            self.settings.allowed_tools = allowed.map(|rule| rule.rule.clone()).collect();
        }
        if self.settings.allow_managed_hooks_only {
            self.hooks.retain(|(source, _)| *source == Source::Managed);
        }
        self.settings.hooks = self.hooks.into_iter().map(|(_, hook)| hook).collect();
        if self.widenings.iter().any(|widening| !widening.approved) {
            self.warnings.push(TRUST_HINT.to_owned());
        }
        let trust = match &*self.widenings {
            [] => Trust::NotNeeded,
            all if all.iter().all(|widening| widening.approved) => Trust::Trusted,
            _ => Trust::Untrusted,
        };
        Ok(Loaded {
            settings: self.settings,
            warnings: self.warnings,
            rules: self.rules,
            trust,
            widenings: self.widenings,
            origins: self.origins,
        })
    }

    /// A rule that holds back and names no tool that there is holds nothing back.
    fn doubt_names(&mut self) {
        let holds_back = |rule: &&SourcedRule| rule.kind != RuleKind::Allow;
        for rule in self.rules.iter().filter(holds_back) {
            if let Some(nearest) = names::meant(rule.rule.tool()) {
                self.warnings.push(printable(&format!(
                    "{}: the {} rule {} names no tool: the nearest is {nearest}",
                    rule.place,
                    rule.kind.name(),
                    rule.written
                )));
            }
        }
    }

    /// The mode that asks nobody is not to be had where somebody has ruled it out.
    fn hold_bypass(&mut self) {
        let settings = &mut self.settings;
        if !settings.disable_bypass_permissions
            || settings.permission_mode != Mode::BypassPermissions
        {
            return;
        }
        settings.permission_mode = Mode::Default;
        let place = |name: &str| {
            let (index, _) = key::find(name)?;
            self.origins.iter().find(|(of, _)| *of == index)
        };
        let place = place("disable_bypass_permissions").map(|(_, place)| place.clone());
        let by = place
            .as_ref()
            .map_or_else(String::new, |place| format!(" by {}", place.origin()));
        self.warnings.push(printable(&format!(
            "`permission_mode` is default: bypassPermissions is ruled out{by}"
        )));
        if let (Some((index, key)), Some(place)) = (key::find("permission_mode"), place) {
            self.origin(index, key, place);
        }
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
