//! The types of values as data, and the checks of values against them.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::error::Wrong;
use crate::base::text::{nearest, shown};
use crate::declare::params::table::Table;

/// What a value may be, as data: a program can describe its parameters with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Type {
    /// A text.
    Text,
    /// An absolute path, as a text.
    Path,
    /// True or false.
    Flag,
    /// A whole number within bounds.
    Int {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// Permissions, as three or four octal digits in a text.
    Mode,
    /// A duration of more than nothing, as a text such as `30s`.
    Duration,
    /// One of some words.
    Choice {
        /// The words.
        words: Vec<String>,
    },
    /// A list of values of one type.
    List {
        /// The type of its items.
        of: Box<Self>,
    },
    /// A map from names to values of one type.
    Map {
        /// The type of its values.
        of: Box<Self>,
    },
    /// A map with parameters of its own.
    Object {
        /// The parameters.
        table: Table,
    },
    /// A value of any of some types.
    Either {
        /// The types.
        of: Vec<Self>,
    },
    /// Any value.
    Any,
}

impl Type {
    /// Returns a choice of words.
    pub fn choice(words: &[&str]) -> Self {
        Self::Choice { words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Returns a list.
    pub fn list(of: Self) -> Self {
        Self::List { of: Box::new(of) }
    }

    /// Returns a map.
    pub fn map(of: Self) -> Self {
        Self::Map { of: Box::new(of) }
    }

    /// Accepts a value of the type.
    ///
    /// # Errors
    ///
    /// What is wrong with the value.
    pub fn accept(&self, value: &Value) -> Result<(), Wrong> {
        match self {
            Self::Any => Ok(()),
            Self::Text => text(value).map(drop),
            Self::Path => path(value).map(drop),
            Self::Flag => flag(value).map(drop),
            Self::Int { min, max } => int(value, *min, *max).map(drop),
            Self::Mode => mode(value).map(drop),
            Self::Duration => duration(value).map(drop),
            Self::Choice { .. } => self.word(value).map(drop),
            Self::List { of } => {
                let items = value.as_array().into_iter().flatten();
                let is_right = value.is_array() && items.clone().all(|it| of.accept(it).is_ok());
                is_right.then_some(()).ok_or_else(|| self.refuse(value))
            }
            Self::Map { of } => {
                let map = value.as_object().ok_or_else(|| self.refuse(value))?;
                let wrong = map.iter().filter_map(|(name, item)| {
                    of.accept(item).err().map(|wrong| wrong.of(name, item))
                });
                Wrong::all(wrong).map_or(Ok(()), Err)
            }
            Self::Object { table } => {
                let map = value.as_object().ok_or_else(|| self.refuse(value))?;
                table.accept(map)
            }
            Self::Either { of } => {
                let is_right = of.iter().any(|of| of.accept(value).is_ok());
                is_right.then_some(()).ok_or_else(|| self.refuse(value))
            }
        }
    }

    /// Returns what the type is, as a noun.
    pub fn noun(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Path => "an absolute path".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Int { min: 0, max: i64::MAX } => "a whole number".to_owned(),
            Self::Int { min, max } => format!("a whole number from {min} to {max}"),
            Self::Mode => "a mode in octal".to_owned(),
            Self::Duration => "a duration".to_owned(),
            Self::Choice { words } => format!("one of {}", words.join(", ")),
            Self::List { of } => format!("a list of {}", of.plural()),
            Self::Map { of } => format!("a map from names to {}", of.plural()),
            Self::Object { table } => {
                format!("a map of {}", table.names().collect::<Vec<_>>().join(", "))
            }
            Self::Either { of } => of.iter().map(Self::noun).collect::<Vec<_>>().join(" or "),
            Self::Any => "any value".to_owned(),
        }
    }

    fn plural(&self) -> String {
        match self {
            Self::Text => "texts".to_owned(),
            Self::Path => "absolute paths".to_owned(),
            Self::Int { .. } => "whole numbers".to_owned(),
            Self::Any => "values".to_owned(),
            other => format!("values that are each {}", other.noun()),
        }
    }

    pub(crate) fn refuse(&self, value: &Value) -> Wrong {
        format!("{} is not {}", shown(value), self.noun()).into()
    }

    /// Returns the word of a choice.
    ///
    /// # Errors
    ///
    /// When it is none of the words, with the nearest.
    pub fn word<'a>(&self, value: &'a Value) -> Result<&'a str, Wrong> {
        let Self::Choice { words } = self else { return text(value) };
        let word = value.as_str().unwrap_or_default();
        if words.iter().any(|known| known == word) {
            return Ok(word);
        }
        // Signals have two names each.
        let short = word.strip_prefix("SIG").unwrap_or(word);
        let nearest = nearest(short, words.iter().map(String::as_str));
        let hint = nearest.map_or_else(
            || format!("use one of {}", words.join(", ")),
            |nearest| format!("did you mean \"{nearest}\"?"),
        );
        let suggestion = nearest.map(str::to_owned);
        let message = format!("{} is not known; {hint}", shown(value));
        Err(Wrong { suggestion, ..message.into() })
    }

    /// Returns whether a value of the other type can be one of this type.
    ///
    /// `true` is always right: it leaves the answer to the value.
    pub fn can_take(&self, other: &Self) -> bool {
        use Type::{Any, Choice, Duration, Either, Flag, Int, List, Map, Mode, Object, Path, Text};
        match (self, other) {
            (Either { of }, other) => of.iter().any(|of| of.can_take(other)),
            (this, Either { of }) => of.iter().any(|of| this.can_take(of)),
            // Without items, one of any type is right.
            (List { .. }, List { .. }) => true,
            (Map { .. } | Object { .. }, Map { .. } | Object { .. }) => true,
            (Any, _) | (_, Any) | (Flag, Flag) | (Int { .. }, Int { .. }) => true,
            (one, other) => {
                let is_text =
                    |ty: &Self| matches!(ty, Text | Path | Mode | Duration | Choice { .. });
                is_text(one) && is_text(other)
            }
        }
    }
}

