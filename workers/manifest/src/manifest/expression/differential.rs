//! Our evaluation against minijinja's own, on expressions and templates of random parts.
//!
//! If both evaluate a text, the results must be equal. If only minijinja evaluates it, ours must
//! refuse it for one of the reasons in [`OURS`]. If only ours evaluates it, minijinja must refuse
//! it for one of the reasons in [`THEIRS`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::machinery::ast::CompareOpKind;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, UndefinedBehavior, escape_formatter};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::json;

use crate::manifest::expression::operators;
use crate::manifest::expression::parsed::syntax;
use crate::manifest::expression::{Budget, Names, Parsed, Stop, evaluate, is_template, to_json};

const CASES: u32 = 4_000;

/// Why we refuse what minijinja evaluates: parts of our messages. `docs/manifest.md` says all.
const OURS: &[&str] = &[
    // An undefined value is an error wherever it is used, not where it is printed.
    "undefined",
    " has no ",
    // A list, a map and null have no text.
    "cannot be put into a text",
    // Booleans are no numbers, and nothing is repeated by "*".
    "cannot calculate with a",
    // Only values of one type have an order.
    "cannot order a",
    // A text is no list, and null is none.
    "cannot loop over a",
    "cannot slice a",
    "a text holds texts only",
    // A bound.
    "the expression is too large",
    "not a finite number",
    // minijinja keeps an error as a value until it is used.
    "the result is no value",
];

/// Why minijinja refuses what we evaluate: parts of its messages.
const THEIRS: &[&str] = &[
    // "lines" and "split" take a number as its text, as the other filters of texts do.
    "value is not a string",
];

/// The variables, in an order in which each has another kind.
fn vars() -> serde_json::Value {
    json!({
        "i": 3, "n": -7, "z": 0, "f": 2.5, "big": 9_007_199_254_740_993_i64,
        "s": "abc", "t": "Hello wörld", "e": "", "d": "12",
        "b": true, "c": false,
        "l": [3, 1, 2], "k": ["b", "a", "b"], "o": [], "x": [[1, "p"], [2, "q"]],
        "m": {"a": 1, "b": "x"}, "q": [{"a": 2, "b": "u"}, {"a": 1, "b": "v"}],
    })
}

const VARS: &[&str] = &[
    "i", "n", "z", "f", "big", "s", "t", "e", "d", "b", "c", "l", "k", "o", "x", "m", "q", "m.a",
    "m['b']", "q[0].a", "l[0]", "l[-1]", "s[0]", "vars.s", "m.none", "l[9]", "missing",
];

const LITERALS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "1.5",
    "100",
    "true",
    "false",
    "none",
    "''",
    "'a'",
    "'b'",
    "'abc'",
    "[]",
    "[1, 2]",
    "['a', 'b']",
    "{'a': 1}",
    "1e3",
    "(range(3) | list)",
];

const OPERATORS: &[&str] = &[
    "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or",
];

/// Makes a list of minijinja's sum of two lists, which is a lazy iterable to it. Ours is a list by
/// itself: it can be indexed and ordered.
const LISTED: &str = " | listed";

/// Filters of any value.
const FILTERS: &[&str] = &[
    "abs",
    "attr('a')",
    "bool",
    "chain([9])",
    "count",
    "d(1)",
    "default('x', true)",
    "dictsort",
    "first",
    "float",
    "groupby('a')",
    "int",
    "items",
    "join(',', attribute='b')",
    "last",
    "length",
    "list",
    "map('int')",
    "map(attribute='a')",
    "max",
    "min",
    "reject('odd')",
    "rejectattr('a', 'gt', 1)",
    "reverse",
    "round",
    "round(1)",
    "select",
    "select('gt', 1)",
    "selectattr('a')",
    "sort",
    "sort(reverse=true)",
    "sort(attribute='a')",
    "tojson",
    "unique",
    "zip([1, 2])",
];

/// Filters that make a text of their input.
const TEXTUAL: &[&str] = &[
    "capitalize",
    "indent(2)",
    "indent(2, true)",
    "indent(width=1)",
    "lines",
    "lower",
    "replace('a', 'z')",
    "split",
    "split('b')",
    "split('b', 1)",
    "string",
    "title",
    "trim",
    "trim('a')",
    "upper",
];

/// Filters that make texts of items, and lists without booleans.
const JOINING: &[&str] = &["join", "join(', ')", "join(d='-')", "map('upper')", "map('string')"];
const JOINED: &[&str] = &["l", "k", "o", "m", "s", "range(3)", "[1.5, 'a']", "(k | sort)"];
/// Lists to slice. The slice becomes a list, because minijinja makes another sort of list of it,
/// which it orders in another way.
const LISTS: &[&str] = &["l", "k", "o", "x", "q", "range(3)", "[1.5, 'a']", "(k | sort)"];

