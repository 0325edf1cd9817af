//! Inputs that ask for a part of a value.

use std::time::Duration;

use crankcase_engine::{Change, Changing, Engine, EventKind, Exit, Latest, Manifold, Name, Nested};
use crankcase_testing::{EventRecorder, Journal, clean_kill, test_engine, test_policy};
use tokio::sync::watch;

use crate::{A, B, C, TestResult};

const SETTINGS: Name<Settings> = Name::new("settings");
const SITE: Name<Engine> = Name::new("site");
const LIMIT: Name<u32> = Name::new("limit");
const PAGE: Name<u32> = Name::new("page");

#[derive(Debug, Clone, PartialEq, Default)]
struct Settings {
    limit: u32,
    port: u32,
}

impl Settings {
    /// Selects the limit. It does not like some of them.
    fn limit(&self) -> u32 {
        assert!(self.limit < 100, "{} is too much", self.limit);
        self.limit
    }
}

/// Returns a manifold that offers the values of the channel.
fn settings(sender: &watch::Sender<Settings>) -> Manifold {
    let receiver = sender.subscribe();
    Manifold::builder().offers::<(Changing<Settings>,)>().run(move |(), up| {
        let receiver = receiver.clone();
        async move {
            up.ready((Changing::new(receiver),)).wait().await;
            Ok(())
        }
    })
}

/// Returns an engine with settings and the channel that changes them.
async fn engine() -> Result<(Engine, watch::Sender<Settings>), Box<dyn std::error::Error>> {
    let (engine, sender) = (test_engine().build()?, watch::Sender::default());
    engine.install(SETTINGS, settings(&sender)).await?;
    Ok((engine, sender))
}

