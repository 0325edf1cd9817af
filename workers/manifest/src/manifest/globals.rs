//! The values that all expressions of a manifest see, and the part of them that one config keeps.
//!
//! Some of them may be secrets, so no debug text shows them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::Value;
use minijinja::value::ValueKind;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::facts::SeenFacts;
use crate::manifest::expression::{Names, from_json};
use crate::manifest::kept_manifest::KeptManifest;
use crate::manifest::sensitive::Sensitive;
use crate::manifest::used::Used;
use crate::manifest::vars::{Evaluated, RenewedVars, Vars, VarsOfFacts};

/// The most resources that are named as keepers of facts at paths that are known only after apply.
const MAX_LATE: usize = 5;

/// The variables, the host and the facts, as expressions see them.
#[derive(Clone)]
pub(crate) struct Globals {
    pub(crate) vars: Vars,
    pub(crate) host: Value,
    pub(crate) facts: Value,
    pub(crate) sensitive: Arc<Sensitive>,
    /// The variables that are wrong because of facts, each with the message about it.
    pub(crate) wrong: Arc<BTreeMap<String, String>>,
    /// Whether it has only the facts that are used.
    is_part: bool,
}

/// Shows the names of the variables, and no values.
impl fmt::Debug for Globals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vars: Vec<_> = self.vars.keys().collect();
        f.debug_struct("Globals").field("vars", &vars).finish_non_exhaustive()
    }
}

impl Globals {
    /// Returns them as names of expressions that see nothing else.
    pub(crate) fn names(&self) -> Names {
        let Self { vars, host, facts, sensitive, wrong, is_part } = self.clone();
        Names {
            vars,
            host,
            facts,
            has_part_of_facts: is_part,
            sensitive,
            wrong,
            ..Names::default()
        }
    }
}

/// A SHA-256 of a value's JSON, which tells 1 from 1.0 and from true.
pub(crate) type Fingerprint = [u8; 32];

/// The fingerprints of the values that a config uses. Other values have other fingerprints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    host: Option<Fingerprint>,
    vars: BTreeMap<String, Fingerprint>,
    facts: Vec<Option<Fingerprint>>,
}

impl Fingerprints {
    /// Returns the fingerprints of the facts; zeros for a fact that is not there.
    pub(crate) fn of_facts(&self) -> impl Iterator<Item = Fingerprint> {
        self.facts.iter().map(|fingerprint| fingerprint.unwrap_or_default())
    }
}

/// The values that a config keeps.
#[derive(Clone)]
pub(crate) struct UsedValues {
    pub(crate) globals: Globals,
    pub(crate) fingerprints: Fingerprints,
    /// The names for configs that see only these values, once one of the configs was rendered.
    pub(crate) names: OnceLock<Arc<Names>>,
    /// The templates that are rendered in place of those on the disk, if the manifest is a kept one
    /// and the config renders any.
    pub(crate) kept_files: Option<Arc<KeptManifest>>,
}

impl UsedValues {
    /// Returns whether another config uses the same values.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        self.fingerprints == other.fingerprints && self.kept_files == other.kept_files
    }
}

/// Everything that a manifest was loaded with.
pub(crate) struct AllGlobals {
    pub(crate) seen: Globals,
    host: Fingerprint,
    vars: BTreeMap<String, Fingerprint>,
    vars_of_facts: Arc<VarsOfFacts>,
    facts: Arc<serde_json::Value>,
    /// The fingerprints of the facts that were asked for.
    fingerprints: Mutex<HashMap<Vec<String>, Option<Fingerprint>>>,
    /// The names of the resources that keep facts at paths which are known only after apply, if
    /// there are any.
    late_keepers: OnceLock<Arc<str>>,
    /// The values of a config that uses nothing. Most configs use nothing, and share them.
    unused: OnceLock<Arc<UsedValues>>,
    /// The manifest that was loaded, if it is a kept one.
    kept_files: Option<Arc<KeptManifest>>,
}

