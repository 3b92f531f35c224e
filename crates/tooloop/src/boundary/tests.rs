use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::git;
use super::*;

fn scratch() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    (folder, path)
}

/// Runs git; `false`: there is none, and the test has nothing to look at.
fn git_in(folder: &Path, arguments: &[&str]) -> bool {
    let ran = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@x"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output();
    match ran {
        Ok(output) => {
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            true
        }
        Err(error) => {
            println!("skipped: git cannot be run here: {error}");
            false
        }
    }
}

fn repository(folder: &Path) -> bool {
    fs::create_dir_all(folder).unwrap();
    git_in(folder, &["init", "-q"]) && git_in(folder, &["commit", "-q", "--allow-empty", "-m", "x"])
}

#[test]
fn a_workspace_is_writable_but_for_what_programs_obey() {
    let (_scratch, path) = scratch();
    let workspace = path.join("w");
    if !repository(&workspace) {
        return;
    }
    let boundary = Boundary::draw(&BoundarySettings {
        protected: &[".other"],
        ..BoundarySettings::new(&workspace, &path.join("temp"))
    });
    assert_eq!(boundary.writable, std::slice::from_ref(&workspace));
    let table = [
        ("a", true),
        (".git/index.lock", true),
        (".git/packed-refs.lock", true),
        (".git/HEAD.lock", true),
        (".git/hooks/post-commit", false),
        (".git/config", false),
        (".git/config.worktree", false),
        (".git/info/attributes", false),
        (".git/commondir", false),
        (".tooloop/config.toml", false),
        (".other/settings", false),
        ("sub/.tooloop/x", true),
        ("../outside", false),
        ("../temp/x", true),
    ];
    for (name, expected) in table {
        let path = crate::paths::normal(&workspace.join(name));
        assert_eq!(boundary.lets_write(&path), expected, "{name}");
    }
}

#[test]
fn a_linked_worktree_can_commit_and_nothing_more() {
    let (_scratch, path) = scratch();
    let main = path.join("r");
    if !repository(&main) || !git_in(&main, &["worktree", "add", "-q", "../w2"]) {
        return;
    }
    let tree = path.join("w2");
    let boundary = Boundary::draw(&BoundarySettings::new(&tree, &path.join("temp")));
    assert_eq!(boundary.writable, [main.join(".git"), tree.clone()]);
    for name in [
        "objects/aa",
        "refs/heads/w2.lock",
        "logs/HEAD",
        "packed-refs.lock",
        "worktrees/w2/index.lock",
        "worktrees/w2/HEAD.lock",
    ] {
        assert!(boundary.lets_write(&main.join(".git").join(name)), "{name}");
    }
    for name in [
        "hooks/post-commit",
        "config",
        "config.worktree",
        "info/exclude",
        "worktrees/w2/commondir",
        "worktrees/w2/gitdir",
        "worktrees/w2/config.worktree",
    ] {
        let path = main.join(".git").join(name);
        assert!(!boundary.lets_write(&path), "{name}");
    }
    assert!(!boundary.lets_write(&tree.join(".git")));
    assert!(!boundary.lets_write(&main.join("file")));
}

#[test]
fn a_file_that_leads_to_a_foreign_place_is_not_believed() {
    let (_scratch, path) = scratch();
    let other = path.join("other");
    if !repository(&other) {
        return;
    }
    let workspace = path.join("w");
    fs::create_dir_all(&workspace).unwrap();
    // Another's repository, a folder that is none, and one with all marks of a worktree but the
    // way back.
    let bare = path.join("home");
    fs::create_dir_all(bare.join("worktrees/x")).unwrap();
    fs::write(bare.join("worktrees/x/commondir"), "../..\n").unwrap();
    fs::write(bare.join("worktrees/x/gitdir"), "/elsewhere/.git\n").unwrap();
    fs::write(bare.join("HEAD"), "ref: x\n").unwrap();
    fs::create_dir_all(bare.join("objects")).unwrap();
    fs::create_dir_all(bare.join("refs")).unwrap();
    for target in [
        other.join(".git"),
        path.clone(),
        bare.join("worktrees/x"),
        path.join("none"),
    ] {
        fs::write(
            workspace.join(".git"),
            format!("gitdir: {}\n", target.display()),
        )
        .unwrap();
        let found = git::folders(&workspace);
        assert_eq!(found.writable, [] as [PathBuf; 0], "{target:?}");
        assert_eq!(found.protected, [workspace.join(".git")]);
    }
    fs::remove_file(workspace.join(".git")).unwrap();
    symlink(other.join(".git"), workspace.join(".git")).unwrap();
    assert_eq!(git::folders(&workspace).writable, [] as [PathBuf; 0]);
}

