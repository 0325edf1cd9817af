//! Rules: what is done when a fact, a state or a resource has changed.

pub(crate) mod cause;
pub(crate) mod pace;
pub(crate) mod parameters;
pub(crate) mod rule;
pub(crate) mod tools;

pub use self::cause::{Cause, Trigger};
pub use self::parameters::RuleParameters;
pub use self::rule::{Handler, Rule};
pub use self::tools::RuleTools;
