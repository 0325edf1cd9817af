//! What carries a value across a border: the value changes without a restart, and the workers that
//! carry it are not shown.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Change, Changing, Engine, EngineBuilder, EventKind, Latest, Manifold, Metrics, Name, Nested,
    Notice, WorkerState,
};
use crankcase_testing::{Journal, clean_kill, test_engine, wait_for_state};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{A, B, TestResult};

const SITE: Name<Engine> = Name::new("site");
const FACT: Name<u32> = Name::new("fact");
const PAGE: Name<u32> = Name::new("page");
const USER: Name<()> = Name::new("user");

/// Returns a manifold that offers the values of the channel.
fn changing(sender: &watch::Sender<u32>) -> Manifold {
    let receiver = sender.subscribe();
    Manifold::builder().offers::<(Changing<u32>,)>().run(move |(), up| {
        let receiver = receiver.clone();
        async move {
            up.ready((Changing::new(receiver),)).wait().await;
            Ok(())
        }
    })
}

/// Returns a manifold that offers each value of its live input, plus ten.
fn plus_ten() -> Manifold {
    Manifold::builder().inputs(FACT.live().required()).offers::<(Changing<u32>,)>().run(
        |mut fact: Latest<u32>, up| async move {
            let sender = watch::Sender::new(fact.get() + 10);
            let stop = up.ready((Changing::new(sender.subscribe()),));
            loop {
                tokio::select! {
                    () = stop.wait() => return Ok(()),
                    fact = fact.changed() => {
                        sender.send_replace(fact? + 10);
                    }
                }
            }
        },
    )
}

fn site() -> Nested {
    let contents = || Change::new().install(PAGE, plus_ten());
    Nested::new(contents).engine(|_| test_engine()).import(A, FACT).export(PAGE, B)
}

