//! Patches that are not quite right: which are taken, and what is said of the others.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::room::Room;

/// Applies changes to a file `f`; its new content, and the answer.
async fn change(file: &str, changes: &str) -> Result<(String, String), String> {
    let room = Room::new();
    room.put("f", file);
    let patch = if changes.starts_with("--- ") || changes.starts_with("diff ") {
        changes.to_owned()
    } else {
        format!("*** Begin Patch\n*** Update File: f\n{changes}*** End Patch\n")
    };
    match room.call("apply_patch", json!({ "patch": patch })).await {
        Ok(output) => {
            let bytes = String::from_utf8(room.bytes("f")).unwrap();
            Ok((bytes, crate::room::text(&output).to_owned()))
        }
        Err(error) => {
            assert_eq!(room.bytes("f"), file.as_bytes());
            Err(error.to_string())
        }
    }
}

#[tokio::test]
async fn changes_find_their_place() {
    let twice = "a\nx\nb\nx\nc\n";
    for (file, changes, new) in [
        ("a\nb\n", "@@\n a\n-b\n+c\n", "a\nc\n"),
        // Without @@, with a blank line between.
        ("a\nb\n", " a\n-b\n+c\n\n", "a\nc\n"),
        ("a\n\nb\n", " a\n\n-b\n+c\n", "a\n\nc\n"),
        // Anchors.
        (twice, "@@ b\n-x\n+y\n", "a\nx\nb\ny\nc\n"),
        (twice, "@@ a\n-x\n+y\n", "a\ny\nb\nx\nc\n"),
        (twice, "@@ a\n@@ b\n-x\n+y\n", "a\nx\nb\ny\nc\n"),
        (twice, "@@ b\n+y\n", "a\nx\nb\ny\nx\nc\n"),
        // The second of two comes after the first.
        (twice, " a\n-x\n+1\n@@\n-x\n+2\n", "a\n1\nb\n2\nc\n"),
        // The same anchor above both.
        (twice, "@@ a\n-x\n+1\n@@ a\n-x\n+2\n", "a\n1\nb\n2\nc\n"),
        // The end.
        ("x\ny\nx\n", "@@\n-x\n+z\n*** End of File\n", "x\ny\nz\n"),
        ("a\n", "@@\n+b\n*** End of File\n", "a\nb\n"),
        ("a\n", "@@\n+b\n", "a\nb\n"),
        ("", "@@\n+b\n", "b\n"),
        ("a", "@@\n+b\n", "a\nb"),
        ("a\nb", " a\n-b\n+c\n", "a\nc"),
        ("a\nb", "-b\n", "a\n"),
        // CRLF, and a byte order mark.
        ("a\r\nb\r\n", " a\n-b\n+c\n+d\n", "a\r\nc\r\nd\r\n"),
        ("a\r\nb\nc\r\n", "-b\n+x\n", "a\r\nx\nc\r\n"),
        ("\u{feff}a\nb\n", "-a\n+c\n", "\u{feff}c\nb\n"),
        // Out of order.
        ("a\nb\nc\n", "-c\n+3\n@@\n-a\n+1\n", "1\nb\n3\n"),
        // Line numbers in an envelope.
        (twice, "@@ -4,1 +4,1 @@\n-x\n+y\n", "a\nx\nb\ny\nc\n"),
        // Unified diffs: wrong numbers, wrong counts, none.
        (
            "a\nb\nc\n",
            "--- f\n+++ f\n@@ -7,2 +9,2 @@\n b\n-c\n+d\n",
            "a\nb\nd\n",
        ),
        (
            "a\nb\nc\n",
            "--- f\n+++ f\n@@ -1,9 +1,9 @@\n a\n-b\n+d\n",
            "a\nd\nc\n",
        ),
        (
            "a\nb\nc\n",
            "--- f\n+++ f\n@@ @@\n a\n-b\n+d\n",
            "a\nd\nc\n",
        ),
        (
            twice,
            "--- f\n+++ f\n@@ -4 +4 @@\n-x\n+y\n",
            "a\nx\nb\ny\nc\n",
        ),
        (
            twice,
            "--- f\n+++ f\n@@ -3,0 +4 @@\n+y\n",
            "a\nx\nb\ny\nx\nc\n",
        ),
        (
            twice,
            "--- f\n+++ f\n@@ -0,0 +1 @@\n+y\n",
            "y\na\nx\nb\nx\nc\n",
        ),
        // Lines that look like headers.
        (
            "-- a\nb\n",
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n--- a\n+++ a\n b\n",
            "++ a\nb\n",
        ),
        (
            "a\nb\n",
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n+c\n b\n-- \n2.39.2\n\n",
            "c\nb\n",
        ),
        // Line ends at the end of the file.
        (
            "a\nb",
            "--- f\n+++ f\n@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n",
            "a\nc\n",
        ),
        (
            "a\nb\n",
            "--- f\n+++ f\n@@ -2 +2 @@\n-b\n+c\n\\ No newline at end of file\n",
            "a\nc",
        ),
        ("a\nb", "--- f\n+++ f\n@@ -2 +2 @@\n-b\n+c\n", "a\nc"),
        (
            "a\nb",
            "--- f\n+++ f\n@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+b\n+c\n\
             \\ No newline at end of file\n",
            "a\nb\nc",
        ),
        // Line ends that are the change.
        (
            "a\r\nb\r\n",
            "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n",
            "a\nb\r\n",
        ),
        (
            "a\nb\n",
            "--- f\r\n+++ f\r\n@@ -1,2 +1,2 @@\r\n-a\r\n+c\r\n b\r\n",
            "c\nb\n",
        ),
        // Headers and words around.
        (
            "a\n",
            "diff --git a/f b/f\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/f\t2020-01-01\n\
             +++ b/f\t2020-01-01\n@@ -1 +1 @@\n-a\n+b\n",
            "b\n",
        ),
        (
            "a\n",
            "--- \"a/\\146\"\n+++ \"b/f\"\n@@ -1 +1 @@\n-a\n+b\n",
            "b\n",
        ),
    ] {
        let (bytes, _) = change(file, changes)
            .await
            .unwrap_or_else(|error| panic!("{changes}: {error}"));
        assert_eq!(bytes, new, "{file:?} {changes}");
    }
}