#[test]
fn a_repository_that_lies_elsewhere_can_commit() {
    let (_scratch, path) = scratch();
    let tree = |name: &str| path.join(name).join("w");
    let make = |name: &str| repository(&tree(name));
    if !["apart", "linked", "objects", "chain", "foreign"]
        .into_iter()
        .all(make)
    {
        return;
    }
    git_in(
        &tree("apart"),
        &["init", "-q", "--separate-git-dir", "../store"],
    );
    for name in ["linked", "chain"] {
        fs::rename(tree(name).join(".git"), path.join(name).join("store")).unwrap();
    }
    symlink("../store", tree("linked").join(".git")).unwrap();
    symlink("store", path.join("chain/other")).unwrap();
    symlink("../other", tree("chain").join(".git")).unwrap();
    let objects = tree("objects").join(".git/objects");
    fs::rename(&objects, path.join("objects/store")).unwrap();
    symlink("../../store", &objects).unwrap();
    for name in ["apart", "linked", "chain", "objects"] {
        let found = git::folders(&tree(name));
        let store = path.join(name).join("store");
        assert!(found.writable.contains(&store), "{name}: {found:?}");
        let boundary = Boundary::draw(&BoundarySettings::new(&tree(name), &path.join("temp")));
        for entry in ["hooks/x", "config"] {
            let place = if name == "objects" {
                tree(name).join(".git")
            } else {
                store.clone()
            };
            assert!(!boundary.lets_write(&place.join(entry)), "{name}: {entry}");
        }
    }
    // A directory that holds more than objects is not one of those.
    let objects = tree("foreign").join(".git/objects");
    fs::rename(&objects, path.join("foreign/home")).unwrap();
    fs::write(path.join("foreign/home/notes"), "").unwrap();
    symlink("../../home", &objects).unwrap();
    let found = git::folders(&tree("foreign"));
    assert_eq!(found.writable, [tree("foreign").join(".git")]);
}

#[test]
fn stores_and_hooks_elsewhere_are_read() {
    let (_scratch, path) = scratch();
    let (from, work) = (path.join("from"), path.join("w"));
    if !repository(&from) || !git_in(&path, &["clone", "-q", "--shared", "from", "middle"]) {
        return;
    }
    git_in(&path, &["clone", "-q", "--shared", "middle", "w"]);
    fs::rename(work.join(".git/hooks"), path.join("hooks")).unwrap();
    symlink("../../hooks", work.join(".git/hooks")).unwrap();
    let temp = path.join("temp");
    let boundary = Boundary::draw(&BoundarySettings::new(&work, &temp));
    let read = ["from/.git/objects", "hooks", "middle/.git/objects"];
    let mut read = read.map(|name| path.join(name)).to_vec();
    assert_eq!(boundary.read, read);
    assert_eq!(boundary.writable, std::slice::from_ref(&work));
    assert!(!boundary.lets_write(&work.join(".git/objects/info/alternates")));
    // Where nothing is written, the repository itself is read too.
    let closed = Boundary::draw(&BoundarySettings {
        read_only: true,
        ..BoundarySettings::new(&work, &temp)
    });
    read.push(work.join(".git"));
    assert_eq!(closed.read, read);
    // Other directories are not shown by such a link or such a line.
    fs::remove_dir_all(path.join("hooks")).unwrap();
    fs::create_dir_all(path.join("hooks/sockets")).unwrap();
    fs::write(from.join(".git/objects/notes"), "").unwrap();
    let boundary = Boundary::draw(&BoundarySettings::new(&work, &temp));
    assert_eq!(boundary.read, [path.join("middle/.git/objects")]);
}

