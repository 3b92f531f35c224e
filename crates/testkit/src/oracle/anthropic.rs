//! The rules for Anthropic Messages.

use super::image::Images;
use super::thinking::check_thinking;
use super::tools::{CallIds, Names, check_name, check_schema};
use super::{Options, Report, Rule, Violation, check_model, is_blank, items, messages, text_of};
use serde_json::Value;

const MAX_CACHE_MARKS: usize = 4;

/// Gives every way in which the body of a Messages request breaks the rules.
pub fn check_anthropic(body: &Value, options: &Options<'_>) -> Vec<Violation> {
    let mut report = Report::default();
    check_model(body, &mut report);
    if body
        .get("max_tokens")
        .and_then(Value::as_u64)
        .is_none_or(|tokens| tokens == 0)
    {
        report.add(Rule::Shape, "max_tokens", "must be a positive number");
    }
    check_tools(body, &mut report);
    check_system(body, &mut report);
    let messages = messages(body, &mut report);
    check_turns(messages, options, &mut report);
    check_results(messages, &mut report);
    check_blocks(messages, options, &mut report);
    let marks = count_marks(body);
    if marks > MAX_CACHE_MARKS {
        report.add(
            Rule::Blank,
            "",
            format!("{marks} cache marks; at most {MAX_CACHE_MARKS} are allowed"),
        );
    }
    super::size::check_window(body, options.window, &mut report);
    report.0
}

fn role(message: &Value) -> &str {
    text_of(message, "role").unwrap_or_default()
}

fn kind(block: &Value) -> &str {
    text_of(block, "type").unwrap_or_default()
}

/// The blocks of a message whose content is a list.
fn blocks(message: &Value) -> &[Value] {
    message.get("content").map(items).unwrap_or_default()
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
        names.add(text_of(tool, "name"), &path, report);
        // Tools of the vendor's own have another type and no schema.
        if matches!(kind(tool), "" | "custom") {
            let schema = tool.get("input_schema").unwrap_or(&Value::Null);
            check_schema(schema, &format!("{path}.input_schema"), report);
        }
    }
}

fn check_system(body: &Value, report: &mut Report) {
    match body.get("system") {
        Some(Value::String(text)) if is_blank(text) => {
            report.add(Rule::Blank, "system", "the text is blank");
        }
        None | Some(Value::String(_)) => {}
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                check_text(block, &format!("system[{index}]"), report);
            }
        }
        Some(_) => report.add(
            Rule::Shape,
            "system",
            "must be a string or a list of blocks",
        ),
    }
}

fn check_turns(messages: &[Value], options: &Options<'_>, report: &mut Report) {
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        match role(message) {
            "user" | "assistant" => {}
            other => report.add(
                Rule::Shape,
                format!("{path}.role"),
                format!("unknown role {other:?}"),
            ),
        }
        if index == 0 && role(message) != "user" {
            report.add(
                Rule::Turns,
                path.as_str(),
                "the first message must be the user's",
            );
        }
        let before = index.checked_sub(1).and_then(|before| messages.get(before));
        if role(message) == "assistant" && before.is_some_and(|before| role(before) == "assistant")
        {
            report.add(
                Rule::Turns,
                path.as_str(),
                "two assistant messages in a row",
            );
        }
    }
    let Some(last) = messages.last() else { return };
    if role(last) == "assistant" {
        let path = format!("messages[{}]", messages.len() - 1);
        if !options.allow_prefill {
            report.add(
                Rule::Turns,
                path.as_str(),
                "the last message must be the user's",
            );
        }
        let text = match last.get("content") {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Array(blocks)) => blocks
                .last()
                .filter(|block| kind(block) == "text")
                .and_then(|block| text_of(block, "text")),
            _ => None,
        };
        if text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
            report.add(
                Rule::TrailingSpace,
                path,
                "the trailing assistant message ends in white space",
            );
        }
    }
}

fn check_results(messages: &[Value], report: &mut Report) {
    let mut awaited: Vec<&str> = Vec::new();
    let mut asked_at = 0;
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}]");
        let is_user = role(message) == "user";
        let results: Vec<&str> = blocks(message)
            .iter()
            .filter(|block| kind(block) == "tool_result")
            .map(|block| text_of(block, "tool_use_id").unwrap_or_default())
            .collect();
        for id in &awaited {
            match results
                .iter()
                .filter(|result| is_user && *result == id)
                .count()
            {
                0 => report.add(
                    Rule::Results,
                    format!("messages[{asked_at}]"),
                    format!("tool use {id:?} has no result in the next message"),
                ),
                1 => {}
                count => report.add(
                    Rule::Results,
                    path.as_str(),
                    format!("{count} results for tool use {id:?}"),
                ),
            }
        }
        let mut other_before = false;
        for (place, block) in blocks(message).iter().enumerate() {
            let at = || format!("{path}.content[{place}]");
            if kind(block) != "tool_result" {
                other_before = true;
                continue;
            }
            let id = text_of(block, "tool_use_id").unwrap_or_default();
            if !is_user {
                report.add(
                    Rule::Results,
                    at(),
                    "a tool result belongs to a user message",
                );
            } else if !awaited.contains(&id) {
                report.add(
                    Rule::Results,
                    at(),
                    format!("result for {id:?}, which the message before did not ask for"),
                );
            }
            if other_before {
                report.add(
                    Rule::Results,
                    at(),
                    "tool results must come before any other block",
                );
            }
        }
        awaited.clear();
        asked_at = index;
        if role(message) == "assistant" {
            awaited.extend(
                blocks(message)
                    .iter()
                    .filter(|block| kind(block) == "tool_use")
                    .map(|block| text_of(block, "id").unwrap_or_default()),
            );
        }
    }
    for id in awaited {
        report.add(
            Rule::Results,
            format!("messages[{asked_at}]"),
            format!("tool use {id:?} has no result"),
        );
    }
}

