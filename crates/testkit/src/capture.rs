//! Requests as the server saw them, with views that are the same for every wire format.

use crate::oracle::Violation;
use crate::{Reply, Steps};
use crate::{anthropic, openai_chat};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;

/// The wire format of a model request, told from its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Anthropic Messages: `.../messages`.
    AnthropicMessages,
    /// OpenAI Chat Completions: `.../chat/completions`.
    OpenAiChat,
    /// Another model API, such as `.../responses` or `...:streamGenerateContent`. The script answers it; the judge
    /// looks at its encoding only.
    Other,
}

impl Format {
    /// A whole reply of text in this format; that of Messages for other formats.
    pub fn say(self, text: &str) -> Steps {
        match self {
            Self::AnthropicMessages | Self::Other => anthropic::say(text),
            Self::OpenAiChat => openai_chat::say(text),
        }
    }

    /// A whole reply with one tool call in this format; that of Messages for other formats.
    pub fn call(self, id: &str, name: &str, input: &Value) -> Steps {
        match self {
            Self::AnthropicMessages | Self::Other => anthropic::call_json(id, name, input),
            Self::OpenAiChat => openai_chat::call_json(id, name, input),
        }
    }

    /// An error answer in this format's shape.
    pub fn error(self, status: u16, kind: &str, message: &str) -> Reply {
        match self {
            Self::AnthropicMessages => anthropic::http_error(status, kind, message),
            Self::OpenAiChat | Self::Other => openai_chat::http_error(status, kind, message),
        }
    }
}

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct CapturedRequest {
    /// Its place among the model requests, or among the other requests, counted from 0.
    pub index: usize,
    /// The number of the connection that it came on, counted from 1.
    pub connection: u64,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, empty if there was none.
    pub query: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The bytes of the body.
    pub raw: Arc<[u8]>,
    /// The body as JSON; `Null` if it is none.
    pub body: Arc<Value>,
    /// The wire format.
    pub format: Format,
    /// When the last byte had arrived.
    pub arrived: Instant,
    /// The rules that it breaks.
    pub violations: Vec<Violation>,
}

/// A tool result of any format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// The id of the call that it answers.
    pub id: String,
    /// Its text, the texts of its blocks joined by line feeds.
    pub text: String,
    /// Whether it is flagged as an error; formats without such a flag say false.
    pub is_error: bool,
}

impl CapturedRequest {
    /// The first header of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The list of messages, empty if there is none.
    pub fn messages(&self) -> &[Value] {
        array(&self.body, "messages")
    }

    /// The text of the system prompt: the field of that name, or the messages of that role, joined by line feeds.
    pub fn system(&self) -> String {
        let from_messages = self
            .messages()
            .iter()
            .filter(|message| matches!(string(message, "role"), "system" | "developer"))
            .filter_map(|message| message.get("content"));
        self.body
            .get("system")
            .into_iter()
            .chain(from_messages)
            .map(text_of)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The role and the text of each message, thinking and tool calls left out.
    pub fn texts(&self) -> Vec<(String, String)> {
        self.messages()
            .iter()
            .map(|message| {
                (
                    string(message, "role").to_owned(),
                    message.get("content").map(text_of).unwrap_or_default(),
                )
            })
            .collect()
    }

    /// The names of the tools that are offered.
    pub fn tool_names(&self) -> Vec<String> {
        array(&self.body, "tools")
            .iter()
            .map(|tool| {
                let name = string(tool, "name");
                if name.is_empty() {
                    string(&tool["function"], "name")
                } else {
                    name
                }
                .to_owned()
            })
            .collect()
    }

    /// All tool results of the conversation, in order.
    pub fn tool_results(&self) -> Vec<ToolAnswer> {
        let mut results = Vec::new();
        for message in self.messages() {
            let text = |value: &Value| value.get("content").map(text_of).unwrap_or_default();
            if string(message, "role") == "tool" {
                let id = string(message, "tool_call_id").to_owned();
                results.push(ToolAnswer {
                    id,
                    text: text(message),
                    is_error: false,
                });
            }
            for block in array(message, "content")
                .iter()
                .filter(|block| string(block, "type") == "tool_result")
            {
                results.push(ToolAnswer {
                    id: string(block, "tool_use_id").to_owned(),
                    text: text(block),
                    is_error: block
                        .get("is_error")
                        .and_then(Value::as_bool)
                        .unwrap_or_default(),
                });
            }
        }
        results
    }

    /// The result for the call of this id.
    pub fn tool_result(&self, id: &str) -> Option<ToolAnswer> {
        self.tool_results()
            .into_iter()
            .find(|result| result.id == id)
    }

    /// Says whether any string of the body holds `text`, keys apart.
    pub fn mentions(&self, text: &str) -> bool {
        any_string(&self.body, &mut |string| string.contains(text))
    }
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value
        .get(field)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn string<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text of a content: a string, or the text blocks of a list.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter(|block| string(block, "type") == "text")
                .map(|block| string(block, "text"))
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn any_string(value: &Value, test: &mut impl FnMut(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(items) => items.iter().any(|item| any_string(item, test)),
        Value::Object(fields) => fields.values().any(|field| any_string(field, test)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn captured(body: Value) -> CapturedRequest {
        CapturedRequest {
            index: 0,
            connection: 1,
            method: "POST".into(),
            path: "/v1/messages".into(),
            query: String::new(),
            headers: vec![("x-api-key".into(), "k".into())],
            raw: Arc::from([]),
            body: Arc::new(body),
            format: Format::AnthropicMessages,
            arrived: Instant::now(),
            violations: Vec::new(),
        }
    }

    #[test]
    fn both_formats_show_the_same() {
        let one = captured(json!({"system": [{"type": "text", "text": "be good"}],
            "tools": [{"name": "bash"}],
            "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "ok"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "is_error": true,
                    "content": [{"type": "text", "text": "bad"}, {"type": "text", "text": "luck"}]}]}]}));
        let other = captured(json!({
            "tools": [{"type": "function", "function": {"name": "bash"}}],
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "ok"},
                {"role": "tool", "tool_call_id": "a", "content": "bad\nluck"}]}));
        for request in [&one, &other] {
            assert_eq!(request.system(), "be good");
            assert_eq!(request.tool_names(), ["bash"]);
            assert_eq!(
                request
                    .tool_result("a")
                    .map(|result| result.text)
                    .as_deref(),
                Some("bad\nluck")
            );
            assert!(request.tool_result("b").is_none());
            assert!(request.mentions("luck") && !request.mentions("bashful"));
            assert_eq!(request.header("X-API-Key"), Some("k"));
        }
        assert!(one.tool_results()[0].is_error);
        assert_eq!(one.texts()[1], ("assistant".to_owned(), "ok".to_owned()));
        assert_eq!(captured(Value::Null).messages(), [] as [Value; 0]);
    }
}
