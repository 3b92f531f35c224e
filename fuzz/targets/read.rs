//! Any part of any bytes as a file: the answer keeps within its bounds.
//!
//! Input: a line with the offset and the limit, which begins with `!` if the file is to be taken
//! for a large one; the file.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tooloop_fuzz::{Desk, Files, WORKSPACE, text};
use tooloop_tool::tool;
use tooloop_tools::Read;

static DESK: LazyLock<Desk> = LazyLock::new(|| Desk::new(|ops| tool(Read::new(ops))));

fuzz_target!(|data: &[u8]| {
    let mut pieces = data.splitn(2, |byte| *byte == b'\n');
    let (Some(head), Some(file)) = (pieces.next(), pieces.next()) else {
        return;
    };
    let head = String::from_utf8_lossy(head);
    let (is_large, head) = match head.strip_prefix('!') {
        Some(head) => (true, head),
        None => (false, head.as_ref()),
    };
    let mut numbers = head.split(' ').map(number);
    let offset = numbers.next().unwrap_or_default();
    let limit = numbers.next().unwrap_or_default();
    let path = Path::new(WORKSPACE).join("f");
    let files = Files::from([(path, file.to_vec())]);
    DESK.machine.reset(files.clone(), None);
    if is_large {
        DESK.machine.overstate(11 << 20);
    }
    let input = json!({ "path": "f", "offset": offset, "limit": limit });
    let outcome = DESK.call(&input);
    assert_eq!(DESK.machine.files(), files);
    let Ok(output) = outcome else {
        return;
    };
    let Some(text) = text(&output) else {
        return;
    };
    assert!(text.len() < 50_000, "{} bytes", text.len());
    let limit = limit.as_i64().and_then(|limit| usize::try_from(limit).ok());
    let most = limit.map_or(2000, |limit| limit.min(2000));
    let numbered = text.lines().filter(|line| !line.starts_with('('));
    // A CR of the file may stand alone, and `lines` cuts at CRLF only.
    assert!(numbered.clone().count() <= most, "more than {most} lines");
    let is_plain = file
        .iter()
        .all(|byte| *byte == b'\n' || (b' '..=b'~').contains(byte));
    if let (true, Some(first @ 1..)) = (is_plain && !file.is_empty(), offset.as_i64()) {
        let shown = file.split(|byte| *byte == b'\n').skip(first as usize - 1);
        for ((number, line), shown) in (first..).zip(numbered).zip(shown) {
            if shown.len() <= 2000 {
                let shown = String::from_utf8_lossy(shown);
                assert_eq!(line, format!("{number}\t{shown}"));
            }
        }
    }
});

/// A number, or what a model may have written in its place.
fn number(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) if text.is_empty() => Value::Null,
        Err(_) => text.into(),
    }
}