impl fmt::Debug for AllGlobals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllGlobals").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl AllGlobals {
    pub(crate) fn new(
        Evaluated { vars, deferred: wrong, sensitive, vars_of_facts, .. }: &Evaluated,
        host: &serde_json::Value,
        (facts, kept_files): (&SeenFacts, Option<&Arc<KeptManifest>>),
    ) -> Self {
        let facts = Arc::clone(&facts.value);
        let (vars, wrong) = (Arc::clone(vars), Arc::clone(wrong));
        let (sensitive, vars_of_facts) = (Arc::clone(sensitive), Arc::clone(vars_of_facts));
        let of_var = |(name, value): (&String, &Value)| {
            (name.clone(), fingerprint_of_var(value, wrong.get(name)))
        };
        let of_vars = vars.iter().map(of_var).collect();
        let (host_seen, facts_seen, is_part) = (from_json(host), from_json(&facts), false);
        let seen = Globals { vars, host: host_seen, facts: facts_seen, sensitive, wrong, is_part };
        let (host, fingerprints) = (fingerprint(host), Mutex::default());
        Self {
            seen,
            host,
            vars: of_vars,
            vars_of_facts,
            facts,
            fingerprints,
            late_keepers: OnceLock::new(),
            unused: OnceLock::new(),
            kept_files: kept_files.cloned(),
        }
    }

    /// Returns the manifest, if it is a kept one.
    pub(crate) fn kept_files(&self) -> Option<&Arc<KeptManifest>> {
        self.kept_files.as_ref()
    }

    /// Notes the resources that keep facts at paths which are known only after apply.
    pub(crate) fn note_late_keepers(&self, names: &[String]) {
        if !names.is_empty() {
            let named = names[..names.len().min(MAX_LATE)].join(", ");
            self.late_keepers.set(named.into()).expect("they are noted once");
        }
    }

    /// Returns the names of these resources, if there are any.
    pub(crate) fn late_keepers(&self) -> Option<Arc<str>> {
        self.late_keepers.get().cloned()
    }

    /// Returns the same values with other facts, and the names of the variables that change with
    /// them. The secrets of the other facts are at the same places. `changed` are the facts that
    /// differ. Returns none if a variable that holds a secret follows from them.
    pub(crate) fn with_facts(
        &self,
        facts: &SeenFacts,
        changed: &BTreeSet<Vec<String>>,
    ) -> Option<(Self, BTreeSet<String>)> {
        self.seen.sensitive.note_facts(facts);
        let seen = Globals { facts: from_json(&facts.value), ..self.seen.clone() };
        let RenewedVars { vars, wrong, evaluated } =
            self.vars_of_facts.renew((seen.names(), &seen.wrong), changed)?;
        let (mut of_vars, mut others) = (self.vars.clone(), BTreeSet::new());
        for name in evaluated {
            let fingerprint = fingerprint_of_var(&vars[&name], wrong.get(&name));
            if of_vars.insert(name.clone(), fingerprint) != Some(fingerprint) {
                others.insert(name);
            }
        }
        let all = Self {
            seen: Globals { vars, wrong: Arc::new(wrong), ..seen },
            host: self.host,
            vars: of_vars,
            vars_of_facts: Arc::clone(&self.vars_of_facts),
            facts: Arc::clone(&facts.value),
            fingerprints: Mutex::default(),
            late_keepers: self.late_keepers.clone(),
            unused: OnceLock::new(),
            kept_files: self.kept_files.clone(),
        };
        Some((all, others))
    }

    /// Returns the facts.
    pub(crate) fn facts(&self) -> &serde_json::Value {
        &self.facts
    }

    /// Returns the facts that differ from others: the longest names that lead to them.
    pub(crate) fn changed_facts(&self, others: &serde_json::Value) -> BTreeSet<Vec<String>> {
        let mut changed = BTreeSet::new();
        differing((&self.facts, others), &mut Vec::new(), &mut changed);
        changed
    }

    /// Returns the variables that follow from facts, to be evaluated again.
    pub(crate) fn vars_of_facts(&self) -> Arc<VarsOfFacts> {
        Arc::clone(&self.vars_of_facts)
    }

    /// Returns the fingerprint of each variable.
    pub(crate) fn var_fingerprints(&self) -> impl Iterator<Item = (&str, Fingerprint)> {
        self.vars.iter().map(|(name, fingerprint)| (&**name, *fingerprint))
    }

    /// Returns the values that are used, and no others.
    pub(crate) fn used(&self, used: &Used) -> Arc<UsedValues> {
        let part = || Arc::new(self.part(used));
        match used.has_globals() {
            true => part(),
            false => Arc::clone(self.unused.get_or_init(part)),
        }
    }

    fn part(&self, used: &Used) -> UsedValues {
        let Globals { vars, host, facts, sensitive, wrong, .. } = &self.seen;
        let vars = match used.all_vars {
            true => Arc::clone(vars),
            false => {
                let used = used.vars.iter().filter_map(|name| vars.get_key_value(name));
                Arc::new(used.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
        };
        let host = if used.host { host.clone() } else { Value::from(()) };
        let facts = Part::of(used).taken_of(facts);
        let (sensitive, wrong) = (sensitive.used_by(used), Arc::clone(wrong));
        let globals = Globals { vars, host, facts, sensitive, wrong, is_part: true };
        let (fingerprints, names) = (self.fingerprints(used), OnceLock::new());
        UsedValues { globals, fingerprints, names, kept_files: None }
    }

    /// Returns the fingerprints of the values that are used.
    pub(crate) fn fingerprints(&self, used: &Used) -> Fingerprints {
        let vars = match used.all_vars {
            true => self.vars.clone(),
            false => {
                let used = used.vars.iter().filter_map(|name| self.vars.get_key_value(name));
                used.map(|(name, fingerprint)| (name.clone(), *fingerprint)).collect()
            }
        };
        let mut fingerprints = self.fingerprints.lock();
        let of_fact = |path: &Vec<String>| {
            let fingerprint = |path: &Vec<String>| fact(&self.facts, path).map(fingerprint);
            *fingerprints.entry(path.clone()).or_insert_with_key(fingerprint)
        };
        let facts = used.facts.iter().map(of_fact).collect();
        Fingerprints { host: used.host.then_some(self.host), vars, facts }
    }
}

fn fingerprint(value: &impl serde::Serialize) -> Fingerprint {
    Sha256::digest(serde_json::to_vec(value).expect("the value came of JSON")).into()
}

/// Returns the fingerprint of a variable: of its value or, if it is wrong, of the message about it.
fn fingerprint_of_var(value: &Value, wrong: Option<&String>) -> Fingerprint {
    wrong.map_or_else(|| fingerprint(value), |why| fingerprint(&("wrong", why)))
}

/// Returns the fact that some names lead to, as an expression would see it; none if nothing is there.
fn fact<'a>(facts: &'a serde_json::Value, path: &[String]) -> Option<&'a serde_json::Value> {
    path.iter().try_fold(facts, |value, name| match value {
        serde_json::Value::Object(map) => map.get(name),
        // An expression may go on into a value that is no map; the result follows from the value.
        value => Some(value),
    })
}

