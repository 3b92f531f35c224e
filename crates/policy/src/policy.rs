//! The policy: rules by layer of strength, and a mode for what no rule speaks about.

use std::path::{Path, PathBuf};

use crate::{
    Access, AskCause, Confinement, Decision, Explanation, Mode, Rule, Touch,
    call::{Call, Kind, is_about_reading, kind},
    command_rule::Hit,
    explain, path_rule, pattern,
    protected::Protection,
};

/// Rules and mode; judges an access and never runs anything.
///
/// Deny beats ask, ask beats allow, whatever the order and source of the rules; then the mode
/// decides. `Bash`, `Read`, `Edit` (or `Write`) and `WebFetch` name what is touched as well as a
/// tool: `Edit(src/**)` speaks about every tool that writes there.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Policy {
    /// What happens to calls that no rule speaks about.
    pub mode: Mode,
    /// What may never run, whatever else is said.
    pub deny: Vec<Rule>,
    /// What is asked about, even if it is allowed too.
    pub ask: Vec<Rule>,
    /// What runs without a question.
    pub allow: Vec<Rule>,
    /// The folders that files may be touched in: absolute, links resolved. What lies outside is
    /// asked about unless an allow rule names its path. Empty: there is no border.
    pub roots: Vec<PathBuf>,
    /// What `~` means in shell lines; see [`Policy::anchored`].
    pub home: Option<PathBuf>,
    /// What the sandbox lets shell lines do, if there is one: within it nobody is asked about them.
    pub confinement: Option<Confinement>,
    /// What is never written while there is a sandbox, and asked about otherwise, whatever the
    /// rules allow: absolute, links resolved. Some paths always belong to it: see
    /// [`crate::protected`].
    pub protected: Vec<PathBuf>,
    /// Further names that are protected in the same way wherever a path has them, such as the
    /// settings of an editor that starts programs: relative, with `/` between parts.
    pub protected_names: Vec<String>,
}

/// Files that are left out of what a call finds: see [`Policy::withholding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withholding {
    rules: Vec<Rule>,
}

impl Withholding {
    /// Tells whether this file, or all below this folder, is left out.
    ///
    /// ```
    /// use tooloop_policy::Policy;
    ///
    /// let policy = Policy { deny: vec!["Read(/w/secrets/**)".parse()?], ..Policy::default() };
    /// let withholding = policy.withholding("grep").unwrap();
    /// assert!(withholding.holds("/w/secrets/key".as_ref()));
    /// assert!(!withholding.holds("/w/src".as_ref()));
    /// # Ok::<(), tooloop_policy::RuleError>(())
    /// ```
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let specifiers = self.rules.iter().filter_map(Rule::specifier);
        let mut patterns = specifiers.map(path_rule::PathPattern::new);
        patterns.any(|pattern| pattern.matches(path, path_rule::Reading::Wide))
    }
}

/// A path that a deny rule names: see [`Policy::denied_paths`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedPath {
    specifier: String,
    /// Whether it may not be read; otherwise it may not be written.
    pub is_read: bool,
}

impl DeniedPath {
    /// The folder or file from which it is looked for: absolute.
    #[must_use]
    pub fn start(&self) -> PathBuf {
        self.parts().0
    }

    /// Checks whether the start itself is meant, with all below it.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.parts().1
    }

    fn parts(&self) -> (PathBuf, bool) {
        let is_plain = |part: &&str| !part.contains(['*', '?', '\\']);
        let parts = || self.specifier.split('/').filter(|part| !part.is_empty());
        let plain = parts().take_while(is_plain);
        let start = Path::new("/").join(plain.collect::<Vec<_>>().join("/"));
        let mut rest = parts().skip_while(|part| is_plain(part));
        (start, rest.all(|part| part == "**"))
    }

    /// Checks whether it names this path, or a folder that the path lies in.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        path_rule::PathPattern::new(&self.specifier).matches(path, path_rule::Reading::Wide)
    }

    /// Checks whether it may name something below this folder.
    #[must_use]
    pub fn may_match_below(&self, folder: &Path) -> bool {
        path_rule::PathPattern::new(&self.specifier).may_match_below(folder)
    }
}

