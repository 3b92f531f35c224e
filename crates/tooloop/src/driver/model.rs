//! What the driver does about calls of the model.

use std::sync::Arc;

use tooloop_kernel::Input;
use tooloop_model::{ModelError, Request, StreamEvent};

use super::Driver;
use crate::model_call::ModelCall;

impl Driver {
    pub(super) fn call_model(&mut self, call: u64, request: Request) {
        if let Some(turn) = &mut self.turn {
            turn.model_called(&request.model);
        }
        self.cache.calling(&request);
        self.throw_away_early();
        self.results.sent();
        let provider = Arc::clone(&self.provider);
        let price = || provider.info(&request.model).price;
        let span = (self.trace).model_called(call, &request, provider.trace_name(), price);
        self.model = Some(ModelCall::start(provider, call, request, span));
    }

    pub(super) fn model_event(&mut self, event: Result<StreamEvent, ModelError>) -> Option<Input> {
        let call = self.model.as_ref()?.call;
        self.trace.model_event(&event);
        match event {
            Ok(event) => {
                if matches!(event, StreamEvent::MessageStop { .. }) {
                    self.model_done();
                }
                Some(Input::Stream { call, event })
            }
            Err(error) => {
                self.model_done();
                Some(Input::StreamFailed {
                    call,
                    error,
                    now: self.clock.elapsed(),
                    chance: (self.chance)(),
                })
            }
        }
    }

    pub(super) fn model_done(&mut self) {
        if let (Some(model), Some(turn)) = (self.model.take(), &mut self.turn) {
            turn.model_done(model.begun.elapsed());
        }
    }
}
