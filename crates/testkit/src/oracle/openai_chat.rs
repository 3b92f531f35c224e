//! The rules for OpenAI Chat Completions.

use super::image::Images;
use super::tools::{CallIds, Names, check_name, check_schema};
use super::{Options, Report, Rule, Violation, check_model, is_blank, items, messages, text_of};
use serde_json::Value;

/// Gives every way in which the body of a Chat Completions request breaks the rules.
///
/// System and developer messages may stand anywhere; rules about the order of messages do not see them.
pub fn check_openai_chat(body: &Value, options: &Options<'_>) -> Vec<Violation> {
    let mut report = Report::default();
    check_model(body, &mut report);
    check_tools(body, &mut report);
    let messages = messages(body, &mut report);
    check_turns(messages, options, &mut report);
    check_results(messages, &mut report);
    let mut ids = CallIds::default();
    let mut images = Images::default();
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        check_content(message, &path, &mut images, &mut report);
        check_calls(message, &path, &mut ids, &mut report);
    }
    images.judge_sides(&mut report);
    super::size::check_window(body, options.window, &mut report);
    report.0
}

fn role(message: &Value) -> &str {
    text_of(message, "role").unwrap_or_default()
}

fn calls(message: &Value) -> &[Value] {
    message.get("tool_calls").map(items).unwrap_or_default()
}

fn check_tools(body: &Value, report: &mut Report) {
    let mut names = Names::default();
    for (index, tool) in body
        .get("tools")
        .map(items)
        .unwrap_or_default()
        .iter()
        .enumerate()
    {
        let path = format!("tools[{index}]");
        match text_of(tool, "type") {
            Some("function") => {
                let function = tool.get("function").unwrap_or(&Value::Null);
                names.add(text_of(function, "name"), &path, report);
                // A function without parameters may leave them out.
                if let Some(schema) = function.get("parameters") {
                    check_schema(schema, &format!("{path}.function.parameters"), report);
                }
            }
            Some(_) => {}
            None => report.add(Rule::Shape, path, "a tool needs a type"),
        }
    }
}

fn check_turns(messages: &[Value], options: &Options<'_>, report: &mut Report) {
    let mut before = None;
    let mut last = None;
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        let role = role(message);
        match role {
            "system" | "developer" => continue,
            "user" | "assistant" | "tool" => {}
            other => report.add(
                Rule::Shape,
                format!("{path}.role"),
                format!("unknown role {other:?}"),
            ),
        }
        if before.is_none() && role != "user" {
            report.add(
                Rule::Turns,
                path.as_str(),
                "the first message must be the user's",
            );
        }
        if role == "assistant" && before == Some("assistant") {
            report.add(
                Rule::Turns,
                path.as_str(),
                "two assistant messages in a row",
            );
        }
        before = Some(role);
        last = Some((index, message));
    }
    match last {
        None if !messages.is_empty() => {
            report.add(Rule::Turns, "messages", "there is no user message")
        }
        Some((index, message)) if role(message) == "assistant" => {
            let path = format!("messages[{index}]");
            if !options.allow_prefill {
                report.add(
                    Rule::Turns,
                    path.as_str(),
                    "the last message must be the user's or a tool's",
                );
            }
            if last_text(message).is_some_and(|text| text.ends_with(char::is_whitespace)) {
                report.add(
                    Rule::TrailingSpace,
                    path,
                    "the trailing assistant message ends in white space",
                );
            }
        }
        _ => {}
    }
}

fn last_text(message: &Value) -> Option<&str> {
    match message.get("content")? {
        Value::String(text) => Some(text),
        Value::Array(parts) => text_of(parts.last()?, "text"),
        _ => None,
    }
}

