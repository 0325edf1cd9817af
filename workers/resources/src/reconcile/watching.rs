use std::future::{Future, pending, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crankcase_engine::{EngineGone, Live, Stop};
use crankcase_workers::{Subscription, WatchError, Watches};

use crate::resource::Watch;

pub(crate) type Signal<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// How a worker learns that the state of its resource may have changed.
///
/// It subscribes anew when the watcher was started anew. While there is none, the periodic full
/// look is all there is.
#[derive(Debug)]
pub(crate) struct Watching {
    paths: Vec<PathBuf>,
    /// How often to look, if that is the only way.
    pub(super) poll: Option<Duration>,
    watches: Live<Watches>,
    subscriptions: Vec<Subscription>,
    is_current: bool,
}

impl Watching {
    pub(crate) fn new(watch: Watch, watches: Live<Watches>) -> Self {
        let (paths, poll) = match watch {
            Watch::Never => (Vec::new(), None),
            Watch::Poll(interval) => (Vec::new(), Some(interval)),
            Watch::Paths(paths) => (paths, None),
        };
        Self { paths, poll, watches, subscriptions: Vec::new(), is_current: false }
    }

    /// Subscribes, if that is still to be done. What is looked at afterwards is watched.
    pub(crate) async fn renew(&mut self, stop: &Stop) {
        if self.is_current {
            return;
        }
        self.is_current = true;
        self.subscriptions.clear();
        let Some(watches) = self.watches.get() else { return };
        if self.paths.is_empty() {
            return;
        }
        let paths = self.paths.clone();
        let subscribe = move || paths.iter().map(|path| subscribe(&watches, path)).collect();
        match stop.blocking::<Result<Vec<_>, WatchError>, _>(subscribe).await {
            Ok(Ok(subscriptions)) => self.subscriptions = subscriptions,
            Ok(Err(err)) => tracing::debug!(%err, "cannot watch; a new watcher will"),
            Err(panicked) => tracing::warn!(%panicked, "cannot watch"),
        }
    }

    /// Returns a signal for each thing that is watched.
    pub(crate) fn signals(&mut self) -> Vec<Signal<'_>> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        let is_current = &mut self.is_current;
        let watches = &mut self.watches;
        let renewed: Signal<'_> = Box::pin(async move {
            changed(watches).await;
            *is_current = false;
        });
        let told = self.subscriptions.iter_mut().map(|subscription| -> Signal<'_> {
            Box::pin(async move {
                if subscription.changed().await.is_err() {
                    pending::<()>().await;
                }
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
pub(super) async fn changed<T: Clone + 'static>(live: &mut Live<T>) {
    loop {
        match live.changed().await {
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(EngineGone) => pending().await,
        }
    }
}

/// Waits until one of the signals is there, and takes all that are there by then.
pub(crate) async fn any(mut signals: Vec<Signal<'_>>) {
    poll_fn(|context| {
        let count = signals.len();
        signals.retain_mut(|signal| signal.as_mut().poll(context).is_pending());
        if signals.len() < count { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
