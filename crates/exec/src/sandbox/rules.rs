//! Which files a command writes: rules of Landlock.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::task::{Network, Task};

/// The newest version whose rights are known here.
pub(super) const NEWEST: i32 = 8;

/// Devices that everybody may write to.
const DEVICES: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
];

/// The terminals.
const TERMINALS: &str = "/dev/pts";

/// The version that the kernel has; 0 and the reason if it has none.
pub(super) fn kernel_abi() -> Result<i32, std::io::Error> {
    const VERSION: u32 = 1;
    // SAFETY: asks for a number; no memory is handed over.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    if version < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(i32::try_from(version).unwrap_or(0))
}

/// Sets the rules on this process, for good. It must have given up new privileges.
pub(super) fn apply(task: &Task) -> Result<(), RulesetError> {
    let abi = ABI::from(task.landlock_abi.min(NEWEST));
    if abi == ABI::Unsupported {
        return Ok(());
    }
    let mut handled = AccessFs::from_write(abi);
    if !task.hidden.is_empty() {
        handled |= AccessFs::ReadFile;
    }
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?;
    let mut port = None;
    if abi >= ABI::V4 {
        match task.network {
            Network::Open | Network::Forward(_) => {}
            Network::Closed => {
                ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
            }
            Network::Port(number) => {
                ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
                port = Some(number);
            }
        }
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut rules = ruleset.create()?;
    if let Some(port) = port {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    // Nobody makes a device.
    let written = handled & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    for path in &task.writable {
        rules = add(rules, path, written & !device_rights(), abi)?;
    }
    let device =
        handled & (AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::Truncate | device_rights());
    if task.report.is_some() {
        // All devices of the namespace are fit for everybody.
        rules = add(rules, Path::new("/dev"), written, abi)?;
    } else {
        for path in DEVICES.iter().copied().chain([TERMINALS]) {
            rules = add(rules, Path::new(path), device, abi)?;
        }
    }
    for standard in ["/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"].map(Path::new) {
        // A terminal that was made outside may lie under no path from here.
        if fs::metadata(standard).is_ok_and(|file| file.file_type().is_char_device()) {
            rules = add(rules, standard, device, abi)?;
        }
    }
    if !task.hidden.is_empty() {
        for path in readable(&task.hidden) {
            rules = add(rules, &path, AccessFs::ReadFile.into(), abi)?;
        }
    }
    // It is said to the caller by an error, never by less.
    rules.restrict_self()?;
    Ok(())
}

/// Keeps this process and those that it starts from abstract sockets of others, where the kernel can.
pub(super) fn scope(abi: i32) -> Result<(), RulesetError> {
    if ABI::from(abi.min(NEWEST)) < ABI::V6 {
        return Ok(());
    }
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        // It is refused by all rules that do not allow it.
        .handle_access(AccessFs::Refer)?
        .scope(Scope::AbstractUnixSocket)?
        .create()?;
    add(rules, Path::new("/"), AccessFs::Refer.into(), ABI::V6)?.restrict_self()?;
    Ok(())
}

fn device_rights() -> BitFlags<AccessFs> {
    AccessFs::IoctlDev.into()
}

fn add(
    rules: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
    abi: ABI,
) -> Result<RulesetCreated, RulesetError> {
    // What is not there, or cannot be reached, gets no rights.
    let Ok(descriptor) = PathFd::new(path) else {
        return Ok(rules);
    };
    let rights = if path.is_dir() {
        rights
    } else {
        rights & AccessFs::from_file(abi)
    };
    if rights.is_empty() {
        return Ok(rules);
    }
    rules.add_rule(PathBeneath::new(descriptor, rights))
}

/// The files and folders that hold all but what is hidden: rules can only grant, so all that lies
/// beside the way to it is named.
fn readable(hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut granted = Vec::new();
    let mut open = vec![PathBuf::from("/")];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if hidden.contains(&path) {
                continue;
            }
            if hidden.iter().any(|hidden| hidden.starts_with(&path)) {
                open.push(path);
            } else if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                granted.push(path);
            }
        }
    }
    granted
}
