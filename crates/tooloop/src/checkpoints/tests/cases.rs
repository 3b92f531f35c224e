//! One thing at a time.

use super::*;

#[test]
fn what_tools_and_commands_change_is_restored() {
    for is_git in [false, true] {
        let mut world = World::new();
        for name in ["kept", "edited", "removed", "moved", "both"] {
            fs::write(world.path(name), name).unwrap();
        }
        fs::create_dir(world.path("folder")).unwrap();
        fs::write(world.path("folder/in"), "in").unwrap();
        chmod(&world.path("edited"), 0o750);
        symlink("kept", world.path("link")).unwrap();
        if is_git {
            world.commit();
        }
        let first = world.all();
        world.tool(1, &["both", "new/er/file"], |root| {
            fs::write(root.join("both"), "by a tool").unwrap();
            fs::create_dir_all(root.join("new/er")).unwrap();
            fs::write(root.join("new/er/file"), "new").unwrap();
        });
        let second = world.all();
        world.command(2, |root| {
            fs::write(root.join("both"), "by a command").unwrap();
            fs::write(root.join("edited"), "other").unwrap();
            chmod(&root.join("edited"), 0o600);
            fs::remove_file(root.join("removed")).unwrap();
            fs::rename(root.join("moved"), root.join("to")).unwrap();
            fs::remove_dir_all(root.join("folder")).unwrap();
            fs::write(root.join("folder"), "a file now").unwrap();
            fs::remove_file(root.join("link")).unwrap();
            fs::create_dir(root.join("link")).unwrap();
            fs::write(root.join("link/deep"), "deep").unwrap();
        });
        let third = world.all();
        let report = world.rewind(2);
        assert_eq!(world.all(), second, "{report:?}");
        assert_eq!(report.removed, paths(&["link/deep", "to"]));
        assert_eq!((report.lost.len(), report.changed_by_others.len()), (0, 0));
        // It can be undone, and that too.
        world.rewind_as(Back::Rewind, How::default());
        assert_eq!(world.all(), third);
        world.rewind_as(Back::Rewind, How::default());
        assert_eq!(world.all(), second);
        world.restart();
        world.rewind(1);
        assert_eq!(world.all(), first);
        assert!(world.rewind(1).is_empty());
    }
}

#[test]
fn what_somebody_else_changed_is_left_alone() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d"] {
        fs::write(world.path(name), "old").unwrap();
    }
    world.tool(1, &["a", "b"], |root| {
        fs::write(root.join("a"), "tool").unwrap();
        fs::write(root.join("b"), "tool").unwrap();
    });
    world.command(1, |root| {
        fs::write(root.join("c"), "command").unwrap();
        fs::write(root.join("d"), "command").unwrap();
    });
    // After the last call, and between two calls.
    fs::write(world.path("a"), "mine").unwrap();
    fs::write(world.path("c"), "mine").unwrap();
    world.command(1, |root| fs::write(root.join("c"), "again").unwrap());
    fs::write(world.path("mine"), "mine").unwrap();
    let dry = How {
        dry: true,
        ..How::default()
    };
    let before = world.all();
    let told = world.rewind_as(Back::Turn(1), dry);
    assert_eq!(world.all(), before);
    let done = world.rewind(1);
    assert_eq!(told, done);
    assert_eq!(done.restored, paths(&["b", "d"]));
    assert_eq!(done.changed_by_others, paths(&["a", "c"]));
    assert_eq!(fs::read(world.path("a")).unwrap(), b"mine");
    assert_eq!(fs::read(world.path("c")).unwrap(), b"again");
    let force = How {
        force: true,
        ..How::default()
    };
    let forced = world.rewind_as(Back::Turn(1), force);
    assert_eq!(forced.restored, paths(&["a", "c"]));
    assert_eq!(fs::read(world.path("a")).unwrap(), b"old");
    assert_eq!(fs::read(world.path("mine")).unwrap(), b"mine");
    // Even that is undone.
    world.rewind_as(Back::Rewind, How::default());
    assert_eq!(fs::read(world.path("a")).unwrap(), b"mine");
}

