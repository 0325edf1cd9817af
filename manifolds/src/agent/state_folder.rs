//! The watch that reports when the state folder of an agent is not at its path any more.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crankcase_engine::{Engine, Manifold, Name};
use crankcase_status::StateLock;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// How often the folder is looked at. That needs no watcher, which an agent need not have.
const EVERY: Duration = Duration::from_secs(5);

/// The name of a worker that is there, and degraded, while the folder is gone. So reports and the log show it.
const STATE_FOLDER: Name<()> = Name::new("state_folder");

/// Looks at the folder of a lock until the engine stops or the lock is dropped.
pub(super) fn keep(runtime: &Handle, engine: &Engine, lock: &Arc<StateLock>) {
    let (engine, lock) = (engine.clone(), Arc::downgrade(lock));
    drop(runtime.spawn(async move {
        tokio::select! {
            biased;
            () = engine.stopping() => {}
            () = follow(&engine, &lock) => {}
        }
    }));
}

/// Reports when the folder is gone, and when it is there again.
async fn follow(engine: &Engine, lock: &Weak<StateLock>) {
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_told = false;
    loop {
        looks.tick().await;
        let Some(lock) = lock.upgrade() else { return };
        let path = lock.state_dir().path().to_owned();
        let look = spawn_blocking(move || lock.is_in_place());
        let Ok(is_in_place) = look.await else { return };
        if is_in_place != is_told {
            continue;
        }
        let changed = match is_in_place {
            false => engine.install(STATE_FOLDER, gone(format!("{path:?}"))).await,
            true => engine.uninstall(STATE_FOLDER).await,
        };
        // Another worker of this name is left installed; each look tries again until it is gone.
        is_told = !is_in_place && changed.is_ok();
        if let Err(error) = changed {
            tracing::debug!(%error, "cannot report of the state folder");
        }
    }
}

/// Returns a manifold that is degraded because the folder of this path is gone. The log says so as well.
fn gone(path: String) -> Manifold {
    Manifold::builder().run_with(path, |path, (), up| async move {
        let health = up.context().health();
        let stop = up.ready(());
        health.degraded(format!(
            "the state folder {path} was deleted or moved away; what the agent puts on record is \
             lost to the next one: start the agent again"
        ));
        stop.wait().await;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::pin::pin;
    use std::sync::Arc;

    use crankcase_engine::{Engine, Manifold};
    use crankcase_status::StateDir;
    use tokio::time::timeout;

    use super::{EVERY, STATE_FOLDER, follow};

    #[tokio::test(start_paused = true)]
    async fn another_worker_of_that_name_stays_when_the_folder_is_back()
    -> Result<(), Box<dyn Error>> {
        let outer = tempfile::tempdir()?;
        let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
        let lock = Arc::new(StateDir::new(path.clone()).lock()?);
        let engine = Engine::builder().build()?;
        let other = Manifold::builder().run(|(), up| async move {
            up.ready(()).wait().await;
            Ok(())
        });
        engine.install(STATE_FOLDER, other).await?;
        let lock_of_agent = Arc::downgrade(&lock);
        let mut following = pin!(follow(&engine, &lock_of_agent));

        fs::rename(&path, &moved)?;
        assert!(timeout(EVERY * 2, &mut following).await.is_err(), "it follows no more");
        fs::rename(&moved, &path)?;
        assert!(timeout(EVERY * 2, &mut following).await.is_err(), "it follows no more");

        let report = engine.report().await;
        assert!(report.workers.contains_key("state_folder"), "{report:?}");
        engine.stop().await?;
        Ok(())
    }
}
