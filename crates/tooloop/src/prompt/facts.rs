//! What changes by itself: told with a prompt, and so on record there.

use std::io::Read as _;
use std::path::Path;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tooloop_kernel::Transcript;
use tooloop_model::{Content, Message};

use super::Repository;
use crate::regular_file;

/// How the line with the date begins.
const DATE: &str = "Date: ";

/// The first line.
const TITLE: &str = "Facts at this point of the session:";

/// What the model is to be told with a prompt; `None` if it knows the date: nothing else is worth
/// another message, and commands tell it better.
pub(crate) fn due(transcript: &Transcript, workspace: &Path) -> Option<Content> {
    let today = today();
    if told(transcript) == Some(today) {
        return None;
    }
    Some(Content::reminder(&words(today, workspace)))
}

fn words(date: Date, workspace: &Path) -> String {
    let mut words = format!("{TITLE}\n{DATE}{date}");
    if let Some(repository) = Repository::of(workspace) {
        if let Some(head) = repository.head() {
            words.push_str(&format!("\nGit branch: {head}"));
        }
        if let Some(what) = repository.under_way() {
            words.push_str(&format!("\nGit: {what} is under way"));
        }
    }
    words
}

/// The date that the model was told last, as far as that is still in its history.
fn told(transcript: &Transcript) -> Option<Date> {
    let messages = transcript.messages().iter().rev();
    messages
        .filter_map(|message| match message.message() {
            Message::User(content) => Some(content),
            Message::Assistant(_) | Message::ToolResults(_) => None,
        })
        .flat_map(|content| content.iter().rev())
        .find_map(|part| {
            let rest = part.as_reminder()?.strip_prefix(TITLE)?;
            let line = rest.lines().find_map(|line| line.strip_prefix(DATE))?;
            line.parse().ok()
        })
}

fn today() -> Date {
    let zone = zone(std::env::var("TZ").ok().as_deref()).unwrap_or(TimeZone::UTC);
    Timestamp::now().to_zoned_datetime(zone).date()
}

/// The time zone of this machine. Read from the one file that tells it: libraries list all zones.
fn zone(variable: Option<&str>) -> Option<TimeZone> {
    let named = match variable {
        None => "/etc/localtime".to_owned(),
        Some(text) => {
            let name = text.strip_prefix(':').unwrap_or(text);
            if let Ok(zone) = TimeZone::posix(name) {
                return Some(zone);
            }
            let is_plain = !name.is_empty() && !name.split('/').any(|part| part == "..");
            match (is_plain, name.starts_with('/')) {
                (false, _) => return None,
                (true, true) => name.to_owned(),
                (true, false) => format!("/usr/share/zoneinfo/{name}"),
            }
        }
    };
    let mut bytes = Vec::new();
    let file = regular_file::open(Path::new(&named)).ok()?;
    file.take(256 * 1024).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif("", &bytes).ok()
}

#[cfg(test)]
mod tests {
    use tooloop_kernel::Entry;

    use super::*;

    fn said(content: Vec<Content>) -> Entry {
        Entry::message(Message::User(content))
    }

    #[test]
    fn the_date_is_told_once_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let mut transcript = Transcript::default();
        let told_now = due(&transcript, folder.path()).unwrap();
        let prompt = Content::Text("hello".into());
        transcript.apply(&said(vec![prompt.clone(), told_now]));
        assert_eq!(due(&transcript, folder.path()), None);
        let old = Content::reminder(&words(Date::constant(2001, 2, 3), folder.path()));
        transcript.apply(&said(vec![prompt.clone(), old]));
        assert!(due(&transcript, folder.path()).is_some(), "another day");
        // What a person says about a date is not what was told.
        let forged = format!("{TITLE}\n{DATE}{}", today());
        transcript.apply(&said(vec![Content::Text(forged)]));
        assert!(due(&transcript, folder.path()).is_some());
    }

    #[test]
    fn git_is_told_where_there_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let date = Date::constant(2026, 1, 2);
        assert_eq!(
            words(date, folder.path()),
            "Facts at this point of the session:\nDate: 2026-01-02"
        );
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        std::fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(folder.path().join(".git/MERGE_HEAD"), "").unwrap();
        assert_eq!(
            words(date, folder.path()),
            "Facts at this point of the session:\nDate: 2026-01-02\nGit branch: main\n\
             Git: a merge is under way"
        );
    }

    #[test]
    fn zones_are_read_from_one_file() {
        let hour = |zone: TimeZone| {
            let noon: Timestamp = "2026-01-02T23:30:00Z".parse().unwrap();
            noon.to_zoned_datetime(zone).date().to_string()
        };
        assert_eq!(
            zone(Some("<+01>-1")).map(hour).as_deref(),
            Some("2026-01-03")
        );
        assert_eq!(zone(Some("UTC0")).map(hour).as_deref(), Some("2026-01-02"));
        assert!(zone(Some("../../etc/passwd")).is_none());
        assert!(zone(Some("/dev/zero")).is_none());
        assert!(zone(Some("")).is_none());
    }
}