fn check_blocks(messages: &[Value], options: &Options<'_>, report: &mut Report) {
    let mut ids = CallIds::default();
    let mut images = Images::default();
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages[{index}].content");
        match message.get("content") {
            Some(Value::String(text)) => {
                if is_blank(text) {
                    report.add(Rule::Blank, path, "the message has no content");
                }
            }
            Some(Value::Array(blocks)) => {
                if blocks.is_empty() {
                    report.add(Rule::Blank, path.as_str(), "the message has no content");
                }
                for (place, block) in blocks.iter().enumerate() {
                    let at = format!("{path}[{place}]");
                    check_block(block, role(message), &at, &mut images, report);
                    if kind(block) == "tool_use" {
                        ids.add(text_of(block, "id"), &at, report);
                    }
                }
                if role(message) == "assistant" {
                    check_thinking(blocks, &path, options.sent, report);
                }
            }
            _ => report.add(Rule::Shape, path, "must be a string or a list of blocks"),
        }
    }
    images.judge_sides(report);
}

fn check_block(block: &Value, role: &str, path: &str, images: &mut Images, report: &mut Report) {
    let is_assistant = role == "assistant";
    match kind(block) {
        "" => report.add(Rule::Shape, path, "a block needs a type"),
        "text" => check_text(block, path, report),
        "image" => check_image(block, path, images, report),
        "thinking" | "redacted_thinking" if !is_assistant => {
            report.add(
                Rule::Thinking,
                path,
                "thinking belongs to assistant messages",
            );
        }
        "thinking" | "redacted_thinking" if is_marked(block) => {
            report.add(Rule::Blank, path, "a cache mark on thinking");
        }
        "tool_use" => {
            if !is_assistant {
                report.add(
                    Rule::Shape,
                    path,
                    "a tool use belongs to an assistant message",
                );
            }
            check_name(text_of(block, "name"), path, report);
            if !block.get("input").is_some_and(Value::is_object) {
                report.add(Rule::Calls, format!("{path}.input"), "must be an object");
            }
        }
        "tool_result" => check_result(block, path, images, report),
        _ => {}
    }
}

fn check_text(block: &Value, path: &str, report: &mut Report) {
    match text_of(block, "text") {
        None if kind(block) == "text" => report.add(Rule::Shape, path, "a text block needs a text"),
        None => report.add(Rule::Shape, path, "must be a text block"),
        Some(text) if is_blank(text) => {
            let words = if is_marked(block) {
                "a cache mark on an empty block"
            } else {
                "the text is blank"
            };
            report.add(Rule::Blank, path, words);
        }
        Some(_) => {}
    }
}

fn check_image(block: &Value, path: &str, images: &mut Images, report: &mut Report) {
    let source = block.get("source").unwrap_or(&Value::Null);
    if kind(source) == "base64" {
        if text_of(source, "media_type").is_none() {
            report.add(Rule::Shape, path, "an image needs a media type");
        }
        images.add(path, text_of(source, "data").unwrap_or_default(), report);
    } else if kind(source).is_empty() {
        report.add(Rule::Shape, path, "an image needs a source");
    }
}

fn check_result(block: &Value, path: &str, images: &mut Images, report: &mut Report) {
    if block.get("is_error").is_some_and(|flag| !flag.is_boolean()) {
        report.add(
            Rule::Shape,
            format!("{path}.is_error"),
            "must be true or false",
        );
    }
    match block.get("content") {
        Some(Value::String(text)) if !is_blank(text) => {}
        Some(Value::Array(content)) if !content.is_empty() => {
            for (place, inner) in content.iter().enumerate() {
                let at = format!("{path}.content[{place}]");
                match kind(inner) {
                    "text" => check_text(inner, &at, report),
                    "image" => check_image(inner, &at, images, report),
                    "thinking" | "redacted_thinking" | "tool_use" | "tool_result" | "" => {
                        report.add(
                            Rule::Shape,
                            at,
                            format!("a tool result cannot hold {:?}", kind(inner)),
                        );
                    }
                    _ => {}
                }
            }
        }
        None | Some(Value::String(_) | Value::Array(_)) => {
            report.add(Rule::Blank, path, "the tool result has no content");
        }
        Some(_) => report.add(
            Rule::Shape,
            format!("{path}.content"),
            "must be a string or a list of blocks",
        ),
    }
}

fn is_marked(block: &Value) -> bool {
    block
        .get("cache_control")
        .is_some_and(|mark| !mark.is_null())
}

fn count_marks(body: &Value) -> usize {
    let marked = |blocks: &[Value]| blocks.iter().filter(|block| is_marked(block)).count();
    let mut marks = marked(body.get("tools").map(items).unwrap_or_default());
    marks += marked(body.get("system").map(items).unwrap_or_default());
    for message in body.get("messages").map(items).unwrap_or_default() {
        marks += marked(blocks(message));
        marks += blocks(message)
            .iter()
            .map(|block| marked(blocks(block)))
            .sum::<usize>();
    }
    marks
}

#[cfg(test)]
#[path = "anthropic_tests.rs"]
mod tests;
