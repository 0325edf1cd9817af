//! Resources that are made of others.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, ConfigReport, Found, Kind, KnownConfig, Part, Unit};
use crankcase_resources::front::{Declared, Inputs, Rendered};
use crankcase_resources::{
    ApplyOptions, AttributeError, BoxError, Claim, Claimed, Context, Kinds, Literal, OnChange, PATH,
};
use serde_json::json;

use crate::support::{apply_with, failure};

/// A kind with the parts that a test gives it.
#[derive(Debug)]
struct Made(&'static str, fn(&KnownConfig<'_>) -> Vec<Part>);

impl Kind for Made {
    fn name(&self) -> &str {
        self.0
    }

    fn summary(&self) -> &'static str {
        "is made of others"
    }

    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let is_wrong = known.config.contains_key("wrong");
        let wrong = || AttributeError::new("wrong", "it is wrong".to_owned());
        let claims = known.text("path").map(|path| Claim::keeps(PATH, path));
        let claimed = Claimed::of(claims.into_iter().collect());
        let errors = is_wrong.then(wrong).into_iter().collect();
        ConfigReport { errors, claimed, parts: (self.1)(known), ..ConfigReport::default() }
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(Nothing))
    }
}

/// A resource that is always as declared.
#[derive(Debug)]
struct Nothing;

#[async_trait]
impl Unit for Nothing {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }
}

fn leaf(_: &KnownConfig<'_>) -> Vec<Part> {
    Vec::new()
}

