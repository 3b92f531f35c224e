//! Files by content.

use std::fs;

use serde_json::json;

use crate::room::{Room, text};

#[tokio::test]
async fn grep_shows_lines_by_file() {
    let room = Room::new();
    room.write("b.rs", "one\ntwo\nthree\nfour\ntwo two\r\n")
        .write("a/a.rs", "two");
    assert_eq!(
        room.grep(json!({ "pattern": "two" })).await,
        "a/a.rs\n1: two\n\nb.rs\n2: two\n5: two two"
    );
    assert_eq!(
        room.grep(json!({ "pattern": "two$", "context": 1 })).await,
        "a/a.rs\n1: two\n\nb.rs\n1- one\n2: two\n3- three\n4- four\n5: two two"
    );
    assert_eq!(
        room.grep(json!({ "pattern": "two$", "mode": "files" }))
            .await,
        "a/a.rs\nb.rs"
    );
    assert_eq!(
        room.grep(json!({ "pattern": "two$", "mode": "count" }))
            .await,
        "a/a.rs: 1\nb.rs: 2\n(3 matches in 2 files)"
    );
}

#[tokio::test]
async fn case_can_be_ignored_and_lines_crossed() {
    let room = Room::new();
    room.write("a", "Alpha\nbeta\nBETA\n");
    let found = room
        .grep(json!({ "pattern": "beta", "ignore_case": true }))
        .await;
    assert_eq!(found, "a\n2: beta\n3: BETA");
    let found = room
        .grep(json!({ "pattern": "Alpha.beta$", "multiline": true }))
        .await;
    assert_eq!(found, "a\n1: Alpha\n2: beta");
    let found = room
        .grep(json!({ "pattern": r"beta\nB", "multiline": true, "context": 1 }))
        .await;
    assert_eq!(found, "a\n1- Alpha\n2: beta\n3: BETA");
    let found = room.grep(json!({ "pattern": r"Alpha\s+beta" })).await;
    assert!(found.starts_with("no matches"), "{found}");
}

#[tokio::test]
async fn a_gap_between_lines_is_marked_where_there_is_context() {
    let room = Room::new();
    let lines: Vec<String> = (1..=20).map(|number| format!("line {number}.")).collect();
    room.write("a", lines.join("\n"));
    assert_eq!(
        room.grep(json!({ "pattern": r" (5|9|18)\.", "context": 1 }))
            .await,
        "a\n4- line 4.\n5: line 5.\n6- line 6.\n--\n8- line 8.\n9: line 9.\n10- line 10.\n--\n\
         17- line 17.\n18: line 18.\n19- line 19."
    );
}

#[tokio::test]
async fn at_most_250_matches_are_shown_and_the_rest_is_counted() {
    let room = Room::new();
    room.write("b", "x\n".repeat(2000))
        .write("a", "x\n".repeat(100));
    let found = room.grep(json!({ "pattern": "x" })).await;
    let (body, note) = found.rsplit_once('\n').unwrap();
    assert_eq!(
        note,
        "(250 of 2,100 matches in 2 files shown, first by path; 1,850 left out: narrow the \
         pattern, path or glob)"
    );
    assert_eq!(
        body.lines().filter(|line| line.ends_with(": x")).count(),
        250
    );
    assert!(body.ends_with("\n150: x"));
    // Exactly as many as are shown: nothing to say.
    room.write("b", "x\n".repeat(150));
    let found = room.grep(json!({ "pattern": "x" })).await;
    assert!(found.ends_with("\n150: x"), "{found}");
}

#[tokio::test]
async fn a_limit_cuts_with_the_context_of_the_last_match() {
    let room = Room::new();
    room.write("a", "1\n2\nx\n4\n5\n6\nx\n8\nx\n")
        .write("b", "x\n");
    assert_eq!(
        room.grep(json!({ "pattern": "x", "limit": 1, "context": 1 }))
            .await,
        "a\n2- 2\n3: x\n4- 4\n(1 of 4 matches in 2 files shown, first by path; 3 left out: narrow \
         the pattern, path or glob)"
    );
    // The last file has more than can be shown: what leads up to the next match is not.
    room.write("a", "x\n").write("b", "x\n2\n3\n4\nx\nx\n");
    assert_eq!(
        room.grep(json!({ "pattern": "x", "limit": 2, "context": 1 }))
            .await,
        "a\n1: x\n\nb\n1: x\n2- 2\n(2 of 4 matches in 2 files shown, first by path; 2 left out: \
         narrow the pattern, path or glob)"
    );
    room.write("a", "x\nx\nx\n").write("b", "x\n");
    let found = room
        .grep(json!({ "pattern": "x", "limit": "2", "mode": "files" }))
        .await;
    assert_eq!(found, "a\nb");
    let found = room
        .grep(json!({ "pattern": "x", "limit": 1.0, "mode": "files" }))
        .await;
    assert_eq!(
        found,
        "a\n(1 of 2 files shown, first by path; 1 left out: narrow the pattern, path or glob)"
    );
    let found = room
        .grep(json!({ "pattern": "x", "limit": 1, "mode": "count" }))
        .await;
    assert_eq!(
        found,
        "a: 3\n(4 matches in 2 files)\n(1 of 2 files shown, first by path; 1 left out: narrow the \
         pattern, path or glob)"
    );
}

