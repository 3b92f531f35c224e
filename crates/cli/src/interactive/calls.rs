//! How a call and what came of it are shown. Knows the common names of tools' fields and no tool.

use std::time::Duration;

use serde_json::Value;
use tooloop::{Content, Rule, ToolInput, ToolResult, ToolUse};

use super::paint::{Line, Out, Style, line};
use super::text;

/// The most lines of a call's argument that are shown where it only informs.
const HEADING_LINES: usize = 5;
/// The most lines of a result.
const RESULT_LINES: usize = 6;
/// What is looked at of a result; the lines behind it are only counted.
const RESULT_BYTES: usize = 64 * 1024;

/// The fields that say what a call is about, the most telling first.
const MAIN_FIELDS: [&str; 9] = [
    "command",
    "pattern",
    "file_path",
    "path",
    "query",
    "url",
    "description",
    "prompt",
    "input",
];

/// What a call is about, and the other things it is called with.
struct Argument {
    main: String,
    /// The name of the field that `main` is; empty if it is all there is.
    field: String,
    others: Vec<(String, String)>,
}

fn argument(tool_use: &ToolUse) -> Argument {
    let input = match &tool_use.input {
        ToolInput::Valid(input) => input,
        ToolInput::Invalid { raw, .. } => {
            return Argument {
                main: raw.clone(),
                field: String::new(),
                others: Vec::new(),
            };
        }
    };
    let Value::Object(mut fields) = input.to_value() else {
        return Argument {
            main: input.get().to_owned(),
            field: String::new(),
            others: Vec::new(),
        };
    };
    let field = MAIN_FIELDS
        .iter()
        .find(|field| fields.get(**field).is_some_and(Value::is_string));
    let main = field.and_then(|field| fields.shift_remove(*field));
    Argument {
        main: main.as_ref().map_or_else(String::new, words),
        field: field.copied().unwrap_or_default().to_owned(),
        others: fields
            .iter()
            .map(|(field, value)| (field.clone(), words(value)))
            .collect(),
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A call in a few words, for the live row.
pub(crate) fn brief(tool_use: &ToolUse, columns: usize) -> String {
    let argument = argument(tool_use);
    let name = text::clean(&tool_use.name);
    let main = if argument.main.is_empty() {
        inline(&argument.others)
    } else {
        argument.main
    };
    let main = text::one_line(&text::clean(text::head(&main, 4 * columns)));
    text::cut(format!("{name} {main}").trim_end(), columns)
}

/// The line or the few lines that a call begins with.
pub(crate) fn heading(tool_use: &ToolUse, columns: usize) -> Vec<Out> {
    let argument = argument(tool_use);
    let others: Vec<_> = argument
        .others
        .into_iter()
        // Content to be written is no part of a heading.
        .filter(|(_, value)| value.len() <= 60 && !value.contains('\n'))
        .collect();
    let mut body = text::clean(text::head(argument.main.trim_end(), RESULT_BYTES));
    if !others.is_empty() {
        let others = text::clean(&inline(&others));
        body = format!("{body} {others}").trim_start().to_owned();
    }
    let room = columns.saturating_sub(4).max(20);
    let mut lines = body.lines();
    // What is longer is broken by the terminal; some rows of it are enough.
    let first = text::cut(lines.next().unwrap_or_default(), 3 * room);
    let mut outs = vec![Out::Line(title(&tool_use.name, Style::Plain, &first))];
    let all = body.lines().count();
    let shown = shown_of(all, HEADING_LINES);
    for next in lines.take(shown.saturating_sub(1)) {
        outs.push(line(Style::Plain, format!("    {}", text::cut(next, room))));
    }
    let left = all.saturating_sub(shown);
    if left > 0 {
        outs.push(line(Style::Dim, format!("    … {left} more lines")));
    }
    outs
}

/// How many of so many lines are shown where `most` may be. A single line is not folded away: the
/// words about it would take its place.
const fn shown_of(all: usize, most: usize) -> usize {
    if all <= most + 1 { all } else { most }
}

/// A heading for a call whose own is further up.
pub(crate) fn again(tool_use: &ToolUse, columns: usize) -> Out {
    let name = text::clean(&tool_use.name);
    let room = columns.saturating_sub(2).max(20);
    let brief = brief(tool_use, room);
    let rest = brief.strip_prefix(&name).unwrap_or_default();
    Out::Line(title(&tool_use.name, Style::Dim, rest.trim_start()))
}

fn title(name: &str, style: Style, rest: &str) -> Line {
    let line = Line::new(Style::Accent, "● ").and(Style::Bold, text::one_line(&text::clean(name)));
    if rest.is_empty() {
        line
    } else {
        line.and(style, format!("  {rest}"))
    }
}

/// What is shown at once of each end of a long value that is to be judged.
const END_LINES: usize = 40;
const END_BYTES: usize = 4 * 1024;

/// A call as it is to be judged: nothing hidden, and all of it, unless it is very long. Then it is
/// said how much is left out in between.
pub(crate) fn whole(tool_use: &ToolUse, columns: usize) -> Vec<Out> {
    judged(tool_use, Extent::Ends, columns)
}

/// The same, however long it is.
pub(crate) fn all(tool_use: &ToolUse, columns: usize) -> Vec<Out> {
    judged(tool_use, Extent::All, columns)
}

/// Whether [`whole`] leaves something out.
pub(crate) fn is_long(tool_use: &ToolUse) -> bool {
    let argument = argument(tool_use);
    let others = argument.others.iter().map(|(_, value)| value);
    let mut values = std::iter::once(&argument.main).chain(others);
    values.any(|value| left_out(&text::reveal(value)).is_some())
}

/// A rule on one line.
pub(crate) fn rule(rule: &Rule) -> String {
    text::reveal(&rule.to_string()).replace('\n', "\\n")
}

/// What is shown at once of each end of a rule: it mostly says what the call above it says.
const RULE_BYTES: usize = 100;

/// Whether [`short_rule`] leaves something out.
pub(crate) fn is_long_rule(one: &Rule) -> bool {
    rule(one).len() > 2 * RULE_BYTES
}

/// The same, with a mark for its middle if it is long.
pub(crate) fn short_rule(one: &Rule) -> String {
    let whole = rule(one);
    if whole.len() <= 2 * RULE_BYTES {
        return whole;
    }
    let head = whole.floor_char_boundary(RULE_BYTES);
    let tail = whole.ceil_char_boundary(whole.len().saturating_sub(RULE_BYTES));
    let hidden = tail.saturating_sub(head);
    format!(
        "{} … {hidden} bytes are not shown here … {}",
        whole.get(..head).unwrap_or_default(),
        whole.get(tail..).unwrap_or_default()
    )
}

/// How much of a call is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Ends,
    All,
}

fn judged(tool_use: &ToolUse, extent: Extent, columns: usize) -> Vec<Out> {
    let argument = argument(tool_use);
    let name = text::reveal(&tool_use.name).replace('\n', " ");
    let mut outs = vec![Out::Line(title(&name, Style::Plain, ""))];
    let is_command = argument.field == "command";
    if !argument.main.is_empty() {
        if !is_command && !argument.field.is_empty() {
            field(
                &argument.field,
                &argument.main,
                (extent, columns),
                &mut outs,
            );
        } else {
            block(&argument.main, (extent, columns), &mut outs);
        }
    }
    for (name, value) in &argument.others {
        field(name, value, (extent, columns), &mut outs);
    }
    outs
}

fn field(name: &str, value: &str, how: (Extent, usize), outs: &mut Vec<Out>) {
    let name = text::reveal(name).replace('\n', " ");
    let room = how.1.saturating_sub(text::width(&name).saturating_add(6));
    if value.contains('\n') || text::fitting(value, room) < value.len() {
        outs.push(line(Style::Dim, format!("    {name}:")));
        block(value, how, outs);
    } else {
        let value = text::reveal(value);
        outs.push(Out::Line(
            Line::new(Style::Dim, format!("    {name}: ")).and(Style::Plain, value),
        ));
    }
}

fn block(value: &str, how: (Extent, usize), outs: &mut Vec<Out>) {
    let (extent, columns) = how;
    let value = text::reveal(value);
    // Each row has its mark, or what is asked about could pass for what asks.
    let mut push = |text: &str| {
        for one in text.lines() {
            for (number, row) in rows(one, columns.saturating_sub(6)).into_iter().enumerate() {
                let mark = if number == 0 { "    │ " } else { "    ┊ " };
                outs.push(Out::Line(
                    Line::new(Style::Dim, mark).and(Style::Plain, row),
                ));
            }
        }
    };
    match left_out(&value).filter(|_| extent == Extent::Ends) {
        None => push(&value),
        Some(middle) => {
            push(value.get(..middle.start).unwrap_or_default());
            let hidden = value.get(middle.clone()).unwrap_or_default();
            let lines = hidden.matches('\n').count();
            let words = format!(
                "    ┆ … {} bytes on {} lines are not shown here: v shows all of it",
                hidden.len(),
                lines.saturating_add(1)
            );
            outs.push(line(Style::Notice, words));
            block(value.get(middle.end..).unwrap_or_default(), how, outs);
        }
    }
}

/// A line in rows of at most so many columns, broken wherever a row is full.
pub(crate) fn rows(line: &str, columns: usize) -> Vec<&str> {
    let columns = columns.max(8);
    let mut rows = Vec::new();
    let mut rest = line;
    loop {
        let (row, next) = rest.split_at(text::fitting(rest, columns));
        rows.push(row);
        if next.is_empty() {
            return rows;
        }
        rest = next;
    }
}

/// The middle of a text that is too long to be shown at once.
fn left_out(text: &str) -> Option<std::ops::Range<usize>> {
    let line_end = |(at, _): (usize, &str)| at.saturating_add(1);
    let head = text.match_indices('\n').nth(END_LINES - 1).map(line_end);
    let head = head.unwrap_or(text.len()).min(END_BYTES);
    let rest = text.strip_suffix('\n').unwrap_or(text);
    let tail = rest.rmatch_indices('\n').nth(END_LINES - 1).map(line_end);
    let tail = tail.unwrap_or(0).max(text.len().saturating_sub(END_BYTES));
    let middle = text.floor_char_boundary(head)..text.ceil_char_boundary(tail);
    (middle.start < middle.end).then_some(middle)
}

fn inline(fields: &[(String, String)]) -> String {
    let fields: Vec<_> = fields
        .iter()
        .map(|(field, value)| format!("{field}={value}"))
        .collect();
    text::one_line(&fields.join(" "))
}

/// What came of a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome<'a> {
    /// How long it ran; `None` if it did not.
    pub(crate) duration: Option<Duration>,
    /// What is shown in place of the result.
    pub(crate) details: Option<&'a str>,
    /// Whether it was not allowed to run.
    pub(crate) denied: bool,
}

