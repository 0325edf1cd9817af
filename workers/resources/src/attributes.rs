use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::declaration::Config;
use crate::params::Wrong;
use crate::text::{cut, nearest, shown};

/// The longest grace of a command: 5 minutes. Under `run` a resource has a little more than that to
/// end.
pub const MAX_GRACE: Duration = Duration::from_secs(5 * 60);

/// One attribute that a kind's config may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The attribute's name.
    pub name: &'static str,
    /// Its meaning, its form and its default, in one sentence.
    pub summary: &'static str,
}

/// One thing that is wrong with a config.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct AttributeError {
    /// The attribute at fault.
    pub attribute: String,
    /// What is wrong with it and what would be right.
    pub message: String,
    /// The value at fault, if it is one: as it was written if it is a text, else as JSON.
    pub value: Option<String>,
    /// What to write in place of the value, if something right is near.
    pub suggestion: Option<String>,
}

impl AttributeError {
    /// Returns an error that names no value.
    pub fn new(attribute: &str, message: String) -> Self {
        Self::of(attribute, message.into())
    }

    /// Returns the error of an attribute with this value.
    pub fn of(attribute: &str, wrong: Wrong) -> Self {
        let Wrong { message, value, suggestion } = wrong;
        Self { attribute: attribute.to_owned(), message, value, suggestion }
    }
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.attribute, self.message)
    }
}

/// Reads a config attribute by attribute and collects every error on the way.
///
/// An attribute that is null counts as not given.
///
/// # Examples
///
/// ```
/// use crankcase_resources::{Attributes, Parameter};
///
/// const PARAMETERS: &[Parameter] = &[Parameter { name: "colour", summary: "the lamp's colour" }];
/// let config = serde_json::json!({"color": "red"});
/// let mut attributes = Attributes::new(config.as_object().ok_or("not a map")?, PARAMETERS);
/// let colour = attributes.required_text("colour").map(str::to_owned);
/// let errors = attributes.finish(colour).unwrap_err();
/// assert_eq!(errors[0].to_string(), r#"color: there is no such attribute; did you mean "colour"?"#);
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug)]
pub struct Attributes<'a> {
    config: &'a Config,
    errors: Vec<AttributeError>,
}

impl<'a> Attributes<'a> {
    /// Returns a reader; attributes that are not among the parameters are errors.
    pub fn new(config: &'a Config, parameters: &[Parameter]) -> Self {
        let mut attributes = Self { config, errors: Vec::new() };
        for name in config.keys() {
            if parameters.iter().any(|parameter| parameter.name == name) {
                continue;
            }
            let nearest = nearest(name, parameters.iter().map(|parameter| parameter.name));
            let hint = nearest.map_or_else(
                || {
                    let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
                    format!("there are {}", names.join(", "))
                },
                |nearest| format!("did you mean \"{nearest}\"?"),
            );
            let message = format!("there is no such attribute; {hint}");
            let error = AttributeError::new(name, message);
            attributes.errors.push(AttributeError {
                value: Some(name.clone()),
                suggestion: nearest.map(str::to_owned),
                ..error
            });
        }
        attributes
    }

    /// Returns the attribute's value as it is.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.config.get(name).filter(|value| !value.is_null())
    }

    /// Notes that an attribute is wrong.
    pub fn wrong(&mut self, attribute: &str, message: String) {
        self.wrong_for(attribute, message, None);
    }

    fn wrong_for(&mut self, attribute: &str, message: String, suggestion: Option<&str>) {
        let value = self.value(attribute).map(|value| match value {
            Value::String(text) => cut(text),
            value => shown(value),
        });
        let suggestion = suggestion.map(str::to_owned);
        let error = AttributeError::new(attribute, message);
        self.errors.push(AttributeError { value, suggestion, ..error });
    }

    /// Reads a text.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = self.value(name)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong(
                name,
                format!(
                    "{} is not a text; quote it, or add `| string` to an expression",
                    shown(value)
                ),
            );
        }
        text
    }

    /// Reads a text that must be given.
    pub fn required_text(&mut self, name: &str) -> Option<&'a str> {
        if self.value(name).is_none() {
            self.wrong(name, "is missing".to_owned());
        }
        self.text(name)
    }

    /// Reads a yes or no.
    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.value(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong(name, format!("{} is neither true nor false", shown(value)));
        }
        flag
    }

    /// Reads one of several words.
    pub fn choice(&mut self, name: &str, choices: &[&'static str]) -> Option<&'static str> {
        let value = self.value(name)?;
        let word = value.as_str().unwrap_or_default();
        let choice = choices.iter().copied().find(|choice| *choice == word);
        if choice.is_none() {
            // Signals have two names each.
            let short = word.strip_prefix("SIG").unwrap_or(word);
            let nearest = nearest(short, choices.iter().copied());
            let hint = nearest.map_or_else(
                || format!("use one of {}", choices.join(", ")),
                |nearest| format!("did you mean \"{nearest}\"?"),
            );
            let message = format!("{} is not known; {hint}", shown(value));
            self.wrong_for(name, message, nearest);
        }
        choice
    }

    /// Reads a duration of more than nothing, such as `"30s"` or `"1m 30s"`.
    pub fn duration(&mut self, name: &str) -> Option<Duration> {
        let value = self.value(name)?;
        let parsed = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
        let duration = parsed.filter(|duration| !duration.is_zero());
        if duration.is_none() {
            let message = format!("{} is not a duration; write one as \"30s\"", shown(value));
            self.wrong(name, message);
        }
        duration
    }

    /// Reads a duration of more than nothing, up to a limit.
    pub fn duration_up_to(&mut self, name: &str, limit: Duration) -> Option<Duration> {
        let duration = self.duration(name)?;
        if duration > limit {
            let limit = humantime::format_duration(limit);
            let message =
                format!("{} is too long; it is at most {limit}", shown(self.value(name)?));
            self.wrong(name, message);
        }
        Some(duration)
    }

    /// Reads a list of texts.
    pub fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        let value = self.value(name)?;
        let texts = value.as_array().and_then(|items| {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            self.wrong(name, format!("{} is not a list of texts", shown(value)));
        }
        texts
    }

    /// Reads a map from names to texts.
    pub fn text_map(&mut self, name: &str) -> Option<BTreeMap<String, String>> {
        let value = self.value(name)?;
        let Some(map) = value.as_object() else {
            self.wrong(name, format!("{} is not a map from names to texts", shown(value)));
            return None;
        };
        let mut texts = BTreeMap::new();
        for (key, item) in map {
            if let Some(text) = item.as_str() {
                texts.insert(key.clone(), text.to_owned());
                continue;
            }
            let message = format!(
                "{} of \"{}\" is not a text; quote it, or add `| string` to an expression",
                shown(item),
                cut(key)
            );
            let value = Some(shown(item));
            self.errors.push(AttributeError { value, ..AttributeError::new(name, message) });
        }
        (texts.len() == map.len()).then_some(texts)
    }

    /// Returns what was wrong so far: of a reader that was just made, the attributes that are not
    /// among the parameters.
    pub fn into_errors(self) -> Vec<AttributeError> {
        self.errors
    }

    /// Returns what was read, unless something was wrong.
    ///
    /// # Errors
    ///
    /// All that was wrong. A `value` that is absent without an error of its own is one as well.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<T, Vec<AttributeError>> {
        match value {
            Some(value) if self.errors.is_empty() => Ok(value),
            None if self.errors.is_empty() => {
                self.wrong("config", "is not complete".to_owned());
                Err(self.errors)
            }
            _ => Err(self.errors),
        }
    }
}
