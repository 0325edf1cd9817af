//! Facts as inputs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crankcase_engine::{Backoff, Engine, Manifold, Name, Policy};
use crankcase_facts::{
    Change, Facts, Operation, Schema, Snapshot, Sqlite, Submission, Tree, Update,
};
use crankcase_manifolds::facts::{self, LastGood};
use crankcase_resources::dynamic::{Config, ConfigReport, FactSchema, Kind, KnownConfig, Unit};
use crankcase_resources::{AttributeError, Kinds};
use serde_json::{Value, json};
use tokio::time::sleep;

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

const FACTS: Name<Snapshot> = Name::new("facts");
const GUARDED: Name<Option<Tree>> = Name::new("guarded");
const USER: Name<()> = Name::new("user");

fn set(store: &Facts, path: &str, value: Value) -> TestResult {
    let mut update = Update::of(vec![Operation::Set(path.parse()?, value)]);
    update.creates_parents = true;
    store.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::UNIX_EPOCH)?;
    Ok(())
}

/// Starts an engine whose failed workers wait for a second.
async fn engine(store: &Facts) -> TestResult<Engine> {
    let backoff = Backoff::default().initial(Duration::from_secs(1)).factor(1.0).jitter(0.0);
    let policy = Policy::default().backoff(backoff).bounce_delay(Duration::ZERO);
    let engine = Engine::builder().policy(policy).seed(0).build()?;
    engine.install(FACTS, facts::manifold(store.clone())).await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_changed_path_moves_exactly_its_users() -> TestResult {
    let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&store, "/a", json!(1))?;
    set(&store, "/b", json!(1))?;
    let engine = engine(&store).await?;
    let user = |path: &str| -> TestResult<Manifold> {
        let input = facts::typed::<u64>(&FACTS, path.parse()?);
        Ok(Manifold::builder().inputs(input).run(|_, up| async move {
            up.ready(()).wait().await;
            Ok(())
        }))
    };
    engine.install(Name::<()>::new("of-a"), user("/a")?).await?;
    engine.install(Name::<()>::new("of-b"), user("/b")?).await?;
    engine.settled().await?;

    set(&store, "/b", json!(2))?;
    sleep(Duration::from_secs(1)).await;
    engine.settled().await?;

    let report = engine.report().await;
    assert_eq!((report.workers["of-a"].starts, report.workers["of-b"].starts), (1, 2));
    engine.stop().await?;
    Ok(())
}

#[tokio::test]
async fn what_others_have_changed_before_it_starts_is_seen() -> TestResult {
    let folder = tempfile::tempdir()?;
    let open = || {
        Ok::<_, Box<dyn std::error::Error>>(Facts::open(Box::new(Sqlite::open(
            &folder.path().join("facts.db"),
        )?))?)
    };
    let (store, other) = (open()?, open()?);
    set(&other, "/a", json!(1))?;
    assert_eq!(store.current().revision(), 0);

    let engine = engine(&store).await?;

    let seen = engine.output(FACTS).await?;
    assert_eq!(seen.revision(), 1);
    engine.stop().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_under_which_a_worker_fails_gives_way_to_the_last_good_one() -> TestResult {
    let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&store, "/web/port", json!(80))?;
    let engine = engine(&store).await?;
    let config = LastGood::new(FACTS, "/web/port".parse()?, USER);
    engine.install(GUARDED, facts::last_good(config)).await?;
    // It fails under what is no number.
    let user = Manifold::builder().inputs(GUARDED).run(|port, up| async move {
        let port = port.map(|port| port.to_value()).and_then(|port| port.as_u64());
        let stop = up.ready(());
        port.ok_or("this is no port")?;
        stop.wait().await;
        Ok(())
    });
    engine.install(USER, user).await?;
    sleep(Duration::from_secs(61)).await;

    set(&store, "/web/port", json!("eighty"))?;
    sleep(Duration::from_secs(10)).await;

    let report = engine.report().await;
    let degraded = report.workers["guarded"].degraded.clone();
    assert_eq!(
        degraded.as_deref(),
        Some(
            "user runs on the last good /web/port, that of version 1, 80; that of version 2, \"eighty\" has failed 3 \
             times: this is no port"
        )
    );
    assert_eq!(engine.output(GUARDED).await?.map(|it| it.to_value()), Some(json!(80)));
    assert_eq!(
        store.current().at(&"/web/port".parse()?).map(|it| it.to_value()),
        Some(json!("eighty"))
    );
    set(&store, "/web/port", json!(81))?;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(engine.output(GUARDED).await?.map(|it| it.to_value()), Some(json!(81)));
    assert!(engine.report().await.workers["guarded"].degraded.is_none());
    engine.stop().await?;
    Ok(())
}

