//! What a kind says of configs, before anything is looked at.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::base::caught::caught;
use crate::base::error::AttributeError;
use crate::base::text::cut;
use crate::declare::claim::{Claim, Role};
use crate::declare::declaration::Config;
use crate::declare::known::{Claimed, KnownConfig};
use crate::kind::config_report::ConfigReport;
use crate::kind::part::Part;
use crate::testing::conformance::{Trial, listed};

pub(super) fn check(trial: &mut Trial<'_>) {
    let config = trial.config.clone();
    let whole = judge(trial, &config, &BTreeSet::new());
    if !whole.parts.is_empty() {
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
        let declared = trial.kinds.declare(&mut trial.declaration(), &known);
        let errors = listed(&declared.judged.errors);
        trial.require(errors.is_empty(), || format!("its parts are refused: {errors}"));
    }
    let errors = listed(&whole.errors);
    trial.require(whole.errors.is_empty(), || format!("its config is refused: {errors}"));
    survives_json(trial, "the table", trial.kind.table());
    survives_json(trial, "the table of states", trial.kind.states());
    survives_json(trial, "the list of actions", &trial.kind.actions());
    takes_what_is_right(trial, &config);
    is_confirmed(trial, &config, &attributes(trial), &whole);
    for attribute in attributes(trial) {
        for value in hostile(config.get(&attribute)) {
            let mut config = config.clone();
            config.insert(attribute.clone(), value);
            judges(trial, &config, &attribute);
        }
    }
    if !trial.kind.table().is_open {
        let strange = "there_is_no_such_attribute";
        let config = config.into_iter().chain([(strange.to_owned(), true.into())]).collect();
        let errors = judge(trial, &config, &BTreeSet::new()).errors;
        let is_refused = errors.iter().any(|error| error.attribute == strange);
        trial.require(is_refused, || "an attribute is taken that is not in the table".to_owned());
    }
}

/// Judges a config that may be wrong in one attribute.
fn judges(trial: &mut Trial<'_>, config: &Config, changed: &String) {
    let whole = judge(trial, config, &BTreeSet::new());
    let shown = listed(&whole.errors);
    trial.require_no_secret("an error", &shown);
    let made = match caught(|| trial.kind.make(config)) {
        Ok(made) => made.err().unwrap_or_default(),
        Err(panicked) => return trial.require(false, || format!("making it {panicked}")),
    };
    let is_same = set(&made) == set(&whole.errors);
    let made_errors = listed(&made);
    trial.require(is_same, || {
        format!("with {}, at load it says {shown:?}, later {made_errors:?}", of(config, changed))
    });
    let names: Vec<_> = whole.errors.iter().map(|error| error.attribute.clone()).collect();
    let known: BTreeSet<_> = attributes(trial);
    let strange = names.iter().find(|name| !known.contains(*name) && !config.contains_key(*name));
    trial.require(strange.is_none(), || format!("no attribute is at fault: {shown:?}"));
    if whole.errors.is_empty() {
        takes_what_is_right(trial, config);
    }
    for hidden in [changed].into_iter().chain(config.keys().filter(|name| *name != changed)) {
        is_confirmed(trial, config, &BTreeSet::from([hidden.clone()]), &whole);
    }
}

/// Checks that the whole config confirms what the kind says while these attributes are unknown.
fn is_confirmed(
    trial: &mut Trial<'_>,
    config: &Config,
    hidden: &BTreeSet<String>,
    whole: &ConfigReport,
) {
    let mut half = config.clone();
    for name in hidden {
        half.insert(name.clone(), Value::Null);
    }
    let judged = judge(trial, &half, hidden);
    let without = || hidden.iter().cloned().collect::<Vec<_>>().join(", ");
    let errors = set(&judged.errors);
    let wrong: Vec<_> = errors.difference(&set(&whole.errors)).cloned().collect();
    trial.require(wrong.is_empty(), || {
        format!("without {} it says {wrong:?}, which is not so with it", without())
    });
    if whole.errors.is_empty() {
        let what = unconfirmed(&judged.claimed, &whole.claimed);
        trial.require(what.is_none(), || {
            format!("without {}, {}", without(), what.unwrap_or_default())
        });
        let names = |judged: &ConfigReport| listed(judged.parts.iter().map(Part::name));
        let (half, whole) = (names(&judged), names(whole));
        trial.require(half == whole, || {
            format!("without {} its parts are \"{half}\", with it \"{whole}\"", without())
        });
    }
}

