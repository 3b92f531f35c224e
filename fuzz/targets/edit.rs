//! Any edit of any bytes: what is not replaced stays as it was.
//!
//! Input: a character, `1` for each occurrence; the old text, 0x1f, the new text, 0x1f, the file.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tooloop_fuzz::{Desk, Files, WORKSPACE};
use tooloop_tool::tool;
use tooloop_tools::Edit;

static DESK: LazyLock<Desk> = LazyLock::new(|| Desk::new(|ops| tool(Edit::new(ops))));

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let mut pieces = rest.splitn(3, |byte| *byte == 0x1f);
    let (Some(old), Some(new), Some(before)) = (pieces.next(), pieces.next(), pieces.next()) else {
        return;
    };
    let old = String::from_utf8_lossy(old).into_owned();
    let new = String::from_utf8_lossy(new).into_owned();
    let all = first % 2 == 1;
    let path = Path::new(WORKSPACE).join("f");
    let files = Files::from([(path.clone(), before.to_vec())]);
    DESK.machine.reset(files.clone(), None);
    let input = json!({ "path": "f", "old": old, "new": new, "all": all });
    let outcome = DESK.call(&input);
    let after = DESK.machine.files();
    if outcome.is_err() {
        assert_eq!(after, files, "{outcome:?}");
        return;
    }
    assert_eq!(after.len(), 1);
    let after = &after[&path];
    if before.starts_with(b"\xff\xfe") || before.starts_with(b"\xfe\xff") {
        return;
    }
    let (count, replaced) = replace(before, old.as_bytes(), new.as_bytes());
    let has_crlf = before.windows(2).any(|pair| pair == b"\r\n");
    if count > 0 && !has_crlf {
        assert!(all || count == 1, "there are {count}");
        assert_eq!(*after, replaced, "{outcome:?}");
    } else if !all {
        differs_within(before, after, &old, &new);
    }
});

/// Replaces each occurrence from the left on, in the plainest way.
fn replace(text: &[u8], old: &[u8], new: &[u8]) -> (usize, Vec<u8>) {
    let (mut count, mut replaced, mut rest) = (0, Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(old) {
            Some(after) => {
                count += 1;
                replaced.extend_from_slice(new);
                rest = after;
            }
            None => {
                replaced.push(*first);
                rest = after;
            }
        }
    }
    (count, replaced)
}

/// Checks that what went was of the old text and what came is of the new one, blanks apart.
fn differs_within(before: &[u8], after: &[u8], old: &str, new: &str) {
    let same = |(one, other): &(&u8, &u8)| one == other;
    let start = before.iter().zip(after).take_while(same).count();
    let (gone, come) = (&before[start..], &after[start..]);
    let end = gone
        .iter()
        .rev()
        .zip(come.iter().rev())
        .take_while(same)
        .count();
    let (gone, come) = (&gone[..gone.len() - end], &come[..come.len() - end]);
    // Where nothing came or nothing went there is more than one way to cut.
    if !gone.is_empty() && !come.is_empty() {
        assert!(is_within(gone, old.as_bytes()), "{gone:?} is gone");
        assert!(is_within(come, new.as_bytes()), "{come:?} has come");
    }
}

fn is_within(piece: &[u8], text: &[u8]) -> bool {
    let dense = |text: &[u8]| -> Vec<u8> {
        let bytes = text.iter().copied();
        bytes.filter(|byte| !byte.is_ascii_whitespace()).collect()
    };
    let (piece, text) = (dense(piece), dense(text));
    piece.is_empty() || text.windows(piece.len()).any(|part| part == piece)
}
