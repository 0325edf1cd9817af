//! Sites that are loaded again.

use std::error::Error;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Live, Manifold, Name};
use crankcase_manifolds::{SIGNALS, file_watch, source};
use crankcase_resources::{Kinds, Overrides, Site, SiteFiles};
use crankcase_workers::{Signals, WatcherConfig, Watches};
use tokio::sync::watch;
use tokio::time::timeout;

const WATCHES: Name<Watches> = Name::new("watches");
const SITE: Name<Arc<Site>> = Name::new("site");
const USER: Name<()> = Name::new("user");

#[tokio::test]
async fn a_change_before_the_manifest_is_watched_is_not_missed() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("site.yaml");
    fs::write(&path, "resources: {old: {type: noop}}")?;
    let (paths, overrides) = (vec![path.clone()], Overrides::default());
    let files = SiteFiles { paths, overrides, kinds: Kinds::builtin() };
    let site = Arc::new(files.load()?);
    let engine = Engine::builder().build()?;
    engine.provide(SIGNALS, Signals::new()?.handle()).await?;
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    engine.running(&WATCHES).await?;

    fs::write(&path, "resources: {new: {type: noop}}")?;
    let config = source::Config { files, site, signals: SIGNALS, watches: WATCHES };
    engine.install(SITE, source::manifold(config)).await?;

    let (sender, mut names) = watch::channel(String::new());
    let user = Manifold::builder().inputs(SITE.live().required()).offers::<()>();
    let user = user.run_with(sender, |names, mut site: Live<Arc<Site>>, up| async move {
        let stop = up.ready(());
        let mut next = site.get();
        loop {
            names.send_replace(next.map_or_else(String::new, |site| first_name(&site)));
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                changed = site.changed() => next = changed?,
            }
        }
    });
    engine.install(USER, user).await?;
    timeout(Duration::from_secs(60), names.wait_for(|name| name == "new")).await??;
    Ok(engine.stop().await?)
}

fn first_name(site: &Site) -> String {
    site.declarations().first().map_or_else(String::new, |declared| declared.name.clone())
}
