//! The prompt between turns: a line editor with history, on a thread of its own, since it blocks.

use std::borrow::Cow;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossterm::event::Event;
use reedline::{
    Color, EditCommand, EditMode, Emacs, FileBackedHistory, Highlighter, KeyCode, KeyModifiers,
    Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineRawEvent, Signal,
    StyledText, ValidationResult, Validator, default_emacs_keybindings,
};
use tokio::sync::oneshot;

use crate::exit::Status;
use crate::signals::Signals;

/// The most lines that the history keeps.
const HISTORY_LINES: usize = 5_000;
/// How often the editor looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);
/// How long it may take to do so.
const STOP: Duration = Duration::from_secs(1);

/// What came of asking for a line.
#[derive(Debug)]
pub(crate) enum Line {
    Text(String),
    /// Ctrl-C, and whether there was nothing to throw away.
    ControlC {
        empty: bool,
    },
    /// Ctrl-D.
    End,
    /// A signal.
    Stopped(Status),
    /// What was waited for beside has come, and nothing was typed.
    Woken,
    /// As before, but this had been typed.
    Broken(String),
    Failed(io::Error),
}

/// The line editor.
pub(crate) struct Editor {
    /// Away while a line is being read.
    reedline: Option<Reedline>,
    stop: Arc<AtomicBool>,
    shared: Arc<Mutex<Shared>>,
}

/// What the parts of the editor tell us.
#[derive(Debug, Default)]
struct Shared {
    /// What was in the line when it was last drawn.
    drawn: String,
    /// What stood before each line break that was made by a backslash.
    continued: Vec<String>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Editor {
    /// Makes one. The second value says why there is no history, if there is none.
    pub(crate) fn new(history: Option<&Path>, color: bool) -> (Self, Option<String>) {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mut keys = default_emacs_keybindings();
        let new_line = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), new_line());
        // No other program is started from here.
        keys.remove_binding(KeyModifiers::CONTROL, KeyCode::Char('o'));
        let mut reedline = Reedline::create()
            .use_bracketed_paste(true)
            .with_ansi_colors(color)
            .with_highlighter(Box::new(Seen(Arc::clone(&shared))))
            .with_validator(Box::new(Continuation(Arc::clone(&shared))))
            .with_edit_mode(Box::new(Harmless(Emacs::new(keys))))
            .with_break_signal(Arc::clone(&stop))
            .with_poll_interval(LOOK);
        let mut warning = None;
        if let Some(path) = history {
            match open_history(path) {
                Ok(history) => reedline = reedline.with_history(Box::new(history)),
                Err(error) => {
                    let path = path.display();
                    warning = Some(format!("no history from {path}, and none kept: {error}"));
                }
            }
        }
        let editor = Self {
            reedline: Some(reedline),
            stop,
            shared,
        };
        (editor, warning)
    }

    /// Reads a line that begins as `initial`. The terminal gives keys one by one before and after.
    /// `wake` ends the reading if nothing has been typed by then.
    pub(crate) async fn read(
        &mut self,
        initial: &str,
        signals: &mut Signals,
        wake: impl Future<Output = ()>,
    ) -> Line {
        let Some(mut reedline) = self.reedline.take() else {
            return Line::Failed(io::Error::other("the line editor is gone"));
        };
        {
            let mut shared = lock(&self.shared);
            shared.continued.clear();
            initial.clone_into(&mut shared.drawn);
        }
        if !initial.is_empty() {
            reedline.run_edit_commands(&[EditCommand::InsertString(initial.to_owned())]);
        }
        let (done, mut read) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("prompt".into())
            .spawn(move || {
                let signal = reedline.read_line(&Mark);
                // A history that cannot be written is kept in memory.
                drop(reedline.sync_history());
                drop(done.send((reedline, signal)));
            });
        let thread = match thread {
            Ok(thread) => thread,
            Err(error) => return Line::Failed(error),
        };
        let mut wake = std::pin::pin!(wake);
        let mut may_wake = true;
        let read = loop {
            tokio::select! {
                read = &mut read => break read,
                () = &mut wake, if may_wake => {
                    may_wake = false;
                    // Who has begun to type is not disturbed.
                    if lock(&self.shared).drawn.is_empty() {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                }
                status = signals.next() => {
                    self.stop.store(true, Ordering::Relaxed);
                    // One that waits for a terminal that has gone away never stops; it ends with
                    // the process, which is what follows.
                    drop(tokio::time::timeout(STOP, read).await);
                    return Line::Stopped(status);
                }
            }
        };
        self.stop.store(false, Ordering::Relaxed);
        // It has sent its last word, or died of a panic that is told elsewhere.
        drop(thread.join());
        let Ok((reedline, signal)) = read else {
            return Line::Failed(io::Error::other("the line editor failed"));
        };
        self.reedline = Some(reedline);
        match signal {
            Ok(Signal::Success(text)) => {
                let shared = lock(&self.shared);
                Line::Text(join_continued(text, &shared.continued))
            }
            Ok(Signal::CtrlC) => Line::ControlC {
                empty: lock(&self.shared).drawn.is_empty(),
            },
            Ok(Signal::CtrlD) => Line::End,
            Ok(Signal::ExternalBreak(text)) if text.is_empty() => Line::Woken,
            // Typed in the moment before it was stopped.
            Ok(Signal::ExternalBreak(text)) => Line::Broken(text),
            Ok(_) => Line::Text(String::new()),
            Err(error) => Line::Failed(error),
        }
    }
}

