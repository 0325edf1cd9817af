//! Control calls: groups, refusals, previews, and when each call is answered.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Change, Engine, EventKind, Graph, Manifold, Name, WorkerState};
use crankcase_testing::{EventRecorder, Journal, Script, clean_kill, test_engine, wait_for_state};

use crate::{A, B, C, TestResult, add_one, state};

async fn graph(engine: &Engine) -> Result<Graph, Box<dyn Error>> {
    engine.settled().await?;
    Ok(engine.graph().await.ok_or("the engine has ended")?)
}

/// Applies a change that is to be refused, checks that nothing changed, and returns the text.
async fn refusal(engine: &Engine, change: Change) -> Result<String, Box<dyn Error>> {
    let before = graph(engine).await?;
    let refused = engine.apply(change).await.err().ok_or("it was applied")?;
    assert_eq!(graph(engine).await?, before);
    Ok(refused.to_string())
}

fn idle() -> Manifold {
    Script::new().manifold(())
}

/// Returns a manifold that offers a text.
fn text() -> Manifold {
    Manifold::builder().offers::<(String,)>().run(|(), up| async move {
        up.ready(("text".to_owned(),)).wait().await;
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_group_is_one_wave() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let group = Change::new().install(A, idle()).install(B, idle());
    engine.apply(group.install(C, journal.manifold((A, B)))).await?;
    engine.running(&C).await?;

    engine.apply(Change::new().replace(A, idle()).bounce(&B)).await?;
    engine.settled().await?;

    assert_eq!(journal.starts("c"), 2);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_on_a_name_that_is_taken_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, idle()).await?;

    let refused = refusal(&engine, Change::new().install(B, idle()).install(A, idle())).await?;

    assert_eq!(refused, r#"cannot install manifold "a": already installed"#);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_name_that_is_not_installed_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let changes = [
        ("replace", Change::new().replace(A, idle())),
        ("uninstall", Change::new().uninstall(&A)),
        ("bounce", Change::new().bounce(&A)),
        ("park", Change::new().park(&A)),
        ("unpark", Change::new().unpark(&A)),
    ];

    for (verb, change) in changes {
        let refused = refusal(&engine, change.install(B, idle())).await?;
        assert_eq!(refused, format!("cannot {verb} manifold \"a\": not installed"));
    }

    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_much_like_an_installed_one_is_explained() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(Name::<u32>::new("poller"), idle()).await?;

    let refused = refusal(&engine, Change::new().bounce(&Name::<u32>::new("poler"))).await?;

    let text = r#"cannot bounce manifold "poler": not installed; did you mean "poller"?"#;
    assert_eq!(refused, text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_group_that_names_a_manifold_twice_is_refused() -> TestResult {
    let engine = test_engine().build()?;

    let refused = refusal(&engine, Change::new().install(A, idle()).install(A, idle())).await?;

    assert_eq!(refused, r#"cannot apply the group: it names manifold "a" twice"#);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_that_is_declared_twice_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let twice = Manifold::builder().inputs((A, A.optional())).run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });

    let refused = refusal(&engine, Change::new().install(Name::<()>::new("user"), twice)).await?;

    let text = r#"cannot install manifold "user": it declares its input "a" (u32) twice"#;
    assert_eq!(refused, text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_output_type_that_is_offered_twice_is_refused() -> TestResult {
    let engine = test_engine().build()?;
    let twice = Manifold::builder().offers::<(u32, u32)>().run(|(), up| async move {
        up.ready((1, 2)).wait().await;
        Ok(())
    });

    let refused = refusal(&engine, Change::new().install(A, twice)).await?;

    assert_eq!(refused, r#"cannot install manifold "a": it offers u32 twice"#);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_manifold_that_does_not_offer_its_names_type_is_refused() -> TestResult {
    let engine = test_engine().build()?;

    let refused = refusal(&engine, Change::new().install(A, text())).await?;

    let expected = "cannot install manifold \"a\": the name is for u32, but it offers \
                    alloc::string::String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused_when_its_user_comes() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A.output::<String>(), text()).await?;

    let refused = refusal(&engine, Change::new().install(B, add_one(A))).await?;

    let expected = "cannot install manifold \"b\": \"b\" asks \"a\" for u32, but \"a\" offers \
                    alloc::string::String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused_when_it_comes() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, add_one(A)).await?;

    let refused = refusal(&engine, Change::new().install(A.output::<String>(), text())).await?;

    let expected = "cannot install manifold \"a\": \"b\" asks \"a\" for u32, but \"a\" offers \
                    alloc::string::String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_refused_with_its_path() -> TestResult {
    let engine = test_engine().build()?;
    let group = Change::new().install(B, add_one(A)).install(C, Script::new().manifold(B.live()));

    let refused = refusal(&engine, group.install(A, add_one(C))).await?;

    let text = "cannot install manifold \"a\": it would depend on itself: a -> c -> b -> a";
    assert_eq!(refused, text);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_told_from_the_manifold_that_closes_it() -> TestResult {
    for (first, last) in [(A, B), (B, A)] {
        let engine = test_engine().build()?;
        engine.install(first.clone(), add_one(last.clone())).await?;

        let refused = engine.install(last.clone(), add_one(first.clone())).await;

        let text = refused.err().ok_or("it was installed")?.to_string();
        assert!(text.ends_with(&format!("itself: {last} -> {first} -> {last}")), "{text}");
        clean_kill(engine).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_manifold_that_is_its_own_input_is_refused() -> TestResult {
    let engine = test_engine().build()?;

    let refused = refusal(&engine, Change::new().install(A, add_one(A))).await?;

    assert_eq!(refused, r#"cannot install manifold "a": it would depend on itself: a -> a"#);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_group_that_turns_a_dependency_round_is_no_cycle() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;

    engine.apply(Change::new().replace(B, idle()).replace(A, add_one(B))).await?;

    engine.running(&A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_group_that_takes_a_user_out_before_its_input_uses_it_is_no_cycle() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;

    engine.apply(Change::new().uninstall(&B).replace(A, add_one(B))).await?;
    engine.settled().await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Waiting);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bad_setting_is_refused_by_its_name() -> TestResult {
    let engine = test_engine().build()?;
    let manifold = idle().start_timeout(Duration::ZERO);

    let refused = engine.install(A, manifold).await.err().ok_or("it was installed")?;

    assert_eq!(refused.to_string(), r#"cannot install manifold "a""#);
    let cause = refused.source().ok_or("no cause")?.to_string();
    assert_eq!(cause, "start_timeout is 0s; expected a duration above zero");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_refused_group_leaves_no_names_behind() -> TestResult {
    let engine = test_engine().build()?;

    let refused = engine.apply(Change::new().install(B, add_one(A)).bounce(&C)).await;

    assert!(refused.is_err());
    assert!(graph(&engine).await?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn uninstall_with_dependents_takes_all_of_them_out() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;
    engine.install(C, Script::new().manifold(B.optional())).await?;
    engine.settled().await?;

    engine.apply(Change::new().uninstall_with_dependents(&A)).await?;

    assert!(graph(&engine).await?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

/// Previews a change, applies it, and compares what was told with what happened.
async fn preview_comes_true(engine: &Engine, change: [Change; 2]) -> TestResult {
    let [previewed, applied] = change;
    let before = graph(engine).await?;
    let preview = engine.preview(previewed).await?;
    assert_eq!(graph(engine).await?, before);
    let mut events = EventRecorder::new(engine);

    engine.apply(applied).await?;
    engine.settled().await?;
    clean_kill(engine.clone()).await?;

    events.finish().await?;
    let killed = events.seen().iter().take_while(|event| event.kind != EventKind::Killed);
    let happened: Vec<_> = killed.collect();
    let paths = |is_wanted: &dyn Fn(&EventKind) -> bool| {
        let wanted = happened.iter().filter(|event| is_wanted(&event.kind));
        let mut paths: Vec<_> = wanted.map(|event| event.path()).collect();
        paths.sort_unstable();
        paths
    };
    let stopped = paths(&|kind| *kind == EventKind::Stopping);
    let mut told = [preview.bounced.clone(), preview.stopped.clone()].concat();
    told.sort_unstable();
    assert_eq!(told, stopped);
    assert_eq!(preview.uninstalled, paths(&|kind| *kind == EventKind::Uninstalled));
    let puts = |kind: &EventKind| matches!(kind, EventKind::Installed | EventKind::Replaced);
    assert_eq!(preview.installed, paths(&puts));
    for path in &preview.bounced {
        let restarted = |kind: &EventKind| matches!(kind, EventKind::Starting { .. });
        assert!(paths(&restarted).contains(path), "{path} was not started again");
    }
    Ok(())
}

async fn chain() -> Result<Engine, Box<dyn Error>> {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(&C).await?;
    Ok(engine)
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_bounce_comes_true() -> TestResult {
    let change = || Change::new().bounce(&A);
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_replace_comes_true() -> TestResult {
    let change = || Change::new().replace(B, add_one(A));
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_uninstall_with_dependents_comes_true() -> TestResult {
    let change = || Change::new().uninstall_with_dependents(&B);
    preview_comes_true(&chain().await?, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_optional_input_that_comes_comes_true() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, Script::new().manifold(A.optional())).await?;
    engine.install(C, add_one(B)).await?;
    engine.running(&C).await?;
    let change = || Change::new().install(A, idle());
    preview_comes_true(&engine, [change(), change()]).await
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_an_uninstall_tells_who_stops_for_good() -> TestResult {
    let engine = chain().await?;

    let preview = engine.preview(Change::new().uninstall(&B)).await?;

    assert_eq!(preview.to_string(), "uninstall /b\nstop /b\nstop /c\n");
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn the_preview_of_a_swap_tells_who_comes_back_on_other_inputs() -> TestResult {
    let spare = || Name::new("spare");
    let swap = || Change::new().uninstall(&A).replace(B, add_one(spare()));

    let change = || swap().install(spare(), idle());
    let preview = chain().await?.preview(change()).await?;
    let expected = "install /b\ninstall /spare\nuninstall /a\nstop /a\nbounce /b\nbounce /c\n";
    assert_eq!(preview.to_string(), expected);
    preview_comes_true(&chain().await?, [change(), change()]).await?;

    // What they would have instead is not there, or would not be.
    let lost = Name::new("lost");
    for change in [swap(), swap().install(spare(), add_one(lost))] {
        let preview = chain().await?.preview(change).await?;
        assert_eq!((preview.bounced, preview.stopped.len()), (vec![], 3));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_parked_worker_stays_stopped_until_it_is_unparked() -> TestResult {
    let engine = chain().await?;
    engine.park(&A).await?;
    engine.settled().await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Parked);
    engine.bounce(&A).await?;
    assert_eq!(state(&engine, "a").await, WorkerState::Parked);

    engine.unpark(&A).await?;

    engine.running(&C).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_output_type_is_changed_together_with_its_users() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    engine.provide(A, 1).await?;
    engine.install(B, journal.manifold(A)).await?;
    engine.running(&B).await?;

    let texts = A.output::<String>();
    let change = Change::new().replace(texts.clone(), text());
    engine.apply(change.replace(B, journal.manifold(texts))).await?;
    engine.settled().await?;

    assert_eq!(journal.lines().last().map(String::as_str), Some("start b \"text\""));
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_replaced_worker_does_not_offer_its_successors_types() -> TestResult {
    let (engine, slow) = (test_engine().build()?, Script::new());
    slow.stop_after(Duration::from_secs(5));
    engine.provide(A, 1).await?;
    engine.install(B, slow.manifold(A.output::<()>())).await?;
    engine.running(&B).await?;

    let texts = A.output::<String>();
    let replaced = engine.replace(texts.clone(), text());
    let looked = async {
        wait_for_state(&engine, "b", WorkerState::Stopping).await?;
        Ok::<_, Box<dyn Error>>(engine.output(texts.clone()).follow().await?.get())
    };
    let (replaced, looked) = tokio::join!(replaced, looked);

    replaced?;
    assert_eq!(looked?, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_bounce_is_answered_when_the_old_worker_is_gone() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(&A).await?;

    engine.bounce(&A).await?;

    assert_eq!(journal.lines(), ["start a", "stop a", "end a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_is_answered_before_the_worker_is_up() -> TestResult {
    let (engine, script) = (test_engine().build()?, Script::new());
    script.hold_start();

    engine.install(A, script.manifold(())).await?;

    assert_eq!(state(&engine, "a").await, WorkerState::Starting);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_install_on_a_name_whose_worker_still_stops_starts_when_it_has() -> TestResult {
    let (engine, journal) = (test_engine().build()?, Journal::new());
    let slow = Script::new().recorded_in(&journal);
    slow.stop_after(Duration::from_secs(5));
    engine.install(A, slow.manifold(())).await?;
    engine.running(&A).await?;

    let a = A;
    let (uninstalled, installed) =
        tokio::join!(engine.uninstall(&a), engine.install(A, journal.manifold(())));
    engine.running(&A).await?;

    uninstalled?;
    installed?;
    assert_eq!(journal.lines(), ["start a", "stop a", "end a", "start a"]);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_gives_up_happens_all_the_same() -> TestResult {
    let engine = test_engine().build()?;

    tokio::select! {
        biased;
        _ = engine.install(A, idle()) => {}
        () = std::future::ready(()) => {}
    }

    engine.running(&A).await?;
    Ok(clean_kill(engine).await?)
}
