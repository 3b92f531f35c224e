//! `tooloop sessions rm`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tooloop::SessionError;
use tooloop::journal::{self, Catalog, belongings, forks_of};

use crate::exit::{Failure, Status};
use crate::print::complain;
use crate::text::clean;

/// The journals that were not written to for so many days.
pub(crate) fn older_than(catalog: &Catalog, days: u32) -> Vec<PathBuf> {
    let age = Duration::from_secs(u64::from(days).saturating_mul(24 * 60 * 60));
    let time = SystemTime::now()
        .checked_sub(age)
        .unwrap_or(SystemTime::UNIX_EPOCH);
    catalog.older_than(time)
}

/// Removes sessions, if somebody says yes to what it comes to. One that cannot be removed does not
/// keep the others.
pub(crate) fn remove(journals: &[PathBuf], yes: bool) -> Result<Status, Failure> {
    if journals.is_empty() {
        complain("there is no such session; nothing was removed");
        return Ok(Status::Done);
    }
    if !yes && !is_wanted(journals)? {
        complain("nothing was removed");
        return Ok(Status::Done);
    }
    let mut out = crate::output::stdout();
    let mut failure = None;
    for journal in journals {
        let forks = forks_of(journal);
        match journal::remove(journal) {
            Ok(removed) => {
                for path in removed.paths {
                    let words = format!("removed {}\n", path.display());
                    if out.write_all(clean(&words).as_bytes()).is_err() {
                        return Ok(Status::BrokenPipe);
                    }
                }
                for fork in forks {
                    complain(&format!(
                        "session {fork} was forked from it: it goes on, but long outputs and old \
                         contents of files from before the fork are gone"
                    ));
                }
            }
            Err(error) => {
                complain(&error.to_string());
                failure = Some(Failure::from(SessionError::from(error)).status);
            }
        }
    }
    Ok(failure.unwrap_or(Status::Done))
}

fn is_wanted(journals: &[PathBuf]) -> Result<bool, Failure> {
    let list: String = journals.iter().map(|journal| told(journal)).collect();
    let count = match journals.len() {
        1 => "this session".into(),
        many => format!("these {many} sessions"),
    };
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "to remove {count} for good, say --yes:\n{}",
            list.trim_end()
        )));
    }
    let mut terminal = io::stderr().lock();
    // An answer to a question that could not be asked is no.
    let asked = write!(terminal, "{list}Remove {count} for good? [y/N] ");
    let mut answer = String::new();
    let read = asked
        .and_then(|()| terminal.flush())
        .and_then(|()| io::stdin().read_line(&mut answer));
    let answer = answer.trim().to_lowercase();
    Ok(read.is_ok() && (answer == "y" || answer == "yes"))
}

fn told(journal: &Path) -> String {
    let paths = belongings(journal);
    let lines = paths.iter().map(|path| format!("  {}\n", path.display()));
    clean(&lines.collect::<String>())
}