#[tokio::test]
async fn the_answer_is_bounded() {
    let room = Room::new();
    let line = format!("{}needle{}\n", "é".repeat(3000), "ü".repeat(3000));
    room.write("a", line.repeat(240));
    for context in [0, 3] {
        let found = room
            .grep(json!({ "pattern": "needle", "context": context }))
            .await;
        let count = found.chars().count();
        assert!((40_000..50_000).contains(&count), "{count}");
        let shown = found.matches("needle").count();
        let end = format!("({shown} of 240 matches in 1 file shown, first by path; ");
        assert!(found.contains(&end), "{}", &found[found.len() - 300..]);
    }
    // A match of many lines is shown by its first ones.
    room.write("a", format!("begin\n{}end\n", "x\n".repeat(1000)));
    let found = room
        .grep(json!({ "pattern": "begin.*end", "multiline": true }))
        .await;
    assert!(
        found.ends_with("\n40: x\n41: … (the match goes on)"),
        "{found}"
    );
}

#[tokio::test]
async fn a_long_line_is_cut_round_the_match() {
    let room = Room::new();
    room.write(
        "min.js",
        format!("{}needle{}", "x".repeat(9000), "y".repeat(9000)),
    );
    let found = room.grep(json!({ "pattern": "needle" })).await;
    let shown = format!("min.js\n1: …{}needle{}…", "x".repeat(120), "y".repeat(374));
    assert_eq!(found, shown);
}

#[tokio::test]
async fn binary_files_are_told_of_only_if_nothing_else_matches() {
    let room = Room::new();
    room.write("a.bin", b"\0\x01needle\0")
        .write(
            "b.bin",
            [&b"text\n".repeat(50_000)[..], b"needle\n\0"].concat(),
        )
        .write("c.bin", b"\0nothing");
    let tail =
        " (3 files searched; hidden and ignored files were left out, all: true takes them in)";
    assert_eq!(
        room.grep(json!({ "pattern": "needle" })).await,
        format!("no matches for needle in the workspace; 2 binary files match: a.bin, b.bin{tail}")
    );
    assert_eq!(
        room.grep(json!({ "pattern": "needle", "path": "a.bin" }))
            .await,
        "no matches for needle in a.bin; 1 binary file matches: a.bin"
    );
    room.write("z.txt", "needle");
    for mode in ["lines", "files", "count"] {
        let found = room
            .grep(json!({ "pattern": "needle", "mode": mode }))
            .await;
        assert!(
            found.starts_with("z.txt") && !found.contains("bin"),
            "{found}"
        );
    }
}

