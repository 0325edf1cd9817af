//! Groups of control calls, what they would do, and why they are refused.

use std::fmt;

use smallvec::SmallVec;

use crate::manifolds::Manifold;
use crate::vocabulary::error::{ConfigError, WithCauses};
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::value::{Kind, without_modules};

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
/// engine.apply(Change::new().uninstall(&OLD).install(NEW, idle())).await?;
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

    /// Returns an op that needs no manifold, such as a bounce.
    pub(crate) fn about<T>(name: &Name<T>, action: Action) -> Self {
        Self { name: name.text().clone(), action }
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
    pub fn install<T>(self, name: Name<T>, manifold: Manifold) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold, Mode::Nothing))
    }

    /// Replaces the manifold under a name. Its dependents bounce.
    pub fn replace<T>(self, name: Name<T>, manifold: Manifold) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold, Mode::Something))
    }

    /// Installs a manifold, or replaces the one that is there.
    pub fn install_or_replace<T>(self, name: Name<T>, manifold: Manifold) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.with(Op::put(name, manifold, Mode::Anything))
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
    pub fn uninstall<T>(self, name: &Name<T>) -> Self {
        self.with(Op::about(name, Action::Uninstall { with_dependents: false }))
    }

    /// Uninstalls a manifold and all manifolds that depend on it, directly or indirectly.
    pub fn uninstall_with_dependents<T>(self, name: &Name<T>) -> Self {
        self.with(Op::about(name, Action::Uninstall { with_dependents: true }))
    }

    /// Stops a worker and starts it again with fresh inputs. Ends a backoff and every other wait
    /// except a bounce delay.
    pub fn bounce<T>(self, name: &Name<T>) -> Self {
        self.with(Op::about(name, Action::Bounce))
    }

    /// Stops a worker and keeps it stopped until it is unparked.
    pub fn park<T>(self, name: &Name<T>) -> Self {
        self.with(Op::about(name, Action::Park))
    }

    /// Lets a parked worker start again.
    pub fn unpark<T>(self, name: &Name<T>) -> Self {
        self.with(Op::about(name, Action::Unpark))
    }
}

/// What a change would do if it were applied now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// The paths whose workers would be stopped and started again, sorted. This includes workers
    /// that run without an optional input that would come: they bounce when the input is up.
    pub bounced: Vec<String>,
    /// The paths whose workers would be stopped and could not start again, sorted.
    pub stopped: Vec<String>,
    /// The paths of manifolds that would be installed, sorted.
    pub installed: Vec<String>,
    /// The paths of manifolds that would be uninstalled, sorted.
    pub uninstalled: Vec<String>,
}

