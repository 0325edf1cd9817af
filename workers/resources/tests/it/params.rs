//! Parameters as one typed table.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use crankcase_resources::dynamic::{Config, Found, Kind, KnownConfig, Reader, Table};
use crankcase_resources::{
    AbsPath, AttributeError, BoxError, Check, Choice, Context, Field, Kinds, Mode, Params,
    Resource, Secret, Type, Unfinished, kind,
};
use crankcase_workers::EntryPath;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{declare, look};

#[derive(Debug, Clone, Copy, PartialEq, Choice)]
enum Colour {
    Red,
    #[choice("sky-blue")]
    Blue,
}

/// What every lamp has.
#[derive(Debug, Clone, PartialEq, Params)]
struct Common {
    /// who may switch it
    owner: Option<String>,
    /// how long it burns
    #[param(default = "1m")]
    time: Duration,
}

#[derive(Debug, Clone, PartialEq, Params)]
struct Lamp {
    /// where it is
    path: AbsPath,
    /// how bright it is
    #[param(default = 40, unit = "watts")]
    power: u16,
    /// its colour
    colour: Option<Colour>,
    /// who may
    mode: Option<Mode>,
    /// what stands on it
    #[param(default = {})]
    labels: BTreeMap<String, String>,
    /// what opens it
    secret: Option<Secret<String>>,
    /// what opens more
    secrets: Option<Vec<Secret<String>>>,
    /// what opens others, by name
    keys: Option<BTreeMap<String, Secret<String>>>,
    /// what every lamp has
    #[param(flatten)]
    common: Common,
    /// a remark
    #[param(compare = false)]
    note: Option<String>,
}

impl Resource for Lamp {
    const NAME: &'static str = "lamp";
    type State = Common;
    type Action = Infallible;

