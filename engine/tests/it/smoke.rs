use crankcase_engine::{Engine, Manifold, Name};

const A: Name<u32> = Name::new("a");
const B: Name<u32> = Name::new("b");
const C: Name<()> = Name::new("c");

fn add(input: Name<u32>) -> Manifold {
    Manifold::builder().inputs(input).offers::<(u32,)>().run(|value, up| async move {
        up.ready((value + 1,)).wait().await;
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn a_chain_starts_whatever_the_order_of_its_installs()
-> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build()?;
    let mut events = engine.events();
    engine
        .install(
            C,
            Manifold::builder().inputs(B).run(|_, up| async move {
                up.ready(()).wait().await;
                Ok(())
            }),
        )
        .await?;
    engine.install(B, add(A)).await?;
    engine.provide(A, 1).await?;
    engine.running(&C).await?;
    assert_eq!(engine.output(B).await?, 2);
    engine.provide(A, 5).await?;
    engine.settled().await?;
    assert_eq!(engine.output(B).await?, 6);
    println!("{}", engine.report().await);
    println!("{:?}", engine.why("c").await);
    engine.bounce(&A).await?;
    engine.uninstall(&A).await?;
    engine.settled().await?;
    println!("{}", engine.report().await);
    println!("{}", engine.why("c").await.unwrap());
    println!("{}", engine.graph().await.unwrap().to_dot());
    engine.stop().await?;
    println!("{}", engine.report().await);
    while let Some(crankcase_engine::Notice::Event(event)) = events.next().await {
        println!("{event}");
        if event.kind == crankcase_engine::EventKind::Finished {
            break;
        }
    }
    Ok(())
}
