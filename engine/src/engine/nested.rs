use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::Engine;
use super::error::EngineError;
use crate::vocabulary::exit::{Exit, Outcome};
use crate::worker::Worker;
use crate::worker::stop::Stop;

/// An engine that is a worker of another, built by hand with
/// [`EngineBuilder::build_nested`](crate::EngineBuilder::build_nested).
///
/// It is stopped like any worker, and killed when it is dropped. The outer engine does not take it
/// for gone before its last worker is, also one that is stuck: with such a worker it is stuck
/// itself, and is not started again before that worker really ends. When the outermost engine ends,
/// what is stuck is left behind, and its `stop` names that. A fatal error in it, or workers that it
/// leaves behind, is an ordinary failure to the outer engine. Give its manifold a grace that is
/// longer than those of its workers together.
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
            // Its own loop has given its workers all the time they had.
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
