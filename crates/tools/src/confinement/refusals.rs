//! What the sandbox refused to a command, found out when the command is over.
//!
//! The kernel tells the command and nobody else, so this looks at what the command said: a path
//! counts if it stands beside the words of such an error, if the profile does not let it be
//! written, and if nothing else would have kept it from being so. What the proxy denied, it knows
//! itself.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use tooloop_exec::{Mechanism, Outcome, SandboxNetwork, SandboxProfile};
use tooloop_policy::Grant;
use tooloop_tool::SandboxRefusal;

use super::guard::Removal;
use super::{TempView, Wall};

/// How many lines of output are looked at, from the end.
const LINES: usize = 400;

/// How many lines before an error may name what it is about.
const BEFORE: usize = 4;

/// How many refusals are told.
const MOST: usize = 5;

/// How many paths are named of those that were taken back for the same reason.
const NAMED: usize = 10;

/// The words of errors about files, as mounts give them.
const READ_ONLY: [&str; 4] = [
    "read-only file system",
    "erofs",
    // Of what something is mounted on: it can neither be renamed nor removed.
    "device or resource busy",
    "ebusy",
];

/// The words of those that rules on processes give. Files have them for other reasons, too.
const NOT_ALLOWED: [&str; 4] = [
    "permission denied",
    "operation not permitted",
    "eacces",
    "eperm",
];

/// The words of errors about the network.
const NETWORK_ERRORS: [&str; 12] = [
    "could not resolve host",
    "couldn't resolve host",
    "name or service not known",
    "temporary failure in name resolution",
    "failed to lookup address",
    "nodename nor servname",
    "no such host",
    "eai_again",
    "enetunreach",
    "network is unreachable",
    "dns error",
    "temporary failure resolving",
];

impl Wall {
    /// What it refused to the command that came to this end, and what of it was taken back.
    pub(crate) fn refusals(&mut self, outcome: &Outcome) -> Vec<SandboxRefusal> {
        let left: Vec<u32> = outcome
            .leftovers
            .iter()
            .map(|process| process.pid)
            .collect();
        let removals = self.finish(&left);
        let output = if outcome.output.left_out > 0 {
            &outcome.output.tail
        } else {
            &outcome.output.head
        };
        let mut found: Vec<SandboxRefusal> = of_removals(&removals).collect();
        let most = found.len() + MOST;
        let mut add = |refusal: SandboxRefusal| {
            if found.len() < most && !found.contains(&refusal) {
                found.push(refusal);
            }
        };
        let mut profile = SandboxProfile::clone(&self.confined.profile);
        // What a protected link leads to is protected too.
        let real = profile.read_only.iter();
        let real: Vec<PathBuf> = real.filter_map(|path| path.canonicalize().ok()).collect();
        profile.read_only.extend(real);
        if let Some(proxy) = &self.proxy {
            for denied in proxy.take_denials() {
                let host = denied.host.clone();
                add(SandboxRefusal {
                    what: format!("talking to {host}"),
                    rule: denied.to_string(),
                    grant: Some(Grant::Host(host).to_string()),
                });
            }
        }
        let mut lines: Vec<&str> = output.lines().rev().take(LINES).collect();
        lines.reverse();
        let enforced = self.confined.sandbox.enforced();
        let has_mounts = enforced.mechanism != Mechanism::Landlock;
        for (index, line) in lines.iter().enumerate() {
            let lower = line.to_lowercase();
            let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
            if says(&READ_ONLY) || !has_mounts && says(&NOT_ALLOWED) {
                let first = index.saturating_sub(BEFORE);
                let near = lines.get(first..=index).unwrap_or_default();
                let path = near.iter().rev().find_map(|line| {
                    paths(line, &self.directory)
                        .into_iter()
                        .find_map(|path| refused(&path, &profile))
                });
                if let Some(path) = path {
                    add(self.write_refused(path, &profile));
                }
            }
            if has_mounts && lower.contains("no such file or directory") {
                let covered = paths(line, &self.directory);
                let covered = covered.into_iter().find(|path| self.is_covered(path));
                if let Some(path) = covered {
                    add(SandboxRefusal {
                        what: format!("reading {}", path.display()),
                        rule:
                            "commands see a private folder in place of the system's temporary ones"
                                .into(),
                        grant: Some(Grant::Write(path).to_string()),
                    });
                }
            }
            if self.confined.profile.network == SandboxNetwork::Off && says(&NETWORK_ERRORS) {
                add(network_refused(line));
            }
        }
        found
    }

