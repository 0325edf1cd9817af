pub(crate) mod builder;
mod chain;
pub(crate) mod error;
pub(crate) mod input;
pub(crate) mod nested;
pub(crate) mod output;
mod reporters;

use std::fmt;
use std::sync::Arc;

use smallvec::smallvec;
use tokio::sync::oneshot;

use crate::change::{Action, Change, ChangeError, Mode, Op, Ops, Preview};
use crate::manifolds::Manifold;
use crate::seen::event::Origin;
use crate::seen::graph::Graph;
use crate::seen::log::Events;
use crate::seen::report::{Detail, Report};
use crate::seen::why::Why;
use crate::supervisor::Shared;
use crate::supervisor::applied::Applied;
use crate::supervisor::call::{Call, Question};
use crate::supervisor::job::Caller;
use crate::supervisor::life::{Life, Verdict};
use crate::supervisor::reply::Reply;
use crate::vocabulary::name::Name;
use crate::vocabulary::policy::LONG;
use crate::worker::host::Identity;
use error::EngineError;

/// A handle on an engine: cheap to clone, and harmless to drop.
///
/// An engine owns installed manifolds. It starts each worker when its inputs are there, bounces it
/// when they change, restarts it after a failure, and stops all in order. It runs until it is
/// killed or a worker has a fatal error.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Manifold, Name};
///
/// const GREETING: Name<String> = Name::new("greeting");
/// const GREETER: Name<usize> = Name::new("greeter");
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::builder().build()?;
/// // The order does not matter: the greeter waits for its input.
/// let greeter = Manifold::builder().inputs(GREETING).offers::<(usize,)>().run(
///     |greeting, up| async move {
///         let stop = up.ready((greeting.len(),));
///         stop.wait().await;
///         Ok(())
///     },
/// );
/// engine.install(GREETER, greeter).await?;
/// engine.provide(GREETING, "hello".to_owned()).await?;
/// assert_eq!(engine.output(GREETER).await?, 5);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
///
/// # Where calls are carried out
///
/// While the engine is idle, a call on a thread of its runtime is carried out right there. A group is
/// applied for a tenth of a millisecond; what is left of it is done by the engine's own task. What is
/// one walk is not divided: the check for cycles, and a chain of causes. That task does all else:
/// what is asked while it is busy or from other threads, previews, pings and kills.
///
/// # Cancel safety
///
/// A change is on its way when the call that asks for it returns: dropping the [`Applied`] stops
/// waiting for it, and what was asked for happens all the same.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    caller: Caller,
}

impl Engine {
    pub(crate) fn for_worker(identity: &Identity) -> Self {
        let asker = Some((identity.node, identity.generation));
        Self { shared: Shared::of(identity), caller: Caller { origin: None, asker } }
    }

    /// Returns a handle whose calls carry who asks and why into the events; each is cut after 64 KiB.
    #[must_use]
    pub fn asked_by(&self, who: impl Into<String>, why: impl Into<String>) -> Self {
        let origin = Origin { who: who.into(), why: why.into() }.cut();
        let caller = Caller { origin: Some(Arc::new(origin)), ..self.caller.clone() };
        Self { shared: Arc::clone(&self.shared), caller }
    }

    /// Returns the engine's path, `/` for one without a name.
    pub fn path(&self) -> &str {
        self.shared.environment.own_path()
    }

    /// Returns the seed of the order of starts and the jitter; see [`EngineBuilder::seed`].
    pub fn seed(&self) -> u64 {
        self.shared.environment.seed
    }

    /// Returns this engine and those nested in it at any depth, by path.
    pub fn engines(&self) -> Vec<Self> {
        let engines = self.shared.tree.all().into_iter();
        engines
            .filter(|engine| self.holds(&engine.environment.path))
            .map(|engine| self.beside(engine))
            .collect()
    }

    /// Returns the engine with this path, if it is this one or nested in it.
    pub fn engine_at(&self, path: &str) -> Option<Self> {
        let path = if path == "/" { "" } else { path };
        let engine = self.shared.tree.find(path).filter(|_| self.holds(path))?;
        Some(self.beside(engine))
    }

