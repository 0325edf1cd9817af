//! What stands in the place of a manifold's inputs.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::manifold::Offers;
use crankcase_engine::testing::Wrap;
use crankcase_engine::{Change, Changing, EngineBuilder, Exit, Manifold, Name, Nested};
use tokio::sync::watch;

use crate::engine::test_engine;

/// What stands in the place of a manifold's inputs, and the engine that it all runs in.
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
///     .value(PORT, 80)
///     .absent(CLOCK)
///     .error(STORE, "the disk is on fire");
/// # drop(stubs);
/// ```
#[derive(Default)]
#[must_use = "stubs do nothing until they are given to `start`"]
pub struct Stubs {
    change: Change,
    engine: Option<EngineBuilder>,
}

/// So many events are kept, because a test may do much between two looks at them.
const EVENT_CAPACITY: usize = 65_536;

impl Stubs {
    /// Returns no stubs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the engine, to test with a policy, filter or classifier of one's own. Default
    /// [`test_engine`], which keeps 65,536 events.
    pub fn engine(self, engine: EngineBuilder) -> Self {
        Self { engine: Some(engine), ..self }
    }

    /// Gives a value for an input.
    pub fn value<T>(self, name: Name<T>, value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.manifold(name, offering((value,)))
    }

    /// Gives several values for an input, a tuple of up to eight, each of another type.
    pub fn values<T, O>(self, name: Name<T>, values: O) -> Self
    where
        T: Clone + Send + Sync + 'static,
        O: Offers + Clone + Sync,
    {
        self.manifold(name, offering(values))
    }

    /// Gives the values of a watch for an input, as a changing output does.
    pub fn changing<T>(self, name: Name<T>, values: watch::Receiver<T>) -> Self
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        self.manifold(name, following(values))
    }

    /// Says that an input is not there. It is what happens to every name that is not given; say it
    /// where the test is about it.
    pub fn absent<T>(self, _name: Name<T>) -> Self {
        self
    }

    /// Gives an input whose worker fails, and so is not there either.
    pub fn error<T>(self, name: Name<T>, error: impl Into<String>) -> Self
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
    pub fn manifold<T>(self, name: Name<T>, manifold: impl Into<Manifold>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self { change: self.change.install(name, manifold), ..self }
    }

    /// Puts a nested engine under a name, with its imports and exports.
    pub fn nested<T>(self, name: Name<T>, nested: Nested) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self { change: self.change.install_nested(name, nested), ..self }
    }

    /// Puts something around all workers.
    pub(crate) fn wrapped(self, wrap: Arc<dyn Wrap>) -> Self {
        let (engine, change) = self.into_parts();
        Self { change, engine: Some(engine.wrap(wrap)) }
    }

    /// Returns the engine, and the change that puts the stubs into it.
    pub(crate) fn into_parts(self) -> (EngineBuilder, Change) {
        let engine = || test_engine().event_capacity(EVENT_CAPACITY);
        (self.engine.unwrap_or_else(engine), self.change)
    }
}

/// Returns a manifold that offers these values for ever.
pub(crate) fn offering<O: Offers + Clone + Sync>(values: O) -> Manifold {
    Manifold::builder().offers::<O>().run_with(values, |values, (), up| async move {
        up.ready(values).wait().await;
        Ok(())
    })
}

/// Returns a manifold that offers the values of a watch.
pub(crate) fn following<T>(values: watch::Receiver<T>) -> Manifold
where
    T: Clone + PartialEq + Send + Sync + 'static,
{
    let builder = Manifold::builder().offers::<(Changing<T>,)>();
    builder.run_with(values, |values, (), up| async move {
        up.ready((Changing::new(values),)).wait().await;
        Ok(())
    })
}

impl fmt::Debug for Stubs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stubs").field(&self.change).finish()
    }
}
