//! Rules: what is done when a fact, a state or a resource has changed.

mod cause;
mod hands;
mod parameters;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::BoxError;

pub use self::cause::{Cause, Trigger};
pub use self::hands::Hands;
pub use self::parameters::RuleParameters;

/// A rule: when something has happened, something is done.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rule {
    /// The name, unique among the rules.
    pub name: String,
    /// What it waits for.
    pub on: Trigger,
    /// How it does its work. The facts at `/rules/NAME` count more.
    pub parameters: RuleParameters,
    /// What it does.
    pub handler: Arc<dyn Handler>,
}

impl Rule {
    /// Returns a rule with the default parameters.
    pub fn new(name: &str, on: Trigger, handler: Arc<dyn Handler>) -> Self {
        Self { name: name.to_owned(), on, parameters: RuleParameters::default(), handler }
    }
}

/// A rule that says the same may go on where the other was.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.on == other.on
            && self.parameters == other.parameters
            && self.handler.is_equal(&*other.handler)
    }
}

/// What a rule does.
///
/// # Requirements
///
/// - A handler is idempotent: after a crash or a failure it is called again for what it has done in part.
#[async_trait]
pub trait Handler: fmt::Debug + Send + Sync + std::any::Any {
    /// Returns whether the rule is for this cause. By default it is for all.
    ///
    /// # Errors
    ///
    /// When that cannot be told: it counts as an attempt that has failed.
    fn matches(&self, cause: &Cause) -> Result<bool, BoxError> {
        let _ = cause;
        Ok(true)
    }

    /// Does what is to be done.
    ///
    /// # Errors
    ///
    /// When it could not be done as a whole. It is tried again, after a wait that doubles, for as often as
    /// [`RuleParameters::attempts`] says.
    ///
    /// # Cancel safety
    ///
    /// It is dropped when it takes too long, and when the agent ends.
    async fn handle(&self, cause: &Cause, hands: &Hands) -> Result<(), BoxError>;

    /// Returns whether another handler does the same. `false` is always right.
    fn is_equal(&self, other: &dyn Handler) -> bool {
        let _ = other;
        false
    }
}
