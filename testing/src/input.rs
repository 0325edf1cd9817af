use std::fmt::{self, Debug};

use crankcase_engine::{Change, ChangeError, Changing, Engine, Exit, Manifold, Name};
use tokio::sync::watch;

use crate::journal::Journal;

/// An input of a manifold that the test drives; made by [`Harness::input`](crate::Harness::input).
///
/// Every call returns when the engine has carried it out; what it leads to comes afterwards, and is
/// waited for by the harness's expectations.
pub struct Input<T> {
    name: Name<T>,
    engine: Engine,
    journal: Journal,
    state: watch::Sender<State<T>>,
    make: fn(Source<T>) -> Manifold,
    /// Whether one worker offers several values, one after the other.
    is_changing: bool,
    is_installed: bool,
}

/// What an input's worker does.
#[derive(Clone)]
enum State<T> {
    Gone,
    There(T),
    Failed(String),
}

/// What an input's worker is made of.
pub(crate) struct Source<T> {
    state: watch::Receiver<State<T>>,
}

impl<T: Clone + Debug + Send + Sync + 'static> Input<T> {
    /// Returns an input that is absent, and whose workers offer one value each.
    pub(crate) fn plain(name: &Name<T>, engine: Engine, journal: Journal) -> Self {
        Self {
            name: name.clone(),
            engine,
            journal,
            state: watch::Sender::new(State::Gone),
            make: Source::plain,
            is_changing: false,
            is_installed: false,
        }
    }

    /// Returns an input that is absent, and whose worker offers a changing value.
    pub(crate) fn changing(name: &Name<T>, engine: Engine, journal: Journal) -> Self
    where
        T: PartialEq,
    {
        Self { make: Source::changing, is_changing: true, ..Self::plain(name, engine, journal) }
    }

    /// Offers a value. It counts as a change if there is one already.
    ///
    /// # Errors
    ///
    /// When the manifold asks for another type, or the engine has ended.
    pub async fn come(&mut self, value: T) -> Result<(), ChangeError> {
        self.journal.note(format!("{} comes: {value:?}", self.name.as_str()));
        self.offer(value).await
    }

    /// Offers another value. It comes with it if there is none yet.
    ///
    /// # Errors
    ///
    /// As [`come`](Self::come).
    pub async fn change(&mut self, value: T) -> Result<(), ChangeError> {
        self.journal.note(format!("{} changes: {value:?}", self.name.as_str()));
        self.offer(value).await
    }

    async fn offer(&mut self, value: T) -> Result<(), ChangeError> {
        let (name, change) = (self.name.clone(), Change::new());
        let change = match self.state.send_replace(State::There(value)) {
            _ if !self.is_installed => {
                let manifold = (self.make)(Source { state: self.state.subscribe() });
                change.install(name, manifold)
            }
            // Its worker publishes the value.
            State::There(_) if self.is_changing => change,
            State::There(_) | State::Failed(_) => change.bounce(&name),
            State::Gone => change.unpark(&name),
        };
        if let Err(error) = self.engine.apply(change).await {
            self.state.send_replace(State::Gone);
            return Err(error);
        }
        self.is_installed = true;
        self.engine.running(&self.name).await
    }

    /// Takes the value away: who uses it is stopped first.
    ///
    /// # Errors
    ///
    /// When the engine has ended.
    pub async fn go(&mut self) -> Result<(), ChangeError> {
        self.journal.note(format!("{} goes", self.name.as_str()));
        if self.is_installed {
            self.engine.park(&self.name).await?;
        }
        self.state.send_replace(State::Gone);
        Ok(())
    }

    /// Lets the input's worker end by itself with an error: who uses it has lost it. It fails at
    /// each further try, until it [comes](Self::come) again.
    ///
    /// # Errors
    ///
    /// When the engine has ended.
    pub async fn fail(&mut self, error: impl Into<String>) -> Result<(), ChangeError> {
        let error = error.into();
        self.journal.note(format!("{} fails: {error}", self.name.as_str()));
        let was_gone = matches!(self.state.send_replace(State::Failed(error)), State::Gone);
        if !self.is_installed {
            let manifold = (self.make)(Source { state: self.state.subscribe() });
            self.engine.apply(Change::new().install(self.name.clone(), manifold)).await?;
            self.is_installed = true;
        } else if was_gone {
            self.engine.unpark(&self.name).await?;
        }
        self.engine.settled().await
    }
}

impl<T: Clone + Send + Sync + 'static> Source<T> {
    /// Returns a manifold whose value is one for each worker.
    pub(crate) fn plain(self) -> Manifold {
        let builder = Manifold::builder().offers::<(T,)>();
        builder.run_with(self.state, |mut state, (), up| async move {
            let value = value(&state)?;
            let stop = up.ready((value,));
            tokio::select! {
                biased;
                () = stop.wait() => Ok(()),
                error = failed(&mut state) => Err(error),
            }
        })
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Source<T> {
    /// Returns a manifold whose value changes while its worker runs.
    pub(crate) fn changing(self) -> Manifold {
        let builder = Manifold::builder().offers::<(Changing<T>,)>();
        builder.run_with(self.state, |mut state, (), up| async move {
            let (sender, receiver) = watch::channel(value(&state)?);
            let stop = up.ready((Changing::new(receiver),));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    changed = state.changed() => {
                        if changed.is_err() {
                            stop.wait().await;
                            return Ok(());
                        }
                    }
                }
                match &*state.borrow_and_update() {
                    State::There(value) => drop(sender.send_replace(value.clone())),
                    State::Failed(error) => return Err(Exit::failed(error.clone())),
                    State::Gone => {}
                }
            }
        })
    }
}

fn value<T: Clone>(state: &watch::Receiver<State<T>>) -> Result<T, Exit> {
    match &*state.borrow() {
        State::There(value) => Ok(value.clone()),
        State::Failed(error) => Err(Exit::failed(error.clone())),
        State::Gone => Err(Exit::missing("the test has taken it away")),
    }
}

/// Waits until the input is to fail.
async fn failed<T>(state: &mut watch::Receiver<State<T>>) -> Exit {
    let error = match state.wait_for(|state| matches!(state, State::Failed(_))).await.as_deref() {
        Ok(State::Failed(error)) => Some(error.clone()),
        _ => None,
    };
    match error {
        Some(error) => Exit::failed(error),
        // The test has dropped the input: it stays as it is.
        None => std::future::pending().await,
    }
}

impl<T> Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Input").field(&self.name.as_str()).finish()
    }
}