/// Adds the facts that differ.
fn differing(
    (one, other): (&serde_json::Value, &serde_json::Value),
    way: &mut Vec<String>,
    changed: &mut BTreeSet<Vec<String>>,
) {
    let (serde_json::Value::Object(ones), serde_json::Value::Object(others)) = (one, other) else {
        if one != other {
            changed.insert(way.clone());
        }
        return;
    };
    let added = others.keys().filter(|name| !ones.contains_key(*name));
    for name in ones.keys().chain(added) {
        way.push(name.clone());
        match (ones.get(name), others.get(name)) {
            (Some(one), Some(other)) => differing((one, other), way, changed),
            _ => drop(changed.insert(way.clone())),
        }
        way.pop();
    }
}

/// The used part of the facts.
#[derive(Default)]
struct Part<'a> {
    is_whole: bool,
    members: BTreeMap<&'a str, Self>,
}

impl<'a> Part<'a> {
    fn of(used: &'a Used) -> Self {
        let mut part = Self::default();
        for path in &used.facts {
            let mut at = &mut part;
            for name in path {
                at = at.members.entry(name).or_default();
            }
            at.is_whole = true;
        }
        part
    }

    /// Returns the part of some facts, which shares their values.
    fn taken_of(&self, facts: &Value) -> Value {
        if self.is_whole || facts.kind() != ValueKind::Map {
            return facts.clone();
        }
        let members = self.members.iter().filter_map(|(name, part)| {
            let value = facts.get_attr(name).ok().filter(|value| !value.is_undefined())?;
            Some(((*name).to_owned(), part.taken_of(&value)))
        });
        members.collect::<BTreeMap<_, _>>().into()
    }
}
