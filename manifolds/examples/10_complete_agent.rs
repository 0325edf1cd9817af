//! A complete agent of ten subsystems: a small news wire, in the frame that every agent has.
//!
//! A visitor reads it, changes its settings and ends it; without one it would run until a signal
//! comes.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    Backoff, Change, Changing, ConfigError, Engine, EngineInput, Live, Manifold, Name, Nested,
    Outcome, Stop, Worker,
};
use crankcase_manifolds::{Agent, Housing, config_file, file_watch, gate};
use crankcase_status::StateDir;
use crankcase_workers::{ConfigFileConfig, Gate, Unlocker, WatcherConfig, Watches};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};

/// What a person sets, in a file.
#[derive(PartialEq, Deserialize)]
struct Settings {
    motto: String,
}

/// What all news are kept in.
type News = Arc<Mutex<Vec<String>>>;

/// Takes news in.
#[derive(Clone)]
struct Intake(mpsc::Sender<String>);

/// How many news have come in.
#[derive(Clone, PartialEq)]
struct Count(usize);

const WATCHES: Name<Watches> = Name::new("watches");
const SETTINGS: Name<Arc<Settings>> = Name::new("settings");
const STORE: Name<News> = Name::new("store");
const UPGRADED: Name<Gate> = Name::new("upgraded");
const UPGRADE: Name<()> = Name::new("upgrade");
const INTAKE: Name<Intake> = Name::new("intake");
const FEED: Name<()> = Name::new("feed");
const PAGE: Name<String> = Name::new("page");
const BANNER: Name<String> = Name::new("banner");
const TENANT: Name<Engine> = Name::new("tenant");
const FRONT: Name<String> = Name::new("front");
const VISITOR: Name<()> = Name::new("visitor");

/// Follows the file; a version without a motto is refused, and the one before stays.
fn settings(path: &Path) -> Result<Manifold, ConfigError> {
    let has_motto = |settings: &Settings| match settings.motto.as_str() {
        "" => Err("motto is empty; expected a text".into()),
        _ => Ok(()),
    };
    config_file::manifold(ConfigFileConfig::new(path), WATCHES, has_motto)
}

fn store() -> Manifold {
    Manifold::builder().offers::<(News,)>().run(|(), up| async move {
        up.ready((News::default(),)).wait().await;
        Ok(())
    })
}

/// Does its work once, and is done.
fn upgrade() -> Manifold {
    let inputs = (STORE, UPGRADED.output::<Unlocker>());
    Manifold::builder().inputs(inputs).run(|(news, gate), up| async move {
        let _stop = up.ready(());
        news.lock().push("the wire is up".to_owned());
        gate.unlock();
        Ok(())
    })
}

struct Taking {
    news: News,
    asking: mpsc::Sender<String>,
    asked: mpsc::Receiver<String>,
    count: watch::Sender<Count>,
}

impl Worker for Taking {
    async fn run(mut self, stop: Stop) -> Outcome {
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                Some(text) = self.asked.recv() => {
                    self.news.lock().push(text);
                    self.count.send_modify(|count| count.0 += 1);
                }
            }
        }
    }
}

/// Takes news in, into a store that is upgraded.
fn intake() -> Manifold {
    let intake = Manifold::builder()
        .inputs(STORE)
        .start(|news, _ctx| async move {
            let (asking, asked) = mpsc::channel(16);
            Ok(Taking { news, asking, asked, count: watch::Sender::new(Count(0)) })
        })
        .output(|taking| Intake(taking.asking.clone()))
        .changing(|taking| taking.count.subscribe())
        .build();
    Housing::default().flags(vec![UPGRADED.output()]).decorate(intake)
}

/// Brings news, at the second try.
fn feed() -> Manifold {
    Manifold::builder().inputs(INTAKE).run(|intake, up| async move {
        if up.context().generation() == 1 {
            return Err("the line is busy".into());
        }
        let stop = up.ready(());
        intake.0.send("a worker was born".to_owned()).await?;
        stop.wait().await;
        Ok(())
    })
}

/// Made anew with new settings and whenever news have come.
fn page() -> Manifold {
    let inputs = (STORE, SETTINGS, INTAKE.output::<Count>());
    Manifold::builder().inputs(inputs).offers::<(String,)>().run(
        |(news, settings, _count), up| async move {
            let page = format!("{} ({})", news.lock().join(", "), settings.motto);
            up.ready((page,)).wait().await;
            Ok(())
        },
    )
}

/// A nested engine, whose worker makes a banner of the motto.
fn tenant() -> Nested {
    Nested::new(|| {
        let banner = Manifold::builder().inputs(SETTINGS).offers::<(String,)>().run(
            |settings, up| async move {
                up.ready((settings.motto.to_uppercase(),)).wait().await;
                Ok(())
            },
        );
        Change::new().install(BANNER, banner)
    })
    .import(SETTINGS, SETTINGS)
    .export(BANNER, BANNER)
}

fn front() -> Manifold {
    let inputs = (PAGE, BANNER.live());
    Manifold::builder().inputs(inputs).offers::<(Changing<String>,)>().run(
        |(page, mut banner), up| async move {
            let whole = |banner: Option<String>| format!("{}: {page}", banner.unwrap_or_default());
            let shown = watch::Sender::new(whole(banner.get()));
            let stop = up.ready((Changing::new(shown.subscribe()),));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    now = banner.changed() => shown.send_replace(whole(now?)),
                };
            }
        },
    )
}

/// Waits until a text is this.
async fn shown(texts: &mut Live<String>, wanted: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    while texts.get().is_none_or(|text| text != wanted) {
        texts.changed().await?;
    }
    Ok(())
}

/// Replaces the file as editors do.
fn write(path: &Path, motto: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, format!("motto: {motto}\n"))?;
    fs::rename(new, path)
}

#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn visit(engine: Engine, path: &Path) -> Outcome {
    let mut front = engine.output(FRONT).follow().await?;
    let wanted = "KEEP TURNING: the wire is up, a worker was born (keep turning)";
    shown(&mut front, wanted).await?;
    println!("{wanted}");

    write(path, "turn again")?;
    let wanted = "TURN AGAIN: the wire is up, a worker was born (turn again)";
    shown(&mut front, wanted).await?;
    println!("{wanted}");

    engine.settled().await?;
    let report = engine.report().await;
    println!("the agent is healthy: {}", report.is_healthy);
    for (name, worker) in &report.workers {
        println!("  {name} is {}, failed {} times", worker.state, worker.failures);
    }
    engine.kill();
    Ok(())
}

fn visitor(path: PathBuf) -> Manifold {
    Manifold::builder().inputs(EngineInput).run(move |engine, up| {
        let path = path.clone();
        async move {
            let _stop = up.ready(());
            visit(engine, &path).await
        }
    })
}

#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("settings.yaml");
    write(&path, "keep turning")?;
    let soon = Backoff::default().initial(Duration::from_millis(10));
    let ended = Agent::builder()
        .state_dir(StateDir::new(folder.path().join("state")))
        .install(WATCHES, file_watch::manifold(WatcherConfig::default())?)
        .install(SETTINGS, settings(&path)?)
        .install(STORE, store())
        .install(UPGRADED, gate::manifold())
        .install(UPGRADE, upgrade())
        .install(INTAKE, intake())
        .install(FEED, feed().backoff(soon))
        .install(PAGE, page())
        .install_nested(TENANT, tenant())
        .install(FRONT, front().essential())
        .install(VISITOR, visitor(path))
        .run()?;
    println!("{ended:?}");
    Ok(())
}
