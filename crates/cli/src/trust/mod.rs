//! Which folders a person trusts, and with what.
//!
//! A folder's settings files may narrow what is done there. What they would widen (hooks, rules that
//! allow, settings such as a server's address) is applied only if a person has seen it and said yes.
//! That is kept by the folder's real path and by a fingerprint of each thing, so what is new or has
//! changed since is asked about again. It holds for the folder whose files say it, and no other.

mod question;
mod store;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use jiff::Timestamp;

use self::question::Answer;
use self::store::{Entry, TrustStore};
use crate::args::TrustArgs;
use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::sessions;
use crate::settings::{self, Approvals, Files, Loaded, Sources, Widening};
use crate::setup;
use crate::text::reveal;

/// What is known about a folder.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) approvals: Approvals,
    /// What a person did not want and need not be asked about again.
    pub(crate) declined: BTreeSet<String>,
    /// Why nothing is known, if something ought to be.
    pub(crate) warning: Option<String>,
}

/// Looks a folder up; its path has no links.
pub(crate) fn known(workspace: &Path) -> Known {
    store().map_or_else(Known::default, |store| look_up(&store, workspace))
}

fn look_up(store: &TrustStore, workspace: &Path) -> Known {
    let mut folders = match store.folders() {
        Ok(folders) => folders,
        Err(error) => {
            let path = store.path().display();
            return Known {
                warning: Some(format!(
                    "{path}: which folders are trusted cannot be read, so none is: {error}"
                )),
                ..Known::default()
            };
        }
    };
    let found = workspace.to_str().and_then(|path| folders.remove(path));
    let Some(entry) = found else {
        return Known::default();
    };
    Known {
        approvals: these(entry.approved),
        declined: entry.declined,
        warning: None,
    }
}

/// A folder of which everything was declined is as good as unknown.
fn these(approved: BTreeSet<String>) -> Approvals {
    if approved.is_empty() {
        Approvals::Nothing
    } else {
        Approvals::These(approved)
    }
}

/// The file is kept beside the sessions.
fn store() -> Option<TrustStore> {
    let sessions = sessions::root(&setup::environment)?;
    Some(TrustStore::at(sessions.parent()?.join("trusted.json")))
}

/// What is to be done about a folder that is not trusted with all that it wants.
#[derive(Debug)]
pub(crate) enum Said {
    /// Go on with this approved.
    Go(Approvals),
    /// Do not go on.
    Leave,
}

/// Asks the person at the terminal, unless they have said before what they want.
pub(crate) fn ask(workspace: &Path, loaded: &Loaded, known: &Known) -> Result<Said, Failure> {
    let new: Vec<&Widening> = loaded
        .widenings
        .iter()
        .filter(|widening| !widening.approved)
        // What nobody can vouch for is left out, whatever is said.
        .filter(
            |widening| matches!(&widening.fingerprint, Ok(one) if !known.declined.contains(one)),
        )
        .collect();
    if new.is_empty() {
        return Ok(Said::Go(known.approvals.clone()));
    }
    let was_trusted = known.approvals != Approvals::Nothing;
    let answer = question::ask(workspace, &new, was_trusted).map_err(|error| {
        Failure::new(
            Status::Internal,
            format!("cannot ask about this folder: {error}"),
        )
    })?;
    let all = || fingerprints(loaded);
    let entry = match answer {
        Answer::Yes => Entry {
            at: Timestamp::now(),
            approved: all().collect(),
            declined: BTreeSet::new(),
        },
        Answer::No => {
            let approved = match &known.approvals {
                Approvals::These(approved) => approved.clone(),
                Approvals::Nothing | Approvals::Everything => BTreeSet::new(),
            };
            Entry {
                at: Timestamp::now(),
                declined: all().filter(|one| !approved.contains(one)).collect(),
                approved,
            }
        }
        Answer::Quit => return Ok(Said::Leave),
    };
    let approvals = these(entry.approved.clone());
    let kept = match store() {
        Some(store) => store.set(workspace, Some(entry)),
        None => Err(io::Error::other(
            "there is no folder for it: set HOME or XDG_DATA_HOME",
        )),
    };
    if let Err(error) = kept {
        complain(&format!(
            "your answer holds for this run only: it cannot be kept: {error}"
        ));
    }
    Ok(Said::Go(approvals))
}

/// What tells all that a folder wants, as far as it can be told.
fn fingerprints(loaded: &Loaded) -> impl Iterator<Item = String> {
    let all = loaded.widenings.iter();
    all.filter_map(|widening| widening.fingerprint.clone().ok())
}

/// `tooloop trust`.
pub(crate) fn run(args: &TrustArgs) -> Result<Status, Failure> {
    let store = store().ok_or_else(|| {
        Failure::settings("there is no place to keep it: set HOME or XDG_DATA_HOME")
    })?;
    let unusable =
        |error: io::Error| Failure::settings(format!("{}: {error}", store.path().display()));
    if args.list {
        return list(&store).map_err(unusable);
    }
    let directory = args.directory.as_deref().unwrap_or(Path::new("."));
    if args.remove {
        // A folder that is gone can be forgotten too.
        let path = std::fs::canonicalize(directory).or_else(|_| std::path::absolute(directory));
        let path = path.map_err(unusable)?;
        let words = if store.set(&path, None).map_err(unusable)? {
            "is not trusted any more"
        } else {
            "was not known"
        };
        return Ok(say(&format!("{} {words}\n", path.display())));
    }
    trust(&store, &setup::workspace(Some(directory))?, args.yes)
}

