//! Changing a part of a file.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memchr_iter;
use schemars::JsonSchema;
use serde::Deserialize;
use tooloop_policy::Access;
use tooloop_tool::{Scope, Tool, ToolContext, ToolError, ToolOutput};

use super::call::{Call, Files, WHOLE, failed, length};
use super::content::{Content, MOST};
use super::matching::{EndsNear, Matches, exact, loose};
use super::text::{counted, with_crlf};
use super::{diff, nearest};
use crate::Ops;

/// How many line numbers are told.
const NUMBERS: usize = 10;

/// Changes parts of files.
#[derive(Debug, Clone)]
pub struct Edit {
    files: Files,
}

/// What the model passes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditInput {
    /// File.
    pub path: String,
    /// Text to replace, as it is in the file, without line numbers.
    pub old: String,
    /// What takes its place.
    pub new: String,
    /// Replace each occurrence.
    #[serde(default)]
    pub all: bool,
}

impl Edit {
    /// A tool that changes files of this machine.
    #[must_use]
    pub fn new(ops: Arc<dyn Ops>) -> Self {
        Self {
            files: Files::new(ops),
        }
    }
}

impl Tool for Edit {
    type Input = EditInput;

    fn name(&self) -> &str {
        "edit"
    }

    fn description(&self) -> &str {
        "Replaces a text in a file with another. It must occur exactly once, so give enough lines \
         around it, or set all."
    }

    fn access(&self, input: &EditInput) -> Access {
        Access::effectful()
            .reading(&input.path)
            .writing(&input.path)
    }

    async fn run(&self, input: EditInput, context: &ToolContext) -> Result<ToolOutput, ToolError> {
        self.files
            .run(context, move |call| edit(call, &input))
            .await
    }

    fn for_session(&self, scope: &Scope) -> Option<Self> {
        Some(Self {
            files: self.files.for_session(scope),
        })
    }
}

fn edit(call: &Call, input: &EditInput) -> Result<ToolOutput, ToolError> {
    let given = input.path.as_str();
    if input.old.is_empty() {
        return failed("old is empty, which is everywhere; give the text to replace, or use write");
    }
    if input.old == input.new {
        return failed("old and new are the same: there is nothing to do");
    }
    let content = Content::load(call, given, call.file(given)?)?;
    let body = content.body.as_slice();
    let mut matches = exact(body, &input.old);
    call.check()?;
    let mut is_loose = false;
    if matches.places.is_empty() && length(body) <= WHOLE {
        matches = loose(body, &input.old);
        is_loose = true;
        if !matches.places.is_empty() && !matches.is_single() {
            return failed(format!(
                "no exact match in {given}, and {} differ from old in blanks at the ends of lines \
                 only: {}; give more of the text around the right one",
                counted(matches.places.len(), "place"),
                lines_of(body, &matches)
            ));
        }
    }
    if matches.places.is_empty() {
        return failed(not_found(given, &content, &input.old));
    }
    if !matches.is_single() && !input.all {
        let more = if matches.has_overlaps {
            ", overlapping"
        } else {
            ""
        };
        return failed(format!(
            "old occurs {} times in {given}{more}: {}; give more of the text around the right one, \
             or set all",
            matches.places.len().max(2),
            lines_of(body, &matches)
        ));
    }
    content.takes(given, &input.new)?;
    if length(input.new.as_bytes()).saturating_mul(matches.places.len() as u64) > MOST {
        return failed(format!("{given} would become too large"));
    }
    let new_body = replaced(body, &matches, input, is_loose);
    call.check()?;
    if new_body == body {
        return failed("the file holds that already: there is nothing to do");
    }
    call.check()?;
    let written = content.replace(call, given, &new_body)?;
    let was_stale = content.note(call, &content.file.real_path, written);
    Ok(answer(
        given, &content, &new_body, &matches, is_loose, was_stale,
    ))
}

