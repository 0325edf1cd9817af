use std::fmt;

use crankcase_engine::{Change, Changing, Exit, Manifold, Name, Offers};
use tokio::sync::watch;

/// What stands in the place of a manifold's inputs.
///
/// A stub is a manifold of the test's own, so values reach the manifold under test by the same
/// typed way as in production: a stub of a wrong type is refused like any other manifold.
///
/// # Examples
///
/// ```
/// use crankcase_engine::Name;
/// use crankcase_testing::Stubs;
///
/// const PORT: Name<u16> = Name::new("port");
/// const STORE: Name<String> = Name::new("store");
/// const CLOCK: Name<u64> = Name::new("clock");
///
/// let stubs = Stubs::new()
///     .value(&PORT, 80)
///     .absent(&CLOCK)
///     .error(&STORE, "the disk is on fire");
/// # drop(stubs);
/// ```
#[derive(Default)]
#[must_use = "stubs do nothing until they are given to `start`"]
pub struct Stubs {
    pub(crate) change: Change,
}

impl Stubs {
    /// Returns no stubs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a value for an input.
    pub fn value<T>(self, name: &Name<T>, value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let provider =
            Manifold::builder().offers::<(T,)>().run_with(value, |value, (), up| async move {
                up.ready((value,)).wait().await;
                Ok(())
            });
        self.manifold(name, provider)
    }

    /// Gives several values for an input, a tuple of up to eight, each of another type.
    pub fn values<T, O>(self, name: &Name<T>, values: O) -> Self
    where
        T: Clone + Send + Sync + 'static,
        O: Offers + Clone + Sync,
    {
        let provider =
            Manifold::builder().offers::<O>().run_with(values, |values, (), up| async move {
                up.ready(values).wait().await;
                Ok(())
            });
        self.manifold(name, provider)
    }

    /// Gives the values of a watch for an input, as a changing output does.
    pub fn changing<T>(self, name: &Name<T>, values: watch::Receiver<T>) -> Self
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        let provider = Manifold::builder().offers::<(Changing<T>,)>().run_with(
            values,
            |values, (), up| async move {
                up.ready((Changing::new(values),)).wait().await;
                Ok(())
            },
        );
        self.manifold(name, provider)
    }

    /// Says that an input is not there. It is what happens to every name that is not given; say it
    /// where the test is about it.
    pub fn absent<T>(self, _name: &Name<T>) -> Self {
        self
    }

    /// Gives an input whose worker fails, and so is not there either.
    pub fn error<T>(self, name: &Name<T>, error: impl Into<String>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let failing =
            Manifold::builder().offers::<(T,)>().run_with(error.into(), |error, (), up| async {
                drop(up);
                Err(Exit::failed(error))
            });
        self.manifold(name, failing)
    }

    /// Puts any manifold under a name, such as a script's.
    pub fn manifold<T>(self, name: &Name<T>, manifold: Manifold) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self { change: self.change.install(name.clone(), manifold) }
    }
}

impl fmt::Debug for Stubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stubs").field(&self.change).finish()
    }
}