    /// Whether a path is there, and commands see the private folder in its place.
    fn is_covered(&self, path: &Path) -> bool {
        let profile = &self.confined.profile;
        let is_below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        TempView::SEEN_AS
            .iter()
            .any(|folder| path.starts_with(folder))
            && !path.starts_with(&profile.temp)
            && !is_below(&profile.writable)
            && std::fs::symlink_metadata(path).is_ok()
    }

    fn write_refused(&self, path: PathBuf, profile: &SandboxProfile) -> SandboxRefusal {
        let is_protected = profile
            .read_only
            .iter()
            .any(|protected| path.starts_with(protected));
        let what = format!("writing {}", path.display());
        if is_protected {
            return SandboxRefusal {
                what,
                rule: "it is protected: programs outside of the sandbox obey it".into(),
                grant: None,
            };
        }
        let folders: Vec<String> = self
            .confinement
            .writable
            .iter()
            .take(MOST)
            .map(|path| path.display().to_string())
            .collect();
        let rule = match folders.as_slice() {
            [] => "nothing but the temporary folder may be written".to_owned(),
            _ => format!(
                "only {} and the temporary folder may be written",
                folders.join(", ")
            ),
        };
        SandboxRefusal {
            what,
            rule,
            grant: Some(Grant::Write(path).to_string()),
        }
    }
}

/// What was taken back, told together where the reason is the same.
pub(super) fn of_removals(removals: &[Removal]) -> impl Iterator<Item = SandboxRefusal> {
    let mut groups: Vec<(&str, bool, Vec<&Path>)> = Vec::new();
    for removal in removals {
        let same = groups
            .iter_mut()
            .find(|(why, grantable, _)| *why == removal.why && *grantable == removal.is_grantable);
        match same {
            Some((_, _, paths)) => paths.push(&removal.path),
            None => groups.push((&removal.why, removal.is_grantable, vec![&removal.path])),
        }
    }
    let told = groups.into_iter().map(|(why, is_grantable, paths)| {
        let first = paths
            .iter()
            .take(NAMED)
            .map(|path| path.display().to_string());
        let mut what = first.collect::<Vec<_>>().join(", ");
        if paths.len() > NAMED {
            what.push_str(&format!(" and {} more", paths.len() - NAMED));
        }
        let grant = paths.first().filter(|_| is_grantable);
        SandboxRefusal {
            what: format!("making {what}"),
            rule: why.to_owned(),
            grant: grant.map(|path| Grant::Write(path.to_path_buf()).to_string()),
        }
    });
    told.take(MOST).collect::<Vec<_>>().into_iter()
}

fn network_refused(line: &str) -> SandboxRefusal {
    let rule = "the network is off for commands".to_owned();
    match host(line) {
        Some(host) => SandboxRefusal {
            what: format!("talking to {host}"),
            rule,
            grant: Some(Grant::Host(host).to_string()),
        },
        None => SandboxRefusal {
            what: "talking to the network".into(),
            rule,
            grant: Some(Grant::Network.to_string()),
        },
    }
}

/// The parts of a line between blanks and quotes, without punctuation round them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '‘' | '’' | '(' | ')'))
        .map(|word| {
            let word = word.trim_matches([',', ';', ':', '[', ']', '<', '>']);
            word.trim_end_matches('.')
        })
        .filter(|word| !word.is_empty())
}

/// The host that a line names: a word with a dot in it that can be nothing else.
fn host(line: &str) -> Option<String> {
    words(line).find_map(|word| {
        let word = word.split_once("://").map_or(word, |(_, rest)| rest);
        let word = word.split(['/', '?', '#']).next().unwrap_or_default();
        let word = word.rsplit_once('@').map_or(word, |(_, host)| host);
        let name = word.split(':').next().unwrap_or_default();
        let last = name.rsplit('.').next().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let is_host = name.contains('.')
            && name.chars().all(fits)
            && last.len() >= 2
            && last.chars().all(|c| c.is_ascii_alphabetic())
            // Names of source files stand beside such errors, too.
            && !matches!(last, "go" | "rs" | "py" | "js" | "ts" | "c" | "h" | "java" | "rb" | "sh" | "json" | "toml");
        is_host.then(|| name.to_ascii_lowercase())
    })
}

