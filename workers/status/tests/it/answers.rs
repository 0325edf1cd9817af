//! What the control socket answers to reports, questions and changes of workers.

use std::time::Duration;

use crankcase_engine::{
    Backoff, Change, Engine, EventKind, Manifold, Name, Notice, Outcome, Stop, Worker,
};
use crankcase_status::ClientError;
use crankcase_status::wire::{
    Act, ControlRequest, Controlled, Detail, EngineReport, EventLine, FailureCode, Only, Preview,
    Selection, Subject, WorkerReport, WorkerState,
};
use serde_json::json;

use crate::world::{Error, PAGE, STORE, TestResult, World, guarded, send};

fn asking(path: &str) -> ControlRequest {
    ControlRequest { path: path.to_owned(), who: "ada".to_owned(), why: "to see".to_owned() }
}

#[tokio::test]
async fn the_report_has_what_the_engine_reports() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;

    let Subject::Engine(report) = client.report(None).await? else { return Err("worker".into()) };

    let mut expected = serde_json::to_value(world.engine.report().await)?;
    let mut got = serde_json::to_value(&report)?;
    for report in [&mut expected, &mut got] {
        report["at"] = json!("then");
        report["workers"]["site"]["report"]["at"] = json!("then");
    }
    assert_eq!(got, expected);
    assert!(matches!(report.workers["site"].report, Some(Detail::Engine(_))));
    world.clean_kill().await
}

#[tokio::test]
async fn a_path_reaches_into_nested_engines() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;

    let absolute = client.report(Some("/agent/site/page")).await?;
    let relative = client.report(Some("site/page")).await?;

    let Subject::Worker(worker) = absolute else { return Err("an engine".into()) };
    assert_eq!((&*worker.path, &worker.state), ("/agent/site/page", &WorkerState::Running));
    assert_eq!(relative, Subject::Worker(worker));
    world.clean_kill().await
}

#[tokio::test]
async fn why_names_the_root_cause() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;

    let answer = client.why("/agent/waiter").await?;

    assert_eq!(answer.text, "/agent/waiter waits for /agent/absent, which is not installed");
    assert_eq!(answer.why.steps.len(), 2);
    world.clean_kill().await
}

#[tokio::test]
async fn graphs_are_of_all_engines_of_one_or_around_a_worker() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;

    let all = client.graph(None).await?.graphs;
    let one = client.graph(Some("/agent/site")).await?.graphs;
    let around = client.graph(Some("/agent/waiter")).await?.graphs;
    let alone = client.graph_near("absent", (0, 20)).await?.graphs;
    let far = client.graph_near("waiter", (i64::MAX as u64, 20)).await?.graphs;
    let itself = client.graph_near("/agent", (1, 20)).await.err();

    let paths: Vec<_> = all.iter().map(|graph| &*graph.path).collect();
    assert_eq!(paths, ["/agent", "/agent/site"]);
    assert_eq!(one.iter().map(|graph| &*graph.path).collect::<Vec<_>>(), ["/agent/site"]);
    let names: Vec<_> = around[0].nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["absent", "waiter"]);
    assert_eq!((far, alone[0].nodes.len(), alone[0].edges.len()), (around, 1, 0));
    assert_eq!(alone[0].nodes[0].more_users, 1);
    assert!(matches!(itself, Some(ClientError::Refused { .. })), "{itself:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn a_bounce_of_what_is_held_back_says_why_and_changes_nothing() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let mut events = world.engine.events();
    let held_back = Manifold::builder().run(|(), up| async move {
        up.context().health().held_back("store", "it comes after the store");
        up.ready(()).wait().await;
        Ok(())
    });
    world.engine.install(Name::<()>::new("late"), held_back).await?;
    while let Some(Notice::Event(event)) = guarded(events.next()).await {
        if matches!(event.kind, EventKind::Health { .. }) {
            break;
        }
    }

    let bounced = client.bounce(&asking("/agent/late")).await;

    let Err(ClientError::Refused { code, message }) = bounced else { return Err("bounced".into()) };
    assert_eq!(code, FailureCode::Conflict);
    assert!(message.contains("cannot start") && message.contains("held back"), "{message}");
    assert_eq!(world.engine.report().await.workers["late"].starts, 1);
    let forced = client.force_bounce(&asking("/agent/late")).await?;
    assert_eq!(forced, Controlled::Bounced("/agent/late".to_owned()));
    world.clean_kill().await
}