/// Returns what is wrong with the parts of a resource.
fn errors(parts: fn(&KnownConfig<'_>) -> Vec<Part>) -> Vec<String> {
    let kinds = Kinds::default().with(Made("leaf", leaf)).with(Made("made", parts));
    let config = Config::new();
    let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
    let mut owner = Literal::new(Config::new()).declare(Path::new("/"), "web", "made");
    let declared = kinds.declare(&mut owner, &known);
    declared.judged.errors.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_wrong_with_parts_is_an_error_of_their_owner() {
    let twice = errors(|_| vec![Part::new("a", "leaf"), Part::new("a", "leaf")]);
    let unknown = errors(|_| vec![Part::new("a", "leav")]);
    let lost = errors(|_| vec![Part::new("a", "leaf").after("b")]);
    let wrong = errors(|_| vec![Part::new("a", "leaf").with("wrong", true)]);
    let endless = errors(|_| vec![Part::new("a", "made")]);
    let circle =
        errors(|_| vec![Part::new("a", "leaf").after("b"), Part::new("b", "leaf").told_by("a")]);
    let itself = errors(|_| vec![Part::new("a", "leaf").after("a")]);

    assert_eq!(twice, ["config: two of its parts have the same name"]);
    let said = "config: its part \"a\" (leav): there is no type \"leav\"; did you mean \"leaf\"?";
    assert_eq!(unknown, [said]);
    let said = "config: its part \"a\" (leaf): there is no part \"b\" to come after";
    assert_eq!(lost, [said]);
    assert_eq!(wrong, ["config: its part \"a\" (leaf): wrong: it is wrong"]);
    assert_eq!(endless, ["config: parts of parts are more than 8 deep"]);
    let said = "config: its parts come after each other";
    assert!(circle[0].starts_with(said) && itself[0].starts_with(said), "{circle:?} {itself:?}");
}

#[test]
fn parts_come_before_their_owner_and_are_known_when_it_is() -> Result<(), Box<dyn std::error::Error>>
{
    fn parts(known: &KnownConfig<'_>) -> Vec<Part> {
        let path = known.config.get("path").cloned().unwrap_or_default();
        vec![Part::new("b", "leaf").told_by("a"), Part::new("a", "leaf").with("path", path)]
    }
    let kinds = Kinds::default().with(Made("leaf", leaf)).with(Made("made", parts));
    let config = json!({"path": "/x"});
    let mut owner =
        Literal::new(config.as_object().unwrap().clone()).declare(Path::new("/"), "web", "made");
    owner.tags = vec!["front".to_owned()];
    let known = KnownConfig { config: config.as_object().unwrap(), unknown: &BTreeSet::new() };

    let Declared { judged, parts, .. } = kinds.declare(&mut owner, &known);

    assert_eq!(judged.errors, []);
    let needs: Vec<_> = owner.needs().map(|(name, _)| name).collect();
    assert_eq!(needs, ["web[\"b\"]", "web[\"a\"]"]);
    let [b, a] = &parts[..] else { panic!("{parts:?}") };
    let (b, a, claimed) = (&b.declaration, &a.declaration, &a.claimed);
    assert_eq!(b.needs().collect::<Vec<_>>(), [("web[\"a\"]", OnChange::Notify)]);
    assert_eq!((&a.claims, &a.tags), (&claimed.claims, &owner.tags));
    assert_eq!(a.claims, [Claim::keeps(PATH, "/x")]);
    let Rendered::Known { config: rendered, .. } = a.config.render(&Inputs::default())? else {
        panic!("it is known")
    };
    assert_eq!(rendered, *config.as_object().unwrap());
    Ok(())
}

#[test]
fn no_debug_text_of_a_part_shows_the_config_of_its_owner() -> Result<(), Box<dyn std::error::Error>>
{
    fn parts(known: &KnownConfig<'_>) -> Vec<Part> {
        let key = known.config.get("key").cloned().unwrap_or_default();
        vec![Part::new("a", "leaf").with("key", key)]
    }
    let kinds = Kinds::default().with(Made("leaf", leaf)).with(Made("made", parts));
    let config = serde_json::Map::from_iter([("key".to_owned(), json!("hunter2"))]);
    let mut owner = Literal::new(config.clone()).declare(Path::new("/"), "web", "made");
    let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
    let declared = kinds.declare(&mut owner, &known);

    // The owner of the part remembers what was rendered.
    let rendered = declared.parts[0].declaration.config.render(&Inputs::default())?;

    for text in [format!("{rendered:?}"), format!("{declared:?}"), format!("{owner:?}")] {
        assert!(text.contains("key") && !text.contains("hunter2"), "{text}");
    }
    Ok(())
}

#[test]
fn a_part_waits_for_what_its_owner_waits_for() -> Result<(), Box<dyn std::error::Error>> {
    fn parts(_: &KnownConfig<'_>) -> Vec<Part> {
        vec![Part::new("a", "leaf")]
    }
    let kinds = Kinds::default().with(Made("leaf", leaf)).with(Made("made", parts));
    let config = Literal::new(Config::new()).using("path", "other", "path");
    let mut owner = config.declare(Path::new("/"), "web", "made");
    let known = KnownConfig { config: &Config::new(), unknown: &BTreeSet::new() };

    let declared = kinds.declare(&mut owner, &known);

    let part = &declared.parts[0].declaration;
    assert_eq!(part.needs().map(|(name, _)| name).collect::<Vec<_>>(), ["other"]);
    let unknown = crankcase_resources::front::DependencyState::Unknown;
    let inputs = Inputs::new([("other".to_owned(), unknown)].into());
    let Rendered::Unknown { because } = part.config.render(&inputs)? else { panic!("not known") };
    assert_eq!(because, ["other"]);
    Ok(())
}

#[tokio::test]
async fn a_part_that_becomes_known_late_is_an_error() -> Result<(), Box<dyn std::error::Error>> {
    fn parts(known: &KnownConfig<'_>) -> Vec<Part> {
        known.text("path").map(|_| Part::new("a", "leaf")).into_iter().collect()
    }
    let kinds = Kinds::default().with(Made("leaf", leaf)).with(Made("made", parts));
    let config = serde_json::Map::from_iter([("path".to_owned(), json!("/x"))]);
    let late = Literal::new(config).declare(Path::new("/"), "web", "made");

    let account = apply_with(&[late], &kinds, &ApplyOptions::default()).await?;

    let said = failure(&account, "web");
    assert!(said.contains("its part \"a\" was not known at load"), "{said}");
    Ok(())
}
