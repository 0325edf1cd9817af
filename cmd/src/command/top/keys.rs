//! The keys that mean something to the live view.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key, or what comes from the terminal like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Character(char),
    /// A text that was pasted: no character of it is a command.
    Pasted(String),
    Enter,
    Escape,
    Backspace,
    EraseAll,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Interrupt,
    /// The terminal has another size.
    Resized,
}

/// Returns the key of an event of the terminal, if it is one that means anything.
pub(super) fn key(event: Event) -> Option<Key> {
    match event {
        Event::Resize(..) => Some(Key::Resized),
        Event::Paste(text) => Some(Key::Pasted(text)),
        Event::Key(event) if event.kind != KeyEventKind::Release => pressed(event),
        _ => None,
    }
}

fn pressed(KeyEvent { code, modifiers, .. }: KeyEvent) -> Option<Key> {
    if modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    if modifiers.contains(KeyModifiers::CONTROL) {
        return match code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('u') => Some(Key::EraseAll),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Char(character) => Key::Character(character),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
