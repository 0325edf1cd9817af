//! Sites that are waited for.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{Action, BoxError, Context, Unfinished, Watch};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult};

/// A resource whose refresh takes a while.
#[derive(Debug, Default)]
struct Slow {
    is_done: watch::Sender<bool>,
}

#[async_trait]
impl Unit for Slow {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        tokio::select! {
            biased;
            () = context.stop().wait() => return Err(Unfinished::Interrupted),
            () = sleep(Duration::from_secs(3)) => self.is_done.send_replace(true),
        };
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("wait"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_site_with_a_refresh_under_way_is_not_settled() -> TestResult {
    let slow = Slow::default();
    let is_done = slow.is_done.subscribe();
    let alone = "resources:\n  slow: {type: double}\n";
    let machine = Machine::with_kinds(alone, with_double(slow)).await?;
    machine.running("slow").await?;
    let hello = "  hello: {type: print, config: {message: x}, notify: [slow]}\n";
    machine.swap(&format!("{alone}{hello}")).await?;

    let report = machine.settled().await?;

    assert!(*is_done.borrow(), "{report}");
    Ok(())
}

/// A resource that is as declared, and goes on copying.
#[derive(Debug)]
struct Copying {
    is_done: watch::Receiver<bool>,
}

#[async_trait]
impl Unit for Copying {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    fn holds(&self, _: &Context) -> Option<String> {
        (!*self.is_done.borrow()).then(|| "it still copies".to_owned())
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().every(Duration::from_secs(1)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_holds_up_the_run_is_waited_for_and_holds_nobody_back() -> TestResult {
    let (done, is_done) = watch::channel(false);
    let site = "resources:\n  copy: {type: double}\n  next: {type: noop, dependencies: [copy]}\n";
    let machine = Machine::with_kinds(site, with_double(Copying { is_done })).await?;
    machine.running("next").await?;
    let degraded = machine.degraded("copy").await?;
    assert_eq!(degraded, "it still copies");
    let mut settled = Box::pin(machine.settled());

    tokio::select! {
        biased;
        report = &mut settled => panic!("it has settled: {}", report?),
        () = sleep(Duration::from_secs(10)) => {}
    }
    done.send_replace(true);

    settled.await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_chain_is_settled_with_a_few_reports_whatever_its_length() -> TestResult {
    let mut chain = "resources:\n  r0: {type: noop}\n".to_owned();
    for number in 1..200 {
        writeln!(chain, "  r{number}: {{type: noop, dependencies: [r{}]}}", number - 1)?;
    }
    let machine = Machine::new(&chain).await?;
    let reports = machine.count_reports().await?;

    machine.settled().await?;

    let reports = reports.load(Ordering::Relaxed);
    assert!(reports < 20, "{reports} reports");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_site_is_settled_when_nothing_has_happened_for_as_long_as_asked() -> TestResult {
    let alone = "resources:\n  one: {type: noop}\n";
    let machine = Machine::new(alone).await?;
    machine.running("one").await?;
    let began = Instant::now();
    let mut settled = Box::pin(machine.settled_for(Duration::from_secs(5)));

    tokio::select! {
        biased;
        report = &mut settled => panic!("it has settled: {}", report?),
        () = sleep(Duration::from_secs(3)) => {}
    }
    machine.swap(&format!("{alone}  two: {{type: noop}}\n")).await?;
    settled.await?;

    // The other resource has come after three seconds.
    assert!(began.elapsed() >= Duration::from_secs(8));
    Ok(())
}
