//! The handle on an engine: changes, questions, and how to stop it.

pub(crate) mod builder;
mod chain;
pub(crate) mod error;
pub(crate) mod input;
pub(crate) mod nested;
pub(crate) mod output;
mod owned;
mod reporters;

use std::borrow::Cow;
use std::fmt;
use std::future::{IntoFuture, ready};
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
use crate::vocabulary::clock::Timestamp;
use crate::vocabulary::name::Name;
use crate::vocabulary::policy::LONG;
use crate::vocabulary::spawned::Spawned;
use crate::worker::host::Identity;
use error::EngineError;
use owned::Owned;

/// A handle on an engine. It is cheap to clone, and dropping it stops nothing. A warning in the log
/// says so when the last handle is dropped while workers run. A clone counts wherever it is; a
/// handle that a worker gets as an [`EngineInput`](crate::EngineInput) does not.
///
/// An engine owns installed manifolds. It starts each worker when its inputs are there, bounces it
/// when they change, restarts it after a failure, and stops all workers in order. It runs until it
/// is killed or a worker has a fatal error.
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
/// While the engine is idle, a call from a thread of its runtime is carried out on that thread. It
/// works on a group for about 0.1 ms; the engine's own task does the rest. Two steps are not split:
/// the check for cycles and the chain of causes. The engine's own task also does previews, pings
/// and kills, and all calls that come while the engine is busy or from other threads.
///
/// # Cancel safety
///
/// A change is on its way when its call returns. Dropping the [`Applied`] ends the wait, but the
/// change still happens.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    caller: Caller,
    /// `None` if the handle does not count as one that can stop the engine.
    owned: Option<Arc<Owned>>,
}

impl Engine {
    pub(crate) fn for_worker(identity: &Identity) -> Self {
        let asker = Some((identity.node, identity.generation));
        Self { shared: Shared::of(identity), caller: Caller { origin: None, asker }, owned: None }
    }

    /// Returns a handle that adds the caller and its reason to the events of its calls. Each text
    /// is cut after 64 KiB.
    #[must_use]
    pub fn asked_by(&self, who: impl Into<String>, why: impl Into<String>) -> Self {
        let origin = Origin::new(who, why);
        let caller = Caller { origin: Some(Arc::new(origin)), ..self.caller.clone() };
        Self { caller, ..self.clone() }
    }

    /// Returns the engine's path. An engine without a name has the path `/`.
    pub fn path(&self) -> &str {
        self.shared.environment.own_path()
    }

    /// Returns the seed for the order of starts and the jitter; see
    /// [`EngineBuilder::seed`](crate::EngineBuilder::seed).
    pub fn seed(&self) -> u64 {
        self.shared.environment.seed
    }

    /// Returns this engine and all engines nested in it, at any depth, sorted by path.
    pub fn engines(&self) -> Vec<Self> {
        let engines = self.shared.tree.all().into_iter();
        engines
            .filter(|engine| self.holds(&engine.environment.path))
            .map(|engine| self.beside(engine))
            .collect()
    }

    /// Returns the engine with this path, if it is this engine or nested in it. The path is written
    /// as for [`find`](Self::find).
    pub fn engine_at(&self, path: &str) -> Option<Self> {
        let path = self.path_of(path);
        let path = path.strip_suffix('/').unwrap_or(&path);
        let engine = self.shared.tree.find(path).filter(|_| self.holds(path))?;
        Some(self.beside(engine))
    }

    /// Returns the engine that a worker's path leads to, and the worker's name there. The name need
    /// not be installed. `None` if the path leads to no engine in this one.
    ///
    /// A path is written in full, as in a report, or relative to this engine: in an engine with the path
    /// `/agent`, `/agent/site/web` and `site/web` are the same.
    pub fn find(&self, path: &str) -> Option<(Self, Name<()>)> {
        let path = self.path_of(path);
        let (engine, name) = path.rsplit_once('/')?;
        let name = Name::parse(name).ok()?;
        let engine = self.shared.tree.find(engine).filter(|_| self.holds(engine))?;
        Some((self.beside(engine), name))
    }

