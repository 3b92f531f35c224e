//! Server-sent events: making them for a script, reading them back.
//!
//! Knows the framing of an event stream and nothing of what the events mean.

use crate::reply::{Step, Steps};
use serde_json::Value;

/// An event with a name and a JSON value.
pub fn event(name: &str, data: &Value) -> Steps {
    Step::Event(format!("event: {name}\ndata: {data}\n\n")).into()
}

/// An event without a name.
pub fn data(data: &Value) -> Steps {
    text(&data.to_string())
}

/// An event without a name whose data is text on one line, such as `[DONE]`.
pub fn text(data: &str) -> Steps {
    Step::Event(format!("data: {data}\n\n")).into()
}

/// A comment line, which every reader skips.
pub fn comment(note: &str) -> Steps {
    Step::Event(format!(": {note}\n\n")).into()
}

/// A comment, an id and a retry field: legal, and without effect on what is said.
pub fn noise() -> Steps {
    Step::Event(": note\n\nid: 4\nretry: 900\n\n".to_owned()).into()
}

/// One event as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The name, empty if there was none.
    pub name: String,
    /// The data lines, joined by line feeds.
    pub data: String,
}

/// Reads events from bytes that come in pieces.
///
/// ```
/// use tooloop_testkit::sse::Reader;
///
/// let mut reader = Reader::default();
/// assert!(reader.feed(b"event: a\r\nda").is_empty());
/// let events = reader.feed(b"ta: 1\r\n\r\n");
/// assert_eq!((events[0].name.as_str(), events[0].data.as_str()), ("a", "1"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Reader {
    line: Vec<u8>,
    after_carriage_return: bool,
    past_start: bool,
    name: String,
    data: Option<String>,
}

impl Reader {
    /// Takes the next bytes and gives the events that they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in bytes {
            let second_half = *byte == b'\n' && self.after_carriage_return;
            self.after_carriage_return = *byte == b'\r';
            match byte {
                _ if second_half => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(*byte),
            }
        }
        events
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&bytes).into_owned();
        if !std::mem::replace(&mut self.past_start, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned();
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            return self.data.take().map(|data| Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cuts, Newline, Wire, wire::Writer};
    use serde_json::json;

    #[test]
    fn every_spelling_reads_the_same() {
        let steps = Steps::from([
            noise(),
            event("a", &json!({"x": [1, "é, \"q\""]})),
            comment("ping"),
            data(&json!({"y": {}, "z": "日"})),
            text("[DONE]"),
        ]);
        let whole: String = steps
            .0
            .iter()
            .map(|step| match step {
                Step::Event(text) => text.as_str(),
                _ => "",
            })
            .collect();
        let expected = Reader::default().feed(whole.as_bytes());
        assert_eq!(expected.len(), 3);
        for newline in [Newline::Lf, Newline::CrLf, Newline::Cr] {
            for wire in [
                Wire::default(),
                Wire::default().no_space(),
                Wire::default().byte_order_mark(),
            ] {
                for cuts in [Cuts::Every(1), Cuts::InsideChars, Cuts::InsideCrLf] {
                    let wire = wire.clone().newline(newline).cuts(cuts);
                    let mut reader = Reader::default();
                    let events: Vec<_> = Writer::new(&wire)
                        .writes(whole.as_bytes())
                        .iter()
                        .flat_map(|write| reader.feed(write))
                        .collect();
                    assert_eq!(events, expected, "{wire:?}");
                }
            }
        }
        let split = Wire::default().split_data();
        let bytes = Writer::new(&split).writes(whole.as_bytes()).concat();
        let events = Reader::default().feed(&bytes);
        assert_eq!(events.len(), 3);
        for (one, other) in events.iter().zip(&expected) {
            assert_eq!(
                serde_json::from_str::<Value>(&one.data).ok(),
                serde_json::from_str::<Value>(&other.data).ok()
            );
        }
    }
}
