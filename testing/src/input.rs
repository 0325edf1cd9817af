//! An input of a manifold that comes, changes, goes and fails as the test says.

mod source;

use std::fmt::{self, Debug};
use std::time::Duration;

use crankcase_engine::manifold::Offers;
use crankcase_engine::{Change, ChangeError, Engine, Manifold, Name};
use source::{Source, State};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::journal::Journal;
use crate::recorder::EventRecorder;
use crate::subject::{is_about, is_end};

/// An input of a manifold that the test drives; made by [`Harness::input`](crate::Harness::input).
///
/// Every call returns when the engine has carried it out: the value is on offer, or gone, and those
/// who use it have been told. What they do then comes afterwards, and is waited for by the harness's
/// expectations. Each call fails with the reason if that takes longer than the harness's
/// [`limit`](crate::Harness::limit).
pub struct Input<T> {
    name: Name<()>,
    at: Place,
    state: watch::Sender<State<T>>,
    kind: Kind<T>,
    is_installed: bool,
}

/// Where an input is driven.
pub(crate) struct Place {
    pub(crate) engine: Engine,
    pub(crate) journal: Journal,
    pub(crate) limit: Duration,
}

/// How an input's values are offered and told.
struct Kind<T> {
    make: fn(Source<T>) -> Manifold,
    /// What the journal says of a value, if anything.
    show: fn(&T) -> String,
    /// Whether two values are the same to users: there if one worker offers several values, one
    /// after the other.
    is_same: Option<fn(&T, &T) -> bool>,
}

