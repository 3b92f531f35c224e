//! Where registry and policy meet: the kernel's gate.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tooloop_kernel::{Gate, Judgement, Verdict};
use tooloop_model::{JsonObject, ToolInput, ToolUse};
use tooloop_policy::{
    Access, AskCause, Decision, FileFacts, Grant, Mode, Policy, Rule, Touch, beyond, named_paths,
    shell,
};
use tooloop_provider::Redactor;
use tooloop_tool::{JudgedPath, Registry, Withheld};

use crate::agents::{EXIT_PLAN, Planning};
use crate::judged::JudgedCalls;
use crate::{Border, border, paths, repository};

/// What is called by name, and what may be.
pub(crate) struct RegistryGate {
    pub(crate) registry: Registry,
    pub(crate) policy: Arc<RwLock<Policy>>,
    pub(crate) workspace: PathBuf,
    pub(crate) border: Option<Arc<Border>>,
    /// What kind of subagent calls, if one does.
    pub(crate) agent: Option<Arc<str>>,
    /// Whether nothing may be changed, whatever the policy says.
    pub(crate) only_reads: bool,
    /// What becomes of plans, if there is a tool for them.
    pub(crate) planning: Option<Planning>,
    /// Where the paths of calls led when they were judged.
    pub(crate) judged: JudgedCalls,
    /// What results hide.
    pub(crate) secrets: Redactor,
}

impl fmt::Debug for RegistryGate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RegistryGate(..)")
    }
}

impl RegistryGate {
    /// What a call would touch, or what is wrong with it, in words for the model.
    pub(crate) fn access(&self, tool_use: &ToolUse) -> Result<Access, String> {
        self.resolved_access(tool_use).map(|(access, _)| access)
    }

    /// The same, with the place that each path led to.
    fn resolved_access(&self, tool_use: &ToolUse) -> Result<(Access, Vec<JudgedPath>), String> {
        let input = match &tool_use.input {
            ToolInput::Valid(input) => input,
            ToolInput::Invalid { reason, .. } => return Err(reason.clone()),
        };
        let Some(tool) = self.registry.get(&tool_use.name) else {
            return Err(self.unknown(&tool_use.name));
        };
        let access = |input: &JsonObject| tool.access(input).map_err(|error| error.to_string());
        catch_unwind(AssertUnwindSafe(|| access(input)))
            .unwrap_or_else(|_| Err(format!("the tool {} failed on this input", tool_use.name)))
            .map(|access| self.resolved(access))
    }

    /// What to tell the model about a call that writes the mark of a hidden value, if it does.
    fn written_mark(&self, tool_use: &ToolUse, access: &Access) -> Option<String> {
        let mark = mark_in(&self.secrets, tool_use)?;
        let writes = |touch: &Touch| matches!(touch, Touch::Write(_));
        let is_command = access.touches.iter().any(is_command);
        (access.touches.iter().any(writes) && !is_command).then(|| {
            format!(
                "nothing was written: the input holds {mark}, the mark that results show in place \
                 of a secret value. The file holds the value itself. Use an edit whose old and new \
                 text leave out every line with a mark; such a line then stays unchanged. Ask the \
                 user to write lines that need the value."
            )
        })
    }

    /// What to tell the model after a command whose input holds the mark of a hidden value.
    pub(crate) fn mark_note(&self, tool_use: &ToolUse) -> Option<String> {
        let mark = mark_in(&self.secrets, tool_use)?;
        let access = self.access(tool_use).ok()?;
        access.touches.iter().any(is_command).then(|| {
            format!(
                "Note: the input holds {mark}, the mark that results show in place of a secret \
                 value. The command got the mark, not the value. If it wrote the mark to a file, \
                 restore the file."
            )
        })
    }

