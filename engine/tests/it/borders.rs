//! What nested engines import and export.

use crankcase_engine::{Change, ChangeError, Engine, Exit, Name, Nested, WorkerState};
use crankcase_testing::{Journal, Script, clean_kill, test_engine, wait_for_state};

use crate::{A, B, C, TestResult, add_one};

const SITE: Name<Engine> = Name::new("site");
const FACT: Name<u32> = Name::new("fact");
const PAGE: Name<u32> = Name::new("page");
const OTHER: Name<u32> = Name::new("other");
const USER: Name<u32> = Name::new("user");

/// Returns a nested engine whose `page` uses `fact`, beside which `other` uses nothing.
fn site(journal: &Journal) -> Nested {
    let journal = journal.clone();
    Nested::new(move || {
        let page = journal.manifold(FACT);
        Change::new().install(PAGE, page).install(OTHER, journal.manifold(()))
    })
    .engine(|_| test_engine())
}

/// Returns a nested engine around `site`: it passes `a` in and `page` out, as `b`.
fn in_another(journal: &Journal) -> Nested {
    let journal = journal.clone();
    let outer = Nested::new(move || {
        let inner = site(&journal).import(FACT, FACT).export(PAGE, PAGE);
        Change::new().install_nested(SITE, inner)
    });
    outer.import(A, FACT).export(PAGE, B)
}

/// Waits until a worker of the nested engine runs.
async fn running(engine: &Engine, name: Name<u32>) -> TestResult {
    Ok(engine.output(SITE).await?.running(name.clone()).await?)
}

