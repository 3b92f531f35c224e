//! Where a session stood that is gone on with.

use tooloop::{Content, Message, Transcript};

use super::paint::{Out, Style, gap, line};
use super::text;
use super::view;

/// The most lines of the last prompt, and of the last answer.
const LINES: usize = 10;
/// What is looked at of either.
const BYTES: usize = 16 * 1024;

/// The last prompt and the end of the last answer.
pub(crate) fn recap(transcript: &Transcript, columns: usize) -> Vec<Out> {
    let messages = transcript.messages();
    let said = |message: &Message| match message {
        Message::User(content) => Content::said(content).find_map(|part| match part {
            Content::Text(text) => Some(text.clone()),
            Content::Image(_) | Content::Document(_) => None,
        }),
        Message::Assistant(_) | Message::ToolResults(_) => None,
    };
    let Some((place, prompt)) = messages
        .iter()
        .enumerate()
        .rev()
        .find_map(|(place, message)| Some((place, said(message.message())?)))
    else {
        return Vec::new();
    };
    let answer = messages
        .iter()
        .skip(place)
        .rev()
        .find_map(|message| match message.message() {
            Message::Assistant(reply) => Some(reply.text()),
            Message::User(_) | Message::ToolResults(_) => None,
        });
    let count = messages.len();
    let mut outs = vec![line(
        Style::Dim,
        format!("  Goes on after {count} messages; the last:"),
    )];
    outs.push(gap());
    let prompt = text::head(&prompt, BYTES);
    outs.extend(view::prompt(&shorten(prompt, columns)));
    outs.push(gap());
    if let Some(answer) = answer.filter(|answer| !answer.trim().is_empty()) {
        let answer = text::clean(text::head(&answer, BYTES));
        outs.extend(
            shorten(answer.trim(), columns)
                .lines()
                .map(|one| line(Style::Dim, one)),
        );
        outs.push(gap());
    }
    outs
}

fn shorten(text: &str, columns: usize) -> String {
    let room = columns.saturating_sub(3).max(20);
    let all = text.lines().count();
    let mut lines: Vec<_> = text
        .lines()
        .take(LINES)
        .map(|one| text::cut(one, room))
        .collect();
    if all > LINES {
        lines.push(format!("… {} more lines", all - LINES));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use tooloop::{AssistantMessage, ContentBlock, Entry};

    use super::*;
    use crate::interactive::paint;

    fn shown(outs: &[Out]) -> String {
        paint::shown(outs).join(
            "
",
        )
    }

    #[test]
    fn it_shows_the_last_prompt_and_answer() {
        let mut transcript = Transcript::default();
        assert_eq!(recap(&transcript, 80), []);
        let answer: String = (1..=12).map(|n| format!("line {n}\u{1b}[2J\n")).collect();
        for message in [
            Message::user("first"),
            Message::Assistant(AssistantMessage {
                content: vec![ContentBlock::Text {
                    text: "one".into(),
                    vendor: None,
                }],
                ..AssistantMessage::default()
            }),
            Message::user("second\nprompt"),
            Message::Assistant(AssistantMessage {
                content: vec![ContentBlock::Text {
                    text: answer,
                    vendor: None,
                }],
                ..AssistantMessage::default()
            }),
        ] {
            transcript.apply(&Entry::message(message));
        }
        let shown = shown(&recap(&transcript, 80));
        assert!(
            shown.starts_with(
                "  Goes on after 4 messages; the last:\n\n> second\n  prompt\n\nline 1\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("line 10\n… 2 more lines"), "{shown}");
    }
}
