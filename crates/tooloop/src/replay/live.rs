//! Tools that are run for real beside a replay.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use similar::TextDiff;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Gate, Judgement, Verdict};
use tooloop_model::{Content, ToolInput, ToolResult, ToolUse, ToolUseId};
use tooloop_policy::AskCause;
use tooloop_tool::{Background, Progress, Registry, ToolContext, ToolError, ToolOutput};

use super::normal::Normal;
use super::{Recording, ToolDifference};
use crate::driver::Parts;
use crate::gate::RegistryGate;
use crate::judged::JudgedCalls;
use crate::results::Results;
use crate::{Agent, Approval, Question, Reply};

/// The longest difference that is told, in lines and in characters a line.
const LINES: usize = 40;
const WIDTH: usize = 400;

/// How long the smallest difference is looked for before any will do.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// Runs an agent's tools and compares what they come to.
pub(super) struct Live {
    registry: Registry,
    gate: Arc<RegistryGate>,
    approval: Approval,
    workspace: PathBuf,
    background: Background,
    results: Arc<Results>,
    temporary: Option<PathBuf>,
    normal: Normal,
    asked: u64,
    differences: Vec<ToolDifference>,
    not_run: Vec<ToolUseId>,
}

impl Live {
    pub(super) fn new(agent: &Agent, recording: &Recording) -> Self {
        let parts: Parts = agent.parts_for_tools();
        let mut normal = Normal::default();
        normal.folder(&parts.workspace, "<workspace>");
        if let Some(workspace) = &recording.workspace {
            normal.folder(workspace, "<workspace>");
        }
        let outputs = parts.outputs.map(|(folder, _)| folder);
        let results = Results::new(parts.results, outputs.clone(), parts.secrets.clone());
        results.follow(parts.settings.window);
        Self {
            gate: Arc::new(RegistryGate {
                registry: parts.registry.clone(),
                policy: parts.policy,
                workspace: parts.workspace.clone(),
                border: parts.border.clone(),
                agent: None,
                only_reads: false,
                planning: parts.planning,
                judged: JudgedCalls::default(),
                secrets: parts.secrets.clone(),
            }),
            registry: parts.registry,
            approval: parts.approval,
            workspace: parts.workspace,
            background: Background::default(),
            results: Arc::new(results),
            temporary: outputs,
            normal,
            asked: 0,
            differences: Vec::new(),
            not_run: Vec::new(),
        }
    }

    /// Runs a call and compares what it comes to.
    pub(super) async fn run(&mut self, tool_use: ToolUse, recorded: Option<ToolResult>) {
        let Some(recorded) = recorded else {
            self.not_run.push(tool_use.id);
            return;
        };
        let output = self.output(&tool_use).await;
        // What it has to say later is on record already.
        while self.background.try_notice().is_some() {}
        if let Some(diff) = self.difference(&recorded, &output) {
            self.differences.push(ToolDifference {
                tool_use_id: tool_use.id,
                tool: tool_use.name,
                input: tool_use.input.json().to_owned(),
                diff,
            });
        }
    }

    /// Ends what the tools have begun.
    pub(super) async fn end(self) -> (Vec<ToolDifference>, Vec<ToolUseId>) {
        drop(self.registry);
        drop(self.gate);
        if let Some(folder) = self.temporary {
            // There may be none, since nothing was long.
            let removed = tokio::task::spawn_blocking(|| std::fs::remove_dir_all(folder)).await;
            drop(removed);
        }
        (self.differences, self.not_run)
    }

