//! Each worker takes its own part of one file of settings.

use std::error::Error;

use crankcase_engine::{Change, Changing, Engine, Live, Manifold, Name, Nested};
use tokio::sync::watch;

const SETTINGS: Name<Settings> = Name::new("settings");
const SERVER: Name<u16> = Name::new("server");
const SWEEPER: Name<()> = Name::new("sweeper");
const SITE: Name<Engine> = Name::new("site");
const BANNER: Name<String> = Name::new("banner");
const PAGE: Name<String> = Name::new("page");

#[derive(Clone, PartialEq)]
struct Settings {
    port: u16,
    keep: usize,
    banner: String,
}

/// Returns a manifold that offers the settings. In a daemon this is
/// `crankcase_manifolds::config_file`.
fn settings(receiver: watch::Receiver<Settings>) -> Manifold {
    Manifold::builder().offers::<(Changing<Settings>,)>().run(move |(), up| {
        let receiver = receiver.clone();
        async move {
            up.ready((Changing::new(receiver),)).wait().await;
            Ok(())
        }
    })
}

/// Returns a server that is bounced when its port changes.
fn server() -> Manifold {
    let port = SETTINGS.select(|settings| settings.port);
    Manifold::builder().inputs(port).offers::<(u16,)>().run(|port, up| async move {
        up.ready((port,)).wait().await;
        Ok(())
    })
}

/// Returns a sweeper that is told of a new limit, and is never bounced by it.
fn sweeper(told: watch::Sender<Vec<usize>>) -> Manifold {
    let keep = SETTINGS.select(|settings| settings.keep).live();
    Manifold::builder().inputs(keep).run(move |keep, up| {
        let (mut keep, told): (Live<usize>, _) = (keep, told.clone());
        async move {
            let stop = up.ready(());
            loop {
                if let Some(keep) = keep.get() {
                    told.send_modify(|told| told.push(keep));
                }
                tokio::select! {
                    () = stop.wait() => return Ok(()),
                    changed = keep.changed() => drop(changed?),
                }
            }
        }
    })
}

/// Returns a nested engine that gets nothing of the settings but the banner.
fn site() -> Nested {
    let contents = || {
        let page =
            Manifold::builder().inputs(BANNER).offers::<(String,)>().run(|banner, up| async move {
                up.ready((format!("<h1>{banner}</h1>"),)).wait().await;
                Ok(())
            });
        Change::new().install(PAGE, page)
    };
    Nested::new(contents)
        .import(SETTINGS.select(|settings| settings.banner.clone()), BANNER)
        .export(PAGE, PAGE)
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let first = Settings { port: 80, keep: 3, banner: "hello".to_owned() };
    let sender = watch::Sender::new(first);
    let (told, mut heard) = watch::channel(Vec::new());

    let engine = Engine::builder().build()?;
    let change = Change::new()
        .install(SETTINGS, settings(sender.subscribe()))
        .install(SERVER, server())
        .install(SWEEPER, sweeper(told))
        .install_nested(SITE, site());
    engine.apply(change).await?;
    let mut page = engine.output(PAGE).follow().await?;
    println!("page {}", page.value().await?);

    // Only the page has to do with the banner.
    sender.send_modify(|settings| settings.banner = "welcome".to_owned());
    while page.value().await? != "<h1>welcome</h1>" {
        page.changed().await?;
    }
    println!("page {}", page.value().await?);

    // The limit moves the sweeper, which runs on.
    sender.send_modify(|settings| settings.keep = 5);
    println!("kept {:?}", heard.wait_for(|told| told.len() == 2).await?.clone());

    // The port bounces the server.
    let mut port = engine.output(SERVER).follow().await?;
    port.value().await?;
    sender.send_modify(|settings| settings.port = 8080);
    while port.value().await? != 8080 {
        port.changed().await?;
    }
    for (name, worker) in engine.report().await.workers {
        println!("{name} was started {} times", worker.starts);
    }
    engine.stop().await?;
    Ok(())
}