#[tokio::test]
async fn what_was_taken_with_a_difference_is_said() {
    let (new, answer) = change("a \nb\t\nc\n", "@@\n a\n-b\n+x\n c  \n")
        .await
        .unwrap();
    assert_eq!(new, "a \nx\nc\n");
    assert_eq!(
        answer,
        "the patch is applied:\nM f (+1 -1)\n(the change at patch line 3 was placed although blanks \
         at line ends differ)"
    );
    // An exact place beats one that differs.
    let (new, _) = change("b \nb\n", "-b\n+x\n").await.unwrap();
    assert_eq!(new, "b \nx\n");
    let patch = "diff --git a/f b/f\nold mode 100644\nnew mode 100755\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let (_, answer) = change("a\n", patch).await.unwrap();
    assert_eq!(
        answer,
        "the patch is applied:\nM f (+1 -1)\n(modes in the patch are passed over; use chmod)"
    );
}

#[tokio::test]
async fn what_has_no_place_is_refused() {
    let several = "fit in several places, from lines 1, 3; give more lines around the change, or \
                   an @@ line above it\nnothing is changed";
    for (file, changes, error) in [
        ("x\na\nx\n", "@@\n-x\n+y\n", format!("f, patch line 3: these lines {several}")),
        (
            "x\na\nx\n",
            "--- f\n+++ f\n@@ -2 +2 @@\n-x\n+y\n",
            format!("f, patch line 3: these lines {several}"),
        ),
        (
            "x\na\nx\n",
            "@@ x\n+y\n",
            "f, patch line 3: the anchor fit in several places, from lines 2, 4; give more lines \
             around the change, or an @@ line above it\nnothing is changed"
                .into(),
        ),
        (
            "let a = 1;\n",
            "@@\n-let a = 2;\n+x\n",
            "f, patch line 3: its lines are not in the file as they are in the patch; the nearest is \
             at line 1:\n1\tlet a = 1;\nline 1 differs: in its text\nnothing is changed"
                .into(),
        ),
        (
            "  a\n",
            "-a\n+x\n",
            "f, patch line 3: its lines are not in the file as they are in the patch\nnothing is \
             changed"
                .into(),
        ),
        (
            "a\n",
            "@@ fn b\n-a\n+x\n",
            "f, patch line 3: the file has no line like the anchor \"fn b\"\nnothing is changed".into(),
        ),
        (
            "a\nb\n",
            "@@\n-a\n+x\n*** End of File\n",
            "f, patch line 3: its lines are not at the end of the file\nnothing is changed".into(),
        ),
        (
            "a\nb\n",
            "-a\n-b\n+x\n@@\n-b\n+y\n",
            "f, patch line 6: this change and another one have lines in common\nnothing is changed".into(),
        ),
        (
            "a\n",
            "--- f\n+++ f\n@@ -5,0 +6 @@\n+y\n",
            "f, patch line 3: it is to follow line 5, and the file has 1\nnothing is changed".into(),
        ),
        ("a\n", "-a\n+a\n", "f: the patch changes nothing in it".into()),
        // Anchors in plenty before the one that makes it doubtful.
        (
            &format!("{}x\na\nx\n", "a\n".repeat(30)),
            "@@ a\n-x\n+y\n",
            "f, patch line 3: these lines fit in several places, from lines 31, 33; give more lines \
             around the change, or an @@ line above it\nnothing is changed"
                .into(),
        ),
    ] {
        let answer = change(file, changes).await.unwrap_err();
        assert_eq!(answer, error, "{file:?} {changes}");
    }
}

