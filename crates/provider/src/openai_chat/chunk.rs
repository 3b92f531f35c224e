//! One chunk of a reply as it stands on the wire, and how its parts are taken.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tooloop_model::{ModelError, StopReason, Usage};

use crate::reading::{count, is_filter, undecodable};

#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) x_groq: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// Some servers stream what belongs into `delta` here.
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    /// The same in the format of text completions.
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
    /// The older form of a single call.
    #[serde(borrow, default)]
    pub(super) function_call: Option<FunctionDelta<'a>>,
}

impl Delta<'_> {
    /// Whether it holds any part of an answer.
    pub(super) fn says_something(&self) -> bool {
        let says = |raw: Option<&RawValue>| {
            raw.is_some_and(|raw| !matches!(raw.get(), "null" | "\"\"" | "[]"))
        };
        says(self.content)
            || says(self.refusal)
            || says(self.reasoning_content)
            || says(self.reasoning)
            || says(self.reasoning_details)
            || self
                .tool_calls
                .as_ref()
                .is_some_and(|calls| !calls.is_empty())
            || self.function_call.is_some()
    }
}

#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default, deserialize_with = "lenient_index")]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
    #[serde(borrow, default)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// An index, also where it is written as a string.
fn lenient_index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text.trim().parse().ok(),
        value => count(Some(&value)),
    })
}

/// An id. Some servers write a number.
pub(super) fn id(raw: &RawValue) -> Result<Option<String>, ModelError> {
    let text_of = raw.get();
    if text_of.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return Ok(Some(text_of.to_owned()));
    }
    text(raw)
}

pub(super) fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" | "end_turn" | "eos" => StopReason::EndTurn,
        "tool_calls" | "tool_use" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        word if is_filter(word) => StopReason::ContentFilter,
        other => StopReason::Other(other.to_owned()),
    }
}

/// The counts, as every provider should give them.
pub(super) fn normal(usage: &Value) -> Option<Usage> {
    let at = |pointer: &str| count(usage.pointer(pointer));
    let input = at("/prompt_tokens");
    let output = at("/completion_tokens");
    if input.is_none() && output.is_none() {
        return None;
    }
    let (input, mut output) = (input.unwrap_or_default(), output.unwrap_or_default());
    let reasoning = at("/completion_tokens_details/reasoning_tokens");
    // One provider leaves the reasoning out of the output; the total betrays it.
    if let (Some(reasoning), Some(total)) = (reasoning, at("/total_tokens"))
        && reasoning > 0
        && total == input.saturating_add(output).saturating_add(reasoning)
    {
        output = output.saturating_add(reasoning);
    }
    let first = |pointers: &[&str]| {
        let mut counts = pointers.iter().filter_map(|pointer| at(pointer));
        counts.find(|count| *count > 0).unwrap_or_default()
    };
    // Parts of the prompt, whatever a server says.
    let cache_read_tokens = first(&[
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
    ])
    .min(input);
    let cache_write_tokens = first(&[
        "/prompt_tokens_details/cache_write_tokens",
        "/prompt_tokens_details/cache_creation_tokens",
        "/cache_creation_input_tokens",
    ])
    .min(input.saturating_sub(cache_read_tokens));
    Some(Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens,
        cache_write_tokens,
        reasoning_tokens: reasoning,
    })
}

/// A string that says something; anything else is nothing.
pub(super) fn text(raw: &RawValue) -> Result<Option<String>, ModelError> {
    let raw = raw.get();
    if raw.len() <= 2 || !raw.starts_with('"') {
        return Ok(None);
    }
    parse(raw).map(Some)
}

/// Arguments are a string that holds JSON; some imitators send the JSON itself.
pub(super) fn arguments(raw: &RawValue) -> Result<String, ModelError> {
    match raw.get() {
        "null" => Ok(String::new()),
        raw if raw.starts_with('"') => parse(raw),
        raw => Ok(raw.to_owned()),
    }
}

pub(super) fn read(raw: &RawValue) -> Result<Value, ModelError> {
    parse(raw.get())
}

pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(text).map_err(|error| undecodable(&error, text))
}