#[test]
fn a_folder_with_the_files_of_others_stays() {
    let mut world = World::new();
    world.command(1, |root| {
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("out/made"), "made").unwrap();
    });
    fs::write(world.path("out/mine"), "mine").unwrap();
    let report = world.rewind(1);
    assert_eq!(report.removed, paths(&["out/made"]));
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert_eq!(report.lost[0].0, Path::new("out"));
    assert_eq!(fs::read(world.path("out/mine")).unwrap(), b"mine");
}

#[test]
fn nothing_outside_of_the_workspace_is_touched() {
    let mut world = World::new();
    let outside = world.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "theirs").unwrap();
    fs::create_dir(world.path("folder")).unwrap();
    fs::write(world.path("folder/f"), "ours").unwrap();
    world.before(1, &Touched::Files(vec![outside.join("f")]));
    fs::write(outside.join("f"), "changed").unwrap();
    world.after();
    world.tool(1, &["folder/f"], |root| {
        fs::write(root.join("folder/f"), "changed").unwrap();
    });
    // A link takes the folder's place.
    fs::rename(world.path("folder"), world.path("elsewhere")).unwrap();
    symlink(&outside, world.path("folder")).unwrap();
    let force = How {
        force: true,
        ..How::default()
    };
    let report = world.rewind_as(Back::Turn(1), force);
    assert_eq!(fs::read(outside.join("f")).unwrap(), b"changed");
    let lost: Vec<_> = report.lost.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(lost, [outside.join("f"), "folder/f".into()], "{report:?}");
    assert!(
        report.lost[1].1.contains("a link is on the way"),
        "{report:?}"
    );
    assert!(report.restored.is_empty());
}

#[test]
fn names_need_not_be_text() {
    for is_git in [false, true] {
        let mut world = World::new();
        let name = OsString::from_vec(b"na\xffme \n".to_vec());
        fs::write(world.path(&name), "old").unwrap();
        if is_git {
            world.commit();
        }
        let first = world.all();
        world.command(1, |root| fs::write(root.join(&name), "new").unwrap());
        let path = world.path(&name);
        world.before(2, &Touched::Files(vec![path.clone()]));
        fs::remove_file(&path).unwrap();
        world.after();
        world.restart();
        world.rewind(1);
        assert_eq!(world.all(), first);
    }
}

#[test]
fn what_the_rules_leave_out_is_never_taken_for_new() {
    let mut world = World::new();
    fs::write(world.path(".gitignore"), "*.log\nsecret\n").unwrap();
    fs::write(world.path("secret"), "mine").unwrap();
    fs::write(world.path("a.log"), "mine").unwrap();
    world.grows_old("secret");
    world.grows_old("a.log");
    world.command(1, |root| {
        fs::write(root.join(".gitignore"), "*.log\n").unwrap()
    });
    // Now `secret` is one of the files that are looked at. Let the next look walk.
    world.command(1, |root| {
        fs::write(root.join(".gitignore"), "").unwrap();
        fs::write(root.join("made"), "made").unwrap();
        // Even a change of it is known only to be one.
        fs::write(root.join("a.log"), "command").unwrap();
    });
    let report = world.rewind(1);
    assert_eq!(report.removed, paths(&["made"]), "{report:?}");
    assert_eq!(fs::read(world.path("secret")).unwrap(), b"mine");
    assert!(world.path("a.log").exists());
    let lost: Vec<_> = report.lost.iter().map(|(path, _)| path.clone()).collect();
    assert!(lost.contains(&"a.log".into()), "{report:?}");
}

#[test]
fn an_ignored_file_that_a_tool_named_is_looked_at() {
    let mut world = World::new();
    fs::write(world.path(".gitignore"), "*.log\n").unwrap();
    fs::write(world.path("a.log"), "old").unwrap();
    world.tool(1, &["a.log"], |root| {
        fs::write(root.join("a.log"), "one").unwrap()
    });
    world.command(1, |root| fs::write(root.join("a.log"), "two").unwrap());
    let report = world.rewind(1);
    assert_eq!(report.restored, paths(&["a.log"]));
    assert_eq!(fs::read(world.path("a.log")).unwrap(), b"old");
}

