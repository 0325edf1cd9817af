//! Workers that do as the test tells them.

mod cell;

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::Duration;

use cell::{Act, Cell, Opening, Parting};
use crankcase_engine::input::Inputs;
use crankcase_engine::manifold::{Offers, Up};
use crankcase_engine::{Context, Exit, Manifold, Outcome, Stop, Worker};

use crate::failure::Failure;
use crate::journal::Journal;
use crate::wait::within;

/// A worker that does as the test tells it.
///
/// Every worker of the script's manifold follows the same script: what is asked for happens once,
/// to the present worker or to the next one that comes to it.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{EventKind, Name};
/// use crankcase_testing::{EventRecorder, Script, clean_kill, test_engine};
///
/// const WEB: Name<u32> = Name::new("web");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let mut events = EventRecorder::new(&engine);
/// let script = Script::new();
/// engine.install(WEB, script.manifold(())).await?;
/// script.panic("index out of bounds");
/// events.wait_for(|event| event.kind == EventKind::Started { generation: 2 }).await?;
/// assert!(events.lines().contains(&"/web ended, failed: panicked: index out of bounds".into()));
/// clean_kill(engine).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Script {
    cell: Arc<Cell>,
    journal: Option<Journal>,
}

impl Script {
    /// Returns a script whose workers start at once and run until they are told to stop.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes what the workers do into a journal.
    #[must_use]
    pub fn recorded_in(self, journal: &Journal) -> Self {
        Self { journal: Some(journal.clone()), ..self }
    }

    /// Returns a manifold whose workers follow this script. It offers its generation as a `u32`.
    pub fn manifold<I>(&self, inputs: I) -> Manifold
    where
        I: Inputs,
        I::Values: Debug,
    {
        let start = |script: Self, values: I::Values, ctx: Context| async move {
            let values = format!("{values:?}");
            script.write("start", ctx.name(), Some(&values).filter(|values| *values != "()"));
            script.cell.open().await?;
            Ok(Double::new(script, &ctx))
        };
        Manifold::builder()
            .inputs(inputs)
            .start_with(self.clone(), start)
            .output(|double| double.generation)
            .build()
    }