fn trust(store: &TrustStore, workspace: &Path, yes: bool) -> Result<Status, Failure> {
    let known = look_up(store, workspace);
    if let Some(warning) = known.warning {
        return Err(Failure::settings(warning));
    }
    let sources = Sources {
        approvals: known.approvals.clone(),
        ..Sources::new(workspace.to_owned(), std::env::vars_os().collect())
    };
    let loaded = settings::load(&sources, &Files::default())
        .map_err(|error| Failure::settings(error.to_string()))?;
    let new: Vec<&Widening> = loaded
        .widenings
        .iter()
        .filter(|one| !one.approved && one.fingerprint.is_ok())
        .collect();
    for one in &loaded.widenings {
        if let Err(why) = &one.fingerprint {
            let words = format!("{} cannot be trusted: {why}", one.shown);
            complain(&reveal(&words));
        }
    }
    let shown = reveal(&workspace.display().to_string());
    if new.is_empty() {
        let words = match loaded.widenings.len() {
            0 => "wants nothing that needs trust",
            _ => "is trusted with all that it wants",
        };
        return Ok(say(&format!("{shown} {words}\n")));
    }
    let was_trusted = known.approvals != Approvals::Nothing;
    let status = say(&question::page(workspace, &new, was_trusted));
    if status != Status::Done {
        return Ok(status);
    }
    if !yes {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(Failure::usage("to trust it, say --yes"));
        }
        let mut terminal = io::stderr().lock();
        let asked = write!(terminal, "Trust it? [y/N] ").and_then(|()| terminal.flush());
        let mut answer = String::new();
        // An answer to a question that could not be asked is no.
        let read = asked.and_then(|()| io::stdin().read_line(&mut answer));
        if read.is_err() || !matches!(answer.trim(), "y" | "Y" | "yes") {
            complain("it is not trusted; nothing was changed");
            return Ok(Status::Done);
        }
    }
    let entry = Entry {
        at: Timestamp::now(),
        approved: fingerprints(&loaded).collect(),
        declined: BTreeSet::new(),
    };
    store
        .set(workspace, Some(entry))
        .map_err(|error| Failure::settings(format!("{}: {error}", store.path().display())))?;
    Ok(say(&format!("{shown} is trusted with it\n")))
}

fn list(store: &TrustStore) -> io::Result<Status> {
    let mut lines = String::new();
    for (path, entry) in store.folders()? {
        let count = match (entry.approved.len(), entry.declined.len()) {
            (0, declined) => format!("{declined} declined"),
            (approved, 0) => format!("{approved} approved"),
            (approved, declined) => format!("{approved} approved, {declined} declined"),
        };
        let day = entry.at.strftime("%Y-%m-%d");
        lines.push_str(&format!("{day}  {}  ({count})\n", reveal(&path)));
    }
    Ok(say(&lines))
}

fn say(words: &str) -> Status {
    let written = crate::output::stdout().write_all(words.as_bytes());
    match written {
        Ok(()) => Status::Done,
        Err(_) => Status::BrokenPipe,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    fn entry(approved: &[&str], declined: &[&str]) -> Entry {
        let set = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Entry {
            at: Timestamp::from_second(0).unwrap(),
            approved: set(approved),
            declined: set(declined),
        }
    }

    fn only(words: &[&str]) -> Approvals {
        Approvals::These(words.iter().map(ToString::to_string).collect())
    }

    /// A repository with a folder, and a store.
    fn world() -> (tempfile::TempDir, PathBuf, TrustStore) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("r");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("sub")).unwrap();
        let store = TrustStore::at(folder.path().join("trusted.json"));
        (folder, root, store)
    }

    #[test]
    fn what_a_folder_was_trusted_with_holds_there_alone() {
        let (_folder, root, store) = world();
        store.set(&root, Some(entry(&["a"], &["z"]))).unwrap();
        let known = look_up(&store, &root);
        assert_eq!(known.approvals, only(&["a"]));
        assert_eq!(known.declined, entry(&[], &["z"]).declined);
        // Not even in a folder of the same repository: it may have come from anywhere.
        let known = look_up(&store, &root.join("sub"));
        assert_eq!(known.approvals, Approvals::Nothing);
        assert_eq!(known.declined, BTreeSet::new());
        let sub = entry(&[], &["y"]);
        store.set(&root.join("sub"), Some(sub.clone())).unwrap();
        let known = look_up(&store, &root.join("sub"));
        assert_eq!(known.approvals, Approvals::Nothing);
        assert_eq!(known.declined, sub.declined);
    }

    #[test]
    fn a_damaged_store_trusts_nothing_and_says_so() {
        let (_folder, root, store) = world();
        fs::write(store.path(), "{").unwrap();
        let known = look_up(&store, &root);
        assert_eq!(known.approvals, Approvals::Nothing);
        assert!(known.warning.unwrap().contains("trusted.json"));
    }
}
