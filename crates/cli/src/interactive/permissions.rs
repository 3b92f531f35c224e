//! `/permissions`: what is allowed in this session, and why.

use tooloop::Session;

use super::paint::{Out, Style, line};
use crate::permissions::{Explained, List, RuleSources, tool_use};
use crate::text;

/// What is asked for behind `/permissions`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted<'w> {
    List,
    Explain { tool: &'w str, call: &'w str },
    Remove(usize),
    Unknown,
}

fn wanted(words: &str) -> Wanted<'_> {
    let (verb, rest) = match words.trim().split_once(char::is_whitespace) {
        Some((verb, rest)) => (verb, rest.trim()),
        None => (words.trim(), ""),
    };
    match (verb, rest) {
        ("" | "list", "") => Wanted::List,
        ("explain", call) if !call.is_empty() => {
            let named = call.strip_prefix("--tool ").map(str::trim_start);
            match named.and_then(|named| named.split_once(char::is_whitespace)) {
                Some((tool, call)) => Wanted::Explain {
                    tool,
                    call: call.trim(),
                },
                None => Wanted::Explain { tool: "bash", call },
            }
        }
        ("remove", number) => number.parse().map_or(Wanted::Unknown, Wanted::Remove),
        _ => Wanted::Unknown,
    }
}

/// Does what is asked for, and tells of it. `begun` is the policy that the session began with.
pub(super) fn permissions(
    words: &str,
    session: &Session,
    begun: &tooloop::Policy,
    sources: &RuleSources,
    columns: usize,
) -> Vec<Out> {
    let policy = session.policy();
    let list = List::new(&policy, sources, Some(begun));
    let notice = |words: &str| vec![line(Style::Notice, format!("  {words}"))];
    match wanted(words) {
        Wanted::List => {
            let mut outs = lines(&list.text(), columns);
            let words = "  /permissions explain COMMAND says why, remove N takes an answer back";
            outs.push(line(Style::Dim, words));
            outs
        }
        Wanted::Explain { tool, call } => {
            let tool_use = match tool_use(tool, call) {
                Ok(tool_use) => tool_use,
                Err(problem) => return notice(&problem),
            };
            match session.access(&tool_use) {
                Ok(access) => {
                    let explained = Explained::new(&policy, &tool_use, &access, sources);
                    lines(&explained.text(), columns)
                }
                Err(problem) => notice(&text::one_line(&text::clean(&problem))),
            }
        }
        Wanted::Remove(number) => {
            let added = list.added();
            let Some(rule) = number.checked_sub(1).and_then(|index| added.get(index)) else {
                return notice("There is no rule of that number: /permissions lists them.");
            };
            session.change_policy(|policy| policy.allow.retain(|other| other != rule));
            let rule = text::reveal(&rule.to_string()).replace('\n', "\\n");
            vec![line(
                Style::Plain,
                format!("  {rule} allows nothing any more."),
            )]
        }
        Wanted::Unknown => notice("/permissions [list | explain [--tool NAME] CALL | remove N]"),
    }
}

/// Text as lines, those that are too long broken.
fn lines(text: &str, columns: usize) -> Vec<Out> {
    let room = columns.saturating_sub(3).max(20);
    text.lines()
        .flat_map(|one| {
            let indent = one.len().saturating_sub(one.trim_start().len());
            let broken = text::wrap(one.trim_start(), room.saturating_sub(indent).max(10));
            broken
                .into_iter()
                .map(move |part| line(Style::Plain, format!("  {}{part}", " ".repeat(indent))))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_for_in_few_words() {
        for (words, expected) in [
            ("", Wanted::List),
            (" list ", Wanted::List),
            (
                "explain git push  x",
                Wanted::Explain {
                    tool: "bash",
                    call: "git push  x",
                },
            ),
            (
                "explain --tool edit  src/a b",
                Wanted::Explain {
                    tool: "edit",
                    call: "src/a b",
                },
            ),
            ("remove 2", Wanted::Remove(2)),
            ("remove all", Wanted::Unknown),
            ("explain", Wanted::Unknown),
            ("forget", Wanted::Unknown),
        ] {
            assert_eq!(wanted(words), expected, "{words:?}");
        }
    }
}