#[test]
fn submodules_and_repositories_below_are_protected_too() {
    let (_scratch, path) = scratch();
    let (module, workspace) = (path.join("m"), path.join("w"));
    if !repository(&module) || !repository(&workspace) {
        return;
    }
    let module = module.display().to_string();
    git_in(
        &workspace,
        &["submodule", "--quiet", "add", &module, "lib/m"],
    );
    repository(&workspace.join("nested"));
    let boundary = Boundary::draw(&BoundarySettings::new(&workspace, &path.join("temp")));
    for name in [
        ".git/modules/lib/m/hooks/x",
        ".git/modules/lib/m/config",
        "nested/.git/config",
    ] {
        assert!(!boundary.lets_write(&workspace.join(name)), "{name}");
    }
    assert!(boundary.lets_write(&workspace.join(".git/modules/lib/m/index.lock")));
    // The submodule as the workspace.
    let inside = workspace.join("lib/m");
    let boundary = Boundary::draw(&BoundarySettings::new(&inside, &path.join("temp")));
    let folder = workspace.join(".git/modules/lib/m");
    assert!(boundary.lets_write(&folder.join("index.lock")));
    assert!(!boundary.lets_write(&folder.join("config")));
    assert!(!boundary.lets_write(&workspace.join("x")));
}

#[test]
fn a_folder_below_a_repository_can_commit() {
    let (_scratch, path) = scratch();
    if !repository(&path) {
        return;
    }
    let workspace = path.join("a/b");
    fs::create_dir_all(&workspace).unwrap();
    let boundary = Boundary::draw(&BoundarySettings::new(&workspace, &path.join("temp")));
    assert!(boundary.lets_write(&path.join(".git/index.lock")));
    assert!(!boundary.lets_write(&path.join(".git/config")));
    assert!(!boundary.lets_write(&path.join("a/x")));
}

#[test]
fn a_home_folder_that_is_writable_keeps_what_is_run_unasked() {
    let (_scratch, home) = scratch();
    fs::create_dir_all(home.join(".cargo/registry")).unwrap();
    fs::create_dir_all(home.join("w")).unwrap();
    let own = [home.join(".config/tooloop")];
    let settings = BoundarySettings {
        home: Some(&home),
        own: &own,
        caches: true,
        ..BoundarySettings::new(&home, Path::new("/temp"))
    };
    let boundary = Boundary::draw(&settings);
    for name in [
        ".bashrc",
        ".ssh/authorized_keys",
        "bin/ls",
        ".config/tooloop/config.toml",
    ] {
        assert!(!boundary.lets_write(&home.join(name)), "{name}");
    }
    assert!(boundary.lets_write(&home.join("notes")));
    // Where it is not writable, only the caches are.
    let workspace = home.join("w");
    let boundary = Boundary::draw(&BoundarySettings {
        workspace: &workspace,
        ..settings.clone()
    });
    assert_eq!(
        boundary.writable,
        [home.join(".cargo/registry"), workspace.clone()]
    );
    assert_eq!(boundary.protected, [workspace.join(".tooloop")]);
    let boundary = Boundary::draw(&BoundarySettings {
        read_only: true,
        ..settings
    });
    assert_eq!(boundary.writable, [] as [PathBuf; 0]);
    assert!(boundary.lets_write(Path::new("/temp/x")));
}

#[test]
fn links_are_followed_before_anything_is_let_in() {
    let (_scratch, path) = scratch();
    fs::create_dir_all(path.join("real")).unwrap();
    symlink(path.join("real"), path.join("link")).unwrap();
    let folders = [path.join("link/")];
    let boundary = Boundary::draw(&BoundarySettings {
        folders: &folders,
        ..BoundarySettings::new(&path.join("real"), &path.join("temp"))
    });
    assert_eq!(boundary.writable, [path.join("real")]);
}
