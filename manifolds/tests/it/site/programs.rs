//! The events of programs: their starts and ends, and how they are kept running.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use crankcase_engine::Name;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Config, Found, Kind, Stale, Unit};
use crankcase_resources::report::EventKind;
use crankcase_resources::run::State;
use crankcase_resources::{Action, AttributeError, BoxError, Context, Event, Observer, Unfinished};
use crankcase_workers::ProcessConfig;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::site::machine::{Machine, TestResult, has_reversal, lines, quick, within};
use crate::site::seen::Seen;

/// A config, and a server that it notifies and that tells its pid.
const SITE: &str = "resources:\n  conf: {type: file, config: {path: '@/conf', content: good}}\n  \
                    server:\n    type: process\n    dependencies: {conf: {resource: conf, \
                    on_change: notify}}\n    config: {command: [sh, -c, 'echo $$ >> @/pids; exec \
                    sleep 1000']}\n";

fn kill(pid: Option<i32>) -> TestResult {
    Ok(kill_process(pid.and_then(Pid::from_raw).ok_or("no process")?, Signal::KILL)?)
}

/// Begins to keep a site whose events are seen.
async fn observed(site: &str) -> TestResult<(Machine, Arc<Seen>)> {
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin());
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;
    Ok((machine, seen))
}

#[tokio::test]
async fn each_start_and_end_of_a_program_is_an_event_with_its_reason() -> TestResult {
    let (machine, seen) = observed(SITE).await?;
    let restarted = |before| seen.nth("server", EventKind::Restarted, before);

    let first = seen.first("server", EventKind::Started).await?;
    machine.until("pids", |pids| pids == format!("{}\n", first.pid.unwrap_or_default())).await?;
    kill(first.pid)?;
    let ended = seen.first("server", EventKind::Ended).await?;
    let again = restarted(0).await?;
    machine.until("pids", |pids| lines(pids) == 2).await?;
    machine.write("conf", "wrong")?;
    let notified = restarted(1).await?;
    machine.swap(&SITE.replace("1000", "1001")).await?;
    let changed = restarted(2).await?;
    machine.swap("{}").await?;
    let gone = seen.nth("server", EventKind::Ended, 1).await?;

    // It may have been notified before its first start.
    let whys = ["its worker has started", "\"conf\" notifies it"];
    assert!(whys.contains(&&*first.why), "{first:?}");
    assert_eq!(ended.why, "process \"server\" ended with signal: 9 (SIGKILL)");
    assert_eq!((ended.pid, &again.why), (first.pid, &ended.why));
    assert_eq!(notified.why, "\"conf\" notifies it");
    assert_eq!(notified.notified_by, ["conf"]);
    assert_eq!(changed.why, "its config has changed: command");
    assert_eq!((gone.pid, &*gone.why), (changed.pid, "it has left the manifest"));
    machine.stop().await
}

#[tokio::test]
async fn the_end_of_a_program_with_its_agent_is_an_event() -> TestResult {
    let site = SITE.replace("{command:", "{keep: false, command:");
    let (machine, seen) = observed(&site).await?;
    let started = seen.first("server", EventKind::Started).await?;

    machine.stop().await?;

    let events = seen.events();
    let ended = events.iter().find(|event| event.event == EventKind::Ended).ok_or("no end")?;
    assert_eq!((ended.pid, &*ended.why), (started.pid, "its worker was told to stop"));
    Ok(())
}

/// Sees all events, and panics at the first start of a program.
#[derive(Debug)]
struct Panicking {
    seen: Arc<Seen>,
    has_panicked: AtomicBool,
}

impl Observer for Panicking {
    fn happened(&self, event: &Event) {
        self.seen.happened(event);
        let is_start = event.event == EventKind::Started;
        assert!(!is_start || self.has_panicked.swap(true, Ordering::Relaxed), "no luck");
    }
}

#[tokio::test]
async fn a_program_that_is_kept_is_adopted_by_the_next_keeper() -> TestResult {
    let site = "resources:\n  server: {type: process, config: {command: [sh, -c, 'echo >> \
                @/starts; exec sleep 1000']}}\n";
    let (machine, seen) = observed(site).await?;
    let started = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    machine.restart().await?;
    let adopted = seen.first("server", EventKind::Adopted).await?;
    machine.swap(&site.replace("1000", "1001")).await?;
    let changed = seen.first("server", EventKind::Restarted).await?;
    machine.until("starts", |starts| lines(starts) == 2).await?;
    machine.swap("{}").await?;
    let gone = seen.first("server", EventKind::Ended).await?;

    assert_eq!(adopted.pid, started.pid);
    assert_eq!(adopted.why, "it was started with an equal config");
    assert_eq!(changed.why, "its config has changed: command");
    assert_eq!((gone.pid, &*gone.why), (changed.pid, "it has left the manifest"));
    machine.stop().await
}