    /// Returns a path in full: `web` in the engine `/agent` is `/agent/web`. A path that begins with
    /// `/` is already in full.
    pub fn path_of<'a>(&self, path: &'a str) -> Cow<'a, str> {
        match path.starts_with('/') {
            true => Cow::Borrowed(path),
            false => Cow::Owned(self.shared.environment.path_of(path)),
        }
    }

    /// Whether a path belongs to this engine or to something in it.
    fn holds(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&*self.shared.environment.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Returns a handle on an engine of the same tree, for the same caller.
    fn beside(&self, shared: Arc<Shared>) -> Self {
        let is_same = Arc::ptr_eq(&shared, &self.shared);
        let asker = self.caller.asker.filter(|_| is_same);
        let owned = self.owned.clone().filter(|_| is_same);
        Self { shared, caller: Caller { origin: self.caller.origin.clone(), asker }, owned }
    }

    /// Applies a group of changes as one wave.
    ///
    /// Complete when three things hold: the group is in the graph, every worker that can start was
    /// told to start, and every worker that the group itself bounced, replaced, parked or
    /// uninstalled is gone.
    ///
    /// # Errors
    ///
    /// If the group is refused as a whole. Then nothing has changed. The error lists all faults.
    pub fn apply(&self, change: Change) -> Applied {
        self.carry_out(change.into_ops())
    }

    /// Applies a group with one change.
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
    /// If the group would be refused.
    pub async fn preview(&self, change: Change) -> Result<Preview, ChangeError> {
        // A preview is one walk that is not split, and it may be long.
        self.ask_task(|reply| Question::Preview(change.into_ops(), reply))
            .await
            .unwrap_or(Err(ChangeError::Stopped))
    }

    /// Installs a manifold. Complete when it is in the graph and, if possible, its worker was told
    /// to start.
    ///
    /// # Errors
    ///
    /// If the name already has a manifold, if a type does not fit, or if the manifold would depend
    /// on itself.
    pub fn install<T>(&self, name: Name<T>, manifold: impl Into<Manifold>) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold.into(), Mode::Nothing))
    }

    /// Replaces a manifold. Complete when the new one is in force and the old worker is gone.
    ///
    /// # Errors
    ///
    /// If the name has no manifold, if a type does not fit, or if the manifold would depend on
    /// itself.
    pub fn replace<T>(&self, name: Name<T>, manifold: impl Into<Manifold>) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold.into(), Mode::Something))
    }

    /// Installs a manifold, or replaces the one that is there. Complete when the new one is in
    /// force and any old worker is gone.
    ///
    /// # Errors
    ///
    /// If a type does not fit, or if the manifold would depend on itself.
    pub fn install_or_replace<T>(&self, name: Name<T>, manifold: impl Into<Manifold>) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply_one(Op::put(name, manifold.into(), Mode::Anything))
    }

    /// Uninstalls a manifold. Complete when the manifold and its worker are gone.
    ///
    /// # Errors
    ///
    /// If the name has no manifold.
    pub fn uninstall<T>(&self, name: Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Uninstall { with_dependents: false }))
    }

    /// Uninstalls a manifold and all manifolds that depend on it, directly or indirectly. Complete
    /// when they and their workers are gone.
    ///
    /// # Errors
    ///
    /// If the name has no manifold.
    pub fn uninstall_with_dependents<T>(&self, name: Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Uninstall { with_dependents: true }))
    }

    /// Bounces a worker. Complete when the old worker is gone.
    ///
    /// # Errors
    ///
    /// If the name has no manifold.
    pub fn bounce<T>(&self, name: Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Bounce))
    }

    /// Parks a worker. Complete when the worker is gone.
    ///
    /// # Errors
    ///
    /// If the name has no manifold.
    pub fn park<T>(&self, name: Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Park))
    }

    /// Lets a parked worker start again.
    ///
    /// # Errors
    ///
    /// If the name has no manifold.
    pub fn unpark<T>(&self, name: Name<T>) -> Applied {
        self.apply_one(Op::about(name, Action::Unpark))
    }

    /// Provides a value from outside, under a name of its own.
    ///
    /// A second value under the same name replaces the first, and bounces its users.
    ///
    /// # Errors
    ///
    /// If a manifold is installed under the name, or if users of the name expect another type.
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
    /// If the engine ends before.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Engine, Manifold, Name};
    ///
    /// const STORE: Name<String> = Name::new("store");
    /// const WEB: Name<()> = Name::new("web");
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let web = Manifold::builder().inputs(STORE).run(|_, up| async move { up.ready(()).wait().await; Ok(()) });
    /// let engine = Engine::builder().build()?;
    /// let (installed, provided, running, store) = tokio::join!(
    ///     engine.install(WEB, web),
    ///     engine.provide(STORE, "notes".to_owned()),
    ///     engine.running(WEB),
    ///     engine.output(STORE),
    /// );
    /// installed.and(provided).and(running)?;
    /// assert_eq!(store?, "notes");
    /// engine.stop().await?;
    /// # Ok(()) }
    /// ```
    pub fn running<T>(
        &self,
        name: Name<T>,
    ) -> impl Future<Output = Result<(), ChangeError>> + Send + use<T> {
        // Every manifold offers `()` while it is up.
        self.output(name.output::<()>()).into_future()
    }

    /// Waits until the engine is settled: no worker is starting or stopping, and no worker waits
    /// for a bounce delay. A worker in backoff does not count.
    ///
    /// Covers all that workers of this engine had told it before the call: that they are up or have
    /// ended, and new values of their changing outputs. Also covers a value that was sent to the
    /// channel of a changing output before the call, if the sender, the caller and the workers
    /// share a current-thread runtime, and few workers have new values at once: a task that has used
    /// up its turn passes its value on in a later one. Otherwise such a value may still be on its
    /// way to the engine. So may a value on its way through a border between engines.
    ///
    /// Takes a turn of the workers' runtime, and so waits while workers block all its threads and the
    /// engine does not stop.
    ///
    /// # Errors
    ///
    /// If the engine ends before.
    pub async fn settled(&self) -> Result<(), ChangeError> {
        // A worker whose output has a new value was woken before this task is spawned, and so passes
        // the value on before it. If the runtime is gone, so are the workers.
        let turn = Spawned::on(&self.shared.environment.workers, ready(()));
        tokio::select! {
            biased;
            () = self.stopping() => {}
            _ = turn.over() => {}
        }
        self.ask(Question::Settled).await.ok_or(ChangeError::Stopped)
    }

    /// Waits until the engine's own task has run, for watchdogs.
    ///
    /// While the engine is idle, other calls run on the caller's thread. So they do not show
    /// whether the engine's own thread is blocked, for example by a task that never yields.
    ///
    /// # Errors
    ///
    /// If the engine has ended.
    pub async fn ping(&self) -> Result<(), ChangeError> {
        self.ask_task(Question::Turn).await.ok_or(ChangeError::Stopped)
    }

    /// Returns what the engine and its workers are doing. After the engine's end, returns what they
    /// did last.
    ///
    /// The engine looks at 256 workers in one turn, and its work goes on between turns. So a report
    /// on more workers does not show a single moment.
    ///
    /// Takes no longer than the reporters' deadlines. The report names a reporter that does not
    /// answer in time. Such a reporter is not asked again before it has answered. Any thread may
    /// call this, even one without a runtime.
    pub async fn report(&self) -> Report {
        reporters::report(self, LONG).await
    }

    /// Returns a reporter that makes this engine's report a part of another engine's report.
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

    /// Returns the chain from a worker that is not running, or is degraded, to the root cause. The
    /// path is written as for [`find`](Self::find).
    ///
    /// If nothing is installed there, the answer names the path nearest to it. If the path leads into
    /// an engine that is not there, the answer is about the worker that would be that engine. `None`
    /// if the path leads out of this engine, is no path, or the engine has ended.
    ///
    /// If a nested engine misses an import, the chain goes on in the outer engine. If a nested
    /// engine does not offer an export, the chain goes on in the nested engine.
    pub async fn why(&self, path: &str) -> Option<Why> {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        Name::<()>::parse(name).ok()?;
        let mut path = path;
        loop {
            match self.find(path) {
                Some((engine, name)) => return chain::why(&engine, name.as_str()).await,
                None => path = path.rsplit_once('/')?.0,
            }
        }
    }

    /// Returns the dependency graph with the workers' states. `None` after the engine's end. Like a
    /// report, a large graph does not show a single moment.
    pub async fn graph(&self) -> Option<Graph> {
        let mut graph = self.ask(Question::Graph).await?;
        graph.sort();
        Some(graph)
    }

    /// Follows the events of all engines in this engine's tree, from now until the outermost engine
    /// has ended. [`Event::engine`](crate::Event::engine) is the engine of an event.
    pub fn events(&self) -> Events {
        self.shared.environment.log.subscribe(None)
    }

    /// Like [`events`](Self::events), but begins with the event of this number. If the log no longer has
    /// it, the first notice says how many events are missed.
    ///
    /// The log keeps events only while anyone follows them. So an agent that wants all of its boot
    /// follows its engine before it installs anything.
    pub fn events_since(&self, sequence: u64) -> Events {
        self.shared.environment.log.subscribe(Some(sequence))
    }

    /// Returns when the outermost engine began. Another run of the program has another moment, so it
    /// tells apart the numbers of events of one run from those of another.
    pub fn began(&self) -> Timestamp {
        self.shared.environment.log.began().into()
    }

    /// Begins to stop all workers, dependents before what they depend on. Later calls change
    /// nothing.
    pub fn kill(&self) {
        self.shared.inbox.call(Call::Kill(self.caller.origin.clone()));
    }

    /// Waits until the engine begins to stop: it is killed, or a worker has a fatal error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn stopping(&self) {
        let mut life = self.shared.life.clone();
        // If the loop is gone, the engine has stopped too.
        let _gone = life.wait_for(|life| !matches!(life, Life::Running)).await;
    }

    /// Waits until the engine has ended. Every call gives the same result.
    ///
    /// # Errors
    ///
    /// Returns the gravest fatal error, if there was one. Otherwise returns
    /// [`EngineError::LeftBehind`] with the names of the workers that were left behind, if there
    /// are any. After a fatal error only the report names those workers. Refuses the call at once
    /// if it comes from a worker of this engine through the worker's own handle: the worker would
    /// wait for its own end.
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
                workers: self.shared.paths_left_behind(),
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

    /// Kills the engine at once, as [`kill`](Self::kill). The future waits for the engine's end.
    ///
    /// # Errors
    ///
    /// The same as for [`wait`](Self::wait).
    pub fn stop(&self) -> impl Future<Output = Result<(), EngineError>> + Send + use<> {
        self.kill();
        let engine = self.clone();
        async move { engine.wait().await }
    }

    /// Sends a question to the loop's task. `None` if the loop has ended.
    async fn ask_task<T>(&self, question: impl FnOnce(Reply<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.shared.inbox.call(Call::Ask(Box::new(question(reply))));
        answer.await.ok()
    }

    /// Sends a question to the loop, and may answer it on this thread. `None` if the loop has
    /// ended.
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
