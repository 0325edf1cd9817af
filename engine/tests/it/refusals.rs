//! What is refused, with its text and nothing changed, and what is not.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{Change, ChangeError, Engine, Manifold, Name, WorkerState};
use crankcase_testing::{Script, clean_kill, test_engine};

use crate::changes::{graph, idle, text};
use crate::{A, B, C, TestResult, add_one, state};

/// Applies a change that is to be refused, checks that nothing changed, and returns the text.
async fn refusal(engine: &Engine, change: Change) -> Result<String, Box<dyn Error>> {
    let before = graph(engine).await?;
    let refused = engine.apply(change).await.err().ok_or("it was applied")?;
    assert_eq!(graph(engine).await?, before);
    Ok(refused.to_string())
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
        ("uninstall", Change::new().uninstall(A)),
        ("bounce", Change::new().bounce(A)),
        ("park", Change::new().park(A)),
        ("unpark", Change::new().unpark(A)),
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

    let refused = refusal(&engine, Change::new().bounce(Name::<u32>::new("poler"))).await?;

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
                    String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused_when_its_user_comes() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A.output::<String>(), text()).await?;

    let refused = refusal(&engine, Change::new().install(B, add_one(A))).await?;

    let expected = "cannot install manifold \"b\": \"b\" asks \"a\" for u32, but \"a\" offers \
                    String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused_when_it_comes() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(B, add_one(A)).await?;

    let refused = refusal(&engine, Change::new().install(A.output::<String>(), text())).await?;

    let expected = "cannot install manifold \"a\": \"b\" asks \"a\" for u32, but \"a\" offers \
                    String";
    assert_eq!(refused, expected);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn an_input_of_another_type_is_refused_though_the_group_bounces_its_user() -> TestResult {
    let engine = test_engine().build()?;
    engine.install(A, idle()).await?;
    engine.install(B, add_one(A)).await?;
    let replace = || Change::new().replace(A.output::<String>(), text());

    let refused =
        [refusal(&engine, replace().bounce(B)).await?, refusal(&engine, replace().park(B)).await?];

    let expected = "cannot install manifold \"a\": \"b\" asks \"a\" for u32, but \"a\" offers \
                    String";
    assert_eq!(refused, [expected; 2]);
    engine.apply(replace().uninstall(B)).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn types_that_look_alike_are_told_apart_by_their_modules() -> TestResult {
    mod other {
        #[derive(Clone)]
        pub(super) struct String;
    }
    let engine = test_engine().build()?;
    engine.install(A.output::<String>(), text()).await?;

    let user =
        Manifold::builder().inputs(Name::<other::String>::new("a")).run(|_, up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
    let refused = refusal(&engine, Change::new().install(B.output::<()>(), user)).await?;

    let (asked, offered) =
        (std::any::type_name::<other::String>(), std::any::type_name::<String>());
    let expected = format!(
        "cannot install manifold \"b\": \"b\" asks \"a\" for {asked}, but \"a\" offers {offered}"
    );
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
async fn a_replacement_that_uses_itself_is_held_against_what_it_offers_itself() -> TestResult {
    const TEXT: Name<String> = Name::new("a");
    let engine = test_engine().build()?;
    engine.install(A, idle()).await?;
    let texts = |own: Manifold| engine.apply(Change::new().replace(TEXT, own));
    let offers_text = |up: crankcase_engine::manifold::Up<(String,)>| async move {
        up.ready((String::new(),)).wait().await;
        Ok(())
    };
    let of_text = Manifold::builder().inputs(TEXT).offers::<(String,)>();
    let of_number = Manifold::builder().inputs(A).offers::<(String,)>();

    let asks_new = texts(of_text.run(move |_, up| offers_text(up))).await;
    let asks_old = texts(of_number.run(move |_, up| offers_text(up))).await;

    assert!(matches!(asks_new, Err(ChangeError::Cycle { .. })), "{asks_new:?}");
    let Err(ChangeError::Several { errors, more: 0 }) = asks_old else {
        return Err(format!("not two things are wrong: {asks_old:?}").into());
    };
    let [ChangeError::InputMismatch { .. }, ChangeError::Cycle { .. }] = &*errors else {
        return Err(format!("other things are wrong: {errors:?}").into());
    };
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_name_that_stands_twice_is_found_wherever_the_others_stand() -> TestResult {
    let names: Vec<Name<u32>> =
        ["n0", "n1", "n2", "n3", "n4", "n5"].into_iter().map(Name::new).collect();
    let engine = test_engine().build()?;
    let installs = names.iter().cloned();
    engine.apply(installs.fold(Change::new(), |all, name| all.install(name, idle()))).await?;
    // The first three are in the order of their installs.
    let order = [1, 2, 4, 0, 3, 5].map(|index: usize| &names[index]);

    for twice in order {
        let bounces = order.into_iter().chain([twice]).cloned();
        let refused = refusal(&engine, bounces.fold(Change::new(), Change::bounce)).await?;
        assert_eq!(refused, format!("cannot apply the group: it names manifold \"{twice}\" twice"));
    }

    engine.apply(order.into_iter().cloned().fold(Change::new(), Change::bounce)).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_group_that_turns_a_dependency_round_is_no_cycle() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;

    engine.apply(Change::new().replace(B, idle()).replace(A, add_one(B))).await?;

    engine.running(A).await?;
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_group_that_takes_a_user_out_before_its_input_uses_it_is_no_cycle() -> TestResult {
    let engine = test_engine().build()?;
    engine.apply(Change::new().install(A, idle()).install(B, add_one(A))).await?;

    engine.apply(Change::new().uninstall(B).replace(A, add_one(B))).await?;
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

    let refused = engine.apply(Change::new().install(B, add_one(A)).bounce(C)).await;

    assert!(refused.is_err());
    assert!(graph(&engine).await?.nodes.is_empty());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn no_near_name_is_looked_for_among_many_that_are_long() -> TestResult {
    let engine = test_engine().build()?;
    let nearest = |error: ChangeError| match error {
        ChangeError::NotInstalled { nearest, .. } => Ok(nearest),
        other => Err(other),
    };
    let long = |index: usize| Name::<u32>::parse(&format!("{}{index:04}", "n".repeat(200)));
    let wrong = Name::<u32>::parse(&format!("{}wrong", "n".repeat(200)))?;
    engine.install(long(0)?, idle()).await?;
    let among_one = engine.bounce(wrong.clone()).await.err().ok_or("it was bounced")?;
    let mut many = Change::new();
    for index in 1..100 {
        many = many.install(long(index)?, idle());
    }
    engine.apply(many).await?;

    let among_many = engine.bounce(wrong.clone()).await.err().ok_or("it was bounced")?;

    assert_eq!(nearest(among_one)?, Some(long(0)?.to_string()));
    assert_eq!(nearest(among_many)?, None);
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn all_that_is_wrong_with_a_group_is_told() -> TestResult {
    const TEXT: Name<String> = Name::new("text");
    let name = Name::<()>::new;
    let engine = test_engine().build()?;
    engine.install(A, idle()).await?;
    engine.install(TEXT, text()).await?;
    engine.install(name("poller"), idle()).await?;
    let twice = Manifold::builder().inputs((A, A.optional())).offers::<(u8, u8)>();
    let asks_text = Manifold::builder().inputs((A.output::<String>(), A.output::<u8>()));
    let asks_text = asks_text.run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let group = Change::new()
        .install(A, idle())
        .bounce(name("poler"))
        .bounce(name("poller"))
        .park(name("poller"))
        .provide(Name::<u32>::new("text"), 1)
        .install(
            name("twice"),
            twice.run(|_, up| async move {
                up.ready((1, 2)).wait().await;
                Ok(())
            }),
        )
        .install(Name::<u32>::new("wrong"), text())
        .install(Name::<u32>::new("user"), add_one(Name::new("wrong")))
        .install(name("other"), asks_text)
        .install(C, idle().start_timeout(Duration::ZERO))
        .install(B, add_one(B));

    let refused = refusal(&engine, group).await?;

    assert_eq!(refused, include_str!("golden/refusal.txt").trim_end());
    Ok(clean_kill(engine).await?)
}

#[tokio::test(start_paused = true)]
async fn a_preview_tells_all_that_is_wrong_too() -> TestResult {
    let engine = test_engine().build()?;
    let group = || Change::new().bounce(A).install(B, text());

    let previewed = engine.preview(group()).await.err().ok_or("it was previewed")?;
    let refused = engine.apply(group()).await.err().ok_or("it was applied")?;

    assert!(matches!(&refused, ChangeError::Several { errors, more: 0 } if errors.len() == 2));
    assert_eq!(previewed, refused);
    Ok(clean_kill(engine).await?)
}

/// More names than are looked at in one slice, and than are told.
const MANY: usize = 10_000;

#[tokio::test(start_paused = true)]
async fn of_many_things_that_are_wrong_some_are_told_and_the_others_counted() -> TestResult {
    let engine = test_engine().build()?;
    let mut group = Change::new();
    for index in 0..MANY {
        group = group.bounce(Name::<()>::parse(&format!("n{index}"))?);
    }

    let refused = engine.apply(group).await.err().ok_or("it was applied")?;

    let ChangeError::Several { errors, more } = &refused else { return Err(refused.into()) };
    assert_eq!((errors.len(), errors.len() + more), (64, MANY));
    let text = refused.to_string();
    assert!(text.starts_with("cannot apply the change: 10000 things are wrong:\n  cannot bounce"));
    assert!(text.ends_with("\n  and 9936 more"), "{text}");
    Ok(clean_kill(engine).await?)
}
