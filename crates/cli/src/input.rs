//! Where a headless run's prompts come from.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tooloop::{Content, decode_text};

use crate::exit::{Failure, Status};

/// The most that is read from standard input: 10 MB, far beyond any model's window.
const MAX_STDIN: u64 = 10 << 20;

/// How long a pipe may stay empty before a prompt that was given goes without it.
const SILENT: Duration = Duration::from_millis(200);

/// How long a pipe may hold something and yet not end before the same.
const UNFINISHED: Duration = Duration::from_secs(2);

/// The prompt of a headless run: the one given, joined with what standard input brings. The second
/// value is a warning.
pub(crate) fn prompt(given: Option<&str>) -> Result<(String, Option<String>), Failure> {
    let given = given.filter(|given| *given != "-");
    let given = given.map(|given| given.strip_prefix('\u{feff}').unwrap_or(given));
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return match given {
            Some(given) => Ok((given.into(), None)),
            None => Err(Failure::usage(
                "there is nothing to do: give a prompt, as in: tooloop -p \"list the files here\"",
            )),
        };
    }
    let mut warning = None;
    let text = match given {
        None => read_all(&mut warning)?,
        Some(_) => match joinable() {
            Joinable::Yes => read_all(&mut warning)?,
            Joinable::No => String::new(),
            Joinable::Unfinished => {
                warning = Some(
                    "standard input is a pipe that does not end, so it was not read; give \"-\" in \
                     place of the prompt to wait for it"
                        .into(),
                );
                String::new()
            }
        },
    };
    let prompt = match (given, text.trim().is_empty()) {
        (Some(given), true) => given.to_owned(),
        (Some(given), false) => format!("{given}\n\n{text}"),
        (None, _) => text,
    };
    if prompt.trim().is_empty() {
        return Err(Failure::new(Status::Input, "the prompt is blank"));
    }
    Ok((prompt, warning))
}

/// The whole of standard input. What is no text is replaced, with a warning: logs hold all kinds of
/// bytes.
fn read_all(warning: &mut Option<String>) -> Result<String, Failure> {
    let unreadable = |error: io::Error| {
        Failure::new(
            Status::Input,
            format!("cannot read standard input: {error}"),
        )
    };
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_STDIN.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > MAX_STDIN {
        return Err(Failure::new(
            Status::Input,
            format!("standard input is larger than {} MB", MAX_STDIN >> 20),
        ));
    }
    let decoded = decode_text(&bytes)
        .map_err(|error| Failure::new(Status::Input, format!("standard input: {error}")))?;
    *warning = decoded.first_bad_byte.map(|at| {
        format!(
            "standard input: byte {at} is not UTF-8 text; a replacement character stands for each \
             such byte; convert the text to UTF-8 to keep it"
        )
    });
    Ok(decoded.text)
}

/// The text of a file that the option `option` names.
pub(crate) fn file(path: &Path, option: &str) -> Result<String, Failure> {
    let refused = |problem: &dyn std::fmt::Display| {
        Failure::usage(format!(
            "{option}: cannot read {}: {problem}",
            path.display()
        ))
    };
    let bytes = std::fs::read(path).map_err(|error| refused(&error))?;
    let decoded = decode_text(&bytes).map_err(|error| refused(&error))?;
    match decoded.first_bad_byte {
        None => Ok(decoded.text),
        Some(at) => Err(refused(&format!(
            "byte {at} is not UTF-8 text: save it as UTF-8"
        ))),
    }
}

enum Joinable {
    Yes,
    No,
    Unfinished,
}

/// Whether standard input will end by itself. Nothing is read to find that out: what is in a pipe
/// that is not ours to read must stay in it.
fn joinable() -> Joinable {
    let stdin = io::stdin();
    let Ok(status) = rustix::fs::fstat(stdin.as_fd()) else {
        return Joinable::No;
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => return Joinable::Yes,
        FileType::Fifo | FileType::Socket => {}
        _ => return Joinable::No,
    }
    let begun = Instant::now();
    let mut newest = (0, begun);
    loop {
        let waiting = rustix::io::ioctl_fionread(stdin.as_fd()).unwrap_or(0);
        // A writer that has left, or one that waits for us with a full pipe, means us.
        if has_ended() || waiting >= 16 << 10 {
            return Joinable::Yes;
        }
        if waiting != newest.0 {
            newest = (waiting, Instant::now());
        }
        let limit = if waiting == 0 { SILENT } else { UNFINISHED };
        if newest.1.elapsed() >= limit {
            return if waiting == 0 {
                Joinable::No
            } else {
                Joinable::Unfinished
            };
        }
        // Only the end of the writer wakes this; new bytes are seen at the next look.
        let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        // Whatever comes of the wait, the next look tells.
        poll(&mut fds, Some(&tick)).unwrap_or_default();
    }
}

fn has_ended() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
        && fds
            .first()
            .is_some_and(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// What a line of `--input-format stream-json` says.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// The user speaks. The prompt may have an id.
    User(Vec<Content>, Option<String>),
    /// The front end asks for something beside the conversation.
    Control { id: String, request: Value },
    /// The front end answers what it was asked.
    Response(Value),
    /// The line cannot be used; the reason names it.
    Bad(String),
    /// No line: background work has something to say.
    Wake,
}

