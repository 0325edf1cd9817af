use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use crankcase_resources::{
    Action, AttributeError, BoxError, Check, CheckContext, Claimed, Config, Description, Kind,
    KnownConfig, Params, Resource, Rules, Stale, Table, judge, read,
};
use serde_json::{Value, json};

/// The config of the `print` kind, and its state.
#[derive(Debug, Clone, PartialEq, Params)]
struct PrintConfig {
    /// what to print
    #[param(declared)]
    message: String,
}

impl Rules for PrintConfig {}

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

    fn table(&self) -> &Table {
        PrintConfig::table()
    }

    fn states(&self) -> &Table {
        PrintConfig::table()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        judge::<PrintConfig>(known)
    }

    fn claims(&self, _: &KnownConfig<'_>) -> Claimed {
        Claimed::default()
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let PrintConfig { message } = read(config)?;
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