/// The answers to a message's calls are the tool messages right after it, up to the first of another role.
fn check_results(messages: &[Value], report: &mut Report) {
    let mut open: Option<(usize, Vec<(&str, usize)>)> = None;
    for (index, message) in messages.iter().enumerate() {
        if role(message) == "tool" {
            let id = text_of(message, "tool_call_id").unwrap_or_default();
            let asked = open
                .as_mut()
                .and_then(|(_, awaited)| awaited.iter_mut().find(|(awaited, _)| *awaited == id));
            match asked {
                Some((_, 0)) => {
                    report.add(
                        Rule::Results,
                        format!("messages[{index}]"),
                        format!("a second result for {id:?}"),
                    );
                }
                Some((_, missing)) => *missing = 0,
                None => report.add(
                    Rule::Results,
                    format!("messages[{index}]"),
                    format!("result for {id:?}, which the message before did not ask for"),
                ),
            }
            continue;
        }
        report_missing(open.take(), report);
        if role(message) == "assistant" {
            let awaited = calls(message)
                .iter()
                .map(|call| (text_of(call, "id").unwrap_or_default(), 1))
                .collect();
            open = Some((index, awaited));
        }
    }
    report_missing(open, report);
}

fn report_missing(open: Option<(usize, Vec<(&str, usize)>)>, report: &mut Report) {
    let Some((index, awaited)) = open else { return };
    for (id, _) in awaited.into_iter().filter(|(_, missing)| *missing > 0) {
        report.add(
            Rule::Results,
            format!("messages[{index}]"),
            format!("tool call {id:?} has no result in the messages right after it"),
        );
    }
}

fn check_content(message: &Value, path: &str, images: &mut Images, report: &mut Report) {
    let at = format!("{path}.content");
    match message.get("content") {
        Some(Value::String(text)) => {
            if is_blank(text) {
                report.add(Rule::Blank, at, "the text is blank");
            }
        }
        Some(Value::Array(parts)) if !parts.is_empty() => {
            for (place, part) in parts.iter().enumerate() {
                check_part(part, &format!("{at}[{place}]"), images, report);
            }
        }
        None | Some(Value::Null)
            if role(message) == "assistant" && message.get("tool_calls").is_some() => {}
        None | Some(Value::Null | Value::Array(_)) => {
            report.add(Rule::Blank, path, "the message has no content")
        }
        Some(_) => report.add(Rule::Shape, at, "must be a string or a list of parts"),
    }
}

fn check_part(part: &Value, path: &str, images: &mut Images, report: &mut Report) {
    match text_of(part, "type") {
        Some("text") => match text_of(part, "text") {
            None => report.add(Rule::Shape, path, "a text part needs a text"),
            Some(text) if is_blank(text) => report.add(Rule::Blank, path, "the text is blank"),
            Some(_) => {}
        },
        Some("image_url") => match part.pointer("/image_url/url").and_then(Value::as_str) {
            None => report.add(Rule::Shape, path, "an image needs a url"),
            Some(url) => {
                if let Some(data) = url.strip_prefix("data:") {
                    let base64 = data
                        .split_once(";base64,")
                        .map_or("?", |(_, base64)| base64);
                    images.add(path, base64, report);
                }
            }
        },
        Some(_) => {}
        None => report.add(Rule::Shape, path, "a part needs a type"),
    }
}

fn check_calls<'a>(message: &'a Value, path: &str, ids: &mut CallIds<'a>, report: &mut Report) {
    let Some(calls) = message.get("tool_calls") else {
        return;
    };
    let at = format!("{path}.tool_calls");
    if role(message) != "assistant" {
        report.add(
            Rule::Shape,
            at.as_str(),
            "tool calls belong to assistant messages",
        );
    }
    if items(calls).is_empty() {
        report.add(
            Rule::Shape,
            at.as_str(),
            "must be a list that is not empty, or left out",
        );
    }
    for (place, call) in items(calls).iter().enumerate() {
        let at = format!("{at}[{place}]");
        ids.add(text_of(call, "id"), &at, report);
        if text_of(call, "type") != Some("function") {
            report.add(
                Rule::Shape,
                at.as_str(),
                "a tool call needs the type \"function\"",
            );
        }
        let function = call.get("function").unwrap_or(&Value::Null);
        check_name(text_of(function, "name"), &at, report);
        let arguments = text_of(function, "arguments");
        if !arguments.is_some_and(|text| {
            serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
        }) {
            report.add(
                Rule::Calls,
                format!("{at}.function.arguments"),
                "must be a string that holds an object",
            );
        }
    }
}

#[cfg(test)]
#[path = "openai_chat_tests.rs"]
mod tests;
