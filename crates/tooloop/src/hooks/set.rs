//! The hooks of a session: which of them an event runs, and what they say together.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use tooloop_model::{Content, ToolInput, ToolUse};
use tooloop_policy::Policy;
use tooloop_session::SessionId;
use tracing::{Instrument, Span};

use super::{HookEvent, HookNote, HookRule, HookRunner, Hooks, Matcher, MatcherError, Said};
use super::{answer, names, printed};
use crate::Event;
use crate::event::Broadcast;
use crate::trace::Trace;

/// The hooks of an agent, their matchers read.
#[derive(Debug)]
pub(crate) struct HookSet {
    rules: Vec<(HookRule, Matcher)>,
    runner: Arc<dyn HookRunner>,
}

impl HookSet {
    /// # Errors
    /// A matcher is no pattern: the rule's source, and what is wrong.
    pub(crate) fn new(hooks: Hooks) -> Result<Self, (String, MatcherError)> {
        let rules = hooks.rules.into_iter().map(|rule| {
            let matcher = rule.parsed_matcher();
            match matcher {
                Ok(matcher) => Ok((rule, matcher)),
                Err(error) => Err((rule.source, error)),
            }
        });
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
            runner: hooks.runner,
        })
    }

    /// Whether an event of this kind, about this, runs anything.
    pub(crate) fn has(&self, event: HookEvent, about: &About<'_>) -> bool {
        self.rules
            .iter()
            .any(|(rule, matcher)| rule.event == event && about.is_met_by(matcher))
    }

    /// The rules that an event runs. The same command is run once.
    fn rules(&self, event: HookEvent, about: &About<'_>) -> Vec<&HookRule> {
        let mut found: Vec<&HookRule> = Vec::new();
        for (rule, matcher) in &self.rules {
            let again = |other: &&HookRule| other.command == rule.command;
            if rule.event == event && about.is_met_by(matcher) && !found.iter().any(again) {
                found.push(rule);
            }
        }
        found
    }
}

/// What a matcher is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    Tool(&'a str),
    Word(&'a str),
    /// The event has nothing that could be matched.
    Nothing,
}

impl About<'_> {
    fn is_met_by(&self, matcher: &Matcher) -> bool {
        match self {
            Self::Tool(name) => matcher.matches_tool(name),
            Self::Word(word) => matcher.matches(word),
            Self::Nothing => true,
        }
    }
}

/// What has happened, with what hooks are told of it.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    PreToolUse(ToolUse),
    PermissionRequest(ToolUse),
    /// A tool has ended: what the model is told.
    ToolEnded {
        tool_use: ToolUse,
        content: Vec<Content>,
        is_error: bool,
    },
    Prompt(Vec<Content>),
    Stop {
        active: bool,
        text: String,
    },
    SessionStart {
        source: &'static str,
    },
    SessionEnd {
        reason: &'static str,
    },
    PreCompact {
        trigger: &'static str,
    },
    Notification {
        kind: &'static str,
        message: String,
    },
}

impl Subject {
    /// What it is to hooks of a session.
    const fn event(&self) -> HookEvent {
        match self {
            Self::PreToolUse(_) => HookEvent::PreToolUse,
            Self::PermissionRequest(_) => HookEvent::PermissionRequest,
            Self::ToolEnded {
                is_error: false, ..
            } => HookEvent::PostToolUse,
            Self::ToolEnded { is_error: true, .. } => HookEvent::PostToolUseFailure,
            Self::Prompt(_) => HookEvent::UserPromptSubmit,
            Self::Stop { .. } => HookEvent::Stop,
            Self::SessionStart { .. } => HookEvent::SessionStart,
            Self::SessionEnd { .. } => HookEvent::SessionEnd,
            Self::PreCompact { .. } => HookEvent::PreCompact,
            Self::Notification { .. } => HookEvent::Notification,
        }
    }

