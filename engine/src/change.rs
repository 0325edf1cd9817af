//! Groups of control calls, and what they would do.

mod error;

use std::fmt;

use smallvec::SmallVec;

pub use error::ChangeError;

use crate::manifolds::Manifold;
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::value::Kind;

/// A group of changes that is checked as a whole. It is applied as one wave or refused as a whole.
///
/// The order of the changes does not matter. Each name may appear once.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Change, Engine, Manifold, Name};
///
/// const OLD: Name<()> = Name::new("old");
/// const NEW: Name<()> = Name::new("new");
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let idle = || Manifold::builder().run(|(), up| async move { up.ready(()).wait().await; Ok(()) });
/// let engine = Engine::builder().build()?;
/// engine.install(OLD, idle()).await?;
/// engine.apply(Change::new().uninstall(OLD).install(NEW, idle())).await?;
/// # engine.stop().await?; Ok(()) }
/// ```
#[derive(Debug, Default)]
#[must_use = "a change does nothing until it is applied"]
pub struct Change {
    ops: Vec<Op>,
}

/// The ops of a change. Most changes have one op.
pub(crate) type Ops = SmallVec<[Op; 1]>;

/// The part of a change that concerns one name.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) name: Text,
    pub(crate) action: Action,
}

impl Op {
    /// Puts a manifold under a name.
    pub(crate) fn put<T>(name: Name<T>, manifold: Manifold, mode: Mode) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self::put_part(Part { name: name.into_text(), kind: Kind::of::<T>(), manifold }, mode)
    }

    /// Provides a value from outside under a name.
    pub(crate) fn provide<T>(name: Name<T>, value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        Self::put(name, Manifold::provided(value), Mode::Provided)
    }

    /// Whether it installs a worker that passes a value across a border.
    pub(crate) fn installs_carrier(&self) -> bool {
        let Action::Install { manifold: Some(manifold), .. } = &self.action else { return false };
        manifold.is_carrier()
    }

    /// Returns an op that needs no manifold, such as a bounce.
    pub(crate) fn about<T>(name: Name<T>, action: Action) -> Self {
        Self { name: name.into_text(), action }
    }

    /// Puts a part of a nested engine under its name.
    fn put_part(part: Part, mode: Mode) -> Self {
        let Part { name, kind, manifold } = part;
        let action = Action::Install { manifold: Some(manifold), expected: kind, mode };
        Self { name, action }
    }

    /// Whether the op still holds a manifold, because the op was not applied.
    pub(crate) fn has_manifold(&self) -> bool {
        matches!(self.action, Action::Install { manifold: Some(_), .. })
    }
}

/// A manifold that belongs to a nested engine, with its name and the kind that its users expect.
pub(crate) struct Part {
    pub(crate) name: Text,
    pub(crate) kind: &'static Kind,
    pub(crate) manifold: Manifold,
}

#[derive(Debug)]
pub(crate) enum Action {
    /// Puts a manifold under a name. Its users expect the kind `expected`. The manifold is taken
    /// out of the op when the op is applied.
    Install {
        manifold: Option<Manifold>,
        expected: &'static Kind,
        mode: Mode,
    },
    Uninstall {
        with_dependents: bool,
    },
    Bounce,
    Park,
    Unpark,
}

/// What must be under a name before a manifold is put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Nothing,
    Something,
    Anything,
    /// Nothing, or a part of the same nested engine.
    Part,
    /// Nothing, or a value that was provided from outside.
    Provided,
}

impl Change {
    /// Returns an empty change.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the ops, in the order of the calls.
    pub(crate) fn into_ops(self) -> Ops {
        self.ops.into()
    }

    // Inlined, because each call would otherwise move the whole change.
    #[inline]
    fn with(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds a part of a nested engine.
    pub(crate) fn add(self, part: Part, mode: Mode) -> Self {
        self.with(Op::put_part(part, mode))
    }

    /// Installs a manifold under a name that has none.
    pub fn install<T>(self, name: Name<T>, manifold: impl Into<Manifold>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold.into(), Mode::Nothing))
    }

    /// Replaces the manifold under a name. Its dependents bounce.
    pub fn replace<T>(self, name: Name<T>, manifold: impl Into<Manifold>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold.into(), Mode::Something))
    }

    /// Installs a manifold, or replaces the one that is there.
    pub fn install_or_replace<T>(self, name: Name<T>, manifold: impl Into<Manifold>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold.into(), Mode::Anything))
    }

    /// Provides a value from outside under a name of its own; see
    /// [`Engine::provide`](crate::Engine::provide).
    pub fn provide<T>(self, name: Name<T>, value: T) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::provide(name, value))
    }

    /// Uninstalls a manifold. Its dependents lose their input and wait for it. The imports and
    /// exports of a nested engine are uninstalled with it.
    pub fn uninstall<T>(self, name: Name<T>) -> Self {
        self.with(Op::about(name, Action::Uninstall { with_dependents: false }))
    }

    /// Uninstalls a manifold and all manifolds that depend on it, directly or indirectly.
    pub fn uninstall_with_dependents<T>(self, name: Name<T>) -> Self {
        self.with(Op::about(name, Action::Uninstall { with_dependents: true }))
    }

    /// Stops a worker and starts it again with fresh inputs. Ends a backoff and every other wait
    /// except a bounce delay.
    pub fn bounce<T>(self, name: Name<T>) -> Self {
        self.with(Op::about(name, Action::Bounce))
    }

    /// Stops a worker and keeps it stopped until it is unparked.
    pub fn park<T>(self, name: Name<T>) -> Self {
        self.with(Op::about(name, Action::Park))
    }

    /// Lets a parked worker start again.
    pub fn unpark<T>(self, name: Name<T>) -> Self {
        self.with(Op::about(name, Action::Unpark))
    }
}

/// What a change would do if it were applied now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Preview {
    /// The paths whose workers would be stopped and started again, sorted. This includes workers
    /// that run without an optional input that would come: they bounce when the input is up.
    pub bounced: Vec<String>,
    /// The paths whose workers would be stopped and could not start again, sorted.
    pub stopped: Vec<String>,
    /// The paths of manifolds that would be installed under names that have none, sorted.
    pub installed: Vec<String>,
    /// The paths of manifolds that would be replaced, sorted.
    pub replaced: Vec<String>,
    /// The paths of manifolds that would be uninstalled, sorted.
    pub uninstalled: Vec<String>,
}

impl Action {
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Install { mode: Mode::Something, .. } => "replace",
            Self::Install { .. } => "install",
            Self::Uninstall { .. } => "uninstall",
            Self::Bounce => "bounce",
            Self::Park => "park",
            Self::Unpark => "unpark",
        }
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            ("install", &self.installed),
            ("replace", &self.replaced),
            ("uninstall", &self.uninstalled),
            ("stop", &self.stopped),
            ("bounce", &self.bounced),
        ];
        for (verb, paths) in lines {
            for path in paths {
                writeln!(f, "{verb} {path}")?;
            }
        }
        Ok(())
    }
}