const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby(3)",
    "endingwith('c')",
    "eq(3)",
    "equalto('abc')",
    "even",
    "false",
    "float",
    "ge(1)",
    "gt(1)",
    "in([1, 3])",
    "int",
    "integer",
    "iterable",
    "le(1)",
    "lower",
    "lt(1)",
    "mapping",
    "ne(3)",
    "none",
    "number",
    "odd",
    "sequence",
    "startingwith('a')",
    "string",
    "true",
    "undefined",
    "upper",
];

const SLICES: &[&str] = &["[1:]", "[:1]", "[1:2]", "[-2:]", "[:-1]", "[5:]", "[2:1]", "[:]"];

const TEXTS: &[&str] = &["s", "t", "e", "d", "'wörld'", "(s | upper)"];

/// Replaces a boolean by 'B'. Its text is `true` to us and `True` to minijinja, and a later result
/// does not show that.
fn plain(expr: &str) -> String {
    format!("({expr} if ({expr}) is not boolean else 'B')")
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => select(VARS).prop_map(str::to_owned),
        1 => select(LITERALS).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = || inner.clone();
        prop_oneof![
            6 => (one(), select(OPERATORS), one()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            1 => (one(), one()).prop_map(|(a, b)| format!("(({a} + {b}){LISTED})")),
            4 => (one(), select(FILTERS)).prop_map(|(a, filter)| format!("({a} | {filter})")),
            3 => (one(), select(TEXTUAL)).prop_map(|(a, filter)| format!("({} | {filter})", plain(&a))),
            1 => (select(JOINED), select(JOINING)).prop_map(|(a, filter)| format!("({a} | {filter})")),
            1 => (one(), one()).prop_map(|(a, b)| format!("({} ~ {})", plain(&a), plain(&b))),
            3 => (one(), select(TESTS)).prop_map(|(a, test)| format!("({a} is {test})")),
            1 => (one(), select(TESTS)).prop_map(|(a, test)| format!("({a} is not {test})")),
            1 => (select(TEXTS), select(SLICES)).prop_map(|(a, slice)| format!("{a}{slice}")),
            1 => (select(LISTS), select(SLICES)).prop_map(|(a, slice)| format!("({a}{slice} | list)")),
            1 => one().prop_map(|a| format!("(-{a})")),
            1 => one().prop_map(|a| format!("(not {a})")),
            2 => (one(), one(), one()).prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            1 => (one(), one()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            1 => (one(), one()).prop_map(|(a, b)| format!("{{'a': {a}, 'b': {b}}}")),
            1 => (one(), one()).prop_map(|(a, b)| format!("({a})[{b}]")),
            1 => one().prop_map(|a| format!("({a}).a")),
            1 => (one(), one(), one()).prop_map(|(a, b, c)| format!("({a} < {b} <= {c})")),
        ]
    })
}

fn template() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        select(&["a", " ", "\n", "- "][..]).prop_map(str::to_owned),
        expression().prop_map(|expr| format!("{{{{ {expr} }}}}")),
        select(&["{{ v }}", "{{ loop.index }}", "{{ loop.last }}", "{{ w }}"][..])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let one = || inner.clone();
        let list = select(&["l", "k", "o", "m", "range(3)", "q", "s"][..]);
        prop_oneof![
            2 => (one(), one()).prop_map(|(a, b)| a + &b),
            2 => (expression(), one(), one()).prop_map(|(test, a, b)| {
                format!("{{% if {test} %}}{a}{{% elif i %}}-{{% else %}}{b}{{% endif %}}")
            }),
            2 => (list.clone(), one()).prop_map(|(list, a)| {
                format!("{{% for v in {list} %}}{a}{{% else %}}none{{% endfor %}}")
            }),
            2 => (list, expression(), one()).prop_map(|(list, test, a)| {
                format!("{{%- for v in {list} if {test} -%}} {a} {{% endfor %}}")
            }),
            1 => (one(), one()).prop_map(|(a, b)| {
                format!("{{% for v, w in x %}}{a}{{% endfor %}}{b}")
            }),
            1 => (expression(), one()).prop_map(|(value, a)| {
                format!("{{% set v = {value} %}}{a}")
            }),
            1 => (expression(), one(), one()).prop_map(|(value, a, b)| {
                format!("{{% with v = {value} %}}{a}{{% endwith %}}{b}")
            }),
        ]
    })
}

struct Both {
    names: Names,
    environment: Environment<'static>,
    context: Value,
    equal: Cell<u32>,
}

