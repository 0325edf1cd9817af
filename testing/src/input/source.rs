//! The workers of an input that the test drives.

use crankcase_engine::manifold::Offers;
use crankcase_engine::{Changing, Exit, Manifold};
use tokio::sync::watch;

/// What an input's worker does.
#[derive(Clone)]
pub(super) enum State<T> {
    Gone,
    There(T),
    Failed(String),
}

/// What an input's worker is made of.
pub(super) struct Source<T> {
    pub(super) state: watch::Receiver<State<T>>,
}

impl<T: Clone + Send + Sync + 'static> Source<T> {
    /// Returns a manifold whose value is one for each worker.
    pub(super) fn plain(self) -> Manifold {
        self.offering(|value| (value,))
    }

    /// Returns a manifold whose values are the same for all the life of a worker.
    pub(super) fn several(self) -> Manifold
    where
        T: Offers,
    {
        self.offering(|values| values)
    }

    fn offering<O: Offers>(self, offers: fn(T) -> O) -> Manifold {
        let builder = Manifold::builder().offers::<O>();
        builder.run_with((self.state, offers), |(mut state, offers), (), up| async move {
            let value = value(&state)?;
            let stop = up.ready(offers(value));
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
    pub(super) fn changing(self) -> Manifold {
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
