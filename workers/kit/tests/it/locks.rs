//! Code of users that is run by the kit: another thread can do anything meanwhile, as no lock is held.

use std::fs;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_testing::{Bare, Journal, clean_kill};
use crankcase_workers::{
    ConfigFile, ConfigFileConfig, Fortress, LastGood, ValueHandle, Watcher, WatcherConfig,
};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;

use crate::running::{TestResult, guarded};

/// Returns whether another thread comes through with this, while the present one waits for it.
fn comes_through(work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        work();
        done.send(())
    });
    is_done.recv_timeout(Duration::from_secs(300)).is_ok()
}

/// A configuration that looks at itself through its handles when it is compared or dropped.
#[derive(Deserialize)]
struct Looking {
    depth: u32,
    #[serde(skip)]
    looks: OnceLock<Looks>,
}

#[derive(Clone)]
struct Looks {
    view: Arc<OnceLock<watch::Receiver<Arc<Looking>>>>,
    last: LastGood<Looking>,
    journal: Journal,
}

impl Looking {
    fn look(&self, when: &'static str) {
        let Some(looks) = self.looks.get() else { return };
        let Some(view) = looks.view.get().cloned() else { return };
        let last = looks.last.clone();
        // What it looks at is not dropped there: it would look in its turn.
        let held = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&held);
        let is_through = comes_through(move || {
            let current = Arc::clone(&view.borrow());
            *seen.lock() = Some((current, last.get()));
        });
        looks.journal.note(if is_through { when } else { "locked out" });
    }
}

impl PartialEq for Looking {
    fn eq(&self, other: &Self) -> bool {
        self.look("compared");
        self.depth == other.depth
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.look("dropped");
    }
}

#[tokio::test]
async fn a_configuration_is_compared_and_dropped_where_nothing_is_locked() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let watcher = Watcher::new(WatcherConfig::default())?;
    let watches = watcher.handle();
    let watcher = Bare::run(watcher);
    let (last, journal) = (LastGood::none(), Journal::new());
    let view = Arc::new(OnceLock::new());
    let looks = Looks { view: Arc::clone(&view), last: last.clone(), journal: journal.clone() };
    let accept = move |looking: &Looking| {
        looking.looks.set(looks.clone()).map_err(|_| "it is judged once")?;
        Ok(())
    };
    let (_stopper, stop) = Stop::pair();
    let config = ConfigFileConfig::new(&path).quiet(Duration::from_millis(1));
    let file = ConfigFile::load(&stop, config, accept, watches.into(), last).await?;
    let mut depth = file.follow();
    view.set(file.follow()).map_err(|_| "it is set once")?;
    let file = Bare::run(file);

    fs::write(&path, "depth: 2")?;
    guarded(depth.wait_for(|looking| looking.depth == 2)).await?;

    clean_kill(file).await?;
    clean_kill(watcher).await?;
    let mut done = journal.lines();
    done.sort();
    done.dedup();
    assert_eq!(done, ["compared", "dropped"]);
    Ok(())
}

#[tokio::test]
async fn who_follows_a_fortress_is_woken_where_nothing_is_locked() {
    struct Looks(Fortress, Mutex<Vec<bool>>);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            let fortress = self.0.clone();
            self.1.lock().push(comes_through(move || assert_eq!(fortress.guests(), 0)));
        }
    }
    let fortress = Fortress::new();
    let looks = Arc::new(Looks(fortress.clone(), Mutex::default()));
    let waker = Waker::from(Arc::clone(&looks));
    let mut state = fortress.state();
    let mut changed = pin!(state.changed());
    assert!(changed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());

    fortress.guard().unlock();

    assert_eq!(*looks.1.lock(), [true]);
    assert!(matches!(changed.poll(&mut Context::from_waker(&waker)), Poll::Ready(Ok(()))));
}

/// A value that is set anew while it is cloned.
struct Setting {
    handle: Arc<OnceLock<ValueHandle<Self>>>,
    sets: Arc<AtomicBool>,
    came_through: bool,
}

impl Clone for Setting {
    fn clone(&self) -> Self {
        let Self { handle, sets, .. } = self;
        let mut clone = Self { handle: Arc::clone(handle), sets: Arc::clone(sets), ..*self };
        if let Some(setting) = handle.get().filter(|_| sets.swap(false, Ordering::Relaxed)) {
            let (setting, other) = (setting.clone(), clone.clone());
            clone.came_through = comes_through(move || setting.set(other));
        }
        clone
    }
}

#[test]
fn a_value_is_cloned_where_nothing_is_locked() {
    let (handle, sets) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let first =
        Setting { handle: Arc::clone(&handle), sets: Arc::clone(&sets), came_through: false };
    let value = handle.get_or_init(|| ValueHandle::new(first));
    sets.store(true, Ordering::Relaxed);

    let got = value.get();

    assert!(got.came_through);
}