impl Line {
    /// The request, if it is an `initialize` request.
    pub(crate) fn initialize(&self) -> Option<&Value> {
        match self {
            Self::Control { request, .. } => {
                let subtype = request.get("subtype").and_then(Value::as_str);
                (subtype == Some("initialize")).then_some(request)
            }
            Self::User(..) | Self::Response(_) | Self::Bad(_) | Self::Wake => None,
        }
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    message: Option<WireMessage>,
    uuid: Option<String>,
    request_id: Option<String>,
    request: Option<Value>,
    response: Option<Value>,
}

#[derive(Deserialize)]
struct WireMessage {
    content: Value,
}

/// Reads lines on a thread of its own, since standard input cannot be waited for otherwise. The
/// thread ends with the input or with the process; it owns nothing.
pub(crate) fn lines() -> mpsc::Receiver<Line> {
    let (sender, receiver) = mpsc::channel(64);
    let read = move || {
        // A file of its own, without the lock of `io::stdin`, which would be held for ever.
        let Ok(stdin) = io::stdin().as_fd().try_clone_to_owned() else {
            return;
        };
        let mut reader = BufReader::new(File::from(stdin));
        for number in 1_u64.. {
            let mut line = Vec::new();
            match reader.by_ref().take(MAX_STDIN).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let line = match parse(&line) {
                Ok(Some(line)) => line,
                Ok(None) => continue,
                Err(reason) => Line::Bad(format!("standard input, line {number}: {reason}")),
            };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without the thread there is no input: the run ends as at its end.
    drop(
        std::thread::Builder::new()
            .name("tooloop-stdin".into())
            .spawn(read),
    );
    receiver
}

/// What a line says; nothing, if there is nothing to do about it.
fn parse(line: &[u8]) -> Result<Option<Line>, String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to().saturating_add(1);
        return Err(format!("byte {at} is not UTF-8 text: send UTF-8"));
    }
    let wire: Wire = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(Some(match wire.kind.as_str() {
        "user" => {
            let message = wire.message.ok_or("a user message needs \"message\"")?;
            Line::User(content(message.content)?, wire.uuid)
        }
        "control_request" => Line::Control {
            id: wire
                .request_id
                .ok_or("a control request needs \"request_id\"")?,
            request: wire.request.ok_or("a control request needs \"request\"")?,
        },
        // What is wrong with it is told where it is taken.
        "control_response" => Line::Response(wire.response.unwrap_or_default()),
        // Requests are answered at once, so there is none to take back.
        "control_cancel_request" | "keep_alive" => return Ok(None),
        other => {
            return Err(format!(
                "messages of type {other:?} are not known here (user, control_request, \
                 control_response)"
            ));
        }
    }))
}

fn without_nul(text: String) -> Result<String, String> {
    match text.find('\0') {
        None => Ok(text),
        Some(at) => Err(format!(
            "byte {} of a text is NUL, which no request may hold",
            at.saturating_add(1)
        )),
    }
}

fn content(value: Value) -> Result<Vec<Content>, String> {
    let parts = match value {
        Value::String(text) => return Ok(vec![Content::Text(without_nul(text)?).as_said()]),
        Value::Array(parts) => parts,
        _ => return Err("\"content\" is a string or a list of blocks".into()),
    };
    parts
        .into_iter()
        .map(|part| {
            let text = |path: &str| {
                part.pointer(path)
                    .and_then(Value::as_str)
                    .map(str::to_owned)
                    .ok_or_else(|| format!("a block of the content lacks {path}"))
            };
            match part.get("type").and_then(Value::as_str) {
                Some("text") => text("/text")
                    .and_then(without_nul)
                    .map(|text| Content::Text(text).as_said()),
                Some("image") => Ok(Content::Image(tooloop::Image {
                    media_type: text("/source/media_type")?,
                    data: text("/source/data")?,
                })),
                Some("document") => Ok(Content::Document(tooloop::Document {
                    media_type: text("/source/media_type")?,
                    data: text("/source/data")?,
                    title: text("/title").ok(),
                })),
                other => Err(format!(
                    "blocks of type {other:?} are not known here (text, image, document)"
                )),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_control_requests_or_told_to_be_bad() {
        let text = |text: &str| Some(Line::User(vec![Content::Text(text.into())], None));
        for (line, expected) in [
            (
                r#"{"type":"user","message":{"role":"user","content":"hi"}}"#,
                Ok(text("hi")),
            ),
            (
                r#"{"type":"user","message":{"content":[{"type":"text","text":"hi"}]},"x":1}"#,
                Ok(text("hi")),
            ),
            (
                r#"{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}"#,
                Ok(Some(Line::Control {
                    id: "1".into(),
                    request: serde_json::json!({ "subtype": "interrupt" }),
                })),
            ),
            (
                r#"{"type":"control_response","response":{"request_id":"1"}}"#,
                Ok(Some(Line::Response(
                    serde_json::json!({ "request_id": "1" }),
                ))),
            ),
            (
                r#"{"type":"control_response"}"#,
                Ok(Some(Line::Response(Value::Null))),
            ),
            (r#"{"type":"keep_alive"}"#, Ok(None)),
            (
                r#"{"type":"user"}"#,
                Err("a user message needs \"message\"".into()),
            ),
            (
                r#"{"type":"x"}"#,
                Err(
                    "messages of type \"x\" are not known here (user, control_request, \
                     control_response)"
                        .into(),
                ),
            ),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
        assert!(parse(b"{").is_err());
        let marked = b"\xef\xbb\xbf{\"type\":\"keep_alive\"}";
        assert_eq!(parse(marked), Ok(None));
        for (line, expected) in [
            (&b"{\"type\":\"caf\xe9\"}"[..], "byte 13 is not UTF-8"),
            (b"\xff\xfe{\0\"\0", "byte 1 is not UTF-8"),
            (
                br#"{"type":"user","message":{"content":"a\u0000b"}}"#,
                "byte 2 of a text is NUL",
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
