//! The folder that sessions are recorded in. It is looked at and not touched.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Access, access, statvfs};
use serde_json::json;
use tooloop::journal;

use super::report::Check;

/// The most sessions that are counted, and of which so many of the newest are read.
const COUNTED: usize = 20_000;
const READ: usize = 20;

/// Longer journals are not read.
const LONG: u64 = 8 << 20;

/// With less room than this a run soon fails, or at once.
const LITTLE_ROOM: u64 = 200 << 20;
const NO_ROOM: u64 = 5 << 20;

pub(super) fn checks(root: Option<PathBuf>) -> Vec<Check> {
    let Some(root) = root else {
        return vec![Check::problem(
            "sessions",
            "there is no folder for sessions",
            "set HOME or XDG_DATA_HOME to an absolute path, or run with --no-session-persistence",
        )];
    };
    let mut checks = vec![folder(&root)];
    checks.extend(room(&root));
    if root.is_dir() {
        checks.extend(sessions(&root));
    }
    checks
}

/// Whether it is there and can be written to.
fn folder(root: &Path) -> Check {
    let place = root.display();
    let details = json!({"path": root.display().to_string(), "exists": root.exists()});
    let check = match fs::metadata(root) {
        Ok(found) if !found.is_dir() => {
            let advice = "move away what is there";
            Check::problem("sessions", format!("{place} is no folder"), advice)
        }
        Ok(found) => match access(root, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => permissions(root, &found),
            Err(error) => Check::problem(
                "sessions",
                format!("{place} cannot be written to: {error}"),
                "no run can be recorded: mend its owner and its mode",
            ),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => not_there(root),
        Err(error) => Check::problem(
            "sessions",
            format!("{place} cannot be looked at: {error}"),
            "no run can be recorded: mend that",
        ),
    };
    check.with(details)
}

fn permissions(root: &Path, found: &Metadata) -> Check {
    let place = root.display();
    if found.mode() & 0o077 != 0 {
        return Check::warning(
            "sessions",
            format!(
                "{place} may be entered by others than you (mode {:o})",
                found.mode() & 0o777
            ),
            format!("chmod 700 {place}"),
        );
    }
    Check::ok(
        "sessions",
        format!("{place} is there and can be written to"),
    )
}

/// It is made with the first session, if its nearest folder lets it.
fn not_there(root: &Path) -> Check {
    let place = root.display();
    let Some(parent) = root.ancestors().skip(1).find(|folder| folder.exists()) else {
        return Check::ok("sessions", format!("{place} is not there yet"));
    };
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if parent.is_dir() => Check::ok(
            "sessions",
            format!("{place} is not there yet: the first session makes it"),
        ),
        Ok(()) | Err(_) => Check::problem(
            "sessions",
            format!(
                "{place} is not there, and cannot be made in {}",
                parent.display()
            ),
            "no run can be recorded: mend that, or set XDG_DATA_HOME",
        ),
    }
}

fn room(root: &Path) -> Option<Check> {
    let place = root.ancestors().find(|folder| folder.exists())?;
    let found = statvfs(place).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let text = format!("{} free", size(free));
    let check = match free {
        ..NO_ROOM => Check::problem(
            "disk",
            text,
            "make room: a run that cannot be recorded ends",
        ),
        NO_ROOM..LITTLE_ROOM => Check::warning("disk", text, "make room"),
        LITTLE_ROOM.. => Check::ok("disk", text),
    };
    Some(check.with(json!({"free_bytes": free})))
}

struct Session {
    path: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

fn sessions(root: &Path) -> Vec<Check> {
    let mut found = all(root);
    let is_all = found.len() < COUNTED;
    let bytes: u64 = found.iter().map(|session| session.bytes).sum();
    let more = if is_all { "" } else { " or more" };
    let text = format!(
        "{} recorded{more}, journals of {} in all",
        found.len(),
        size(bytes)
    );
    let details = json!({"count": found.len(), "bytes": bytes, "is_all": is_all});
    let mut checks = vec![Check::ok("recorded", text).with(details)];
    found.sort_by_key(|session| std::cmp::Reverse(session.modified));
    let mut damaged = Vec::new();
    let mut in_use = Vec::new();
    let mut looked_at = 0_usize;
    for session in found.iter().take(READ) {
        let name = session
            .path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        if let Some(process) = journal::holder(&session.path) {
            // What is being written may look torn.
            in_use.push(format!("{name} (process {process})"));
            continue;
        }
        if session.bytes > LONG {
            continue;
        }
        looked_at = looked_at.saturating_add(1);
        match journal::verify(&session.path, None, |_| {}) {
            Ok(verified) if verified.faults == 0 => {}
            Ok(_) | Err(_) => damaged.push(name.into_owned()),
        }
    }
    // The kernel takes a lock back with the process that had it, so there is none of a dead one.
    let text = if in_use.is_empty() {
        "no session is in use, so none is locked".to_owned()
    } else {
        in_use.join(", ")
    };
    checks.push(Check::ok("in use", text).with(json!({ "sessions": in_use })));
    let details = json!({"looked_at": looked_at, "damaged": damaged});
    checks.push(if damaged.is_empty() {
        Check::ok("damage", format!("none in the newest {looked_at}"))
    } else {
        Check::warning(
            "damage",
            format!("in {}", damaged.join(", ")),
            "they can be gone on with all the same; to see and to mend: tooloop sessions verify \
             ID, tooloop sessions repair ID",
        )
    }
    .with(details));
    checks
}

fn all(root: &Path) -> Vec<Session> {
    let entries = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
    };
    entries(root)
        .flat_map(|project| entries(&project.path()))
        .filter(|file| file.path().extension().is_some_and(|end| end == "jsonl"))
        .filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some(Session {
                path: file.path(),
                modified: metadata.modified().ok()?,
                bytes: metadata.len(),
            })
        })
        .take(COUNTED)
        .collect()
}

/// A number of bytes for a person.
fn size(bytes: u64) -> String {
    match bytes {
        ..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        0x4000_0000.. => format!("{} GiB", bytes >> 30),
    }
}
