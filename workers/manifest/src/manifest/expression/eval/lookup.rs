//! The values of names, attributes and slices.

use std::collections::{BTreeMap, BTreeSet};

use crankcase_resources::front::UNUSABLE;
use minijinja::machinery::ast::{Expr, Slice};
use minijinja::value::{Value, ValueKind};

use crate::manifest::expression::Failure;
use crate::manifest::expression::eval::{Eval, Stop, failed};
use crate::manifest::expression::uses::{offset, path, start};
use crate::manifest::expression::value::no_value;

impl<'a> Eval<'_, '_, 'a> {
    pub(super) fn slice(&mut self, slice: &'a Slice<'a>) -> Result<Value, Stop> {
        let value = self.expr(&slice.expr)?;
        let place = start(&slice.expr);
        if slice.step.is_some() {
            return Err(failed(place, "a slice has no step"));
        }
        let mut bounds = [None, None];
        for (bound, expr) in bounds.iter_mut().zip([&slice.start, &slice.stop]) {
            if let Some(expr) = expr {
                let number = self.expr(expr)?.as_i64();
                *bound = Some(number.ok_or_else(|| failed(place, "a slice takes whole numbers"))?);
            }
        }
        self.budget.walk(&value).map_err(|why| failed(place, why))?;
        if let Some(text) = value.as_str() {
            let characters: Vec<char> = text.chars().collect();
            let range = range(bounds, characters.len());
            return Ok(characters[range].iter().collect::<String>().into());
        }
        if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
            return Err(failed(place, format!("cannot slice a {}", value.kind())));
        }
        let items: Vec<Value> = value.try_iter().into_iter().flatten().collect();
        let range = range(bounds, items.len());
        Ok(items[range].to_vec().into())
    }

    pub(super) fn name(&mut self, name: &str) -> Result<Value, Stop> {
        let local = self.locals.iter().rev().flatten().find(|local| local.name == name);
        if let Some(local) = local {
            return Ok(local.value.clone());
        }
        match name {
            "vars" => {
                if let Some(name) = self.names.wrong.keys().next() {
                    return self.variable(name);
                }
                if !self.names.unknown_vars.is_empty() {
                    let unknown = self.names.unknown_vars.values().flatten();
                    return Err(Stop::Unknown(unknown.cloned().collect()));
                }
                self.budget.steps(self.names.vars.len()).map_err(|why| failed(0, why))?;
                Ok(BTreeMap::clone(&self.names.vars).into())
            }
            "deps" => {
                let known =
                    |(alias, seen): (&String, &Option<Value>)| Some((alias.clone(), seen.clone()?));
                let known: Option<BTreeMap<_, _>> = self.names.deps.iter().map(known).collect();
                known.map(Value::from).ok_or_else(|| {
                    let unknown = self.names.deps.iter().filter(|(_, state)| state.is_none());
                    Stop::Unknown(unknown.map(|(alias, _)| alias.clone()).collect())
                })
            }
            "facts" => Ok(self.names.facts.clone()),
            "host" => Ok(self.names.host.clone()),
            "item" => Ok(self.names.item.clone().unwrap_or(Value::UNDEFINED)),
            _ if self.names.vars.contains_key(name) => self.variable(name),
            _ => self.dependency(name),
        }
    }

    fn variable(&self, name: &str) -> Result<Value, Stop> {
        if let Some(why) = self.names.wrong.get(name) {
            return Err(failed(0, format!("variable \"{name}\" is wrong: {why}")));
        }
        if let Some(unknown) = self.names.unknown_vars.get(name) {
            return Err(Stop::Unknown(unknown.clone()));
        }
        Ok(self.names.vars.get(name).cloned().unwrap_or(Value::UNDEFINED))
    }

    fn dependency(&self, alias: &str) -> Result<Value, Stop> {
        match self.names.deps.get(alias) {
            Some(Some(seen)) => Ok(seen.clone()),
            Some(None) => Err(Stop::Unknown(BTreeSet::from([alias.to_owned()]))),
            None => Ok(Value::UNDEFINED),
        }
    }

    /// Returns an attribute of a state of which only the declared part is known; none for any other
    /// value.
    fn declared(&mut self, state: &'a Expr<'a>, attribute: &Value) -> Result<Option<Value>, Stop> {
        let of = match state {
            Expr::GetAttr(attr) => &attr.expr,
            Expr::GetItem(item) => &item.expr,
            _ => return Ok(None),
        };
        let Some((alias, states)) = self.declared_states(of) else { return Ok(None) };
        let name = match state {
            Expr::GetItem(item) => self.expr(&item.subscript_expr)?,
            Expr::GetAttr(attr) => attr.name.into(),
            _ => return Ok(None),
        };
        let value = states.get_item(&name).and_then(|state| state.get_item(attribute));
        match value.ok().filter(|value| !value.is_undefined()) {
            Some(value) => Ok(Some(value)),
            None => Err(Stop::Unknown(BTreeSet::from([alias]))),
        }
    }

    /// Returns an alias and the declared parts of its states, if an expression is that alias.
    fn declared_states(&self, expr: &Expr<'_>) -> Option<(String, Value)> {
        if self.names.declared.is_empty() {
            return None;
        }
        let mut path = path(expr).filter(|path| !self.is_local(&path[0]))?;
        let alias = path.pop().filter(|_| path.is_empty() || path == ["deps"])?;
        let states = self.names.declared.get(&alias)?.clone();
        Some((alias, states))
    }

    /// Stops if a name with attributes is a fact that is not known yet, or has one in it.
    pub(super) fn require_facts(&self, path: &[String]) -> Result<(), Stop> {
        let unknown = match path.split_first() {
            Some((first, below)) if first == "facts" && !self.is_local(first) => {
                self.names.unknown_facts.at(below)
            }
            _ => BTreeSet::new(),
        };
        if unknown.is_empty() { Ok(()) } else { Err(Stop::Unknown(unknown)) }
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().flatten().any(|local| local.name == name)
    }

    pub(super) fn attribute(&mut self, of: &'a Expr<'a>, key: &Value) -> Result<Value, Stop> {
        if let Some(value) = self.declared(of, key)? {
            return Ok(value);
        }
        if let (Expr::Var(var), Some(name)) = (of, key.as_str()) {
            match var.id {
                "deps" if !self.is_local(var.id) => return self.dependency(name),
                "vars" if !self.is_local(var.id) => return self.variable(name),
                _ => {}
            }
        }
        let value = self.expr(of)?;
        if let Some(index) = key.as_i64().filter(|index| *index < 0)
            && let Some(length) = value.len()
        {
            let index = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            return Ok(length
                .checked_sub(index)
                .and_then(|index| value.get_item_by_index(index).ok())
                .unwrap_or(Value::UNDEFINED));
        }
        let item = value.get_item(key).unwrap_or(Value::UNDEFINED);
        if item.is_undefined() && matches!(of, Expr::Var(var) if var.id == "loop") {
            let key = key.as_str().map_or_else(|| key.to_string(), |key| format!("\"{key}\""));
            let message = format!("loop has no {key}; it has {}", listed(&value));
            return Err(failed(start(of), message));
        }
        if item.kind() == ValueKind::Invalid {
            return Err(unusable(of, (&value, key), &item));
        }
        Ok(item)
    }

    /// Refuses a null where a text is made.
    pub(super) fn not_null(&self, expr: &Expr<'_>, value: &Value) -> Result<(), Stop> {
        self.not_forgotten(expr, value)?;
        if !value.is_none() {
            return Ok(());
        }
        let what = path(expr).map_or_else(|| "the value".to_owned(), |path| path.join("."));
        let message = format!("{what} is null, which cannot be put into a text");
        let help = "say what stands for it, as in x if x is not none else 'nothing'";
        Err(Stop::Failed(Failure::new(start(expr), message).with_help(help)))
    }

    /// Refuses a variable that is null, because it has no value then.
    pub(super) fn not_forgotten(&self, expr: &Expr<'_>, value: &Value) -> Result<(), Stop> {
        let Some(path) = path(expr).filter(|_| value.is_none()) else { return Ok(()) };
        let name = match &path[..] {
            [vars, name] if vars == "vars" => name,
            [name] if self.names.vars.contains_key(name) => name,
            _ => return Ok(()),
        };
        if self.is_local(&path[0]) {
            return Ok(());
        }
        let help = format!(
            "set it with --var {name}=VALUE or in a --var-file; {name} | default(none) leaves an \
             attribute out"
        );
        let failure = Failure::new(start(expr), format!("variable \"{name}\" has no value"));
        Err(Stop::Failed(failure.with_help(&help)))
    }

    pub(super) fn undefined(&mut self, expr: &'a Expr<'a>) -> Stop {
        let (of, key) = match expr {
            Expr::Var(var) => return failed(start(expr), format!("\"{}\" is undefined", var.id)),
            Expr::GetAttr(attr) => (&attr.expr, format!("\"{}\"", attr.name)),
            Expr::GetItem(item) => match self.expr(&item.subscript_expr) {
                Ok(key) if key.kind() == ValueKind::Number => (&item.expr, format!("item {key}")),
                _ => (&item.expr, "such item".to_owned()),
            },
            _ => return failed(start(expr), "the value is undefined"),
        };
        let what = path(of).map_or_else(|| "the value".to_owned(), |path| path.join("."));
        let mut failure = Failure::new(start(expr), format!("{what} has no {key}"));
        let is_of_facts = what == "facts" || what.starts_with("facts.");
        if let Ok(value) = self.expr(of)
            && value.kind() == ValueKind::Map
            // A part of the facts does not show which others there are.
            && !(is_of_facts && self.names.has_part_of_facts)
        {
            let keys = listed(&value);
            let help = Some(format!("it has {keys}"));
            failure.hint.help = help.filter(|help| !keys.is_empty() && help.len() < 500);
            if keys.is_empty() && what == "facts" {
                let help =
                    "no facts are stored; \"crankcase facts load\" or \"bootstrap\" loads some";
                failure.hint.help = Some(help.to_owned());
            }
        }
        if is_of_facts && let Some(keepers) = &self.names.late_keepers {
            let help = format!(
                "{keepers} may write it, at a path that is known after apply; default(...) stands \
                 for it until then"
            );
            failure.hint.help = Some(help);
        }
        Stop::Failed(failure)
    }
}

/// Returns the first keys of a map, as a text.
fn listed(map: &Value) -> String {
    let keys = map.try_iter().into_iter().flatten().take(20);
    keys.map(|key| key.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the reason why an item cannot be used: the state says it, or its chain of lists has a
/// part that is no list.
fn unusable(of: &Expr<'_>, (value, key): (&Value, &Value), item: &Value) -> Stop {
    let why = value.get_attr(UNUSABLE).and_then(|unusable| unusable.get_item(key));
    let Some(why) = why.ok().filter(|why| why.as_str().is_some()) else {
        return failed(offset(of), no_value(item));
    };
    let what = path(of).map_or_else(|| "the value".to_owned(), |path| path.join("."));
    failed(start(of), format!("{what}.{key} cannot be used: {why}"))
}

/// The items from a bound to another; a negative bound counts from the end.
fn range([from, to]: [Option<i64>; 2], length: usize) -> std::ops::Range<usize> {
    let absolute = |bound: i64| {
        let distance = usize::try_from(bound.unsigned_abs()).unwrap_or(usize::MAX);
        if bound < 0 { length.saturating_sub(distance) } else { distance.min(length) }
    };
    let to = to.map_or(length, absolute);
    from.map_or(0, absolute).min(to)..to
}
