//! Processes that count their own starts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_engine::{Detail, EventKind};
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Config, Found, Kind, Unit};
use crankcase_resources::{AttributeError, BoxError, Context};
use crankcase_workers::ProcessConfig;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::site::machine::{Machine, TestResult, lines, within};

/// A server that depends on a page and its config, and is notified by one of them.
const SITE: &str = "vars: {port: 80}\nresources:\n  page: {type: file, config: {path: '@/page', \
                    content: right}}\n  reload: {type: file, config: {path: '@/reload', content: \
                    right}}\n  server:\n    type: process\n    dependencies: {page: page, reload: \
                    {resource: reload, on_change: notify}}\n    config: {command: [sh, -c, 'echo \
                    {{ vars.port }} >> @/starts; exec sleep 1000'], env: {PAGE: '{{ \
                    deps.page.state.path }}'}}\n";

/// The kind `process`, whose checks are counted.
#[derive(Debug, Default)]
struct Counted {
    checks: watch::Sender<usize>,
}

impl Kind for Counted {
    fn name(&self) -> &'static str {
        "process"
    }

    fn summary(&self) -> &'static str {
        "counts checks"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let kinds = builtin();
        let kind = kinds.get("process").expect("it is built in");
        Ok(Arc::new(Server { server: kind.make(config)?, checks: self.checks.clone() }))
    }

    fn is_supervised(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Server {
    server: Arc<dyn Unit>,
    checks: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Server {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.checks.send_modify(|checks| *checks += 1);
        self.server.check(context).await
    }

    fn program(&self) -> Option<&ProcessConfig> {
        self.server.program()
    }
}

#[tokio::test]
async fn a_process_starts_anew_only_for_its_config_and_for_notifications() -> TestResult {
    let counted = Counted::default();
    let mut checks = counted.checks.subscribe();
    let machine = Machine::with_kinds(SITE, builtin().with(counted)).await?;
    machine.until("starts", |text| text == "80\n").await?;
    let before = *checks.borrow_and_update();

    // The state of a dependency changes, and the config does not: it is checked, and no more.
    fs::set_permissions(machine.path("page"), Permissions::from_mode(0o600))?;
    within(checks.wait_for(|checks| *checks > before)).await?;

    // A dependency drifts and is repaired.
    machine.write("page", "wrong")?;
    machine.until("page", |text| text == "right").await?;

    // The check of a dependency fails once.
    machine.spoil("page")?;
    machine.degraded("page").await?;
    fs::remove_file(machine.path("page"))?;
    machine.until("page", |text| text == "right").await?;

    // Its config changes. Had anything before started it anew, that would stand there as well.
    machine.swap(&SITE.replace("port: 80", "port: 81")).await?;
    machine.until("starts", |text| text == "80\n81\n").await?;

    // It is notified.
    machine.write("reload", "wrong")?;
    machine.until("starts", |text| text == "80\n81\n81\n").await?;
    assert_eq!(machine.starts("server").await?, 1);

    // Nothing more comes after.
    machine.swap(&SITE.replace("port: 80", "port: 82")).await?;
    machine.until("starts", |text| text == "80\n81\n81\n82\n").await?;
    machine.stop().await
}

#[tokio::test]
async fn an_equal_declaration_is_not_even_checked_when_another_site_comes() -> TestResult {
    let counted = Counted::default();
    let checks = counted.checks.clone();
    let machine = Machine::with_kinds(SITE, builtin().with(counted)).await?;
    machine.until("starts", |text| text == "80\n").await?;
    let site = format!("{SITE}  new: {{type: file, config: {{path: '@/new'}}}}\n");
    machine.swap(&site).await?;
    machine.until("new", str::is_empty).await?;
    let before = *checks.borrow();

    machine.swap(&site.replace("'@/new'", "'@/newer'")).await?;
    machine.until("newer", str::is_empty).await?;
    machine.swap(&site.replace("port: 80", "port: 80.0")).await?;
    machine.until("starts", |text| text == "80\n80.0\n").await?;

    assert_eq!(*checks.borrow(), before + 1);
    machine.stop().await
}

#[tokio::test]
async fn a_process_that_ends_is_started_again_and_the_report_says_why() -> TestResult {
    let machine = Machine::new(
        "resources:\n  server: {type: process, config: {command: [sh, -c, 'echo >> @/starts; exit \
         3']}}\n",
    )
    .await?;

    machine.until("starts", |text| lines(text) >= 3).await?;

    let report = machine.resources().await?.report().await;
    let server = &report.workers["server"];
    let error = server.error.as_ref().ok_or("no error")?;
    assert!(server.failures >= 2, "{report}");
    assert_eq!(error.text, "process \"server\" ended with exit status: 3");
    machine.stop().await
}

#[tokio::test]
async fn the_report_of_a_process_gives_the_pid_of_the_one_that_runs() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n  server: {type: \
         process, config: {command: [sh, -c, 'echo $$ > @/pid; exec sleep 1000']}}\n",
    )
    .await?;
    let mut before = String::new();

    for _ in 0..2 {
        machine.until("pid", |text| *text != before && text.ends_with('\n')).await?;
        before = machine.read("pid").ok_or("no pid")?;
        machine.running("server").await?;
        let report = machine.resources().await?.report().await;
        let Some(Detail::Value(own)) = &report.workers["server"].report else {
            return Err(format!("nothing of its own: {report}").into());
        };
        let pid: i32 = before.trim().parse()?;
        assert_eq!(own["program"]["pid"], pid, "{own}");
        kill_process(Pid::from_raw(pid).ok_or("no process")?, Signal::KILL)?;
    }

    machine.running("page").await?;
    let report = machine.resources().await?.report().await;
    let Some(Detail::Value(own)) = &report.workers["page"].report else {
        return Err(format!("nothing of its own: {report}").into());
    };
    assert_eq!((own.get("program"), &own["last_event"]["event"]), (None, &"changed".into()));
    machine.stop().await
}