/// The site with one more dependency of the server.
fn with_another_dependency() -> String {
    let site = SITE.replace("on_change: notify}}", "on_change: notify}, other: other}");
    format!("{site}  other: {{type: file, config: {{path: '@/other', content: good}}}}\n")
}

#[tokio::test]
async fn a_program_whose_dependencies_change_runs_on() -> TestResult {
    let (machine, seen) = observed(SITE).await?;
    let started = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    machine.swap(&with_another_dependency()).await?;
    let adopted = seen.first("server", EventKind::Adopted).await?;
    machine.swap(SITE).await?;
    let again = seen.nth("server", EventKind::Adopted, 1).await?;

    assert_eq!((adopted.pid, again.pid), (started.pid, started.pid));
    assert_eq!(adopted.why, "it was started with an equal config");
    machine.swap("{}").await?;
    let gone = seen.first("server", EventKind::Ended).await?;
    assert_eq!((gone.pid, &*gone.why), (started.pid, "it has left the manifest"));
    machine.stop().await
}

#[tokio::test]
async fn a_program_whose_dependencies_and_config_change_is_started_anew() -> TestResult {
    let (machine, seen) = observed(SITE).await?;
    let started = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    machine.swap(&with_another_dependency().replace("1000", "1001")).await?;

    let ended = seen.first("server", EventKind::Ended).await?;
    assert_eq!((ended.pid, &*ended.why), (started.pid, "it was started with another config"));
    machine.running("server").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_is_not_ready_when_its_dependencies_change_is_started_anew() -> TestResult {
    let unready = |site: &str| site.replace("sleep 1000']", "sleep 1000'], ready: {line: up}");
    let (machine, seen) = observed(&unready(SITE)).await?;
    let started = seen.first("server", EventKind::Started).await?;

    machine.swap(&unready(&with_another_dependency())).await?;
    let ended = seen.first("server", EventKind::Ended).await?;
    let again = seen.nth("server", EventKind::Started, 1).await?;

    let why = "its type or its dependencies have changed";
    assert_eq!((ended.pid, &*ended.why), (started.pid, why));
    assert_ne!(again.pid, started.pid);
    machine.swap("{}").await?;
    let gone = seen.nth("server", EventKind::Ended, 1).await?;
    assert_eq!((gone.pid, &*gone.why), (again.pid, "it has left the manifest"));
    machine.stop().await
}

#[tokio::test]
async fn a_program_whose_resource_becomes_of_another_type_ends() -> TestResult {
    let (machine, seen) = observed(SITE).await?;
    let started = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    let file = "resources:\n  server: {type: file, config: {path: '@/server', content: good}}\n";
    machine.swap(file).await?;

    let ended = seen.first("server", EventKind::Ended).await?;
    let why = "its type or its dependencies have changed";
    assert_eq!((ended.pid, &*ended.why), (started.pid, why));
    machine.stop().await
}

#[tokio::test]
async fn the_end_of_a_program_whose_worker_panics_is_an_event() -> TestResult {
    let (seen, has_panicked) = (Arc::new(Seen::default()), AtomicBool::new(false));
    let observer = Arc::new(Panicking { seen: Arc::clone(&seen), has_panicked });
    let setting = (quick(), builtin());
    let machine = Machine::observed(tempfile::tempdir()?, SITE, setting, observer).await?;

    let started = seen.first("server", EventKind::Started).await?;
    let ended = seen.first("server", EventKind::Ended).await?;

    assert_eq!((ended.pid, &*ended.why), (started.pid, "its worker has panicked"));
    within(seen.first("server", EventKind::Restarted)).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_start_that_somebody_asked_for_says_who_and_why() -> TestResult {
    let (machine, seen) = observed(SITE).await?;
    seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    let engine = machine.resources().await?.asked_by("ada", "a new disk");
    engine.bounce(Name::<State>::parse("server")?).await?;

    let restarted = seen.first("server", EventKind::Restarted).await?;
    let asked_by = restarted.asked_by.as_ref().ok_or("nobody")?;
    assert_eq!((&*asked_by.who, &*asked_by.why), ("ada", "a new disk"));
    assert_eq!(restarted.why, "ada asked for it: a new disk");
    machine.stop().await
}

#[tokio::test]
async fn a_program_with_a_wrong_config_is_started_again_as_it_ran_before() -> TestResult {
    let site = "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n  \
                server:\n    type: process\n    dependencies: [page]\n    config: {command: [sh, -c, \
                'echo >> @/starts; exec sleep 1000'], grace: '{{ \"10s\" if deps.page.state.mode == \
                \"0644\" else \"never\" }}'}\n";
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page"), "right")?;
    fs::set_permissions(folder.path().join("page"), Permissions::from_mode(0o644))?;
    let (seen, observer) = Seen::pair();
    let machine = Machine::observed(folder, site, (quick(), builtin()), observer).await?;
    let first = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    fs::set_permissions(machine.path("page"), Permissions::from_mode(0o600))?;
    machine.degraded_by("server", "never").await?;
    kill(first.pid)?;

    let again = seen.first("server", EventKind::Restarted).await?;
    assert_eq!(again.why, "process \"server\" ended with signal: 9 (SIGKILL)");
    machine.until("starts", |starts| lines(starts) == 2).await?;
    machine.stop().await
}

/// The kind `process`, which cannot open a resource that says so.
#[derive(Debug)]
struct Closed;

impl Kind for Closed {
    fn name(&self) -> &'static str {
        "process"
    }

    fn summary(&self) -> &'static str {
        "cannot open some programs"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let kinds = builtin();
        let kind = kinds.get("process").expect("it is built in");
        let says = |word| config["command"][2].as_str().is_some_and(|text| text.contains(word));
        let (is_closed, is_made) = (says("closed"), AtomicBool::new(!says("made")));
        Ok(Arc::new(Door { program: kind.make(config)?, is_closed, is_made }))
    }

    fn can_reverse(&self) -> bool {
        true
    }

    fn is_supervised(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Door {
    program: Arc<dyn Unit>,
    is_closed: bool,
    is_made: AtomicBool,
}

#[async_trait]
impl Unit for Door {
    async fn open(&self, _: &Context) -> Result<(), BoxError> {
        if self.is_closed { Err("it is closed".into()) } else { Ok(()) }
    }

    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        if self.is_made.load(Ordering::Relaxed) {
            return Ok(Found::Valid(json!({})));
        }
        let amiss = Stale::new(None).differs("it", "closed", "open");
        Ok(Found::Stale(amiss.action(Action::new("make"))))
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        self.is_made.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn reversal(&self, _: &Context) -> Result<Option<Config>, BoxError> {
        let closed = json!({"command": ["sh", "-c", "closed"]});
        Ok(closed.as_object().cloned())
    }

    fn program(&self) -> Option<&ProcessConfig> {
        self.program.program()
    }
}

#[tokio::test]
async fn a_program_whose_new_config_cannot_be_opened_runs_on_with_the_old_one() -> TestResult {
    let site = |word: &str| {
        format!(
            "resources:\n  server: {{type: process, config: {{command: [sh, -c, 'echo {word} >> \
             @/starts; exec sleep 1000']}}}}\n"
        )
    };
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin().with(Closed));
    let machine = Machine::observed(tempfile::tempdir()?, &site("one"), setting, observer).await?;
    machine.until("starts", |starts| starts == "one\n").await?;
    machine.running("server").await?;

    machine.swap(&site("closed")).await?;
    let reason = machine.degraded("server").await?;
    let ends = seen.events().iter().filter(|event| event.event == EventKind::Ended).count();
    machine.swap(&site("two")).await?;
    within(seen.first("server", EventKind::Restarted)).await?;

    assert_eq!((reason.as_str(), ends), ("cannot open it: it is closed", 0));
    machine.until("starts", |starts| starts == "one\ntwo\n").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_was_handed_over_and_cannot_be_opened_runs_on_with_the_old_config()
-> TestResult {
    let site = |word: &str, dependencies: &str| {
        format!(
            "resources:\n  page: {{type: noop}}\n  server: {{type: process, {dependencies}config: \
             {{command: [sh, -c, 'echo {word} >> @/starts; exec sleep 1000']}}}}\n"
        )
    };
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin().with(Closed));
    let first = site("one", "");
    let machine = Machine::observed(tempfile::tempdir()?, &first, setting, observer).await?;
    let started = seen.first("server", EventKind::Started).await?;
    machine.running("server").await?;

    machine.swap(&site("closed", "dependencies: [page], ")).await?;
    let adopted = seen.first("server", EventKind::Adopted).await?;
    let reason = machine.degraded_by("server", "closed").await?;

    assert_eq!((adopted.pid, &*reason), (started.pid, "cannot open it: it is closed"));
    machine.swap("{}").await?;
    let gone = seen.first("server", EventKind::Ended).await?;
    assert_eq!((gone.pid, &*gone.why), (started.pid, "it has left the manifest"));
    machine.stop().await
}

#[tokio::test]
async fn what_cannot_be_put_back_is_not_kept_as_it_was_and_stays_on_record() -> TestResult {
    let site = "resources:\n  server: {type: process, meta: {reverse: true}, config: {command: [sh, \
                -c, 'echo made >> @/starts; exec sleep 1000']}}\n";
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin().with(Closed));
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;
    machine.until("starts", |starts| starts == "made\n").await?;
    machine.running("server").await?;

    machine.swap("resources:\n  other: {type: noop}\n").await?;
    let reason = machine.degraded("server").await?;

    assert_eq!(reason, "cannot open it: it is closed");
    within(seen.first("server", EventKind::Ended)).await?;
    assert!(machine.is_on_record(has_reversal)?);
    machine.stop().await
}
