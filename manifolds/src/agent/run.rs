//! The run of an agent: its engine, what stands around it, and their end.

use std::sync::Arc;

use crankcase_engine::{Change, Engine, EngineError, Exit, Name};
use crankcase_status::{ControlConfig, StateLock};
use crankcase_workers::SignalHandle;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::agent::runtimes::{LAST_GRACE, Runtimes};
use crate::agent::signals::Listening;
use crate::agent::{AgentBuilder, AgentError, Ended, SIGNALS, journal, service, state_folder};
use crate::control;

const CONTROL: Name<()> = Name::new("control");

impl AgentBuilder {
    /// Runs until the engine and the frame have ended, or until a second signal. Says whether workers
    /// may run on after it.
    pub(super) async fn run_on(
        self,
        runtimes: &Runtimes,
        lock: &Arc<StateLock>,
        may_run_on: &mut bool,
    ) -> Result<Ended, AgentError> {
        let on = runtimes.frame.handle();
        let signals = Listening::begin(on, self.signals, self.signals_apart)?;
        let engine = self.engine.name(self.name.clone());
        let engine = engine
            .workers_on(runtimes.workers.handle().clone())
            .kill_deadline(self.stop_deadline)
            .build()?;
        let (fatal, logging) = journal::keep(on, &engine, self.log_names);
        let installed = Arc::new(Notify::new());
        let told = service::keep(on, &engine, &installed);
        state_folder::keep(on, &engine, lock);
        let frame = serve(on, &engine, Arc::clone(lock), self.bounds).await?;
        let running = async {
            let begun = begin(&engine, signals.handle(), self.change).await;
            let ended = match begun {
                Ok(()) => {
                    installed.notify_one();
                    until_end(&engine, &signals).await
                }
                Err(error) => {
                    say_besides(engine.stop().await);
                    Err(error)
                }
            };
            // They are in an error too, but not in a graver one.
            let left_behind = engine.report().await.left_behind;
            // A client that is cut off is no failure of the agent.
            let stopped = frame.stop().await.or_else(|error| match error {
                EngineError::LeftBehind { .. } => Ok(()),
                error => Err(error),
            });
            told.all().await;
            // It ends with the events; a thread that is taken is not waited for.
            let aborted = timeout(LAST_GRACE, logging).await.map(Result::unwrap_or_default);
            let aborted = aborted.unwrap_or_default();
            (ended, (left_behind, aborted), stopped)
        };
        let (ended, (left_behind, aborted), stopped) = tokio::select! {
            biased;
            ended = running => ended,
            () = signals.asked_again() => {
                tracing::warn!("asked a second time: ending at once");
                // Its handle is dropped while the control socket still answers.
                frame.kill();
                fatal.say_unless_of(None);
                *may_run_on = true;
                return Ok(Ended::Interrupted);
            }
        };
        *may_run_on = !left_behind.is_empty();
        fatal.say_unless_of(ended.as_ref().err().and_then(AgentError::fatal_worker));
        let Err(error) = ended else {
            stopped?;
            return in_order(aborted);
        };
        say_besides(stopped);
        say_left_behind(&error, &left_behind);
        Err(error)
    }
}

/// Says which workers were left behind, unless the error or the stop after a failed install has said it.
fn say_left_behind(error: &AgentError, workers: &[String]) {
    let is_said = matches!(
        error,
        AgentError::Install(_) | AgentError::Engine(EngineError::LeftBehind { .. })
    );
    if !is_said && !workers.is_empty() {
        tracing::error!(?workers, "workers were left behind");
    }
}

/// Returns how an agent has ended whose workers have all stopped, some of them by an abort.
fn in_order(aborted: Vec<String>) -> Result<Ended, AgentError> {
    match aborted.is_empty() {
        true => Ok(Ended::Stopped),
        false => Err(AgentError::Aborted { workers: aborted }),
    }
}

/// Serves the control socket by an engine of its own.
async fn serve(
    runtime: &tokio::runtime::Handle,
    engine: &Engine,
    lock: Arc<StateLock>,
    bounds: ControlConfig,
) -> Result<Engine, AgentError> {
    let config = control::Config { lock, engine: engine.clone(), bounds };
    let frame = {
        let _runtime = runtime.enter();
        Engine::builder().name(Name::new("frame")).kill_deadline(LAST_GRACE).build()?
    };
    frame.install(CONTROL, control::manifold(config)?).await?;
    Ok(frame)
}

/// Installs what the agent is made of.
async fn begin(engine: &Engine, signals: SignalHandle, change: Change) -> Result<(), AgentError> {
    engine.provide(SIGNALS, signals).await?;
    Ok(engine.apply(change).await?)
}

/// Waits for the engine's end, or stops it when a signal asks for that.
async fn until_end(engine: &Engine, signals: &Listening) -> Result<(), AgentError> {
    tokio::select! {
        biased;
        signal = signals.asked_to_end() => engine.asked_by("agent", signal).kill(),
        () = engine.stopping() => {}
    }
    Ok(engine.wait().await?)
}

/// Says what went wrong besides, where another error is what ends the agent.
fn say_besides(ended: Result<(), EngineError>) {
    if let Err(error) = ended {
        tracing::error!("{}", Exit::failed(error));
    }
}
