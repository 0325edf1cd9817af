//! The seed of the jitter of a site.

use std::error::Error;
use std::fs;
use std::sync::Arc;

use crankcase_engine::{Engine, Name};
use crankcase_kinds::builtin;
use crankcase_manifest::SiteFiles;
use crankcase_manifolds::site;
use crankcase_resources::run::Reconcile;
use crankcase_resources::state::Records;

use super::machine::TestResult;

/// Returns the seed of a site's engine in an engine with a seed.
async fn seed_in(seed: u64, own: Option<u64>) -> Result<u64, Box<dyn Error>> {
    const RESOURCES: Name<Engine> = Name::new("resources");
    let (folder, name) = (tempfile::tempdir()?, Name::new("site"));
    let path = folder.path().join("site.yaml");
    fs::write(&path, "resources: {here: {type: noop}}")?;
    let site = SiteFiles::new(vec![path], builtin()).load()?;
    let engine = Engine::builder().seed(seed).build()?;
    engine.provide(name.clone(), Arc::new(site)).await?;
    let (watches, state) = (Name::new("watches"), folder.path().join("ledger"));
    let mut config = site::Config::new(name, watches, state, Records::default());
    config.seed = own;
    engine.install(RESOURCES, site::manifold(config)).await?;
    let seed = engine.output(RESOURCES).await?.seed();
    engine.stop().await?;
    Ok(seed)
}

#[tokio::test]
async fn a_sites_seed_follows_from_that_of_its_engine_unless_it_is_set() -> TestResult {
    let first = seed_in(1, None).await?;

    assert_eq!(seed_in(1, None).await?, first);
    assert_ne!(seed_in(2, None).await?, first);
    assert_eq!(seed_in(1, Some(5)).await?, 5);
    Ok(())
}

#[test]
fn resources_that_are_kept_by_no_engine_have_another_seed_each_time() {
    let seeds = [Reconcile::new(builtin()).seed, Reconcile::new(builtin()).seed];

    assert_ne!(seeds[0], seeds[1]);
}
