//! What is still known of files after a conversation was summed up.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tooloop_tool::{Carried, Withheld};

use crate::room::Room;

async fn carried(room: &Room, withheld: &Withheld) -> Vec<Carried> {
    room.tool("read").carried(withheld).await
}

/// The names of the files, newest first.
async fn names(room: &Room) -> Vec<String> {
    let carried = carried(room, &Withheld::nothing()).await;
    let name = |one: Carried| one.title.rsplit('/').next().unwrap().to_owned();
    carried.into_iter().map(name).collect()
}

#[tokio::test]
async fn files_that_were_met_lately_are_carried_over_as_they_are_now() {
    let room = Room::new();
    assert_eq!(carried(&room, &Withheld::nothing()).await, []);
    for name in ["a", "b", "c", "d", "e", "f"] {
        room.put(name, format!("the text of {name}\n"));
        room.read(name).await;
    }
    assert_eq!(names(&room).await, ["f", "e", "d", "c", "b"]);
    room.edit("b", "text", "new text").await;
    room.write("g", "just written\n").await;
    room.read("d").await;
    assert_eq!(names(&room).await, ["d", "g", "b", "f", "e"]);
    // Somebody else has changed it.
    room.put("e", "of another\n");
    let carried = carried(&room, &Withheld::nothing()).await;
    assert_eq!(carried[2].title, room.path("b").display().to_string());
    let texts: Vec<_> = carried.iter().map(|one| one.text.as_str()).collect();
    let expected = [
        "1\tthe text of d\n",
        "1\tjust written\n",
        "1\tthe new text of b\n",
        "1\tthe text of f\n",
        "1\tof another\n",
    ];
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn what_may_not_be_read_or_is_no_file_any_more_is_left_out() {
    let room = Room::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        room.put(name, name);
        room.read(name).await;
    }
    fs::remove_file(room.path("h")).unwrap();
    fs::remove_file(room.path("g")).unwrap();
    fs::create_dir(room.path("g")).unwrap();
    fs::remove_file(room.path("f")).unwrap();
    room.put("elsewhere", "a secret");
    symlink(room.path("elsewhere"), room.path("f")).unwrap();
    room.put("e", b"a\0b");
    assert_eq!(names(&room).await, ["d", "c", "b", "a"]);
    let secret = room.path("c");
    let withheld = Withheld::by(move |path| path == secret);
    let left = carried(&room, &withheld).await;
    assert_eq!(left.len(), 3);
    assert!(
        left.iter().all(|one| !one.title.ends_with("/c")),
        "{left:?}"
    );
}

#[tokio::test]
async fn what_was_read_and_thrown_away_is_not_carried_over() {
    let room = Room::new();
    room.put("a", "text");
    room.read("a").await;
    room.context.cancellation.cancel();
    assert_eq!(names(&room).await, [""; 0]);
}

#[tokio::test]
async fn a_long_file_is_carried_over_in_part() {
    let room = Room::new();
    let lines: String = (1..4000).map(|line| format!("line é {line}\n")).collect();
    room.put("long", &lines);
    room.put("wide", "é".repeat(1900));
    room.ok(
        "read",
        json!({ "path": "long", "offset": 1001, "limit": 3 }),
    )
    .await;
    let part = carried(&room, &Withheld::nothing()).await.remove(0).text;
    assert!(part.starts_with("1001\tline é 1001\n1002\t"), "{part}");
    assert!(part.len() < 200, "{part}");
    room.read("long").await;
    let whole = carried(&room, &Withheld::nothing()).await.remove(0).text;
    assert!((17_000..=17_500).contains(&whole.len()), "{}", whole.len());
    let cut = whole
        .strip_suffix("\n(cut here: read the rest if you need it)")
        .unwrap();
    let last = cut.rsplit('\n').next().unwrap();
    let number = last.split('\t').next().unwrap();
    assert_eq!(last, format!("{number}\tline é {number}"));
}

#[tokio::test]
async fn what_was_carried_over_is_shown_whole_when_it_is_read_again() {
    let room = Room::new();
    room.put("a", "text\n");
    let text = room.read("a").await;
    carried(&room, &Withheld::nothing()).await;
    assert_eq!(room.read("a").await, text);
}
