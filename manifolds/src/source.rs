//! The manifold of the worker that loads a site.

use std::sync::Arc;

use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
use crankcase_manifest::{SiteFiles, SiteJudge, SiteSource};
use crankcase_resources::Site;
use crankcase_workers::{SignalHandle, Watches};
use tokio::sync::watch;

/// The site, and the inputs with which it is loaded again.
#[derive(Debug, Clone)]
pub struct Config {
    /// The files from which the site is loaded.
    pub files: SiteFiles,
    /// The site as it was loaded at first.
    pub site: Arc<Site>,
    /// The input that tells that SIGHUP has come.
    pub signals: Name<SignalHandle>,
    /// The input that tells that files have changed. It may come, go and come again.
    pub watches: Name<Watches>,
}

/// Returns a manifold that offers the site that was loaded last, as a changing output.
///
/// The last good site outlives the worker.
pub fn manifold(config: Config) -> Manifold {
    judged(config, SiteJudge::default())
}

/// Returns the same as [`manifold()`], with a judge of facts that is told of each site that is loaded.
pub fn judged(config: Config, judge: SiteJudge) -> Manifold {
    let inputs = (config.signals.clone(), config.watches.live());
    let last = watch::Sender::new(Arc::clone(&config.site));
    Manifold::builder()
        .inputs(inputs)
        .start_with((config, last, judge), |(config, last, judge), inputs, ctx| async move {
            let current = last.subscribe();
            let source = SiteSource::new(config.files, (last, judge), inputs, ctx.health());
            Ok(Source { source, current })
        })
        .changing(|source| source.current.clone())
        .build()
}

struct Source {
    source: SiteSource,
    current: watch::Receiver<Arc<Site>>,
}

impl Worker for Source {
    async fn run(self, stop: Stop) -> Outcome {
        self.source.run(stop).await
    }
}
