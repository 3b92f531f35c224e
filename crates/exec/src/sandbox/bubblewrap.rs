//! The arguments of bubblewrap, and where it is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::layout::{Step, View};

/// Where it is looked for first: nobody but the owner of the system puts it there.
const SYSTEM: [&str; 4] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// Bubblewrap, as it can be used here.
#[derive(Debug, Clone)]
pub(super) struct Bubblewrap {
    pub(super) program: PathBuf,
    /// Whether the settings of the system must be covered, since no rules keep root from them.
    /// Each mount costs a quarter of a millisecond.
    pub(super) covers_system: bool,
}

/// The program; `None` if there is none that can be trusted.
pub(super) fn find() -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let system = SYSTEM.iter().map(PathBuf::from).find(is_program);
    if system.is_some() || rustix::process::geteuid().is_root() {
        return system;
    }
    // In a folder of the user's, or of a project's, it might be anything.
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .filter(|folder| folder.is_absolute())
        .filter_map(|folder| folder.join("bwrap").canonicalize().ok())
        .find(|path| is_program(path) && fs::metadata(path).is_ok_and(|file| file.uid() == 0))
}

impl Bubblewrap {
    /// All arguments up to the program that is run. `users`: the descriptor of a namespace of
    /// users.
    pub(super) fn arguments(
        &self,
        view: &View,
        users: Option<RawFd>,
        has_network: bool,
    ) -> Vec<OsString> {
        let mut list = Arguments(vec!["bwrap".into()]);
        match users {
            Some(users) => list.add(["--userns", &users.to_string()]),
            None => list.add(["--unshare-user"]),
        }
        list.add([
            "--unshare-pid",
            "--as-pid-1",
            "--unshare-ipc",
            "--unshare-uts",
        ]);
        if has_network {
            list.add(["--unshare-net"]);
        }
        let root = Path::new("/");
        list.pair(
            if view.is_open { "--bind" } else { "--ro-bind" },
            root,
            root,
        );
        list.add(["--dev", "/dev", "--proc", "/proc"]);
        if self.covers_system {
            for path in ["/proc/sys", "/proc/sysrq-trigger"].map(Path::new) {
                list.pair("--ro-bind-try", path, path);
            }
        }
        for step in &view.steps {
            list.step(step);
        }
        list.add(["--chdir", "/", "--"]);
        list.0
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn add<const N: usize>(&mut self, words: [&str; N]) {
        self.0.extend(words.map(OsString::from));
    }

    fn pair(&mut self, option: &str, from: &Path, to: &Path) {
        self.0
            .extend([OsStr::new(option), from.as_os_str(), to.as_os_str()].map(OsStr::to_owned));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Bind {
                from,
                to,
                is_writable,
                is_needed,
            } => {
                let option = match (is_writable, is_needed) {
                    (true, true) => "--bind",
                    (true, false) => "--bind-try",
                    (false, true) => "--ro-bind",
                    (false, false) => "--ro-bind-try",
                };
                self.pair(option, from, to);
            }
            Step::Link { target, path } => self.pair("--symlink", target, path),
            Step::Empty(path) => {
                self.0
                    .extend([OsStr::new("--tmpfs"), path.as_os_str()].map(OsStr::to_owned));
            }
        }
    }
}