#[test]
fn what_is_too_large_or_special_is_listed() {
    let bounds = Bounds {
        file: 10,
        ..Bounds::default()
    };
    let mut world = World::bounded(bounds, 1 << 30);
    fs::write(world.path("large"), "more than ten bytes").unwrap();
    fs::write(world.path("small"), "few").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("pipe"), 0o600.into()).unwrap();
    world.command(1, |root| {
        fs::write(root.join("large"), "another large content").unwrap();
        fs::write(root.join("small"), "other").unwrap();
        fs::remove_file(root.join("pipe")).unwrap();
    });
    let report = world.rewind(1);
    assert_eq!(report.restored, paths(&["small"]));
    let lost: Vec<_> = report.lost.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(lost, paths(&["large", "pipe"]), "{report:?}");
}

#[test]
fn a_workspace_that_is_too_large_is_said_to_be() {
    let bounds = Bounds {
        entries: 3,
        ..Bounds::default()
    };
    let mut world = World::bounded(bounds, 1 << 30);
    for name in ["a", "b", "c", "d"] {
        fs::write(world.path(name), "old").unwrap();
    }
    world.command(1, |root| fs::write(root.join("a"), "new").unwrap());
    world.tool(1, &["b"], |root| fs::write(root.join("b"), "new").unwrap());
    let trouble = world.keeper.store.take_trouble().unwrap();
    assert!(trouble.contains("more than 3 files"), "{trouble}");
    let report = world.rewind(1);
    assert_eq!(report.restored, paths(&["b"]));
    assert!(report.unknown[0].contains("turn 1"), "{report:?}");
}

#[test]
fn the_oldest_contents_go_first() {
    let mut world = World::bounded(Bounds::default(), 100_000);
    let content = |turn: u32| vec![u8::try_from(turn).unwrap(); 9_000];
    fs::write(world.path("f"), content(0)).unwrap();
    for turn in 1..=30 {
        world.tool(turn, &["f"], |root| {
            fs::write(root.join("f"), content(turn)).unwrap();
        });
        assert!(world.keeper.store.blobs.bytes() <= 100_000);
    }
    let report = world.rewind(2);
    assert_eq!(report.lost.len(), 1, "{report:?}");
    assert!(report.lost[0].1.contains("to make room"));
    assert_eq!(fs::read(world.path("f")).unwrap(), content(30));
    world.rewind(28);
    assert_eq!(fs::read(world.path("f")).unwrap(), content(27));
    assert_eq!(world.keeper.store.take_trouble(), None);
}

#[test]
fn what_finds_no_room_is_told_once_and_listed() {
    let mut world = World::bounded(Bounds::default(), 1_000);
    fs::write(world.path("f"), vec![1; 2_000]).unwrap();
    for turn in 1..=2 {
        world.tool(turn, &["f"], |root| {
            fs::write(root.join("f"), [2; 2_001]).unwrap()
        });
    }
    assert!(
        world
            .keeper
            .store
            .take_trouble()
            .unwrap()
            .contains("not kept")
    );
    assert_eq!(world.keeper.store.take_trouble(), None);
    let report = world.rewind(1);
    assert_eq!(report.lost.len(), 1, "{report:?}");
}

#[test]
fn a_folder_that_cannot_be_written_stops_nothing() {
    let mut world = World::new();
    fs::write(world.root().join("sessions"), "a file in the way").unwrap();
    fs::write(world.path("f"), "old").unwrap();
    world.tool(1, &["f"], |root| fs::write(root.join("f"), "new").unwrap());
    world.command(1, |root| fs::write(root.join("f"), "newer").unwrap());
    assert!(world.keeper.store.take_trouble().is_some());
    let rewound = world
        .keeper
        .rewind(Back::Turn(1), 0, How::default(), false, &never);
    assert_eq!(rewound.unwrap().lost.len(), 1);
    assert_eq!(fs::read(world.path("f")).unwrap(), b"newer");
}