#[tokio::test]
async fn other_encodings_are_read_by_their_mark() {
    let room = Room::new();
    let utf16 = |text: &str, mark: [u8; 2], bytes: fn(u16) -> [u8; 2]| {
        let text = text.encode_utf16().flat_map(bytes);
        mark.into_iter().chain(text).collect::<Vec<u8>>()
    };
    room.write(
        "le.txt",
        utf16("grün\r\nblau\r\n", [0xff, 0xfe], u16::to_le_bytes),
    )
    .write("be.txt", utf16("grün", [0xfe, 0xff], u16::to_be_bytes))
    .write("bom.txt", "\u{feff}grün")
    .write("latin.txt", b"gr\xfcn");
    assert_eq!(
        room.grep(json!({ "pattern": "^gr.*n$" })).await,
        "be.txt\n1: grün\n\nbom.txt\n1: grün\n\nle.txt\n1: grün"
    );
    assert_eq!(
        room.grep(json!({ "pattern": "^gr(?-u:.)n$" })).await,
        "latin.txt\n1: gr\u{fffd}n"
    );
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let room = Room::new();
    let workspace = room.workspace.display();
    for (input, error) in [
        (
            json!({ "pattern": "foo(bar" }),
            "invalid pattern: regex parse error:\n    foo(bar\n       ^\nerror: unclosed group\n\
             to find this very text: foo\\(bar"
                .to_owned(),
        ),
        (
            json!({ "pattern": "struct {" }),
            "invalid pattern: regex parse error:\n    struct {\n           ^\nerror: unclosed \
             counted repetition\nin a regular expression { and } count repetitions: write \
             \\{ and \\} to find them as text\nto find this very text: struct \\{"
                .into(),
        ),
        (
            json!({ "pattern": "a(?=b)" }),
            "invalid pattern: regex parse error:\n    a(?=b)\n     ^^^\nerror: look-around, \
             including look-ahead and look-behind, is not supported\nfind more with a plain \
             pattern, and pick from the lines"
                .into(),
        ),
        (
            json!({ "pattern": "a\nb" }),
            "the pattern holds a line break, which a search line by line cannot find: set \
             multiline to true: a\\x0ab"
                .into(),
        ),
        (
            json!({ "pattern": "a)(b" }),
            "invalid pattern: regex parse error:\n    a)(b\n     ^\nerror: unopened group\n\
             to find this very text: a\\)\\(b"
                .into(),
        ),
        (
            json!({ "pattern": "" }),
            "the pattern is empty: it would match every line".into(),
        ),
        (
            json!({ "pattern": r"\w{1000}{1000}" }),
            "the pattern is too large, since each repetition counts as often as it may occur: ask \
             for fewer, or write [0-9A-Za-z_] for \\w: \\w{1000}{1000}"
                .into(),
        ),
        (
            json!({ "pattern": "x".repeat(10_000) }),
            "the pattern is longer than 8192 bytes".into(),
        ),
        (
            json!({ "pattern": "x", "path": "lib" }),
            format!("there is no file or folder lib (paths are relative to {workspace})"),
        ),
        (
            json!({ "pattern": "x", "glob": "a[" }),
            "glob: invalid pattern: a [ is not closed (write [[] to find a [ itself)\n    a[\n     ^"
                .into(),
        ),
        (
            json!({ "pattern": "x", "context": 51 }),
            "invalid input for grep: context must be from 0 to 50, not 51; read the file for more"
                .into(),
        ),
        (
            json!({ "pattern": "x", "limit": 0 }),
            "invalid input for grep: limit must be at least 1".into(),
        ),
        (
            json!({ "pattern": "x", "limit": -1 }),
            "invalid input for grep: expected a whole number from 0 up, not -1".into(),
        ),
        (
            json!({ "pattern": "x", "mode": "content" }),
            "invalid input for grep: unknown variant `content`, expected one of `lines`, `files`, \
             `count`"
                .into(),
        ),
    ] {
        let found = room.grep_error(input.clone()).await;
        assert_eq!(found, error, "{input}");
    }
}

#[tokio::test]
async fn a_glob_narrows() {
    let room = Room::new();
    room.write("src/a.rs", "x")
        .write("src/a.py", "x")
        .write("web/a.rs", "x")
        .write("node/m/a.rs", "x")
        .write(".ci/a.yml", "x");
    for (glob, files) in [
        ("*.rs", "node/m/a.rs\nsrc/a.rs\nweb/a.rs"),
        ("src/**", "src/a.py\nsrc/a.rs"),
        ("*.{py,yml}", "src/a.py"),
        (".ci/**", ".ci/a.yml"),
        ("!*.rs", "src/a.py"),
        ("!node", "src/a.py\nsrc/a.rs\nweb/a.rs"),
        ("!{src,node}/**", "web/a.rs"),
        (
            "*.go",
            "no matches for x in the workspace (no file there matches the glob *.go; hidden and \
             ignored files were left out, all: true takes them in)",
        ),
    ] {
        let found = room
            .grep(json!({ "pattern": "x", "glob": glob, "mode": "files" }))
            .await;
        assert_eq!(found, files, "{glob}");
    }
}

#[tokio::test]
async fn a_glob_that_says_where_to_search_is_refused() {
    let room = Room::new();
    room.write("src/a.rs", "x").write("web/a.rs", "x");
    for (glob, folder, rest) in [
        ("/src/**/*.rs", "/src", "**/*.rs"),
        ("../other/*.rs", "..", "other/*.rs"),
        ("!/src/*.rs", "/src", "*.rs"),
    ] {
        assert_eq!(
            room.grep_error(json!({ "pattern": "x", "glob": glob }))
                .await,
            format!(
                "glob: a pattern here is for the files below path, and {} leads out of it; give \
                 {folder} as path and {rest} as glob",
                glob.trim_start_matches('!')
            )
        );
    }
}

