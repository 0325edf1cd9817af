//! What an end means: parking, errors and backoff, panics, a missing thing, a fatal one.

use std::error::Error;
use std::time::Duration;

use crankcase_engine::{
    Backoff, Engine, EventKind, Events, Exit, Intensity, Manifold, Name, Notice, Policy,
};

/// What the dialer is to meet. A new one is a changed input, which ends a wait.
#[derive(Clone, Copy)]
enum Line {
    Dead,
    Haunted,
    Unpaid,
    Good,
    OnFire,
}

const LINE: Name<Line> = Name::new("line");
const DIALER: Name<()> = Name::new("dialer");
const CALL: Name<()> = Name::new("call");

/// A worker does not retry: it ends and says how, and the engine decides.
fn dialer() -> Manifold {
    let manifold = Manifold::builder().inputs(LINE).run(|line, up| async move {
        match line {
            Line::Dead => return Err("nobody picks up".into()),
            Line::Haunted => panic!("a voice from nowhere"),
            Line::Unpaid => return Err(Exit::missing("the bill is to be paid")),
            Line::OnFire => return Err(Exit::fatal("the mast burns")),
            Line::Good => {}
        }
        up.ready(()).wait().await;
        Ok(())
    });
    manifold.intensity(Intensity::new(3, Duration::from_secs(600)))
}

fn call() -> Manifold {
    Manifold::builder().inputs(DIALER).run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

/// Prints what happens to the dialer, up to what is waited for.
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn until(events: &mut Events, is_last: impl Fn(&EventKind) -> bool) {
    while let Some(Notice::Event(event)) = events.next().await {
        if event.path() == "/dialer" {
            println!("  {}", event.kind);
            if is_last(&event.kind) {
                return;
            }
        }
    }
}

// With a paused clock a wait takes no time, and without jitter it has its exact length. A program
// has neither.
#[tokio::main(flavor = "current_thread", start_paused = true)]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder()
        .policy(Policy::default().backoff(Backoff::default().jitter(0.0)))
        .build()?;
    let mut events = engine.events();
    engine.provide(LINE, Line::Good).await?;
    engine.install(DIALER, dialer()).await?;
    engine.install(CALL, call()).await?;
    engine.running(CALL).await?;

    println!("parked by hand, it stays so until it is unparked:");
    engine.park(DIALER).await?;
    until(&mut events, |kind| matches!(kind, EventKind::Ended { .. })).await;
    println!("{}", engine.why("call").await.ok_or("there is no call")?);
    engine.unpark(DIALER).await?;
    engine.running(CALL).await?;

    println!("it fails, and waits longer each time:");
    engine.provide(LINE, Line::Dead).await?;
    until(&mut events, |kind| matches!(kind, EventKind::Waiting { failures: 2, .. })).await;
    println!("{}", engine.why("call").await.ok_or("there is no call")?);

    println!("a panic is a failure; three are borne, and one more parks it:");
    engine.provide(LINE, Line::Haunted).await?;
    until(&mut events, |kind| matches!(kind, EventKind::Spent { .. })).await;
    println!("{}", engine.why("call").await.ok_or("there is no call")?);

    println!("what is missing is no failure:");
    engine.provide(LINE, Line::Unpaid).await?;
    until(&mut events, |kind| matches!(kind, EventKind::Ended { .. })).await;
    println!("{}", engine.why("call").await.ok_or("there is no call")?);

    println!("a changed input starts it again:");
    engine.provide(LINE, Line::Good).await?;
    until(&mut events, |kind| matches!(kind, EventKind::Started { .. })).await;

    println!("what is fatal ends the engine:");
    engine.provide(LINE, Line::OnFire).await?;
    let fatal = engine.wait().await.err().ok_or("it ended well")?;
    println!("{fatal}: {}", fatal.source().ok_or("no cause")?);
    Ok(())
}