#[test]
fn what_background_work_changes_is_the_sessions_own() {
    let mut world = World::new();
    fs::write(world.path("f"), "old").unwrap();
    world.before(1, &Touched::Anything);
    world.keeper.after(true, &never);
    fs::write(world.path("f"), "by the job").unwrap();
    world
        .keeper
        .before(1, "c", &Touched::Anything, false, &never)
        .unwrap();
    world.after();
    fs::write(world.path("other"), "mine").unwrap();
    let report = world.rewind(1);
    assert_eq!(report.restored, paths(&["f"]));
    assert_eq!(fs::read(world.path("f")).unwrap(), b"old");
    assert!(world.path("other").exists());
}

#[test]
fn a_command_that_died_with_the_harness_is_rewound() {
    for is_git in [false, true] {
        let mut world = World::new();
        fs::write(world.path("f"), "old").unwrap();
        fs::write(world.path("g"), "old").unwrap();
        if is_git {
            world.commit();
        }
        world.command(1, |root| fs::write(root.join("g"), "one").unwrap());
        fs::write(world.path("mine"), "mine").unwrap();
        world.before(2, &Touched::Anything);
        fs::write(world.path("f"), "new").unwrap();
        fs::write(world.path("made"), "new").unwrap();
        world.restart();
        let report = world.rewind(2);
        assert_eq!(report.restored, paths(&["f"]), "{report:?}");
        assert_eq!(report.removed, paths(&["made"]));
        assert!(world.path("mine").exists());
        assert_eq!(fs::read(world.path("g")).unwrap(), b"one");
        world.rewind(1);
        assert_eq!(fs::read(world.path("g")).unwrap(), b"old");
    }
}

#[test]
fn a_content_that_git_keeps_in_another_form_is_not_taken() {
    let mut world = World::new();
    fs::write(world.path(".gitattributes"), "*.txt text eol=crlf\n").unwrap();
    fs::write(world.path("f.txt"), "one\r\ntwo\r\n").unwrap();
    world.commit();
    world.command(1, |root| fs::write(root.join("f.txt"), "new").unwrap());
    let report = world.rewind(1);
    // Either it was copied, since it was too new to trust git, or it is listed.
    let content = fs::read(world.path("f.txt")).unwrap();
    let is_listed = !report.lost.is_empty();
    assert!(
        content == b"one\r\ntwo\r\n" || is_listed && content == b"new",
        "{report:?}"
    );
}

#[test]
fn what_is_changed_again_in_the_same_moment_is_found() {
    let mut world = World::new();
    let content = |turn: u32| turn.to_string();
    fs::write(world.path("f"), content(10)).unwrap();
    for turn in 11..40 {
        // In place and of one length: only the time can tell, and that moves in steps.
        world.command(turn, |root| {
            fs::write(root.join("f"), content(turn)).unwrap()
        });
        world.command(turn, |root| {
            fs::write(root.join(format!("new{turn}")), "").unwrap();
        });
    }
    for turn in (11..40).rev() {
        world.rewind(turn);
        assert_eq!(
            fs::read_to_string(world.path("f")).unwrap(),
            content(turn - 1)
        );
        assert!(!world.path(format!("new{turn}")).exists());
    }
}

#[test]
fn what_a_call_met_before_a_death_is_not_taken_for_the_dead_ones_doing() {
    let mut world = World::new();
    fs::write(world.path("f"), "old").unwrap();
    world.command(1, |_| ());
    fs::write(world.path("f"), "mine").unwrap();
    world.tool(1, &["f"], |_| ());
    world.before(1, &Touched::Anything);
    world.restart();
    let report = world.rewind(1);
    assert!(report.is_empty(), "{report:?}");
    assert_eq!(fs::read(world.path("f")).unwrap(), b"mine");
}

/// The times of what is in a folder do not change when that is moved.
#[test]
fn an_old_folder_that_a_command_moves_comes_back_whole() {
    for is_git in [false, true] {
        let mut world = World::new();
        fs::create_dir_all(world.path("d/e")).unwrap();
        fs::write(world.path("d/e/f"), "old").unwrap();
        if is_git {
            world.commit();
        }
        let then = world.all();
        world.grows_old("d/e/f");
        world.command(1, |_| {});
        world.command(1, |root| {
            fs::rename(root.join("d"), root.join("g")).unwrap()
        });
        let report = world.rewind(1);
        assert_eq!(world.all(), then, "{report:?}");
        assert!(report.lost.is_empty(), "{report:?}");
    }
}
