//! The arguments of bubblewrap, and where it is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::SandboxNetwork;
use super::places::{Mount, Places};

/// Where it is looked for first: nobody but the owner of the system puts it there.
const SYSTEM: [&str; 4] = [
    "/usr/bin/bwrap",
    "/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// What programs need of the folder that is else replaced by an empty one.
const KEPT_OF_RUN: [&str; 2] = ["/run/current-system", "/run/opengl-driver"];

/// Bubblewrap, as it can be used here.
#[derive(Debug)]
pub(super) struct Bubblewrap {
    pub(super) program: PathBuf,
    /// A namespace in which root is the owner of all files that it owns outside.
    pub(super) users: Option<OwnedFd>,
    /// Whether network namespaces can be made.
    pub(super) has_network: bool,
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

/// What a command needs, to be laid out in mounts.
pub(super) struct Layout<'a> {
    pub(super) places: &'a Places,
    pub(super) network: &'a SandboxNetwork,
    /// Programs that must be there.
    pub(super) programs: &'a [&'a Path],
    /// The descriptor of [`Bubblewrap::users`] in the child.
    pub(super) users: RawFd,
}

impl Bubblewrap {
    /// All arguments up to the program that is run.
    pub(super) fn arguments(&self, layout: &Layout<'_>) -> Vec<OsString> {
        let mut list = Arguments(vec!["bwrap".into()]);
        if self.users.is_some() {
            list.add(["--userns", &layout.users.to_string()]);
        } else {
            list.add(["--unshare-user"]);
        }
        list.add([
            "--unshare-pid",
            "--as-pid-1",
            "--unshare-ipc",
            "--unshare-uts",
        ]);
        let has_network = *layout.network == SandboxNetwork::On;
        if self.has_network && !has_network {
            list.add(["--unshare-net"]);
        }
        let root = Path::new("/");
        let is_open = layout.places.writable.iter().any(|path| path == root);
        list.same(if is_open { "--bind" } else { "--ro-bind" }, root);
        list.add(["--dev", "/dev", "--proc", "/proc"]);
        if self.covers_system {
            for path in ["/proc/sys", "/proc/sysrq-trigger"] {
                list.same("--ro-bind-try", Path::new(path));
            }
        }
        list.run_folder(layout, has_network);
        let mounts = layout.places.mounts();
        for mount in mounts.iter().filter(|mount| mount.path() != root) {
            list.mount(mount, &layout.places.temp);
        }
        for mount in layout.places.sockets() {
            list.mount(&mount, &layout.places.temp);
        }
        list.add(["--chdir", "/", "--"]);
        list.0
    }
}

/// Whether a path is a folder and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir())
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

    fn same(&mut self, option: &str, path: &Path) {
        self.pair(option, path, path);
    }

    fn mount(&mut self, mount: &Mount, temp: &Path) {
        match mount {
            Mount::Temporary(path) if is_folder(path) => self.pair("--bind", temp, path),
            // A link to the other one, or none.
            Mount::Temporary(_) => {}
            Mount::Writable(path) => self.same("--bind", path),
            Mount::ReadOnly(path) => self.same("--ro-bind", path),
            Mount::HiddenFolder(path) => {
                self.0
                    .extend([OsStr::new("--tmpfs"), path.as_os_str()].map(OsStr::to_owned));
            }
            Mount::HiddenFile(path) => self.pair("--ro-bind", Path::new("/dev/null"), path),
        }
    }

    /// An empty `/run`: the sockets of the services of the system lie there.
    fn run_folder(&mut self, layout: &Layout<'_>, has_network: bool) {
        for folder in ["/run", "/var/run"] {
            if is_folder(Path::new(folder)) {
                self.add(["--tmpfs", folder]);
            }
        }
        for path in KEPT_OF_RUN {
            self.same("--ro-bind-try", Path::new(path));
        }
        let names = Path::new("/etc/resolv.conf").canonicalize();
        let programs = layout.programs.iter().map(|program| program.canonicalize());
        let needed = programs.chain([names].into_iter().filter(|_| has_network));
        for path in needed.flatten() {
            if path.starts_with("/run") || path.starts_with("/var/run") {
                self.same("--ro-bind-try", &path);
            }
        }
    }
}
