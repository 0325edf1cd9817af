//! The filters, tests and functions that expressions may use.

mod arguments;
mod cost;

use std::sync::LazyLock;

use minijinja::value::Value;
use minijinja::{Environment, Error, UndefinedBehavior};

use crate::manifest::expression::budget::Budget;
use crate::manifest::expression::value::require_values;

/// The filters that expressions may use.
///
/// These are minijinja's filters, without those that only escape, print for people, or take a size
/// of their own.
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

/// Filters that order values. minijinja panics on two values that stand for errors.
const ORDERING: &[&str] = &["dictsort", "groupby", "max", "min", "sort"];

/// How many items `range` counts at most.
const MAX_RANGE: usize = 100_000;

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
    let args = arguments::in_order(name, args)?;
    let walked = cost::walk(&args, budget)?;
    let mapped = args.get(1).and_then(Value::as_str).filter(|_| name == "map");
    if ORDERING.contains(&mapped.unwrap_or(name)) {
        args.iter().try_for_each(require_values)?;
    }
    let args = arguments::with_texts(name, &args)?;
    cost::take(name, &args, walked, budget)?;
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

/// Returns the message of an error of minijinja. The alternate form would print the values of
/// variables.
fn said(err: &Error, what: &str, name: &str) -> String {
    let detail = |err: &Error| err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
    let cause = std::error::Error::source(err).and_then(|cause| cause.downcast_ref::<Error>());
    let cause = cause.map_or_else(String::new, |cause| format!(": {}", detail(cause)));
    format!("{what} \"{name}\": {}{cause}", detail(err))
}
