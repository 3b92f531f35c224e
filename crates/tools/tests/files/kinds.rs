//! Reading things of all kinds.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;
use tooloop_model::{Content, Image};

use crate::room::{Room, text};

#[tokio::test]
async fn what_is_no_plain_file_is_refused_at_once() {
    // C32: nobody writes to the pipe, so an open that waits would wait for ever.
    let room = Room::new();
    mknodat(CWD, room.path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("pipe", room.path("link")).unwrap();
    let _listener = UnixListener::bind(room.path("socket")).unwrap();
    for (path, what) in [
        ("pipe", "a named pipe"),
        ("link", "a named pipe"),
        ("socket", "a socket"),
        ("/dev/zero", "a device"),
    ] {
        assert_eq!(
            room.fail("read", json!({ "path": path })).await,
            format!("{path} is {what}: only files and folders can be read")
        );
        let refused = format!("{path} is {what}, not a file");
        let edit = json!({"path": path, "old": "a", "new": "b"});
        assert_eq!(room.fail("edit", edit).await, refused);
        let write = json!({"path": path, "content": "b"});
        assert_eq!(room.fail("write", write).await, refused);
    }
}

#[tokio::test]
async fn a_folder_is_listed() {
    let room = Room::new();
    fs::create_dir(room.path("d")).unwrap();
    assert_eq!(room.read("d").await, "(d is an empty folder)");
    fs::create_dir(room.path("d/sub")).unwrap();
    symlink("sub", room.path("d/to")).unwrap();
    room.put("d/blank ", "");
    room.put("d/a", "");
    assert_eq!(
        room.read("d").await,
        "(d is a folder with 4 entries)\na\n\"blank \"\nsub/\nto (link)\n"
    );
    for number in 0..210 {
        room.put(&format!("d/{number:03}"), "");
    }
    let listing = room.read("d").await;
    assert!(
        listing.starts_with("(d is a folder with 214 entries)\n000\n"),
        "{listing}"
    );
    assert!(
        listing.ends_with("\n199\n(14 more are not listed)\n"),
        "{listing}"
    );
}

#[tokio::test]
async fn empty_and_oddly_named_files_are_read() {
    let room = Room::new();
    room.put("empty", "");
    assert_eq!(room.read("empty").await, "(empty is empty: 0 bytes)");
    room.write("empty", "full\n").await;
    room.put("name ", "x");
    assert_eq!(room.read("name ").await, "1\tx\n(no line end at the end)");
    assert_eq!(
        room.fail("read", json!({"path": "name"})).await,
        format!(
            "there is no file name; similar names in the workspace {}: \"name \"",
            room.workspace.display()
        )
    );
    // Its size is said to be 0.
    let status = room.read("/proc/self/status").await;
    assert!(status.starts_with("1\tName:"), "{status}");
}

#[tokio::test]
async fn a_missing_file_is_answered_with_what_is_near() {
    // C23: relative paths are paths of the workspace, whatever the shell did.
    let room = Room::new();
    let here = room.workspace.display();
    assert_eq!(
        room.fail("read", json!({"path": "main.rs"})).await,
        format!("there is no file main.rs: the workspace {here} is empty")
    );
    fs::create_dir(room.path("src")).unwrap();
    room.put("src/main.rs", "");
    room.put("src/maine.rs", "");
    room.put("src/Other", "");
    assert_eq!(
        room.fail("read", json!({"path": "src/mian.rs"})).await,
        "there is no file src/mian.rs; similar names in src: main.rs, maine.rs"
    );
    assert_eq!(
        room.fail("edit", json!({"path": "src/other", "old": "a", "new": "b"}))
            .await,
        "there is no file src/other; similar names in src: Other"
    );
    assert_eq!(
        room.fail("read", json!({"path": "src/zzz"})).await,
        "there is no file src/zzz: none of the 3 names in src is similar"
    );
    assert_eq!(
        room.fail("read", json!({"path": "src/no/such/file"})).await,
        format!(
            "there is no file src/no/such/file: there is no folder src/no/such; the nearest one \
             that exists is {here}/src"
        )
    );
    assert_eq!(
        room.fail("read", json!({"path": "~/a"})).await,
        "there is no file ~/a: ~ is not expanded, give the whole path"
    );
    assert_eq!(
        room.fail("read", json!({"path": ""})).await,
        "the path is empty"
    );
    assert_eq!(
        room.fail("read", json!({"path": "a\0b"})).await,
        "cannot open a\0b: file name contained an unexpected NUL byte"
    );
}

#[tokio::test]
async fn long_texts_are_cut_with_a_way_to_go_on() {
    let room = Room::new();
    let many: String = (1..=4812)
        .map(|number| format!("line {number}\n"))
        .collect();
    room.put("many", &many);
    let answer = room.read("many").await;
    assert!(
        answer.ends_with("\n2000\tline 2000\n(lines 1-2000 of 4812; go on with offset 2001)"),
        "{answer}"
    );
    room.put("wide", format!("{}\n", "ü".repeat(1500)).repeat(100));
    let answer = room.read("wide").await;
    assert!(answer.len() < 50_000);
    assert!(
        answer.ends_with("\n(lines 1-16 of 100; go on with offset 17)"),
        "{answer}"
    );
    // C32
    room.put("one", "x".repeat(5_000_000));
    let line = format!("1\t{}", "x".repeat(2000));
    assert_eq!(
        room.read("one").await,
        format!(
            "{line} ... (line cut, 5000000 bytes in all)\n(a shell command shows the rest of long \
             lines; no line end at the end)"
        )
    );
    room.put(
        "fits",
        format!("{}\n{}\n", "é".repeat(2000), "\u{1f600}".repeat(2000)),
    );
    assert_eq!(
        room.read("fits").await,
        format!("1\t{}\n2\t{}\n", "é".repeat(2000), "\u{1f600}".repeat(2000))
    );
    room.put("over", "\u{1f600}".repeat(2001));
    assert_eq!(
        room.read("over").await,
        format!(
            "1\t{} ... (line cut, 8004 bytes in all)\n(a shell command shows the rest of long \
             lines; no line end at the end)",
            "\u{1f600}".repeat(2000)
        )
    );
}

/// A file of more than 10 MiB, whose lines are numbered.
fn large(room: &Room) -> usize {
    let mut text = String::new();
    let mut count = 0;
    while text.len() <= (10 << 20) {
        count += 1;
        text.push_str(&format!("line {count} {}\r\n", "-".repeat(80)));
    }
    room.put("large", text);
    count
}

#[tokio::test]
async fn lines_far_into_a_file_have_their_numbers() {
    let room = Room::new();
    // Long enough to be counted by several threads, with lines that no piece ends with.
    let mut text = String::new();
    let mut count = 0_usize;
    while text.len() <= (40 << 20) {
        count += 1;
        text.push_str(&format!("line {count} {}\n", "-".repeat(count % 211)));
    }
    room.put("long", text);
    for offset in [2, count / 3, count / 2, count - 1, count] {
        let input = json!({"path": "long", "offset": offset, "limit": 1});
        let shown = room.ok("read", input).await;
        let line = format!("{offset}\tline {offset} ");
        assert!(shown.starts_with(&line), "{offset}: {shown}");
    }
    let offset = count + 1;
    assert_eq!(
        room.fail("read", json!({"path": "long", "offset": offset}))
            .await,
        format!("there is no line {offset}: long has {count} lines")
    );
}

#[tokio::test]
async fn large_files_are_read_in_parts_and_not_replaced() {
    let room = Room::new();
    let count = large(&room);
    let part = async |offset: i64, limit: i64| {
        let input = json!({"path": "large", "offset": offset, "limit": limit});
        room.ok("read", input).await
    };
    let line = |number: usize| format!("line {number} {}", "-".repeat(80));
    let first = format!(
        "1\t{}\n(lines 1 to 1 of a file of 10 MiB; go on with offset 2)",
        line(1)
    );
    assert_eq!(part(1, 1).await, first);
    // Again, and not a stub: nobody knows whether it has changed.
    assert_eq!(part(1, 1).await, first);
    let middle = format!(
        "77777\t{}\n(lines 77777 to 77777 of a file of 10 MiB; go on with offset 77778)",
        line(77777)
    );
    assert_eq!(part(77777, 1).await, middle);
    assert_eq!(part(77777, 1).await, middle);
    assert_eq!(
        part(i64::try_from(count).unwrap(), 9).await,
        format!(
            "{count}\t{}\n(lines {count} to {count}, the end of a file of 10 MiB)",
            line(count)
        )
    );
    assert_eq!(
        part(-2, 1).await,
        format!(
            "-2\t{}\n(lines -2 to -2 of a file of 10 MiB; go on with offset -1; line numbers count \
             from the end)",
            line(count - 1)
        )
    );
    assert_eq!(
        part(-1, 1).await,
        format!(
            "-1\t{}\n(the end of a file of 10 MiB; line numbers count from the end)",
            line(count)
        )
    );
    assert_eq!(part(-99_999_999, 1).await, first);
    for offset in [count + 1, count + 1_000_000] {
        assert_eq!(
            room.fail("read", json!({"path": "large", "offset": offset}))
                .await,
            format!("there is no line {offset}: large has {count} lines")
        );
    }
    assert_eq!(
        room.fail("write", json!({"path": "large", "content": "x"}))
            .await,
        "large is too large, 10 MiB: such a file is not replaced as a whole; change parts of it \
         with edit"
    );
    room.edit("large", "line 77777 -", "LINE\n").await;
    let changed = room.bytes("large");
    assert_eq!(
        part(77777, 1).await,
        "77777\tLINE\n(lines 77777 to 77777 of a file of 10 MiB; go on with offset 77778)"
    );
    assert!(changed.windows(6).any(|bytes| bytes == b"LINE\r\n"));
}

#[tokio::test]
async fn a_sparse_file_is_binary_and_said_to_be() {
    // C32
    let room = Room::new();
    File::create(room.path("sparse"))
        .unwrap()
        .set_len(3 << 30)
        .unwrap();
    assert_eq!(
        room.fail("read", json!({"path": "sparse"})).await,
        "sparse is not text: binary, 3072 MiB"
    );
    assert_eq!(
        room.fail("edit", json!({"path": "sparse", "old": "a", "new": "b"}))
            .await,
        "sparse is too large, 3072 MiB: a shell command such as sed can change it"
    );
    room.put("elf", b"\x7fELF\x02\x01\x01\0\0\0");
    assert_eq!(
        room.fail("read", json!({"path": "elf"})).await,
        "elf is not text: an ELF program or library, 10 bytes"
    );
    assert_eq!(
        room.fail("write", json!({"path": "elf", "content": "x"}))
            .await,
        "elf exists and is not text (an ELF program or library, 10 bytes), so it is not replaced; \
         remove it first if it is to go"
    );
}

#[tokio::test]
async fn an_unchanged_part_is_said_to_be_once() {
    let room = Room::new();
    room.put("a", "1\n2\n");
    let stub = "(a is unchanged since you last read this part of it. If you no longer have the \
                text, read it again: it will be shown.)";
    let full = "1\t1\n2\t2\n";
    assert_eq!(room.read("a").await, full);
    assert_eq!(room.read("a").await, stub);
    assert_eq!(room.read("a").await, full);
    assert_eq!(room.read("a").await, full);
    // Another content, and the same again, are news.
    room.put("a", "3\n");
    assert_eq!(room.read("a").await, "1\t3\n");
    assert_eq!(room.read("a").await, stub);
    room.edit("a", "3", "4").await;
    assert_eq!(room.read("a").await, "1\t4\n");
    let part = json!({"path": "a", "limit": 1});
    assert_eq!(room.ok("read", part.clone()).await, "1\t4\n");
    assert_eq!(room.ok("read", part).await, stub);
}

fn utf16(text: &str, is_big: bool) -> Vec<u8> {
    std::iter::once(0xfeff)
        .chain(text.encode_utf16())
        .flat_map(|unit: u16| {
            if is_big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        })
        .collect()
}

#[tokio::test]
async fn other_encodings_are_readable_and_kept() {
    let room = Room::new();
    for (is_big, name) in [(false, "UTF-16LE"), (true, "UTF-16BE")] {
        room.put("a", utf16("één\r\ntwo\r\n", is_big));
        assert_eq!(
            room.read("a").await,
            format!("1\téén\n2\ttwo\n(CRLF line ends; encoding {name})")
        );
        room.edit("a", "één\nt", "日\nT").await;
        assert_eq!(room.bytes("a"), utf16("日\r\nTwo\r\n", is_big));
        room.read("a").await;
        assert_eq!(
            room.write("a", "új\n").await,
            "replaced a (1 line, 10 bytes; line ends CRLF, as before; UTF-16, as before)"
        );
        assert_eq!(room.bytes("a"), utf16("új\r\n", is_big));
        // Half a pair of surrogates would be lost.
        let mut broken = utf16("x", is_big);
        broken.extend([0xd8, 0xd8]);
        room.put("a", &broken);
        assert_eq!(
            room.read("a").await,
            format!(
                "1\tx\\u{{d8d8}}\n(no line end at the end; encoding {name}; bytes that are no text \
                 are shown as \\xNN)"
            )
        );
        room.no_edit("a", "x", "y").await;
    }
    room.put("b", b"\xef\xbb\xbfone\n");
    assert_eq!(
        room.read("b").await,
        "1\tone\n(the file starts with a byte order mark)"
    );
    assert_eq!(
        room.write("b", "two\n").await,
        "replaced b (1 line, 7 bytes; byte order mark, as before)"
    );
    assert_eq!(room.bytes("b"), b"\xef\xbb\xbftwo\n");
    room.put(
        "c",
        "žluťoučký\nkůň \u{0}"
            .as_bytes()
            .iter()
            .map(|byte| if *byte == 0 { 0xff } else { *byte })
            .collect::<Vec<u8>>(),
    );
    assert_eq!(
        room.read("c").await,
        "1\tžluťoučký\n2\tkůň \\xff\n(no line end at the end; not valid UTF-8: bytes that are no \
         text are shown as \\xNN)"
    );
    room.put("d", b"a\x81\xe9\r\nb\n");
    assert_eq!(
        room.read("d").await,
        "1\ta\\x81é\n2\tb\n(some line ends are CRLF, some LF; not UTF-8: shown as Windows-1252, a \
         guess; bytes that are no text are shown as \\xNN)"
    );
    assert_eq!(
        room.write("d", "é").await,
        "replaced d (1 line, 2 bytes; UTF-8, which it was not before)"
    );
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes
}

#[tokio::test]
async fn pictures_are_shown_within_bounds() {
    let room = Room::new();
    let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\0\x02\0\x03rest";
    let gif = b"GIF89a\x04\0\x05\0";
    let lossy = b"RIFF....WEBPVP8 ....\0\0\0\x9d\x01\x2a\x06\0\x07\x40";
    let lossless = b"RIFF....WEBPVP8L....\x2f\x07\x00\x02\x00";
    let extended = b"RIFF....WEBPVP8X....\0\0\0\0\x0a\0\0\x0b\0\0";
    for (bytes, media_type, sides) in [
        (png(1, 2).as_slice(), "image/png", "1 x 2"),
        (jpeg, "image/jpeg", "3 x 2"),
        (gif, "image/gif", "4 x 5"),
        (lossy, "image/webp", "6 x 7"),
        (lossless, "image/webp", "8 x 9"),
        (extended, "image/webp", "11 x 12"),
    ] {
        room.put("picture", bytes);
        let output = room.call("read", json!({"path": "picture"})).await.unwrap();
        let [
            Content::Text(text),
            Content::Image(Image {
                media_type: found,
                data,
            }),
        ] = output.content.as_slice()
        else {
            panic!("{output:?}");
        };
        let words = format!("{media_type}, {sides} pixels, {} bytes", bytes.len());
        assert_eq!(*text, format!("(picture: {words})"));
        assert_eq!(output.details.as_deref(), Some(words.as_str()));
        assert_eq!(found, media_type);
        assert!(data.len() >= bytes.len() && data.is_ascii());
    }
    let stub = room.call("read", json!({"path": "picture"})).await.unwrap();
    assert!(text(&stub).starts_with("(picture is unchanged"));
    room.put("wide", png(8001, 1));
    assert_eq!(
        room.fail("read", json!({"path": "wide"})).await,
        "wide is a picture of 8001 x 1 pixels: more than 8000 a side cannot be shown; make a \
         smaller copy and read that"
    );
    for length in [4 << 20, 11 << 20] {
        let mut heavy = png(1, 1);
        heavy.resize(length, 0);
        room.put("heavy", heavy);
        assert_eq!(
            room.fail("read", json!({"path": "heavy"})).await,
            format!(
                "heavy is a picture of {}: more than 3840 KiB cannot be shown; make a smaller copy \
                 and read that",
                if length == 4 << 20 {
                    "4096 KiB"
                } else {
                    "11 MiB"
                }
            )
        );
    }
    room.put("cut", b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        room.fail("read", json!({"path": "cut"})).await,
        "cut begins as image/png, 8 bytes, but it is cut or broken: it states no width and height"
    );
}

#[tokio::test]
async fn the_whole_of_what_is_read_lies_in_its_file() {
    let room = Room::new();
    room.put("a", "1\n");
    symlink("a", room.path("link")).unwrap();
    let output = room.call("read", json!({"path": "link"})).await.unwrap();
    assert_eq!(output.source, Some(room.path("a")));
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let room = Room::new();
    room.put("a", "1\n");
    room.context.cancellation.cancel();
    for (name, input) in [
        ("read", json!({"path": "a"})),
        ("write", json!({"path": "b", "content": ""})),
        ("edit", json!({"path": "a", "old": "1", "new": "2"})),
        (
            "apply_patch",
            json!({"patch": "--- a\n+++ a\n@@\n-1\n+2\n"}),
        ),
    ] {
        assert_eq!(room.fail(name, input).await, "cancelled");
    }
    assert_eq!(room.bytes("a"), b"1\n");
    assert_eq!(room.names(), ["a"]);
}
