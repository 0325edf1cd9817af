//! The watches of the files of one resource.

use std::future::{Future, pending, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::Poll;

use crankcase_engine::{EngineGone, Live, Stop};
use crankcase_workers::{Subscription, WatchError, Watches, Writing};

use crate::base::blocking::thread;
use crate::schedule::cause::Why;

/// Says that something has changed, and what.
pub(crate) type Signal<'a> = Pin<Box<dyn Future<Output = Why> + Send + 'a>>;

/// How a worker learns that files have changed.
///
/// It subscribes anew when there is another watcher. While there is none, the periodic full
/// look is all there is.
#[derive(Debug)]
pub struct Watching {
    /// The paths, in order, each with what tells of it.
    paths: Vec<(PathBuf, Option<Subscription>)>,
    watches: Live<Watches>,
    missing: Missing,
}

/// Which subscriptions are still to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// None, as far as they can be had.
    Nothing,
    /// Those of some paths.
    Some,
    /// All: what is there is of a watcher that has ended.
    All,
}

impl Watching {
    /// Returns what watches nothing yet.
    pub fn new(watches: Live<Watches>) -> Self {
        Self { paths: Vec::new(), watches, missing: Missing::All }
    }

    /// Watches something else, from the next renewal on.
    ///
    /// A path that was watched before stays so: what has changed and was not looked at yet is told.
    pub fn exchange(&mut self, mut paths: Vec<PathBuf>) {
        paths.sort_unstable();
        paths.dedup();
        let mut paths: Vec<_> = paths.into_iter().map(|path| (path, None)).collect();
        if paths.iter().map(|(path, _)| path).eq(self.paths.iter().map(|(path, _)| path)) {
            return;
        }
        for (path, subscription) in &mut paths {
            let before = self.paths.iter_mut().find(|(before, _)| before == path);
            *subscription = before.and_then(|(_, subscription)| subscription.take());
        }
        self.paths = paths;
        if self.missing == Missing::Nothing {
            self.missing = Missing::Some;
        }
    }

    /// Subscribes, if that is still to be done. What is looked at afterwards is watched.
    pub async fn renew(&mut self, stop: &Stop) {
        let missing = std::mem::replace(&mut self.missing, Missing::Nothing);
        if missing == Missing::Nothing {
            return;
        }
        // The subscriptions may belong to a watcher that has ended meanwhile. `changed` does not
        // report a watcher that is found here.
        if has_changed(&mut self.watches).await || missing == Missing::All {
            self.paths.iter_mut().for_each(|(_, subscription)| *subscription = None);
        }
        let Some(watches) = self.watches.get() else { return };
        let mut missing = self.paths.iter_mut().filter(|(_, told)| told.is_none());
        let (paths, told): (Vec<_>, Vec<_>) =
            missing.by_ref().map(|(path, told)| (path.clone(), told)).unzip();
        if paths.is_empty() {
            return;
        }
        let thread = tokio::select! {
            biased;
            () = stop.wait() => return,
            thread = thread() => thread,
        };
        let subscribe = move || {
            // Held by the work, which may go on when nobody waits for it any more.
            let _thread = thread;
            paths.iter().map(|path| subscribe(&watches, path)).collect::<Result<_, _>>()
        };
        match stop.blocking::<Result<Vec<_>, WatchError>, _>(subscribe).await {
            Ok(Ok(had)) => {
                told.into_iter().zip(had).for_each(|(told, had)| *told = Some(had));
            }
            Ok(Err(err)) => tracing::debug!(%err, "cannot watch; a new watcher will"),
            Err(panicked) => tracing::warn!(%panicked, "cannot watch"),
        }
    }

    /// Returns what watches nothing yet, with the same watcher.
    pub(crate) fn beside(&self) -> Self {
        Self::new(self.watches.clone())
    }

    /// Returns whether one of the files is being written.
    pub fn writing(&self) -> Writing {
        let mut told = self.paths.iter().filter_map(|(_, told)| told.as_ref());
        match told.any(|subscription| subscription.writing() == Writing::Open) {
            true => Writing::Open,
            false => Writing::Closed,
        }
    }

    /// Waits until something that is watched may have changed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) {
        any(self.signals()).await;
    }

    /// Returns a signal for each thing that is watched.
    pub(crate) fn signals(&mut self) -> Vec<Signal<'_>> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        let missing = &mut self.missing;
        let watches = &mut self.watches;
        let renewed: Signal<'_> = Box::pin(async move {
            changed(watches).await;
            *missing = Missing::All;
            Why::Watcher
        });
        let paths = self.paths.iter_mut();
        let subscriptions = paths.filter_map(|(path, told)| Some((&*path, told.as_mut()?)));
        let told = subscriptions.map(|(path, subscription)| -> Signal<'_> {
            Box::pin(async move {
                if subscription.changed().await.is_err() {
                    pending::<()>().await;
                }
                Why::Path(path.clone())
            })
        });
        told.chain([renewed]).collect()
    }
}

fn subscribe(watches: &Watches, path: &Path) -> Result<Subscription, WatchError> {
    // A manifest that was named by a relative path has relative files beside it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    watches.watch(&absolute)
}

/// Waits until a live input has a new value; that it is gone for a while means nothing.
async fn changed<T: Clone + 'static>(live: &mut Live<T>) {
    loop {
        match live.changed().await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(EngineGone) => pending().await,
        }
    }
}

/// Returns whether a live input has a new value; that is then seen.
async fn has_changed<T: Clone + 'static>(live: &mut Live<T>) -> bool {
    let mut changed = pin!(changed(live));
    poll_fn(|context| Poll::Ready(changed.as_mut().poll(context).is_ready())).await
}

/// Waits until one of the signals is there, and returns all that are there by then.
pub(crate) async fn any(mut signals: Vec<Signal<'_>>) -> Vec<Why> {
    poll_fn(|context| {
        let mut whys = Vec::new();
        signals.retain_mut(|signal| match signal.as_mut().poll(context) {
            Poll::Ready(why) => {
                whys.push(why);
                false
            }
            Poll::Pending => true,
        });
        if whys.is_empty() { Poll::Pending } else { Poll::Ready(whys) }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crankcase_engine::{Engine, Name};
    use crankcase_workers::{Watcher, WatcherConfig};

    use super::*;

    const WATCHES: Name<Watches> = Name::new("watches");

    /// Returns the changes that are reported without waiting.
    async fn told(watching: &mut Watching) -> Vec<Why> {
        let mut whys = pin!(any(watching.signals()));
        poll_fn(|context| match whys.as_mut().poll(context) {
            Poll::Ready(whys) => Poll::Ready(whys),
            Poll::Pending => Poll::Ready(Vec::new()),
        })
        .await
    }

    #[tokio::test]
    async fn a_watcher_is_told_of_unless_it_was_found_by_the_first_renewal()
    -> Result<(), Box<dyn Error>> {
        let engine = Engine::builder().build()?;
        let mut arrivals = engine.output(WATCHES).follow().await?;
        let mut watching = Watching::new(arrivals.clone());
        watching.exchange(vec!["/".into()]);
        let (_stopper, stop) = Stop::pair();
        for expected in [vec![], vec![Why::Watcher]] {
            let watcher = Watcher::new(WatcherConfig::default())?;
            engine.provide(WATCHES, watcher.handle()).await?;
            changed(&mut arrivals).await;
            // A user that has looked and renews afterwards has to look again.
            watching.renew(&stop).await;
            assert_eq!(told(&mut watching).await, expected);
        }
        watching.renew(&stop).await;
        assert_eq!(told(&mut watching).await, []);
        engine.stop().await?;
        Ok(())
    }
}
