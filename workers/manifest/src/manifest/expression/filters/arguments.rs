//! The arguments of filters: their order, and those that become texts.

use std::borrow::Cow;

use minijinja::value::{Kwargs, Value};

use super::said;
use crate::manifest::expression::operators;

/// The filters whose arguments are read here and may have names, with these names in their order.
///
/// No second list says what a named argument is: an argument that is missing there would have no
/// bound.
const NAMED: &[(&str, &[&str])] =
    &[("indent", &["width", "first", "blank"]), ("join", &["d", "attribute"])];

/// Filters that take a text, and make one of any other value that has one.
const TEXTUAL: &[&str] = &[
    "capitalize",
    "indent",
    "lines",
    "lower",
    "replace",
    "split",
    "string",
    "title",
    "trim",
    "upper",
];

/// Puts named arguments in the places that they have without their names.
pub(super) fn in_order<'a>(name: &str, args: &'a [Value]) -> Result<Cow<'a, [Value]>, String> {
    let names = NAMED.iter().find(|(filter, _)| *filter == name);
    let named = args.split_last().filter(|(last, _)| last.is_kwargs());
    let (Some((_, names)), Some((named, given))) = (names, named) else { return Ok(args.into()) };

    let wrong = |err: minijinja::Error| said(&err, "filter", name);
    let named = Kwargs::try_from(named.clone()).map_err(wrong)?;
    let mut args = given.to_vec();
    for (place, argument) in (1..).zip(*names) {
        let Some(value) = named.get::<Option<Value>>(argument).map_err(wrong)? else { continue };
        if place < given.len() {
            return Err(format!("filter \"{name}\": {argument} is given twice"));
        }
        args.resize(place, Value::from(()));
        args.push(value);
    }
    named.assert_all_used().map_err(wrong)?;
    Ok(args.into())
}

/// Makes texts of the arguments before a filter would make texts of them in minijinja's way.
pub(super) fn with_texts<'a>(name: &str, args: &'a [Value]) -> Result<Cow<'a, [Value]>, String> {
    let of = |value: &Value| operators::text(value).map(|text| Value::from(&*text));
    let count = match name {
        "replace" => 3,
        _ if TEXTUAL.contains(&name) => 1,
        // With an attribute, "join" makes texts of the attributes of the items.
        "join" if args.len() < 3 => 0,
        "map" if args.get(1).and_then(Value::as_str).is_some_and(|of| TEXTUAL.contains(&of)) => 0,
        _ => return Ok(args.into()),
    };
    let mut texts = args.to_vec();
    for value in texts.iter_mut().take(count).filter(|value| value.as_str().is_none()) {
        *value = of(value)?;
    }
    if count == 0
        && let Some(list) = texts.first_mut().filter(|list| list.as_str().is_none())
        && let Ok(items) = list.try_iter()
    {
        *list = items.map(|item| of(&item)).collect::<Result<Vec<_>, _>>()?.into();
    }
    Ok(texts.into())
}