#[tokio::test]
async fn what_is_no_patch_is_answered_with_its_line() {
    let room = Room::new();
    room.put("f", "a\n");
    let git = "diff --git a/f b/f\n";
    for (patch, error) in [
        ("", "1: the patch is empty"),
        (
            "*** Start\n",
            "1: a patch of this form begins with *** Begin Patch",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n-a\n+b\n",
            "5: the patch ends without *** End Patch, so it may be cut; nothing is changed",
        ),
        (
            "*** Begin Patch\n*** End Patch\n",
            "1: no change is found; begin with *** Begin Patch, or with --- and +++ lines",
        ),
        (
            "*** Begin Patch\n*** Change File: f\n*** End Patch\n",
            "2: expected *** Add File: PATH, *** Update File: PATH, *** Delete File: PATH or *** End \
             Patch, not \"*** Change File: f\"",
        ),
        (
            "*** Begin Patch\n*** Delete File:  \n*** End Patch\n",
            "2: the path is empty",
        ),
        (
            "*** Begin Patch\n*** Delete File: f\n*** End Patch\nmore\n",
            "4: there is more after *** End Patch",
        ),
        (
            "*** Begin Patch\n*** Add File: g\nx\n*** End Patch\n",
            "3: each line of an added file starts with +, not \"x\"",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n*** End Patch\n",
            "2: the update changes nothing",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n@@ a\n*** End Patch\n",
            "3: there are no lines after this @@ line",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n a\n*** End Patch\n",
            "3: this change has no line with + or -",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n-a\nb\n*** End Patch\n",
            "4: each line of a change starts with a blank, + or -, not \"b\"",
        ),
        (
            "*** Begin Patch\n*** Update File: f\n*** Move to: \n*** End Patch\n",
            "3: the new path is empty",
        ),
        (
            "@@ -1 +1 @@\n-a\n+b\n",
            "1: a change without --- and +++ lines before it",
        ),
        ("--- f\n+++ f\n", "1: there is no @@ line after this"),
        (
            "--- f\n+++ f\n@@ -1 +1 @@\n a\n",
            "3: this change has no line with + or -",
        ),
        (
            "--- f\n+++ f\n@@ -1 +1 @@\nword\n",
            "3: each line of a change starts with a blank, + or -, not \"word\"",
        ),
        (
            "--- f\n+++ f\n@@ -1 +1 @@\n-a\n+b\nwords\n+c\n",
            "7: \"+c\" belongs to no change",
        ),
        (
            "--- f\n+++ g\n@@ -1 +1 @@\n-a\n+b\n",
            "1: f and g are two files: name one, or say rename from and rename to under a diff --git \
             line",
        ),
        (
            "--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
            "1: both files are /dev/null",
        ),
        (
            "--- /dev/null\n+++ g\n@@ -1 +1 @@\n-a\n+b\n",
            "1: a file that is added has lines that do not start with +",
        ),
        (
            "--- f\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n",
            "1: a file that is deleted has lines that do not start with -",
        ),
        (
            &format!("{git}old mode 100644\nnew mode 100755\n"),
            "1: only a mode is changed here, which is not supported; use chmod",
        ),
        (
            &format!("{git}index 1..2\n"),
            "1: no change is found after this line",
        ),
        (
            &format!("{git}copy from f\ncopy to g\n"),
            "2: copies are not supported; add the file with its content",
        ),
        (
            &format!("{git}GIT binary patch\n"),
            "2: binary patches are not supported",
        ),
    ] {
        let answer = room.no_patch(patch).await;
        assert_eq!(
            answer,
            format!("patch line {error}; nothing is changed"),
            "{patch}"
        );
    }
    let long = format!("--- f\n+++ f\n@@\n-a\n{}", "+b\n".repeat(2 << 20));
    assert_eq!(
        room.no_patch(&long).await,
        "patch line 1: the patch is longer than 4 MiB; nothing is changed"
    );
    assert_eq!(room.bytes("f"), b"a\n");
}

