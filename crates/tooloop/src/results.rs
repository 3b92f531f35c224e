//! How much of a call's result the model is shown.
//!
//! What is too long goes into a file of the session, and the model gets its beginning, its end and
//! the file's name.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::fs::{DirBuilder, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tooloop_model::{Content, ToolUseId};
use tooloop_provider::Redactor;
use tooloop_tool::{Omission, ToolError, ToolOutput};

/// How long results may be, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultBudget {
    /// One result: 50,000 by default.
    pub single: usize,
    /// All results that one message of the model draws: 200,000 by default.
    pub message: usize,
    /// What is shown of a longer one: 2,000 by default, half from its beginning and half from its
    /// end. More is shown of a result that a tool has shortened already, and of all results where
    /// the window is small: up to `single`, as far as `message` has room for it.
    pub preview: usize,
}

impl Default for ResultBudget {
    fn default() -> Self {
        Self {
            single: 50_000,
            message: 200_000,
            preview: 2_000,
        }
    }
}

impl ResultBudget {
    /// The same for a model with a window of so many tokens: one result has an eighth of it at most,
    /// those of a message a fourth, and a preview is at most a fourth of a result. A token is taken
    /// for 3.5 characters.
    #[must_use]
    pub fn within(self, window: u64) -> Self {
        let characters = |part: u64| {
            let tokens = window / part;
            usize::try_from(tokens.saturating_mul(7) / 2).unwrap_or(usize::MAX)
        };
        let single = self.single.min(characters(8));
        Self {
            single,
            message: self.message.min(characters(4)),
            preview: self.preview.min(single / 4),
        }
    }

    /// Whether a result is shown whole, where `shown` characters are shown already.
    const fn admits(&self, shown: usize, characters: usize) -> bool {
        characters <= self.single && shown.saturating_add(characters) <= self.message
    }

    /// How much at most is shown of one that is not shown whole.
    fn excerpt(&self, shown: usize) -> usize {
        let rest = self.message.saturating_sub(shown);
        self.single.min(rest).max(self.preview)
    }
}

/// Keeps the results of a session within the budget.
#[derive(Debug)]
pub(crate) struct Results {
    /// The budget where the model's window is large enough for it.
    most: ResultBudget,
    folder: Option<PathBuf>,
    /// Knows what no result may hold.
    secrets: Redactor,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    budget: ResultBudget,
    /// The characters shown of the results that go with the next request.
    shown: usize,
}

impl Results {
    pub(crate) const fn new(
        budget: ResultBudget,
        folder: Option<PathBuf>,
        secrets: Redactor,
    ) -> Self {
        Self {
            most: budget,
            folder,
            secrets,
            state: Mutex::new(State { budget, shown: 0 }),
        }
    }

