//! The JSON Schema of types and tables, against what they accept.

use crankcase_resources::Type;
use crankcase_resources::dynamic::{Parameter, Table};
use jsonschema::draft202012::{is_valid, meta};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Value, json};

const EXPRESSION: &str = "a {{ deps.x.state.y }}";

fn types() -> impl Strategy<Value = Type> {
    let leaf = prop_oneof![
        select(vec![Type::Text, Type::Path, Type::Flag, Type::Mode, Type::Duration, Type::Any]),
        select(vec![Type::choice(&["on", "off"]), Type::choice(&["755"])]),
        (-3..3i64, 0..3i64).prop_map(|(min, more)| Type::Int { min, max: min + more }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            inner.clone().prop_map(Type::map),
            vec(inner.clone(), 1..3).prop_map(|of| Type::Either { of }),
            tables(inner).prop_map(|table| Type::Object { table }),
        ]
    })
}

fn tables(types: impl Strategy<Value = Type>) -> impl Strategy<Value = Table> {
    (vec((types, any::<bool>()), 0..3), any::<bool>()).prop_map(|(types, is_open)| {
        let parameters = types.into_iter().enumerate().map(|(index, (ty, is_required))| {
            let mut parameter = Parameter::of::<String>(&format!("p{index}"), "a parameter");
            (parameter.ty, parameter.is_required) = (ty, is_required);
            parameter
        });
        let mut table = Table::new("a table", parameters.collect());
        table.is_open = is_open;
        table
    })
}

/// Values of all types.
fn values() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        json!(null),
        json!(true),
        json!(1),
        json!(1.0),
        json!(u64::MAX),
        json!("on"),
        json!("755"),
        json!("/srv"),
        json!(" 30s"),
        json!(""),
    ]);
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("p[0-3]", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Values that a type accepts.
fn values_of(ty: &Type) -> BoxedStrategy<Value> {
    match ty {
        Type::Text => any::<String>().prop_map(Value::from).boxed(),
        Type::Path => "/[a-z/. ]{0,5}".prop_map(Value::from).boxed(),
        Type::Flag => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int { min, max } => (*min..=*max).prop_map(Value::from).boxed(),
        Type::Mode => "[0-7]{3,4}".prop_map(Value::from).boxed(),
        Type::Duration => "[ \u{85}\u{3000}]{0,2}[1-9] ?(s|m|h|ms) ?".prop_map(Value::from).boxed(),
        Type::Choice { words } => select(words.clone()).prop_map(Value::from).boxed(),
        Type::List { of } => vec(values_of(of), 0..3).prop_map(Value::from).boxed(),
        Type::Map { of } => btree_map("[a-z]{1,2}", values_of(of), 0..3)
            .prop_map(|map| map.into_iter().collect())
            .boxed(),
        Type::Object { table } => configs(table),
        Type::Either { of } => Union::new(of.iter().map(values_of)).boxed(),
        _ => values().boxed(),
    }
}

/// Maps that a table accepts.
fn configs(table: &Table) -> BoxedStrategy<Value> {
    let more = if table.is_open { 1 } else { 0 };
    let others = btree_map("other", values(), 0..=more);
    let given = table.parameters.iter().map(|parameter| {
        let value = values_of(&parameter.ty);
        let value = if parameter.is_required {
            value.prop_filter("it is required", |value| !value.is_null()).prop_map(Some).boxed()
        } else {
            prop_oneof![Just(None), Just(Some(Value::Null)), value.prop_map(Some)].boxed()
        };
        let name = parameter.name.clone();
        value.prop_map(move |value| value.map(|value| (name.clone(), value)))
    });
    let given: Vec<_> = given.collect();
    (given, others)
        .prop_map(|(given, others)| given.into_iter().flatten().chain(others).collect())
        .boxed()
}

/// Puts expressions in the place of values in a value, wherever the next one says so.
fn with_expressions(value: Value, picks: &mut impl Iterator<Item = bool>) -> Value {
    let mut item = |value| match picks.next() {
        Some(true) => EXPRESSION.into(),
        _ => with_expressions(value, &mut *picks),
    };
    match value {
        Value::Array(items) => items.into_iter().map(item).collect(),
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, item(value))).collect(),
        value => value,
    }
}

proptest! {
    #[test]
    fn a_schema_takes_what_its_type_accepts(
        (ty, value) in types().prop_flat_map(|ty| (Just(ty.clone()), values_of(&ty))),
        other in values(),
    ) {
        let schema = ty.schema();

        prop_assert!(ty.accept(&value).is_ok(), "{:?} {value}", ty);
        prop_assert!(meta::is_valid(&schema), "{schema}");
        prop_assert!(is_valid(&schema, &value), "{schema} {value}");
        if ty.accept(&other).is_ok() {
            prop_assert!(is_valid(&schema, &other), "{schema} {other}");
        }
    }

    #[test]
    fn a_schema_of_a_config_takes_an_expression_in_the_place_of_any_value(
        (table, config) in tables(types()).prop_flat_map(|table| (Just(table.clone()), configs(&table))),
        picks in vec(any::<bool>(), 0..12),
    ) {
        let schema = table.manifest_schema();
        let written = with_expressions(config, &mut picks.into_iter());

        prop_assert!(meta::is_valid(&schema), "{schema}");
        prop_assert!(is_valid(&schema, &written), "{schema} {written}");
    }
}

#[test]
fn a_schema_of_a_config_refuses_what_no_expression_could_mend() {
    let mut path = Parameter::of::<String>("path", "where it is");
    path.ty = Type::Path;
    let labels = Parameter::of::<Option<Vec<u16>>>("sizes", "its sizes");
    let schema = Table::new("a table", vec![path, labels]).manifest_schema();

    assert!(is_valid(&schema, &json!({"path": "/x", "sizes": [1, EXPRESSION]})));
    for wrong in [
        json!({"path": "/x", "sizes": ["1"]}),
        json!({"path": "/x", "sizes": [null]}),
        json!({"path": null}),
        json!({"path": "x"}),
        json!({"path": "/x", "size": 1}),
        json!({}),
    ] {
        assert!(!is_valid(&schema, &wrong), "{wrong}");
    }
}