    fn about(&self) -> About<'_> {
        match self {
            Self::PreToolUse(tool_use)
            | Self::PermissionRequest(tool_use)
            | Self::ToolEnded { tool_use, .. } => About::Tool(&tool_use.name),
            Self::Prompt(_) | Self::Stop { .. } => About::Nothing,
            Self::SessionStart { source } => About::Word(source),
            Self::SessionEnd { reason } => About::Word(reason),
            Self::PreCompact { trigger } => About::Word(trigger),
            Self::Notification { kind, .. } => About::Word(kind),
        }
    }

    const fn tool_use(&self) -> Option<&ToolUse> {
        match self {
            Self::PreToolUse(tool_use)
            | Self::PermissionRequest(tool_use)
            | Self::ToolEnded { tool_use, .. } => Some(tool_use),
            Self::Prompt(_)
            | Self::Stop { .. }
            | Self::SessionStart { .. }
            | Self::SessionEnd { .. }
            | Self::PreCompact { .. }
            | Self::Notification { .. } => None,
        }
    }
}

/// The subagent that a session belongs to, as hooks are told of it.
#[derive(Debug)]
pub(crate) struct HookedAgent {
    /// Its session.
    pub(crate) id: SessionId,
    /// What kind of agent it is.
    pub(crate) kind: Arc<str>,
    /// Where it is recorded.
    pub(crate) journal: Option<PathBuf>,
}

/// The hooks of one session. Those of a subagent are told the session that it works for.
#[derive(Debug)]
pub(crate) struct SessionHooks {
    pub(crate) agent: Option<HookedAgent>,
    pub(crate) set: Arc<HookSet>,
    pub(crate) session: SessionId,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) workspace: PathBuf,
    pub(crate) policy: Arc<RwLock<Policy>>,
    pub(crate) events: Arc<Broadcast>,
    pub(crate) newest: AtomicU64,
}

impl SessionHooks {
    /// Whether this runs anything.
    pub(crate) fn wants(&self, subject: &Subject) -> bool {
        self.event(subject)
            .is_some_and(|event| self.set.has(event, &self.about(subject)))
    }

    /// What event this is, if it is one: a subagent's session begins and ends as that of a subagent,
    /// and no user says anything in it.
    fn event(&self, subject: &Subject) -> Option<HookEvent> {
        match (&self.agent, subject.event()) {
            (None, event) => Some(event),
            (Some(_), HookEvent::SessionStart) => Some(HookEvent::SubagentStart),
            (Some(_), HookEvent::Stop) => Some(HookEvent::SubagentStop),
            (Some(_), HookEvent::SessionEnd | HookEvent::UserPromptSubmit) => None,
            (Some(_), event) => Some(event),
        }
    }

    fn about<'a>(&'a self, subject: &'a Subject) -> About<'a> {
        match (&self.agent, subject) {
            (Some(agent), Subject::SessionStart { .. } | Subject::Stop { .. }) => {
                About::Word(&agent.kind)
            }
            (Some(_) | None, subject) => subject.about(),
        }
    }

    /// How long the hooks of such events may take together.
    pub(crate) fn longest(&self, event: HookEvent) -> Duration {
        let rules = self.set.rules.iter();
        let rules = rules.filter(|(rule, _)| rule.event == event);
        rules
            .map(|(rule, _)| rule.timeout)
            .max()
            .unwrap_or_default()
    }

    /// Runs all hooks that this is for, at once, and puts together what they say. No single one takes
    /// longer than `most`. What goes wrong with one is told as a warning. Dropping the future ends
    /// them.
    pub(crate) async fn run(&self, subject: Subject, most: Option<Duration>, within: Span) -> Said {
        let Some(event) = self.event(&subject) else {
            return Said::default();
        };
        let input = self.input(event, &subject);
        let rules = self.set.rules(event, &self.about(&subject));
        let runs = rules.iter().map(|rule| {
            let timeout = most.map_or(rule.timeout, |most| rule.timeout.min(most));
            let rule = HookRule {
                timeout,
                ..(*rule).clone()
            };
            self.one(rule, subject.tool_use(), &input, &within)
        });
        let mut said = Said::default();
        for (source, answer) in join_all(runs).await {
            for warning in &answer.warnings {
                self.events.send(&Event::Warning(warning.clone()));
            }
            if let Some(message) = &answer.message {
                self.events
                    .send(&Event::Warning(format!("hook {source} says: {message}")));
            }
            if let Some(warning) = said.add(answer, &source) {
                self.events.send(&Event::Warning(warning));
            }
        }
        said
    }