#[tokio::test]
async fn one_file_can_be_searched_even_if_it_is_ignored() {
    let room = Room::new();
    room.write(".gitignore", "out/\n*.log\n")
        .write("out/.hidden/x.log", "needle\n")
        .write("a.txt", "");
    let nothing = "no matches for needle in the workspace (1 file searched; hidden and ignored \
                   files were left out, all: true takes them in)";
    assert_eq!(room.grep(json!({ "pattern": "needle" })).await, nothing);
    let found = room
        .grep(json!({ "pattern": "needle", "path": "out/.hidden/x.log" }))
        .await;
    assert_eq!(found, "out/.hidden/x.log\n1: needle");
    let found = room.grep(json!({ "pattern": "needle", "all": true })).await;
    assert_eq!(found, "out/.hidden/x.log\n1: needle");
    let found = room
        .grep(json!({ "pattern": "zebra", "path": "out/.hidden/x.log" }))
        .await;
    assert_eq!(found, "no matches for zebra in out/.hidden/x.log");
    let found = room.grep(json!({ "pattern": "zebra", "all": true })).await;
    assert_eq!(
        found,
        "no matches for zebra in the workspace (3 files searched)"
    );
}

#[tokio::test]
async fn a_line_beyond_the_heap_limit_ends_the_search_of_its_file() {
    let room = Room::with(|settings| settings.heap_bytes = 200_000);
    room.write(
        "a",
        [&b"needle\n"[..], &[b'x'; 500_000], b"\nneedle\n"].concat(),
    )
    .write("b", "needle");
    assert_eq!(
        room.grep(json!({ "pattern": "needle" })).await,
        "a\n1: needle\n\nb\n1: needle\n(1 file not searched to the end, a line is too long: a)"
    );
    assert_eq!(
        room.grep(json!({ "pattern": "needle\\s*$", "multiline": true }))
            .await,
        "b\n1: needle\n(1 file not searched, too large for multiline: a)"
    );
}

#[tokio::test]
async fn a_file_larger_than_memory_is_searched_in_pieces() {
    let room = Room::new();
    // Holes read as zeros: no text, and not worth reading to its end.
    let file = fs::File::create(room.workspace.join("huge")).unwrap();
    file.set_len(5 << 30).unwrap();
    let found = room.grep(json!({ "pattern": "needle" })).await;
    assert!(
        found.starts_with("no matches for needle in the workspace (1 file"),
        "{found}"
    );
}

#[tokio::test]
async fn the_screen_is_told_in_a_few_words() {
    let room = Room::new();
    room.write("a", "x\nx\n").write("b", "x\n");
    for (input, details) in [
        (json!({ "pattern": "x" }), "3 matches in 2 files"),
        (
            json!({ "pattern": "x", "limit": 1 }),
            "3 matches in 2 files",
        ),
        (
            json!({ "pattern": "x", "mode": "count" }),
            "3 matches in 2 files",
        ),
        (json!({ "pattern": "x", "mode": "files" }), "2 files"),
        (json!({ "pattern": "y" }), "0 matches in 0 files"),
    ] {
        let output = room.call(&room.grep, input).await.unwrap();
        assert_eq!(output.details.as_deref(), Some(details));
        assert!(!text(&output).is_empty());
    }
    let output = room
        .call(&room.glob, json!({ "pattern": "a" }))
        .await
        .unwrap();
    assert_eq!(output.details.as_deref(), Some("1 file"));
}

#[tokio::test]
async fn quotes_that_a_shell_would_take_off_are_pointed_at() {
    let room = Room::new();
    room.write("a.rs", "struct Registry;\nlet a = \"Registry\";\n");
    for (pattern, is_hinted) in [
        ("'struct Registry'", true),
        ("\"struct Registry\"", true),
        ("struct Registrar", false),
        ("'a' or 'b'", false),
    ] {
        let found = room.grep(json!({ "pattern": pattern })).await;
        assert!(found.starts_with("no matches"), "{found}");
        let hint = "the quotes around the pattern are part of it: leave them out";
        assert_eq!(found.contains(hint), is_hinted, "{found}");
    }
    let found = room.grep(json!({ "pattern": "\"Registry\"" })).await;
    assert_eq!(found, "a.rs\n2: let a = \"Registry\";");
}
