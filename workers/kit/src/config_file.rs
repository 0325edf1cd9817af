//! A configuration in a file, typed and followed.
//!
//! Invariants:
//! 1. The file is watched before it is read, so that a change after the reading is told.
//! 2. A version that was refused changes nothing but the status and the condition.
//! 3. No code of a value's, such as its comparison or its drop, runs under a lock.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{BoxError, Outcome, Stop, Worker};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::condition::{Condition, chain};
use crate::file_watch::{Subscription, WatchError, WatchesInput, Writing};
use crate::quiet_time::QuietTime;

pub use self::config::{ConfigFileConfig, ConfigFormat};
pub use self::error::ConfigFileError;

mod config;
mod error;
mod read;

/// How long a watcher that is not there yet may take to come before that is told.
const COMING: Duration = Duration::from_secs(5);

type Validate<T> = Arc<dyn Fn(&T) -> Result<(), BoxError> + Send + Sync>;

/// The version of a config file that was accepted last, where it outlives the worker.
///
/// A [`ConfigFile`] that is given it begins with that version when the file is bad by then.
pub struct LastGood<T>(Arc<Mutex<Option<Arc<T>>>>);

impl<T> LastGood<T> {
    /// Returns one that has no version yet.
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// Returns the version, if one was accepted.
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    fn set(&self, value: &Arc<T>) {
        let before = self.0.lock().replace(Arc::clone(value));
        // Invariant 3.
        drop(before);
    }
}

impl<T> Clone for LastGood<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for LastGood<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastGood").field("is_some", &self.0.lock().is_some()).finish()
    }
}

/// What has become of the versions of a config file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct ConfigFileStatus {
    /// How many versions were accepted that differ from the one before.
    pub accepted: u64,
    /// How many versions were refused.
    pub refused: u64,
    /// Why the present version of the file is refused; `None` if it is the one on offer.
    pub refusal: Option<String>,
}

/// A worker that keeps a typed configuration up to date with its file.
///
/// # Guarantees
///
/// - The value on offer was read from one version of the file, and found valid.
/// - A version that cannot be read, parsed or accepted is refused: the value before stays on offer,
///   and the [`Condition`] is degraded with file, line and column until the file is good again. The
///   same when the file is deleted, or is a file no more.
/// - The file may be replaced by a rename or a symlink, as editors and deployment tools do, and its
///   folder may be deleted and made again.
/// - Without a watcher for 5 s, and as long as the kernel does not watch the file, the condition is
///   degraded: changes are not seen, or late.
/// - It is read when it was left alone for [`quiet`](ConfigFileConfig::quiet), or after 20 times
///   that if it never is.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_engine::Stop;
/// use crankcase_workers::{ConfigFile, ConfigFileConfig, LastGood, Watcher, WatcherConfig};
///
/// #[derive(Debug, PartialEq, serde::Deserialize)]
/// struct Limits {
///     depth: usize,
/// }
///
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("limits.yaml");
/// std::fs::write(&path, "depth: 3")?;
/// let watcher = Watcher::new(WatcherConfig::default())?;
/// let validate = |limits: &Limits| match limits.depth {
///     0 => Err("depth is 0; expected at least 1".into()),
///     _ => Ok(()),
/// };
/// let config = ConfigFileConfig::new(&path);
/// let last = LastGood::none();
/// let (_stopper, stop) = Stop::pair();
/// let file = ConfigFile::load(&stop, config, validate, watcher.handle().into(), last).await?;
/// assert_eq!(file.follow().borrow().depth, 3);
/// # Ok(())
/// # }
/// ```
#[must_use = "the file is not followed until it runs"]
pub struct ConfigFile<T> {
    config: ConfigFileConfig,
    validate: Validate<T>,
    watches: WatchesInput,
    current: watch::Sender<Arc<T>>,
    last_good: LastGood<T>,
    status: watch::Sender<ConfigFileStatus>,
    condition: Condition,
    /// What the condition was told last.
    told: Option<String>,
}

