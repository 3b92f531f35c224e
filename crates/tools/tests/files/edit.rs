//! What an edit takes for its text, and what it says where there is none.

use serde_json::json;

use crate::room::Room;

#[tokio::test]
async fn blanks_at_line_ends_may_differ() {
    let room = Room::new();
    let note = "(taken although old differs in blanks or line ends at the ends of lines)";
    for (file, old, new, changed) in [
        // The file has blanks that the text has not.
        ("a \nb\t\nc\n", "a\nb\n", "x\n", "x\nc\n"),
        ("a \nb  \nc\n", "a\nb", "x", "x  \nc\n"),
        // The text has some that the file has not.
        ("a\nb\nc\n", "a  \nb ", "x", "x\nc\n"),
        ("a\nb\nbc\n", "b ", "x", "a\nx\nbc\n"),
        ("a\nb", "b\n", "x\n", "a\nx"),
        ("a\r\nb\r\nc\r\n", "a \nb \n", "1\n2\n", "1\r\n2\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b ", "2", "a\r\n2\r\nc\r\n"),
        // CRLF for LF.
        ("a\nb\nc\n", "a\r\nb\r\n", "1\r\n2\r\n", "1\n2\nc\n"),
    ] {
        room.put("f", file);
        let answer = room.edit("f", old, new).await;
        assert!(answer.contains(note), "{answer}");
        assert_eq!(room.bytes("f"), changed.as_bytes(), "{file:?} {old:?}");
    }
    for (file, old, error) in [
        (
            "a \nb\na\t\nb\n",
            "a\nb",
            "no exact match in f, and 2 places differ from old in blanks at the ends of lines only: \
             lines 1, 3; give more of the text around the right one",
        ),
        (
            "bc\n",
            "b ",
            "old does not occur in f; nothing in it is like that; read the file again",
        ),
        (
            "a\n",
            " \n",
            "old does not occur in f; nothing in it is like that; read the file again",
        ),
        (
            "",
            "a",
            "old does not occur in f: the file is empty; use write",
        ),
    ] {
        room.put("f", file);
        assert_eq!(room.no_edit("f", old, "x").await, error, "{file:?} {old:?}");
    }
}

