//! Paths through engines in engines in an engine.

use std::process::Stdio;

use crankcase_engine::{Change, Engine, Manifold, Name, Nested};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::machine::within;
use crate::world::{Error, TestResult, World};

const FACTS: Name<u32> = Name::new("facts");
const PAGE: Name<()> = Name::new("page");
const OTHER: Name<()> = Name::new("other");
const SHOP: Name<Engine> = Name::new("shop");
const SITE: Name<Engine> = Name::new("site");

/// Starts an engine with one in it, and one in that, in which a page uses the outermost's facts.
async fn start() -> Result<World, Error> {
    let idle = || {
        Manifold::builder().run(|(), up| async move {
            up.ready(()).wait().await;
            Ok(())
        })
    };
    let shop = move || {
        let page = Manifold::builder().inputs(FACTS).run(|_, up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
        Change::new().install(PAGE, page).install(OTHER, idle())
    };
    let site = move || {
        let shop = Nested::new(shop).import(FACTS, FACTS);
        Change::new().install_nested(SHOP, shop).install(OTHER, idle())
    };
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    engine.provide(FACTS, 7).await?;
    engine.install_nested(SITE, Nested::new(site).import(FACTS, FACTS)).await?;
    engine.output(SITE).await?.output(SHOP).await?.running(PAGE).await?;
    World::start_with(engine)
}

#[tokio::test]
async fn a_report_shows_all_engines_and_one_worker_at_any_depth() -> TestResult {
    let world = start().await?;

    let all = world.run(&["report"]).await?;
    let page = world.run(&["report", "site/shop/page", "--output", "json"]).await?;
    let shop = world.run(&["report", "/agent/site/shop"]).await?;

    assert!(all.stdout.contains("\n      page   running\n"), "{all:?}");
    let page: Value = serde_json::from_str(&page.stdout)?;
    assert_eq!(page["worker"]["path"], "/agent/site/shop/page");
    assert_eq!(page["worker"]["inputs"][0]["name"], "facts");
    assert!(shop.stdout.starts_with("/agent/site/shop running\n"), "{shop:?}");
    assert!(shop.stdout.contains("\n  page   running\n"), "{shop:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn park_and_unpark_reach_a_worker_at_any_depth() -> TestResult {
    let world = start().await?;
    let path = "/agent/site/shop/page";
    let status = &["report", "--exit-status"];
    let before = world.run(status).await?;

    let parked = world.run(&["park", "site/shop/page", "--reason", "a look"]).await?;
    let during = world.run(status).await?;
    let within_it = world.run(&["report", path, "--exit-status"]).await?;
    let beside_it = world.run(&["report", "site/shop/other", "--exit-status"]).await?;
    let why = world.run(&["why", path]).await?;
    let unparked = world.run(&["unpark", path, "--output", "json"]).await?;
    let shop = world.engine.engine_at("/agent/site/shop").ok_or("no shop")?;
    within(shop.running(PAGE)).await??;
    let after = world.run(status).await?;

    assert_eq!((parked.code, &*parked.stdout), (Some(0), "parked /agent/site/shop/page\n"));
    let by = format!("(ada (uid {}): a look)", rustix::process::geteuid().as_raw());
    assert_eq!(why.stdout, format!("{path} is parked {by}\n"));
    let line = during.stdout.lines().find(|line| line.trim_start().starts_with("page "));
    assert!(line.is_some_and(|line| line.ends_with(&format!(" parked {by}"))), "{during:?}");
    let first = within_it.stdout.lines().next();
    assert_eq!(first, Some(&*format!("{path} parked {by}")), "{within_it:?}");
    assert_eq!(
        serde_json::from_str::<Value>(&unparked.stdout)?,
        json!({ "format": 1, "unparked": path })
    );
    let codes = [before.code, during.code, within_it.code, beside_it.code, after.code];
    assert_eq!(codes, [0, 1, 1, 0, 0].map(Some), "{during:?} {after:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn why_finds_the_cause_in_an_outer_engine() -> TestResult {
    let world = start().await?;

    let parked = world.run(&["park", "facts"]).await?;
    let why = world.run(&["why", "site/shop/page"]).await?;

    assert_eq!(parked.code, Some(0), "{parked:?}");
    let expected = "/agent/site/shop/page waits for /agent/site/shop/facts, which waits for \
                    /agent/site/facts, which waits for /agent/facts, which is parked (ada ";
    assert_eq!(why.code, Some(0), "{why:?}");
    assert!(why.stdout.starts_with(expected), "{why:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn graph_shows_one_engine_or_what_is_next_to_a_worker_at_any_depth() -> TestResult {
    let world = start().await?;

    let shop = world.run(&["graph", "--live", "--path", "site/shop", "--output", "json"]).await?;
    let dot = ["graph", "--live", "--format", "dot"];
    let page = world.run(&[&dot[..], &["--path", "site/shop/page"]].concat()).await?;
    let near = world.run(&[&dot[..], &["--around", "site/shop/page"]].concat()).await?;
    let around = ["--around", "site/shop/facts", "--depth", "0"];
    let alone = world.run(&[&dot[..], &around].concat()).await?;

    let shop: Value = serde_json::from_str(&shop.stdout)?;
    let names: Vec<_> = shop["graphs"][0]["nodes"].as_array().ok_or("no nodes")?.iter().collect();
    let names: Vec<_> = names.iter().map(|node| &node["name"]).collect();
    assert_eq!((&shop["graphs"][0]["path"], names.len()), (&json!("/agent/site/shop"), 3));
    assert_eq!(names, ["facts", "other", "page"]);
    let edge = "\"/agent/site/shop/page\" -> \"/agent/site/shop/facts\"";
    assert!(page.stdout.contains(edge) && !page.stdout.contains("shop/other"), "{page:?}");
    assert_eq!(near.stdout, page.stdout, "{near:?}");
    assert!(alone.stdout.contains("shop/facts") && !alone.stdout.contains(edge), "{alone:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn events_tell_who_asked_for_what_at_any_depth() -> TestResult {
    let world = start().await?;
    let mut events = world.program(&["events"]);
    let mut events = events.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut notes = BufReader::new(events.stderr.take().ok_or("no stderr")?).lines();
    let mut lines = BufReader::new(events.stdout.take().ok_or("no stdout")?).lines();
    let note = within(notes.next_line()).await??.ok_or("no note")?;
    assert!(note.starts_with("following the events of life "), "{note}");

    for command in ["bounce", "park", "unpark"] {
        let ran = world.run(&[command, "site/shop/page", "--reason", "a look"]).await?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    let mut asked = Vec::new();
    while asked.len() < 3 {
        let line = within(lines.next_line()).await??.ok_or("no more events")?;
        asked.extend(line.ends_with("): a look)").then_some(line));
    }
    for (line, done) in asked.iter().zip(["bounced", "parked", "unparked"]) {
        let expected = format!(" /agent/site/shop/page {done} (ada (uid ");
        assert!(line.contains(&expected), "{line}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_name_that_is_wrong_at_any_depth_is_told_with_the_nearest() -> TestResult {
    let world = start().await?;

    for command in [&["report"][..], &["why"], &["graph", "--live", "--path"], &["park"]] {
        let ran = world.run(&[command, &["site/shop/pag"]].concat()).await?;

        let expected = "nothing has the path \"/agent/site/shop/pag\"; did you mean \
                        \"/agent/site/shop/page\"?";
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
    world.clean_kill().await
}
