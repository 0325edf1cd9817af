//! Why a change is refused.

use std::fmt;

use crate::vocabulary::error::{ConfigError, WithCauses};
use crate::vocabulary::value::without_modules;

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
    /// A manifold follows a family of names, and a member of the family does not offer the family's
    /// type. Give the member another name, or the family another beginning.
    #[error(
        "cannot install {member:?} beside {user:?}: {user:?} asks all of {family:?} for {}, \
         but {member:?} offers {}",
        one(asked, offered),
        list(asked, offered)
    )]
    MemberMismatch {
        /// The manifold that follows the family.
        user: String,
        /// The family's pattern.
        family: String,
        /// The name that belongs to the family.
        member: String,
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
    /// A worker would wait for itself: in its start it waits for an output, and the worker behind
    /// that output waits for the first one, directly or through others. Declare one of them as an
    /// input of the other, or wait after the worker is up.
    #[error(
        "{:?} cannot wait for {:?}: it would wait for itself: {}",
        path[0],
        path.get(1).unwrap_or(&path[0]),
        arrows(path)
    )]
    WaitCycle {
        /// The names on the circle. Each waits for the next, and the last for the first.
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
