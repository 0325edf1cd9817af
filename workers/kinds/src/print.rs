//! The kind `print`: puts a message into the log.

use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_resources::{
    Actions, BoxError, Check, Claimed, Context, Params, Resource, Stale, Unfinished,
};
use serde_json::Value;

/// puts a message into the log, once per apply and when notified
///
/// Under `run` that is once per start and per change of the config. Its state is its config.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Print {
    /// what to print
    #[param(declared)]
    pub message: String,
}

/// What a `print` does.
#[derive(Debug, Actions)]
pub enum Do {
    /// puts the message into the log
    Print { message: String },
}

impl Print {
    fn action(&self) -> Do {
        Do::Print { message: self.message.clone() }
    }
}

impl Resource for Print {
    const NAME: &'static str = "print";
    type State = Self;
    type Action = Do;

    fn claims(_: &PrintPartial) -> Claimed {
        Claimed::default()
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let is_printed = context.memory::<AtomicBool>().load(Ordering::Acquire);
        if is_printed {
            return Ok(Check::valid(self.clone()));
        }
        let stale = Stale::absent().differs("message", Value::Null, self.message.as_str());
        Ok(stale.act(self.action()).each_time().into())
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        let Do::Print { message } = action;
        context.log(message);
        context.memory::<AtomicBool>().store(true, Ordering::Release);
        Ok(())
    }

    fn refresh(&self, done: &[Do], _: &Context) -> Option<Do> {
        done.is_empty().then(|| self.action())
    }
}