    /// From now on results are for a model with this window.
    pub(crate) fn follow(&self, window: Option<u64>) {
        let budget = window.map_or(self.most, |window| self.most.within(window));
        self.state().budget = budget;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn preview(&self) -> usize {
        self.state().budget.preview
    }

    /// The results so far are on their way: the count begins anew.
    pub(crate) fn sent(&self) {
        self.state().shown = 0;
    }

    /// How many characters one result may have in the best case.
    pub(crate) fn room(&self) -> usize {
        self.state().budget.single
    }

    /// Takes a place for a result of that length. Returns how many characters of it are shown, if
    /// not all are.
    fn reserve(&self, characters: usize, is_excerpt: bool) -> Option<usize> {
        let mut state = self.state();
        let State { budget, shown } = *state;
        let cut = if budget.admits(shown, characters) {
            None
        } else if is_excerpt || budget.single < self.most.single {
            Some(budget.excerpt(shown))
        } else {
            Some(budget.preview)
        };
        state.shown = shown.saturating_add(cut.unwrap_or(characters));
        cut
    }

    /// What a call came to, as the model gets it.
    pub(crate) async fn fitted(
        self: Arc<Self>,
        id: ToolUseId,
        result: Result<ToolOutput, ToolError>,
    ) -> ToolOutput {
        let mut output = result.unwrap_or_else(|error| ToolOutput::failure(error.to_string()));
        self.clean(&mut output);
        let bytes: usize = output.content.iter().map(size).sum();
        if bytes <= self.preview() {
            return output;
        }
        if self.folder.is_none() {
            // Nothing is written: that needs no thread of its own.
            return self.fit(&id, output);
        }
        let fit = tokio::task::spawn_blocking(move || self.fit(&id, output));
        fit.await.unwrap_or_else(|error| {
            ToolOutput::failure(format!("the result was lost on its way: {error}"))
        })
    }

    /// Takes secrets out before anything else is done with a result: what is shown, sent, kept and
    /// compared is the same.
    fn clean(&self, output: &mut ToolOutput) {
        if self.secrets.knows_nothing() {
            return;
        }
        let known = |text: &mut String| {
            if let Cow::Owned(clean) = self.secrets.redact_known(text) {
                *text = clean;
            }
        };
        for (nth, part) in output.content.iter_mut().enumerate() {
            match (part, &mut output.omission) {
                // The text is cleaned in pieces, so that the place of the mark stays known.
                (Content::Text(text), Some(omission)) if nth == 0 => {
                    let (mut head, mut tail) = around(text, &omission.mark);
                    known(&mut head);
                    known(&mut tail);
                    known(&mut omission.place);
                    let place = omission.place.clone();
                    (*text, *omission) = Omission::join(&head, omission.bytes, place, &tail);
                }
                (Content::Text(text), _) => known(text),
                (Content::Image(_) | Content::Document(_), _) => {}
            }
        }
        output.details.as_mut().map(known).unwrap_or_default();
    }

    /// The result as the model gets it. May write a file: not to be called where others wait.
    pub(crate) fn fit(&self, id: &ToolUseId, mut output: ToolOutput) -> ToolOutput {
        let characters = output.content.iter().map(length).sum();
        if characters <= self.preview() {
            return output;
        }
        let Some(shown) = self.reserve(characters, output.omission.is_some()) else {
            return output;
        };
        let mut text = String::new();
        output.content.retain(|part| match part {
            Content::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(more);
                false
            }
            Content::Image(_) | Content::Document(_) => true,
        });
        // A file's name is another one each time.
        output.fingerprint.get_or_insert_with(|| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            format!("{characters} {}", hasher.finish())
        });
        let omission = output.omission.take();
        let place = match (&output.source, &self.folder) {
            _ if let Some(omission) = &omission => omission.place.clone(),
            (Some(source), _) => format!("the whole of it is in {}", source.display()),
            (None, None) => "the rest is not kept".into(),
            (None, Some(folder)) => match save(folder, id, &text) {
                Ok(path) => {
                    let place = format!("the whole of it is in {}", path.display());
                    output.source = Some(path);
                    place
                }
                Err(error) => format!(
                    "the rest could not be kept in {}: {error}",
                    folder.display()
                ),
            },
        };
        let (excerpt, omission) = excerpt(&text, omission, shown, place);
        output.omission = Some(omission);
        output.content.insert(0, Content::Text(excerpt));
        output
    }
}

fn size(part: &Content) -> usize {
    match part {
        Content::Text(text) => text.len(),
        Content::Image(_) | Content::Document(_) => 0,
    }
}

fn length(part: &Content) -> usize {
    match part {
        Content::Text(text) => text.chars().count(),
        Content::Image(_) | Content::Document(_) => 0,
    }
}

/// What is before and after a mark.
fn around(text: &str, mark: &Range<usize>) -> (String, String) {
    let head = text.get(..mark.start).unwrap_or(text);
    let tail = text.get(mark.end..).unwrap_or_default();
    (head.to_owned(), tail.to_owned())
}

/// So many characters of the beginning and the end of a text, and one mark between them for all that
/// is left out. If there is a mark already, that one grows.
fn excerpt(
    text: &str,
    omission: Option<Omission>,
    characters: usize,
    place: String,
) -> (String, Omission) {
    let (before, after, bytes) = match omission {
        Some(omission) => {
            let (before, after) = around(text, &omission.mark);
            (before, after, omission.bytes)
        }
        None => {
            let (before, after) = text.split_at(position(text, text.chars().count() / 2));
            (before.to_owned(), after.to_owned(), 0)
        }
    };
    let (first, last) = (before.chars().count(), after.chars().count());
    let half = characters / 2;
    // What the shorter part does not need is for the other.
    let of_head = first.min(half.max((half * 2).saturating_sub(last)));
    let of_tail = last.min((half * 2).saturating_sub(of_head));
    let (head, more) = before.split_at(position(&before, of_head));
    let (less, tail) = after.split_at(position(&after, last.saturating_sub(of_tail)));
    let bytes = bytes.saturating_add(more.len() as u64 + less.len() as u64);
    Omission::join(head, bytes, place, tail)
}

