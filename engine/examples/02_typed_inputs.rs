//! Typed inputs: a required one, an optional one, and a live one.

use std::error::Error;

use crankcase_engine::{Engine, Manifold, Name};
use tokio::sync::mpsc::{self, UnboundedSender};

const ROOT: Name<String> = Name::new("root");
const MOTTO: Name<String> = Name::new("motto");
const VISITORS: Name<u32> = Name::new("visitors");
const PAGE: Name<()> = Name::new("page");

/// Returns a worker that is a closure, and says what it is given.
fn page(said: UnboundedSender<String>) -> Manifold {
    Manifold::builder().inputs((ROOT, MOTTO.optional(), VISITORS.live())).run_with(
        said,
        |said, (root, motto, mut visitors), up| async move {
            let generation = up.context().generation();
            let now = visitors.get();
            said.send(format!("generation {generation}: {root}, {motto:?}, {now:?}"))?;
            let stop = up.ready(());
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    now = visitors.changed() => said.send(format!("  sees {:?} visitors", now?))?,
                }
            }
        },
    )
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (saying, mut said) = mpsc::unbounded_channel();
    let mut say = async || println!("{}", said.recv().await.unwrap_or_default());
    let engine = Engine::builder().build()?;

    // Without its required input it is not started, and the engine can say so.
    engine.install(PAGE, page(saying)).await?;
    engine.settled().await?;
    println!("{}", engine.why("page").await.ok_or("there is no page")?);

    engine.provide(ROOT, "/srv".to_owned()).await?;
    say().await;

    // A live input comes, changes and goes without a bounce.
    engine.provide(VISITORS, 3).await?;
    say().await;
    engine.uninstall(VISITORS).await?;
    say().await;

    // An optional input bounces whoever asks for it, when it comes and when it goes.
    engine.provide(MOTTO, "keep turning".to_owned()).await?;
    say().await;
    engine.uninstall(MOTTO).await?;
    say().await;

    // Types are compared at install, on both sides, and so are cycles. Nothing has changed then.
    let depth = engine.provide(Name::new("motto"), 7_u8).await;
    println!("refused: {}", depth.err().ok_or("it was not refused")?);
    let circle = Manifold::builder().inputs(PAGE).offers::<(u32,)>().run(|(), up| async move {
        up.ready((0,)).wait().await;
        Ok(())
    });
    let circle = engine.install(VISITORS, circle).await;
    println!("refused: {}", circle.err().ok_or("it was not refused")?);

    engine.stop().await?;
    Ok(())
}