#[tokio::test]
async fn a_bounce_of_what_does_not_run_and_cannot_start_says_why() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    client.park(&asking("/agent/site/page")).await?;

    for (path, expected) in [
        ("/agent/site/page", "/agent/site/page is parked"),
        ("/agent/waiter", "/agent/waiter waits for /agent/absent"),
    ] {
        let bounced = client.bounce(&asking(path)).await;

        let Err(ClientError::Refused { code, message }) = bounced else { return Err(path.into()) };
        assert_eq!(code, FailureCode::Conflict);
        assert!(message.contains("cannot start") && message.contains(expected), "{message}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_bounce_in_a_nested_engine_says_who_asked_and_why() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let mut events = client.events().await?;

    let bounced = client.bounce(&asking("/agent/site/page")).await?;

    assert_eq!(bounced, Controlled::Bounced("/agent/site/page".to_owned()));
    let event = guarded(events.next()).await?.ok_or("the stream ended")?;
    let EventLine::Event(event) = event else { return Err("missed".into()) };
    assert_eq!((&*event.path, &*event.text), ("/agent/site/page", "bounced"));
    let origin = event.origin.ok_or("nobody asked")?;
    let user = rustix::process::geteuid().as_raw();
    assert_eq!((origin.who, &*origin.why), (format!("ada (uid {user})"), "to see"));
    world.clean_kill().await
}

#[tokio::test]
async fn a_worker_stays_parked_until_it_is_unparked() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let mut events = client.events().await?;
    let path = "/agent/site/page";

    let parked = client.park(&asking(path)).await?;
    let Subject::Worker(worker) = client.report(Some(path)).await? else {
        return Err("an engine".into());
    };
    let unparked = client.unpark(&asking(path)).await?;
    let site = world.engine.engine_at("/agent/site").ok_or("no site")?;
    guarded(site.running(PAGE)).await?;

    assert_eq!(parked, Controlled::Parked(path.to_owned()));
    assert_eq!((&worker.state, worker.has_trouble()), (&WorkerState::Parked, true));
    assert_eq!(worker.parked_by.map(|by| by.why).as_deref(), Some("to see"));
    assert_eq!(unparked, Controlled::Unparked(path.to_owned()));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let event = guarded(events.next()).await?.ok_or("the stream ended")?;
        let EventLine::Event(event) = event else { return Err("missed".into()) };
        asked.extend(event.origin.map(|origin| (event.path, event.text, origin.why)));
    }
    let expected =
        ["parked", "unparked"].map(|text| (path.to_owned(), text.to_owned(), "to see".to_owned()));
    assert_eq!(asked, expected);
    world.clean_kill().await
}