    /// Adds the absolute form of each path and, where links lead elsewhere, the paths that they lead
    /// to: rules must hold for all of them.
    fn resolved(&self, mut access: Access) -> (Access, Vec<JudgedPath>) {
        let mut touches: Vec<Touch> = Vec::with_capacity(access.touches.len());
        let mut judged: Vec<JudgedPath> = Vec::new();
        let mut add = |touch: Touch| {
            if !touches.contains(&touch) {
                touches.push(touch);
            }
        };
        let mut resolve = |path: &Path, may_write: bool| {
            let given = self.workspace.join(path);
            let seen = self.seen(given.clone());
            let normal = paths::normal(&seen);
            if let Some(known) = judged.iter_mut().find(|known| known.given == given) {
                known.may_write |= may_write;
                return [normal, known.entry.clone(), known.real.clone()];
            }
            let (entry, real) = paths::entry_and_real(&seen);
            judged.push(JudgedPath {
                given,
                entry: entry.clone(),
                real: real.clone(),
                may_write,
            });
            [normal, entry, real]
        };
        for touch in access.touches {
            match touch {
                Touch::Read(path) => {
                    let [normal, _, real] = resolve(&path, false);
                    add(Touch::Read(normal));
                    add(Touch::Read(real));
                }
                Touch::Write(path) => {
                    let places = resolve(&path, true);
                    places.map(Touch::Write).into_iter().for_each(&mut add);
                }
                Touch::Command(_) | Touch::Host(_) | Touch::Input(_) | Touch::Grant(_) => {
                    add(touch)
                }
            }
        }
        access.touches = touches;
        let facts = self.facts(&access);
        (access.with_facts(facts), judged)
    }

    /// What the policy needs to know about the files that shell lines touch where no sandbox holds
    /// them.
    fn facts(&self, access: &Access) -> FileFacts {
        let lines = || {
            access.touches.iter().filter_map(|touch| match touch {
                Touch::Command(line) => Some(line.as_str()),
                Touch::Read(_)
                | Touch::Write(_)
                | Touch::Host(_)
                | Touch::Input(_)
                | Touch::Grant(_) => None,
            })
        };
        if lines().next().is_none() {
            return FileFacts::default();
        }
        let directory = access.directory.as_deref().unwrap_or(&self.workspace);
        let (confinement, home) = read(&self.policy, |policy| {
            (policy.confinement.clone(), policy.home.clone())
        });
        let is_held = confinement.is_some_and(|confinement| {
            let needs = |line| beyond(line, directory, home.as_deref(), &confinement);
            let is_named = access.touches.contains(&Touch::Grant(Grant::Unconfined));
            !is_named && !lines().any(|line| needs(line).contains(&Grant::Unconfined))
        });
        if is_held {
            return FileFacts::default();
        }
        let runs_git = lines().any(|line| shell::analyse(line).runs_git());
        let git_risk = runs_git.then(|| {
            let mut roots = vec![paths::real(&self.workspace)];
            roots.extend(read(&self.policy, |policy| policy.roots.clone()));
            repository::risk(directory, &roots)
        });
        let named = lines().flat_map(|line| named_paths(line, Some(directory), home.as_deref()));
        let links = named.filter_map(|path| {
            let real = paths::real(&path);
            (real != path).then_some((path, real))
        });
        FileFacts {
            git_risk: git_risk.flatten(),
            links: links.collect(),
        }
    }

    /// Where a path is that names a temporary folder as commands see it.
    fn seen(&self, path: PathBuf) -> PathBuf {
        let view = self.border.as_ref().and_then(|border| border.view.as_ref());
        view.map_or(path.clone(), |view| view.real(&path))
    }

    /// Whether nothing is changed, because of the mode or of who calls.
    pub(crate) fn is_read_only(&self) -> bool {
        self.only_reads || read(&self.policy, |policy| policy.mode == Mode::Plan)
    }

    /// The rules that a no adds to those that deny: what the call asked for is not asked about again,
    /// nor, if a person refuses it, what it was seen to need.
    pub(crate) fn denying(
        &self,
        tool: &str,
        judgement: &Judgement,
        by_a_person: bool,
    ) -> Vec<Rule> {
        let access = &judgement.access;
        let mut rules = border::refusing(access);
        let is_beyond = matches!(
            judgement.verdict,
            Verdict::Ask {
                cause: AskCause::Beyond,
                ..
            }
        );
        if let Some(border) = &self.border
            && rules.is_empty()
            && by_a_person
            && is_beyond
        {
            rules = read(&self.policy, |policy| {
                border.refusing(tool, access, &self.workspace, policy)
            });
        }
        rules
    }

