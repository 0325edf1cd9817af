//! The cost of a filter, which is taken before the filter is applied: its result is seen too late.

use minijinja::value::{Kwargs, Value, ValueKind};

use crate::manifest::expression::budget::Budget;

/// The filters that `map` may apply to each item. Their result is not larger than their input.
const MAPPED: &[&str] = &[
    "abs",
    "bool",
    "capitalize",
    "count",
    "first",
    "float",
    "int",
    "last",
    "length",
    "lower",
    "max",
    "min",
    "round",
    "string",
    "title",
    "trim",
    "upper",
];

/// Filters that go through a list with their arguments, and through a text by its characters.
const ITEMWISE: &[&str] = &[
    "groupby",
    "join",
    "list",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "select",
    "selectattr",
    "sort",
    "unique",
];

/// How wide `indent` may indent, in characters.
const MAX_INDENT: usize = 1_000;
/// How wide it indents by default.
const INDENT: usize = 4;
/// How many steps of the arguments do not count for each item.
const FREE: usize = 16;

/// How many steps it took to walk through the arguments of a filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walked {
    first: usize,
    others: usize,
}

/// Takes a walk through the arguments.
pub(super) fn walk(args: &[Value], budget: &mut Budget) -> Result<Walked, String> {
    let before = budget.spent();
    args.first().map_or(Ok(()), |first| budget.walk(first))?;
    let between = budget.spent();
    args.iter().skip(1).try_for_each(|arg| budget.walk(arg))?;
    Ok(Walked { first: between - before, others: budget.spent() - between })
}

/// Takes what the filter costs beside that walk; refuses arguments beyond its bounds.
pub(super) fn take(
    name: &str,
    args: &[Value],
    walked: Walked,
    budget: &mut Budget,
) -> Result<(), String> {
    let Some(first) = args.first() else { return Ok(()) };
    if ITEMWISE.contains(&name) {
        let items = match first.as_str() {
            Some(text) => {
                let characters = text.chars().count();
                budget.steps(characters)?;
                characters
            }
            // A chain of lists has no length, but was walked through.
            None => first.len().unwrap_or(walked.first),
        };
        let each = match name {
            "join" => return Ok(budget.text(items.saturating_mul(length(args, 1)))?),
            "sort" => keys(args),
            _ => walked.others.saturating_sub(FREE),
        };
        budget.steps(items.saturating_mul(each))?;
    }
    text(name, args, budget)?;
    refuse(name, args)
}

/// Takes the cost of the result that a filter makes of a text.
fn text(name: &str, args: &[Value], budget: &mut Budget) -> Result<(), String> {
    let text = args.first().and_then(Value::as_str).unwrap_or_default();
    let argument = args.get(1).and_then(Value::as_str);
    match name {
        "replace" => {
            let times = text.matches(argument.unwrap_or_default()).count();
            budget.text(times.saturating_mul(length(args, 2)))?;
        }
        "split" => {
            let parts = match argument {
                Some(separator) => text.split(separator).count(),
                None => text.split_whitespace().count(),
            };
            let most = args.get(2).and_then(Value::as_usize).unwrap_or(usize::MAX);
            budget.steps(parts.min(most.saturating_add(1)))?;
        }
        "lines" => budget.steps(text.lines().count())?,
        "indent" => {
            let width = args.get(1).filter(|width| !width.is_none());
            let width = width.map_or(INDENT, |width| width.as_usize().unwrap_or(MAX_INDENT));
            if width > MAX_INDENT {
                return Err(format!("indent takes at most {MAX_INDENT} characters"));
            }
            budget.text(text.split('\n').count().saturating_mul(width))?;
        }
        _ => {}
    }
    Ok(())
}

/// Refuses arguments without a bound.
fn refuse(name: &str, args: &[Value]) -> Result<(), String> {
    match name {
        "tojson" if args.len() > 1 => Err("tojson takes no arguments".to_owned()),
        "map" => match args.get(1).and_then(Value::as_str) {
            Some(mapped) if !MAPPED.contains(&mapped) => {
                Err(format!("map cannot apply {mapped:?}; it can: {}", MAPPED.join(", ")))
            }
            _ => Ok(()),
        },
        "list" | "length" | "count" if args.first().is_some_and(is_number) => {
            Err(format!("{name} takes a list, a map or a text, not a number"))
        }
        _ => Ok(()),
    }
}

fn length(args: &[Value], index: usize) -> usize {
    args.get(index).and_then(Value::as_str).map_or(0, str::len)
}

/// Returns how many keys `sort` keeps of each item beside the item itself.
fn keys(args: &[Value]) -> usize {
    let named = args.last().and_then(|named| Kwargs::try_from(named.clone()).ok());
    let attribute = named.and_then(|named| named.get::<Option<String>>("attribute").ok()?);
    attribute.map_or(0, |attribute| attribute.matches(',').count())
}

fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number
}

#[cfg(test)]
mod tests {
    use minijinja::value::Value;

    use super::{Budget, take, walk};

    #[test]
    fn a_text_that_is_taken_apart_is_paid_for_before() {
        let text = Value::from("a\n".repeat(1_000_001));
        let cases = [("list", ""), ("sort", ""), ("lines", ""), ("split", ""), ("split", "\n")];
        for (name, argument) in cases {
            let args = [text.clone(), Value::from(argument)];
            let mut budget = Budget::new();
            let walked = walk(&args, &mut budget).expect("a walk through a text costs little");
            assert!(take(name, &args, walked, &mut budget).is_err(), "{name} {argument:?}");
        }
    }

    #[test]
    fn a_text_that_is_split_once_is_paid_for_once() {
        let args = [Value::from("a\n".repeat(1_000_001)), Value::from("\n"), Value::from(1)];
        let mut budget = Budget::new();
        let walked = walk(&args, &mut budget).expect("a walk through a text costs little");
        let before = budget.spent();
        assert!(take("split", &args, walked, &mut budget).is_ok());
        assert_eq!(budget.spent(), before + 2);
    }
}
