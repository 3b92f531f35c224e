//! One file of the widespread JSON settings, laid over what is there.

use super::error::{printable, shortened};
use super::foreign::{self, Foreign, ForeignRule, Ground};
use super::loader::{Layer, Loader};
use super::{RuleKind, Settings, Source, key};

impl Loader<'_> {
    pub(super) fn json_layer(&mut self, layer: Layer<'_>) {
        let home = self.home();
        let place = |at| layer.place(at).origin();
        let root = self.sources.project.as_deref();
        let foreign = foreign::read(
            layer.text,
            Ground {
                root: root.unwrap_or(&self.sources.working_directory),
                home: home.as_deref(),
                place: &place,
            },
        );
        let Foreign {
            rules,
            mode,
            directories,
            no_bypass,
            managed_rules_only,
            managed_hooks_only,
            no_hooks,
            hooks,
            faults,
            doubts,
        } = foreign;
        for (at, fault) in faults {
            self.problem(layer.place(at), fault);
        }
        for (at, doubt) in doubts {
            self.doubt(layer, at, &doubt);
        }
        self.json_rules(layer, rules);
        if let Some((at, mode)) = mode {
            let mut settings = self.settings.clone();
            settings.permission_mode = mode;
            self.json_value(layer, at, "permission_mode", settings, mode.name());
        }
        for (at, written, path) in directories {
            if self.json_widening(layer, at, "permissions.additionalDirectories", &written) {
                let mut settings = self.settings.clone();
                if !settings.additional_directories.contains(&path) {
                    settings.additional_directories.push(path);
                }
                self.set(layer, at, "additional_directories", settings);
            }
        }
        if let Some(at) = no_bypass {
            let mut settings = self.settings.clone();
            settings.disable_bypass_permissions = true;
            self.set(layer, at, "disable_bypass_permissions", settings);
        }
        for (at, name) in [
            (managed_rules_only, "allow_managed_rules_only"),
            (managed_hooks_only, "allow_managed_hooks_only"),
        ] {
            let Some(at) = at.filter(|_| layer.source == Source::Managed) else {
                continue;
            };
            let mut settings = self.settings.clone();
            if name == "allow_managed_rules_only" {
                settings.allow_managed_rules_only = true;
            } else {
                settings.allow_managed_hooks_only = true;
            }
            self.set(layer, at, name, settings);
        }
        match no_hooks {
            // It speaks about the other product's hooks; ours are the ones of this very file.
            Some(at) if !hooks.is_empty() => self.doubt(
                layer,
                at,
                "`disableAllHooks` is true: the hooks of this file are not run",
            ),
            Some(_) => {}
            None => {
                for (at, hook) in hooks {
                    self.found_hook(layer, at, hook);
                }
            }
        }
    }

    fn doubt(&mut self, layer: Layer<'_>, at: usize, words: &str) {
        let words = printable(&format!("{}: {words}", layer.place(at)));
        self.warnings.push(words);
    }

    fn json_rules(&mut self, layer: Layer<'_>, rules: Vec<ForeignRule>) {
        const ALLOW: &str = "permissions.allow";
        let mut missing = Vec::new();
        let mut is_any = false;
        for ForeignRule {
            kind,
            at,
            written,
            rules,
        } in rules
        {
            let applies = match kind {
                RuleKind::Deny | RuleKind::Ask => true,
                RuleKind::Allow => {
                    let is_known = |rule| self.settings.allowed_tools.contains(rule);
                    let is_approved = !layer.source.is_folder()
                        || rules.iter().all(is_known)
                        || self.widens(layer, at, ALLOW, &written, &written);
                    is_any |= is_approved;
                    is_approved
                }
            };
            if !applies {
                missing.push((at, written));
                continue;
            }
            let list = match kind {
                RuleKind::Deny => &mut self.settings.disallowed_tools,
                RuleKind::Ask => &mut self.settings.ask_tools,
                RuleKind::Allow => &mut self.settings.allowed_tools,
            };
            for rule in &rules {
                if !list.contains(rule) {
                    list.push(rule.clone());
                }
            }
            if let Some((index, key)) = key::find(kind.key()) {
                self.origin(index, key, layer.place(at));
            }
            for rule in rules {
                self.rule(kind, rule, &written, layer.place(at), layer.source);
            }
        }
        if let Some((at, _)) = missing.first() {
            let place = layer.place(*at);
            let rules: Vec<_> = missing.iter().map(|(_, rule)| shortened(rule)).collect();
            let which = (is_any || rules.len() < 4).then(|| rules.join(", "));
            let which = which.unwrap_or_else(|| format!("{} rules", rules.len()));
            self.left_out(&place, ALLOW, Some(&which));
        }
    }

    /// A value that a folder may make narrower.
    fn json_value(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        name: &str,
        settings: Settings,
        shown: &str,
    ) {
        let Some((index, key)) = key::find(name) else {
            return;
        };
        if layer.source.is_folder()
            && self.is_wider(key, &settings)
            && !self.json_widening(layer, at, "permissions.defaultMode", shown)
        {
            return;
        }
        self.accept(index, key, settings, layer.place(at));
    }

    /// Tells whether what such a file widens is applied, and says so if it is not.
    fn json_widening(
        &mut self,
        layer: Layer<'_>,
        at: usize,
        name: &'static str,
        value: &str,
    ) -> bool {
        let applies = !layer.source.is_folder() || self.widens(layer, at, name, value, value);
        if !applies {
            let which = shortened(value);
            self.left_out(&layer.place(at), name, Some(&which));
        }
        applies
    }

    fn set(&mut self, layer: Layer<'_>, at: usize, name: &str, settings: Settings) {
        if let Some((index, key)) = key::find(name) {
            self.accept(index, key, settings, layer.place(at));
        }
    }
}
