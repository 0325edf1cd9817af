//! The engine of tests: without jitter, and with a fixed seed.

use crankcase_engine::{Backoff, Engine, EngineBuilder, Policy};

/// Returns the builder of an engine for tests: no jitter, and the seed 0.
///
/// All else is as in production, so that a test with a paused clock measures the documented
/// defaults exactly. Set what the test is about on the builder.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::{Exit, Manifold, Name};
/// use crankcase_testing::{Script, clean_kill, test_engine};
/// use tokio::time::Instant;
///
/// const WORKER: Name<u32> = Name::new("worker");
///
/// // In a test: `#[tokio::test(start_paused = true)]`.
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let script = Script::new();
/// script.fail_start(Exit::failed("not yet"));
/// let began = Instant::now();
/// engine.install(WORKER, script.manifold(())).await?;
/// engine.running(WORKER).await?;
/// assert_eq!(began.elapsed(), Duration::from_secs(1));
/// clean_kill(engine).await?;
/// # Ok(()) }
/// ```
pub fn test_engine() -> EngineBuilder {
    Engine::builder().policy(test_policy()).seed(0)
}

/// Returns the policy of [`test_engine`]: the default one without jitter.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use crankcase_engine::Policy;
/// use crankcase_testing::{test_engine, test_policy};
///
/// let builder = test_engine().policy(test_policy().grace(Duration::from_secs(1)));
/// # drop(builder);
/// ```
pub fn test_policy() -> Policy {
    Policy::default().backoff(Backoff::default().jitter(0.0))
}
