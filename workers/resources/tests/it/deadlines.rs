//! Looks and actions that take longer than they may.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Stop;
use crankcase_resources::{
    Action, ApplyOptions, AttributeError, BoxError, Check, CheckContext, Config, Declaration,
    Description, Kind, Kinds, Outcome, PlanOptions, Resource, Stale, Unfinished, Verdict, apply,
    plan,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{TestResult, apply_with, declare, failure};

/// The kind `slow`: its look or its action waits until it is told to stop.
#[derive(Debug)]
struct Slow;

#[derive(Debug)]
struct Waits {
    at: String,
}

impl Kind for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn summary(&self) -> &'static str {
        "waits until it is told to stop"
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let at = config.get("at").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Arc::new(Waits { at }))
    }
}

#[async_trait]
impl Resource for Waits {
    async fn check(&self, context: &CheckContext) -> Result<Check, BoxError> {
        if self.at == "check" {
            context.stop.wait().await;
            return Err("told to stop".into());
        }
        Ok(Check::Stale(Stale::new(None).action(Action::new(
            Description::new("make"),
            |context| async move {
                context.stop().wait().await;
                Err(Unfinished::Interrupted)
            },
        ))))
    }
}

fn kinds() -> Kinds {
    Kinds::default().with(Arc::new(Slow))
}

fn slow(at: &str) -> Declaration {
    let mut declaration = declare("a", "slow", json!({"at": at}));
    declaration.timeout = Some(Duration::from_secs(90));
    declaration
}

#[tokio::test(start_paused = true)]
async fn a_look_of_a_plan_that_takes_too_long_is_told_to_stop_and_has_failed() -> TestResult {
    let began = Instant::now();

    let plan = plan(&[slow("check")], &kinds(), &PlanOptions::default()).await?;

    let error = "it took longer than its timeout of 1m 30s and was told to stop: told to stop";
    let planned = plan.get("a").ok_or("not planned")?;
    assert_eq!(planned.verdict, Verdict::Failed { error: error.to_owned() });
    assert_eq!(began.elapsed(), Duration::from_secs(90));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_action_that_takes_too_long_is_told_to_stop_and_has_failed() -> TestResult {
    let began = Instant::now();

    let account = apply_with(&[slow("action")], &kinds(), &ApplyOptions::default()).await?;

    let said = failure(&account, "a");
    let error = "it took longer than its timeout of 1m 30s and was told to stop: interrupted";
    assert!(said.contains(error), "{said}");
    assert_eq!(began.elapsed(), Duration::from_secs(90));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_run_reaches_what_has_a_timeout() -> TestResult {
    let (stopper, stop) = Stop::pair();
    let (began, declared, kinds) = (Instant::now(), [slow("action")], kinds());
    let options = ApplyOptions::default();
    let applying = apply(&declared, &kinds, &options, stop);
    let telling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stopper.stop();
    };

    let (account, ()) = tokio::join!(applying, telling);

    let account = account?;
    let outcome = &account.get("a").ok_or("no account")?.outcome;
    assert!(matches!(outcome, Outcome::Halted { at: Some(_), .. }), "{outcome:?}");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    Ok(())
}
