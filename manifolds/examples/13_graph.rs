//! Keeps a graph that is declared from Rust, without a manifest, until all of it is as declared.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::{Engine, Name, Stop};
use crankcase_kinds::{EntryPath, File, builtin};
use crankcase_manifolds::{file_watch, site};
use crankcase_resources::front::Surroundings;
use crankcase_resources::state::Records;
use crankcase_resources::{ApplyOptions, Graph, PlanOptions, Site};
use crankcase_state::SqliteStore;
use crankcase_workers::{WatcherConfig, Watches};
use tokio::sync::watch;

const SITE: Name<Arc<Site>> = Name::new("site");
const WATCHES: Name<Watches> = Name::new("watches");
const RESOURCES: Name<Engine> = Name::new("resources");
const SETTLED: Name<()> = Name::new("settled");

/// Returns a folder with a page in it.
fn website(root: &Path) -> Result<Graph, Box<dyn Error>> {
    let root = root.display();
    let docroot = Graph::of("docroot", File::new(EntryPath::parse(&format!("{root}/www/"))?));
    let path = EntryPath::parse(&format!("{root}/www/index.html"))?;
    let page = File { content: Some("hello\n".into()), ..File::new(path) };
    Ok(Graph::of("page", page).after(&docroot)?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let site = website(folder.path())?.site(&builtin(), &Surroundings::new(folder.path()))?;

    let plan = site.plan(&PlanOptions::default()).await;
    println!("{} would change", plan.changes());

    // Once, as `crankcase apply` does, or for as long as the engine runs.
    let engine = Engine::builder().build()?;
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    engine.provide(SITE, Arc::new(site)).await?;
    let state = folder.path().join("state");
    let records = Records::open(Arc::new(SqliteStore::open(&state)?))?;
    let config = site::Config::new(SITE, WATCHES, state, records);
    engine.install(RESOURCES, site::manifold(config)).await?;
    let (done, _report) = watch::channel(None);
    engine.install(SETTLED, site::until_settled(SITE, RESOURCES, done)).await?;
    engine.wait().await?;

    print!("the page says {}", fs::read_to_string(folder.path().join("www/index.html"))?);
    let again = website(folder.path())?.site(&builtin(), &Surroundings::new(folder.path()))?;
    let (_stopper, stop) = Stop::pair();
    let account = again.apply(&ApplyOptions::default(), stop).await;
    println!("{} changed", account.changes());
    Ok(())
}
