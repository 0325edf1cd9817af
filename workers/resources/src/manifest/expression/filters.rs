use std::borrow::Cow;
use std::sync::LazyLock;

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, UndefinedBehavior};

use crate::manifest::expression::budget::Budget;
use crate::manifest::expression::operators;

/// The filters that expressions may use.
///
/// Those of minijinja without what only escapes, prints for people, or takes a size of its own.
pub(crate) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// The tests that expressions may use.
pub(crate) const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

/// The functions that expressions may use.
pub(crate) const FUNCTIONS: &[&str] = &["range"];

/// What `map` may apply to each item: filters whose result is not larger than their input.
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

/// How many items `range` counts at most.
const MAX_RANGE: usize = 100_000;
/// How wide `indent` may indent, in characters.
const MAX_INDENT: usize = 1_000;

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_debug(false);
    environment
});

/// Applies a filter; the value comes first, the arguments follow.
pub(super) fn filter(name: &str, args: &[Value], budget: &mut Budget) -> Result<Value, String> {
    if !FILTERS.contains(&name) {
        return Err(format!("unknown filter \"{name}\""));
    }
    for arg in args {
        budget.walk(arg)?;
    }
    let args = with_texts(name, args)?;
    foresee(name, &args, budget)?;
    let result = ENVIRONMENT.empty_state().apply_filter(name, &args);
    let result = result.map_err(|err| said(&err, "filter", name))?;
    budget.walk(&result)?;
    Ok(result)
}

/// Performs a test.
pub(super) fn test(name: &str, args: &[Value], budget: &mut Budget) -> Result<bool, String> {
    if !TESTS.contains(&name) {
        return Err(format!("unknown test \"{name}\""));
    }
    for arg in args {
        budget.walk(arg)?;
    }
    let holds = ENVIRONMENT.empty_state().perform_test(name, args);
    holds.map_err(|err| said(&err, "test", name))
}

/// Calls a function.
pub(super) fn function(name: &str, args: &[Value], budget: &mut Budget) -> Result<Value, String> {
    if !FUNCTIONS.contains(&name) {
        return Err(format!("unknown function \"{name}\""));
    }
    let numbers: Option<Vec<i64>> = args.iter().map(Value::as_i64).collect();
    let (from, to, step) = match numbers.as_deref() {
        Some([to]) => (0, *to, 1),
        Some([from, to]) => (*from, *to, 1),
        Some([from, to, step]) if *step > 0 => (*from, *to, *step),
        _ => return Err("range takes END, or START, END and a STEP above zero".to_owned()),
    };
    let step = usize::try_from(step).map_err(|err| err.to_string())?;
    let items: Vec<Value> = (from..to).step_by(step).take(MAX_RANGE + 1).map(Value::from).collect();
    if items.len() > MAX_RANGE {
        return Err("the range has more than 100,000 items".to_owned());
    }
    budget.steps(items.len())?;
    Ok(items.into())
}

/// Makes texts of the values that a filter would make texts of in minijinja's way.
fn with_texts<'a>(name: &str, args: &'a [Value]) -> Result<Cow<'a, [Value]>, String> {
    let of = |value: &Value| operators::text(value).map(|text| Value::from(&*text));
    let count = match name {
        "replace" => 3,
        _ if TEXTUAL.contains(&name) => 1,
        // With an attribute it makes texts of what it takes out of the items.
        "join" if args.len() < 3 && !args.last().is_some_and(Value::is_kwargs) => 0,
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

/// Takes the size of results that are larger than their arguments.
fn foresee(name: &str, args: &[Value], budget: &mut Budget) -> Result<(), String> {
    let length = |index: usize| args.get(index).and_then(Value::as_str).map_or(0, str::len);
    match name {
        "join" => {
            let items = args.first().and_then(Value::len).unwrap_or_else(|| length(0));
            Ok(budget.text(items.saturating_mul(length(1)))?)
        }
        "replace" => {
            let text = args.first().and_then(Value::as_str).unwrap_or_default();
            let from = args.get(1).and_then(Value::as_str).unwrap_or_default();
            let times = text.matches(from).count();
            Ok(budget.text(times.saturating_mul(length(2)))?)
        }
        "indent" => {
            let text = args.first().and_then(Value::as_str).unwrap_or_default();
            let width = args.get(1).and_then(Value::as_usize).unwrap_or(MAX_INDENT);
            if width > MAX_INDENT {
                return Err(format!("indent takes at most {MAX_INDENT} characters"));
            }
            Ok(budget.text(text.lines().count().saturating_mul(width))?)
        }
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

fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number
}

/// Says an error of minijinja. The alternate form would print the values of variables.
fn said(err: &minijinja::Error, what: &str, name: &str) -> String {
    let detail = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
    format!("{what} \"{name}\": {detail}")
}
