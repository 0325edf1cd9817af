//! Inputs that follow all members of a family.

use crankcase_engine::{
    Change, ChangeError, Changing, Engine, EngineGone, Family, LiveSet, Manifold, Name, Nested,
};
use crankcase_testing::{Journal, Script, clean_kill, test_engine};
use tokio::sync::watch;

use crate::{A, TestResult};

const TENANTS: Family<u32> = Family::new("tenant-*");
const WEB: Name<LiveSet<u32>> = Name::new("web");
const SITE: Name<Engine> = Name::new("site");
const PAGE: Name<u32> = Name::new("page");

/// Returns a manifold that follows the tenants, and offers the set that it got.
fn web(journal: &Journal) -> Manifold {
    let journal = journal.clone();
    Manifold::builder().inputs(TENANTS.live()).offers::<(LiveSet<u32>,)>().run(
        move |tenants: LiveSet<u32>, up| {
            let journal = journal.clone();
            async move {
                journal.note("start web");
                up.ready((tenants,)).wait().await;
                journal.note("stop web");
                Ok(())
            }
        },
    )
}

fn tenant(name: &str) -> Result<Name<u32>, crankcase_engine::NameError> {
    TENANTS.name(name)
}

/// Waits until the set has these members.
async fn members(set: &mut LiveSet<u32>, expected: &[(&str, u32)]) -> Result<(), EngineGone> {
    let expected = expected.iter().map(|(member, value)| ((*member).to_owned(), *value)).collect();
    while set.all() != expected {
        set.changed().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_sees_members_come_change_and_go_and_is_never_bounced() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(tenant("old")?, 1).await?;
    engine.install(WEB, web(&journal)).await?;
    let mut set = engine.output(WEB).await?;
    members(&mut set, &[("old", 1)]).await?;

    let sender = watch::Sender::new(2);
    let receiver = sender.subscribe();
    let changing = Manifold::builder().offers::<(Changing<u32>,)>().run(move |(), up| {
        let receiver = receiver.clone();
        async move {
            up.ready((Changing::new(receiver),)).wait().await;
            Ok(())
        }
    });
    engine.install(tenant("new")?, changing).await?;
    members(&mut set, &[("new", 2), ("old", 1)]).await?;
    sender.send_replace(3);
    members(&mut set, &[("new", 3), ("old", 1)]).await?;
    engine.park(tenant("new")?).await?;
    members(&mut set, &[("old", 1)]).await?;
    engine.unpark(tenant("new")?).await?;
    members(&mut set, &[("new", 3), ("old", 1)]).await?;
    engine.uninstall(tenant("old")?).await?;
    members(&mut set, &[("new", 3)]).await?;

    assert_eq!((set.get("new"), set.get("old"), set.len()), (Some(3), None, 1));
    assert_eq!((set.members(), set.is_empty()), (vec!["new".to_owned()], false));
    assert_eq!(journal.lines(), ["start web"]);
    clean_kill(engine).await?;
    while set.changed().await.is_ok() {}
    assert!(set.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_are_inputs_in_the_graph_and_in_the_report() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(WEB, web(&journal)).await?;
    let page = journal.manifold(tenant("absent")?);
    engine.apply(Change::new().provide(tenant("a")?, 1).install(PAGE, page)).await?;
    engine.settled().await?;

    let graph = engine.graph().await.ok_or("no graph")?;
    let nodes: Vec<_> = graph.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(nodes, ["page", "tenant-*", "tenant-a", "tenant-absent", "web"]);
    let edges: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| format!("{} -> {} {}", edge.user, edge.input, edge.need))
        .collect();
    // A name is a member of the set once it is installed.
    let expected = [
        "page -> tenant-absent required",
        "tenant-* -> tenant-a member",
        "web -> tenant-* live set",
    ];
    assert_eq!(edges, expected);
    let report = engine.report().await;
    let inputs: Vec<_> = report.workers["web"].inputs.iter().map(|input| &*input.name).collect();
    assert_eq!(inputs, ["tenant-*"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_stops_before_the_members_that_it_follows() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let first =
        Change::new().install(tenant("a")?, journal.manifold(())).install(WEB, web(&journal));
    engine.apply(first).await?;
    engine.install(tenant("b")?, journal.manifold(())).await?;
    engine.settled().await?;
    journal.take();

    engine.stop().await?;

    let lines = journal.lines();
    assert_eq!(lines[0], "stop web", "{lines:?}");
    assert_eq!(lines.len(), 5, "{lines:?}");
    Ok(())
}

/// A worker of a replaced manifold is a user no more, and its successor is one.
#[tokio::test(start_paused = true)]
async fn a_replaced_follower_and_a_member_stop_in_order_too() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(WEB, web(&journal)).await?;
    engine.install(tenant("a")?, journal.manifold(())).await?;
    engine.settled().await?;
    engine.replace(WEB, web(&journal)).await?;
    engine.replace(tenant("a")?, journal.manifold(())).await?;
    engine.running(tenant("a")?).await?;
    let set = engine.output(WEB).await?;
    assert_eq!(set.get("a"), Some(2));
    journal.take();

    engine.stop().await?;

    assert_eq!(journal.lines(), ["stop web", "stop tenant-a", "end tenant-a"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_member_of_another_type_is_refused_whichever_comes_first() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let text = Name::<&str>::new("tenant-text");
    let expected = "cannot install \"tenant-text\" beside \"web\": \"web\" asks all of \
                    \"tenant-*\" for u32, but \"tenant-text\" offers &str";
    engine.install(WEB, web(&journal)).await?;
    let refused = engine.provide(text.clone(), "x").await.err().ok_or("it was accepted")?;
    assert_eq!(refused.to_string(), expected);
    engine.uninstall(WEB).await?;

    engine.provide(text.clone(), "x").await?;
    let refused = engine.install(WEB, web(&journal)).await.err().ok_or("it was accepted")?;
    assert_eq!(refused.to_string(), expected);
    let uninstalled = Change::new().install(WEB, web(&journal)).uninstall(text.clone());
    engine.apply(uninstalled).await?;
    engine.uninstall(WEB).await?;

    let both = Change::new().install(WEB, web(&journal)).provide(text, "x");
    let refused = engine.apply(both).await.err().ok_or("it was accepted")?;
    assert!(refused.to_string().contains("asks all of \"tenant-*\" for u32"), "{refused}");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_set_that_would_hold_what_depends_on_it_is_a_cycle() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let follower = || {
        Manifold::builder().inputs(TENANTS.live()).offers::<(u32,)>().run(|_, up| async move {
            up.ready((1,)).wait().await;
            Ok(())
        })
    };
    let cycle = |path: &[&str]| {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        Some(ChangeError::Cycle { path })
    };

    let itself = engine.install(tenant("x")?, follower()).await;
    assert_eq!(itself.err(), cycle(&["tenant-x", "tenant-*"]));
    engine.install(PAGE, follower()).await?;
    let member = engine.install(tenant("x")?, journal.manifold(PAGE)).await;
    assert_eq!(member.err(), cycle(&["tenant-x", "page", "tenant-*"]));
    engine.uninstall(PAGE).await?;

    engine.install(tenant("x")?, journal.manifold(A)).await?;
    let through = engine.install(A, follower()).await;
    assert_eq!(through.err(), cycle(&["a", "tenant-*", "tenant-x"]));
    let both = Change::new().install(PAGE, follower()).install(A, journal.manifold(PAGE));
    let both = engine.apply(both).await.err().ok_or("it was accepted")?;
    assert!(matches!(both, ChangeError::Cycle { ref path } if path.len() == 4), "{both}");
    // What was refused leaves nothing behind.
    engine.uninstall(tenant("x")?).await?;
    engine.install(A, follower()).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn exports_are_members_and_stop_after_the_worker_that_serves_them() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.install(WEB, web(&journal)).await?;
    let mut set = engine.output(WEB).await?;
    for (site, member) in [("s1", "acme"), ("s2", "zed")] {
        let inside = journal.clone();
        let nested = Nested::new(move || Change::new().install(PAGE, inside.manifold(())));
        let nested = nested.engine(|_| test_engine()).export(PAGE, tenant(member)?);
        engine.install_nested(Name::<Engine>::parse(site)?, nested).await?;
    }
    members(&mut set, &[("acme", 1), ("zed", 1)]).await?;
    engine.uninstall(Name::<Engine>::new("s1")).await?;
    members(&mut set, &[("zed", 1)]).await?;
    journal.take();

    engine.stop().await?;

    assert_eq!(journal.lines(), ["stop web", "stop page", "end page"]);
    Ok(())
}

/// A nested engine that serves members gets the set as a value.
#[tokio::test(start_paused = true)]
async fn a_set_crosses_a_border_as_the_output_of_its_follower() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(tenant("a")?, 7).await?;
    engine.install(WEB, web(&journal)).await?;
    let inside = journal.clone();
    let nested = Nested::new(move || {
        let inside = inside.clone();
        let page = Manifold::builder().inputs(WEB).offers::<(u32,)>().run(
            move |tenants: LiveSet<u32>, up| {
                let inside = inside.clone();
                async move {
                    up.ready((tenants.get("a").unwrap_or_default(),)).wait().await;
                    inside.note("stop page");
                    Ok(())
                }
            },
        );
        Change::new().install(PAGE, page)
    });
    let nested = nested.engine(|_| test_engine()).import(WEB, WEB);
    engine.install_nested(SITE, nested).await?;
    assert_eq!(engine.output(SITE).await?.output(PAGE).await?, 7);
    journal.take();

    engine.stop().await?;

    assert_eq!(journal.lines(), ["stop page", "stop web"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_set_of_a_hundred_thousand_works_like_any_other() -> TestResult {
    const MANY: usize = 100_000;
    let (engine, journal, script) = (test_engine().build()?, Journal::new(), Script::new());
    let many = |from: usize, to: usize| {
        (from..to).try_fold(Change::new(), |change, index| {
            let member = tenant(&index.to_string())?;
            Ok::<_, crankcase_engine::NameError>(change.provide(member, 1))
        })
    };
    engine.apply(many(0, MANY / 2)?).await?;
    engine.install(WEB, web(&journal)).await?;
    engine.apply(many(MANY / 2, MANY)?).await?;
    engine.settled().await?;

    let set = engine.output(WEB).await?;
    assert_eq!((set.len(), set.all().len(), set.get("99999")), (MANY, MANY, Some(1)));
    let wrong = engine.provide(Name::new("tenant-wrong"), "x").await;
    assert!(matches!(wrong, Err(ChangeError::MemberMismatch { .. })), "{wrong:?}");
    // One that depends on the follower is found among them.
    let back = engine.install(tenant("back")?, script.manifold(WEB.output::<()>())).await;
    assert!(matches!(back, Err(ChangeError::Cycle { .. })), "{back:?}");
    engine.bounce(WEB).await?;
    engine.running(WEB).await?;
    engine.stop().await?;
    assert_eq!(journal.lines(), ["start web", "stop web", "start web", "stop web"]);
    Ok(())
}

/// The workers of borders have names that nobody chose: they are no members.
#[tokio::test(start_paused = true)]
async fn a_carrier_is_no_member_of_a_family() -> TestResult {
    const ENGINES: Family<Engine> = Family::new("s*");
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    let contents = move || Change::new().install(PAGE, journal.manifold(A));
    let site = Nested::new(contents).engine(|_| test_engine()).import(A, A);
    engine.install_nested(SITE, site).await?;
    let all = Manifold::builder().inputs(ENGINES.live()).offers::<(LiveSet<Engine>,)>().run(
        |engines: LiveSet<Engine>, up| async move {
            up.ready((engines,)).wait().await;
            Ok(())
        },
    );
    engine.install(Name::<LiveSet<Engine>>::new("all"), all).await?;

    let engines = engine.output(Name::<LiveSet<Engine>>::new("all")).await?;
    assert_eq!(engines.members(), ["ite"]);
    assert_eq!(engine.why("s*").await, None);
    Ok(clean_kill(engine).await?)
}