/// Returns a text.
pub(crate) fn text(value: &Value) -> Result<&str, Wrong> {
    value.as_str().ok_or_else(|| {
        format!("{} is not a text; quote it, or add `| string` to an expression", shown(value))
            .into()
    })
}

/// Returns an absolute path.
pub(crate) fn path(value: &Value) -> Result<&Path, Wrong> {
    let text = text(value)?;
    if !text.starts_with('/') {
        return Err(format!("{text:?} is not absolute; begin it with /").into());
    }
    if text.contains('\0') {
        return Err("contains a NUL character".to_owned().into());
    }
    Ok(Path::new(text))
}

/// Returns a yes or no.
pub(crate) fn flag(value: &Value) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| format!("{} is neither true nor false", shown(value)).into())
}

/// Returns a whole number within bounds.
pub(crate) fn int(value: &Value, min: i64, max: i64) -> Result<i64, Wrong> {
    let number = value.as_i64().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| Type::Int { min, max }.refuse(value))
}

/// Returns the permissions.
pub(crate) fn mode(value: &Value) -> Result<u32, Wrong> {
    if let Value::Number(number) = value {
        let help = "quote it and write it in octal, as \"0644\"";
        return Err(format!("{number} is a number; {help}").into());
    }
    let is_octal = |text: &&str| {
        (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
    };
    let mode = value.as_str().filter(is_octal);
    mode.and_then(|text| u32::from_str_radix(text, 8).ok()).ok_or_else(|| {
        format!("{} is not a mode; write three or four octal digits", shown(value)).into()
    })
}

/// Returns a duration of more than nothing.
pub(crate) fn duration(value: &Value) -> Result<Duration, Wrong> {
    let parsed = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
    parsed
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("{} is not a duration; write one as \"30s\"", shown(value)).into())
}