#[tokio::test]
async fn an_unknown_path_is_told_apart_from_other_refusals() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;

    let answers = [
        client.report(Some("/agent/nobody")).await.err(),
        client.report(Some("/elsewhere/site")).await.err(),
        client.why("/agent/site/nobody").await.err(),
        client.why("/agent/site/page/deep").await.err(),
        client.graph(Some("/agent/nobody")).await.err(),
        client.bounce(&asking("/agent/nobody")).await.err(),
        client.bounce(&asking("/agent/a b")).await.err(),
        client.park(&asking("/agent/site/nobody")).await.err(),
        client.unpark(&asking("/agent/site/page/deep")).await.err(),
    ];

    for answer in answers {
        assert!(matches!(answer, Some(ClientError::UnknownPath { .. })), "{answer:?}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_path_into_an_engine_that_does_not_run_is_told_with_the_reason() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let site: Name<()> = Name::new("site");
    world.engine.apply(Change::new().park(site.clone())).await?;
    let failing = Manifold::builder().start(|(), _| async { Err::<Idle, _>("no luck".into()) });
    let bookcase = Manifold::builder().start(|(), ctx| async move {
        let engine = Engine::builder().build_nested(&ctx)?;
        engine.provide(Name::<()>::new("shelf"), ()).await?;
        Ok(engine)
    });
    world.engine.install(Name::<()>::new("bookcase"), bookcase.build()).await?;
    world.engine.running(Name::<()>::new("bookcase")).await?;
    let hour = Duration::from_secs(60 * 60);
    let backoff = Backoff::default().initial(hour).max(hour);
    let mut events = world.engine.events();
    let failing = failing.build().backoff(backoff);
    world.engine.install(Name::<()>::new("failing"), failing).await?;
    loop {
        let notice = guarded(events.next()).await.ok_or("the events ended")?;
        if matches!(notice, Notice::Event(event) if event.kind.to_string().contains("no luck")) {
            break;
        }
    }

    for (path, expected) in [
        (
            "/agent/site/page",
            r#"nothing has the path "/agent/site/page" at present: /agent/site is parked"#,
        ),
        ("site/shop/page", "at present: /agent/site is parked"),
        ("failing/x", "at present: /agent/failing failed once: no luck; next try in "),
        ("store/x", r#"; "/agent/store" has no workers of its own"#),
        ("shelf", r#"nothing has the path "/agent/shelf"; did you mean "/agent/bookcase/shelf"?"#),
        ("sit/page", r#"nothing has the path "/agent/sit"; did you mean "/agent/site"?"#),
    ] {
        let answers = [
            client.report(Some(path)).await.err(),
            client.why(path).await.err(),
            client.graph(Some(path)).await.err(),
            client.bounce(&asking(path)).await.err(),
        ];
        for answer in answers {
            let Some(ClientError::UnknownPath { message }) = answer else {
                return Err(format!("{path}: {answer:?}").into());
            };
            assert!(message.contains(expected), "{path}: {message}");
        }
    }
    world.clean_kill().await
}

/// A worker that is never made.
struct Idle;

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

#[tokio::test]
async fn a_bounce_of_a_stopped_engine_is_refused() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    world.engine.stop().await?;

    let refused = client.bounce(&asking("/agent/store")).await.unwrap_err();

    let ClientError::Refused { code, message } = refused else { return Err(refused.into()) };
    assert_eq!(code, FailureCode::Stopping, "{message}");
    world.clean_kill().await
}

#[tokio::test]
async fn a_report_can_be_asked_for_in_part() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let part = async |selection: Selection| -> Result<EngineReport, Error> {
        match client.report_part(None, &selection).await? {
            Subject::Engine(report) => Ok(report),
            _ => Err("a worker".into()),
        }
    };
    world.engine.bounce(STORE).await?;
    world.engine.running(STORE).await?;
    let names = |report: &EngineReport| report.workers.keys().cloned().collect::<Vec<_>>();

    let shallow = part(Selection { depth: Some(0), without_inputs: true, ..Selection::default() });
    let shallow = shallow.await?;
    let waiting = Selection { only: Only::read("waiting"), ..Selection::default() };
    let waiting = part(waiting).await?;
    let healthy = part(Selection { only: Only::read("trouble"), ..Selection::default() }).await?;
    let last = shallow.workers.values().filter_map(|worker| worker.last_event).max();
    world.engine.engine_at("/agent/site").ok_or("no site")?.bounce(PAGE).await?;
    let since = Selection { since: last.map(|last| last + 1), ..Selection::default() };
    let changed = part(since).await?;
    let counts = client.counts(None).await?;

    assert_eq!(names(&shallow), ["site", "store", "waiter"]);
    let is_bare = |it: &WorkerReport| it.inputs.is_empty() && it.report.is_none();
    assert!(shallow.workers.values().all(is_bare), "{shallow:?}");
    assert_eq!((names(&waiting), waiting.omitted), (vec!["waiter".to_owned()], 2));
    assert_eq!((names(&healthy), healthy.omitted), (vec![], 3));
    assert_eq!((names(&changed), changed.omitted), (vec!["site".to_owned()], 2));
    assert_eq!((counts.total, counts.trouble, counts.states["waiting"]), (3, 0, 1));
    assert_eq!(counts.engines.iter().map(|it| &*it.path).collect::<Vec<_>>(), ["/agent/site"]);
    world.clean_kill().await
}

#[tokio::test]
async fn a_preview_is_that_of_the_engine() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    let user = Manifold::builder().inputs(STORE).run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let name = Name::<()>::new("user");
    world.engine.install(name.clone(), user).await?;
    world.engine.running(name).await?;

    let bounce = client.preview(Act::Bounce, "/agent/store").await?;
    let park = client.preview(Act::Park, "store").await?;
    let unpark = client.preview(Act::Unpark, "/agent/store").await?;

    let user = vec!["/agent/user".to_owned()];
    assert_eq!((&bounce.bounced, &bounce.stopped), (&user, &vec![]));
    assert_eq!((&park.bounced, &park.stopped), (&vec![], &user));
    assert_eq!(unpark, Preview::default());
    let unknown = client.preview(Act::Park, "/agent/stor").await;
    assert!(matches!(&unknown, Err(ClientError::UnknownPath { .. })), "{unknown:?}");
    let state = client.why("/agent/user").await?;
    assert!(state.text.contains("is running"), "it was only asked: {}", state.text);
    let request = "GET /v1/preview?path=store&act=kill HTTP/1.1\r\nhost: agent\r\n\r\n";
    let wrong = send(&world.socket(), request.as_bytes()).await?;
    assert!(wrong.contains("bounce, park or unpark"), "{wrong}");
    world.clean_kill().await
}