/// The beginning of a result, and how it went.
pub(crate) fn preview(result: &ToolResult, outcome: Outcome<'_>, columns: usize) -> Vec<Out> {
    let whole = outcome
        .details
        .map_or_else(|| content(&result.content), str::to_owned);
    let whole = whole.trim_start_matches('\n').trim_end();
    let head = text::head(whole, RESULT_BYTES);
    let cleaned = text::clean(head);
    let behind = whole.get(head.len()..).unwrap_or_default();
    let rest = if head.ends_with('\n') {
        behind.lines().count()
    } else {
        behind.matches('\n').count()
    };
    let all = cleaned.lines().count().saturating_add(rest);
    let shown = shown_of(all, RESULT_LINES);
    let room = columns.saturating_sub(4).max(16);
    let mut outs: Vec<_> = cleaned
        .lines()
        .take(shown)
        .map(|one| {
            let cut = text::cut(one.trim_end(), room);
            Out::Line(Line::new(Style::Dim, format!("  │ {cut}")))
        })
        .collect();
    let left = all.saturating_sub(shown);
    let (style, word) = match (outcome.denied, result.is_error) {
        (true, _) => (Style::Notice, "not run"),
        (false, true) => (Style::Bad, "failed"),
        (false, false) => (Style::Good, "ok"),
    };
    let mut end = Line::new(Style::Dim, "  └ ").and(style, word);
    if let Some(duration) = outcome.duration {
        end = end.and(Style::Dim, format!(" · {}", text::span(duration)));
    }
    if left > 0 {
        end = end.and(Style::Dim, format!(" · {left} more lines"));
    }
    outs.push(Out::Line(end));
    outs
}

