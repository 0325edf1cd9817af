use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::{
    Action, AttributeError, BoxError, Check, CheckContext, Claimed, Config, Description, Kind,
    KnownConfig, Resource,
};
use serde_json::Value;

/// The `noop` kind: takes any config, is always valid and offers its config as its state.
#[derive(Debug)]
pub(crate) struct Noop;

impl Kind for Noop {
    fn name(&self) -> &'static str {
        "noop"
    }

    fn summary(&self) -> &'static str {
        "does nothing, and offers its config as its state"
    }

    fn claims(&self, _: &KnownConfig<'_>) -> Claimed {
        Claimed::default()
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        Ok(Arc::new(Nothing { config: config.clone() }))
    }
}

#[derive(Debug)]
struct Nothing {
    config: Config,
}

#[async_trait]
impl Resource for Nothing {
    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        Ok(Check::Valid(Value::Object(self.config.clone())))
    }

    fn refresh(&self, _: &[Description]) -> Option<Action> {
        Some(Action::new(Description::new("notice"), |context| async move {
            context.log("was notified");
            Ok(())
        }))
    }
}
