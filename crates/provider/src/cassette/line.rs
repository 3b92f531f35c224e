//! A call as it stands in its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tooloop_model::{ModelInfo, Price, Request};

use super::{RecordedCall, RecordedReply, RecordedRequest};
use crate::Redactor;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallLine {
    pub(super) number: u64,
    pub(super) model: String,
    pub(super) info: InfoLine,
    /// The call whose system prompt, tools and first messages this one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<Base>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Value>,
    /// The schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output_schema: Option<Value>,
    /// The messages behind those of the base.
    pub(super) messages: Vec<Value>,
    pub(super) reply: RecordedReply,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Base {
    pub(super) call: u64,
    pub(super) messages: usize,
}

/// What the provider knew of the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct InfoLine {
    context_window: u64,
    max_output_tokens: u64,
    images: bool,
    #[serde(default)]
    structured_output: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    price: Option<PriceLine>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct PriceLine {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

/// What the model is told of tools, as JSON.
pub(super) fn tools(request: &Request, redactor: &Redactor) -> Value {
    let mut tools = serde_json::to_value(&*request.tools).unwrap_or_default();
    redactor.redact_json(&mut tools);
    tools
}

/// The schema of the answer, as JSON.
pub(super) fn output_schema(request: &Request, redactor: &Redactor) -> Option<Value> {
    let mut schema = request.output_schema.as_ref()?.to_value();
    redactor.redact_json(&mut schema);
    Some(schema)
}

/// The messages as JSON, but the first `skipped` ones.
pub(super) fn messages(request: &Request, skipped: usize, redactor: &Redactor) -> Vec<Value> {
    let messages = request.messages.iter().skip(skipped).map(|message| {
        let mut message = message.message().clone();
        redactor.redact_message(&mut message);
        serde_json::to_value(message).unwrap_or_default()
    });
    messages.collect()
}

impl CallLine {
    /// The whole call.
    pub(super) fn resolved(
        self,
        calls: &BTreeMap<u64, RecordedCall>,
    ) -> Result<RecordedCall, String> {
        let mut request = match self.base {
            None => RecordedRequest::default(),
            Some(Base { call, messages }) => {
                let base = calls.get(&call).map(|call| &call.request);
                let base = base.filter(|base| base.messages.len() >= messages);
                let mut request = base.cloned().ok_or_else(|| {
                    format!(
                        "it begins with {messages} messages of call {call}, which are not there"
                    )
                })?;
                request.messages.truncate(messages);
                request
            }
        };
        request.model = self.model;
        request.system = self.system.map_or(request.system, Arc::from);
        request.tools = self.tools.map_or(request.tools, Arc::new);
        request
            .messages
            .extend(self.messages.into_iter().map(Arc::new));
        Ok(RecordedCall {
            number: self.number,
            request,
            reply: self.reply,
        })
    }
}

impl InfoLine {
    pub(super) fn new(info: &ModelInfo) -> Self {
        let price = |price: Price| PriceLine {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        };
        Self {
            context_window: info.context_window,
            max_output_tokens: info.max_output_tokens,
            images: info.images,
            structured_output: info.structured_output,
            price: info.price.map(price),
        }
    }

    pub(super) fn info(&self) -> ModelInfo {
        let price = |price: &PriceLine| Price {
            input: price.input,
            output: price.output,
            cache_read: price.cache_read,
            cache_write: price.cache_write,
        };
        ModelInfo {
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            images: self.images,
            structured_output: self.structured_output,
            price: self.price.as_ref().map(price),
        }
    }
}
