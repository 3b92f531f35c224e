//! What a command must not leave behind: looked for before it begins and when it has ended.
//!
//! Protected paths that exist are read-only for a command where mounts are possible. Those that do
//! not exist cannot be kept from being made, so they are removed again. A repository that a command
//! made keeps what is data in it: hooks, and settings that may name programs, are removed.
//!
//! What another process makes at such a path while the command runs is removed too, since nothing tells
//! who made it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tooloop_exec::SandboxProfile;
use tooloop_policy::protected::GIT_ENTRIES;

use super::git_config;
use super::removal::{Parent, resolved};
use super::scan::{Found, MOST, Scanner};

/// The longest configuration, list of steps or `.git` that is read.
const LONGEST: u64 = 1 << 20;

/// What a rebase still has to do. It can name programs.
const STEPS: &str = "rebase-merge/git-rebase-todo";

/// The state before a command.
#[derive(Debug)]
pub(super) struct Guard {
    scanner: Arc<Scanner>,
    writable: Vec<PathBuf>,
    before: Found,
    /// Protected paths that do not exist, and where they would be.
    missing: Vec<(PathBuf, PathBuf)>,
    /// Protected paths that are links, and where they lead.
    links: Vec<(PathBuf, PathBuf)>,
    /// The steps of each rebase.
    steps: BTreeMap<PathBuf, Vec<u8>>,
}

/// Something that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) path: PathBuf,
    pub(super) why: String,
    /// Whether a grant would have let it be.
    pub(super) is_grantable: bool,
}

