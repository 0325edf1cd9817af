//! An engine that is a worker of another engine, built by hand.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::Engine;
use super::error::EngineError;
use crate::vocabulary::exit::{Exit, Outcome};
use crate::worker::Worker;
use crate::worker::stop::Stop;

/// An engine that is a worker of another engine. Built by hand with
/// [`EngineBuilder::build_nested`](crate::EngineBuilder::build_nested).
///
/// A nested engine is stopped like any worker, and killed when it is dropped. To the outer engine
/// it is gone only after its last worker is gone. While one of its workers is stuck, the nested
/// engine is stuck too, and is not started again before that worker has ended. When the outermost
/// engine ends, stuck workers are left behind, and its `stop` names them. A fatal error in a nested
/// engine, or workers that it leaves behind, are an ordinary failure to the outer engine. Set a
/// grace for its manifold that is longer than the graces of its workers together.
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
/// engine.running(SITE).await?;
/// assert!(engine.report().await.to_string().contains("page"));
/// engine.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "a nested engine is killed when it is dropped"]
pub struct NestedEngine {
    engine: Engine,
}

impl NestedEngine {
    pub(super) fn new(engine: Engine) -> Self {
        Self { engine }
    }
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
        let shared = &self.engine.shared;
        let left_behind = shared.left_behind();
        if let (Some(outer), false) = (&shared.outer, left_behind.is_empty()) {
            outer.leave_inside(left_behind);
            // The nested engine's loop has already waited for its workers as long as they may take.
            stop.set_linger_grace(Duration::ZERO);
        }
        ended.map_err(|error: EngineError| Exit::failed(error))
    }
}

impl fmt::Debug for NestedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NestedEngine").field(&self.path()).finish()
    }
}