#[tokio::test]
async fn the_events_say_why_a_program_was_started() -> TestResult {
    let site = |code: u8| {
        format!(
            "resources:\n  server: {{type: process, config: {{command: [sh, -c, 'echo $$ > @/pid; \
             read line < @/pipe; exit {code}']}}}}\n"
        )
    };
    let machine = Machine::new("{}").await?;
    let pipe = machine.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    let mut events = machine.resources().await?.events();
    let [started, restarted] = ["started", "restarted"].map(|word| format!("{word} its program"));

    machine.swap(&site(3)).await?;
    let first = machine.noted(&mut events, "server", &started).await?;
    tokio::task::spawn_blocking(move || fs::write(pipe, "end\n")).await??;
    let again = machine.noted(&mut events, "server", &restarted).await?;
    machine.swap(&site(4)).await?;
    let changed = machine.noted(&mut events, "server", &restarted).await?;

    assert_eq!(first, "agent: it did not run");
    assert_eq!(again, "agent: process \"server\" ended with exit status: 3");
    assert_eq!(changed, "agent: its config has changed: command");
    machine.stop().await
}

#[tokio::test]
async fn a_command_that_runs_ends_with_the_engine() -> TestResult {
    let machine = Machine::new(
        "resources:\n  long: {type: exec, config: {command: [sh, -c, 'echo $$ > @/pid; exec sleep \
         1000']}}\n",
    )
    .await?;
    machine.until("pid", |text| text.ends_with('\n')).await?;
    let pid = machine.read("pid").ok_or("no pid")?;

    machine.stop().await?;

    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
    Ok(())
}

#[tokio::test]
async fn a_process_that_is_stopped_while_it_is_restarted_does_not_start_again() -> TestResult {
    let site = |page: &str| {
        format!(
            "resources:\n  page: {{type: file, config: {{path: '@/page', content: {page}}}}}\n  \
             server: {{type: process, dependencies: {{page: {{resource: page, on_change: notify}}}}, \
             config: {{command: [sh, -c, 'trap \"echo > @/ending; read line < @/pipe; exit\" TERM; \
             echo >> @/starts; while :; do read line < @/idle; done'], grace: 5m}}}}\n"
        )
    };
    let machine = Machine::new("{}").await?;
    for pipe in ["pipe", "idle"] {
        assert!(std::process::Command::new("mkfifo").arg(machine.path(pipe)).status()?.success());
    }
    machine.swap(&site("a")).await?;
    machine.until("starts", |text| lines(text) == 1).await?;
    machine.running("server").await?;
    let resources = machine.resources().await?;
    let mut events = resources.events();

    machine.swap(&site("b")).await?;
    machine.until("ending", |text| lines(text) == 1).await?;
    machine.swap("{}").await?;
    machine.happened(&mut events, "server", &EventKind::Stopping).await;
    let pipe = machine.path("pipe");
    tokio::task::spawn_blocking(move || fs::write(pipe, "end\n")).await??;
    machine.happened(&mut events, "server", &EventKind::Removed).await;

    assert_eq!(machine.read("starts").as_deref(), Some("\n"));
    machine.stop().await
}

#[tokio::test]
async fn a_process_that_is_to_be_left_alone_runs_on_whatever_its_config() -> TestResult {
    let site = |word: &str, noop: bool| {
        format!(
            "resources:\n  server: {{type: process, config: {{command: [sh, -c, 'echo {word} >> \
             @/starts; exec sleep 1000']}}, meta: {{noop: {noop}}}}}\n"
        )
    };
    let machine = Machine::new(&site("one", false)).await?;
    machine.until("starts", |text| text == "one\n").await?;
    machine.running("server").await?;
    let mut events = machine.resources().await?.events();

    machine.swap(&site("two", true)).await?;
    let amiss = machine.degraded("server").await?;
    machine.swap(&site("one", true)).await?;
    let good = EventKind::Health { degraded: None };
    machine.happened(&mut events, "server", &good).await;
    machine.swap(&site("two", false)).await?;

    machine.until("starts", |text| text == "one\ntwo\n").await?;
    assert_eq!(amiss, "it is left alone (noop): it runs with the config before");
    machine.stop().await
}

#[tokio::test]
async fn a_process_that_is_not_kept_ends_with_the_engine() -> TestResult {
    let machine = Machine::new(
        "resources:\n  server: {type: process, config: {keep: false, command: [sh, -c, 'trap \"echo bye > \
         @/bye; exit\" TERM; echo $$ > @/pid; sleep 1000 & wait']}}\n",
    )
    .await?;
    machine.until("pid", |text| text.ends_with('\n')).await?;
    let (pid, bye) = (machine.read("pid").ok_or("no pid")?, machine.path("bye"));

    machine.stop().await?;

    assert!(!std::path::Path::new(&format!("/proc/{}", pid.trim())).exists());
    assert_eq!(fs::read_to_string(bye)?, "bye\n");
    Ok(())
}