impl Guard {
    /// Looks before a command with this profile begins. What was found is added to what the profile
    /// protects.
    pub(super) fn begin(scanner: &Arc<Scanner>, profile: &mut SandboxProfile) -> Self {
        let before = scanner.scan();
        // What a link leads to is a repository of its own, so only the link is protected.
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink());
        let (leads, files): (Vec<_>, Vec<_>) = {
            let leads = before.leads.iter().cloned();
            leads.partition(|path| is_link(path))
        };
        profile.read_only.extend(files);
        profile.read_only.extend(before.entries.iter().cloned());
        let in_repositories = before.repositories.iter();
        let in_repositories =
            in_repositories.flat_map(|folder| GIT_ENTRIES.iter().map(|name| folder.join(name)));
        profile.read_only.extend(in_repositories);
        profile.read_only.sort();
        profile.read_only.dedup();
        let mut missing = Vec::new();
        let mut links = Vec::new();
        for path in profile.read_only.iter().chain(&leads) {
            match fs::symlink_metadata(path) {
                Err(_) => missing.push((path.clone(), resolved(path))),
                Ok(metadata) if metadata.is_symlink() => {
                    if let Ok(target) = fs::read_link(path) {
                        links.push((path.clone(), target));
                    }
                }
                Ok(_) => {}
            }
        }
        let steps = before.repositories.iter().filter_map(|folder| {
            let path = folder.join(STEPS);
            let steps = read(&path)?;
            Some((path, steps))
        });
        Self {
            scanner: Arc::clone(scanner),
            writable: profile.writable.clone(),
            missing,
            links,
            steps: steps.collect(),
            before,
        }
    }

    /// Takes back what the command must not leave behind.
    pub(super) fn end(&self) -> Vec<Removal> {
        let mut removals = Vec::new();
        for (path, place) in &self.missing {
            self.remove_new(path, place, &mut removals);
        }
        for (path, target) in &self.links {
            if fs::read_link(path).is_ok_and(|now| now == *target) {
                continue;
            }
            let place = resolved(path);
            if let Some((parent, name)) = split(&place)
                && self.is_writable(&place)
                && Parent::open(parent)
                    .and_then(|parent| parent.link(name, target))
                    .is_ok()
            {
                let why = "it is a protected link, so it leads to where it led before again";
                removals.push(removal(path, why));
            }
        }
        let after = self.scanner.scan();
        // What lies where the first search did not get to may be older than the command.
        let is_new = |path: &&PathBuf| self.before.reached(path);
        let entries = after.entries.difference(&self.before.entries);
        for path in entries.filter(is_new) {
            self.remove_entry(path, &mut removals);
        }
        let repositories = after.repositories.difference(&self.before.repositories);
        let new: BTreeSet<&PathBuf> = repositories.filter(is_new).collect();
        for folder in &new {
            self.clean(folder, &after, &mut removals);
        }
        let leads = after.leads.difference(&self.before.leads);
        for path in leads.filter(is_new) {
            if !leads_well(path, &new, &after) {
                let why = "it leads git to a repository that does not name it in turn";
                self.remove(path, why, &mut removals);
            }
        }
        for folder in after.repositories.iter().filter(is_new) {
            self.clean_steps(folder, &mut removals);
        }
        if let Some(first) = after.first_unseen()
            && self.before.first_unseen().is_none()
        {
            let why = format!(
                "there are more than {MOST} directories now, so this one and others were not \
                 searched for repositories and protected files"
            );
            removals.push(removal(first, &why));
        }
        removals
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|root| path.starts_with(root))
    }

    /// Removes what is at a path that was not there.
    fn remove_new(&self, path: &Path, place: &Path, removals: &mut Vec<Removal>) {
        const WHY: &str = "programs outside of the sandbox obey it";
        if fs::symlink_metadata(path).is_err() {
            return;
        }
        if resolved(path) == place {
            self.remove(path, WHY, removals);
        } else if let Some(link) = self.first_link(path) {
            // What it leads to may have been there before.
            self.remove(&link, WHY, removals);
        }
    }

    /// Removes an entry that was not there.
    fn remove_entry(&self, path: &Path, removals: &mut Vec<Removal>) {
        if removals.iter().any(|removal| removal.path == path) {
            return;
        }
        let link = self.first_link(path);
        let is_new = |link: &PathBuf| !self.before.links.contains(link);
        let path = link.filter(is_new).unwrap_or_else(|| path.to_path_buf());
        self.remove(&path, "programs outside of the sandbox obey it", removals);
    }

    /// The first link on the way to a path, below where the command writes.
    fn first_link(&self, path: &Path) -> Option<PathBuf> {
        let mut way: Vec<&Path> = path.ancestors().skip(1).collect();
        way.reverse();
        let mut way = way.into_iter().filter(|path| self.is_writable(path));
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink());
        way.find(|path| is_link(path)).map(Path::to_path_buf)
    }

    fn remove(&self, path: &Path, why: &str, removals: &mut Vec<Removal>) {
        let place = resolved(path);
        let Some((parent, name)) = split(&place) else {
            return;
        };
        if !self.is_writable(&place) {
            return;
        }
        match Parent::open(parent).and_then(|parent| parent.remove(name)) {
            Ok(()) => removals.push(removal(path, &format!("{why}, so it was removed"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => removals.push(removal(
                path,
                &format!("{why}, and it could not be removed ({error}): remove it"),
            )),
        }
    }

    /// Removes from a new repository what git would run.
    fn clean(&self, folder: &Path, after: &Found, removals: &mut Vec<Removal>) {
        let is_tree = is_linked_tree(folder, after);
        if !is_tree {
            for name in ["commondir", "gitdir"] {
                let path = folder.join(name);
                if fs::symlink_metadata(&path).is_ok() {
                    self.remove(&path, "it would lead git to another repository", removals);
                }
            }
        }
        let Ok(parent) = Parent::open(folder) else {
            return;
        };
        for name in ["config", "config.worktree"] {
            clean_config(&parent, folder, name, removals);
        }
        let hooks = parent.entry(OsStr::new("hooks"));
        let Ok(metadata) = fs::symlink_metadata(&hooks) else {
            return;
        };
        let why = "git runs the hooks of a repository";
        if !metadata.is_dir() {
            self.remove(&folder.join("hooks"), why, removals);
            return;
        }
        for entry in fs::read_dir(&hooks).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_sample = Path::new(&name).extension() == Some(OsStr::new("sample"));
            if !(is_sample && entry.file_type().is_ok_and(|kind| kind.is_file())) {
                self.remove(&folder.join("hooks").join(name), why, removals);
            }
        }
    }

    /// Removes the programs from the steps of a rebase, but for those that were there.
    fn clean_steps(&self, folder: &Path, removals: &mut Vec<Removal>) {
        let path = folder.join(STEPS);
        let Some(steps) = read(&path) else {
            return;
        };
        let before = self.steps.get(&path).map_or(&[][..], Vec::as_slice);
        if before == steps {
            return;
        }
        let known: Vec<&[u8]> = before.split(|byte| *byte == b'\n').collect();
        let is_kept = |line: &&[u8]| !runs_program(line) || known.contains(line);
        let kept: Vec<&[u8]> = steps.split(|byte| *byte == b'\n').filter(is_kept).collect();
        let kept = kept.join(&b'\n');
        if kept == steps {
            return;
        }
        if let Some((parent, name)) = split(&path)
            && Parent::open(parent)
                .and_then(|parent| parent.write(name, &kept))
                .is_ok()
        {
            let why = "`exec` lines of a rebase name programs, so they were removed";
            removals.push(removal(&path, why));
        }
    }
}

fn removal(path: &Path, why: &str) -> Removal {
    Removal {
        path: path.to_path_buf(),
        why: why.to_owned(),
        is_grantable: false,
    }
}

fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    path.parent().zip(path.file_name())
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let (parent, name) = split(path)?;
    Parent::open(parent).ok()?.read(name, LONGEST)
}