#[tokio::test(start_paused = true)]
async fn a_changed_value_crosses_borders_and_nothing_restarts() -> TestResult {
    let engine = test_engine().show_carriers().build()?;
    let sender = watch::Sender::new(0);
    engine.install(A, changing(&sender)).await?;
    engine.install_nested(SITE, site()).await?;
    let mut seen = engine.output(B).follow().await?;
    assert_eq!(seen.value().await?, 10);
    let mut events = engine.events();

    for value in 1..20 {
        sender.send_replace(value);
        assert_eq!(seen.changed().await?, Some(value + 10));
    }

    while let Some(notice) = events.try_next() {
        let Notice::Event(event) = notice else { return Err("events were missed".into()) };
        assert!(matches!(event.kind, EventKind::Changed { .. }), "{event}");
    }
    // Coming and going still shows.
    let mut fact = engine.output(SITE).await?.output(FACT).follow().await?;
    assert_eq!(fact.get(), Some(19));
    engine.uninstall(A).await?;
    assert_eq!(fact.changed().await?, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_imported_value_bounces_the_workers_that_require_it_and_no_carrier() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    let sender = watch::Sender::new(0);
    engine.install(A, changing(&sender)).await?;
    let inside = journal.clone();
    let site = Nested::new(move || Change::new().install(PAGE, inside.manifold(FACT)));
    let site = site.engine(|_| test_engine()).import(A, FACT).export(PAGE, B);
    engine.install_nested(SITE, site).await?;
    engine.install(USER, journal.manifold(B)).await?;
    engine.running(USER).await?;
    journal.take();

    sender.send_replace(1);
    wait_for_state(&engine, "user", WorkerState::Waiting).await?;
    engine.running(USER).await?;

    let expected = ["stop user", "end user", "stop page", "end page"];
    assert_eq!(journal.lines()[..4], expected);
    assert_eq!(journal.lines()[4..], ["start page 1", "start user 2"]);
    let starts = |engine: &str, name: &str| (engine.to_owned(), name.to_owned());
    for (path, name) in [starts("/", "site.fact"), starts("/site", "fact")] {
        let report = engine.engine_at(&path).ok_or("no engine")?.report().await;
        assert_eq!(report.workers[&name].starts, 1, "{report}");
    }
    Ok(clean_kill(engine).await?)
}

/// Remembers the paths of the workers that it counts.
#[derive(Default)]
struct Paths(Mutex<Vec<String>>);

impl Metrics for Paths {
    fn worker_started(&self, path: &str, _took: Duration) {
        self.0.lock().push(path.to_owned());
    }
}

/// Returns all that people see of an engine with a nested one: the names in its reports, events,
/// metrics, previews and graphs.
async fn shown(builder: EngineBuilder) -> Result<Vec<Vec<String>>, Box<dyn std::error::Error>> {
    let paths = Arc::new(Paths::default());
    let engine = builder.metrics(Arc::clone(&paths) as _).build()?;
    let mut events = engine.events();
    engine.provide(A, 1).await?;
    let whole = || site().require(A, Name::new("own"));
    let preview = engine.preview(Change::new().install_nested(SITE, whole())).await?;
    engine.install_nested(SITE, whole()).await?;
    engine.running(B).await?;
    let nested = engine.output(SITE).await?;
    let (mut reported, mut graphs) = (Vec::new(), Vec::new());
    for engine in [&engine, &nested] {
        reported.extend(engine.report().await.workers.into_values().map(|worker| worker.path));
        let graph = engine.graph().await.ok_or("no graph")?;
        let edges = graph.edges.iter().map(|edge| format!("{} -> {}", edge.user, edge.input));
        graphs.extend(graph.nodes.iter().map(|node| node.path.clone()).chain(edges));
    }
    clean_kill(engine).await?;
    let mut noted = Vec::new();
    while let Some(Notice::Event(event)) = events.next().await {
        noted.push(event.path());
    }
    noted.retain(|path| path != "/" && path != "/site");
    let previewed = preview.installed;
    let mut all = vec![reported, noted, paths.0.lock().clone(), previewed, graphs];
    for paths in &mut all {
        paths.sort_unstable();
        paths.dedup();
    }
    Ok(all)
}

#[tokio::test(start_paused = true)]
async fn the_workers_of_borders_are_shown_only_if_asked_for() -> TestResult {
    let [reported, noted, counted, previewed, graphs] =
        <[_; 5]>::try_from(shown(test_engine()).await?).map_err(|_| "another number of lists")?;
    assert_eq!(reported, ["/a", "/site", "/site/page"]);
    assert_eq!(noted, ["/a", "/site/page"]);
    assert_eq!(counted, ["/a", "/site", "/site/page"]);
    assert_eq!(previewed, ["/site"]);
    // The graph shows by which name the page gets the value, and from where the site does.
    let expected = ["/a", "/site", "/site/fact", "/site/page", "page -> fact", "site -> a"];
    assert_eq!(graphs, expected);

    let [reported, noted, counted, previewed, graphs] =
        <[_; 5]>::try_from(shown(test_engine().show_carriers()).await?)
            .map_err(|_| "another number of lists")?;
    let carriers = ["/b", "/site.fact", "/site/fact", "/site/out.b", "/site/own"];
    for list in [&reported, &noted, &counted, &graphs] {
        assert!(carriers.iter().all(|path| list.iter().any(|shown| shown == path)), "{list:?}");
    }
    assert_eq!(previewed, ["/b", "/site", "/site.fact"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_export_that_is_used_is_in_the_graph_with_the_engine_behind_it() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install_nested(SITE, site()).await?;
    engine.install(USER, journal.manifold(B)).await?;
    engine.running(USER).await?;

    let graph = engine.graph().await.ok_or("no graph")?;

    let edges: Vec<_> =
        graph.edges.iter().map(|edge| format!("{} -> {}", edge.user, edge.input)).collect();
    assert_eq!(edges, ["b -> site", "site -> a", "user -> b"]);
    Ok(clean_kill(engine).await?)
}
