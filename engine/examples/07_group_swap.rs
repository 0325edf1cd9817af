//! A group of changes: looked at before, then applied as one wave, or refused as a whole.

use std::error::Error;

use crankcase_engine::{Change, Engine, EventKind, Events, Manifold, Name, Notice};

const OLD: Name<String> = Name::new("old-store");
const NEW: Name<String> = Name::new("new-store");
const CACHE: Name<String> = Name::new("cache");
const WEB: Name<String> = Name::new("web");

/// Returns a worker that offers a text of its own.
fn store(text: &'static str) -> Manifold {
    Manifold::builder().offers::<(String,)>().run(move |(), up| async move {
        up.ready((text.to_owned(),)).wait().await;
        Ok(())
    })
}

/// Returns a worker that offers what it is made of.
fn user(inputs: Vec<Name<String>>) -> Manifold {
    Manifold::builder().inputs(inputs).offers::<(String,)>().run(|inputs, up| async move {
        up.ready((format!("({})", inputs.join(" ")),)).wait().await;
        Ok(())
    })
}

/// The change that is wanted: another store under the cache and the web.
fn swap() -> Change {
    Change::new()
        .uninstall(OLD)
        .install(NEW, store("new"))
        .replace(CACHE, user(vec![NEW]))
        .replace(WEB, user(vec![CACHE, NEW]))
}

/// Counts the starts of a worker, and finds who asked for the change, up to the engine's end.
async fn account(mut events: Events, path: &str) -> (usize, Option<String>) {
    let (mut starts, mut asked) = (0, None);
    while let Some(Notice::Event(event)) = events.next().await {
        match event.kind {
            EventKind::Starting { .. } if event.path() == path => starts += 1,
            EventKind::Replaced if event.path() == path => {
                asked = event.origin.as_ref().map(ToString::to_string);
            }
            _ => {}
        }
    }
    (starts, asked)
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().build()?;
    let first = Change::new()
        .install(OLD, store("old"))
        .install(CACHE, user(vec![OLD]))
        .install(WEB, user(vec![CACHE, OLD]));
    engine.apply(first).await?;
    println!("web is {}", engine.output(WEB).await?);

    println!("the swap would:");
    print!("{}", engine.preview(swap()).await?);

    // One wrong thing in it, and nothing of it is done.
    let refused = engine.apply(swap().park(Name::<()>::new("cash"))).await;
    println!("refused: {}", refused.err().ok_or("it was not refused")?);
    println!("web is {}", engine.output(WEB).await?);

    // Users are stopped before what they use, and each worker is started once.
    let events = engine.events();
    engine.clone().asked_by("ada", "the old disk is full").apply(swap()).await?;
    println!("web is {}", engine.output(WEB).await?);
    engine.stop().await?;
    let (starts, asked) = account(events, "/web").await;
    println!("web was started {starts} time, as {} asked", asked.ok_or("nobody asked")?);
    Ok(())
}