/// Says that it owns facts.
#[derive(Debug)]
struct Owner(Vec<FactSchema>);

impl Kind for Owner {
    fn name(&self) -> &'static str {
        "owner"
    }

    fn summary(&self) -> &'static str {
        "owns facts"
    }

    fn fact_schemas(&self) -> Vec<FactSchema> {
        self.0.clone()
    }

    fn judge(&self, _: &KnownConfig<'_>) -> ConfigReport {
        ConfigReport::default()
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Err(Vec::new())
    }
}

#[test]
fn a_kind_registers_the_schemas_of_its_facts_and_takes_over_none_of_others() -> TestResult {
    let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
    let owned = |path: &str, schema: Value| FactSchema { path: path.to_owned(), schema };
    let users = Schema::read("ada", json!({"type": "string"}))?;
    let change = Change::Register("/motd".parse()?, Some(users));
    store.submit(&Submission::new(change, "ada"), SystemTime::UNIX_EPOCH)?;
    set(&store, "/old", json!("text"))?;
    let kinds = Kinds::default().with(Owner(vec![
        owned("/pool", json!({"properties": {"width": {"type": "integer"}}})),
        owned("/motd", json!({"type": "integer"})),
        owned("/old", json!({"type": "integer"})),
        owned("none", json!({})),
        owned("/wrong", json!({"type": "nonsense"})),
    ]));

    facts::register(&store, &kinds, SystemTime::UNIX_EPOCH)?;
    let revision = store.current().revision();
    facts::register(&store, &kinds, SystemTime::UNIX_EPOCH)?;

    assert_eq!(store.current().revision(), revision, "what is registered is not registered again");
    let current = store.current();
    let all: Vec<_> =
        current.schemas().iter().map(|(at, it)| (at.to_string(), &*it.owner)).collect();
    let expected = [
        ("/agent/resources", "crankcase"),
        ("/motd", "ada"),
        ("/pool", "kind owner"),
        ("/rules", "crankcase"),
    ];
    assert_eq!(all, expected.map(|(path, owner)| (path.to_owned(), owner)));
    assert!(set(&store, "/pool", json!({"width": "wide"})).is_err());
    set(&store, "/pool", json!({"width": 3}))
}

#[tokio::test(start_paused = true)]
async fn an_input_has_the_layers_of_its_host_and_tells_wrong_facts_from_missing_ones() -> TestResult
{
    const SEEN: Name<String> = Name::new("seen");
    let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
    store.seen_by("h1");
    let engine = engine(&store).await?;
    let inputs = (
        facts::try_typed::<u64>(&FACTS, "/n".parse()?),
        facts::typed::<u64>(&FACTS, "/n".parse()?),
    );
    let user = Manifold::builder().inputs(inputs).offers::<(String,)>().run(
        |(tried, plain), up| async move {
            up.ready((format!("{tried:?} {plain:?}"),)).wait().await;
            Ok(())
        },
    );
    engine.install(SEEN, user).await?;
    assert_eq!(engine.output(SEEN).await?, "Ok(None) None");

    let layer = |n: Value| json!({"host": {"h1": {"facts": {"n": n}}, "h2": {"facts": {"n": 2}}}});
    for (path, value, seen) in [
        ("/n", json!(7), "Ok(Some(7)) Some(7)"),
        ("/layers", layer(json!(1)), "Ok(Some(1)) Some(1)"),
        (
            "/layers",
            layer(json!("one")),
            "Err(\"/n: invalid type: string \\\"one\\\", expected u64\") None",
        ),
    ] {
        set(&store, path, value)?;
        sleep(Duration::from_secs(1)).await;
        engine.settled().await?;
        assert_eq!(engine.output(SEEN).await?, seen);
    }
    engine.stop().await?;
    Ok(())
}
