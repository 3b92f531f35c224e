//! Lays out what a command sees of the file system, in a namespace of mounts of its own.
//!
//! What is laid somewhere is taken first and changed while nobody sees it, and a place is opened
//! once, through no link; so nothing can be exchanged in between. No list of mounts is read, whose
//! length is that of the system.

use std::ffi::CStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, symlinkat,
};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};

use super::layout::{Step, View};

/// The devices that a command has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What leads elsewhere in the folder of devices.
const LINKS: [(&str, &str); 6] = [
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("fd", "/proc/self/fd"),
    ("core", "/proc/kcore"),
    ("ptmx", "pts/ptmx"),
];

/// What of `/proc` is the system's and no process's.
const SYSTEM: [&CStr; 4] = [c"sys", c"sysrq-trigger", c"irq", c"bus"];

/// A mount that cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("{place} cannot be laid out: {source}")]
pub(super) struct Error {
    place: String,
    source: io::Error,
}

fn at(place: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Error {
    let place = place.as_ref().display().to_string();
    move |source| Error { place, source }
}

/// Lays it all out. It must be root in a namespace of mounts of its own.
pub(super) fn lay(view: &View) -> Result<(), Error> {
    let root = c"/";
    let mask = umask(Mode::empty());
    let limit = raise_descriptors();
    // What is mounted outside later stays outside, and the other way round.
    change(CWD, root, MountAttrFlags::empty(), libc::MS_PRIVATE).map_err(at("/"))?;
    // Taken as it is, before all is closed.
    let mut devices = Vec::with_capacity(DEVICES.len() + 1);
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        devices.push((name, taken(&path).map_err(at(&path))?));
    }
    devices.extend(own_terminal().map(|terminal| ("console", terminal)));
    let mut steps = Vec::with_capacity(view.steps.len());
    for step in &view.steps {
        let tree = match step {
            Step::Empty(path) => Some((empty_folder().map(Some), path)),
            Step::Link { path, .. } => Some((Ok(None), path)),
            Step::Bind {
                from,
                to,
                is_writable,
                is_needed,
            } => match taken(from).and_then(|tree| {
                change(tree.as_fd(), c"", held(*is_writable), 0)?;
                Ok(tree)
            }) {
                Err(_) if !is_needed => None,
                tree => Some((tree.map(Some), to)),
            },
        };
        if let Some((tree, to)) = tree {
            steps.push((step, tree.map_err(at(to))?, to));
        }
    }
    change(CWD, root, held(view.is_open), 0).map_err(at("/"))?;
    lay_devices(devices).map_err(at("/dev"))?;
    lay_processes().map_err(at("/proc"))?;
    for (step, tree, to) in steps {
        let put = match (step, &tree) {
            (Step::Link { target, path }, _) => link(target, path),
            (_, Some(tree)) => put(tree, to),
            (_, None) => Ok(()),
        };
        match put {
            Err(_)
                if matches!(
                    step,
                    Step::Bind {
                        is_needed: false,
                        ..
                    }
                ) => {}
            put => put.map_err(at(to))?,
        }
    }
    if let Some(limit) = limit {
        setrlimit(Resource::Nofile, limit).map_err(|error| at("/")(error.into()))?;
    }
    umask(mask);
    // That of before is the one below.
    std::env::set_current_dir("/").map_err(at("/"))
}

/// As many descriptors as there may be, for each step holds one. The limit of before.
fn raise_descriptors() -> Option<Rlimit> {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    // With fewer of them fewer steps can be held, which is said there.
    setrlimit(Resource::Nofile, raised).ok().map(|()| before)
}

/// What no mount of a command lets through.
fn held(is_writable: bool) -> MountAttrFlags {
    let held = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if is_writable {
        held
    } else {
        held | MountAttrFlags::MOUNT_ATTR_RDONLY
    }
}

/// What lies at a path, with all that is mounted below.
fn taken(path: &Path) -> io::Result<OwnedFd> {
    let place = opened(path)?;
    Ok(tree(place.as_fd(), c"", OpenTreeFlags::AT_EMPTY_PATH)?)
}

fn tree(folder: BorrowedFd<'_>, path: &CStr, flags: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags
        | OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(folder, path, flags)
}