impl<T: DeserializeOwned + PartialEq + Send + Sync + 'static> ConfigFile<T> {
    /// Reads the file for the worker that has this `stop`, and returns what follows it.
    ///
    /// `validate` judges what was read; it runs on a thread for blocking work. The worker does not
    /// count as ended while it does, also if this is dropped: an engine starts no other meanwhile.
    ///
    /// # Errors
    ///
    /// When the configuration of the worker is invalid, or the file is bad and there is no last
    /// good version.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn load(
        stop: &Stop,
        config: ConfigFileConfig,
        validate: impl Fn(&T) -> Result<(), BoxError> + Send + Sync + 'static,
        watches: WatchesInput,
        last_good: LastGood<T>,
    ) -> Result<Self, ConfigFileError> {
        config.validate()?;
        let validate: Validate<T> = Arc::new(validate);
        let first = match read(&config, &validate, stop).await {
            Ok(value) => value,
            // The first look of `run` says why.
            Err(err) => last_good.get().ok_or(err)?,
        };
        last_good.set(&first);
        let status = ConfigFileStatus { accepted: 1, ..ConfigFileStatus::default() };
        Ok(Self {
            config,
            validate,
            watches,
            current: watch::Sender::new(first),
            last_good,
            status: watch::Sender::new(status),
            condition: Condition::untold(),
            told: None,
        })
    }

    /// Says whom it tells how well it does.
    pub fn telling(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }

    /// Returns a view of the configuration, which changes with the file.
    pub fn follow(&self) -> watch::Receiver<Arc<T>> {
        self.current.subscribe()
    }

    /// Returns a view of what has become of the file's versions.
    pub fn status(&self) -> watch::Receiver<ConfigFileStatus> {
        self.status.subscribe()
    }

    /// Reads the file, and offers what it says or tells why not.
    async fn look(&mut self, watched: &Subscription, stop: &Stop) {
        let trouble = match read(&self.config, &self.validate, stop).await {
            Ok(value) => {
                self.accept(value);
                watched.problem().map(|problem| {
                    let path = &self.config.path;
                    format!("changes of {path:?} are seen late: {}", chain(&*problem))
                })
            }
            Err(err) => Some(self.refuse(&err)),
        };
        self.tell(trouble);
    }

    fn tell(&mut self, trouble: Option<String>) {
        if trouble != self.told {
            match &trouble {
                Some(reason) => self.condition.degraded(reason),
                None => self.condition.good(),
            }
            self.told = trouble;
        }
    }

    fn accept(&self, value: Arc<T>) {
        // Nobody else sets it, so that it may be compared before; invariant 3.
        let before = Arc::clone(&self.current.borrow());
        let is_other = *before != *value;
        if is_other {
            self.last_good.set(&value);
            drop(self.current.send_replace(value));
        }
        self.status.send_modify(|status| {
            status.accepted += u64::from(is_other);
            status.refusal = None;
        });
        if is_other {
            tracing::info!(path = ?self.config.path, "config file accepted");
        }
    }

    fn refuse(&self, err: &ConfigFileError) -> String {
        let refusal = chain(err);
        self.status.send_modify(|status| {
            if status.refusal.as_ref() != Some(&refusal) {
                // Whoever is told of the condition says it.
                if !self.condition.is_told() {
                    tracing::error!(refusal, "config file refused; the version before stays");
                }
                status.refused += 1;
                status.refusal = Some(refusal.clone());
            }
        });
        format!("the version before stays in force: {refusal}")
    }

    /// Watches the file, as soon as there is something that does.
    async fn watch(&mut self) -> Result<Subscription, WatchError> {
        let path = self.config.path.clone();
        if let Ok(watched) = timeout(COMING, self.watches.watch(&path)).await {
            return watched;
        }
        self.tell(Some(format!("changes of {path:?} are not seen: there is no file watcher")));
        self.watches.watch(&path).await
    }

    /// Waits until the file has changed and was left alone.
    async fn changed(&self, watched: &mut Subscription) -> Result<(), WatchError> {
        watched.changed().await?;
        let mut quiet_time = QuietTime::new(self.config.quiet);
        loop {
            // One that is still being written is likely to be refused, and is read again once it is closed.
            quiet_time.note(Writing::Closed);
            tokio::select! {
                biased;
                () = quiet_time.over() => return Ok(()),
                changed = watched.changed() => changed?,
            }
        }
    }
}

impl<T: DeserializeOwned + PartialEq + Send + Sync + 'static> Worker for ConfigFile<T> {
    async fn run(mut self, stop: Stop) -> Outcome {
        loop {
            let mut watched = tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                watched = self.watch() => watched?,
            };
            loop {
                // Invariant 1.
                self.look(&watched, &stop).await;
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    // The next watcher, if there is to be one, is waited for.
                    changed = self.changed(&mut watched) => if changed.is_err() { break },
                }
            }
        }
    }
}

impl<T> fmt::Debug for ConfigFile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigFile")
            .field("config", &self.config)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

/// Reads, parses and judges the file where that holds up no other task.
async fn read<T: DeserializeOwned + Send + Sync + 'static>(
    config: &ConfigFileConfig,
    validate: &Validate<T>,
    stop: &Stop,
) -> Result<Arc<T>, ConfigFileError> {
    let (owned, validate) = (config.clone(), Arc::clone(validate));
    let read = stop.blocking(move || {
        let value = read::read::<T>(&owned)?;
        validate(&value).map_err(|source| invalid(&owned.path, source))?;
        Ok(Arc::new(value))
    });
    read.await.unwrap_or_else(|panicked| Err(invalid(&config.path, panicked.into())))
}

fn invalid(path: &Path, source: BoxError) -> ConfigFileError {
    ConfigFileError::Invalid { path: path.to_owned(), source }
}
