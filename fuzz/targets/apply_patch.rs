//! Any text as a patch of a few files: all of it is done or nothing, and only where it said so.
//!
//! Input: a digit, after how many changes one fails (another character: none does); the patch.
#![no_main]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tooloop_fuzz::{Desk, Files, WORKSPACE, plain};
use tooloop_policy::Touch;
use tooloop_tool::tool;
use tooloop_tools::ApplyPatch;

static DESK: LazyLock<Desk> = LazyLock::new(|| Desk::new(|ops| tool(ApplyPatch::new(ops))));

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let files: [(&str, &[u8]); 7] = [
        ("a", b"one\ntwo\n  three\n\nfour\n"),
        ("b", b"one\r\ntwo\r\nthree\r\n"),
        ("c", b"no end"),
        ("d", b"one \xff\ntwo\t \n"),
        ("e", b""),
        (
            "f/g",
            b"\xef\xbb\xbffn f() {\n    x();\n}\n\nfn g() {\n    x();\n}\n",
        ),
        ("f/h", b"\xff\xfeo\0n\0e\0\n\0t\0w\0o\0\n\0"),
    ];
    let within = |(path, bytes): (&str, &[u8])| (Path::new(WORKSPACE).join(path), bytes.to_vec());
    files.into_iter().map(within).collect()
});

fuzz_target!(|data: &[u8]| {
    let Some((first, patch)) = data.split_first() else {
        return;
    };
    let fails_after = char::from(*first).to_digit(10);
    let input = json!({ "patch": String::from_utf8_lossy(patch) });
    let said: BTreeSet<PathBuf> = DESK
        .access(&input)
        .touches
        .into_iter()
        .filter_map(|touch| match touch {
            Touch::Write(path) => Some(plain(&Path::new(WORKSPACE).join(path))),
            _ => None,
        })
        .collect();
    DESK.machine.reset(FILES.clone(), fails_after);
    let outcome = DESK.call(&input);
    let after = DESK.machine.files();
    if outcome.is_err() {
        assert_eq!(after, *FILES, "{outcome:?}");
    }
    for path in FILES.keys().chain(after.keys()) {
        let is_same = FILES.get(path) == after.get(path);
        assert!(is_same || said.contains(path), "{path:?} is changed");
    }
});
