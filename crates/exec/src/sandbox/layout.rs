//! What a command sees of the file system, step by step, whoever lays it out.

use std::fs;
use std::path::{Path, PathBuf};

use super::SandboxNetwork;
use super::places::{Mount, Places};

/// What programs need of the folder that is else replaced by an empty one.
const KEPT_OF_RUN: [&str; 2] = ["/run/current-system", "/run/opengl-driver"];

/// All that is laid over the file system of a command, beside its own `/dev` and `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// Whether everything is written that no step closes.
    pub(super) is_open: bool,
    /// In this order; what is deeper comes later.
    pub(super) steps: Vec<Step>,
}

/// Something that is laid over a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// What lies at one path is seen at another one, or at the same.
    Bind {
        from: PathBuf,
        to: PathBuf,
        is_writable: bool,
        /// Whether there is no command without it.
        is_needed: bool,
    },
    /// An empty folder is seen.
    Empty(PathBuf),
    /// A link is made in what was laid there before.
    Link { target: PathBuf, path: PathBuf },
}

impl Step {
    fn same(path: &Path, is_writable: bool) -> Self {
        Self::Bind {
            from: path.to_path_buf(),
            to: path.to_path_buf(),
            is_writable,
            is_needed: true,
        }
    }

    /// One that is done if the path is there.
    fn kept(path: &Path) -> Option<Self> {
        Some(Self::Bind {
            from: path.canonicalize().ok()?,
            to: path.to_path_buf(),
            is_writable: false,
            is_needed: false,
        })
    }

    fn no_file(path: &Path) -> Self {
        Self::Bind {
            from: "/dev/null".into(),
            to: path.to_path_buf(),
            is_writable: false,
            is_needed: true,
        }
    }

    fn of(mount: &Mount, temp: &Path) -> Option<Self> {
        Some(match mount {
            Mount::Staged(path, shown) => Self::Bind {
                from: shown.clone(),
                to: path.clone(),
                is_writable: true,
                is_needed: true,
            },
            Mount::Link(path) => Self::Link {
                target: fs::read_link(path).ok()?,
                path: path.clone(),
            },
            Mount::Kept(path) => Self::Bind {
                from: path.clone(),
                to: path.clone(),
                is_writable: false,
                is_needed: false,
            },
            // A link leads to the other one, or there is none.
            Mount::Temporary(path) => Self::Bind {
                from: temp.to_path_buf(),
                to: folder(path)?,
                is_writable: true,
                is_needed: true,
            },
            Mount::Writable(path) => Self::same(path, true),
            Mount::ReadOnly(path) => Self::same(path, false),
            Mount::HiddenFolder(path) => Self::Empty(path.clone()),
            Mount::HiddenFile(path) => Self::no_file(path),
        })
    }
}

impl View {
    /// `programs` must be there.
    pub(super) fn of(places: &Places, network: &SandboxNetwork, programs: &[&Path]) -> Self {
        let root = Path::new("/");
        let mut steps = run_folder(programs, *network == SandboxNetwork::On);
        let mounts = places.mounts();
        let mounts = mounts.iter().filter(|mount| mount.path() != root);
        steps.extend(mounts.filter_map(|mount| Step::of(mount, &places.temp)));
        Self {
            is_open: places.writable.iter().any(|path| path == root),
            steps,
        }
    }
}

/// The path without links, if it is a folder and no link to one.
fn folder(path: &Path) -> Option<PathBuf> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir());
    is_folder.then(|| path.canonicalize().ok()).flatten()
}

/// An empty `/run`: the sockets of the services of the system lie there.
fn run_folder(programs: &[&Path], has_network: bool) -> Vec<Step> {
    let folders = ["/run", "/var/run"].into_iter();
    let folders = folders.filter_map(|path| folder(Path::new(path)));
    let mut steps: Vec<Step> = folders.map(Step::Empty).collect();
    steps.extend(KEPT_OF_RUN.iter().map(Path::new).filter_map(Step::kept));
    let names = Path::new("/etc/resolv.conf").canonicalize();
    let programs = programs.iter().map(|program| program.canonicalize());
    let needed = programs.chain([names].into_iter().filter(|_| has_network));
    let is_covered = |path: &PathBuf| path.starts_with("/run") || path.starts_with("/var/run");
    let needed = needed.flatten().filter(is_covered);
    steps.extend(needed.filter_map(|path| Step::kept(&path)));
    steps
}