impl Policy {
    /// The paths that deny rules name, so that a sandbox can hold commands to the same rules.
    ///
    /// ```
    /// use tooloop_policy::Policy;
    ///
    /// let policy = Policy { deny: vec!["Edit(/w/locked/**)".parse()?], ..Policy::default() };
    /// let denied = policy.denied_paths();
    /// assert!(denied[0].is_start() && !denied[0].is_read);
    /// assert_eq!(denied[0].start(), std::path::Path::new("/w/locked"));
    /// # Ok::<(), tooloop_policy::RuleError>(())
    /// ```
    #[must_use]
    pub fn denied_paths(&self) -> Vec<DeniedPath> {
        let rules = self.deny.iter();
        let named = rules.filter_map(|rule| Some((kind(rule)?, rule.specifier()?.trim())));
        named
            .filter(|(_, specifier)| specifier.starts_with('/'))
            .filter_map(|(kind, specifier)| {
                let is_read = match kind {
                    Kind::Read => true,
                    Kind::Write => false,
                    Kind::Command | Kind::Host | Kind::Grant => return None,
                };
                // A folder is named with all below it.
                let specifier = specifier.trim_end_matches('/').to_owned();
                Some(DeniedPath { specifier, is_read })
            })
            .collect()
    }

    /// Decides about one call of `tool`.
    ///
    /// ```
    /// use tooloop_policy::{Access, Decision, Policy};
    ///
    /// let policy = Policy::default();
    /// assert_eq!(policy.decide("bash", &Access::command("ls -l")), Decision::Allow);
    /// let decision = policy.decide("bash", &Access::command("ls -l; touch M"));
    /// assert_eq!(
    ///     decision.reason(),
    ///     Some("`touch M` is not covered by an allow rule")
    /// );
    /// ```
    #[must_use]
    pub fn decide(&self, tool: &str, access: &Access) -> Decision {
        self.judge(&Call::new(tool, access, self))
    }

    pub(crate) fn judge(&self, call: &Call<'_>) -> Decision {
        let mut doubt = None;
        for rule in &self.deny {
            match call.hit(rule) {
                Hit::Surely(part) => {
                    return Decision::Deny {
                        reason: format!("`{part}` is denied by the rule {rule}"),
                    };
                }
                Hit::Maybe(part) => {
                    doubt.get_or_insert_with(|| {
                        format!("{part}, and the rule {rule} denies some of what it could be")
                    });
                }
                Hit::Never => {}
            }
        }
        let guarded = call.protected();
        if let Some((path, Protection::Sealed)) = &guarded
            && self.confinement.is_some()
        {
            return Decision::Deny {
                reason: format!(
                    "`{path}` is protected: it is never written while there is a sandbox"
                ),
            };
        }
        if self.mode == Mode::Plan && !call.stays_inside() {
            return Decision::Deny {
                reason: "nothing is changed in plan mode, and this is not known to be read-only"
                    .to_owned(),
            };
        }
        // A mode that skips questions must not turn a possible deny into an allow.
        if let Some(reason) = doubt {
            return self.question(reason, AskCause::Rule);
        }
        if self.mode == Mode::BypassPermissions {
            return Decision::Allow;
        }
        if let Some((path, _)) = guarded {
            let reason = format!("`{path}` is protected: no rule allows it to be written");
            return self.question(reason, AskCause::Rule);
        }
        for rule in &self.ask {
            match call.hit(rule) {
                Hit::Surely(part) => {
                    let reason = format!("the rule {rule} asks about `{part}`");
                    return self.question(reason, AskCause::Rule);
                }
                Hit::Maybe(part) => {
                    let reason = format!("the rule {rule} may ask about this: {part}");
                    return self.question(reason, AskCause::Rule);
                }
                Hit::Never => {}
            }
        }
        match call.uncovered() {
            None => Decision::Allow,
            Some((reason, cause)) => self.question(reason, cause),
        }
    }

    /// Takes a call apart and says what was made of each part, for whoever wants to know why.
    ///
    /// ```
    /// use tooloop_policy::{Access, PartVerdict, Policy};
    ///
    /// let explanation = Policy::default().explain("bash", &Access::command("ls | env touch M"));
    /// let verdicts: Vec<_> = explanation.parts.iter().map(|part| part.verdict).collect();
    /// let harmless = PartVerdict::Harmless;
    /// assert_eq!(verdicts, [harmless, harmless, PartVerdict::Uncovered]);
    /// assert!(explanation.decision.is_ask());
    /// ```
    #[must_use]
    pub fn explain(&self, tool: &str, access: &Access) -> Explanation {
        let call = Call::new(tool, access, self);
        explain::explained(&call, self.judge(&call))
    }

