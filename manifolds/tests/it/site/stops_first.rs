//! What a resource does before its other actions.

use std::fs;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Found, Stale, Unit};
use crankcase_resources::report::EventKind;
use crankcase_resources::{Action, BoxError, Context, Unfinished};
use serde_json::json;
use tokio::sync::watch;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, quick, within};
use crate::site::seen::Seen;

/// A server that is stopped before it is changed. Its first stops fail.
#[derive(Debug)]
struct Server {
    fails: usize,
    begun: watch::Sender<Vec<String>>,
}

impl Server {
    fn new(fails: usize) -> Self {
        Self { fails, begun: watch::Sender::new(Vec::new()) }
    }
}

#[async_trait]
impl Unit for Server {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        if is_changed(&self.begun.borrow()) {
            return Ok(Found::Valid(json!({})));
        }
        let amiss = Stale::new(None).differs("it", "old", "new").action(Action::new("change"));
        Ok(Found::Stale(amiss.shutdown(Action::new("stop"))))
    }

    async fn act(&self, action: &Action, _: &Context) -> Result<(), Unfinished> {
        self.begun.send_modify(|begun| begun.push(action.name.clone()));
        if self.begun.borrow().len() > self.fails { Ok(()) } else { Err("it hangs".into()) }
    }
}

fn is_changed(begun: &[String]) -> bool {
    begun.iter().any(|action| action == "change")
}

const SITE: &str = "resources: {it: {type: double}}";

#[tokio::test(start_paused = true)]
async fn a_resource_stops_what_it_must_before_its_other_actions() -> TestResult {
    let (seen, observer) = Seen::pair();
    let setting = (quick(), with_double(Server::new(0)));
    let machine = Machine::observed(tempfile::tempdir()?, SITE, setting, observer).await?;

    let changed = seen.first("it", EventKind::Changed).await?;

    assert_eq!(changed.actions, ["stop", "change"]);
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_could_not_stop_what_it_must_does_nothing_else() -> TestResult {
    let server = Server::new(2);
    let mut begun = server.begun.subscribe();
    let machine = Machine::with_kinds(SITE, with_double(server)).await?;

    let all = within(begun.wait_for(|begun| is_changed(begun))).await?.clone();

    assert_eq!(all, ["stop", "stop", "stop", "change"]);
    machine.stop().await
}

#[tokio::test]
async fn a_resource_that_is_held_back_stops_nothing() -> TestResult {
    let conf = "resources:\n  conf: {type: file, config: {path: '@/conf', content: x}}\n";
    let server = Server::new(0);
    let mut begun = server.begun.subscribe();
    let machine = Machine::with_kinds(conf, with_double(server)).await?;
    machine.running("conf").await?;
    machine.spoil("conf")?;
    machine.degraded("conf").await?;

    machine.swap(&format!("{conf}  it: {{type: double, dependencies: [conf]}}\n")).await?;
    machine.degraded_by("it", "held back").await?;
    let meanwhile = begun.borrow().clone();
    fs::remove_file(machine.path("conf"))?;
    let all = within(begun.wait_for(|begun| is_changed(begun))).await?.clone();

    assert!(meanwhile.is_empty(), "{meanwhile:?}");
    assert_eq!(all, ["stop", "change"]);
    machine.stop().await
}