    async fn output(&mut self, tool_use: &ToolUse) -> ToolOutput {
        let refused =
            |reason: String| ToolOutput::failure(format!("permission denied, not run: {reason}"));
        let judgement = self.gate.judge(tool_use);
        match judgement.verdict.clone() {
            Verdict::Allow => {}
            Verdict::Invalid { message } => return ToolOutput::failure(message),
            Verdict::Deny { reason } => return refused(reason),
            Verdict::Ask { reason, cause } => {
                let asked = self.ask(tool_use, reason, cause, &judgement).await;
                if let Some(reason) = asked {
                    return refused(reason);
                }
            }
        }
        let (Some(tool), ToolInput::Valid(input)) =
            (self.registry.get(&tool_use.name).cloned(), &tool_use.input)
        else {
            return ToolOutput::failure("there is nothing to run");
        };
        let context = ToolContext {
            tool_use_id: tool_use.id.clone(),
            working_directory: self.workspace.clone(),
            cancellation: CancellationToken::new(),
            progress: Progress::none(),
            background: self.background.clone(),
            withheld: self.gate.withheld(&tool_use.name),
            judged: self.gate.judged.take(&tool_use.id),
            grants: judgement.grants,
            is_read_only: self.gate.is_read_only(),
            room: self.results.room(),
        };
        let run = AssertUnwindSafe(tool.run(input, &context)).catch_unwind();
        let result = run.await.unwrap_or_else(|_| {
            let words = "the tool failed inside: this is a fault of the tool, not of the call";
            Err(ToolError::Failed(words.into()))
        });
        let results = Arc::clone(&self.results);
        results.fitted(tool_use.id.clone(), result).await
    }

    /// Why not, if somebody says no.
    async fn ask(
        &mut self,
        tool_use: &ToolUse,
        reason: String,
        cause: AskCause,
        judgement: &Judgement,
    ) -> Option<String> {
        self.asked = self.asked.saturating_add(1);
        let rules = judgement.rules.clone();
        let question = Question {
            denying: Vec::new(),
            ask: self.asked,
            agent: None,
            cause: Some(cause),
            rules: rules.clone(),
            tool_use: tool_use.clone(),
            reason,
        };
        match self.approval.ask(question).await {
            Reply::Allow => None,
            Reply::AllowForSession => {
                self.gate.allow(rules);
                None
            }
            Reply::AllowWith(allowance) if allowance.input.is_some() => {
                Some("what is compared is not run with another input".into())
            }
            Reply::AllowWith(allowance) => {
                self.gate.allow(allowance.rules);
                None
            }
            Reply::Deny { reason } | Reply::DenyAndStop { reason } => Some(reason),
        }
    }

    fn difference(&self, recorded: &ToolResult, output: &ToolOutput) -> Option<String> {
        let one = self.told(&recorded.content, recorded.is_error);
        let other = self.told(&output.content, output.is_error);
        if one == other {
            return None;
        }
        let mut configured = TextDiff::configure();
        let diff = configured.timeout(DIFF_TIME).diff_lines(&one, &other);
        let mut unified = diff.unified_diff();
        let unified = unified.header("recorded", "live").to_string();
        Some(shortened(&unified))
    }

    fn told(&self, content: &[Content], is_error: bool) -> String {
        let mut told = String::new();
        for part in content.iter().filter(|part| !part.is_blank()) {
            match part {
                Content::Text(text) => told.push_str(&self.normal.text(text)),
                Content::Image(image) => {
                    let length = image.data.len();
                    let kind = &image.media_type;
                    told.push_str(&format!(
                        "(a picture: {kind}, {length} characters of base64)"
                    ));
                }
                Content::Document(document) => {
                    let length = document.data.len();
                    let kind = &document.media_type;
                    told.push_str(&format!(
                        "(a document: {kind}, {length} characters of base64)"
                    ));
                }
            }
            if !told.ends_with('\n') {
                told.push('\n');
            }
        }
        if told.is_empty() {
            told.push_str("(no output)\n");
        }
        if is_error {
            told.push_str("(it failed)\n");
        }
        told
    }
}

fn shortened(diff: &str) -> String {
    let mut lines = diff.lines();
    let mut short = String::new();
    for line in lines.by_ref().take(LINES) {
        short.extend(line.chars().take(WIDTH));
        if line.chars().nth(WIDTH).is_some() {
            short.push('…');
        }
        short.push('\n');
    }
    match lines.count() {
        0 => {}
        more => short.push_str(&format!("… {more} more lines\n")),
    }
    short
}