/// Where the nth character of a text begins.
fn position(text: &str, nth: usize) -> usize {
    let mut characters = text.char_indices();
    characters.nth(nth).map_or(text.len(), |(at, _)| at)
}

/// Saves a text in a file of its own, for its owner alone.
fn save(folder: &Path, id: &ToolUseId, text: &str) -> io::Result<PathBuf> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let mut nth = 1_u32;
    loop {
        // Ids are made of letters, digits, `_` and `-`.
        let name = match nth {
            1 => format!("result-{id}.txt"),
            nth => format!("result-{id}-{nth}.txt"),
        };
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && nth < 1_000 => nth += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn results(folder: Option<PathBuf>) -> Results {
        let budget = ResultBudget {
            single: 100,
            message: 250,
            preview: 20,
        };
        Results::new(budget, folder, Redactor::off())
    }

    fn text(output: &ToolOutput) -> &str {
        match output.content.as_slice() {
            [Content::Text(text)] => text,
            other => panic!("{other:?}"),
        }
    }

    fn id(id: &str) -> ToolUseId {
        ToolUseId(id.into())
    }

    #[test]
    fn a_small_window_has_small_results() {
        let budget = ResultBudget::default();
        assert_eq!(
            budget.within(200_000),
            ResultBudget {
                message: 175_000,
                ..budget
            }
        );
        assert_eq!(budget.within(1_000_000), budget);
        let small = ResultBudget {
            single: 3_500,
            message: 7_000,
            preview: 875,
        };
        assert_eq!(budget.within(8_000), small);
        // It follows the model.
        let results = Results::new(budget, None, Redactor::off());
        let long = || ToolOutput::text("a".repeat(4_000));
        results.follow(Some(8_000));
        let fit = results.fit(&id("tu_1"), long());
        let half = "a".repeat(1_750);
        let mark = "[... 500 bytes left out; the rest is not kept ...]";
        assert_eq!(text(&fit), format!("{half}\n{mark}\n{half}"));
        assert_eq!(text(&results.fit(&id("tu_1"), fit.clone())), text(&fit));
        results.follow(Some(200_000));
        assert_eq!(text(&results.fit(&id("tu_2"), long())).len(), 4_000);
    }

    #[test]
    fn a_long_result_goes_into_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("s.outputs");
        let results = results(Some(outputs.clone()));
        let long: String = "äbcdefghij".repeat(11);
        let fit = results.fit(&id("tu_1"), ToolOutput::text(long.clone()));
        let path = outputs.join("result-tu_1.txt");
        let expected = format!(
            "äbcdefghij\n[... 99 bytes left out; the whole of it is in {} ...]\näbcdefghij",
            path.display()
        );
        assert_eq!(text(&fit), expected);
        assert_eq!(fit.source.as_deref(), Some(path.as_path()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), long);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&outputs)), (0o600, 0o700));
        // The same again is the same outcome, in another file.
        let again = results.fit(&id("tu_1"), ToolOutput::text(long));
        assert_eq!(again.fingerprint, fit.fingerprint);
        assert_eq!(again.source, Some(outputs.join("result-tu_1-2.txt")));
    }

    #[tokio::test]
    async fn secrets_are_taken_out_before_a_result_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let results = Arc::new(Results {
            secrets: Redactor::new(["hunter2hunter2".to_owned()]),
            ..results(Some(folder.path().to_owned()))
        });
        let said = |text: &str| ToolOutput {
            details: Some(format!("details: {text}")),
            ..ToolOutput::text(text)
        };
        let looks = "sk-ant-0123456789abcdef";
        let result = Ok(said(&format!("a hunter2hunter2 {looks}")));
        let fit = Arc::clone(&results).fitted(id("a"), result).await;
        // What only looks like a key stays: files are worked with.
        assert_eq!(fit, said(&format!("a [masked******] {looks}")));
        let failed = Err(ToolError::Failed("no hunter2hunter2".into()));
        let fit = Arc::clone(&results).fitted(id("b"), failed).await;
        assert!(text(&fit).ends_with("no [masked******]"), "{fit:?}");
        let long = ToolOutput::text("hunter2hunter2 ".repeat(100));
        let fit = Arc::clone(&results).fitted(id("c"), Ok(long)).await;
        let kept = std::fs::read_to_string(fit.source.unwrap()).unwrap();
        assert_eq!(kept, "[masked******] ".repeat(100));
    }

    #[test]
    fn what_is_in_a_file_already_is_not_saved_again() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("outputs");
        let results = results(Some(outputs.clone()));
        let output = ToolOutput {
            source: Some("/there/already".into()),
            ..ToolOutput::text("x".repeat(101))
        };
        let fit = results.fit(&id("a"), output);
        assert!(text(&fit).contains("the whole of it is in /there/already"));
        assert!(!outputs.exists());
    }

    /// A result that a tool has shortened: it knows of 1,000 bytes more.
    fn shortened(head: &str, tail: &str) -> ToolOutput {
        let place = "whole output in /there".to_owned();
        let (text, omission) = Omission::join(head, 1_000, place, tail);
        ToolOutput {
            omission: Some(omission),
            ..ToolOutput::text(text)
        }
    }

    #[test]
    fn a_shortened_result_keeps_one_mark() {
        let folder = tempfile::tempdir().unwrap();
        let outputs = folder.path().join("outputs");
        let (four, ten) = ("日本語é".repeat(20), "0123456789".repeat(8));
        for (head, tail) in [
            (&four[..], &ten[..]),
            ("", &ten),
            (&four, "end"),
            (&four, ""),
            (&ten, &ten),
        ] {
            let results = results(Some(outputs.clone()));
            let fit = results.fit(&id("a"), shortened(head, tail));
            let omission = fit.omission.clone().unwrap();
            let (before, after) = around(text(&fit), &omission.mark);
            assert!(
                head.starts_with(&before) && tail.ends_with(&after),
                "{fit:?}"
            );
            assert_eq!(text(&fit).matches("left out").count(), 1, "{fit:?}");
            let gone = head.len() + tail.len() - before.len() - after.len();
            assert_eq!(omission.bytes as usize, 1_000 + gone);
            let said = format!(
                "[... {} bytes left out; whole output in /there ...]\n",
                1_000 + gone
            );
            assert!(text(&fit).contains(&said), "{fit:?}");
            let shown = before.chars().count() + after.chars().count();
            let all = head.chars().count() + tail.chars().count();
            assert_eq!(shown, all.min(100), "{fit:?}");
        }
        // The file of the whole output is enough.
        assert!(!outputs.exists());
    }

    #[test]
    fn a_mark_is_found_after_secrets_are_taken_out() {
        let results = Results {
            secrets: Redactor::new(["hunter2hunter2".to_owned()]),
            ..results(None)
        };
        let mut output = shortened(
            &"hunter2hunter2 ".repeat(9),
            "\n[... 7 bytes left out; no ...]\n",
        );
        results.clean(&mut output);
        let fit = results.fit(&id("a"), output);
        let head = "[masked******] ".repeat(9);
        let (before, after) = around(text(&fit), &fit.omission.clone().unwrap().mark);
        assert!(head.starts_with(&before), "{fit:?}");
        // A line that only looks like a mark is text.
        assert_eq!(after, "\n[... 7 bytes left out; no ...]\n");
    }

    #[test]
    fn the_rest_of_a_message_goes_to_the_next_result() {
        let results = results(None);
        for (name, shown) in [("a", 100), ("b", 100), ("c", 50), ("d", 20), ("e", 20)] {
            let fit = results.fit(&id(name), shortened(&"h".repeat(70), &"t".repeat(70)));
            let (before, after) = around(text(&fit), &fit.omission.clone().unwrap().mark);
            assert_eq!(before.len() + after.len(), shown, "{name}");
        }
    }

    #[test]
    fn the_results_of_one_message_have_a_sum() {
        let folder = tempfile::tempdir().unwrap();
        let results = results(Some(folder.path().to_owned()));
        let hundred = || ToolOutput::text("x".repeat(100));
        for name in ["a", "b"] {
            assert_eq!(results.fit(&id(name), hundred()), hundred());
        }
        assert_ne!(results.fit(&id("c"), hundred()), hundred());
        // Nothing is gained by cutting what is no longer than a preview.
        let short = ToolOutput::text("x".repeat(20));
        for name in ["d", "e", "f", "g"] {
            assert_eq!(results.fit(&id(name), short.clone()), short);
        }
        results.sent();
        assert_eq!(results.fit(&id("h"), hundred()), hundred());
    }

    #[test]
    fn what_cannot_be_kept_is_cut_and_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let long = || ToolOutput::text("x".repeat(200));
        let fit = results(Some(file.path().join("no"))).fit(&id("a"), long());
        assert!(text(&fit).contains("180 bytes left out; the rest could not be kept in "));
        let fit = results(None).fit(&id("a"), long());
        assert!(text(&fit).contains("the rest is not kept"));
    }
}
