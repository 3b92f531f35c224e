//! Whatever the bytes: no panic, and no byte changes that is not named.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tooloop_tool::{ToolError, ToolOutput};

use crate::memory::{Memory, memory};
use crate::room::{Room, text};

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// Pieces of files: lines of all ends, words that repeat, bytes that are no text.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => Just(b"\n".to_vec()),
        4 => Just(b"\r\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        3 => Just(b"a".to_vec()),
        3 => Just(b"b".to_vec()),
        2 => Just(b"ab".to_vec()),
        1 => Just(b" ".to_vec()),
        1 => Just(b"\t".to_vec()),
        1 => Just("é".as_bytes().to_vec()),
        1 => Just(b"\xe9".to_vec()),
        1 => Just(b"\xff".to_vec()),
        1 => Just(b"\0".to_vec()),
        1 => Just(b"\xef\xbb\xbf".to_vec()),
    ]
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..most).prop_map(|pieces| pieces.concat())
}

fn words() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec!["\n", "\r\n", "a", "b", "ab", " ", "\t", "é", "$1"]);
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn text_of_lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a", "b", "c", "", "-", "+", " ", "-- ", "++ b", "@@", "\\",
    ]);
    (prop::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, has_end)| {
        let mut text = lines.join("\n");
        if has_end && !text.is_empty() {
            text.push('\n');
        }
        text
    })
}

struct Machine {
    memory: Arc<Memory>,
    room: Room,
    runtime: tokio::runtime::Runtime,
}

impl Machine {
    fn new(file: &[u8]) -> Self {
        let (memory, room) = memory();
        memory.put("/w/f", file);
        Self {
            memory,
            room,
            runtime: tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap(),
        }
    }

    fn call(&self, name: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let outcome = self.runtime.block_on(self.room.call(name, input));
        if let Err(ToolError::Failed(words)) = &outcome {
            assert!(!words.contains("broke off"), "{words}");
        }
        outcome
    }

    fn file(&self) -> Vec<u8> {
        self.memory.bytes("/w/f").unwrap()
    }
}

/// Text without what a loose match may leave out.
fn flat(bytes: &[u8], is_loose: bool) -> Vec<u8> {
    let mut flat: Vec<u8> = Vec::new();
    let trim = |flat: &mut Vec<u8>, at_end: bool| {
        while flat.last().is_some_and(|last| match last {
            b'\r' => is_loose || at_end,
            b' ' | b'\t' => is_loose,
            _ => false,
        }) {
            let was_cr = flat.pop() == Some(b'\r');
            if !is_loose && was_cr {
                break;
            }
        }
    };
    for byte in bytes {
        if *byte == b'\n' {
            trim(&mut flat, true);
        }
        flat.push(*byte);
    }
    if is_loose {
        trim(&mut flat, false);
    }
    flat
}

