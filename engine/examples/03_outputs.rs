//! Several outputs of one worker, one of which changes while it runs.

use std::error::Error;

use crankcase_engine::{Changing, Engine, Manifold, Name, Outcome, Stop, Worker};
use tokio::sync::watch;

/// Each output has a type of its own, by which it is asked for.
#[derive(Clone)]
struct Address(String);

/// Only a changing output must be comparable: an equal value is no change.
#[derive(Clone, PartialEq)]
struct Load(u32);

/// Lets this program play the load of the server.
#[derive(Clone)]
struct Dial(watch::Sender<Load>);

struct Server {
    load: watch::Sender<Load>,
}

impl Worker for Server {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// The name's own type is what `SERVER` alone asks for; the others are asked for by type.
const SERVER: Name<Address> = Name::new("server");

fn server() -> Manifold {
    Manifold::builder()
        .start(|(), _ctx| async move { Ok(Server { load: watch::Sender::new(Load(1)) }) })
        .output(|_| Address("[::1]:80".to_owned()))
        .output(|server| Dial(server.load.clone()))
        .changing(|server| server.load.subscribe())
        .build()
}

/// What a dependent has seen: in which generation, and which load.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    generation: u32,
    load: u32,
}

const GAUGE: Name<Seen> = Name::new("gauge");
const PANEL: Name<Seen> = Name::new("panel");

/// Requires the load: it is bounced by each new value.
fn gauge() -> Manifold {
    let builder = Manifold::builder().inputs(SERVER.output::<Load>()).offers::<(Seen,)>();
    builder.run(|load, up| async move {
        let seen = Seen { generation: up.context().generation(), load: load.0 };
        up.ready((seen,)).wait().await;
        Ok(())
    })
}

/// Takes the load live: it sees each new value, and is never bounced by one.
fn panel() -> Manifold {
    let load = SERVER.output::<Load>().live().required();
    let builder = Manifold::builder().inputs(load).offers::<(Changing<Seen>,)>();
    builder.run(|mut load, up| async move {
        let generation = up.context().generation();
        let seen = Seen { generation, load: load.get().0 };
        let sender = watch::Sender::new(seen);
        let stop = up.ready((Changing::new(sender.subscribe()),));
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                load = load.changed() => {
                    sender.send_replace(Seen { generation, load: load?.0 });
                }
            }
        }
    })
}

/// Waits until a dependent has seen a load.
async fn seen(engine: &Engine, name: Name<Seen>, load: u32) -> Result<Seen, Box<dyn Error>> {
    let mut followed = engine.output(name).follow().await?;
    loop {
        match followed.get() {
            Some(seen) if seen.load == load => return Ok(seen),
            _ => followed.changed().await?,
        };
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().build()?;
    engine.install(SERVER, server()).await?;
    engine.install(GAUGE, gauge()).await?;
    engine.install(PANEL, panel()).await?;
    println!("the server is at {}", engine.output(SERVER).await?.0);

    let Dial(dial) = engine.output(SERVER.output::<Dial>()).await?;
    for load in [1, 7, 9] {
        dial.send_replace(Load(load));
        println!("gauge: {:?}", seen(&engine, GAUGE, load).await?);
        println!("panel: {:?}", seen(&engine, PANEL, load).await?);
    }

    // When the server goes, what it offered is withdrawn: the panel runs on without.
    engine.park(SERVER).await?;
    engine.settled().await?;
    for name in ["gauge", "panel", "server"] {
        let report = engine.report().await;
        println!("{name} is {}", report.workers[name].state);
    }
    engine.stop().await?;
    Ok(())
}