impl Both {
    fn new() -> Self {
        let vars = vars();
        let serde_json::Value::Object(map) = &vars else { unreachable!("the variables are a map") };
        let values: BTreeMap<String, Value> =
            map.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value)))).collect();
        let mut context = values.clone();
        context.insert("vars".to_owned(), values.clone().into());
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_syntax(syntax());
        // As in YAML and JSON.
        environment.set_formatter(|out, state, value| match bool::try_from(value.clone()) {
            Ok(holds) if value.kind() == ValueKind::Bool => Ok(write!(out, "{holds}")?),
            _ => escape_formatter(out, state, value),
        });
        environment.add_filter("listed", |value: Value| match value.kind() {
            ValueKind::Iterable => Ok(value.try_iter()?.collect()),
            _ => Ok::<Value, minijinja::Error>(value),
        });
        let names = Names { vars: Arc::new(values), ..Names::default() };
        Self { names, environment, context: context.into(), equal: Cell::new(0) }
    }

    fn ours(&self, text: &str) -> Result<serde_json::Value, String> {
        let text = text.replace(LISTED, "");
        let parsed = Parsed::new(&text).map_err(|failure| failure.message)?;
        let mut budget = Budget::new();
        match evaluate(&parsed, &self.names, &mut budget) {
            Ok(value) => to_json(&value, &mut budget),
            Err(Stop::Failed(failure)) => Err(failure.message),
            Err(Stop::Unknown(aliases)) => Err(format!("unknown {aliases:?}")),
        }
    }

    fn theirs(&self, text: &str, is_expression: bool) -> Result<serde_json::Value, String> {
        let said = |err: minijinja::Error| err.to_string();
        if !is_expression {
            let rendered = self.environment.render_str(text, self.context.clone());
            return rendered.map(Into::into).map_err(said);
        }
        let inner = text.trim_start_matches("{{").trim_end_matches("}}").trim();
        let compiled = self.environment.compile_expression(inner).map_err(said)?;
        let value = compiled.eval(self.context.clone()).map_err(said)?;
        to_json(&value, &mut Budget::new())
    }

    fn compare(&self, text: &str, is_expression: bool) -> Result<(), TestCaseError> {
        prop_assume!(is_template(text));
        match (self.ours(text), self.theirs(text, is_expression)) {
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!(ours, theirs, "{}", text);
                self.equal.set(self.equal.get() + 1);
            }
            (Ok(ours), Err(theirs)) => {
                let is_known = THEIRS.iter().any(|reason| theirs.contains(reason));
                prop_assert!(is_known, "{text}: {ours}, but: {theirs:?}");
            }
            (Err(ours), Ok(theirs)) => {
                let is_known = OURS.iter().any(|reason| ours.contains(reason));
                prop_assert!(is_known, "{text}: {ours:?}, but: {theirs}");
            }
            (Err(_), Err(_)) => {}
        }
        Ok(())
    }
}

/// Compares many texts, and returns how many had a result in both.
fn run(texts: &impl Strategy<Value = String>, is_expression: bool) -> u32 {
    let both = Both::new();
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    let ran = TestRunner::new(config).run(texts, |text| both.compare(&text, is_expression));
    match ran {
        Ok(()) => both.equal.get(),
        Err(TestError::Fail(why, text)) => panic!("{why}\n{text}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

#[test]
fn expressions_are_what_minijinja_makes_of_them() {
    let texts = expression().prop_map(|expr| format!("{{{{ {expr} }}}}"));
    let equal = run(&texts, true);
    assert!(equal > CASES / 4, "only {equal} had a result");
}

#[test]
fn what_random_texts_have_found_is_the_same_in_both() -> Result<(), TestCaseError> {
    let both = Both::new();
    for expr in ["-(z * f)", "(l + l) | listed is sequence", "[1] < ((o + [2]) | listed)"] {
        both.compare(&format!("{{{{ {expr} }}}}"), true)?;
    }
    assert_eq!(both.equal.get(), 3);
    Ok(())
}

#[test]
fn values_that_stand_for_errors_have_no_order() {
    let error = || Value::from(minijinja::Error::from(minijinja::ErrorKind::InvalidOperation));
    let compared = operators::compare(CompareOpKind::Lt, &error(), &error(), &mut Budget::new());
    assert!(compared.is_err(), "{compared:?}");
}

#[test]
fn an_item_of_what_is_no_list_is_an_error_in_both() {
    let both = Both::new();
    for text in ["{{ (0 | chain([9]))[1] is boolean }}", "{{ (0 | chain([9]))[0] }}"] {
        assert!(both.ours(text).is_err() && both.theirs(text, true).is_err(), "{text}");
    }
}

#[test]
fn templates_are_what_minijinja_makes_of_them() {
    // Exactly one expression would keep its type.
    let texts = template().prop_map(|text| format!("{text}."));
    let equal = run(&texts, false);
    assert!(equal > CASES / 8, "only {equal} had a result");
}
