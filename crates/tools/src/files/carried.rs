//! The files that a model still has to know after its conversation was summed up.

use tooloop_model::Content;
use tooloop_tool::{Carried, ToolContext, ToolError, Withheld};

use super::call::{Call, Files};
use super::read::{ReadInput, read};
use super::seen::Part;

/// How many files are carried over.
const FILES: usize = 5;

/// How many are looked at for that: some may be gone, or may not be read any more.
const LOOKED_AT: usize = 25;

/// How much of each is carried over: what 5,000 tokens have, likely.
const BYTES: usize = 17_500;

/// The files that were read or written last, newest first, as they are now.
pub(crate) async fn newest(files: &Files, withheld: Withheld) -> Vec<Carried> {
    // Paths are absolute here, so that no folder is needed.
    let context = ToolContext::new("/");
    let shared = files.seen();
    // What is read here is no read of the model's.
    let files = files.unseen();
    let found = files.run(&context, move |call| {
        let mut carried = Vec::new();
        for (path, part) in shared.met_last(LOOKED_AT) {
            call.check()?;
            let title = path.to_str().filter(|_| !withheld.holds(&path));
            if let Some(title) = title
                && let Some(text) = as_it_is(call, title, part)
            {
                let title = title.to_owned();
                carried.push(Carried { title, text });
            }
            if carried.len() == FILES {
                break;
            }
        }
        Ok::<_, ToolError>(carried)
    });
    found.await.unwrap_or_default()
}

/// The part of a file that was read last, if it still is a text.
fn as_it_is(call: &Call, path: &str, part: Option<Part>) -> Option<String> {
    let input = ReadInput {
        path: path.into(),
        offset: part.map(|(offset, _)| offset),
        limit: part.and_then(|(_, limit)| i64::try_from(limit).ok()),
    };
    let output = read(call, &input).ok()?;
    // Nothing else is there now, nor a link that leads elsewhere.
    output.source.filter(|source| source.as_os_str() == path)?;
    let [Content::Text(text)] = output.content.as_slice() else {
        return None;
    };
    Some(bounded(text))
}

/// As many whole lines as there is room for.
fn bounded(text: &str) -> String {
    if text.len() <= BYTES {
        return text.to_owned();
    }
    let words = "(cut here: read the rest if you need it)";
    let most = text.floor_char_boundary(BYTES.saturating_sub(words.len()));
    let head = text.get(..most).unwrap_or_default();
    let end = head.rfind('\n').map_or(most, |at| at.saturating_add(1));
    format!("{}{words}", text.get(..end).unwrap_or_default())
}