    /// Adds those rules; returns them in words.
    pub(crate) fn refused(
        &self,
        tool: &str,
        judgement: &Judgement,
        by_a_person: bool,
    ) -> Option<String> {
        let rules = self.denying(tool, judgement, by_a_person);
        let words: Vec<_> = rules.iter().map(ToString::to_string).collect();
        change(&self.policy, |policy| policy.deny.extend(rules));
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Whether the policy refuses a call by itself, or there is nothing that could be run.
    pub(crate) fn denies(&self, tool_use: &ToolUse) -> bool {
        match self.judgement(tool_use).0.verdict {
            Verdict::Deny { .. } | Verdict::Invalid { .. } => true,
            Verdict::Allow | Verdict::Ask { .. } => false,
        }
    }

    /// Whether a rule wants a call asked about.
    pub(crate) fn asked_by_a_rule(&self, tool_use: &ToolUse) -> bool {
        let verdict = self.judgement(tool_use).0.verdict;
        matches!(
            verdict,
            Verdict::Ask {
                cause: AskCause::Rule,
                ..
            }
        )
    }

    /// What is so about presenting a plan; `None` if it is judged as any other call.
    fn judge_plan(&self) -> Option<Verdict> {
        let planning = self.planning?;
        let mode = read(&self.policy, |policy| policy.mode);
        match (mode, planning) {
            (Mode::Plan, Planning::Asks) => Some(Verdict::Ask {
                reason: "the plan is to be agreed to".into(),
                cause: AskCause::Rule,
            }),
            (Mode::Plan, Planning::Answers) => None,
            (mode, _) => Some(Verdict::Invalid {
                message: format!(
                    "{EXIT_PLAN} is for plan mode, and the mode is {mode}: do what is to be done"
                ),
            }),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<_> = self.registry.names().collect();
        let meant = names.iter().find(|known| known.eq_ignore_ascii_case(name));
        let hint = meant.map_or_else(String::new, |meant| format!(" Did you mean {meant}?"));
        match names.as_slice() {
            [] => format!("there is no tool named {name:?}: there are no tools here."),
            names => format!(
                "there is no tool named {name:?}.{hint} The tools are: {}.",
                names.join(", ")
            ),
        }
    }

    /// What a call of this tool must leave out where it meets it.
    pub(crate) fn withheld(&self, tool: &str) -> Withheld {
        let withholding = read(&self.policy, |policy| policy.withholding(tool));
        let hidden = self.border.as_ref().map(|border| &border.boundary.hidden);
        let hidden = hidden.filter(|hidden| !hidden.is_empty()).cloned();
        if withholding.is_none() && hidden.is_none() {
            return Withheld::nothing();
        }
        Withheld::by(move |path| {
            let is_hidden = |hidden: &Vec<PathBuf>| hidden.iter().any(|one| path.starts_with(one));
            withholding.as_ref().is_some_and(|rules| rules.holds(path))
                || hidden.as_ref().is_some_and(is_hidden)
        })
    }

    /// What this tool may not read without a call that somebody might be asked about, as the rules
    /// are when it is looked at.
    pub(crate) fn unreadable(self: &Arc<Self>, tool: &str) -> Withheld {
        let gate = Arc::clone(self);
        let tool = tool.to_owned();
        Withheld::by(move |path| {
            let access = Access::read_only().reading(path);
            read(&gate.policy, |policy| {
                !gate.decide(policy, &tool, &access).is_allow()
            })
        })
    }

    /// What rules and the sandbox's border say.
    fn decide(&self, policy: &Policy, tool: &str, access: &Access) -> Decision {
        let decision = policy.decide(tool, access);
        let border = self.border.as_ref().filter(|_| !decision.is_deny());
        border
            .and_then(|border| border.refuses(tool, access, policy))
            .map_or(decision, |reason| Decision::Deny { reason })
    }

    /// What a call is given beyond the sandbox if it runs.
    fn grants(&self, policy: &Policy, tool: &str, access: &Access) -> Vec<Grant> {
        let border = self.border.as_ref();
        border.map_or_else(Vec::new, |border| {
            border.grants(tool, access, &self.workspace, policy)
        })
    }

    /// The exact rules that "always" would add for this call; empty if none would cover just it. What
    /// a line is seen to need beyond the sandbox is among them, so that it is asked about once.
    fn rules(&self, policy: &Policy, tool: &str, access: &Access) -> Vec<Rule> {
        let mut rules = policy.allow_always_rules(tool, access);
        let border = self.border.as_ref().filter(|_| !rules.is_empty());
        if let Some(border) = border.filter(|_| policy.confinement.is_some()) {
            let given = border.giving(access, &self.workspace, policy);
            rules.extend(given);
        }
        rules
    }

    /// Adds rules that allow; gives their words back.
    pub(crate) fn allow(&self, rules: Vec<Rule>) -> Option<String> {
        let words: Vec<_> = rules.iter().map(ToString::to_string).collect();
        change(&self.policy, |policy| {
            for rule in rules {
                if !policy.allow.contains(&rule) {
                    policy.allow.push(rule);
                }
            }
        });
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl RegistryGate {
    /// What is to become of a call, and where its paths lead.
    fn judgement(&self, tool_use: &ToolUse) -> (Judgement, Vec<JudgedPath>) {
        match self.resolved_access(tool_use) {
            Ok((access, paths)) => {
                let judgement = match self.written_mark(tool_use, &access) {
                    Some(message) => Judgement {
                        verdict: Verdict::Invalid { message },
                        access,
                        grants: Vec::new(),
                        rules: Vec::new(),
                    },
                    None => self.judge_access(&tool_use.name, access),
                };
                (judgement, paths)
            }
            Err(message) => (Judgement::invalid(message), Vec::new()),
        }
    }

    fn judge_access(&self, tool: &str, access: Access) -> Judgement {
        let judgement = |verdict, access| Judgement {
            verdict,
            access,
            grants: Vec::new(),
            rules: Vec::new(),
        };
        if tool == EXIT_PLAN
            && let Some(verdict) = self.judge_plan()
        {
            return judgement(verdict, access);
        }
        // One state of the policy for all of it.
        read(&self.policy, |policy| {
            let decision = self.decide(policy, tool, &access);
            if self.only_reads && changes(&access) && !decision.is_deny() {
                let agent = self.agent.as_deref().unwrap_or("this agent");
                let reason = format!(
                    "{agent} only reads, and this is not known to be read-only: leave it to \
                     the agent that gave you the task"
                );
                return judgement(Verdict::Deny { reason }, access);
            }
            let (verdict, rules) = match decision {
                Decision::Allow => (Verdict::Allow, Vec::new()),
                Decision::Ask { reason, cause } => (
                    Verdict::Ask { reason, cause },
                    self.rules(policy, tool, &access),
                ),
                Decision::Deny { reason } => return judgement(Verdict::Deny { reason }, access),
            };
            Judgement {
                verdict,
                grants: self.grants(policy, tool, &access),
                rules,
                access,
            }
        })
    }
}

impl Gate for RegistryGate {
    fn judge(&self, tool_use: &ToolUse) -> Judgement {
        let (judgement, paths) = self.judgement(tool_use);
        self.judged.note(&tool_use.id, paths, &judgement.verdict);
        judgement
    }
}

/// The first mark of a hidden value in the strings of a call's input.
fn mark_in(secrets: &Redactor, tool_use: &ToolUse) -> Option<String> {
    fn of_value(secrets: &Redactor, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => secrets.mark_in(text).map(str::to_owned),
            Value::Array(items) => items.iter().find_map(|item| of_value(secrets, item)),
            Value::Object(members) => members.values().find_map(|item| of_value(secrets, item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
    match &tool_use.input {
        ToolInput::Valid(input) if !secrets.knows_nothing() => of_value(secrets, &input.to_value()),
        ToolInput::Valid(_) | ToolInput::Invalid { .. } => None,
    }
}

const fn is_command(touch: &Touch) -> bool {
    match touch {
        Touch::Command(_) | Touch::Input(_) => true,
        Touch::Read(_) | Touch::Write(_) | Touch::Host(_) | Touch::Grant(_) => false,
    }
}

/// Whether something outside of the session may be changed.
fn changes(access: &Access) -> bool {
    let writes = |touch: &Touch| match touch {
        Touch::Write(_) | Touch::Input(_) => true,
        Touch::Command(_) | Touch::Read(_) | Touch::Host(_) | Touch::Grant(_) => false,
    };
    access.effect.reaches_outside() || access.touches.iter().any(writes)
}

pub(crate) fn change(policy: &RwLock<Policy>, change: impl FnOnce(&mut Policy)) {
    change(&mut policy.write().unwrap_or_else(PoisonError::into_inner));
}

pub(crate) fn read<T>(policy: &RwLock<Policy>, look: impl FnOnce(&Policy) -> T) -> T {
    // A policy is plain data: a panic elsewhere cannot have left it half changed.
    look(&policy.read().unwrap_or_else(PoisonError::into_inner))
}