/// Whether a line of a rebase starts a program.
fn runs_program(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let command = line.split(|byte| byte.is_ascii_whitespace()).next();
    matches!(command, Some(b"exec" | b"x"))
}

fn clean_config(parent: &Parent, folder: &Path, name: &str, removals: &mut Vec<Removal>) {
    let entry = OsStr::new(name);
    if fs::symlink_metadata(parent.entry(entry)).is_err() {
        return;
    }
    let text = parent.read(entry, LONGEST).map(String::from_utf8);
    let (text, removed) = match text {
        Some(Ok(text)) => match git_config::clean(&text) {
            Some(cleaned) => (cleaned.text, cleaned.removed.join(", ")),
            None => return,
        },
        Some(Err(_)) | None => (String::new(), "all of it".to_owned()),
    };
    if parent.write(entry, text.as_bytes()).is_ok() {
        let why = format!(
            "settings of a new repository may name programs, so these were removed: {removed}"
        );
        removals.push(removal(&folder.join(name), &why));
    }
}

/// Whether a directory is that of a linked working tree of a repository that was found.
fn is_linked_tree(folder: &Path, found: &Found) -> bool {
    let Some(common) = led_to(&folder.join("commondir"), "") else {
        return false;
    };
    let is_below = folder
        .parent()
        .is_some_and(|parent| parent == common.join("worktrees"));
    is_below && found.repositories.contains(&common)
}

/// Whether a `.git` leads to a repository that is new too, and was cleaned, or to one that names it.
fn leads_well(path: &Path, new: &BTreeSet<&PathBuf>, found: &Found) -> bool {
    let target = if fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink()) {
        path.canonicalize().ok()
    } else {
        led_to(path, "gitdir: ")
    };
    let Some(target) = target else {
        return false;
    };
    let names_it = || led_to(&target.join("gitdir"), "").is_some_and(|back| back == *path);
    new.contains(&target) || found.repositories.contains(&target) && names_it()
}

