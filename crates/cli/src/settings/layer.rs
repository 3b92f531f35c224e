//! One settings file of ours, laid over what is there.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use tooloop::hooks::HookRule;
use tooloop::provider::compat;

use super::error::{Fault, printable, shortened};
use super::file::{self, Demand};
use super::hook;
use super::key::{self, Folder, Key};
use super::loader::{Layer, Loader};
use super::script;
use super::slot::{Base, Wrong};
use super::widening::fingerprint;
use super::{PROJECT_FOLDER_VARIABLE, Place, Settings, Source};

/// No list of a file holds more: each item is looked up among all others.
pub(super) const MOST_ITEMS: usize = 2_000;

impl Loader<'_> {
    pub(super) fn toml_layer(&mut self, layer: Layer<'_>) {
        let table = match DeTable::parse(layer.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let offset = error.span().map_or(layer.text.len(), |span| span.start);
                let fault = Fault::Syntax(error.message().to_owned());
                return self.problem(layer.place(offset), fault);
            }
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (name, value) in entries {
            let at = name.span().start;
            match key::find(name.get_ref()) {
                Some((index, key)) => self.entry(layer, at, index, key, value),
                None if name.get_ref() == key::HOOKS => self.hooks(layer, value),
                None => {
                    let fault = Fault::UnknownKey {
                        key: name.get_ref().clone().into_owned(),
                        nearest: key::nearest(name.get_ref()),
                        is_table: value.get_ref().is_table(),
                    };
                    self.problem(layer.place(at), fault);
                }
            }
        }
    }

    fn entry(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        index: usize,
        key: &'static Key,
        value: &Spanned<DeValue<'_>>,
    ) {
        let items: Vec<_> = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        if items.len() > MOST_ITEMS {
            let what = format!("holds more than {MOST_ITEMS} items");
            return self.wrong(layer, key.name, vec![Wrong { at, what }]);
        }
        let path = self.sources.working_directory.join(layer.path);
        let home = self.home();
        let base = Base {
            folder: path.parent().unwrap_or(&path),
            home: home.as_deref(),
        };
        let mut settings = self.settings.clone();
        let wrong = (key.slot)(&mut settings).assign(value, base);
        if !wrong.is_empty() {
            return self.wrong(layer, key.name, wrong);
        }
        if !self.may_set(key, layer.source) {
            return self.misplaced(key, layer.place(at));
        }
        let mut kept = items.clone();
        if layer.source.is_folder() && self.is_wider(key, &settings) {
            if matches!(key.folder, Folder::Never) {
                return self.beyond(layer, at, key.name, "set it");
            }
            if key::is_beyond_folders(&settings, &self.settings) {
                return self.beyond(layer, at, key.name, "switch all questions off");
            }
            if items.is_empty() {
                let raw = layer.text.get(value.span()).unwrap_or_default();
                if !self.widens(layer, at, key.name, raw, raw) {
                    return self.left_out(&layer.place(at), key.name, None);
                }
            } else {
                kept.retain(|item| {
                    let text = text(item);
                    self.widens(layer, item.span().start, key.name, text, text)
                });
                if kept.len() < items.len() {
                    self.list_left_out(layer, at, key, &items, &kept);
                }
                if kept.is_empty() {
                    return;
                }
                settings = self.settings.clone();
                let mut slot = (key.slot)(&mut settings);
                for item in &kept {
                    // They have all been tried above.
                    drop(slot.assign_item(item, base));
                }
            }
        }
        self.overrule(layer, at, index, key, &settings);
        for item in kept {
            let place = layer.place(item.span().start);
            self.sourced(key.name, text(item), place, layer.source);
        }
        self.accept(index, key, settings, layer.place(at));
    }

    /// Says that what a person has set for this run is not what the managed file has it to be.
    fn overrule(&mut self, layer: Layer<'_>, at: usize, index: usize, key: &Key, new: &Settings) {
        let is_list = (key.slot)(&mut new.clone()).is_list();
        if layer.source != Source::Managed || is_list || *new == self.settings {
            return;
        }
        let set = self.origins.iter().find(|(of, _)| *of == index);
        if let Some((_, by @ (Place::Flag(_) | Place::Variable(_)))) = set {
            self.warnings.push(printable(&format!(
                "{by} is not applied: {} says what `{}` is",
                layer.place(at).origin(),
                key.name
            )));
        }
    }

    fn list_left_out(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        key: &Key,
        items: &[&Spanned<DeValue<'_>>],
        kept: &[&Spanned<DeValue<'_>>],
    ) {
        let missing = || {
            items.iter().filter(|item| {
                let start = item.span().start;
                kept.iter().all(|kept| kept.span().start != start)
            })
        };
        if kept.is_empty() {
            return self.left_out(&layer.place(at), key.name, None);
        }
        let which: Vec<_> = missing().map(|item| shortened(text(item))).collect();
        let at = missing().next().map_or(at, |item| item.span().start);
        self.left_out(&layer.place(at), key.name, Some(&which.join(", ")));
    }

    fn wrong(&mut self, layer: Layer<'_>, key: &'static str, wrong: Vec<Wrong>) {
        for Wrong { at, what } in wrong {
            self.problem(layer.place(at), Fault::Value { key, what });
        }
    }

    /// Says that a folder cannot have this, whatever a person has approved.
    fn beyond(&mut self, layer: Layer<'_>, at: usize, key: &str, what: &str) {
        self.warnings.push(printable(&format!(
            "{}: `{key}` is not applied: no folder's file can {what}",
            layer.place(at)
        )));
    }

    fn hooks(&mut self, layer: Layer<'_>, value: &Spanned<DeValue<'_>>) {
        let place = |at| layer.place(at).origin();
        match hook::read(value, &place) {
            Ok(hooks) if hooks.len() > MOST_ITEMS => {
                let what = format!("holds more than {MOST_ITEMS} items");
                let at = value.span().start;
                self.wrong(layer, key::HOOKS, vec![Wrong { at, what }]);
            }
            Ok(hooks) => {
                for (at, rule) in hooks {
                    self.found_hook(layer, at, rule);
                }
            }
            Err(wrong) => self.wrong(layer, key::HOOKS, wrong),
        }
    }

    /// Keeps a hook, unless it came with a folder and nobody has approved it with the scripts that
    /// it names.
    pub(super) fn found_hook(&mut self, layer: Layer<'_>, at: usize, rule: HookRule) {
        if !self.runs_hooks(layer.source) {
            return;
        }
        if !layer.source.is_folder() {
            return self.hook(layer.source, rule);
        }
        let shown = hook::shown(&rule);
        let scripts = self.scripts(&rule.command);
        let why = scripts.as_ref().err().cloned();
        let identity = hook::identity(&rule);
        let identity = scripts.map(|scripts| fingerprint(key::HOOKS, &(identity + &scripts)));
        if self.widens_as(layer, at, key::HOOKS, identity, &shown) {
            return self.hook(layer.source, rule);
        }
        let place = layer.place(at);
        let which = shortened(&shown);
        match why {
            None => self.left_out(&place, key::HOOKS, Some(&which)),
            Some(why) => self.warnings.push(printable(&format!(
                "{place}: `hooks` ({which}) is not applied, and cannot be trusted: {why}"
            ))),
        }
    }

    /// What tells the files of the folder that a command names from any others; empty if it names
    /// none.
    ///
    /// # Errors
    /// In words, if one of them cannot be looked at.
    fn scripts(&self, command: &str) -> Result<String, String> {
        let Some(folder) = &self.sources.project else {
            return Ok(String::new());
        };
        let home = self.home();
        let mut variables = vec![
            (PROJECT_FOLDER_VARIABLE, &**folder),
            (compat::PROJECT_FOLDER_VARIABLE, folder),
            ("PWD", folder),
        ];
        variables.extend(home.as_deref().map(|home| ("HOME", home)));
        let paths = script::named(command, folder, &variables)
            .ok_or("it names more files than can be looked at")?;
        let mut found = String::new();
        for path in paths {
            match (self.read)(&path, Demand::Digest) {
                Ok(digest) => {
                    let digest = blake3::hash(&digest).to_hex();
                    found.push_str(&format!("\n{digest} {}", path.display()));
                }
                // A word that names no file.
                Err(error) if file::is_no_file(&error) => {}
                Err(error) => {
                    let why = file::reason(&error);
                    return Err(format!("{} cannot be read: {why}", path.display()));
                }
            }
        }
        Ok(found)
    }
}

fn text<'v>(item: &'v Spanned<DeValue<'_>>) -> &'v str {
    match item.get_ref() {
        DeValue::String(text) => text,
        _ => "",
    }
}