/// Opens the history for its owner alone.
fn open_history(path: &Path) -> io::Result<FileBackedHistory> {
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(FileBackedHistory::with_file(
        HISTORY_LINES,
        path.to_owned(),
    )?)
}

/// Takes out the backslashes that were typed to begin a new line. Others, such as those of a shell
/// line that was pasted, stay.
fn join_continued(mut text: String, continued: &[String]) -> String {
    for before in continued.iter().rev() {
        let broken = text
            .strip_prefix(before.as_str())
            .is_some_and(|rest| rest.starts_with('\n'));
        if broken && before.ends_with('\\') {
            text.remove(before.len() - 1);
        }
    }
    text
}

/// Breaks the line where a backslash stands before Enter.
struct Continuation(Arc<Mutex<Shared>>);

impl Validator for Continuation {
    fn validate(&self, line: &str) -> ValidationResult {
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes.is_multiple_of(2) {
            return ValidationResult::Complete;
        }
        lock(&self.0).continued.push(line.to_owned());
        ValidationResult::Incomplete
    }
}

/// Draws the line as it is, and remembers it.
struct Seen(Arc<Mutex<Shared>>);

impl Highlighter for Seen {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        line.clone_into(&mut lock(&self.0).drawn);
        let mut styled = StyledText::new();
        styled.push((Default::default(), line.to_owned()));
        styled
    }
}

/// Takes out of a paste what would act on the terminal when it is drawn.
struct Harmless(Emacs);

impl EditMode for Harmless {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = match Event::from(event) {
            Event::Paste(text) => Event::Paste(harmless(&text)),
            other => other,
        };
        ReedlineRawEvent::try_from(event)
            .map_or(ReedlineEvent::None, |event| self.0.parse_event(event))
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.0.edit_mode()
    }
}

fn harmless(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_control() || matches!(character, '\n' | '\r' | '\t'))
        .collect()
}

/// The mark before the line.
struct Mark;

impl Prompt for Mark {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "  ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!("(search: {}) ", search.term).into()
    }

    fn get_prompt_color(&self) -> Color {
        Color::Default
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Default
    }

    fn get_indicator_color(&self) -> Color {
        Color::Cyan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_typed_backslashes_make_lines() {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let validator = Continuation(Arc::clone(&shared));
        let goes_on = |line| matches!(validator.validate(line), ValidationResult::Incomplete);
        assert!(goes_on("one\\"));
        assert!(goes_on("one\\\ncurl \\\n  -H x\ntwo\\"));
        assert!(!goes_on("one\\\ncurl \\\n  -H x\ntwo\\\nthree\\\\"));
        let text = "one\\\ncurl \\\n  -H x\ntwo\\\nthree\\\\".to_owned();
        assert_eq!(
            join_continued(text, &lock(&shared).continued),
            "one\ncurl \\\n  -H x\ntwo\nthree\\\\"
        );
        // Edited since: nothing is guessed.
        assert_eq!(
            join_continued("other\\\n".into(), &lock(&shared).continued),
            "other\\\n"
        );
    }

    #[test]
    fn the_history_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/history");
        drop(open_history(&path).unwrap());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(open_history(&path).unwrap());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (_, warning) = Editor::new(Some(folder.path()), false);
        assert!(warning.unwrap().contains("no history from"));
    }

    #[test]
    fn a_paste_cannot_act_on_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2J\r\n\tb\u{7}"), "a[2J\r\n\tb");
    }
}