    fn rules(partial: &mut LampPartial, errors: &mut Vec<AttributeError>) {
        if let (Some(Some(Colour::Red)), Some(power)) =
            (partial.colour.as_given(), partial.power.as_given())
            && *power > 100
        {
            errors.push(AttributeError::new("power", "a red one burns through".to_owned()));
        }
        if let Some(Some(secret)) = partial.secret.as_given()
            && secret.reveal().contains("ruled-out")
        {
            errors.push(AttributeError::new("secret", "is ruled out".to_owned()));
        }
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        Ok(Check::valid(self.common.clone()))
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}

/// Returns what is wrong with a config of which this is not known.
fn judge(config: &Config, unknown: &BTreeSet<String>) -> Vec<AttributeError> {
    kind::<Lamp>().judge(&KnownConfig { config, unknown }).errors
}

/// Reads a config, or returns all that is wrong with it.
fn read(config: &Config) -> Result<Lamp, Vec<AttributeError>> {
    let unknown = BTreeSet::new();
    let partial =
        Lamp::read(&mut Reader::new(Lamp::table(), &KnownConfig { config, unknown: &unknown }));
    match Lamp::whole(partial) {
        Some(lamp) if kind::<Lamp>().make(config).is_ok() => Ok(lamp),
        _ => Err(kind::<Lamp>().make(config).err().unwrap_or_default()),
    }
}

fn config(value: Value) -> Config {
    value.as_object().cloned().unwrap_or_default()
}

fn wrong(value: Value) -> Vec<String> {
    let errors = read(&config(value)).err().unwrap_or_default();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn a_config_is_read_with_its_defaults() -> Result<(), Box<dyn std::error::Error>> {
    let given =
        config(json!({"path": "/lamp", "colour": "sky-blue", "owner": "ada", "mode": null}));

    let lamp = read(&given).map_err(|errors| format!("{errors:?}"))?;

    let common = Common { owner: Some("ada".to_owned()), ..Common::new() };
    let colour = Some(Colour::Blue);
    assert_eq!(lamp, Lamp { colour, common, ..Lamp::new(AbsPath::parse("/lamp")?) });
    assert_eq!((lamp.power, lamp.common.time), (40, Duration::from_secs(60)));
    Ok(())
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let config = json!({
        "path": "lamp", "powr": 3, "power": 70000, "colour": "read", "mode": 644,
        "labels": {"a": 1, "b": "x", "c": []}, "time": "0s"
    });

    assert_eq!(
        wrong(config),
        [
            r#"powr: there is no such attribute; did you mean "power"?"#,
            r#"path: "lamp" is not absolute; begin it with /"#,
            "power: 70000 is not a whole number from 0 to 65535",
            r#"colour: "read" is not known; did you mean "red"?"#,
            r#"mode: 644 is a number; quote it and write it in octal, as "0644""#,
            r#"labels: 1 of "a" is not a text; quote it, or add `| string` to an expression"#,
            r#"labels: [] of "c" is not a text; quote it, or add `| string` to an expression"#,
            r#"time: "0s" is not a duration; write one as "30s""#,
        ]
    );
    assert_eq!(wrong(json!({})), ["path: is missing"]);
    let burning = json!({"path": "/l", "colour": "red", "power": 101});
    assert_eq!(wrong(burning), ["power: a red one burns through"]);
}

#[test]
fn what_is_not_known_is_not_judged_and_the_rest_is() {
    let given = config(json!({"path": null, "power": "bright"}));
    let unknown = BTreeSet::from(["path".to_owned(), "colour".to_owned()]);

    let known = KnownConfig { config: &given, unknown: &unknown };
    let partial = Lamp::read(&mut Reader::new(Lamp::table(), &known));
    let errors = judge(&given, &unknown);

    assert!(partial.path.is_unknown() && partial.colour.is_unknown());
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, [r#"power: "bright" is not a whole number from 0 to 65535"#]);
}

#[test]
fn configs_that_differ_in_what_is_not_compared_are_the_same()
-> Result<(), Box<dyn std::error::Error>> {
    let lamp = Lamp::new(AbsPath::parse("/lamp")?);
    let noted = Lamp { note: Some("new".to_owned()), ..lamp.clone() };
    let common = Common { owner: Some("ada".to_owned()), ..Common::new() };

    assert!(lamp.is_same(&noted));
    assert!(!lamp.is_same(&Lamp { common, ..lamp.clone() }));
    assert!(!lamp.is_same(&Lamp { power: 41, ..lamp.clone() }));
    Ok(())
}

#[test]
fn a_secret_is_in_no_error_and_no_debug_text() {
    let secret = Secret::new("s3cret".to_owned());
    let wrong = [
        json!({"path": "/l", "secret": ["s3cret"]}),
        json!({"path": "/l", "secrets": ["s3cret", 5]}),
        json!({"path": "/l", "secrets": {"s3cret": 5}}),
        json!({"path": "/l", "keys": {"a": "s3cret", "b": ["s3cret"]}}),
        json!({"path": "/l", "secret": "s3cret-and-ruled-out"}),
    ];

    for wrong in wrong {
        let errors = read(&config(wrong)).unwrap_err();
        assert!(!errors.is_empty() && !format!("{errors:?}").contains("s3cret"), "{errors:?}");
    }
    assert!(!format!("{secret:?}").contains("s3cret"));
    assert_eq!(secret.reveal(), "s3cret");
    assert!(Lamp::table().get("secret").is_some_and(|secret| secret.is_sensitive));
}

#[tokio::test]
async fn a_state_is_written_as_it_was_declared() -> Result<(), Box<dyn std::error::Error>> {
    let lamp = declare("lamp", "lamp", json!({"path": "/lamp"}));
    let kinds = Kinds::default().with(kind::<Lamp>());

    let Found::Valid(state) = look(&kinds, &lamp).await? else { return Err("it is stale".into()) };

    assert_eq!(state, json!({"owner": null, "time": "1m"}));
    Ok(())
}

/// Keeps a shelf.
#[derive(Debug, Clone, PartialEq, Params)]
struct Shelf {
    /// where it is
    path: AbsPath,
    /// how many boards it has
    #[param(default = 3)]
    boards: u16,
    /// what stands on it
    content: Option<String>,
    /// who made it
    maker: Option<String>,
}

/// The state of a shelf.
#[derive(Debug, Clone, PartialEq, Params)]
struct ShelfState {
    /// where it is
    #[param(declared)]
    path: EntryPath,
    /// how many boards it has
    #[param(declared)]
    boards: u16,
    /// what stands on it
    #[param(declared)]
    content: Option<String>,
    /// who made it
    maker: Option<String>,
}

impl Resource for Shelf {
    const NAME: &'static str = "shelf";
    type State = ShelfState;
    type Action = Infallible;

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        Err("nobody looks".into())
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}

#[test]
fn what_is_declared_of_a_state_is_known_as_far_as_the_config_is() {
    for (given, unknown, expected) in [
        (
            json!({"path": "//srv//shelf/", "content": "books", "maker": "ada"}),
            None,
            json!({"path": "/srv/shelf/", "boards": 3, "content": "books"}),
        ),
        (
            json!({"path": "/shelf", "boards": null, "content": null}),
            Some("content"),
            json!({"path": "/shelf", "boards": 3}),
        ),
        (json!({"path": "shelf", "boards": 5}), None, json!({"boards": 5, "content": null})),
        // The type of the state does not take it.
        (json!({"path": "/a/../b"}), None, json!({"boards": 3, "content": null})),
    ] {
        let (config, unknown) = (config(given), unknown.map(str::to_owned).into_iter().collect());

        let judged = kind::<Shelf>().judge(&KnownConfig { config: &config, unknown: &unknown });

        assert_eq!(Value::Object(judged.declared), expected);
    }
    // The state of a lamp marks nothing.
    let (config, unknown) = (config(json!({"path": "/lamp", "owner": "ada"})), BTreeSet::new());
    let judged = kind::<Lamp>().judge(&KnownConfig { config: &config, unknown: &unknown });
    assert!(judged.declared.is_empty());
}

#[test]
fn a_table_survives_json_and_gives_a_schema() -> Result<(), Box<dyn std::error::Error>> {
    let table = Lamp::table();

    let again: Table = serde_json::from_value(serde_json::to_value(table)?)?;

    assert_eq!(&again, table);
    let schema = table.schema();
    assert_eq!(schema["required"], json!(["path"]));
    assert_eq!(
        schema["properties"]["power"],
        json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, {"type": "null"}],
            "default": 40, "description": "how bright it is, in watts"})
    );
    assert_eq!(schema["properties"]["colour"]["anyOf"][0]["enum"], json!(["red", "sky-blue"]));
    assert_eq!(schema["properties"]["secret"]["writeOnly"], json!(true));
    let written = &table.manifest_schema()["properties"]["power"];
    assert_eq!(written["anyOf"][1]["type"], json!("string"));
    Ok(())
}

