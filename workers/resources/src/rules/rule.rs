//! A rule, and the contract of its handler.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::error::BoxError;
use crate::rules::cause::{Cause, Trigger};
use crate::rules::parameters::RuleParameters;
use crate::rules::tools::RuleTools;

/// A rule: what it waits for, and what it does then.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rule {
    /// The name, unique among the rules.
    pub name: String,
    /// What the rule waits for.
    pub on: Trigger,
    /// How the rule does its work. The facts at `/rules/NAME` count more.
    pub parameters: RuleParameters,
    /// What the rule does.
    pub handler: Arc<dyn Handler>,
}

impl Rule {
    /// Returns a rule with the default parameters.
    pub fn new(name: &str, on: Trigger, handler: Arc<dyn Handler>) -> Self {
        Self { name: name.to_owned(), on, parameters: RuleParameters::default(), handler }
    }
}

/// Two rules are equal if they do the same. So a site that is loaded again with the same rules has not changed.
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
/// - A handler is idempotent. After a crash or a failure it is called again for the same cause, and
///   may have done a part of the work before.
#[async_trait]
pub trait Handler: fmt::Debug + Send + Sync + std::any::Any {
    /// Returns whether the rule handles this cause. By default it handles all causes.
    ///
    /// # Errors
    ///
    /// When the handler cannot decide. This counts as a failed attempt.
    fn matches(&self, cause: &Cause, tools: &RuleTools) -> Result<bool, BoxError> {
        let _ = (cause, tools);
        Ok(true)
    }

    /// Does the work of the rule for a cause.
    ///
    /// # Errors
    ///
    /// When a part of the work has failed. The work is tried again, after waits that double, until there were
    /// [`RuleParameters::attempts`] attempts.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when it takes longer than [`RuleParameters::timeout`], and when the agent ends.
    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError>;

    /// Returns whether another handler does the same. `false` is always safe.
    fn is_equal(&self, other: &dyn Handler) -> bool {
        let _ = other;
        false
    }
}
