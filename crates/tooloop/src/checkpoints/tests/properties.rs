//! Any history of tools, commands, strangers and deaths, then a rewind to any turn.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// The paths that anything happens to.
const PATHS: [&str; 7] = ["a", "b", "d", "d/a", "d/e", "d/e/f", "l"];

#[derive(Debug, Clone)]
enum Act {
    Write(&'static str, u8, bool),
    Remove(&'static str),
    Folder(&'static str),
    Rename(&'static str, &'static str),
    Link(&'static str, &'static str),
    Mode(&'static str, u32),
}

#[derive(Debug, Clone)]
enum Move {
    Turn,
    Tool(Act),
    Command(Vec<Act>),
    Stranger(Act),
    /// A death before the act of a call, or after it.
    Death(Act, bool, bool),
    Restart,
    Rewind(u32),
    /// So much time passes that a file's times tell what came before.
    Pause,
}

fn path() -> impl Strategy<Value = &'static str> {
    select(&PATHS[..])
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (path(), any::<u8>(), any::<bool>()).prop_map(|(path, n, long)| Act::Write(path, n, long)),
        2 => path().prop_map(Act::Remove),
        1 => path().prop_map(Act::Folder),
        1 => (path(), path()).prop_map(|(from, to)| Act::Rename(from, to)),
        1 => (path(), path()).prop_map(|(at, to)| Act::Link(at, to)),
        1 => (path(), select(&[0o600_u32, 0o755][..])).prop_map(|(path, mode)| Act::Mode(path, mode)),
    ]
}

fn step() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => Just(Move::Turn),
        4 => act().prop_map(Move::Tool),
        4 => prop::collection::vec(act(), 0..4).prop_map(Move::Command),
        2 => act().prop_map(Move::Stranger),
        1 => (act(), any::<bool>(), any::<bool>()).prop_map(|(act, tool, done)| Move::Death(act, tool, done)),
        1 => Just(Move::Restart),
        2 => (1..6_u32).prop_map(Move::Rewind),
        1 => Just(Move::Pause),
    ]
}

/// Does what can be done, never through a link. Whatever is in the way goes first.
fn perform(root: &Path, act: &Act) {
    let clear = |path: &Path| {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(path).unwrap();
        } else {
            drop(fs::remove_file(path));
        }
    };
    let make_room = |name: &str| {
        let path = root.join(name);
        for folder in Path::new(name).ancestors().skip(1) {
            let folder = root.join(folder);
            if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
                clear(&folder);
            }
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        clear(&path);
        path
    };
    let is_real = |name: &str| {
        Path::new(name).ancestors().all(|part| {
            !fs::symlink_metadata(root.join(part)).is_ok_and(|found| found.is_symlink())
        })
    };
    match act {
        Act::Write(name, number, long) => {
            let content = vec![*number; if *long { 9 } else { 3 }];
            let path = root.join(name);
            if is_real(name) && path.is_file() {
                fs::write(path, content).unwrap();
            } else {
                fs::write(make_room(name), content).unwrap();
            }
        }
        Act::Remove(name) if is_real(name) || !root.join(name).is_dir() => clear(&root.join(name)),
        Act::Remove(_) => {}
        Act::Folder(name) => fs::create_dir(make_room(name)).unwrap(),
        Act::Rename(from, to) => {
            let is_inside = Path::new(to).starts_with(from) || Path::new(from).starts_with(to);
            if is_real(from) && root.join(from).exists() && !is_inside {
                let to = make_room(to);
                drop(fs::rename(root.join(from), to));
            }
        }
        Act::Link(name, to) => symlink(to, make_room(name)).unwrap(),
        Act::Mode(name, mode) => {
            if is_real(name) && root.join(name).exists() {
                chmod(
                    &root.join(name),
                    *mode | if root.join(name).is_dir() { 0o700 } else { 0 },
                );
            }
        }
    }
}

/// How many histories are tried: 64, or as many as a variable says.
fn cases() -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(64)
}

/// The paths whose state is another one.
fn different(
    one: &BTreeMap<PathBuf, There>,
    other: &BTreeMap<PathBuf, There>,
) -> BTreeSet<PathBuf> {
    one.keys()
        .chain(other.keys())
        .filter(|path| one.get(*path) != other.get(*path))
        .cloned()
        .collect()
}