/// Returns an engine whose `a` the nested one imports, and whose workers run.
async fn with_import(
    journal: &Journal,
    import: impl FnOnce(Nested) -> Nested,
) -> Result<Engine, Box<dyn std::error::Error>> {
    let engine = test_engine().show_carriers().build()?;
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, import(site(journal))).await?;
    running(&engine, PAGE).await?;
    running(&engine, OTHER).await?;
    journal.take();
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn a_whole_import_bounces_the_nested_engine() -> TestResult {
    let journal = Journal::new();
    let engine = with_import(&journal, |site| site.require(A, FACT)).await?;

    engine.bounce(A).await?;
    wait_for_state(&engine, "site", WorkerState::Running).await?;
    running(&engine, PAGE).await?;
    running(&engine, OTHER).await?;

    let stops = journal.stops();
    assert_eq!((stops.len(), &*stops[2]), (3, "a"), "{stops:?}");
    assert_eq!((journal.starts("page"), journal.starts("other")), (1, 1));
    assert!(journal.lines().contains(&"start page 2".to_owned()), "{:?}", journal.lines());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_import_bounces_only_the_workers_that_use_it() -> TestResult {
    let journal = Journal::new();
    let engine = with_import(&journal, |site| site.import(A, FACT)).await?;

    engine.bounce(A).await?;
    wait_for_state(&engine, "site.fact", WorkerState::Running).await?;
    running(&engine, PAGE).await?;

    let expected =
        ["stop page", "end page", "stop a", "end a", "start a", "start page 2"].map(str::to_owned);
    assert_eq!(journal.lines(), expected);
    assert_eq!(engine.report().await.workers["site"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_live_import_may_be_absent_and_come_and_go() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.install_nested(SITE, site(&journal).import(A, FACT)).await?;
    running(&engine, OTHER).await?;
    let nested = engine.output(SITE).await?;
    nested.settled().await?;

    let why = nested.why("page").await.ok_or("no page")?.to_string();
    assert_eq!(why, "/site/page waits for /site/fact, which waits for /a, which is not installed");

    engine.provide(A, 7).await?;
    nested.running(PAGE).await?;
    engine.uninstall(A).await?;
    wait_for_state(&nested, "page", WorkerState::Waiting).await?;
    engine.provide(A, 8).await?;
    nested.running(PAGE).await?;

    let values: Vec<_> =
        journal.lines().into_iter().filter(|line| line.starts_with("start page")).collect();
    assert_eq!(values, ["start page 7", "start page 8"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_export_bounces_only_the_workers_that_use_it() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install_nested(SITE, site(&journal).require(A, FACT).export(PAGE, B)).await?;
    engine.install(C, journal.manifold(B)).await?;
    engine.running(C).await?;
    running(&engine, OTHER).await?;
    journal.take();

    engine.output(SITE).await?.bounce(PAGE).await?;
    engine.running(C).await?;

    let expected = ["stop c", "end c", "stop page", "end page", "start page 1", "start c 2"];
    assert_eq!(journal.lines(), expected);
    assert_eq!(engine.report().await.workers["site"].generation, 1);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_export_that_ends_by_itself_takes_its_users_outside_with_it() -> TestResult {
    let (engine, page) = (test_engine().build()?, Script::new());
    let manifold = page.manifold(());
    let site = Nested::new(move || Change::new().install(PAGE, manifold.clone())).export(PAGE, B);
    engine.install_nested(SITE, site).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(C).await?;

    page.end(Err(Exit::missing("a licence")));
    wait_for_state(&engine, "c", WorkerState::Waiting).await?;

    let why = engine.why("c").await.ok_or("no c")?.to_string();
    let expected = "/c waits for /b, which waits for /site/page, which misses something: a licence";
    assert_eq!(why, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_cycle_through_several_engines_is_refused_with_its_path() -> TestResult {
    for is_live in [true, false] {
        let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
        engine.install(A, journal.manifold(B)).await?;
        let site = site(&journal).export(PAGE, B);
        let site = if is_live { site.import(A, FACT) } else { site.require(A, FACT) };

        let refused = engine.install_nested(SITE, site).await;

        let Err(ChangeError::Cycle { mut path }) = refused else {
            return Err(format!("not refused: {refused:?}").into());
        };
        let first = path.iter().position(|name| name == "a").ok_or("no a")?;
        path.rotate_left(first);
        let expected: &[&str] =
            if is_live { &["a", "b", "site", "site.fact"] } else { &["a", "b", "site"] };
        assert_eq!(path, expected);
        assert!(engine.report().await.workers.keys().eq(["a"]));
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn types_are_compared_across_borders() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.provide(A, 1).await?;

    let text = Name::<String>::new("a");
    for site in [
        site(&journal).require(text.clone(), Name::new("text")),
        site(&journal).import(text, Name::new("text")),
    ] {
        let refused = engine.install_nested(SITE, site).await;
        assert!(matches!(refused, Err(ChangeError::InputMismatch { .. })), "{refused:?}");
    }

    // What a nested engine holds is known when it starts.
    let wrong = site(&journal).require(A, FACT).export(PAGE.output::<String>(), Name::new("text"));
    engine.install_nested(SITE, wrong).await?;
    wait_for_state(&engine, "site", WorkerState::BackingOff).await?;
    let report = engine.report().await;
    let error = report.workers["site"].error.as_ref().ok_or("no error")?;
    assert!(error.text.contains("asks \"page\" for String"), "{}", error.text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_comes_and_goes_as_one() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.provide(A, 1).await?;
    let install = || {
        let site = site(&journal).import(A, FACT).export(PAGE, B);
        Change::new().install_nested(SITE, site)
    };

    let preview = engine.preview(install()).await?;
    assert_eq!(preview.installed, ["/b", "/site", "/site.fact"]);
    engine.apply(install()).await?;
    engine.running(B).await?;

    // What only the former one had goes with it.
    let next = site(&journal).require(A, FACT).export(OTHER, C);
    engine.replace_nested(SITE, next).await?;
    engine.running(C).await?;
    assert!(engine.report().await.workers.keys().eq(["a", "c", "site"]));

    let preview = engine.preview(Change::new().uninstall(SITE)).await?;
    assert_eq!(preview.uninstalled, ["/c", "/site"]);
    engine.uninstall(SITE).await?;
    assert!(engine.report().await.workers.keys().eq(["a"]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_nested_engine_is_installed_or_replaced_with_its_borders() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.install(A, journal.manifold(())).await?;
    let put = |nested| Change::new().install_or_replace_nested(SITE, nested);

    engine.apply(put(site(&journal).import(A, FACT).export(PAGE, B))).await?;
    assert!(engine.report().await.workers.keys().eq(["a", "b", "site", "site.fact"]));

    engine.apply(put(site(&journal).require(A, FACT).export(OTHER, C))).await?;
    assert!(engine.report().await.workers.keys().eq(["a", "c", "site"]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_place_of_an_export_that_goes_can_be_taken_in_the_same_group() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, site(&journal).require(A, FACT).export(PAGE, B)).await?;
    engine.install(USER, journal.manifold(B)).await?;
    engine.running(USER).await?;
    journal.take();

    let next = site(&journal).require(A, FACT).export(PAGE, C);
    let swap = Change::new().replace_nested(SITE, next).install(B, journal.manifold(A));
    engine.apply(swap).await?;
    engine.running(USER).await?;

    assert_eq!(journal.starts("user"), 1);
    assert!(engine.report().await.workers.keys().eq(["a", "b", "c", "site", "user"]));
    // It is no longer a part of the nested engine.
    engine.uninstall(SITE).await?;
    assert!(engine.report().await.workers.keys().eq(["a", "b", "user"]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_export_that_goes_makes_room_for_a_value_or_for_another_engine_s() -> TestResult {
    let other: Name<Engine> = Name::new("other");
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    let plain = || site(&journal).require(A, FACT);
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, plain().export(PAGE, B).export(PAGE, C)).await?;
    engine.install_nested(other.clone(), plain()).await?;

    let moved = Change::new()
        .replace_nested(SITE, plain())
        .replace_nested(other.clone(), plain().export(PAGE, B))
        .provide(C, 7);
    engine.apply(moved).await?;
    engine.running(B).await?;

    assert_eq!(engine.output(C).await?, 7);
    engine.uninstall(other.clone()).await?;
    assert!(engine.report().await.workers.keys().eq(["a", "c", "site"]));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_part_goes_with_its_engine_whatever_else_the_group_wants_of_it() -> TestResult {
    let wants = [Change::bounce::<u32>, Change::park::<u32>, Change::unpark::<u32>];
    for want in wants {
        let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
        engine.install(A, journal.manifold(())).await?;
        engine.install_nested(SITE, site(&journal).require(A, FACT).export(PAGE, B)).await?;

        engine.apply(want(Change::new(), B).uninstall(SITE)).await?;

        assert!(engine.report().await.workers.keys().eq(["a"]));
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kill_stops_users_before_what_they_use_across_borders() -> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, site(&journal).import(A, FACT).export(PAGE, B)).await?;
    engine.install(C, journal.manifold(B)).await?;
    engine.running(C).await?;

    clean_kill(engine).await?;

    let stops: Vec<_> = journal.stops().into_iter().filter(|name| name != "other").collect();
    assert_eq!(stops, ["c", "page", "a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_a_nested_engine_in_a_nested_engine_uses_what_the_outermost_offers()
-> TestResult {
    let (engine, journal) = (test_engine().show_carriers().build()?, Journal::new());
    let outer = in_another(&journal);
    engine.install(A, journal.manifold(())).await?;
    engine.install_nested(SITE, outer).await?;
    engine.install(C, journal.manifold(B)).await?;
    engine.running(C).await?;
    journal.take();

    engine.bounce(A).await?;
    engine.running(C).await?;

    let lines: Vec<_> =
        journal.lines().into_iter().filter(|line| !line.contains("other")).collect();
    let expected = [
        "stop c",
        "end c",
        "stop page",
        "end page",
        "stop a",
        "end a",
        "start a",
        "start page 2",
        "start c 2",
    ];
    assert_eq!(lines, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_chain_to_the_cause_leads_through_all_engines() -> TestResult {
    let (engine, journal, facts) =
        (test_engine().show_carriers().build()?, Journal::new(), Script::new());
    let outer = in_another(&journal);
    engine.install(A, facts.manifold(())).await?;
    engine.install_nested(SITE, outer).await?;
    engine.install(C, journal.manifold(B)).await?;
    engine.running(C).await?;

    facts.end(Err(Exit::missing("a licence")));
    let nested = engine.engine_at("/site").ok_or("no nested engine")?;
    let inmost = engine.engine_at("/site/site").ok_or("no nested engine in it")?;
    for (engine, name) in [(&inmost, "fact"), (&nested, "fact"), (&nested, "page"), (&engine, "b")]
    {
        wait_for_state(engine, name, WorkerState::Missing).await?;
    }
    for (engine, name) in [(&inmost, "page"), (&engine, "c")] {
        wait_for_state(engine, name, WorkerState::Waiting).await?;
    }

    // From outside: into both nested engines, and out of them again.
    let why = engine.why("c").await.ok_or("no c")?;
    let steps: Vec<_> = why.steps.iter().map(|step| &*step.path).collect();
    let way = ["/c", "/b", "/site/page", "/site/site/page", "/site/site/fact", "/site/fact", "/a"];
    assert_eq!(steps, way);
    assert!(why.to_string().ends_with("/a, which misses something: a licence"), "{why}");
    // A worker at the border is named if it is itself the cause.
    engine.park(Name::<()>::new("site.fact")).await?;
    let why = nested.why("fact").await.ok_or("no fact")?.to_string();
    assert_eq!(why, "/site/fact waits for /site.fact, which is parked");
    Ok(clean_kill(engine).await?)
}

/// A manifold is not needed at all: an engine may pass a value on.
#[tokio::test(start_paused = true)]
async fn an_import_may_be_exported_again() -> TestResult {
    let engine = test_engine().show_carriers().build()?;
    let site = Nested::new(Change::new).import(A, FACT).export(FACT, B);
    engine.install_nested(SITE, site).await?;
    engine.install(C, add_one(B)).await?;
    engine.provide(A, 1).await?;
    assert_eq!(engine.output(C).await?, 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_made_for_a_border_and_taken_is_said_to_be_that() -> TestResult {
    let engine = test_engine().show_carriers().build()?;
    let nothing = || Nested::new(Change::new);
    let (site, site_x) = (Name::<Engine>::new("site"), Name::<Engine>::new("site.x"));
    let other = nothing().import(A, Name::new("x.y"));
    engine.install_nested(site.clone(), other).await?;

    let own = || nothing().import(A, Name::new("y"));
    let refused = engine.install_nested(site_x.clone(), own()).await;
    let other = nothing().import(A, Name::new("x.y"));
    let both = Change::new().replace_nested(site, other).install_nested(site_x, own());
    let refused_together = engine.apply(both).await;

    let expected = "cannot install nested engine \"site.x\": a worker that passes a value over its \
                    border would be \"site.x.y\", which is taken already";
    for refused in [refused, refused_together] {
        assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some(expected));
    }
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_made_for_a_border_and_too_long_is_refused() -> TestResult {
    let engine = test_engine().show_carriers().build()?;
    let long: Name<u32> = Name::parse(&"n".repeat(253))?;
    let nothing = || Nested::new(Change::new);

    let imports = engine.install_nested(SITE, nothing().import(A, long.clone())).await;
    let exports = engine.install_nested(SITE, nothing().export(A, long)).await;

    for refused in [imports, exports] {
        let refused = refused.err().ok_or("it was installed")?.to_string();
        assert!(refused.ends_with("which is longer than 255 bytes"), "{refused}");
    }
    assert!(engine.report().await.workers.is_empty());
    Ok(clean_kill(engine).await?)
}
