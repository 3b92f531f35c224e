//! What keys mean while a turn runs. The prompt between turns has an editor of its own.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What was pressed, pasted, or done to the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A character was typed.
    Type(char),
    /// A text was pasted, with `\n` as its line ends.
    Paste(String),
    Backspace,
    DeleteWord,
    DeleteAll,
    Enter,
    /// Queue for when the model is done.
    FollowUp,
    Escape,
    ControlC,
    /// Draw the live rows anew.
    Redraw,
    Resize(u16, u16),
}

/// What an event of the terminal means; `None` if nothing.
pub(crate) fn action(event: Event) -> Option<Action> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => press(key),
        Event::Paste(text) => Some(Action::Paste(
            text.replace("\r\n", "\n").replace('\r', "\n"),
        )),
        Event::Resize(columns, rows) => Some(Action::Resize(columns, rows)),
        Event::Key(_) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => None,
    }
}

fn press(key: KeyEvent) -> Option<Action> {
    const ALT_GR: KeyModifiers = KeyModifiers::CONTROL.union(KeyModifiers::ALT);
    let modifiers = key.modifiers.difference(KeyModifiers::SHIFT);
    Some(match (key.code, modifiers) {
        (KeyCode::Char(typed), KeyModifiers::NONE | ALT_GR) => Action::Type(typed),
        (KeyCode::Char(typed), KeyModifiers::CONTROL) => match typed.to_ascii_lowercase() {
            'c' => Action::ControlC,
            'h' => Action::Backspace,
            'j' => Action::Type('\n'),
            'l' => Action::Redraw,
            'u' => Action::DeleteAll,
            'w' => Action::DeleteWord,
            // Ctrl-Z among them: what runs here has no shell to go back to half-way.
            _ => return None,
        },
        (KeyCode::Enter, KeyModifiers::NONE) if key.modifiers.is_empty() => Action::Enter,
        (KeyCode::Enter, KeyModifiers::NONE) => Action::Type('\n'),
        (KeyCode::Enter, KeyModifiers::ALT) | (KeyCode::Tab, KeyModifiers::NONE) => {
            Action::FollowUp
        }
        (KeyCode::Backspace, KeyModifiers::NONE) => Action::Backspace,
        (KeyCode::Backspace, _) => Action::DeleteWord,
        (KeyCode::Esc, _) => Action::Escape,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> Option<Action> {
        action(Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_mean_what_is_written_on_them() {
        const NONE: KeyModifiers = KeyModifiers::NONE;
        const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
        const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
        const ALT: KeyModifiers = KeyModifiers::ALT;
        let cases = [
            (KeyCode::Char('a'), NONE, Some(Action::Type('a'))),
            (KeyCode::Char('語'), NONE, Some(Action::Type('語'))),
            (KeyCode::Char('A'), SHIFT, Some(Action::Type('A'))),
            (
                KeyCode::Char('@'),
                CONTROL.union(ALT),
                Some(Action::Type('@')),
            ),
            (KeyCode::Char('c'), CONTROL, Some(Action::ControlC)),
            (KeyCode::Char('j'), CONTROL, Some(Action::Type('\n'))),
            (KeyCode::Char('u'), CONTROL, Some(Action::DeleteAll)),
            (KeyCode::Char('w'), CONTROL, Some(Action::DeleteWord)),
            (KeyCode::Char('z'), CONTROL, None),
            (KeyCode::Char('x'), ALT, None),
            (KeyCode::Enter, NONE, Some(Action::Enter)),
            (KeyCode::Enter, SHIFT, Some(Action::Type('\n'))),
            (KeyCode::Enter, ALT, Some(Action::FollowUp)),
            (KeyCode::Tab, NONE, Some(Action::FollowUp)),
            (KeyCode::Backspace, NONE, Some(Action::Backspace)),
            (KeyCode::Backspace, ALT, Some(Action::DeleteWord)),
            (KeyCode::Esc, NONE, Some(Action::Escape)),
            (KeyCode::Up, NONE, None),
        ];
        for (code, modifiers, meaning) in cases {
            assert_eq!(press(code, modifiers), meaning, "{code:?} {modifiers:?}");
        }
    }

    #[test]
    fn a_paste_is_one_input_and_a_released_key_is_none() {
        assert_eq!(
            action(Event::Paste("a\r\nb\rc\n".into())),
            Some(Action::Paste("a\nb\nc\n".into()))
        );
        assert_eq!(action(Event::Resize(80, 24)), Some(Action::Resize(80, 24)));
        let released = KeyEvent::new_with_kind(
            KeyCode::Char('a'),
            KeyModifiers::NONE,
            KeyEventKind::Release,
        );
        assert_eq!(action(Event::Key(released)), None);
        assert_eq!(action(Event::FocusGained), None);
    }
}