fn content(content: &[Content]) -> String {
    let parts: Vec<_> = content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.as_str(),
            Content::Image(_) => "(a picture)",
            Content::Document(_) => "(a document)",
        })
        .collect();
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interactive::paint;

    fn call(name: &str, input: &str) -> ToolUse {
        ToolUse {
            id: "1".into(),
            name: name.into(),
            input: ToolInput::parse(input),
            vendor: None,
        }
    }

    fn shown(outs: &[Out]) -> String {
        paint::shown(outs).join(
            "
",
        )
    }

    #[test]
    fn a_command_is_its_own_heading() {
        let git = call("bash", r#"{"command":"git status","timeout":5}"#);
        assert_eq!(shown(&heading(&git, 80)), "● bash  git status timeout=5");
        assert_eq!(brief(&git, 80), "bash git status");
        assert_eq!(brief(&git, 9), "bash git…");
        assert_eq!(shown(&[again(&git, 80)]), "● bash  git status");
    }

    #[test]
    fn a_single_line_is_not_folded_away() {
        let six = call("bash", r#"{"command":"a\nb\nc\nd\ne\nf"}"#);
        let heading = shown(&heading(&six, 80));
        assert!(heading.ends_with("\n    e\n    f"), "{heading}");
        for (lines, expected) in [(6, "ok"), (7, "ok"), (8, "ok · 2 more lines")] {
            let text = "x\n".repeat(lines);
            let result = ToolResult::text("1".into(), text);
            let outs = shown(&preview(&result, Outcome::default(), 80));
            let end = outs.lines().last().unwrap_or_default();
            assert!(end.ends_with(expected), "{lines}: {outs}");
            let rows = outs.lines().count();
            assert_eq!(rows, if lines == 8 { 7 } else { lines + 1 });
        }
    }

    #[test]
    fn a_long_command_is_cut_and_says_so() {
        let lines = call("bash", r#"{"command":"a\nb\nc\nd\ne\nf\ng\n"}"#);
        assert_eq!(
            shown(&heading(&lines, 80)),
            "● bash  a\n    b\n    c\n    d\n    e\n    … 2 more lines"
        );
        let long = format!(r#"{{"command":"{}"}}"#, "x".repeat(1_000));
        let shown = shown(&heading(&call("bash", &long), 80));
        assert!(shown.len() < 260 && shown.ends_with('…'), "{shown}");
    }

    #[test]
    fn what_is_written_is_no_part_of_the_heading() {
        let write = call("write", r#"{"path":"a.txt","content":"x\ny\n"}"#);
        assert_eq!(shown(&heading(&write, 80)), "● write  a.txt");
        let unknown = call("mine", r#"{"depth":3,"all":true}"#);
        assert_eq!(shown(&heading(&unknown, 80)), "● mine  depth=3 all=true");
        assert_eq!(brief(&unknown, 80), "mine depth=3 all=true");
        assert_eq!(brief(&call("mine", "{}"), 80), "mine");
        assert_eq!(
            shown(&heading(&call("bash", "{\"comm"), 80)),
            "● bash  {\"comm"
        );
    }

    #[test]
    fn what_is_to_be_judged_is_shown_whole() {
        let command = (0..70).map(|n| format!("echo {n}\\n")).collect::<String>();
        let input = format!(r#"{{"command":"{command}x\u001b[2K\rls","timeout":5}}"#);
        let whole = shown(&whole(&call("bash", &input), 80));
        assert!(whole.starts_with("● bash\n    │ echo 0\n    │ echo 1\n"));
        assert!(
            whole.ends_with("\n    │ echo 69\n    │ x\\u{1b}[2K\\rls\n    timeout: 5"),
            "{whole}"
        );
        let write = call("write", r#"{"path":"a.txt","content":"x\ny\n"}"#);
        assert_eq!(
            shown(&super::whole(&write, 80)),
            "● write\n    path: a.txt\n    content:\n    │ x\n    │ y"
        );
    }

    #[test]
    fn no_row_of_what_is_asked_about_passes_for_what_asks() {
        let command = format!("true{}  allow? y once", " ".repeat(70));
        let call = call(
            "bash",
            &format!(r#"{{"command":"{command}","why":"{command}"}}"#),
        );
        let shown = shown(&whole(&call, 60));
        let mut marks = shown
            .lines()
            .skip(1)
            .map(|row| row.chars().take(6).collect::<String>());
        assert!(
            marks.all(|mark| matches!(mark.as_str(), "    │ " | "    ┊ " | "    wh")),
            "{shown}"
        );
        assert!(shown.lines().all(|row| text::width(row) <= 60), "{shown}");
    }

    #[test]
    fn of_what_is_very_long_both_ends_are_shown_and_all_is_on_demand() {
        let lines = (0..500).map(|n| format!("echo {n}\\n")).collect::<String>();
        let row = "x".repeat(20_000);
        for (command, first, last) in [
            (format!("{lines}rm -r /"), "│ echo 0\n", "│ rm -r /"),
            (format!("{row}; rm -r /"), "│ xxx", "rm -r /"),
        ] {
            let call = call("bash", &format!(r#"{{"command":"{command}"}}"#));
            assert!(is_long(&call));
            let (ends, all) = (shown(&whole(&call, 80)), shown(&all(&call, 80)));
            assert!(ends.contains(first) && ends.ends_with(last), "{ends}");
            assert!(ends.len() < 14_000, "{}", ends.len());
            assert!(
                ends.contains(" are not shown here: v shows all of it"),
                "{ends}"
            );
            assert!(all.ends_with(last) && !all.contains("not shown"));
            assert!(all.len() > command.replace("\\n", "\n").len());
        }
        assert!(!is_long(&call("bash", r#"{"command":"ls"}"#)));
    }

    #[test]
    fn a_result_is_shown_by_its_beginning() {
        let text: String = (1..=9).map(|n| format!("line \u{1b}[31m{n}\n")).collect();
        let result = ToolResult::text("1".into(), text);
        let outcome = Outcome {
            duration: Some(Duration::from_millis(1_234)),
            ..Outcome::default()
        };
        assert_eq!(
            shown(&preview(&result, outcome, 80)),
            "  │ line 1\n  │ line 2\n  │ line 3\n  │ line 4\n  │ line 5\n  │ line 6\n  \
             └ ok · 1.2 s · 3 more lines"
        );
        let failed = ToolResult::error("1".into(), "no such file, whatever else may be there");
        assert_eq!(
            shown(&preview(&failed, Outcome::default(), 24)),
            "  │ no such file, whate…\n  └ failed"
        );
        let denied = Outcome {
            denied: true,
            details: Some("for a person"),
            duration: None,
        };
        assert_eq!(
            shown(&preview(&failed, denied, 80)),
            "  │ for a person\n  └ not run"
        );
    }

    #[test]
    fn a_huge_result_is_counted_and_not_shown() {
        let result = ToolResult::text("1".into(), "x\n".repeat(100_000));
        let outs = preview(&result, Outcome::default(), 80);
        assert!(shown(&outs).ends_with("ok · 99994 more lines"), "{outs:?}");
    }
}