/// The paths that a line may name.
fn paths(line: &str, directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    // A name in quotes may hold blanks.
    let mut quoted = line.split(['\'', '"', '`', '‘', '’']);
    quoted.next();
    let quoted = quoted.step_by(2).filter(|word| !word.trim().is_empty());
    let quoted = quoted.map(|word| (word, true));
    // `sh: line 1: /x/y: Permission denied`: a name between colons may, too.
    let parts = line.split(": ").map(str::trim);
    let bare = parts.chain(words(line)).map(|word| (word, false));
    for (word, is_quoted) in quoted.chain(bare) {
        let word = word.trim_end_matches(':');
        let word = word.split_once("://").map_or(word, |_| "");
        let fits = !word.is_empty() && word.len() < 4096 && !word.contains(['\0', '\n']);
        if !fits {
            continue;
        }
        let path = base(word, directory).join(word);
        // A bare word is a path only if something is there.
        let counts = is_quoted || word.contains('/') || std::fs::symlink_metadata(&path).is_ok();
        if counts && !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The directory that a relative path starts from: git names paths of its own from the top of the
/// working tree.
fn base<'a>(path: &str, directory: &'a Path) -> &'a Path {
    let is_tree = |folder: &&Path| std::fs::symlink_metadata(folder.join(".git")).is_ok();
    let tree = path
        .starts_with(".git/")
        .then(|| directory.ancestors().find(is_tree));
    tree.flatten().unwrap_or(directory)
}

/// Where a path really leads, if the profile alone keeps it from being written.
fn refused(path: &Path, profile: &SandboxProfile) -> Option<PathBuf> {
    // The nearest that is there: links in it are followed, as the command's were.
    let there = path.ancestors().find(|path| path.exists())?;
    let real = there.canonicalize().ok()?;
    let whole = match path.strip_prefix(there) {
        Ok(below) if !below.as_os_str().is_empty() => real.join(below),
        Ok(_) | Err(_) => real.clone(),
    };
    let is_below = |roots: &[PathBuf]| roots.iter().any(|root| whole.starts_with(root));
    let may = whole.starts_with(&profile.temp)
        || is_below(&profile.writable) && !is_below(&profile.read_only);
    let system = ["/dev", "/proc", "/sys"];
    if may || system.iter().any(|folder| whole.starts_with(folder)) {
        return None;
    }
    // Who could not write it without a sandbox was not refused by it.
    access(&real, Access::WRITE_OK).is_ok().then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(writable: &Path) -> SandboxProfile {
        SandboxProfile {
            writable: vec![writable.to_owned()],
            read_only: vec![writable.join(".git/config")],
            hidden: Vec::new(),
            temp: "/nowhere/temp".into(),
            staged: Vec::new(),
            network: SandboxNetwork::Off,
        }
    }

    #[test]
    fn what_programs_say_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("w"), root.join("o"));
        std::fs::create_dir_all(inside.join(".git")).unwrap();
        std::fs::create_dir_all(outside.join("my files")).unwrap();
        std::fs::write(inside.join(".git/config"), "").unwrap();
        std::fs::write(outside.join("a"), "").unwrap();
        let profile = profile(&inside);
        let o = outside.display();
        for (line, expected) in [
            (
                format!("touch: cannot touch '{o}/x': Read-only file system"),
                Some(outside.join("x")),
            ),
            (
                format!("bash: line 1: {o}/x: Permission denied"),
                Some(outside.join("x")),
            ),
            (
                format!("PermissionError: [Errno 13] Permission denied: '{o}/my files/x'"),
                Some(outside.join("my files/x")),
            ),
            (
                format!("npm ERR! Error: EROFS: read-only file system, mkdir '{o}/_logs'"),
                Some(outside.join("_logs")),
            ),
            (
                format!("mv: cannot move 'a' to '{o}/a': Read-only file system"),
                Some(outside.join("a")),
            ),
            (
                "error: could not lock config file .git/config: Read-only file system".into(),
                Some(inside.join(".git/config")),
            ),
            (
                format!(
                    "touch: cannot touch '{}/x': Permission denied",
                    inside.display()
                ),
                None,
            ),
            ("cat: /proc/1/mem: Permission denied".into(), None),
            ("Permission denied".into(), None),
            (
                "touch: cannot touch ‘../o/x’: Read-only file system".into(),
                Some(outside.join("x")),
            ),
        ] {
            let found = paths(&line, &inside)
                .into_iter()
                .find_map(|path| refused(&path, &profile));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn what_programs_say_names_the_host() {
        for (line, expected) in [
            (
                "curl: (6) Could not resolve host: example.com",
                Some("example.com"),
            ),
            (
                "fatal: unable to access 'https://u:p@git.example.org/x.git/': Could not resolve host: git.example.org",
                Some("git.example.org"),
            ),
            (
                "npm ERR! network request to https://packages.example.org/x failed, reason: getaddrinfo EAI_AGAIN packages.example.org",
                Some("packages.example.org"),
            ),
            (
                "dial tcp: lookup modules.example.org: no such host",
                Some("modules.example.org"),
            ),
            ("main.go: socket: Network is unreachable", None),
            ("ping: connect: Network is unreachable", None),
        ] {
            assert_eq!(host(line).as_deref(), expected, "{line}");
        }
    }
}