#[tokio::test]
async fn files_must_be_as_the_patch_expects() {
    let room = Room::new();
    room.put("f", "a\n");
    room.put("g", "b\n");
    room.put("h", b"\xe9\n");
    symlink("f", room.path("link")).unwrap();
    std::fs::create_dir(room.path("d")).unwrap();
    let twice = "is in the patch twice, in ways that do not go together; make two patches of it";
    for (body, error) in [
        (
            "*** Add File: f\n+x\n",
            "f exists already; update it, or delete it in a patch before this one".into(),
        ),
        (
            "*** Update File: g\n*** Move to: f\n",
            "f exists already; update it, or delete it in a patch before this one".into(),
        ),
        (
            "*** Delete File: none\n",
            format!(
                "there is no file none: none of the 5 names in the workspace {} is similar",
                room.workspace.display()
            ),
        ),
        ("*** Delete File: d\n", "d is a folder, not a file".into()),
        ("*** Delete File: f\n*** Update File: f\n-a\n+b\n", format!("f {twice}")),
        ("*** Delete File: f\n*** Add File: ./f\n+b\n", format!("./f {twice}")),
        ("*** Add File: n\n+b\n*** Add File: ./n\n+b\n", format!("./n {twice}")),
        ("*** Add File: n\n+b\n*** Update File: g\n*** Move to: n\n", format!("g {twice}")),
        (
            "*** Update File: h\n+é\n",
            "h is not UTF-8, and how it writes 'é' is not known: only ASCII text can be put into it; \
             convert the file to UTF-8 first, or write those bytes with a shell command"
                .into(),
        ),
    ] {
        let answer = room
            .no_patch(&format!("*** Begin Patch\n{body}*** End Patch\n"))
            .await;
        assert_eq!(answer, error, "{body}");
    }
    assert_eq!(
        room.no_patch("--- f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n")
            .await,
        "f, patch line 3: its lines are not in the file as they are in the patch\nnothing is changed"
    );
    room.put("g", "b\nc\n");
    assert_eq!(
        room.no_patch("--- g\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n")
            .await,
        "g holds more than the lines that the patch deletes; nothing is changed"
    );
    // Two updates of one file are one, by whatever path.
    let answer = room
        .patch(
            "*** Begin Patch\n*** Update File: g\n-b\n+1\n*** Update File: ./g\n-c\n+2\n\
             *** Update File: link\n-a\n+3\n*** End Patch\n",
        )
        .await;
    assert_eq!(answer, "the patch is applied:\nM g (+2 -2)\nM link (+1 -1)");
    assert_eq!(room.bytes("g"), b"1\n2\n");
    assert_eq!(room.bytes("f"), b"3\n");
    assert!(room.path("link").is_symlink());
    room.patch("*** Begin Patch\n*** Update File: h\n+x\n*** End Patch\n")
        .await;
    assert_eq!(room.bytes("h"), b"\xe9\nx\n");
}

