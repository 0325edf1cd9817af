//! How resources are kept, where facts say so.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Backoff;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::declare::declaration::Declaration;
use crate::declare::meta::{Meta, duration};

/// How resources are kept, where something else than a manifest says so, such as facts.
///
/// What is said of all counts less than what a manifest says of a resource, and what is said of one by its name
/// counts more.
///
/// # Examples
///
/// ```
/// use crankcase_resources::front::Tunings;
///
/// # fn main() -> Result<(), String> {
/// let tunings = Tunings::read(&serde_json::json!({
///     "all": {"poll": "10m", "backoff": {"initial": "5s"}},
///     "by_name": {"index": {"noop": true}},
/// }))?;
/// assert_eq!(tunings.by_name["index"].noop, Some(true));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Tunings {
    /// What holds for all resources.
    pub all: Tuning,
    /// What holds for single ones: `NAME`, and for one of a `for_each` `NAME["ITEM"]`, or `NAME` for all of them.
    pub by_name: BTreeMap<String, Tuning>,
}

/// How a resource is kept. A field that is none changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Tuning {
    /// Whether it is only ever looked at, and never changed.
    pub noop: Option<bool>,
    /// How often it is looked at without a reason; from 1 s to 1 day.
    #[serde(with = "duration")]
    pub poll: Option<Duration>,
    /// How long a look, and each action, may take; from 1 s to 1 day.
    #[serde(with = "duration")]
    pub timeout: Option<Duration>,
    /// The wait after a failure.
    pub backoff: Option<PartialBackoff>,
    /// How many repairs in a row are made at once, at least 1. See
    /// [`DeclarationFields::repairs`](crate::front::DeclarationFields::repairs).
    pub repairs: Option<u32>,
}

/// A [`Backoff`] of which some fields are set; the others have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct PartialBackoff {
    /// As [`Backoff::initial`].
    #[serde(with = "duration")]
    pub initial: Option<Duration>,
    /// As [`Backoff::factor`].
    pub factor: Option<f64>,
    /// As [`Backoff::max`].
    #[serde(with = "duration")]
    pub max: Option<Duration>,
    /// As [`Backoff::jitter`].
    pub jitter: Option<f64>,
    /// As [`Backoff::reset_after`].
    #[serde(with = "duration")]
    pub reset_after: Option<Duration>,
}

impl PartialBackoff {
    fn whole(&self) -> Backoff {
        let Backoff { initial, factor, max, jitter, reset_after, .. } = Backoff::default();
        Backoff::default()
            .initial(self.initial.unwrap_or(initial))
            .factor(self.factor.unwrap_or(factor))
            .max(self.max.unwrap_or(max))
            .jitter(self.jitter.unwrap_or(jitter))
            .reset_after(self.reset_after.unwrap_or(reset_after))
    }
}

