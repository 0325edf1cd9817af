//! Looks and actions that take longer than they may.

use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::run::{apply, plan};
use crankcase_resources::{
    Actions, ApplyOptions, BoxError, Check, Context, Declaration, Kinds, Outcome, Params,
    PlanOptions, Resource, Stale, Unfinished, Verdict, kind,
};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{TestResult, apply_with, declare, failure};

/// waits until it is told to stop
#[derive(Debug, Clone, Params)]
struct Slow {
    /// what waits: `check` or `action`
    at: String,
}

#[derive(Debug, Actions)]
enum Do {
    /// waits
    Make,
}

impl Resource for Slow {
    const NAME: &'static str = "slow";
    type State = Self;
    type Action = Do;

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        if self.at == "check" {
            context.stop().wait().await;
            return Err("told to stop".into());
        }
        Ok(Stale::absent().act(Do::Make).into())
    }

    async fn act(&self, _: &Do, context: &Context) -> Result<(), Unfinished> {
        context.stop().wait().await;
        Err(Unfinished::Interrupted)
    }
}

fn kinds() -> Kinds {
    Kinds::default().with(kind::<Slow>())
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