/// Changes both values, one after the other, and waits until all has come of it.
async fn change_both(engine: &Engine, sender: &watch::Sender<Settings>) -> TestResult {
    let mut followed = engine.output(SETTINGS).follow().await?;
    for settings in [Settings { limit: 0, port: 1 }, Settings { limit: 1, port: 1 }] {
        sender.send_replace(settings.clone());
        while followed.value().await? != settings {
            followed.changed().await?;
        }
        engine.settled().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_bounces_only_when_its_part_changes() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let limit = SETTINGS.select(|settings| settings.limit);
    let users = Change::new()
        .install(A, journal.manifold(limit.optional().or(7)))
        .install(B, journal.manifold(limit))
        .install(C, journal.manifold(SETTINGS.select(|settings| settings.port)));
    engine.apply(users).await?;
    engine.settled().await?;

    change_both(&engine, &sender).await?;

    for (name, starts) in [("a", ["0", "1"]), ("b", ["0", "1"]), ("c", ["0", "1"])] {
        let lines = journal.lines();
        let mine: Vec<_> =
            lines.iter().filter_map(|line| line.strip_prefix(&format!("start {name} "))).collect();
        assert_eq!(mine, starts, "{name}: {lines:?}");
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn one_worker_may_select_several_parts_and_take_the_whole() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let [limit, port] =
        [SETTINGS.select(|settings| settings.limit), SETTINGS.select(|settings| settings.port)];
    engine.install(A, journal.manifold((limit, port))).await?;
    engine.install(B, journal.manifold(SETTINGS.output::<()>())).await?;
    engine.settled().await?;

    change_both(&engine, &sender).await?;

    assert_eq!((journal.starts("a"), journal.starts("b")), (3, 1), "{:?}", journal.lines());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_part_is_told_of_its_own_changes_only() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let (limit, notes) = (SETTINGS.select(|settings| settings.limit), journal.clone());
    let user = Manifold::builder().inputs(limit.live().required()).run(move |limit, up| {
        let (mut limit, notes): (Latest<u32>, _) = (limit, notes.clone());
        async move {
            let stop = up.ready(());
            notes.note(format!("{:?}", limit.get()));
            loop {
                tokio::select! {
                    () = stop.wait() => return Ok(()),
                    changed = limit.changed() => notes.note(format!("{changed:?}")),
                }
            }
        }
    });
    engine.install(Name::<()>::new("user"), user).await?;
    engine.settled().await?;

    change_both(&engine, &sender).await?;

    assert_eq!(journal.take(), ["0", "Ok(1)"]);
    engine.bounce(SETTINGS).await?;
    engine.settled().await?;
    assert_eq!(journal.take(), ["Ok(1)"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_part_passes_borders_in_all_ways() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let inside = journal.clone();
    let site = Nested::new(move || {
        let page = inside.manifold((LIMIT, Name::<u32>::new("port")));
        Change::new().install(PAGE, page)
    })
    .engine(|_| test_engine())
    .import(SETTINGS.select(|settings| settings.limit), LIMIT)
    .require(SETTINGS.select(|settings| settings.port), Name::new("port"))
    .export(PAGE.output::<u32>().select(|page| *page > 0), Name::new("is-up"));
    engine.install_nested(SITE, site).await?;
    let user = journal.manifold(Name::<bool>::new("is-up"));
    engine.install(Name::<()>::new("user"), user).await?;
    engine.settled().await?;

    // The port bounces the whole nested engine, the limit only the page.
    change_both(&engine, &sender).await?;
    engine.running(Name::<()>::new("user")).await?;

    let pages: Vec<_> =
        journal.lines().into_iter().filter(|line| line.starts_with("start page")).collect();
    assert_eq!(pages, ["start page (0, 0)", "start page (0, 1)", "start page (1, 1)"]);
    assert_eq!(engine.report().await.workers["site"].generation, 2);
    Ok(clean_kill(engine).await?)
}

/// The whole passes the border, and a worker in the nested engine selects.
#[tokio::test(start_paused = true)]
async fn a_part_of_an_import_is_compared_too() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let inside = journal.clone();
    let site = Nested::new(move || {
        let page = inside.manifold(SETTINGS.select(|settings| settings.limit));
        Change::new().install(PAGE, page)
    });
    let site = site.engine(|_| test_engine()).import(SETTINGS, SETTINGS);
    engine.install_nested(SITE, site).await?;
    engine.output(SITE).await?.running(PAGE).await?;

    change_both(&engine, &sender).await?;
    let nested = engine.output(SITE).await?;
    let mut page = nested.output(PAGE).follow().await?;
    // It offers its generation.
    while page.value().await? != 2 {
        page.changed().await?;
    }

    assert_eq!(journal.starts("page"), 2, "{:?}", journal.lines());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_selection_that_panics_ends_the_publisher_with_its_reason() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    engine.install(B, journal.manifold(SETTINGS.select(Settings::limit))).await?;
    engine.running(B).await?;
    let mut events = EventRecorder::new(&engine);

    sender.send_replace(Settings { limit: 100, port: 0 });

    let ended = events
        .wait_for(|event| matches!(event.kind, EventKind::Ended { is_panic: true, .. }))
        .await?;
    assert_eq!(ended.path(), "/settings");
    let why = engine.why("b").await.ok_or("no b")?.to_string();
    assert!(why.contains("/b waits for /settings, which failed once: "), "{why}");
    assert!(why.contains("100 is too much"), "{why}");
    // The settings come back with a value that the user itself cannot take.
    let ended = events
        .wait_for(|event| {
            event.path() == "/b" && matches!(event.kind, EventKind::Ended { is_panic: true, .. })
        })
        .await?;
    assert!(ended.to_string().contains("100 is too much"), "{ended}");
    sender.send_replace(Settings { limit: 3, port: 0 });
    engine.running(B).await?;
    Ok(clean_kill(engine).await?)
}

/// Behind a border too: there the selection runs neither on the engine's own runtime nor in silence.
#[tokio::test(start_paused = true)]
async fn a_selection_that_panics_at_a_border_is_named() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    let inside = journal.clone();
    let site = Nested::new(move || {
        let page = inside.manifold(SETTINGS.select(Settings::limit));
        Change::new().install(PAGE, page)
    });
    let site = site.engine(|_| test_engine()).import(SETTINGS, SETTINGS);
    engine.install_nested(SITE, site).await?;
    let nested = engine.output(SITE).await?;
    nested.running(PAGE).await?;

    sender.send_replace(Settings { limit: 100, port: 0 });

    let waits = crankcase_engine::WorkerState::Waiting;
    crankcase_testing::wait_for_state(&nested, "page", waits).await?;
    let why = nested.why("page").await.ok_or("no page")?.to_string();
    assert!(why.contains("/site/page waits for /site/settings, which failed once: "), "{why}");
    assert!(why.contains("100 is too much"), "{why}");
    sender.send_replace(Settings { limit: 3, port: 0 });
    nested.running(PAGE).await?;
    Ok(clean_kill(engine).await?)
}

/// The value that a selection was added for may still be on its way to the engine.
#[tokio::test(start_paused = true)]
async fn a_selection_that_comes_later_misses_no_change() -> TestResult {
    let policy = test_policy().bounce_delay(Duration::ZERO);
    let (engine, sender) = (test_engine().policy(policy).build()?, watch::Sender::default());
    engine.install(SETTINGS, settings(&sender)).await?;
    engine.running(SETTINGS).await?;
    let mut followed = engine.output(SETTINGS).follow().await?;
    for round in 1..50 {
        let journal = Journal::new();
        let user = journal.manifold(SETTINGS.select(|settings| settings.limit));
        let installed = engine.install(B, user);
        sender.send_replace(Settings { limit: round, port: 0 });
        installed.await?;
        while followed.value().await?.limit != round {
            followed.changed().await?;
        }
        engine.settled().await?;
        let last = format!("start b {round}");
        assert_eq!(journal.lines().last(), Some(&last), "{:?}", journal.lines());
        engine.uninstall(B).await?;
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_user_that_is_gone_selects_no_more() -> TestResult {
    let ((engine, sender), journal) = (engine().await?, Journal::new());
    for _ in 0..2 {
        engine.install(B, journal.manifold(SETTINGS.select(Settings::limit))).await?;
        engine.running(B).await?;
        engine.replace(B, journal.manifold(())).await?;
        engine.uninstall(B).await?;
    }
    let itself =
        Manifold::builder().inputs(SETTINGS.select(Settings::limit)).run(|_, up| async move {
            drop(up);
            Err(Exit::Uninstall)
        });
    engine.install(Name::<()>::new("itself"), itself).await?;
    engine.settled().await?;

    let mut followed = engine.output(SETTINGS).follow().await?;
    sender.send_replace(Settings { limit: 100, port: 0 });
    while followed.value().await?.limit != 100 {
        followed.changed().await?;
    }

    assert_eq!(engine.report().await.workers["settings"].starts, 1);
    Ok(clean_kill(engine).await?)
}
