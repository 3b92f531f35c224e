//! What hooks can be told of.

use std::fmt;
use std::str::FromStr;

/// What hooks can be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookEvent {
    /// A call is about to be judged. Matched by the tool's name.
    PreToolUse,
    /// A call has come to its end. Matched by the tool's name.
    PostToolUse,
    /// A call has failed. Matched by the tool's name.
    PostToolUseFailure,
    /// The user has said something.
    UserPromptSubmit,
    /// The model is done.
    Stop,
    /// A subagent begins. Matched by what kind of agent it is.
    SubagentStart,
    /// A subagent is done. Matched by what kind of agent it is.
    SubagentStop,
    /// A session begins or is gone on with. Matched by where it comes from: `startup`, `resume`.
    SessionStart,
    /// A session ends. Matched by why.
    SessionEnd,
    /// The conversation is about to be compacted. Matched by what set it off: `manual`, `auto`.
    PreCompact,
    /// Somebody is waited for. Matched by the kind of notification.
    Notification,
    /// Somebody is about to be asked about a call. Matched by the tool's name.
    PermissionRequest,
}

/// There is no such event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no hook event {name:?}: it may be {}", names())]
pub struct UnknownEvent {
    /// What was written in the place of one.
    pub name: String,
}

fn names() -> String {
    HookEvent::ALL.map(HookEvent::name).join(", ")
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::SessionStart,
        Self::SessionEnd,
        Self::PreCompact,
        Self::Notification,
        Self::PermissionRequest,
    ];

    /// Its name, as in settings and in what hooks are told.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
            Self::PermissionRequest => "PermissionRequest",
        }
    }

    /// Whether its matcher is held against the name of a tool.
    #[must_use]
    pub const fn is_about_a_tool(self) -> bool {
        match self {
            Self::PreToolUse
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PermissionRequest => true,
            Self::UserPromptSubmit
            | Self::Stop
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::SessionStart
            | Self::SessionEnd
            | Self::PreCompact
            | Self::Notification => false,
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for HookEvent {
    type Err = UnknownEvent;

    fn from_str(text: &str) -> Result<Self, UnknownEvent> {
        let mut all = Self::ALL.into_iter();
        all.find(|event| event.name() == text)
            .ok_or_else(|| UnknownEvent { name: text.into() })
    }
}