    /// Returns whether a path is this engine's or one of something in it.
    fn holds(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.shared.environment.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns a handle on an engine of the same tree, for the same caller.
    fn beside(&self, shared: Arc<Shared>) -> Self {
        let is_same = Arc::ptr_eq(&shared, &self.shared);
        let asker = self.caller.asker.filter(|_| is_same);
        Self { shared, caller: Caller { origin: self.caller.origin.clone(), asker } }
    }

    /// Applies a group of changes as one wave.
    ///
    /// It is over when the group stands in the graph, what could start was told to, and every worker
    /// that the group itself bounced, replaced, parked or took out is gone.
    ///
    /// # Errors
    ///
    /// When the group was refused as a whole; nothing has changed then. The error tells all that is
    /// wrong.
    pub fn apply(&self, change: Change) -> Applied {
        self.carry_out(change.into_ops())
    }

    /// Applies a group of one.
    fn apply_one(&self, op: Op) -> Applied {
        self.carry_out(smallvec![op])
    }

    fn carry_out(&self, ops: Ops) -> Applied {
        self.shared.change(ops, self.caller.clone())
    }

    /// Returns what a group of changes would do now.
    ///
    /// # Errors
    ///
    /// When the group would be refused.
    pub async fn preview(&self, change: Change) -> Result<Preview, ChangeError> {
        // It is one walk, which may be long.
        self.ask_task(|reply| Question::Preview(change.into_ops(), reply))
            .await
            .unwrap_or(Err(ChangeError::Stopped))
    }

    /// Installs a manifold; over when it stands in the graph and was started if it could be.
    ///
    /// # Errors
    ///
    /// When the name has a manifold already, a type does not fit, or it would depend on itself.
    pub fn install<T>(&self, name: Name<T>, manifold: Manifold) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold, Mode::Nothing))
    }

    /// Replaces a manifold; over when the new one is in force and the old worker gone.
    ///
    /// # Errors
    ///
    /// When the name has no manifold, a type does not fit, or it would depend on itself.
    pub fn replace<T>(&self, name: Name<T>, manifold: Manifold) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold, Mode::Something))
    }

    /// Installs a manifold, or replaces the one that is there; over when the new one is in force and
    /// an old worker gone.
    ///
    /// # Errors
    ///
    /// When a type does not fit, or it would depend on itself.
    pub fn install_or_replace<T>(&self, name: Name<T>, manifold: Manifold) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold, Mode::Anything))
    }

    /// Takes a manifold out; over when it and its worker are gone.
    ///
    /// # Errors
    ///
    /// When the name has no manifold.
    pub fn uninstall<T>(&self, name: &Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Uninstall { with_dependents: false }))
    }

    /// Takes a manifold out with all that depend on it, through any number of others; over when they
    /// and their workers are gone.
    ///
    /// # Errors
    ///
    /// When the name has no manifold.
    pub fn uninstall_with_dependents<T>(&self, name: &Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Uninstall { with_dependents: true }))
    }

    /// Bounces a worker; over when the old one is gone.
    ///
    /// # Errors
    ///
    /// When the name has no manifold.
    pub fn bounce<T>(&self, name: &Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Bounce))
    }

    /// Parks a worker; over when it is gone.
    ///
    /// # Errors
    ///
    /// When the name has no manifold.
    pub fn park<T>(&self, name: &Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Park))
    }

    /// Lets a parked worker start again.
    ///
    /// # Errors
    ///
    /// When the name has no manifold.
    pub fn unpark<T>(&self, name: &Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Unpark))
    }

    /// Hands in a value from outside, under a name of its own.
    ///
    /// A value that is handed in again replaces the one before, and bounces who uses it.
    ///
    /// # Errors
    ///
    /// When a manifold is installed under the name, and when those who use it ask for another type.
    pub fn provide<T>(&self, name: Name<T>, value: T) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::provide(name, value))
    }

    /// Waits until the worker behind a name is up. The name need not be installed yet.
    ///
    /// # Errors
    ///
    /// When the engine ends before.
    pub async fn running<T>(&self, name: &Name<T>) -> Result<(), ChangeError> {
        // Every manifold offers `()` while it is up.
        self.output(name.output::<()>()).await
    }

    /// Waits until nothing will happen without a further cause: no worker is starting or stopping,
    /// and none waits out a bounce delay. Workers that back off do not count.
    ///
    /// # Errors
    ///
    /// When the engine ends before.
    pub async fn settled(&self) -> Result<(), ChangeError> {
        self.ask(Question::Settled).await.ok_or(ChangeError::Stopped)
    }

    /// Waits for a turn of the engine's own task, for watchdogs.
    ///
    /// While the engine is idle other calls are served in the caller's thread, so that they say nothing
    /// of the thread that the engine runs on: something that never yields may have taken it.
    ///
    /// # Errors
    ///
    /// When the engine has ended.
    pub async fn ping(&self) -> Result<(), ChangeError> {
        self.ask_task(Question::Turn).await.ok_or(ChangeError::Stopped)
    }

    /// Returns what the engine and its workers are doing; after its end, what they did last.
    ///
    /// Of more than 256 workers not all are seen at the same moment: so many are looked at in one
    /// turn of the engine, and what happens meanwhile goes on.
    ///
    /// It takes no longer than the reporters' deadlines. A reporter that does not answer in time is
    /// named, and asked no second time while it owes an answer. Any thread may ask, also one without a
    /// runtime.
    pub async fn report(&self) -> Report {
        reporters::report(self, LONG).await
    }

    /// Returns a function that reports this engine as a part of another's report.
    pub fn reporter(
        &self,
    ) -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Detail> + Send>> + Send + Sync + use<>
    {
        let engine = self.clone();
        move || {
            let engine = engine.clone();
            let limit = reporters::inner_limit(&engine);
            Box::pin(async move { reporters::report(&engine, limit).await.into() })
        }
    }

    /// Returns the chain from a worker to the root of why it does not run, or is degraded; `None`
    /// if nothing has the name. A path, such as a report has, leads to a worker of this engine or of
    /// one nested in it.
    ///
    /// Where a nested engine misses what it imports, the chain goes on in the outer engine, and where
    /// it does not export what it should, in the nested one.
    pub async fn why(&self, name: &str) -> Option<Why> {
        match name.rsplit_once('/') {
            None => chain::why(self, name).await,
            Some((engine, name)) => chain::why(&self.engine_at(engine)?, name).await,
        }
    }

    /// Returns the dependency graph with its states; `None` after the engine's end. Like a report, a
    /// large one does not show a single moment.
    pub async fn graph(&self) -> Option<Graph> {
        let mut graph = self.ask(Question::Graph).await?;
        graph.sort();
        Some(graph)
    }

    /// Follows the events of the tree of engines that this one belongs to, from now on until the
    /// outermost has ended; [`Event::engine`](crate::Event::engine) tells whose an event is.
    pub fn events(&self) -> Events {
        self.shared.environment.log.subscribe()
    }

    /// Begins to stop all workers, dependents before what they depend on. Later calls change
    /// nothing.
    pub fn kill(&self) {
        self.shared.inbox.call(Call::Kill(self.caller.origin.clone()));
    }

    /// Waits until the engine begins to stop, because it is killed or a worker has a fatal error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn stopping(&self) {
        let mut life = self.shared.life.clone();
        // A loop that is gone has said so.
        let _gone = life.wait_for(|life| !matches!(life, Life::Running)).await;
    }

    /// Waits until the engine has ended. Every call gives the same result.
    ///
    /// # Errors
    ///
    /// The gravest fatal error, if there was one; else [`EngineError::LeftBehind`] if workers were left
    /// behind, which names them. After a fatal error the report names them. Refused at once to a worker
    /// of this engine that asks through the handle it was given: it would wait for its own end.
    pub async fn wait(&self) -> Result<(), EngineError> {
        if let Some((node, generation)) = self.caller.asker
            && let Some(Some(asker)) =
                self.ask(|reply| Question::Live(node, generation, reply)).await
        {
            return Err(EngineError::OwnEnd { asker });
        }
        let mut life = self.shared.life.clone();
        let ended = life.wait_for(|life| matches!(life, Life::Ended(_))).await;
        match ended.as_deref() {
            Ok(Life::Ended(Verdict::Fatal { path, error })) => {
                Err(EngineError::Fatal { path: path.clone(), source: error.clone() })
            }
            Ok(Life::Ended(Verdict::LeftBehind)) => Err(EngineError::LeftBehind {
                path: self.path().to_owned(),
                workers: self.shared.left_behind().to_owned(),
            }),
            Ok(Life::Ended(Verdict::RuntimeGone | Verdict::Lost)) | Err(_) => {
                Err(EngineError::RuntimeGone { path: self.path().to_owned() })
            }
            Ok(Life::Ended(Verdict::Panicked)) => {
                Err(EngineError::Panicked { path: self.path().to_owned() })
            }
            Ok(_) => Ok(()),
        }
    }

    /// Kills the engine and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn stop(&self) -> Result<(), EngineError> {
        self.kill();
        self.wait().await
    }

    /// Asks the loop's task; `None` if it has ended.
    async fn ask_task<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.shared.inbox.call(Call::Ask(Box::new(question(reply))));
        answer.await.ok()
    }

    /// Asks the loop; `None` if it has ended.
    async fn ask<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.shared.call(Call::Ask(Box::new(question(reply))));
        answer.await.ok()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("path", &self.path()).finish()
    }
}
