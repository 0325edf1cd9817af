//! Programs that read their configuration anew.

use std::sync::Arc;

use crankcase_kinds::builtin;
use crankcase_resources::report::EventKind;

use crate::site::machine::{Machine, TestResult, quick};
use crate::site::seen::Seen;

/// A program that logs its starts and reloads, after whose first input it is to reload, and after
/// whose second one to restart. It has this as well in its config.
fn site(more: &str) -> String {
    format!(
        "resources:\n  conf: {{type: file, config: {{path: '@/conf', content: right}}}}\n  key: \
         {{type: file, config: {{path: '@/key', content: right}}}}\n  server:\n    type: process\n    \
         dependencies:\n      conf: {{resource: conf, on_change: reload}}\n      key: {{resource: \
         key, on_change: notify}}\n    config: {{command: [sh, -c, 'trap \"echo reloaded >> @/log\" \
         HUP; echo started >> @/log; while :; do sleep 1000 & wait; done']{more}}}\n"
    )
}

/// Begins to keep a site whose program has started, and whose events are seen.
async fn started(site: &str) -> TestResult<(Machine, Arc<Seen>)> {
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin());
    let machine = Machine::observed(tempfile::tempdir()?, site, setting, observer).await?;
    machine.until("log", |text| text == "started\n").await?;
    machine.running("server").await?;
    Ok((machine, seen))
}

#[tokio::test]
async fn a_program_reloads_after_a_change_that_says_so_and_restarts_after_any_other() -> TestResult
{
    let (machine, seen) = started(&site(", reload: {signal: HUP}")).await?;
    let first = seen.first("server", EventKind::Started).await?;

    machine.write("conf", "wrong")?;
    machine.until("log", |text| text == "started\nreloaded\n").await?;
    let reloaded = seen.first("server", EventKind::Reloaded).await?;
    machine.write("key", "wrong")?;
    machine.until("log", |text| text == "started\nreloaded\nstarted\n").await?;
    let restarted = seen.first("server", EventKind::Restarted).await?;

    assert_eq!((reloaded.pid, &*reloaded.notified_by), (first.pid, &["conf".to_owned()][..]));
    assert_eq!(reloaded.why, "\"conf\" notifies it");
    assert_ne!(restarted.pid, first.pid);
    assert_eq!(machine.starts("server").await?, 1);
    machine.stop().await
}

#[tokio::test]
async fn a_program_reloads_after_a_change_of_a_dependency_that_is_new() -> TestResult {
    let site = site(", reload: {signal: HUP}, ready: {file: '@/log'}");
    let (machine, seen) = started(&site).await?;
    let first = seen.first("server", EventKind::Started).await?;

    let more = "more: {resource: more, on_change: reload}\n      key: {resource: key";
    let site = site.replace("key: {resource: key", more);
    let more = "  more: {type: file, config: {path: '@/more', content: right}}\n";
    machine.swap(&format!("{site}{more}")).await?;
    machine.until("log", |text| text == "started\nreloaded\n").await?;

    let reloaded = seen.first("server", EventKind::Reloaded).await?;
    assert_eq!((reloaded.pid, &*reloaded.notified_by), (first.pid, &["more".to_owned()][..]));
    machine.stop().await
}

#[tokio::test]
async fn a_program_reloads_after_a_dependency_has_left_and_was_put_back() -> TestResult {
    let site = site(", reload: {signal: HUP}, ready: {file: '@/log'}");
    let site = site.replace("on_change: notify", "on_change: reload");
    let more = "more: {resource: more, on_change: reload}\n      key: {resource: key";
    let more = site.replace("key: {resource: key", more);
    let file =
        "  more: {type: file, meta: {reverse: true}, config: {path: '@/more', content: it}}\n";
    let (machine, seen) = started(&format!("{more}{file}")).await?;
    let first = seen.first("server", EventKind::Started).await?;

    machine.swap(&site).await?;
    machine.until("log", |text| text == "started\nreloaded\n").await?;

    let reloaded = seen.first("server", EventKind::Reloaded).await?;
    assert_eq!((reloaded.pid, &*reloaded.notified_by), (first.pid, &["more".to_owned()][..]));
    machine.stop().await
}

#[tokio::test]
async fn a_program_restarts_after_a_change_of_a_resource_that_has_it_in_its_notify() -> TestResult {
    let site = site(", reload: {signal: HUP}");
    let site = site.replace(
        "{type: file, config: {path: '@/key'",
        "{type: file, notify: [server], config: {path: '@/key'",
    );
    let site = site.replace("      key: {resource: key, on_change: notify}\n", "");
    let (machine, seen) = started(&site).await?;
    let first = seen.first("server", EventKind::Started).await?;

    machine.write("key", "wrong")?;
    machine.until("log", |text| text == "started\nstarted\n").await?;

    let restarted = seen.first("server", EventKind::Restarted).await?;
    assert_eq!(restarted.notified_by, ["key"]);
    assert_ne!(restarted.pid, first.pid);
    machine.stop().await
}

#[tokio::test]
async fn a_program_that_cannot_reload_restarts() -> TestResult {
    let (machine, seen) = started(&site("")).await?;

    machine.write("conf", "wrong")?;
    machine.until("log", |text| text == "started\nstarted\n").await?;

    let restarted = seen.first("server", EventKind::Restarted).await?;
    assert_eq!(restarted.why, "\"conf\" notifies it");
    machine.stop().await
}

#[tokio::test]
async fn a_reload_that_fails_is_said_and_done_again_and_the_program_runs_on() -> TestResult {
    let command = "[sh, -c, 'test -e @/good && echo reloaded >> @/log']";
    let (machine, seen) = started(&site(&format!(", reload: {{command: {command}}}"))).await?;

    machine.write("conf", "wrong")?;
    let reason = machine.degraded_by("server", "reload").await?;
    machine.write("good", "")?;
    machine.until("log", |text| text == "started\nreloaded\n").await?;
    seen.first("server", EventKind::Reloaded).await?;

    let why = "its reload command failed: it exited with code 1";
    assert_eq!(reason, format!("cannot reload process \"server\": {why}"));
    assert_eq!(machine.starts("server").await?, 1);
    machine.stop().await
}