/// Returns what the whole config does not confirm, if there is anything.
fn unconfirmed(half: &Claimed, whole: &Claimed) -> Option<String> {
    let is_so = |claim: &&Claim| whole.claims.iter().any(|other| confirms(other, claim));
    if let Some(claim) = half.claims.iter().find(|claim| !is_so(claim)) {
        return Some(format!("it claims {}, which it does not with it", shown(claim)));
    }
    let more = whole.claims.iter().find(|claim| !half.claims.contains(claim));
    if let Some(claim) = more.filter(|_| !half.is_open) {
        return Some(format!("it has said all that it claims; with it {} as well", shown(claim)));
    }
    if whole.stops_first && !half.stops_first {
        return Some("it has not said that it may stop something first".to_owned());
    }
    if half.reads.iter().any(|read| !whole.reads.contains(read)) {
        return Some("it reads a file that it does not read with it".to_owned());
    }
    let is_said =
        (half.may_make_any || !whole.may_make_any) && (half.renders_any || !whole.renders_any);
    (!is_said).then(|| "it does not say that it makes, or renders, whatever it likes".to_owned())
}

/// Returns whether a claim is the same as one that was made before all was known. As long as it is not
/// known whether a part is kept or the whole, the whole is claimed.
fn confirms(claim: &Claim, before: &Claim) -> bool {
    let is_part = match (&claim.role, &before.role) {
        (Role::Keeps { is_there, .. }, Role::Keeps { part: None, is_there: before }) => {
            is_there == before
        }
        (role, before) => role == before,
    };
    is_part && (&claim.space, &claim.name) == (&before.space, &before.name)
}

fn shown(claim: &Claim) -> String {
    cut(&claim.to_string())
}

/// Checks that the table accepts what the kind accepts.
fn takes_what_is_right(trial: &mut Trial<'_>, config: &Config) {
    let taken = trial.kind.table().accept(config);
    trial.require(taken.is_ok(), || {
        format!("the table refuses what the kind takes: {:?} in {config:?}", taken.err())
    });
}

fn survives_json<T>(trial: &mut Trial<'_>, what: &str, value: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + fmt::Debug,
{
    let read = serde_json::to_value(value).and_then(serde_json::from_value::<T>);
    let is_same = read.as_ref().is_ok_and(|read| read == value);
    trial.require(is_same, || format!("{what} does not survive JSON: {read:?}"));
}

fn judge(trial: &mut Trial<'_>, config: &Config, unknown: &BTreeSet<String>) -> ConfigReport {
    let judged = caught(|| trial.kind.judge(&KnownConfig { config, unknown }));
    trial.take("judging it", judged.map_err(|err| err.to_string())).unwrap_or_default()
}

/// Returns the names of all attributes that the kind or the sample has.
fn attributes(trial: &Trial<'_>) -> BTreeSet<String> {
    let known = trial.kind.table().names().map(str::to_owned);
    known.chain(trial.config.keys().cloned()).collect()
}

fn set(errors: &[AttributeError]) -> BTreeSet<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn of(config: &Config, attribute: &str) -> String {
    format!("{attribute} = {}", cut(&config[attribute].to_string()))
}

/// Returns values that are hardly ever right, and the given one inside of others.
fn hostile(given: Option<&Value>) -> Vec<Value> {
    let deep = (0..100).fold(Value::Null, |inner, _| json!([inner]));
    let mut values = vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("\0"),
        json!("../x"),
        json!("/"),
        json!("x".repeat(1 << 16)),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": null}),
        deep,
    ];
    values.extend(given.into_iter().flat_map(|given| [json!([given]), json!({"of": given})]));
    values
}