fn run(moves: &[Move], is_git: bool) {
    let mut world = World::new();
    fs::write(world.path("a"), "first").unwrap();
    fs::create_dir(world.path("d")).unwrap();
    fs::write(world.path("d/a"), "first").unwrap();
    if is_git {
        world.commit();
    }
    let mut turn = 1;
    world.turn = turn;
    // How it was when each turn began, and which paths strangers have changed since.
    let mut begun = vec![(world.all(), BTreeSet::<PathBuf>::new())];
    // The paths that strangers were the last to change.
    let mut theirs = BTreeSet::<PathBuf>::new();
    for step in moves {
        let before = world.all();
        let mut is_stranger = false;
        // A file tool names what it changes: in this test, all that can change.
        let names = PATHS.iter().map(Path::new);
        let all = names.chain(before.keys().map(PathBuf::as_path));
        let tool = Touched::Files(all.map(|name| world.path(name)).collect());
        match step {
            Move::Turn => {
                turn += 1;
                world.turn = turn;
                begun.push((before.clone(), BTreeSet::new()));
            }
            Move::Tool(act) => {
                world.before(turn, &tool);
                perform(&world.path(""), act);
                world.after();
            }
            Move::Command(acts) => world.command(turn, |root| {
                acts.iter().for_each(|act| perform(root, act));
            }),
            Move::Stranger(act) => {
                is_stranger = true;
                perform(&world.path(""), act);
            }
            Move::Death(act, is_tool, is_done) => {
                world.before(turn, if *is_tool { &tool } else { &Touched::Anything });
                if *is_done {
                    perform(&world.path(""), act);
                }
                world.restart();
                // What strangers do until it is looked at would be taken for the call's.
                world.keeper.load(&never).unwrap();
            }
            Move::Restart => world.restart(),
            Move::Pause => before.keys().for_each(|path| world.grows_old(path)),
            Move::Rewind(to) => {
                let to = (*to).min(turn);
                let report = world.rewind(to);
                let now = world.all();
                let (then, strangers) = &begun[to as usize - 1];
                assert!(report.unknown.is_empty(), "{report:?}");
                let listed: BTreeSet<_> = report
                    .lost
                    .iter()
                    .map(|(path, _)| path)
                    .chain(&report.changed_by_others)
                    .collect();
                // What stands in the way, or is in the way of, one that is listed.
                let excused = |path: &Path| {
                    listed
                        .iter()
                        .any(|one| one.starts_with(path) || path.starts_with(one))
                };
                for path in different(then, &now) {
                    let stranger = strangers
                        .iter()
                        .any(|one| one.starts_with(&path) || path.starts_with(one));
                    assert!(
                        excused(&path) || stranger,
                        "{path:?} is not as in turn {to}: {report:?}\nthen {then:?}\nnow {now:?}"
                    );
                }
                // What a stranger did last stays, or was there already.
                for path in different(&before, &now) {
                    assert!(
                        !theirs.contains(&path) || now.get(&path) == then.get(&path),
                        "{path:?} of a stranger is changed: {report:?}"
                    );
                }
                let again = world.rewind(to);
                assert_eq!(world.all(), now, "twice is once: {again:?}");
                assert!(
                    again.restored.is_empty() && again.removed.is_empty(),
                    "{again:?}"
                );
            }
        }
        let changed = different(&before, &world.all());
        if is_stranger {
            begun
                .iter_mut()
                .for_each(|(_, strangers)| strangers.extend(changed.clone()));
            theirs.extend(changed);
        } else {
            theirs.retain(|path| !changed.contains(path));
        }
    }
}

/// A tool names a folder that it moves, and not what is in it; a command finds that there later.
#[test]
fn nothing_is_restored_below_a_folder_that_was_not_there() {
    let moves = [
        Move::Turn,
        Move::Tool(Act::Write("d/a", 0, false)),
        Move::Turn,
        Move::Tool(Act::Rename("d", "l")),
        Move::Command(vec![Act::Write("l", 0, false)]),
        Move::Rewind(2),
    ];
    for is_git in [false, true] {
        run(&moves, is_git);
    }
}

/// What is not restored, since a stranger has made another one of it, is made all the same for what
/// is restored below it.
#[test]
fn a_folder_that_a_rewind_makes_on_the_way_goes_with_the_next_one() {
    let moves = [
        Move::Turn,
        Move::Command(vec![Act::Remove("d")]),
        Move::Stranger(Act::Folder("d")),
        Move::Tool(Act::Remove("d")),
        Move::Turn,
        Move::Rewind(2),
        Move::Rewind(3),
    ];
    for is_git in [false, true] {
        run(&moves, is_git);
    }
}

/// Its folder was there when the turn began, whoever has removed it since.
#[test]
fn a_file_stays_that_a_rewind_has_restored_in_a_folder_that_it_made() {
    let moves = [
        Move::Command(vec![Act::Remove("d/a")]),
        Move::Stranger(Act::Remove("d")),
        Move::Rewind(1),
    ];
    for is_git in [false, true] {
        run(&moves, is_git);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_are_as_they_were_but_for_those_that_are_listed(
        moves in prop::collection::vec(step(), 1..24),
        is_git in any::<bool>(),
    ) {
        run(&moves, is_git);
    }
}
