use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Engine, EngineError, Life};
use crate::context::Identity;
use crate::event_loop::Message;
use crate::exit::{Exit, Outcome};
use crate::stop::Stop;
use crate::worker::Worker;

/// An engine that is a worker of another; made by
/// [`EngineBuilder::build_nested`](super::EngineBuilder::build_nested).
///
/// It is stopped like any worker, and killed when it is dropped. The outer engine does not take it
/// for ended before its last worker has, also one that is stuck: with such a worker it is stuck
/// itself after its own graces, and is not started again before that worker really ends. When the
/// outermost engine ends, what is stuck is left behind. A fatal error in it is an ordinary failure
/// to the outer engine. Give its manifold a grace that is longer than those of its workers
/// together.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::{Engine, Manifold, Name};
///
/// const SITE: Name<()> = Name::new("site");
/// const PAGE: Name<()> = Name::new("page");
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let site = Manifold::builder()
///     .start(|(), ctx| async move {
///         let engine = Engine::builder().build_nested(&ctx)?;
///         let page = Manifold::builder().run(|(), up| async move {
///             up.ready(()).wait().await;
///             Ok(())
///         });
///         engine.install(PAGE, page).await?;
///         Ok(engine)
///     })
///     .report(|engine| engine.reporter())
///     .build()
///     .grace(Duration::from_secs(120));
/// let engine = Engine::builder().build()?;
/// engine.install(SITE, site).await?;
/// engine.running(&SITE).await?;
/// assert!(engine.report().await.to_string().contains("page"));
/// engine.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "a nested engine is killed when it is dropped"]
pub struct NestedEngine {
    engine: Engine,
    /// Which worker it is in the outer engine.
    outer: Identity,
}

impl NestedEngine {
    pub(super) fn new(engine: Engine, outer: Identity) -> Self {
        Self { engine, outer }
    }
}

/// Has an engine take one of its workers for stuck so long after the stop, whatever its grace, unless
/// nothing lingers of it any more.
pub(crate) fn overrun(worker: &Identity, stop: Stop, after: Duration) {
    let (alive, gone) = oneshot::channel::<()>();
    stop.once_gone(move || drop(alive));
    let Identity { shared, node, generation, .. } = worker.clone();
    let driver = shared.driver.clone();
    let over = async move {
        stop.wait().await;
        if !after.is_zero() {
            sleep(after).await;
        }
    };
    let told = async move {
        tokio::select! {
            () = over => shared.inbox.send(Message::Overrun { node, generation }),
            _ = gone => {}
        }
    };
    drop(driver.spawn(told));
}

impl Deref for NestedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for NestedEngine {
    fn drop(&mut self) {
        self.engine.kill();
    }
}

impl Worker for NestedEngine {
    async fn run(self, stop: Stop) -> Outcome {
        let ended = tokio::select! {
            biased;
            ended = self.engine.wait() => ended,
            () = stop.wait() => self.engine.stop().await,
        };
        if !matches!(*self.engine.shared.root_life.borrow(), Life::Running) {
            // No other generation will come: what is stuck is left behind, as in any engine.
            stop.let_go();
        }
        if self.engine.shared.has_left_behind.load(Ordering::Acquire) {
            // Its own loop has given its workers all the time they had.
            overrun(&self.outer, stop, Duration::ZERO);
        }
        ended.map_err(|error: EngineError| Exit::failed(error))
    }
}

impl fmt::Debug for NestedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NestedEngine").field(&self.path()).finish()
    }
}