impl Tunings {
    /// Reads `{all: {...}, by_name: {NAME: {...}}}`; durations are written as `30s`.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(value: &Value) -> Result<Self, String> {
        let tunings = Self::deserialize(value).map_err(|error| error.to_string())?;
        for (name, tuning) in tunings.named() {
            let times = Meta { poll: tuning.poll, timeout: tuning.timeout, ..Meta::default() };
            if let Some(error) = times.errors().first() {
                return Err(format!("{name}: {}: {}", error.attribute, error.message));
            }
            if tuning.repairs == Some(0) {
                return Err(format!("{name}: repairs is 0, and at least 1"));
            }
            if let Some(backoff) = &tuning.backoff {
                backoff.whole().validate().map_err(|error| format!("{name}: backoff: {error}"))?;
            }
        }
        Ok(tunings)
    }

    /// Returns the JSON Schema of what [`read`](Self::read) reads.
    pub fn schema() -> Value {
        let time = time_schema();
        let object = |properties: Value| json!({"type": "object", "additionalProperties": false, "properties": properties});
        let backoff = object(json!({
            "initial": time, "max": time, "reset_after": time,
            "factor": {"type": "number", "minimum": 1},
            "jitter": {"type": "number", "minimum": 0, "maximum": 1},
        }));
        let tuning = object(
            json!({"noop": {"type": "boolean"}, "poll": time, "timeout": time, "backoff": backoff, "repairs": {"type": "integer", "minimum": 1, "maximum": u32::MAX}}),
        );
        let mut schema = object(json!({
            "all": {"$ref": "#/$defs/tuning"},
            "by_name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tuning"}},
        }));
        schema["title"] = "How resources are kept: all of them, and single ones by name".into();
        schema["$defs"] = json!({"tuning": tuning});
        schema
    }

    /// Sets how a declared resource is kept.
    pub fn tune(&self, declaration: &mut Declaration) {
        let Self { all, by_name } = self;
        // All of a `for_each` have its name before that of their item.
        let group = declaration.name.split_once('[').and_then(|(group, _)| by_name.get(group));
        let own = [by_name.get(&declaration.name), group].into_iter().flatten();
        let time = |get: fn(&Tuning) -> Option<Duration>| own.clone().find_map(get);
        declaration.poll = time(|it| it.poll).or(declaration.poll).or(all.poll);
        declaration.timeout = time(|it| it.timeout).or(declaration.timeout).or(all.timeout);
        let repairs = own.clone().find_map(|it| it.repairs);
        declaration.repairs = repairs.or(declaration.repairs).or(all.repairs);
        let noop = own.clone().find_map(|it| it.noop);
        declaration.noop = noop.unwrap_or(declaration.noop || all.noop == Some(true));
        // What is only read is never changed.
        declaration.noop |= declaration.readonly;
        let backoff = own.clone().find_map(|it| it.backoff.as_ref()).or(all.backoff.as_ref());
        declaration.backoff = backoff.map(|backoff| Arc::new(backoff.whole()));
    }

    /// Returns the names in `by_name` that are not `known`: the names of resources, and of each
    /// `for_each`.
    pub fn unknown<'a>(&'a self, known: &HashSet<&str>) -> Vec<&'a str> {
        let names = self.by_name.keys().map(String::as_str);
        names.filter(|name| !known.contains(name)).collect()
    }

    fn named(&self) -> impl Iterator<Item = (&str, &Tuning)> {
        let by_name = self.by_name.iter().map(|(name, tuning)| (name.as_str(), tuning));
        by_name.chain([("all", &self.all)])
    }
}

/// Returns the JSON Schema of a duration.
pub(crate) fn time_schema() -> Value {
    let unit = "(ms|s|m|min|h|d)";
    let pattern = format!("^[1-9][0-9]{{0,5}}{unit}( ?[0-9]{{1,6}}{unit})*$");
    json!({"type": "string", "maxLength": 40, "pattern": pattern, "examples": ["30s"]})
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;
    use std::time::Duration;

    use serde_json::{Map, json};

    use super::Tunings;
    use crate::declare::literal::Literal;

    #[test]
    fn an_item_has_what_is_said_of_all_items_unless_it_has_its_own() -> Result<(), String> {
        let tunings = Tunings::read(&json!({
            "all": {"poll": "1h"},
            "by_name": {
                "web": {"noop": true, "poll": "10m"},
                "web[\"a\"]": {"poll": "5m"},
                "nosuch": {"noop": true},
            },
        }))?;
        let minutes = |count: u64| Some(Duration::from_secs(60 * count));
        for (name, noop, poll) in
            [("web[\"a\"]", true, 5), ("web[\"b\"]", true, 10), ("index", false, 60)]
        {
            let mut declaration = Literal::new(Map::new()).declare(Path::new("/"), name, "file");
            tunings.tune(&mut declaration);
            assert_eq!((declaration.noop, declaration.poll), (noop, minutes(poll)), "{name}");
        }
        let known = HashSet::from(["web", "web[\"a\"]"]);
        assert_eq!(tunings.unknown(&known), ["nosuch"]);
        Ok(())
    }
}
