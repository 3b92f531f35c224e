use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::{Capture, Output, OutputLimits, SpoolState};

fn limits(head: usize, tail: usize) -> OutputLimits {
    OutputLimits {
        head,
        tail,
        ..OutputLimits::default()
    }
}

fn capture(limits: OutputLimits, pieces: &[&[u8]]) -> Output {
    let mut capture = Capture::new(limits, "output.txt".into());
    for piece in pieces {
        capture.feed(piece);
    }
    capture.finish()
}

fn cleaned(bytes: &[u8]) -> String {
    capture(limits(10_000, 10_000), &[bytes]).text()
}

#[test]
fn harmless_forms() {
    for (raw, expected) in [
        (&b"plain\ttext\n"[..], "plain\ttext\n"),
        (
            b"\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mblue",
            "red and blue",
        ),
        (
            b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b",
            "alinkb",
        ),
        (
            b"\x1bPq#0;2;0\x1b\\after \x1b(Bset \x1b7\x1b8\x1bMx",
            "after set x",
        ),
        (b"a\r\nb\r\r\nc\n", "a\nb\nc\n"),
        (b"10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        (b"long line\rshort\n", "shortline\n"),
        (b"long line\r\x1b[Kshort\n", "short\n"),
        (b"long line\x1b[2K\x1b[1Gshort\n", "short\n"),
        (b"left over\r", "left over"),
        (b"|\x08/\x08-\x08done", "done"),
        (
            b"bell\x07 form\x0c nul\x00 del\x7f",
            "bell form\\x0c nul\\x00 del\\x7f",
        ),
        (
            b"a\xff\xfe\x00b \x1b[31mred\x1b[0m\r\nc\x80",
            "a\\xff\\xfe\\x00b red\nc\\x80",
        ),
        (
            b"caf\xc3\xa9 \xf0\x9f\x98\x80 \xe6\x97",
            "caf\u{e9} \u{1f600} \\xe6\\x97",
        ),
        (b"\xe6\x97\x1b[0mx \xe0\x80y", "\\xe6\\x97x \\xe0\\x80y"),
        (b"\xc2\x9b31m \xc2\xb0", "\\u{9b}31m \u{b0}"),
        (b"\x1b]0;never closed\nnext", "0;never closed\nnext"),
        (b"one \x1b^open\ntwo\nthree", "one open\ntwo\nthree"),
        (b"one \x1bPopen", "one open"),
        (b"one \x1b_open\x1b", "one open"),
        (b"one \x1bXopen\x1b[1mbold\x1b[0m", "one openbold"),
        (b"one \x1bXo\rp\xc3\xa9n\xff\ntwo", "p\u{e9}n\\xff\ntwo"),
        (b"\x1b[12 34 text", "12 34 text"),
        (b"\x1b      text", "      text"),
        (b"\x1b[\xe6\x97\xa5", "\u{65e5}"),
        (b"\x1b\xe6\x97\xa5", "\u{65e5}"),
        (b"end\x1b", "end"),
        (b"end\x1b[3", "end"),
        (b"", ""),
    ] {
        assert_eq!(cleaned(raw), expected, "{:?}", String::from_utf8_lossy(raw));
    }
}

#[test]
fn a_long_control_string_is_text() {
    for opener in ["\x1bP", "\x1b]", "\x1b_", "\x1b^", "\x1bX"] {
        let long = "x".repeat(5_000);
        assert_eq!(
            cleaned(format!("{opener}{long}\x1b\\!").as_bytes()),
            format!("{long}!")
        );
        let digits = "1;".repeat(200);
        assert_eq!(
            cleaned(format!("\x1b[{digits}m").as_bytes()),
            format!("{digits}m")
        );
        let link = "x".repeat(2_083);
        assert_eq!(cleaned(format!("{opener}{link}\x1b\\!").as_bytes()), "!");
    }
}

#[test]
fn a_line_too_long_to_overwrite_is_kept() {
    let raw = format!("{}\rshort\n", "x".repeat(5000));
    assert_eq!(
        cleaned(raw.as_bytes()),
        format!("{}\nshort\n", "x".repeat(5000))
    );
}

#[test]
fn cuts_between_characters_and_counts() {
    let output = capture(limits(3, 2), &["äöü12345日本".as_bytes()]);
    assert_eq!(
        (output.head.as_str(), output.tail.as_str()),
        ("äöü", "日本")
    );
    assert_eq!(output.left_out, 5);
    assert_eq!(
        output.text(),
        "äöü\n[... 5 bytes left out; the rest is not kept ...]\n日本"
    );
    let whole = capture(limits(3, 2), &["äöü12".as_bytes()]);
    assert_eq!(whole.text(), "äöü12");
}

#[test]
fn binary_is_told_not_shown() {
    let mut state = 7_u32;
    let noise: Vec<u8> = (0..4096)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect();
    let output = capture(OutputLimits::default(), &[&noise]);
    assert_eq!(output.text(), "(binary output, 4096 bytes)");
    let program = fs::read("/proc/self/exe").unwrap();
    assert!(capture(OutputLimits::default(), &[&program]).is_binary);
}

#[test]
fn the_whole_of_a_long_output_is_in_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let spool_folder = folder.path().join("new/spool");
    let limits = OutputLimits {
        spool_folder: Some(spool_folder.clone()),
        ..limits(10, 10)
    };
    let lines: Vec<String> = (0..50_000)
        .map(|n| format!("\x1b[1mline {n}\x1b[0m\n"))
        .collect();
    let pieces: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let output = capture(limits, &pieces);
    let spool = output.spool.clone().unwrap();
    let whole = lines.concat();
    assert_eq!(fs::read(&spool.path).unwrap(), whole.as_bytes());
    assert_eq!(spool.bytes, whole.len() as u64);
    assert_eq!(spool.state, SpoolState::Whole);
    assert_eq!(
        fs::metadata(&spool.path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let cleaned: usize = (0..50_000).map(|n| format!("line {n}\n").len()).sum();
    assert_eq!(output.left_out as usize, cleaned - 20);
    let path = spool.path.display();
    assert_eq!(
        output.text(),
        format!(
            "line 0\nlin\n[... {} bytes left out; whole output in {path} ...]\nine 49999\n",
            cleaned - 20
        )
    );
}

#[test]
fn what_fits_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let limits = OutputLimits {
        spool_folder: Some(folder.path().into()),
        ..OutputLimits::default()
    };
    // More than is held in memory, all of it on one line that is overwritten.
    let progress = "working ...\r".repeat(50_000);
    let output = capture(limits, &[progress.as_bytes(), progress.as_bytes()]);
    assert_eq!(output.text(), "working ...");
    assert_eq!(output.spool, None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_file_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let limits = OutputLimits {
        spool_folder: Some(folder.path().into()),
        spool_bytes: 1000,
        ..limits(10, 10)
    };
    let line = [b'x'; 300];
    let output = capture(limits, &[&line, &line, &line, &line, &line]);
    let spool = output.spool.clone().unwrap();
    assert_eq!(spool.state, SpoolState::Capped);
    assert_eq!(fs::metadata(&spool.path).unwrap().len(), 1000);
    assert!(
        output
            .text()
            .contains("the first 1000 bytes, up to the limit")
    );
}

#[test]
fn a_file_that_cannot_be_written_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    fs::write(&taken, "").unwrap();
    let no_folder = OutputLimits {
        spool_folder: Some(taken),
        ..limits(10, 10)
    };
    let output = capture(no_folder, &[&[b'x'; 100]]);
    assert!(
        output.text().contains("could not be kept"),
        "{}",
        output.text()
    );
    assert_eq!(output.left_out, 80);
}

#[test]
fn recent_is_the_newest() {
    let mut capture = Capture::new(limits(5, 5), "output.txt".into());
    capture.feed(b"one\ntwo\nthr");
    assert_eq!(capture.recent(100), "one\ntwo\nthr");
    capture.feed(b"ee\nfour");
    assert!(capture.recent(8).ends_with("three\nfour"));
}

/// Pieces of output that are likely to meet in the wrong places.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[a-z äé日😀\u{80}-\u{9f}]{0,12}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6),
        prop::sample::select(vec![
            &b"\n"[..],
            b"\r",
            b"\r\n",
            b"\x08",
            b"\x1b[K",
            b"\x1b[2K",
            b"\x1b[1G",
            b"\x1b[31m",
            b"\x1b]0;t",
            b"\x07",
            b"\x1b\\",
            b"\x1b",
            b"\x1bP",
            b"\x1b(B",
            b"\xe6\x97",
        ])
        .prop_map(<[u8]>::to_vec),
        (4000..4200_usize).prop_map(|length| vec![b'w'; length]),
    ];
    prop::collection::vec(piece, 0..25).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cuts_between_reads_change_nothing(
        bytes in bytes(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        head in 0..50_usize,
        tail in 0..50_usize,
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut rest = bytes.as_slice();
        let mut start = 0;
        for cut in cuts {
            let (piece, after) = rest.split_at(cut - start);
            pieces.push(piece);
            rest = after;
            start = cut;
        }
        pieces.push(rest);
        let in_pieces = capture(limits(head, tail), &pieces);
        prop_assert_eq!(&in_pieces, &capture(limits(head, tail), &[&bytes]));
        let one_by_one: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(&in_pieces, &capture(limits(head, tail), &one_by_one));

        // Nothing harmful is left, and what is kept is the ends of the whole.
        let whole = capture(limits(1 << 20, 0), &[&bytes]);
        prop_assert!(whole.head.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        if !whole.is_binary {
            let length = whole.head.chars().count();
            if length <= head + tail {
                prop_assert_eq!(in_pieces.head, whole.head);
            } else {
                let first: String = whole.head.chars().take(head).collect();
                let last: String = whole.head.chars().skip(length - tail).collect();
                prop_assert_eq!(in_pieces.left_out as usize, whole.head.len() - first.len() - last.len());
                prop_assert_eq!((in_pieces.head, in_pieces.tail), (first, last));
            }
        }
    }
}
