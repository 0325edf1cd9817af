//! The variables of a manifest before any is evaluated.
//!
//! Each source replaces the variables of the sources before it: the manifest, the files of variables in their order,
//! the values that are set, and the built-in ones.

use std::fmt;

use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::ValueKind;

use crate::manifest::bounds::Bounds;
use crate::manifest::check::RESERVED;
use crate::manifest::document::{self, Written};
use crate::manifest::node::Data;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::sensitive::Sensitive;
use crate::manifest::source::{bad_name, is_name};
use crate::manifest::vars::outside::Outside;

pub(super) enum Var {
    /// A value whose expressions are evaluated.
    Written(Written),
    /// A value from outside.
    Set(Value),
}

/// Shows no values.
impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written(written) => f.debug_tuple("Written").field(written).finish(),
            Self::Set(_) => f.write_str("Set"),
        }
    }
}

pub(super) fn collect(
    (written, mut is_whole): (IndexMap<String, Written>, bool),
    (outside, sensitive): (&Outside<'_>, &mut Sensitive),
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> IndexMap<String, Var> {
    // A value that takes the place of a secret is one too.
    let mut note = |name: &str, written: &Written| sensitive.add_written(name, &written.node);
    written.iter().for_each(|(name, written)| note(name, written));
    let mut vars: IndexMap<String, Var> =
        written.into_iter().map(|(name, written)| (name, Var::Written(written))).collect();
    let overrides = outside.overrides;
    for file in outside.reading.list_vars(&overrides.files) {
        let read = document::read_vars(&file, outside.reading, bounds, problems);
        is_whole &= read.is_some();
        for (name, written) in read.unwrap_or_default() {
            note(&name, &written);
            vars.insert(name, Var::Written(written));
        }
    }
    for (name, var) in &vars {
        if let (Some(message), Var::Written(written)) = (refused(name), var) {
            problems.with_hint(&written.source, written.key.start, message, Hint::of(name));
        }
    }
    for (name, text) in &overrides.vars {
        if let Some(message) = refused(name) {
            problems.note_with_hint(message, Hint::of(name));
        } else if is_whole && !vars.contains_key(name) {
            problems.expect_use(name);
        }
        let value = match (vars.get(name).is_some_and(is_boolean), text.as_str()) {
            (true, "true") => Value::from(true),
            (true, "false") => Value::from(false),
            (true, _) => {
                let help = Some("say true or false".to_owned());
                let message = format!("--var: variable {} is a boolean", quoted(name));
                problems.note_with_hint(message, Hint { help, ..Hint::default() });
                continue;
            }
            (false, text) => Value::from(text),
        };
        vars.insert(name.clone(), Var::Set(value));
    }
    let built_in = overrides.built_in.iter().filter(|(name, _)| outside.names(name));
    vars.extend(built_in.map(|(name, value)| (name.clone(), Var::Set(value.as_str().into()))));
    vars
}

fn is_boolean(var: &Var) -> bool {
    match var {
        Var::Written(Written { node, .. }) => matches!(node.data, Data::Bool(_)),
        Var::Set(value) => value.kind() == ValueKind::Bool,
    }
}

fn refused(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("{} cannot be a variable: the name is reserved", quoted(name)));
    }
    (!is_name(name)).then(|| bad_name("name of a variable", name))
}
