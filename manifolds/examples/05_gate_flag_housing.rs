//! Workers that run only while something is so: a gate, a flag, a fortress, and the housing.

use std::error::Error;

use crankcase_engine::{Engine, EventKind, Events, Manifold, Name, Notice};
use crankcase_manifolds::{Housing, flag, fortress, gate};
use crankcase_workers::{Flag, Gate, Guard, Guest, Unlocker, ValueHandle};

/// Unlocked once, by whoever upgrades the data.
const UPGRADED: Name<Gate> = Name::new("upgraded");
/// Set and unset by hand.
const ENABLED: Name<Flag> = Name::new("enabled");
/// Locked down by whoever must be alone.
const DATA: Name<Guest> = Name::new("data");
const WEB: Name<()> = Name::new("web");

/// A worker that knows nothing of all that.
fn web() -> Manifold {
    Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

/// Follows what happens to the web.
struct Web {
    events: Events,
    last: String,
}

impl Web {
    /// Prints how it starts and ends, up to this.
    #[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
    async fn until(&mut self, wanted: &str) {
        while let Some(Notice::Event(event)) = self.events.next().await {
            let text = match event.kind {
                EventKind::Started { .. } => "started".to_owned(),
                EventKind::Ended { .. } => event.kind.to_string(),
                _ => continue,
            };
            if event.path() == "/web" && text != self.last {
                println!("  {text}");
                self.last = text;
                if self.last.contains(wanted) {
                    return;
                }
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let housing = Housing::default().flags(vec![UPGRADED.output::<Flag>(), ENABLED]).occupy(DATA);
    let engine = Engine::builder().build()?;
    let mut web_does = Web { events: engine.events(), last: String::new() };
    engine.install(UPGRADED, gate::manifold()).await?;
    engine.install(ENABLED, flag::manifold(Flag::UNSET)).await?;
    engine.install(DATA, fortress::manifold()).await?;
    engine.install(WEB, housing.decorate(web())).await?;
    web_does.until("are not set").await;

    println!("the data is upgraded:");
    engine.output(UPGRADED.output::<Unlocker>()).await?.unlock();
    web_does.until("is not set").await;

    println!("it is enabled:");
    let enabled = engine.output(ENABLED.output::<ValueHandle<Flag>>()).await?;
    enabled.set(Flag::SET);
    web_does.until("is locked").await;

    println!("the data is unlocked:");
    let guard = engine.output(DATA.output::<Guard>()).await?;
    guard.unlock();
    web_does.until("started").await;

    println!("someone must be alone with the data:");
    guard.lockdown().await?;
    web_does.until("is locked").await;
    println!("{}", engine.why("web").await.ok_or("there is no web")?);
    guard.unlock();
    web_does.until("started").await;

    println!("it is disabled:");
    enabled.set(Flag::UNSET);
    web_does.until("is not set").await;

    engine.stop().await?;
    Ok(())
}