#[test]
fn a_value_of_another_type_can_be_taken_or_not() {
    let texts = Type::list(Type::Text);
    assert!(Type::Path.can_take(&Type::Text));
    assert!(Type::Either { of: vec![Type::Flag, texts.clone()] }.can_take(&texts));
    assert!(!Type::Text.can_take(&u32::ty()));
    assert!(!texts.can_take(&Type::Text));
    // One without items is right.
    assert!(texts.can_take(&Type::list(Type::Flag)));
    assert!(Type::map(Type::Text).can_take(&Type::map(Type::Flag)));
    assert!(Type::Flag.can_take(&Type::Any));
}

/// Values of lamps, right ones and wrong ones.
fn values() -> impl Strategy<Value = Config> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!("/lamp")),
        Just(json!("red")),
        Just(json!(3)),
        Just(json!(200)),
        Just(json!(true)),
        Just(json!("30s")),
        Just(json!({"a": "b"})),
    ];
    const NAMES: &[&str] = &["path", "power", "colour", "labels", "time", "owner", "other"];
    proptest::collection::btree_map(proptest::sample::select(NAMES), value, 0..6)
        .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    /// What is said of a config that is half known is said of the whole one too, whatever becomes
    /// known.
    #[test]
    fn what_a_half_is_told_the_whole_confirms(
        whole in values(),
        hidden in proptest::collection::btree_set(0..6usize, 0..4),
    ) {
        let unknown: BTreeSet<String> =
            whole.keys().enumerate().filter(|(at, _)| hidden.contains(at)).map(|(_, it)| it.clone()).collect();
        let mut partial = whole.clone();
        unknown.iter().for_each(|name| { partial.insert(name.clone(), Value::Null); });

        let said = judge(&partial, &unknown);

        let confirmed = read(&whole).err().unwrap_or_default();
        for error in said {
            prop_assert!(confirmed.contains(&error), "{error}");
        }
    }

    /// A value that a type accepts is read, and a value that is read is accepted.
    #[test]
    fn tables_accept_what_readers_accept(config in values()) {
        let (accepted, read) = (Lamp::table().accept(&config), read(&config));

        let is_ruled_out = read.as_ref().is_err_and(|errors| errors.iter().all(|it| it.message.contains("burns")));
        prop_assert_eq!(accepted.is_ok(), read.is_ok() || is_ruled_out, "{:?} {:?}", accepted, read);
    }
}