    /// What a call of `tool` that walks folders must leave out, although it was let in: files that
    /// a rule denies or asks about. `None` if no rule speaks of any.
    #[must_use]
    pub fn withholding(&self, tool: &str) -> Option<Withholding> {
        // Where nobody is asked, only what is denied is held back.
        let asks = (self.mode != Mode::BypassPermissions).then_some(&self.ask);
        let rules: Vec<_> = self
            .deny
            .iter()
            .chain(asks.into_iter().flatten())
            .filter(|rule| is_about_reading(rule, tool))
            .cloned()
            .collect();
        (!rules.is_empty()).then_some(Withholding { rules })
    }

    /// Puts a question, or denies where the mode says that nobody is to be asked.
    fn question(&self, reason: String, cause: AskCause) -> Decision {
        match self.mode {
            Mode::DontAsk => Decision::Deny {
                reason: format!("{reason}, and in mode {} nobody is asked", self.mode),
            },
            Mode::Default | Mode::AcceptEdits | Mode::Plan | Mode::BypassPermissions => {
                Decision::Ask { reason, cause }
            }
        }
    }

    /// Gives the rules that "always allow" would save for this very call, never wider ones.
    ///
    /// There are none for a call that rules cannot describe by itself, such as one that touches
    /// nothing, and none where the call would be asked about all the same.
    ///
    /// ```
    /// use tooloop_policy::{Access, Policy};
    ///
    /// let rules = Policy::default().allow_always_rules("bash", &Access::command("touch *.txt"));
    /// assert_eq!(rules[0].to_string(), r"Bash(touch \*.txt)");
    /// ```
    #[must_use]
    pub fn allow_always_rules(&self, tool: &str, access: &Access) -> Vec<Rule> {
        let mut rules = Vec::new();
        for touch in &access.touches {
            let rule = match touch {
                // A file that is read to be written is one thing.
                Touch::Read(path) if access.touches.contains(&Touch::Write(path.clone())) => {
                    continue;
                }
                Touch::Command(line) => Rule::new("Bash", Some(&pattern::escape(line))).ok(),
                Touch::Read(path) => file_rule("Read", path),
                Touch::Write(path) => file_rule("Edit", path),
                Touch::Host(host) if host.contains('*') => None,
                Touch::Host(host) => Rule::new("WebFetch", Some(&format!("domain:{host}"))).ok(),
                Touch::Input(_) => None,
                Touch::Grant(grant) => Rule::granting(grant),
            };
            match rule {
                Some(rule) if rules.contains(&rule) => {}
                Some(rule) => rules.push(rule),
                None => return Vec::new(),
            }
        }
        let mut with = self.clone();
        with.allow.extend(rules.iter().cloned());
        if with.decide(tool, access).is_allow() {
            rules
        } else {
            Vec::new()
        }
    }

    /// Ties the paths of all rules to the folder that they were written for.
    ///
    /// See [`Rule::anchored`].
    #[must_use]
    pub fn anchored(mut self, root: &Path, home: Option<&Path>) -> Self {
        for rule in [&mut self.deny, &mut self.ask, &mut self.allow]
            .into_iter()
            .flatten()
        {
            *rule = rule.anchored(root, home);
        }
        self.home = home.map(Path::to_owned);
        self
    }

    /// Has the rules that deny or ask hold also for what the folders that they name really are:
    /// `real` tells where a path leads. Rules that allow stay as they are, since whoever makes a
    /// link must not widen them.
    #[must_use]
    pub fn with_links_followed(mut self, real: impl Fn(&Path) -> PathBuf) -> Self {
        for rules in [&mut self.deny, &mut self.ask] {
            let followed: Vec<_> = rules.iter().filter_map(|rule| rule.moved(&real)).collect();
            rules.extend(followed);
        }
        self
    }
}

fn file_rule(tool: &str, path: &Path) -> Option<Rule> {
    // A relative path would be a pattern that matches in more than one place.
    let path = path.to_str().filter(|path| path.starts_with('/'))?;
    Rule::new(tool, Some(&path_rule::escape(path))).ok()
}