#[tokio::test]
async fn new_lines_end_as_those_around_them() {
    let room = Room::new();
    for (file, old, new, changed) in [
        ("one\r\ntwo", "two", "2\n3", "one\r\n2\r\n3"),
        ("a\r\nb\nc\r\n", "a", "1\n2", "1\r\n2\r\nb\nc\r\n"),
        ("a\r\nb\nc\r\n", "b", "1\n2", "a\r\n1\n2\nc\r\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "1\n2", "1\r\n2\r\n"),
        ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
        ("a\r\nb\r\n", "a\n", "", "b\r\n"),
        // Who writes CR means it.
        ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
        ("a\nb\n", "a\n", "a\r\n", "a\r\nb\n"),
    ] {
        room.put("f", file);
        room.edit("f", old, new).await;
        assert_eq!(room.bytes("f"), changed.as_bytes(), "{file:?} {old:?}");
    }
    room.put("f", "a\r\nb\r\n");
    let all = json!({"path": "f", "old": "\r\n", "new": "\n", "all": true});
    room.ok("edit", all).await;
    assert_eq!(room.bytes("f"), b"a\nb\n");
    let all = json!({"path": "f", "old": "\n", "new": "\r\n", "all": true});
    room.ok("edit", all).await;
    assert_eq!(room.bytes("f"), b"a\r\nb\r\n");
}

#[tokio::test]
async fn overlapping_matches_are_several() {
    let room = Room::new();
    room.put("f", "aaa\n");
    assert_eq!(
        room.no_edit("f", "aa", "b").await,
        "old occurs 2 times in f, overlapping: line 1; give more of the text around the right one, \
         or set all"
    );
    room.put("f", "x\n".repeat(30));
    assert_eq!(
        room.no_edit("f", "x", "b").await,
        "old occurs 30 times in f: lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more; give more of \
         the text around the right one, or set all"
    );
}

#[tokio::test]
async fn a_file_does_not_grow_without_bounds() {
    let room = Room::new();
    room.put("f", "x".repeat(1 << 20));
    let input = json!({"path": "f", "old": "x", "new": "y".repeat(1000), "all": true});
    assert_eq!(room.fail("edit", input).await, "f would become too large");
    assert_eq!(room.bytes("f"), "x".repeat(1 << 20).as_bytes());
}

#[tokio::test]
async fn what_is_not_there_is_answered_with_what_is_near() {
    let room = Room::new();
    room.put(
        "f.rs",
        "use std::fs;\n\nfn main() {\n\tlet words = read();\n\tprintln!(\"{words}\");\n}\n",
    );
    assert_eq!(
        room.no_edit(
            "f.rs",
            "    let words = read();\n    println!(\"{words}\");",
            "x"
        )
        .await,
        "old does not occur in f.rs; the nearest is at line 4:\n4\t\tlet words = read();\n\
         5\t\tprintln!(\"{words}\");\nline 4 differs: in blanks at its start (tabs or spaces, or \
         how many)"
    );
    assert_eq!(
        room.no_edit("f.rs", "fn main() {\n\tlet words = write();", "x")
            .await,
        "old does not occur in f.rs; the nearest is at line 3:\n3\tfn main() {\n\
         4\t\tlet words = read();\nline 4 differs: in its text"
    );
    assert_eq!(
        room.no_edit("f.rs", "FN main()", "x").await,
        "old does not occur in f.rs; the nearest is at line 3:\n3\tfn main() {\nline 3 differs: in \
         its text"
    );
    assert_eq!(
        room.no_edit("f.rs", "3\tfn main() {\n4\t\tlet words = read();", "x")
            .await,
        "old does not occur in f.rs: old has line numbers in it, which are not part of the file"
    );
    room.put("f", b"caf\xe9\n");
    assert_eq!(
        room.no_edit("f", "café", "x").await,
        "old does not occur in f (not UTF-8: shown as Windows-1252, a guess; only ASCII text can be \
         found in it, so leave other characters out of old); the nearest is at line 1:\n1\tcafé\n\
         line 1 differs: in its text"
    );
}

#[tokio::test]
async fn the_answer_shows_what_has_changed() {
    let room = Room::new();
    let lines: String = (1..=40).map(|number| format!("{number}\n")).collect();
    room.put("f", &lines);
    assert_eq!(
        room.edit("f", "20\n", "twenty\n20a\n").await,
        "edited f\n18\t18\n19\t19\n20\ttwenty\n21\t20a\n22\t21\n23\t22"
    );
    let input = json!({"path": "f", "old": "twenty\n20a\n", "new": "20\n"});
    let output = room.call("edit", input).await.unwrap();
    assert_eq!(
        output.details.unwrap(),
        "--- f\n+++ f\n@@ -17,8 +17,7 @@\n 17\n 18\n 19\n-twenty\n-20a\n+20\n 21\n 22\n 23\n"
    );
    let long: String = (1..=40).map(|number| format!("new {number}\n")).collect();
    let answer = room.edit("f", "5\n6\n", &long).await;
    assert_eq!(
        answer,
        "edited f\n3\t3\n4\t4\n5\tnew 1\n6\tnew 2\n7\tnew 3\n8\tnew 4\n9\tnew 5\n10\tnew 6\n\
         ... (28 lines)\n39\tnew 35\n40\tnew 36\n41\tnew 37\n42\tnew 38\n43\tnew 39\n44\tnew 40\n\
         45\t7\n46\t8"
    );
    room.put("end", "a\nb");
    let input = json!({"path": "end", "old": "b", "new": "c"});
    let output = room.call("edit", input).await.unwrap();
    assert_eq!(
        output.details.unwrap(),
        "--- end\n+++ end\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\
         \\ No newline at end of file\n"
    );
}

#[tokio::test]
async fn an_edit_needs_no_read_but_lets_nobody_write() {
    let room = Room::new();
    room.put("f", "a\nb\n");
    assert_eq!(room.edit("f", "a", "1").await, "edited f\n1\t1\n2\tb");
    assert_eq!(
        room.fail("write", json!({"path": "f", "content": "x"}))
            .await,
        "f exists and you have not read it, so it is not replaced; read it first, or change a part \
         of it with edit"
    );
}

#[tokio::test]
async fn write_says_what_it_did() {
    let room = Room::new();
    assert_eq!(
        room.write("deep/er/f", "1\n2").await,
        "created deep/er/f (2 lines, 3 bytes)"
    );
    assert_eq!(
        room.write("deep/er/f", "1\n2").await,
        "deep/er/f has that content already; nothing is changed"
    );
    let input = json!({"path": "deep/er/f", "content": "1\r\n"});
    let output = room.call("write", input).await.unwrap();
    assert_eq!(
        output.details.unwrap(),
        "--- deep/er/f\n+++ deep/er/f\n@@ -1,2 +1 @@\n-1\n-2\n\\ No newline at end of file\n+1\n"
    );
    assert_eq!(room.bytes("deep/er/f"), b"1\r\n");
    // What has a CR in it is taken as it is.
    room.write("deep/er/f", "1\r\n2\n").await;
    assert_eq!(room.bytes("deep/er/f"), b"1\r\n2\n");
    std::fs::remove_file(room.path("deep/er/f")).unwrap();
    assert_eq!(
        room.write("deep/er/f", "").await,
        "created deep/er/f (0 lines, 0 bytes)"
    );
    for (path, error) in [
        ("deep", "deep is a folder, not a file"),
        (
            "new/",
            "cannot create new/: it ends with a slash as a folder does",
        ),
        ("deep/er/f/g", "cannot open deep/er/f/g: Not a directory"),
    ] {
        let input = json!({"path": path, "content": ""});
        assert_eq!(room.fail("write", input).await, error);
    }
}
