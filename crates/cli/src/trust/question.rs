//! The page that says what a folder wants, and the question behind it.
//!
//! The terminal is as it was found: a line is read, so nothing is answered by a key that was meant
//! for something else.

use std::io::{self, BufRead as _, Write as _};
use std::path::Path;

use rustix::termios::{QueueSelector, tcflush};

use crate::settings::Widening;
use crate::text::{one_line, reveal};

/// What a person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Quit,
}

/// Asks until there is an answer. The end of the input is no answer that trusts.
pub(super) fn ask(workspace: &Path, wanted: &[&Widening], changed: bool) -> io::Result<Answer> {
    let mut out = crate::output::stdout();
    out.write_all(page(workspace, wanted, changed).as_bytes())?;
    out.write_all(b"\n  y  yes, apply it\n  n  no, work here without it\n  q  quit\n\n")?;
    let input = io::stdin();
    // What was typed before the question was read is no answer to it.
    tcflush(&input, QueueSelector::IFlush)?;
    let mut input = input.lock();
    loop {
        out.write_all(b"Do you trust this folder? [y/n/q] ")?;
        out.flush()?;
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(0) => return Ok(Answer::Quit),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(error),
        }
        match meant(&line) {
            Some(answer) => {
                out.write_all(b"\n")?;
                return Ok(answer);
            }
            None => out.write_all(b"Please say y, n or q.\n")?,
        }
    }
}

fn meant(line: &str) -> Option<Answer> {
    match &*line.trim().to_lowercase() {
        "y" | "yes" => Some(Answer::Yes),
        "n" | "no" => Some(Answer::No),
        "q" | "quit" => Some(Answer::Quit),
        _ => None,
    }
}

/// What kinds there are, with their headings.
const HOOKS: &str = "Commands that would be run as you, without a question:";
const RULES: &str = "Calls that would need no question:";
const SETTINGS: &str = "Settings:";

fn heading(key: &str) -> &'static str {
    match key {
        "hooks" => HOOKS,
        "allowed_tools" | "permissions.allow" => RULES,
        _ => SETTINGS,
    }
}

/// All that a folder wants, with file and line. What stands in its files has no power over the
/// terminal, and nothing of it is left out: it is what the answer is about.
pub(super) fn page(workspace: &Path, wanted: &[&Widening], changed: bool) -> String {
    let mut page = format!("\n{}\n\n", shown(&workspace.display().to_string()));
    page.push_str(if changed {
        "You have been here before. This is new in its settings files, or has changed since, and\n\
         is not applied unless you trust it:\n"
    } else {
        "The settings files of this folder want more than files that come with a folder may have.\n\
         This is not applied unless you trust it:\n"
    });
    let mut counts = Vec::new();
    for kind in [HOOKS, RULES, SETTINGS] {
        let these: Vec<_> = wanted
            .iter()
            .filter(|one| heading(one.key) == kind)
            .collect();
        if these.is_empty() {
            continue;
        }
        page.push_str(&format!("\n{kind}\n"));
        for widening in &these {
            let place = widening.place.origin();
            let root = format!("{}/", workspace.display());
            let place = shown(place.strip_prefix(&root).unwrap_or(&place));
            let what = match kind {
                SETTINGS => format!("{} = {}", widening.key, widening.shown),
                _ => widening.shown.clone(),
            };
            page.push_str(&format!("  {}  ({place})\n", shown(&what)));
        }
        let (one, many) = match kind {
            HOOKS => ("command", "commands"),
            RULES => ("rule", "rules"),
            _ => ("setting", "settings"),
        };
        let noun = if these.len() == 1 { one } else { many };
        counts.push(format!("{} {noun}", these.len()));
    }
    page.push_str(&format!("\nIn all: {}.", counts.join(", ")));
    if wanted.iter().any(|one| heading(one.key) == HOOKS) {
        page.push_str(
            "\nA script of this folder that a command names is trusted as it is now; what that calls \
             is not\nlooked at.",
        );
    }
    page.push('\n');
    page
}

/// On one line, the ends of lines written out.
fn shown(text: &str) -> String {
    one_line(&reveal(text).replace('\n', " \\n "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Place, Source};

    fn widening(key: &'static str, shown: &str, line: usize) -> Widening {
        Widening {
            source: Source::Project,
            place: Place::File {
                path: "/w/.tooloop/config.toml".into(),
                at: Some((line, 1)),
            },
            key,
            shown: shown.to_owned(),
            fingerprint: Ok(String::new()),
            approved: false,
        }
    }

    #[test]
    fn the_page_names_all_by_kind_and_place() {
        let all = [
            widening("allowed_tools", "Bash(make *)", 3),
            widening("hooks", "Stop: rm -rf ~\n\u{1b}[2Jmake\u{202e}x", 7),
            widening("base_url", "\"http://x.invalid\"", 1),
            widening("permissions.allow", "Edit", 9),
        ];
        let all: Vec<_> = all.iter().collect();
        assert_eq!(
            page(Path::new("/w"), &all, false),
            "\n/w\n\n\
             The settings files of this folder want more than files that come with a folder may have.\n\
             This is not applied unless you trust it:\n\n\
             Commands that would be run as you, without a question:\n  \
             Stop: rm -rf ~ \\n \\u{1b}[2Jmake\\u{202e}x  (.tooloop/config.toml:7)\n\n\
             Calls that would need no question:\n  \
             Bash(make *)  (.tooloop/config.toml:3)\n  \
             Edit  (.tooloop/config.toml:9)\n\n\
             Settings:\n  \
             base_url = \"http://x.invalid\"  (.tooloop/config.toml:1)\n\n\
             In all: 1 command, 2 rules, 1 setting.\nA script of this folder that a command names is trusted as it is now; what that calls is not\nlooked at.\n"
        );
    }

    #[test]
    fn only_clear_words_are_answers() {
        for (line, expected) in [
            ("y\n", Some(Answer::Yes)),
            (" YES \n", Some(Answer::Yes)),
            ("n\n", Some(Answer::No)),
            ("q", Some(Answer::Quit)),
            ("\n", None),
            ("yes please\n", None),
            ("fix the build\n", None),
        ] {
            assert_eq!(meant(line), expected, "{line:?}");
        }
    }
}
