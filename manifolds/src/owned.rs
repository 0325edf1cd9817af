//! The manifold of a worker that is made together with what it exposes.

use crankcase_engine::input::Inputs;
use crankcase_engine::{Context, Exit, Manifold, Worker};
use crankcase_workers::Owned;

/// Returns a manifold whose start makes a worker together with what it exposes, and that offers
/// what is exposed.
///
/// It is for a worker that cannot be asked for what it offers, such as one of another crate. What is
/// exposed is dropped after the worker. For further outputs or a report, let a start of your own
/// return an [`Owned`].
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Name, Outcome, Stop, Worker};
/// use crankcase_manifolds::owned;
/// use tokio::sync::mpsc;
///
/// const LINES: Name<mpsc::Sender<String>> = Name::new("lines");
///
/// /// Prints what it is sent.
/// struct Printer(mpsc::Receiver<String>);
///
/// impl Worker for Printer {
///     async fn run(mut self, stop: Stop) -> Outcome {
///         loop {
///             tokio::select! {
///                 biased;
///                 () = stop.wait() => return Ok(()),
///                 Some(line) = self.0.recv() => println!("{line}"),
///             }
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let printer = owned::manifold((), |(), _ctx| async {
///     let (lines, printed) = mpsc::channel(16);
///     Ok((Printer(printed), lines))
/// });
/// let engine = Engine::builder().build()?;
/// engine.install(LINES, printer).await?;
/// engine.output(LINES).await?.send("hello".to_owned()).await?;
/// engine.stop().await?;
/// # Ok(()) }
/// ```
pub fn manifold<I, S, F, W, T>(inputs: I, start: S) -> Manifold
where
    I: Inputs,
    S: Fn(I::Values, Context) -> F + Send + Sync + 'static,
    F: Future<Output = Result<(W, T), Exit>> + Send + 'static,
    W: Worker,
    T: Clone + Send + Sync + 'static,
{
    Manifold::builder()
        .inputs(inputs)
        .start(move |values, ctx| {
            let made = start(values, ctx);
            async move { made.await.map(|(worker, exposed)| Owned::new(worker, exposed)) }
        })
        .output(|owned| owned.exposed().clone())
        .build()
}