    async fn one(
        &self,
        rule: HookRule,
        tool_use: Option<&ToolUse>,
        input: &Value,
        within: &Span,
    ) -> (String, answer::Answer) {
        let mut note = HookNote {
            hook: self
                .newest
                .fetch_add(1, Ordering::Relaxed)
                .saturating_add(1),
            event: rule.event,
            tool_use_id: tool_use.map(|tool_use| tool_use.id.clone()),
            command: rule.command.clone(),
            source: rule.source.clone(),
            outcome: None,
        };
        self.events.send(&Event::Hook(Arc::new(note.clone())));
        let span = Trace::hook_begins(within, &rule);
        let run = self.set.runner.run(&rule, input.clone());
        let outcome = run.instrument(span.clone()).await;
        Trace::hook_ended(&span, &outcome);
        let tool = tool_use.map(|tool_use| &*tool_use.name);
        let answer = answer::read(&rule, &outcome, tool, input);
        let mut shown = outcome;
        shown.stdout = if answer.is_quiet {
            String::new()
        } else {
            printed::shown(&shown.stdout)
        };
        shown.stderr = printed::shown(&shown.stderr);
        note.outcome = Some(shown);
        self.events.send(&Event::Hook(Arc::new(note)));
        (rule.source, answer)
    }

    /// What hooks are told.
    fn input(&self, event: HookEvent, subject: &Subject) -> Value {
        let mode = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        let mode = mode.mode;
        let journal = self.journal.as_ref();
        let mut input = Map::new();
        let mut tell = |key: &str, value: Value| {
            input.insert(key.into(), value);
        };
        tell("session_id", self.session.to_string().into());
        let journal = journal.map_or_else(String::new, |path| path.display().to_string());
        tell("transcript_path", journal.into());
        tell("cwd", self.workspace.display().to_string().into());
        tell("permission_mode", mode.name().into());
        tell("hook_event_name", event.name().into());
        if let Some(agent) = &self.agent {
            tell("agent_id", agent.id.to_string().into());
            tell("agent_type", (&*agent.kind).into());
            let journal = agent.journal.as_ref();
            let journal = journal.map_or_else(String::new, |path| path.display().to_string());
            tell("agent_transcript_path", journal.into());
        }
        if let Some(tool_use) = subject.tool_use() {
            let given = match &tool_use.input {
                ToolInput::Valid(input) => input.to_value(),
                ToolInput::Invalid { .. } => json!({}),
            };
            let name = &tool_use.name;
            tell("tool_name", names::told(name).into());
            tell("tooloop_tool", name.as_str().into());
            let given = names::with_other_fields(name, given, &self.workspace);
            tell("tool_input", given);
            tell("tool_use_id", tool_use.id.to_string().into());
        }
        match subject {
            Subject::PreToolUse(_) | Subject::PermissionRequest(_) => {}
            Subject::ToolEnded {
                content, is_error, ..
            } => {
                let text = text(content);
                if *is_error {
                    tell("error", text.clone().into());
                }
                tell(
                    "tool_response",
                    json!({ "content": text, "is_error": is_error }),
                );
            }
            Subject::Prompt(content) => tell("prompt", text(content).into()),
            Subject::Stop { active, text } => {
                tell("stop_hook_active", (*active).into());
                tell("last_assistant_message", text.as_str().into());
            }
            Subject::SessionStart { .. } if self.agent.is_some() => {}
            Subject::SessionStart { source } => tell("source", (*source).into()),
            Subject::SessionEnd { reason } => tell("reason", (*reason).into()),
            Subject::PreCompact { trigger } => tell("trigger", (*trigger).into()),
            Subject::Notification { kind, message } => {
                tell("notification_type", (*kind).into());
                tell("message", message.as_str().into());
            }
        }
        Value::Object(input)
    }
}

fn text(content: &[Content]) -> String {
    let texts: Vec<_> = content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.clone(),
            Content::Image(image) => format!("[a picture, {}]", image.media_type),
            Content::Document(document) => format!("[a document, {}]", document.media_type),
        })
        .collect();
    texts.join("\n")
}