impl<T: Clone + Send + Sync + 'static> Input<T> {
    /// Returns an input that is absent, and whose workers offer one value each.
    pub(crate) fn plain(name: Name<T>, at: Place) -> Self
    where
        T: Debug,
    {
        Self::new(name, at, Kind { make: Source::plain, show: shown, is_same: None })
    }

    /// Returns an input that is absent, and whose worker offers a changing value.
    pub(crate) fn changing(name: Name<T>, at: Place) -> Self
    where
        T: Debug + PartialEq,
    {
        Self::new(name, at, Kind { make: Source::changing, show: shown, is_same: Some(T::eq) })
    }

    /// Returns an input that is absent, and whose workers offer several values each.
    pub(crate) fn several<N>(name: Name<N>, at: Place) -> Self
    where
        T: Offers,
    {
        Self::new(name, at, Kind { make: Source::several, show: |_| String::new(), is_same: None })
    }

    fn new<N>(name: Name<N>, at: Place, kind: Kind<T>) -> Self {
        let state = watch::Sender::new(State::Gone);
        Self { name: name.output(), at, state, kind, is_installed: false }
    }

    /// Offers a value. It counts as a change if there is one already.
    ///
    /// # Errors
    ///
    /// When the manifold asks for another type, the value is not on offer in time, or the engine has
    /// ended.
    pub async fn come(&mut self, value: T) -> Result<(), Failure> {
        self.note("comes", &(self.kind.show)(&value));
        self.offer(value).await
    }

    /// Offers another value. It comes with it if there is none yet.
    ///
    /// # Errors
    ///
    /// As [`come`](Self::come).
    pub async fn change(&mut self, value: T) -> Result<(), Failure> {
        self.note("changes", &(self.kind.show)(&value));
        self.offer(value).await
    }

    /// Takes the value away: who uses it is stopped first.
    ///
    /// # Errors
    ///
    /// When it is not gone in time, or the engine has ended.
    pub async fn go(&mut self) -> Result<(), Failure> {
        self.note("goes", "");
        if self.is_installed {
            let parked = timeout(self.at.limit, self.at.engine.park(self.name.clone())).await;
            match parked {
                Ok(parked) => parked?,
                Err(_) => return Err(self.late("is not gone").await),
            }
        }
        self.state.send_replace(State::Gone);
        Ok(())
    }

    /// Lets the input's worker end by itself with an error, and waits for that: who uses it has lost
    /// it. It fails at each further try, until it [comes](Self::come) again.
    ///
    /// # Errors
    ///
    /// When it does not end in time, or the engine has ended.
    pub async fn fail(&mut self, error: impl Into<String>) -> Result<(), Failure> {
        let error = error.into();
        self.note("fails", &error);
        match timeout(self.at.limit, self.end(error)).await {
            Ok(ended) => ended,
            Err(_) => Err(self.late("has not failed").await),
        }
    }

    async fn end(&mut self, error: String) -> Result<(), Failure> {
        // Made before it is told: the end that comes is not missed.
        let mut events = EventRecorder::new(&self.at.engine);
        let before = self.state.send_replace(State::Failed(error));
        if !self.is_installed {
            self.install().await?;
        } else if matches!(before, State::Gone) {
            self.at.engine.unpark(self.name.clone()).await?;
        }
        // Of one that has failed already nobody runs; it says the new error at its next try.
        if !matches!(before, State::Failed(_)) {
            let is_its_end =
                |event: &_| is_end(event) && is_about(event, &self.at.engine, &self.name);
            events.find(is_its_end).await.map_err(Failure::new)?;
        }
        Ok(self.at.engine.settled().await?)
    }

    async fn offer(&mut self, value: T) -> Result<(), Failure> {
        match timeout(self.at.limit, self.carry_out(value)).await {
            Ok(offered) => Ok(offered?),
            Err(_) => Err(self.late("does not offer the value").await),
        }
    }

    async fn carry_out(&mut self, value: T) -> Result<(), ChangeError> {
        let (engine, name) = (&self.at.engine, &self.name);
        let is_there = matches!(&*self.state.borrow(), State::There(_)) && self.is_installed;
        if let Some(is_same) = self.kind.is_same.filter(|_| is_there) {
            return self.publish(value, is_same).await;
        }
        match self.state.send_replace(State::There(value)) {
            _ if !self.is_installed => self.install().await?,
            State::There(_) | State::Failed(_) => engine.bounce(name.clone()).await?,
            State::Gone => engine.unpark(name.clone()).await?,
        }
        self.at.engine.running(self.name.clone()).await
    }

    async fn install(&mut self) -> Result<(), ChangeError> {
        let manifold = (self.kind.make)(Source { state: self.state.subscribe() });
        let installed = self.at.engine.apply(Change::new().install(self.name.clone(), manifold));
        if let Err(error) = installed.await {
            self.state.send_replace(State::Gone);
            return Err(error);
        }
        self.is_installed = true;
        Ok(())
    }

    /// Lets the input's worker publish another value, and waits until that is what users see.
    ///
    /// An engine at rest answers in the caller's own turn: without the wait nobody would have had a
    /// chance to be told.
    async fn publish(&self, value: T, is_same: fn(&T, &T) -> bool) -> Result<(), ChangeError> {
        let mut seen = self.at.engine.output(self.name.output::<T>()).follow().await?;
        self.state.send_replace(State::There(value.clone()));
        let is_it = |seen: &T| {
            // What is not even equal to itself, such as no number, is taken as it comes.
            is_same(seen, &value) || !is_same(seen, seen) && !is_same(&value, &value)
        };
        while !seen.get().as_ref().is_some_and(is_it) {
            seen.changed().await.map_err(|_| ChangeError::Stopped)?;
        }
        Ok(())
    }

    fn note(&self, what: &str, more: &str) {
        let colon = if more.is_empty() { "" } else { ": " };
        self.at.journal.note(format!("{} {what}{colon}{more}", self.name.as_str()));
    }

    /// Says what has not come in time, and why.
    async fn late(&self, what: &str) -> Failure {
        let (name, limit) = (self.name.as_str(), self.at.limit);
        let why = self.at.engine.why(name).await.map(|why| format!("; {why}")).unwrap_or_default();
        Failure::new(format!("input {name:?} {what} within {limit:?}{why}"))
    }
}

fn shown<T: Debug>(value: &T) -> String {
    format!("{value:?}")
}

impl<T> Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Input").field(&self.name.as_str()).finish()
    }
}
