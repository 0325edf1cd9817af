//! The manifold of the worker that loads a site.

use std::sync::Arc;

use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
use crankcase_manifest::{LastGood, SiteFiles, SiteJudge, SiteSource};
use crankcase_resources::Site;
use crankcase_workers::{SignalHandle, Watches};
use tokio::sync::watch;

/// The site, and the inputs that cause its next load.
#[derive(Debug, Clone)]
pub struct Config {
    /// The files from which the site is loaded.
    pub files: SiteFiles,
    /// The site of the first load.
    pub site: Arc<Site>,
    /// The input that reports SIGHUP.
    pub signals: Name<SignalHandle>,
    /// The input that reports changes of files. It may come, go and come again.
    pub watches: Name<Watches>,
}

/// Returns a manifold that offers the site of the last load, as a changing output.
///
/// The last good site outlives the worker.
pub fn manifold(config: Config) -> Manifold {
    judged(config, SiteJudge::default())
}

/// Returns the same as [`manifold()`], with a judge of facts. The judge gets each loaded site.
pub fn judged(config: Config, judge: SiteJudge) -> Manifold {
    with(config, judge, None)
}

/// Returns the same as [`judged()`]. Each load is noted in the last good manifest, and the site
/// goes back to that manifest on request.
pub fn going_back(config: Config, judge: SiteJudge, last_good: LastGood) -> Manifold {
    with(config, judge, Some(last_good))
}

fn with(config: Config, judge: SiteJudge, last_good: Option<LastGood>) -> Manifold {
    let inputs = (config.signals.clone(), config.watches.live());
    let last = watch::Sender::new(Arc::clone(&config.site));
    Manifold::builder()
        .inputs(inputs)
        .start_with((config, last, judge, last_good), |given, inputs, ctx| async move {
            let (config, last, judge, last_good) = given;
            let current = last.subscribe();
            let source = SiteSource::new(config.files, (last, judge), inputs, ctx.health());
            let source = match last_good {
                Some(last_good) => source.with_last_good(last_good),
                None => source,
            };
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
