use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use crankcase_resources::{
    Action, AttributeError, Attributes, BoxError, Check, CheckContext, Claimed, Config,
    Description, Kind, KnownConfig, Parameter, Resource, Stale,
};
use serde_json::{Value, json};

const PARAMETERS: &[Parameter] =
    &[Parameter { name: "message", summary: "what to print; required" }];

/// The `print` kind: puts a message into the log once per apply, under run once per start and per
/// change of the config, and again when notified.
#[derive(Debug)]
pub(crate) struct Print;

impl Kind for Print {
    fn name(&self) -> &'static str {
        "print"
    }

    fn summary(&self) -> &'static str {
        "puts a message into the log, once per apply and when notified"
    }

    fn parameters(&self) -> &[Parameter] {
        PARAMETERS
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        known.errors(self.validate(known.config))
    }

    fn claims(&self, _: &KnownConfig<'_>) -> Claimed {
        Claimed::default()
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let mut attributes = Attributes::new(config, PARAMETERS);
        let message = attributes.required_text("message").map(str::to_owned);
        let message = attributes.finish(message)?;
        Ok(Arc::new(Message { message, is_printed: Arc::default() }))
    }
}

#[derive(Debug)]
struct Message {
    message: String,
    is_printed: Arc<AtomicBool>,
}

impl Message {
    fn action(&self) -> Action {
        let message = self.message.clone();
        let is_printed = Arc::clone(&self.is_printed);
        let description = Description::new("print").with("message", message.as_str());
        Action::new(description, move |context| async move {
            context.log(&message);
            is_printed.store(true, Ordering::Release);
            Ok(())
        })
    }
}

#[async_trait]
impl Resource for Message {
    async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
        let state = json!({"message": self.message});
        if self.is_printed.load(Ordering::Acquire) {
            return Ok(Check::Valid(state));
        }
        let stale = Stale::new(None).differs("message", Value::Null, self.message.as_str());
        Ok(Check::Stale(stale.action(self.action())))
    }

    fn refresh(&self, done: &[Description]) -> Option<Action> {
        done.is_empty().then(|| self.action())
    }
}
