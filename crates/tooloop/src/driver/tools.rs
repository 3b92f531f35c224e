//! What the driver does about calls of tools: each runs in a task of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tooloop_kernel::{Input, Judgement};
use tooloop_model::{Content, ToolInput, ToolUse};
use tooloop_tool::{Progress, ToolContext, ToolError, ToolOutput};
use tracing::{Instrument, Span};

use super::{Driver, hooking};
use crate::Event;
use crate::agents::EXIT_PLAN;
use crate::instructions::FoundInstructions;
use crate::trace::Trace;

/// A call that runs.
pub(super) struct Run {
    tool_use: ToolUse,
    is_read_only: bool,
    pub(super) cancellation: CancellationToken,
    task: tokio::task::Id,
    pub(super) span: Span,
}

/// What a tool came to.
pub(super) struct Ran {
    run: u64,
    duration: Duration,
    result: ToolOutput,
    /// A hook wants the turn to end.
    stop: Option<String>,
    /// What is written down about what it touched.
    found: FoundInstructions,
}

impl Driver {
    pub(super) fn run_tool(&mut self, run: u64, tool_use: ToolUse, judgement: &Judgement) {
        let cancellation = CancellationToken::new();
        let progress = if self.events.is_watched() {
            let events = Arc::clone(&self.events);
            let id = tool_use.id.clone();
            let secrets = self.secrets.clone();
            Progress::to(move |text| {
                events.send(&Event::ToolProgress {
                    tool_use_id: id.clone(),
                    text: secrets.redact_known(text).into(),
                });
            })
        } else {
            Progress::none()
        };
        let context = ToolContext {
            tool_use_id: tool_use.id.clone(),
            working_directory: self.workspace.clone(),
            cancellation: cancellation.clone(),
            progress,
            background: self.background.clone(),
            withheld: self.gate.withheld(&tool_use.name),
            judged: self.gate.judged.take(&tool_use.id),
            grants: judgement.grants.clone(),
            is_read_only: self.gate.is_read_only(),
            room: self.results.room(),
        };
        self.events.send(&Event::ToolStarted {
            tool_use: tool_use.clone(),
        });
        self.agents.turn_is(self.kernel.transcript().turns().len());
        let is_read_only = self.started.take_if(|id| *id == tool_use.id).is_none();
        let checkpoint = if is_read_only {
            None
        } else {
            self.checkpoint(&tool_use, judgement)
        };
        let touched = self.touched(judgement);
        let note = self.gate.mark_note(&tool_use);
        let results = Arc::clone(&self.results);
        let hooks = self.hooks.clone();
        let called = tool_use.clone();
        let tool = self.registry.get(&tool_use.name).cloned();
        let input = tool_use.input.clone();
        let span = self.trace.tool_begins(&tool_use);
        let within = span.clone();
        let work = async move {
            let kept = match &checkpoint {
                Some(checkpoint) => checkpoint.before(&context.cancellation).await,
                None => true,
            };
            let begun = Instant::now();
            let result = match (tool, input) {
                (Some(_), _) if !kept => Err(ToolError::Cancelled),
                // Broken off before it began: then it does not begin.
                _ if context.cancellation.is_cancelled() => Err(ToolError::Cancelled),
                (Some(tool), ToolInput::Valid(input)) => tool.run(&input, &context).await,
                // The gate lets neither pass.
                (None, _) | (_, ToolInput::Invalid { .. }) => {
                    Err(ToolError::Failed("there is nothing to run".into()))
                }
            };
            let duration = begun.elapsed();
            let id = context.tool_use_id;
            let mut result = results.fitted(id, result).await;
            result.content.extend(note.map(Content::Text));
            let hooks = hooks.as_deref();
            let (result, stop) =
                hooking::after(hooks, called, result, &context.cancellation, within).await;
            // What a hook changes belongs to the call.
            if let Some(checkpoint) = checkpoint {
                checkpoint.after();
            }
            let found = match touched.filter(|_| !result.is_error) {
                Some(touched) => touched.look().await,
                None => FoundInstructions::default(),
            };
            Ran {
                run,
                duration,
                result,
                stop,
                found,
            }
        };
        let task = self.tools.spawn(work.instrument(span.clone()));
        let run_under_way = Run {
            tool_use,
            is_read_only,
            cancellation,
            task: task.id(),
            span,
        };
        self.runs.insert(run, run_under_way);
    }

    pub(super) fn tool_ran(
        &mut self,
        ran: Result<(tokio::task::Id, Ran), JoinError>,
    ) -> Option<(Option<String>, Input)> {
        let (run, duration, mut output, stop, found) = match ran {
            Ok((_, ran)) => (ran.run, ran.duration, ran.result, ran.stop, ran.found),
            Err(error) => {
                let failed = error.id();
                let (&run, _) = self.runs.iter().find(|(_, run)| run.task == failed)?;
                let words = "the tool failed inside: this is a fault of the tool, not of the call";
                let output = ToolOutput::failure(words);
                (
                    run,
                    Duration::ZERO,
                    output,
                    None,
                    FoundInstructions::default(),
                )
            }
        };
        // Not there any more: it was cancelled, and nobody wants its answer.
        let Run {
            tool_use,
            is_read_only,
            cancellation,
            span,
            ..
        } = self.runs.remove(&run)?;
        self.found(found);
        Trace::tool_ended(&span, &output);
        if tool_use.name == EXIT_PLAN && !output.is_error {
            self.mode_told.is_over();
        }
        if self.changed.remove(&tool_use.id) {
            let words = format!(
                "Note: this is not the result of what you wrote. Whoever was asked about the call \
                 has changed its input, and it ran with {}",
                tool_use.input.json()
            );
            output.content.push(Content::Text(words));
        }
        if is_read_only {
            let turn = self.kernel.transcript().turns().len();
            self.told.push((turn, cancellation.clone()));
        }
        if self.model.is_some() {
            self.early.push(cancellation);
        }
        self.events.send(&Event::ToolEnded {
            tool_use_id: tool_use.id,
            duration,
            details: output.details,
            refusals: output.refusals,
        });
        let input = Input::ToolFinished {
            run,
            content: output.content,
            is_error: output.is_error,
            fingerprint: output.fingerprint,
        };
        Some((stop, input))
    }

    /// What ran early for a reply that came to nothing has not been told to anybody.
    pub(super) fn throw_away_early(&mut self) {
        for cancellation in self.early.drain(..) {
            cancellation.cancel();
        }
    }
}