/// Where a file of one line leads.
fn led_to(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = String::from_utf8(read(file)?).ok()?;
    let target = text.trim_end_matches(['\n', '\r']).strip_prefix(prefix)?;
    let target = file.parent()?.join(target);
    Some(target.canonicalize().unwrap_or(target))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use tooloop_exec::SandboxNetwork;

    use super::*;

    struct World {
        _folder: tempfile::TempDir,
        root: PathBuf,
        scanner: Arc<Scanner>,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            for name in ["w", "out"] {
                fs::create_dir(root.join(name)).unwrap();
            }
            let names = [".agent/hooks", ".agent/settings.json", ".mcp"].map(str::to_owned);
            let scanner = Arc::new(Scanner::new(vec![root.join("w")], names.into()));
            Self {
                _folder: folder,
                root,
                scanner,
            }
        }

        fn at(&self, path: &str) -> PathBuf {
            self.root.join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn begin(&self, read_only: &[&str]) -> Guard {
            let mut profile = SandboxProfile {
                writable: vec![self.at("w")],
                read_only: read_only.iter().map(|path| self.at(path)).collect(),
                hidden: Vec::new(),
                temp: self.at("t"),
                staged: Vec::new(),
                network: SandboxNetwork::Off,
            };
            Guard::begin(&self.scanner, &mut profile)
        }

        /// Runs a shell as a command would; `false`: there is no git.
        fn run(&self, text: &str) -> bool {
            let ran = Command::new("sh")
                .args(["-ec", text])
                .current_dir(self.at("w"))
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .output()
                .unwrap();
            if ran.status.code() == Some(127) {
                println!("skipped: git is not installed");
                return false;
            }
            assert!(ran.status.success(), "{text}: {ran:?}");
            true
        }

        fn ended(&self, guard: &Guard) -> Vec<String> {
            let removals = guard.end();
            let paths = removals.iter().map(|removal| {
                let path = removal.path.strip_prefix(self.at("w")).unwrap();
                path.display().to_string()
            });
            let mut paths: Vec<String> = paths.collect();
            paths.sort();
            paths
        }
    }

    #[test]
    fn new_protected_entries_are_removed_at_any_depth() {
        let world = World::new();
        world.write("w/kept/.mcp", "theirs");
        world.write("out/settings.json", "theirs");
        world.write("w/data/settings.json", "theirs");
        fs::create_dir_all(world.at("w/conf")).unwrap();
        symlink("conf", world.at("w/.config")).unwrap();
        let guard = world.begin(&["w/.tool", "w/.config/autostart"]);
        world.write("w/.tool/config", "x");
        world.write("w/.mcp", "x");
        world.write("w/a/b/.mcp", "x");
        world.write("w/c/.agent/hooks/x", "x");
        world.write("w/c/.agent/notes", "x");
        world.write("w/conf/autostart/x", "x");
        fs::create_dir_all(world.at("w/d")).unwrap();
        fs::create_dir_all(world.at("w/e")).unwrap();
        symlink(world.at("out"), world.at("w/d/.agent")).unwrap();
        symlink("../data", world.at("w/e/.agent")).unwrap();
        fs::hard_link(world.at("w/kept/.mcp"), world.at("w/c/.mcp")).unwrap();
        fs::set_permissions(
            world.at("w/c/.agent/hooks"),
            std::os::unix::fs::PermissionsExt::from_mode(0o0),
        )
        .unwrap();
        assert_eq!(
            world.ended(&guard),
            [
                ".config/autostart",
                ".mcp",
                ".tool",
                "a/b/.mcp",
                "c/.agent/hooks",
                "c/.mcp",
                "d/.agent",
                "e/.agent",
            ]
        );
        for path in [
            "w/kept/.mcp",
            "w/c/.agent/notes",
            "out/settings.json",
            "w/data/settings.json",
            "w/.config",
        ] {
            assert!(fs::symlink_metadata(world.at(path)).is_ok(), "{path}");
        }
        assert!(!world.at("w/conf/autostart").exists());
        assert_eq!(world.ended(&guard), [""; 0]);
    }

    #[test]
    fn what_the_first_search_did_not_reach_stays() {
        let mut world = World::new();
        world.write("w/a/x", "");
        world.write("w/b/.mcp", "theirs");
        world.write("w/b/.git/hooks/post-commit", "theirs");
        let scanner = Scanner::new(vec![world.at("w")], vec![".mcp".into()]);
        world.scanner = Arc::new(scanner.at_most(1));
        let guard = world.begin(&[]);
        let scanner = Scanner::new(vec![world.at("w")], vec![".mcp".into()]);
        let guard = Guard {
            // With a directory gone, later ones come within the limit.
            scanner: Arc::new(scanner),
            ..guard
        };
        world.write("w/new/.mcp", "x");
        assert_eq!(world.ended(&guard), ["new/.mcp"]);
        for path in ["w/b/.mcp", "w/b/.git/hooks/post-commit"] {
            assert!(world.at(path).exists(), "{path}");
        }
    }

    #[test]
    fn too_many_new_directories_are_reported() {
        let mut world = World::new();
        let scanner = Scanner::new(vec![world.at("w")], vec![".mcp".into()]);
        world.scanner = Arc::new(scanner.at_most(2));
        let guard = world.begin(&[]);
        world.write("w/a/b/.mcp", "x");
        let removals = guard.end();
        assert_eq!(removals.len(), 1, "{removals:?}");
        assert_eq!(removals[0].path, world.at("w/a/b"));
        assert!(removals[0].why.contains("not searched"), "{removals:?}");
    }

    #[test]
    fn a_protected_link_leads_where_it_led() {
        let world = World::new();
        world.write("w/githooks/pre-commit", "theirs");
        symlink("githooks", world.at("w/hooks")).unwrap();
        let guard = world.begin(&["w/hooks"]);
        assert_eq!(world.ended(&guard), [""; 0]);
        fs::remove_file(world.at("w/hooks")).unwrap();
        world.write("w/hooks/post-commit", "x");
        assert_eq!(world.ended(&guard), ["hooks"]);
        let target = fs::read_link(world.at("w/hooks")).unwrap();
        assert_eq!(target, Path::new("githooks"));
    }

    #[test]
    fn a_new_repository_keeps_what_is_data() {
        let world = World::new();
        let guard = world.begin(&[]);
        let commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x";
        if !world.run(&format!(
            "git init -q a/b; cd a/b; {commit}; git config core.fsmonitor 'touch x'; \
             echo x > .git/hooks/post-commit; git worktree add -q ../tree; \
             git init -q --separate-git-dir ../store ../apart; \
             git -C ../apart config alias.x '!x'; \
             mkdir -p .git/modules/m; cd .git/modules/m; git init -q --bare .; git config core.editor x; \
             cd ../../../..; mkdir odd; echo gitdir: ../../../out > odd/.git; \
             ln -s ../../out/repository link; mkdir l; ln -s ../../../out l/.git"
        )) {
            return;
        }
        let removed = world.ended(&guard);
        assert_eq!(
            removed,
            [
                "a/b/.git/config",
                "a/b/.git/hooks/post-commit",
                "a/b/.git/modules/m/config",
                "a/l/.git",
                "a/odd/.git",
                "a/store/config",
            ]
        );
        assert!(world.run("git -C a/b status; git -C a/tree status; git -C a/apart status"));
        let config = fs::read_to_string(world.at("w/a/b/.git/config")).unwrap();
        assert!(!config.contains("fsmonitor"), "{config}");
        assert_eq!(world.ended(&guard), [""; 0]);
    }

    #[test]
    fn a_known_repository_is_not_led_elsewhere() {
        let world = World::new();
        if !world.run("git init -q a/b; cd a/b; mkdir -p .git/rebase-merge; printf 'exec theirs\npick 1\n' > .git/rebase-merge/git-rebase-todo") {
            return;
        }
        let guard = world.begin(&[]);
        world.write("w/a/b/.git/commondir", "../../x");
        world.write("w/a/b/.git/config.worktree", "[core]\n\tpager = x\n");
        world.write(
            "w/a/b/.git/rebase-merge/git-rebase-todo",
            "exec theirs\n x own\npick 1\n",
        );
        assert_eq!(
            world.ended(&guard),
            [
                "a/b/.git/commondir",
                "a/b/.git/config.worktree",
                "a/b/.git/rebase-merge/git-rebase-todo",
            ]
        );
        let steps =
            fs::read_to_string(world.at("w/a/b/.git/rebase-merge/git-rebase-todo")).unwrap();
        assert_eq!(steps, "exec theirs\npick 1\n");
    }
}
