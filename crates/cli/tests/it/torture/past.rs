//! Whether what a journal holds is what the model is told.

use std::path::Path;

use serde_json::Value;
use tooloop_testkit::CapturedRequest;

/// What a journal says was said: texts and calls in order, and results.
#[derive(Debug, Default)]
pub(super) struct Past {
    said: Vec<String>,
    results: Vec<(String, String)>,
}

impl Past {
    /// Reads a journal. A last line that is half is none; another one that is no JSON is a fault.
    pub(super) fn of(journal: Option<&Path>) -> Self {
        let mut past = Self::default();
        let Some(journal) = journal else { return past };
        let bytes = std::fs::read(journal).unwrap();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Ok(record) = serde_json::from_slice::<Value>(line) else {
                assert!(!line.ends_with(b"\n"), "{}", String::from_utf8_lossy(line));
                continue;
            };
            past.take(&record["entry"]);
        }
        past
    }

    fn take(&mut self, entry: &Value) {
        let message = &entry["message"];
        for part in list(&message["user"]) {
            self.said.push(text(&part["text"]));
        }
        for block in list(&message["assistant"]["content"]) {
            if let Some(id) = block["tool_use"]["id"].as_str() {
                self.said.push(id.to_owned());
            } else if block["text"]["text"].is_string() {
                self.said.push(text(&block["text"]["text"]));
            }
        }
        let finished = &entry["call_finished"];
        if finished.is_object() {
            let words: Vec<_> = list(&finished["content"])
                .iter()
                .map(|part| text(&part["text"]))
                .collect();
            self.results
                .push((text(&finished["tool_use_id"]), words.join("\n")));
        }
    }

    /// What of it a request does not hold, or not in this order.
    pub(super) fn missing_in(&self, request: &CapturedRequest) -> Option<String> {
        // What one side says in a row may be told in one message.
        let told = told(request).join("\n");
        let mut rest = told.as_str();
        for said in &self.said {
            match rest.split_once(said.as_str()) {
                Some((_, later)) => rest = later,
                None => return Some(format!("{said:?} is not in its place in {told:?}")),
            }
        }
        let answers = request.tool_results();
        for (id, words) in &self.results {
            let answer = answers.iter().find(|answer| &answer.id == id);
            if !answer.is_some_and(|answer| answer.text.contains(words.as_str())) {
                return Some(format!(
                    "the result of {id} was {words:?} and is {answer:?}"
                ));
            }
        }
        None
    }
}

/// Texts and calls of a request in order.
fn told(request: &CapturedRequest) -> Vec<String> {
    let mut told = Vec::new();
    for message in request.messages() {
        if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
            continue;
        }
        if let Some(content) = message["content"].as_str() {
            told.push(content.to_owned());
        }
        for block in list(&message["content"]) {
            match block["type"].as_str() {
                Some("text") => told.push(text(&block["text"])),
                Some("tool_use") => told.push(text(&block["id"])),
                _ => {}
            }
        }
        for call in list(&message["tool_calls"]) {
            told.push(text(&call["id"]));
        }
    }
    told
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
