//! V5: whether thinking comes back as it was sent.

use super::sent::{Sent, SentBlock};
use super::{Report, Rule, is_blank, text_of};
use serde_json::Value;

/// What a block counts for when places are compared. Blank text counts for nothing: a client has to leave it out.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark<'a> {
    Thinking(&'a str, &'a str),
    Redacted(&'a str),
    Call(&'a str),
    Text,
    Other,
}

impl Mark<'_> {
    fn is_thinking(&self) -> bool {
        matches!(self, Self::Thinking(..) | Self::Redacted(_))
    }
}

fn mark_of(block: &Value) -> Option<Mark<'_>> {
    let field = |name| text_of(block, name).unwrap_or_default();
    match text_of(block, "type").unwrap_or_default() {
        "thinking" => Some(Mark::Thinking(field("thinking"), field("signature"))),
        "redacted_thinking" => Some(Mark::Redacted(field("data"))),
        "tool_use" => Some(Mark::Call(field("id"))),
        "text" => (!is_blank(field("text"))).then_some(Mark::Text),
        _ => Some(Mark::Other),
    }
}

fn mark_of_sent(block: &SentBlock) -> Mark<'_> {
    match block {
        SentBlock::Text(_) => Mark::Text,
        SentBlock::Thinking {
            thinking,
            signature,
        } => Mark::Thinking(thinking, signature),
        SentBlock::Redacted(data) => Mark::Redacted(data),
        SentBlock::Call(id) => Mark::Call(id),
        SentBlock::Other => Mark::Other,
    }
}

/// Looks at the thinking in the blocks of an assistant message.
pub(super) fn check_thinking(
    blocks: &[Value],
    path: &str,
    sent: Option<&Sent>,
    report: &mut Report,
) {
    let marks: Vec<Mark<'_>> = blocks.iter().filter_map(mark_of).collect();
    if marks.last().is_some_and(Mark::is_thinking) {
        report.add(
            Rule::Thinking,
            path,
            "an assistant message must not end in thinking",
        );
    }
    let mut whole = true;
    for (place, block) in blocks.iter().enumerate() {
        let at = format!("{path}[{place}]");
        let words = match mark_of(block) {
            Some(Mark::Thinking(_, "")) => "the signature is missing",
            Some(Mark::Redacted("")) => "the data is missing",
            Some(mark) if mark.is_thinking() => match sent.map(|sent| find(&mark, sent)) {
                None | Some(Found::Same) => continue,
                Some(Found::Altered) => "differs from what was sent under this signature",
                Some(Found::Nowhere) => "was never sent to this client",
            },
            _ => continue,
        };
        whole = false;
        report.add(Rule::Thinking, at, words);
    }
    let Some(sent) = sent else { return };
    if whole && marks.iter().any(Mark::is_thinking) {
        let fits = sent.messages.iter().any(|message| {
            let old: Vec<Mark<'_>> = message.blocks.iter().map(mark_of_sent).collect();
            same_places(&old, &marks)
        });
        if !fits {
            report.add(
                Rule::Thinking,
                path,
                "the thinking is not in the places in which it was sent, or not all of it",
            );
        }
    }
}

enum Found {
    Same,
    Altered,
    Nowhere,
}

fn find(wanted: &Mark<'_>, sent: &Sent) -> Found {
    let mut found = Found::Nowhere;
    for block in sent.messages.iter().flat_map(|message| &message.blocks) {
        let mark = mark_of_sent(block);
        if mark == *wanted {
            return Found::Same;
        }
        if let (Mark::Thinking(_, one), Mark::Thinking(_, other)) = (&mark, wanted)
            && one == other
        {
            found = Found::Altered;
        }
    }
    found
}

/// A thinking block with what stands before and after it, other thinking apart.
type Place<'a, 'b> = (&'b Mark<'a>, Option<&'b Mark<'a>>, Option<&'b Mark<'a>>);

fn places<'a, 'b>(marks: &'b [Mark<'a>]) -> Vec<Place<'a, 'b>> {
    let mut before = None;
    let mut out = Vec::new();
    for (index, mark) in marks.iter().enumerate() {
        if mark.is_thinking() {
            out.push((
                mark,
                before,
                marks.iter().skip(index).find(|other| !other.is_thinking()),
            ));
        } else {
            before = Some(mark);
        }
    }
    out
}

/// Says whether all thinking of a reply is there again, between the same neighbours. Thinking that nothing followed
/// may be missing, since it could not come back as the end of a message, or may be followed by something new.
fn same_places(old: &[Mark<'_>], new: &[Mark<'_>]) -> bool {
    let (old, new) = (places(old), places(new));
    let fits = |(mark, before, after): &Place<'_, '_>, place: &Place<'_, '_>| {
        *mark == place.0 && *before == place.1 && (after.is_none() || *after == place.2)
    };
    new.len() <= old.len()
        && old.iter().zip(&new).all(|(old, new)| fits(old, new))
        && old
            .iter()
            .skip(new.len())
            .all(|(_, _, after)| after.is_none())
}
