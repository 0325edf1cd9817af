//! The kind `noop`: takes any config, is always valid and changes nothing.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{
    ActionType, Config, ConfigReport, Found, Kind, KnownConfig, Shape, Unit,
};
use crankcase_resources::{Action, AttributeError, BoxError, Claimed, Context, Unfinished};
use serde_json::Value;

/// The one action.
const NOTICE: &str = "notice";

/// The `noop` kind: takes any config, is always valid and offers its config as its state.
///
/// It has no table of parameters, so it is what a kind that is made at run time looks like.
#[derive(Debug)]
pub(crate) struct Noop;

impl Kind for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn summary(&self) -> &'static str {
        "does nothing, and offers its config as its state"
    }

    fn actions(&self) -> Vec<ActionType> {
        vec![ActionType::new(NOTICE, "says in the log that it was notified")]
    }

    fn judge(&self, _: &KnownConfig<'_>) -> ConfigReport {
        ConfigReport { claimed: Claimed::default(), ..ConfigReport::default() }
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(Nothing { config: config.clone() }))
    }
}

struct Nothing {
    config: Config,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for Nothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Nothing").field(&Shape::of_map(&self.config)).finish()
    }
}

#[async_trait]
impl Unit for Nothing {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(Value::Object(self.config.clone())))
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        if action.name != NOTICE {
            return Err(format!("there is no action \"{}\"", action.name).into());
        }
        context.log("was notified");
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new(NOTICE))
    }
}