    /// Returns a manifold whose workers follow this script and offer these values, a tuple of up to
    /// eight: it stands for any input, of whatever type.
    ///
    /// The values of its own inputs need not be `Debug`, and are not written into the journal.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use crankcase_engine::{Manifold, Name};
    /// use crankcase_testing::{Harness, Script, Stubs};
    ///
    /// trait Store: Send + Sync {
    ///     fn pages(&self) -> u32;
    /// }
    ///
    /// struct Empty;
    ///
    /// impl Store for Empty {
    ///     fn pages(&self) -> u32 {
    ///         0
    ///     }
    /// }
    ///
    /// const STORE: Name<Arc<dyn Store>> = Name::new("store");
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let web = Manifold::builder().inputs(STORE).offers::<(u32,)>().run(|store, up| async move {
    ///     up.ready((store.pages(),)).wait().await;
    ///     Ok(())
    /// });
    /// let script = Script::new();
    /// let store: Arc<dyn Store> = Arc::new(Empty);
    /// let stubs = Stubs::new().manifold(STORE, script.offering((store,), ()));
    /// let mut harness = Harness::among(web, stubs).await?;
    /// harness.expect_start().await?;
    /// script.panic("the disk is on fire");
    /// harness.expect_stop().await?;
    /// harness.finish().await?;
    /// # Ok(()) }
    /// ```
    pub fn offering<O, I>(&self, values: O, inputs: I) -> Manifold
    where
        O: Offers + Clone + Sync,
        I: Inputs,
    {
        let run = |(script, values): (Self, O), _inputs: I::Values, up: Up<O>| async move {
            let double = Double::new(script, up.context());
            let stop = up.context().stop().clone();
            double.script.write("start", &double.name, None);
            tokio::select! {
                biased;
                // A start that is held is not over: it ends as one that is dropped.
                () = stop.wait() => return Ok(()),
                opened = double.script.cell.open() => opened?,
            }
            double.run(up.ready(values)).await
        };
        let builder = Manifold::builder().inputs(inputs).offers::<O>();
        builder.run_with((self.clone(), values), run)
    }

    /// Returns a worker that follows this script, to be run without an engine. What the script says of
    /// a start happens when it begins to run.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_testing::{Bare, Script, dirty_kill};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let script = Script::new();
    /// script.answer_stop(Err("it broke".into()));
    /// let worker = Bare::run(script.worker("web"));
    /// assert_eq!(dirty_kill(worker).await?.to_string(), "it broke");
    /// # Ok(()) }
    /// ```
    pub fn worker(&self, name: &str) -> impl Worker + use<> {
        Unstarted(Double { script: self.clone(), name: name.to_owned(), generation: 0 })
    }

    /// Ends the present or next worker by itself with this outcome.
    pub fn end(&self, outcome: Outcome) {
        self.cell.push(Act::End(outcome));
    }

    /// Makes the present or next worker panic in its run.
    pub fn panic(&self, message: impl Into<String>) {
        self.cell.push(Act::Panic(message.into()));
    }

    /// Makes the present or next worker block its thread until [`release`](Self::release).
    ///
    /// It never yields, so nothing can end it from outside. For tests only, on a runtime that has
    /// threads to spare; a test that does not release it hangs when its runtime is dropped.
    pub fn never_yield(&self) {
        self.cell.push(Act::Block);
    }

    /// Waits until a worker blocks its thread, as [`never_yield`](Self::never_yield) asks for.
    ///
    /// # Errors
    ///
    /// When none does within ten minutes by the clock.
    pub async fn blocked(&self) -> Result<(), Failure> {
        within(|| "no worker of the script has blocked its thread".to_owned(), self.cell.blocked())
            .await
    }

    /// Makes the next start fail.
    pub fn fail_start(&self, exit: Exit) {
        self.cell.open_with(Opening::Fail(exit));
    }

    /// Makes the next start panic.
    pub fn panic_in_start(&self, message: impl Into<String>) {
        self.cell.open_with(Opening::Panic(message.into()));
    }

    /// Makes the next start wait for [`release`](Self::release).
    ///
    /// What is released is what is held by then: wait for it by [`held`](Self::held) before.
    pub fn hold_start(&self) {
        self.cell.open_with(Opening::Hold);
    }

    /// Waits until a start is held, as [`hold_start`](Self::hold_start) asks for.
    ///
    /// A worker counts as starting as soon as its engine has made its task, before its start has begun.
    ///
    /// # Errors
    ///
    /// When none is held within ten minutes by the clock.
    pub async fn held(&self) -> Result<(), Failure> {
        within(|| "no start of the script was held".to_owned(), self.cell.held()).await
    }

    /// Makes the next worker that is told to stop end with this outcome.
    pub fn answer_stop(&self, outcome: Outcome) {
        self.cell.part_with(Parting::Answer(outcome));
    }

    /// Makes the next worker that is told to stop take this long to end.
    pub fn stop_after(&self, delay: Duration) {
        self.answer_stop_after(delay, Ok(()));
    }

    /// Makes the next worker that is told to stop take this long and then end with this outcome.
    pub fn answer_stop_after(&self, delay: Duration, outcome: Outcome) {
        self.cell.part_with(Parting::After(delay, outcome));
    }

    /// Makes the next worker that is told to stop go on until [`release`](Self::release), or until
    /// its future is dropped.
    pub fn ignore_stop(&self) {
        self.cell.part_with(Parting::Ignore);
    }

    /// Lets everything go on that this script holds now: starts, stops and blocked threads.
    pub fn release(&self) {
        self.cell.release();
    }

    fn write(&self, what: &str, name: &str, more: Option<&String>) {
        if let Some(journal) = &self.journal {
            journal.note(match more {
                Some(more) => format!("{what} {name} {more}"),
                None => format!("{what} {name}"),
            });
        }
    }
}

impl Journal {
    /// Returns a manifold whose workers run until they are told to stop, and write into this
    /// journal. It offers its generation as a `u32`.
    pub fn manifold<I>(&self, inputs: I) -> Manifold
    where
        I: Inputs,
        I::Values: Debug,
    {
        Script::new().recorded_in(self).manifold(inputs)
    }

    /// Returns a manifold like that of [`manifold`](Self::manifold) that offers these values, a tuple
    /// of up to eight; see [`Script::offering`].
    pub fn offering<O, I>(&self, values: O, inputs: I) -> Manifold
    where
        O: Offers + Clone + Sync,
        I: Inputs,
    {
        Script::new().recorded_in(self).offering(values, inputs)
    }
}

impl Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

/// One worker of a script.
struct Double {
    script: Script,
    name: String,
    generation: u32,
}

/// A worker of a script that nothing has started.
struct Unstarted(Double);

impl Worker for Unstarted {
    async fn run(self, stop: Stop) -> Outcome {
        tokio::select! {
            biased;
            () = stop.wait() => {}
            opened = self.0.script.cell.open() => opened?,
        }
        self.0.run(stop).await
    }
}

impl Worker for Double {
    async fn run(self, stop: Stop) -> Outcome {
        let outcome = self.follow(&stop).await;
        self.script.write("end", &self.name, None);
        outcome
    }
}

impl Double {
    fn new(script: Script, ctx: &Context) -> Self {
        Self { script, name: ctx.name().to_owned(), generation: ctx.generation() }
    }

    async fn follow(&self, stop: &Stop) -> Outcome {
        let cell = &self.script.cell;
        loop {
            let act = tokio::select! {
                biased;
                () = stop.wait() => break,
                act = cell.next() => act,
            };
            match act {
                Act::End(outcome) => return outcome,
                Act::Panic(message) => panic!("{message}"),
                Act::Block => cell.block(),
            }
        }
        self.script.write("stop", &self.name, None);
        cell.part().await
    }
}