fn opened(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Sets flags on a mount and on all below it, and how they are tied to others.
fn change(
    folder: BorrowedFd<'_>,
    path: &CStr,
    flags: MountAttrFlags,
    propagation: u64,
) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: u64::from(flags.bits()),
        attr_clr: 0,
        propagation,
        userns_fd: 0,
    };
    // SAFETY: the pointers are to a string and to a struct of the given size, which live for the
    // call.
    let changed = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder.as_raw_fd(),
            path.as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            mem::size_of_val(&attributes),
        )
    };
    if changed < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Lays something over a path, which is made if it is not there.
fn put(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    let place = match opened(path) {
        Err(rustix::io::Errno::NOENT) => {
            make(path, FileType::from_raw_mode(fstat(tree)?.st_mode))?;
            opened(path)
        }
        place => place,
    };
    put_over(tree, &place?)
}

fn put_over(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", place, c"", flags)?)
}

/// Makes a link in a directory that was laid out before.
fn link(target: &Path, path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(symlinkat(target, opened(folder)?, name)?)
}

fn make(path: &Path, kind: FileType) -> io::Result<()> {
    let folder = |path: &Path| DirBuilder::new().recursive(true).mode(0o755).create(path);
    if kind == FileType::Directory {
        return folder(path);
    }
    path.parent().map(folder).transpose()?;
    let mut file = OpenOptions::new();
    file.write(true).create_new(true).mode(0o444).open(path)?;
    Ok(())
}

/// A file system of its own.
fn fresh(
    kind: &CStr,
    settings: &[(&CStr, &CStr)],
    flags: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let made = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in settings {
        fsconfig_set_string(made.as_fd(), *name, *value)?;
    }
    fsconfig_create(made.as_fd())?;
    fsmount(made.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

fn empty_folder() -> io::Result<OwnedFd> {
    Ok(fresh(c"tmpfs", &[(c"mode", c"0755")], held(true))?)
}

/// The terminal that the command prints to, which may be one from outside.
fn own_terminal() -> Option<OwnedFd> {
    if !rustix::termios::isatty(rustix::stdio::stdout()) {
        return None;
    }
    taken(&fs::read_link("/proc/self/fd/1").ok()?).ok()
}

fn lay_devices(devices: Vec<(&str, OwnedFd)>) -> io::Result<()> {
    let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let folder = empty_folder()?;
    put(&folder, Path::new("/dev"))?;
    for (name, device) in devices {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let place = openat(&folder, name, flags, Mode::from_raw_mode(0o444))?;
        change(device.as_fd(), c"", MountAttrFlags::MOUNT_ATTR_NOSUID, 0)?;
        put_over(&device, &place)?;
    }
    for (name, target) in LINKS {
        symlinkat(target, &folder, name)?;
    }
    for name in ["shm", "pts"] {
        mkdirat(&folder, name, Mode::from_raw_mode(0o755))?;
    }
    let settings = [(c"ptmxmode", c"0666"), (c"mode", c"0620")];
    let terminals = fresh(c"devpts", &settings, no_programs)?;
    put_over(&terminals, &inside(&folder, c"pts")?)
}

/// A list of processes in which no others are, and in which the system is not changed.
fn lay_processes() -> io::Result<()> {
    let held = held(true) | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let processes = fresh(c"proc", &[], held)?;
    put(&processes, Path::new("/proc"))?;
    for name in SYSTEM {
        let place = match inside(&processes, name) {
            Err(rustix::io::Errno::NOENT) => continue,
            place => place?,
        };
        let system = tree(place.as_fd(), c"", OpenTreeFlags::AT_EMPTY_PATH)?;
        change(
            system.as_fd(),
            c"",
            held | MountAttrFlags::MOUNT_ATTR_RDONLY,
            0,
        )?;
        put_over(&system, &place)?;
    }
    Ok(())
}

fn inside(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    openat(
        folder,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::io::Errno;

    use super::*;

    #[test]
    fn no_link_leads_to_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir(folder.join("there")).unwrap();
        symlink("there", folder.join("link")).unwrap();
        assert!(opened(&folder.join("there")).is_ok());
        for path in ["link", "link/."] {
            assert_eq!(opened(&folder.join(path)).err(), Some(Errno::LOOP));
        }
    }

    #[test]
    fn a_place_that_is_not_there_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        make(&at("a/b"), FileType::Directory).unwrap();
        make(&at("c/d"), FileType::Socket).unwrap();
        assert!(at("a/b").is_dir() && at("c/d").is_file());
        let again = make(&at("c/d"), FileType::RegularFile).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