#[tokio::test]
async fn a_link_goes_or_stays_as_a_link() {
    let room = Room::new();
    std::fs::create_dir(room.path("d")).unwrap();
    room.put("f", "a\n");
    room.put("g", "b\n");
    symlink("f", room.path("link")).unwrap();
    symlink("d", room.path("to")).unwrap();
    symlink("../g", room.path("d/g")).unwrap();
    let patch = |body: &str| format!("*** Begin Patch\n{body}*** End Patch\n");
    assert_eq!(
        room.no_patch(&patch("*** Update File: link\n*** Move to: d/f\n-a\n+b\n"))
            .await,
        "link is a link, which a patch does not move; move the file that it leads to, f, or the \
         link with mv"
    );
    // A later step that fails leaves the link as it was.
    std::fs::set_permissions(room.path("g"), std::fs::Permissions::from_mode(0o444)).unwrap();
    let error = room
        .no_patch(&patch("*** Delete File: link\n*** Delete File: g\n"))
        .await;
    assert!(
        error.ends_with("all is put back, nothing is changed"),
        "{error}"
    );
    assert!(room.path("link").is_symlink());
    let answer = room
        .patch(&patch("*** Delete File: link\n*** Delete File: to/g\n"))
        .await;
    assert_eq!(answer, "the patch is applied:\nD link\nD to/g");
    assert_eq!(room.names(), ["d", "f", "g", "to"]);
    // What lies behind a link to a folder is itself no link.
    room.put("d/h", "h\n");
    room.patch(&patch("*** Update File: to/h\n*** Move to: h\n"))
        .await;
    assert_eq!(room.bytes("h"), b"h\n");
}

#[tokio::test]
async fn a_patch_has_a_most_of_files() {
    let room = Room::new();
    let sections = "*** Delete File: f\n".repeat(1001);
    assert_eq!(
        room.no_patch(&format!("*** Begin Patch\n{sections}*** End Patch\n"))
            .await,
        "patch line 1002: the patch changes more than 1000 files; make several of it; nothing is \
         changed"
    );
}

#[tokio::test]
async fn git_headers_alone_are_changes() {
    let room = Room::new();
    room.put("from", "a\n");
    room.put("gone", "");
    let answer = room
        .patch(
            "diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n\
             diff --git a/gone b/gone\ndeleted file mode 100644\nindex 0..0\n\
             diff --git a/from b/to x\nsimilarity index 100%\nrename from from\nrename to to x\n",
        )
        .await;
    assert_eq!(
        answer,
        "the patch is applied:\nA empty (0 lines)\nD gone\nR from -> to x (+0 -0)"
    );
    assert_eq!(room.names(), ["empty", "to x"]);
    room.patch(
        "diff --git a/to x b/back\nrename from to x\nrename to back\n--- a/to x\n+++ b/back\n\
         @@ -1 +1 @@\n-a\n+b\n",
    )
    .await;
    assert_eq!(room.bytes("back"), b"b\n");
}

#[tokio::test]
async fn a_patch_keeps_the_view_as_an_edit_does() {
    let room = Room::new();
    room.put("f", "a\nb\n");
    room.read("f").await;
    room.put("f", "a\nc\n");
    let answer = room.patch("--- f\n+++ f\n@@ -1 +1 @@\n-a\n+x\n").await;
    assert_eq!(
        answer,
        "the patch is applied:\nM f (+1 -1)\n(f had changed since you last read it; read it again \
         before you rely on the rest)"
    );
    room.fail("write", json!({"path": "f", "content": "lost"}))
        .await;
    room.read("f").await;
    room.patch("--- f\n+++ f\n@@ -1 +1 @@\n-x\n+y\n").await;
    room.write("f", "fine\n").await;
    room.patch("*** Begin Patch\n*** Delete File: f\n*** End Patch\n")
        .await;
    room.put("f", "fine\n");
    room.fail("write", json!({"path": "f", "content": "lost"}))
        .await;
    let output = room
        .call(
            "apply_patch",
            json!({"patch": "--- f\n+++ f\n@@ -1 +1 @@\n-fine\n+y\n"}),
        )
        .await
        .unwrap();
    assert_eq!(
        output.details.unwrap(),
        "--- f\n+++ f\n@@ -1 +1 @@\n-fine\n+y\n"
    );
}