fn answer(
    given: &str,
    content: &Content,
    new_body: &[u8],
    matches: &Matches,
    is_loose: bool,
    was_stale: bool,
) -> ToolOutput {
    let mut text = format!("edited {given}");
    if matches.places.len() > 1 {
        text.push_str(&format!(
            " in {} places ({})",
            matches.places.len(),
            lines_of(&content.body, matches)
        ));
    }
    if is_loose {
        text.push_str("\n(taken although old differs in blanks or line ends at the ends of lines)");
    }
    if was_stale {
        text.push_str(
            "\n(the file had changed since you last read it; read it again before you rely on the \
             rest)",
        );
    }
    text.push('\n');
    text.push_str(&diff::region(&content.body, new_body, content.encoding));
    ToolOutput {
        details: diff::unified(given, &content.body, new_body, content.encoding),
        ..ToolOutput::text(text.trim_end())
    }
}

/// The file with the new text in each place.
fn replaced(body: &[u8], matches: &Matches, input: &EditInput, is_loose: bool) -> Vec<u8> {
    // Text with a CR means its line ends as they are, unless it was taken for another.
    let is_plain = !input.old.contains('\r') && !input.new.contains('\r');
    let fits_in = input.new.contains('\n') && (is_plain || is_loose);
    let flat: Cow<'_, str> = if fits_in && input.new.contains('\r') {
        input.new.replace("\r\n", "\n").into()
    } else {
        input.new.as_str().into()
    };
    let crlf = fits_in.then(|| with_crlf(&flat));
    let mut ends = EndsNear::new(body);
    let mut new_body = Vec::with_capacity(body.len() + input.new.len());
    let mut done = 0;
    for place in &matches.places {
        new_body.extend_from_slice(body.get(done..place.start).unwrap_or_default());
        let new = match &crlf {
            Some(crlf) if ends.at(place) == "\r\n" => crlf,
            _ => flat.as_ref(),
        };
        // The file has no line end here that could have been taken away.
        let is_short = is_loose && place.end == body.len() && !body.ends_with(b"\n");
        let new = match new.strip_suffix('\n') {
            Some(line) if is_short && input.old.ends_with('\n') => {
                line.strip_suffix('\r').unwrap_or(line)
            }
            _ => new,
        };
        new_body.extend_from_slice(new.as_bytes());
        done = place.end;
    }
    new_body.extend_from_slice(body.get(done..).unwrap_or_default());
    new_body
}

/// The lines on which matches start, in words.
fn lines_of(body: &[u8], matches: &Matches) -> String {
    let mut numbers = Vec::new();
    let (mut line, mut done) = (1, 0);
    for place in matches.places.iter().take(NUMBERS) {
        let passed = body.get(done..place.start).unwrap_or_default();
        line += memchr_iter(b'\n', passed).count();
        done = place.start;
        numbers.push(line);
    }
    numbers.dedup();
    let more = matches.places.len().saturating_sub(NUMBERS);
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{word} {}{more}", numbers.join(", "))
}

fn not_found(given: &str, content: &Content, old: &str) -> String {
    let body = content.body.get(..10 << 20).unwrap_or(&content.body);
    let mut words = format!("old does not occur in {given}");
    if body.is_empty() {
        words.push_str(": the file is empty; use write");
        return words;
    }
    if let Some(note) = super::text::shown_as(content.encoding)
        && !old.is_ascii()
        && !super::content::is_utf16(content.encoding)
    {
        words.push_str(&format!(
            " ({note}; only ASCII text can be found in it, so leave other characters out of old)"
        ));
    }
    let is_numbered = |line: &str| {
        line.split_once('\t')
            .is_some_and(|(number, _)| number.parse::<i64>().is_ok())
    };
    if old.lines().all(is_numbered) {
        words.push_str(": old has line numbers in it, which are not part of the file");
        return words;
    }
    match nearest::nearest(body, old, content.encoding) {
        Some(near) => words.push_str(&format!("; {near}")),
        None => words.push_str("; nothing in it is like that; read the file again"),
    }
    words
}