/// Why a change was refused, or why it is not complete. A refused change has changed nothing. A
/// change with [`Self::Stuck`] is in force but not complete.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The engine has been killed or has ended.
    #[error("cannot change the engine: it is stopping or has stopped")]
    Stopped,
    /// The change is in force, but a worker that it stops is stuck: it has not ended within both
    /// graces. When the worker ends, the change goes on.
    #[error("the change stands, but the worker of {name:?} is stuck and has not ended")]
    Stuck {
        /// The worker's name.
        name: String,
    },
    /// A manifold was to be installed under a name that already has one. Use replace.
    #[error("cannot install manifold {name:?}: already installed")]
    AlreadyInstalled {
        /// The name.
        name: String,
    },
    /// A value was provided under a name that has a manifold. Uninstall the manifold first, or use
    /// another name.
    #[error("cannot provide {name:?}: a manifold is installed there")]
    NotProvided {
        /// The name.
        name: String,
    },
    /// The name has no manifold to replace, uninstall, bounce, park or unpark.
    #[error("cannot {action} manifold {name:?}: not installed{}", did_you_mean(nearest))]
    NotInstalled {
        /// The requested action.
        action: &'static str,
        /// The name.
        name: String,
        /// An installed name that is similar.
        nearest: Option<String>,
    },
    /// A group names a manifold twice.
    #[error("cannot apply the group: it names manifold {name:?} twice")]
    NamedTwice {
        /// The name.
        name: String,
    },
    /// A worker that passes a value across the border of a nested engine gets its name from other
    /// names. This name cannot be used. Give the nested engine or the value another name.
    #[error(
        "cannot install nested engine {nested:?}: a worker that passes a value over its border would \
         be {name:?}, which is {fault}"
    )]
    BorderName {
        /// The nested engine's name.
        nested: String,
        /// The name of that worker.
        name: String,
        /// What is wrong with the name.
        fault: &'static str,
    },
    /// A manifold declares the same input, with the same type, twice.
    #[error(
        "cannot install manifold {name:?}: it declares its input {input:?} ({}) twice",
        without_modules(kind)
    )]
    DuplicateInput {
        /// The manifold's name.
        name: String,
        /// The input's name.
        input: String,
        /// The type that is asked for.
        kind: &'static str,
    },
    /// A manifold offers two outputs of one type. Give one of them another type.
    #[error("cannot install manifold {name:?}: it offers {} twice", without_modules(kind))]
    DuplicateOutput {
        /// The manifold's name.
        name: String,
        /// The type.
        kind: &'static str,
    },
    /// A manifold is installed under a name whose type it does not offer.
    #[error(
        "cannot install manifold {name:?}: the name is for {}, but it offers {}",
        one(asked, offered),
        list(asked, offered)
    )]
    NameMismatch {
        /// The name.
        name: String,
        /// The name's type.
        asked: &'static str,
        /// The types that are offered.
        offered: Vec<&'static str>,
    },
    /// An input asks for a type that the manifold under its name does not offer.
    #[error(
        "cannot install manifold {name:?}: {user:?} asks {input:?} for {}, \
         but {input:?} offers {}",
        one(asked, offered),
        list(asked, offered)
    )]
    InputMismatch {
        /// The manifold that was to be installed: either `user` or `input`.
        name: String,
        /// The manifold that declares the input.
        user: String,
        /// The input's name.
        input: String,
        /// The type that is asked for.
        asked: &'static str,
        /// The types that are offered.
        offered: Vec<&'static str>,
    },
    /// A caller follows an output with a type that the manifold under its name does not offer.
    #[error(
        "cannot follow {name:?} as {}: it offers {}",
        one(asked, offered),
        list(asked, offered)
    )]
    OutputMismatch {
        /// The name.
        name: String,
        /// The type that is asked for.
        asked: &'static str,
        /// The types that are offered.
        offered: Vec<&'static str>,
    },
    /// The change would make a manifold depend on itself.
    #[error("cannot install manifold {:?}: it would depend on itself: {}", path[0], arrows(path))]
    Cycle {
        /// The names on the cycle. Each depends on the next, and the last on the first.
        path: Vec<String>,
    },
    /// A manifold has a setting that cannot be used.
    #[error("cannot install manifold {name:?}")]
    Settings {
        /// The manifold's name.
        name: String,
        /// The setting and what is wrong with it.
        #[source]
        source: ConfigError,
    },
    /// A worker asked for a change and would wait for its own end. Let the worker end with
    /// [`Exit::Bounce`](crate::Exit::Bounce) or [`Exit::Uninstall`](crate::Exit::Uninstall), or ask
    /// from a task that is not the worker's.
    #[error(
        "cannot {action} manifold {name:?}: {asker:?} asks for it and would wait for its own end"
    )]
    OwnEnd {
        /// The requested action.
        action: &'static str,
        /// The name.
        name: String,
        /// The worker that asks.
        asker: String,
    },
    /// The change has more than one fault.
    #[error("cannot apply the change: {}", all(errors, *more))]
    Several {
        /// The first 64 faults: first the faults of each name, in the order of the change, then
        /// types that do not fit, then one cycle.
        errors: Vec<Self>,
        /// The number of other faults.
        more: usize,
    },
}

/// Returns the type that is asked for, as text to stand beside the offered types.
fn one(asked: &str, offered: &[&'static str]) -> String {
    if is_clear(asked, offered) { without_modules(asked) } else { asked.to_owned() }
}

/// Returns the offered types as text.
fn list(asked: &str, offered: &[&'static str]) -> String {
    if offered.is_empty() {
        return "nothing".to_owned();
    }
    if !is_clear(asked, offered) {
        return offered.join(", ");
    }
    let short: Vec<_> = offered.iter().map(|kind| without_modules(kind)).collect();
    short.join(", ")
}

/// Whether the types differ without their module paths.
fn is_clear(asked: &str, offered: &[&'static str]) -> bool {
    let mut short: Vec<_> = offered.iter().map(|kind| without_modules(kind)).collect();
    short.push(without_modules(asked));
    short.sort_unstable();
    short.windows(2).all(|pair| pair[0] != pair[1])
}

/// Returns a text with the number of faults, and with each fault and its causes on its own line.
fn all(errors: &[ChangeError], more: usize) -> String {
    let mut text = format!("{} things are wrong:", errors.len() + more);
    for error in errors {
        text += &format!("\n  {}", WithCauses(error));
    }
    if more > 0 {
        text += &format!("\n  and {more} more");
    }
    text
}

fn arrows(path: &[String]) -> String {
    let mut text = path.join(" -> ");
    text.push_str(" -> ");
    text.push_str(&path[0]);
    text
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

impl fmt::Debug for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&WithCauses(self), f)
    }
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