/// Whether `new` is `old` with one stretch, which reads as `from`, replaced by one that reads as
/// `to`: tried at each place.
fn is_one_change(old: &[u8], new: &[u8], from: &str, to: &str, is_loose: bool) -> bool {
    let reads_as = |bytes: &[u8], text: &str| {
        bytes == text.as_bytes() || flat(bytes, is_loose) == flat(text.as_bytes(), is_loose)
    };
    // The line end that the last line of a file lacks may be in the texts.
    let lacks_end = is_loose && !old.ends_with(b"\n");
    let without_end = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    (0..=old.len()).any(|start| {
        new.get(..start) == old.get(..start)
            && (start..=old.len()).any(|end| {
                let tail = &old[end..];
                new.len() >= start + tail.len() && new.ends_with(tail) && {
                    let (gone, come) = (&old[start..end], &new[start..new.len() - tail.len()]);
                    let at_end = lacks_end && tail.is_empty() && from.ends_with('\n');
                    reads_as(gone, from) && reads_as(come, to)
                        || at_end
                            && reads_as(gone, &without_end(from))
                            && reads_as(come, &without_end(to))
                }
            })
    })
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn an_edit_changes_what_it_names(file in bytes(24), old in words(), new in words()) {
        let machine = Machine::new(&file);
        let outcome = machine.call("edit", json!({"path": "f", "old": old, "new": new}));
        match outcome {
            Ok(output) => {
                let is_loose = text(&output).contains("taken although");
                let changed = machine.file();
                prop_assert!(
                    is_one_change(&file, &changed, &old, &new, is_loose),
                    "{:?} {:?}", file, changed
                );
                prop_assert!(!changed.windows(3).any(|bytes| bytes == b"\xef\xbf\xbd"));
            }
            Err(_) => prop_assert_eq!(machine.file(), file),
        }
    }

    #[test]
    fn what_is_there_once_is_found(
        before in bytes(8), line in "[c-z]{3,8}", after in bytes(8), new in "[c-z]{0,5}",
    ) {
        let file = [before.as_slice(), line.as_bytes(), after.as_slice()].concat();
        prop_assume!(new != line);
        // A mark of UTF-16 makes another text of what follows.
        prop_assume!(!file.starts_with(b"\xff\xfe") && !file.starts_with(b"\xfe\xff"));
        let machine = Machine::new(&file);
        machine.call("edit", json!({"path": "f", "old": line, "new": new})).unwrap();
        prop_assert_eq!(machine.file(), [before.as_slice(), new.as_bytes(), after.as_slice()].concat());
    }

    #[test]
    fn all_places_are_changed(file in bytes(24)) {
        let machine = Machine::new(&file);
        let input = json!({"path": "f", "old": "a", "new": "cc", "all": true});
        let expected: Vec<u8> = file
            .iter()
            .flat_map(|byte| if *byte == b'a' { b"cc".to_vec() } else { vec![*byte] })
            .collect();
        match machine.call("edit", input) {
            Ok(_) => prop_assert_eq!(machine.file(), expected),
            Err(_) => prop_assert_eq!(machine.file(), file),
        }
    }

    #[test]
    fn a_patch_changes_what_it_names(
        lines in prop::collection::vec(
            (prop::sample::select(vec!["", "a", "b", "é", " c", "-", "+x", "@@ "]), any::<bool>()),
            1..8,
        ),
        odd in any::<bool>(),
        has_end in any::<bool>(),
        window in (0..8_usize, 0..8_usize, 0..3_usize),
        added in prop::collection::vec("[c-z+@ -]{0,4}", 0..3),
        form in 0..3,
    ) {
        // Odd lines are no text; they are outside of the window.
        let mut file: Vec<Vec<u8>> = lines
            .iter()
            .map(|(text, crlf)| format!("{text}{}", if *crlf { "\r\n" } else { "\n" }).into_bytes())
            .collect();
        let (mut first, mut last) = (window.0.min(lines.len()), window.1.min(lines.len()));
        if first > last {
            std::mem::swap(&mut first, &mut last);
        }
        if odd {
            file.insert(0, b"\xff\xe9\n".to_vec());
            file.push(b"\xe9\r\n".to_vec());
            first += 1;
            last += 1;
        }
        if !has_end {
            let line = file.last_mut().unwrap();
            let length = line.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap();
            line.truncate(length);
        }
        if file.last().unwrap().is_empty() {
            file.pop();
            last = last.min(file.len());
            first = first.min(last);
        }
        let low = usize::from(odd);
        let high = file.len() - usize::from(odd && file.len() > low);
        let (first, last) = (first.min(high), last.min(high));
        let from = first.saturating_sub(window.2).max(low).min(first);
        let to = (last + window.2).min(high).max(last);
        let mut added = added;
        if first == last && added.is_empty() {
            added.push("z".into());
        }
        let body = |number: usize| {
            let line = String::from_utf8(file[number].clone()).unwrap();
            line.trim_end_matches(['\r', '\n']).to_owned()
        };
        let mut hunk = String::new();
        let ends = |number: usize| file[number].ends_with(b"\n");
        let mark = "\\ No newline at end of file\n";
        for number in from..to {
            if number == last {
                hunk.extend(added.iter().map(|line| format!("+{line}\n")));
            }
            let sign = if (first..last).contains(&number) { '-' } else { ' ' };
            hunk.push_str(&format!("{sign}{}\n", body(number)));
            if form == 1 && !ends(number) {
                hunk.push_str(mark);
            }
        }
        if last >= to {
            hunk.extend(added.iter().map(|line| format!("+{line}\n")));
        }
        let old_count = to - from;
        let new_count = old_count - (last - first) + added.len();
        let start = if old_count == 0 { from } else { from + 1 };
        let patch = match form {
            0 => format!("*** Begin Patch\n*** Update File: f\n@@ -{start},{old_count} +1,{new_count} @@\n{hunk}*** End Patch\n"),
            1 => format!("--- a/f\n+++ b/f\n@@ -{start},{old_count} +1,{new_count} @@\n{hunk}"),
            _ => format!("*** Begin Patch\n*** Update File: f\n@@\n{hunk}*** End Patch\n"),
        };
        let whole = file.concat();
        let machine = Machine::new(&whole);
        let outcome = machine.call("apply_patch", json!({"patch": patch}));
        let changed = machine.file();
        match outcome {
            Err(error) => {
                prop_assert_eq!(&changed, &whole);
                // With the line number there is nothing to doubt.
                let is_same = added.iter().map(String::as_str).eq(
                    (first..last).map(body).collect::<Vec<_>>().iter().map(String::as_str)
                );
                prop_assert!(form == 2 || is_same, "{}\n{:?}\n{}", error, file, patch);
            }
            Ok(output) if form < 2 => {
                prop_assert!(!text(&output).contains("placed although"));
                // All other lines are there as they were, but that the last may have got an end.
                let before = file[..first].concat();
                let after = file[last..].concat();
                let middle = changed
                    .strip_prefix(before.as_slice())
                    .and_then(|rest| rest.strip_suffix(after.as_slice()));
                prop_assert!(middle.is_some(), "{:?} {:?}\n{}", whole, changed, patch);
                let middle = middle.unwrap_or_default();
                let mut expected: Vec<&[u8]> = added.iter().map(String::as_bytes).collect();
                if !before.is_empty() && !before.ends_with(b"\n") && !added.is_empty() {
                    // The end that the line before has got.
                    expected.insert(0, b"");
                }
                let mut found: Vec<&[u8]> = middle.split(|byte| *byte == b'\n').collect();
                if middle.ends_with(b"\n") || middle.is_empty() {
                    found.pop();
                }
                let found: Vec<&[u8]> = found
                    .iter()
                    .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
                    .collect();
                let is_empty_end = expected.last().is_some_and(|last| last.is_empty())
                    && found.len() + 1 == expected.len();
                prop_assert!(found == expected || is_empty_end, "{:?} {:?}\n{}", whole, changed, patch);
            }
            Ok(_) => {
                // Wherever it was placed: the lines that it takes away and puts in are its own.
                let count = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
                prop_assert!(count(&changed) <= count(&whole) + added.len());
                prop_assert!(count(&changed) + (last - first) >= count(&whole));
            }
        }
    }

    #[test]
    fn a_difference_leads_from_one_text_to_the_other(
        old in text_of_lines(),
        new in text_of_lines(),
        around in 0..4_usize,
        crlf in any::<bool>(),
    ) {
        prop_assume!(old != new);
        let (old, new) = if crlf {
            (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"))
        } else {
            (old, new)
        };
        let patch = similar::TextDiff::from_lines(&old, &new)
            .unified_diff()
            .context_radius(around)
            .header("a/f", "b/f")
            .to_string();
        let machine = Machine::new(old.as_bytes());
        machine.call("apply_patch", json!({ "patch": patch })).unwrap();
        prop_assert_eq!(String::from_utf8(machine.file()).unwrap(), new.clone(), "{}", patch);
        // And so does the one that people are shown.
        let (memory, room) = memory();
        memory.put("/w/f", old.as_bytes());
        machine.memory.put("/w/f", old.as_bytes());
        let runtime = &machine.runtime;
        runtime.block_on(room.call("read", json!({"path": "f"}))).unwrap();
        let written = runtime.block_on(room.call("write", json!({"path": "f", "content": new})));
        let details = written.unwrap().details;
        let really = String::from_utf8(memory.bytes("/w/f").unwrap()).unwrap();
        if let Some(details) = details.filter(|_| !crlf) {
            machine.call("apply_patch", json!({ "patch": details })).unwrap();
            prop_assert_eq!(String::from_utf8(machine.file()).unwrap(), really, "{}", details);
        }
    }

    #[test]
    fn no_file_and_no_part_of_it_breaks_a_read(
        file in prop_oneof![bytes(60), prop::collection::vec(any::<u8>(), 0..80)],
        magic in prop::sample::select(vec![
            &b""[..], b"\xff\xfe", b"\xfe\xff", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a",
            b"RIFF....WEBPVP8X", b"RIFF....WEBPVP8L", b"RIFF....WEBPVP8 ",
        ]),
        offset in prop_oneof![-9..9_i64, any::<i64>()],
        limit in prop_oneof![-1..9_i64, any::<i64>()],
    ) {
        let file = [magic, &file].concat();
        let machine = Machine::new(&file);
        for _ in 0..3 {
            let _answer = machine.call("read", json!({"path": "f", "offset": offset, "limit": limit}));
        }
        let whole = machine.call("read", json!({"path": "f"}));
        if let (Ok(output), "") = (whole, std::str::from_utf8(magic).unwrap_or("-")) {
            let content = output.content.first().unwrap();
            let tooloop_model::Content::Text(text) = content else { panic!("{content:?}") };
            prop_assert!(text.len() < 50_000);
            prop_assert!(!text.contains(char::REPLACEMENT_CHARACTER));
        }
        let _answer = machine.call("write", json!({"path": "f", "content": "a\n"}));
        prop_assert_eq!(machine.memory.names(), ["/w/f"]);
    }

    #[test]
    fn no_text_breaks_a_patch(
        file in bytes(20),
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "*** Begin Patch\n", "*** End Patch\n", "*** Update File: f\n", "*** Add File: g\n",
                "*** Delete File: f\n", "*** Move to: h\n", "*** End of File\n", "@@\n", "@@ a\n",
                "@@ -1 +1 @@\n", "@@ -1,2 +1,9 @@\n", "@@ -0,0 +1 @@\n", "@@ -99999999999999999999 +1 @@\n",
                "--- f\n", "--- a/f\n", "+++ f\n", "+++ b/f\n", "--- /dev/null\n", "+++ /dev/null\n",
                "+++ g\n", "diff --git a/f b/f\n", "diff --git \"a/\\3\" \"b/\\3\"\n", "rename from f\n",
                "rename to g\n", "new file mode 100644\n", "deleted file mode 100644\n", "-- \n", "2.1\n",
                "\\ No newline\n", " a\n", "-a\n", "+a\n", "-\n", "+\n", " \n", "\n", "+b\r\n", "-b\r\n",
                "é\n", "-é", "*** ", "\r\n", "--- \"",
            ]),
            0..14,
        ),
    ) {
        let machine = Machine::new(&file);
        let patch = pieces.concat();
        let before = machine.memory.files.lock().unwrap().clone();
        if machine.call("apply_patch", json!({ "patch": patch })).is_err() {
            prop_assert_eq!(&*machine.memory.files.lock().unwrap(), &before);
        }
    }
}
