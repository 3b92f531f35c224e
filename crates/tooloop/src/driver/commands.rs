//! What the driver does about commands of the session's handle: they begin turns, and change what
//! the next ones go by.

use tooloop_kernel::{Delivery, Input, Settings};
use tracing::Span;

use super::Driver;
use crate::context_report;
use crate::session::Command;
use crate::turn::{ReportSender, TurnUnderWay};
use crate::{CostReport, Event, SessionError, Spending};

impl Driver {
    pub(super) fn command(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Prompt {
                content,
                reply,
                span,
            } => {
                if self.turn.is_some() {
                    drop(reply.send(Err(SessionError::Busy)));
                    return None;
                }
                self.begin_turn(reply, &span);
                self.say(content, Delivery::Steer, true)
            }
            Command::Wake { reply, span } => {
                if self.turn.is_some() {
                    drop(reply.send(Err(SessionError::Busy)));
                    return None;
                }
                self.begin_turn(reply, &span);
                Some(Input::Wake)
            }
            // Outside of a turn nobody would get its report.
            Command::Say { .. } if self.turn.is_none() => {
                let words = "nothing is running: what was said is not sent";
                self.events.send(&Event::Warning(words.into()));
                None
            }
            Command::Say { content, delivery } => self.say(content, delivery, false),
            Command::Interrupt => {
                self.give_up_prompts();
                Some(Input::Interrupt)
            }
            Command::Shutdown => {
                self.give_up_prompts();
                Some(Input::Shutdown)
            }
            Command::Model {
                name: model,
                max_output_tokens,
                escalated_output_tokens,
            } => {
                let info = self.provider.info(&model);
                self.results.follow(Some(info.context_window));
                Some(self.configure(Settings {
                    max_output_tokens,
                    escalated_output_tokens,
                    price: info.price,
                    window: Some(info.context_window),
                    model,
                    ..self.kernel.settings().clone()
                }))
            }
            Command::Limits(limits) => Some(self.configure(Settings {
                limits,
                ..self.kernel.settings().clone()
            })),
            Command::Compact { focus, reply } => self.compact(focus, reply),
            Command::Inspect(reply) => {
                drop(reply.send(self.kernel.transcript().clone()));
                None
            }
            Command::Context(reply) => {
                drop(reply.send(context_report::report(&self.kernel, &self.sections)));
                None
            }
            Command::Cost(reply) => {
                let transcript = self.kernel.transcript();
                let priced = self.kernel.settings().price.is_some();
                drop(reply.send(CostReport {
                    own: Spending::of(transcript, priced),
                    subagents: self.agents.spent(),
                    cache: self.cache.clone(),
                }));
                None
            }
            // Taken out before.
            Command::Rewind { .. } | Command::RewindFiles { .. } => None,
        }
    }

    fn configure(&self, settings: Settings) -> Input {
        self.agents.configure(&settings);
        Input::Configure(Box::new(settings))
    }

    fn begin_turn(&mut self, reply: ReportSender, within: &Span) {
        let schema = self.output.clone();
        let model = self.kernel.settings().model.clone();
        let transcript = self.kernel.transcript();
        self.turn = Some(TurnUnderWay::begin(reply, transcript, schema, model));
        let (provider, model) = (self.provider.trace_name(), &self.kernel.settings().model);
        self.trace.turn_begins(within, provider, model);
    }
}
