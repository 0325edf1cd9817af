//! What the live view asks of the person at the keyboard.

use crankcase_status::wire::{MAX_ORIGIN, WorkerChange};

use super::keys::Key;

/// What is asked of the person at the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prompt {
    /// What the rows have to contain.
    Filter(String),
    /// Why a worker is to be changed.
    Reason(Wish, String),
    /// Whether that is to be done.
    Confirm(Wish, String),
}

/// What is to be done to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) change: WorkerChange,
    pub(super) path: String,
    /// What it would do to others, in words, or why that is not known; `None` until the agent has said it.
    pub(super) preview: Option<Result<String, String>>,
}

/// What a key has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// The prompt goes on.
    On(Prompt),
    /// The prompt has ended, and nothing is to be done.
    Off,
    /// The prompt has ended with this filter.
    Filtered(String),
    /// The wish is confirmed, for this reason.
    Confirmed(Wish, String),
}

impl Prompt {
    /// Takes a key.
    pub(super) fn typed(self, key: &Key) -> Typed {
        match self {
            _ if *key == Key::Escape => match self {
                Self::Filter(_) => Typed::Filtered(String::new()),
                _ => Typed::Off,
            },
            Self::Filter(text) if *key == Key::Enter => Typed::Filtered(text),
            Self::Filter(text) => Typed::On(Self::Filter(edited(text, key))),
            Self::Reason(wish, reason) if *key == Key::Enter => {
                let reason = match reason.trim() {
                    "" => "asked for in top".to_owned(),
                    reason => reason.to_owned(),
                };
                Typed::On(Self::Confirm(wish, reason))
            }
            Self::Reason(wish, reason) => Typed::On(Self::Reason(wish, edited(reason, key))),
            // What it does is read before it is confirmed.
            Self::Confirm(wish, reason) if wish.preview.is_none() => {
                Typed::On(Self::Confirm(wish, reason))
            }
            Self::Confirm(wish, reason) => match key {
                Key::Character('y') => Typed::Confirmed(wish, reason),
                _ => Typed::Off,
            },
        }
    }

    /// Returns the wish that it is about.
    pub(super) fn wish(&mut self) -> Option<&mut Wish> {
        match self {
            Self::Filter(_) => None,
            Self::Reason(wish, _) | Self::Confirm(wish, _) => Some(wish),
        }
    }
}

impl Wish {
    /// Returns what is to be done, in a word.
    pub(super) fn verb(&self) -> &'static str {
        self.change.as_str()
    }

    /// Returns what it would do, in words.
    pub(super) fn consequence(&self) -> String {
        match &self.preview {
            None => "asking what it would do to others ...".to_owned(),
            Some(Err(error)) => format!("what it would do to others is not known: {error}"),
            Some(Ok(text)) => text.clone(),
        }
    }
}

/// Returns a text after a key was typed.
fn edited(mut text: String, key: &Key) -> String {
    match key {
        Key::Character(character) => text.push(*character),
        Key::Pasted(pasted) => text.extend(pasted.chars().filter(|it| !it.is_control())),
        Key::Backspace => drop(text.pop()),
        Key::EraseAll => text.clear(),
        _ => {}
    }
    text.chars().take(MAX_ORIGIN).collect()
}
