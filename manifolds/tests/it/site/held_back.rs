//! Resources before others, which are not as declared.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::{Backoff, Detail, EventKind, Events, Notice};
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{BoxError, Context, Watch};
use serde_json::json;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, lines};

/// Longer than any test waits: what comes back within it did not wait for it.
fn long() -> Backoff {
    Backoff::default().initial(Duration::from_secs(60 * 60)).max(Duration::from_secs(24 * 60 * 60))
}

async fn patient(manifest: &str) -> Result<Machine, Box<dyn std::error::Error>> {
    Machine::begin(tempfile::tempdir()?, manifest, (long(), builtin())).await
}

/// Returns all that was said to be degraded so far, and why.
fn degraded(events: &mut Events) -> Vec<String> {
    let mut degraded = Vec::new();
    while let Some(notice) = events.try_next() {
        if let Notice::Event(event) = notice
            && matches!(event.kind, EventKind::Health { degraded: Some(_) })
        {
            degraded.push(event.to_string());
        }
    }
    degraded
}

/// A folder `d0` with `depth` folders nested in it, and a file in the last.
fn nested(depth: usize) -> (String, String) {
    let mut site = "resources:\n  d0: {type: file, config: {path: '@/d0/'}}\n".to_owned();
    let mut folder = "d0/".to_owned();
    for level in 1..depth {
        folder.push_str(&format!("d{level}/"));
        let above = level - 1;
        site.push_str(&format!(
            "  d{level}: {{type: file, dependencies: [d{above}], config: {{path: '@/{folder}'}}}}\n"
        ));
    }
    let last = depth - 1;
    site.push_str(&format!(
        "  leaf: {{type: file, dependencies: [d{last}], config: {{path: '@/{folder}leaf', content: \
         x}}}}\n"
    ));
    (site, format!("{folder}leaf"))
}

#[tokio::test]
async fn a_deep_tree_that_was_moved_away_is_back_without_a_backoff_and_nothing_is_degraded()
-> TestResult {
    let (site, leaf) = nested(6);
    let machine = patient(&site).await?;
    machine.running("leaf").await?;
    let mut events = machine.resources().await?.events();

    for round in 0..8 {
        fs::rename(machine.path("d0"), machine.path(&format!("gone{round}")))?;
        machine.until(&leaf, |text| text == "x").await?;
    }

    machine.stop().await?;
    assert_eq!(degraded(&mut events), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_wide_tree_that_was_moved_away_is_back_without_a_backoff_and_nothing_is_degraded()
-> TestResult {
    let mut site = "resources:\n  root: {type: file, config: {path: '@/root/'}}\n".to_owned();
    for number in 0..20 {
        site.push_str(&format!(
            "  d{number}: {{type: file, dependencies: [root], config: {{path: '@/root/{number}/'}}}}\n  \
             f{number}: {{type: file, dependencies: [d{number}], config: {{path: \
             '@/root/{number}/file', content: x}}}}\n"
        ));
    }
    let machine = patient(&site).await?;
    for number in 0..20 {
        machine.running(&format!("f{number}")).await?;
    }
    let mut events = machine.resources().await?.events();

    fs::rename(machine.path("root"), machine.path("gone"))?;
    for number in 0..20 {
        machine.until(&format!("root/{number}/file"), |text| text == "x").await?;
    }

    machine.stop().await?;
    assert_eq!(degraded(&mut events), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_tree_whose_edges_nobody_has_declared_is_made_and_comes_back_level_by_level() -> TestResult
{
    let machine = patient(
        "resources:\n  leaf: {type: file, config: {path: '@/a/b/leaf', content: x}}\n  b: {type: \
         file, config: {path: '@/a/b/'}}\n  a: {type: file, config: {path: '@/a/'}}\n",
    )
    .await?;
    machine.running("leaf").await?;
    let mut events = machine.resources().await?.events();

    fs::rename(machine.path("a"), machine.path("gone"))?;
    machine.until("a/b/leaf", |text| text == "x").await?;

    machine.stop().await?;
    assert_eq!(degraded(&mut events), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_new_edge_leaves_a_program_running() -> TestResult {
    let site = "resources:\n  server: {type: process, config: {command: [sh, -c, 'echo started >> \
                @/starts; exec sleep 1000', '@/conf']}}\n";
    let machine = patient(site).await?;
    machine.until("starts", |text| text == "started\n").await?;

    let conf = "  conf: {type: file, config: {path: '@/conf', content: x}}\n";
    machine.swap(&format!("{site}{conf}")).await?;
    machine.running("conf").await?;
    machine.settled().await?;

    assert_eq!(machine.read("starts").as_deref(), Some("started\n"));
    Ok(())
}

#[tokio::test]
async fn a_watch_ends_a_backoff() -> TestResult {
    let machine =
        patient("resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n")
            .await?;
    machine.running("page").await?;

    machine.spoil("page")?;
    machine.degraded("page").await?;
    fs::remove_file(machine.path("page"))?;

    machine.until("page", |text| text == "right").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_new_declaration_ends_a_backoff() -> TestResult {
    let site = "resources:\n  page: {type: file, config: {path: '@/page', content: '@'}}\n";
    let machine = patient(&site.replace("/page", "/gone/page")).await?;
    machine.degraded("page").await?;

    machine.swap(site).await?;

    machine.running("page").await?;
    machine.stop().await
}

#[tokio::test]
async fn what_fails_by_itself_while_its_dependency_is_well_has_failed() -> TestResult {
    let machine = patient(
        "resources:\n  dir: {type: file, config: {path: '@/dir/'}}\n  page: {type: file, \
         dependencies: [dir], config: {path: '@/dir/page', content: right}}\n",
    )
    .await?;
    machine.running("page").await?;

    machine.spoil("dir/page")?;

    let reason = machine.degraded("page").await?;
    assert!(reason.contains("is a symlink and not a file"), "{reason}");
    machine.stop().await
}

/// A config, a test of it, and a server that starts with it and is told of its changes.
const GATE: &str = "resources:\n  conf: {type: file, notify: [test, server], config: {path: '@/conf', \
                    content: good}}\n  test: {type: exec, dependencies: [conf], config: {command: \
                    [grep, -q, good, '@/conf']}}\n  between: {type: noop, dependencies: [test]}\n  \
                    server:\n    type: process\n    dependencies: [between]\n    config: {command: \
                    [sh, -c, 'echo $(cat @/conf) >> @/starts; exec sleep 1000']}\n";

#[tokio::test]
async fn a_config_that_fails_its_test_never_reaches_the_server() -> TestResult {
    let machine = patient(GATE).await?;
    machine.until("starts", |text| text == "good\n").await?;

    machine.swap(&GATE.replace("content: good", "content: bad")).await?;
    let reason = machine.degraded("server").await?;
    machine.until("conf", |text| text == "bad").await?;
    machine.swap(&GATE.replace("content: good", "content: goods")).await?;
    machine.until("starts", |text| lines(text) == 2).await?;

    assert_eq!(reason, "held back by \"test\", which is not as declared");
    assert_eq!(machine.read("starts").as_deref(), Some("good\ngoods\n"));
    machine.stop().await
}

/// A config, and a server that depends on it and ends when something is written to a pipe.
const SERVED: &str = "resources:\n  conf: {type: file, config: {path: '@/conf', content: good}}\n  \
                      server:\n    type: process\n    dependencies: [conf]\n    config: {command: [sh, \
                      -c, 'echo one >> @/starts; read line < @/pipe']}\n";

/// Begins to keep a manifest in a folder with a pipe.
async fn piped(manifest: &str) -> Result<Machine, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    Machine::begin(folder, manifest, (crate::site::machine::quick(), builtin())).await
}

#[tokio::test]
async fn a_server_that_ends_is_started_again_whatever_its_dependencies_are() -> TestResult {
    let machine = piped(SERVED).await?;
    machine.until("starts", |text| text == "one\n").await?;

    machine.spoil("conf")?;
    machine.degraded("conf").await?;
    fs::write(machine.path("pipe"), "end\n")?;
    machine.until("starts", |text| text == "one\none\n").await?;
    machine.running("server").await?;
    machine.bounce("server").await?;

    machine.until("starts", |text| text == "one\none\none\n").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_server_is_held_back_from_its_first_start_and_from_another_config() -> TestResult {
    let conf = SERVED.split("  server:").next().ok_or("no config")?;
    let machine = piped(conf).await?;
    machine.running("conf").await?;
    machine.spoil("conf")?;
    machine.degraded("conf").await?;

    machine.swap(SERVED).await?;
    let first = machine.degraded_by("server", "held back").await?;
    let starts = machine.read("starts");
    fs::remove_file(machine.path("conf"))?;
    machine.until("starts", |text| text == "one\n").await?;
    machine.running("server").await?;
    machine.spoil("conf")?;
    machine.degraded("conf").await?;
    machine.swap(&SERVED.replace("echo one", "echo two")).await?;
    let other = machine.degraded_by("server", "held back").await?;

    assert_eq!(starts, None);
    assert_eq!([&first, &other], ["held back by \"conf\", which is not as declared"; 2]);
    let report = machine.resources().await?.report().await;
    let Some(Detail::Value(own)) = &report.workers["server"].report else {
        return Err(format!("nothing of its own: {report}").into());
    };
    assert!(own["program"]["pid"].is_i64(), "the old one does not run any more: {own}");
    assert_eq!(machine.read("starts").as_deref(), Some("one\n"));
    fs::remove_file(machine.path("conf"))?;
    machine.until("starts", |text| text == "one\ntwo\n").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_new_site_reaches_a_server_together_with_its_config() -> TestResult {
    let site = "vars: {port: 80}\nresources:\n  conf: {type: file, config: {path: '@/conf', content: \
                '{{ vars.port | string }}'}}\n  server:\n    type: process\n    dependencies: [conf]\n    \
                config: {command: [sh, -c, 'echo {{ vars.port }} $(cat @/conf) >> @/starts; exec \
                sleep 1000']}\n";
    let machine = Machine::new(site).await?;
    let mut wanted = "80 80\n".to_owned();
    machine.until("starts", |text| text == wanted).await?;

    for port in 81..100 {
        machine.swap(&site.replace("port: 80", &format!("port: {port}"))).await?;
        wanted.push_str(&format!("{port} {port}\n"));
        machine.until("starts", |text| lines(text) == lines(&wanted)).await?;
    }

    assert_eq!(machine.read("starts"), Some(wanted));
    machine.stop().await
}

#[tokio::test]
async fn a_resource_that_is_left_alone_holds_nobody_back() -> TestResult {
    let machine = Machine::new(
        "resources:\n  alone: {type: file, config: {path: '@/alone', content: x, mode: '0600'}, \
         meta: {noop: true}}\n  page: {type: file, dependencies: [alone], config: {path: '@/page', \
         content: right}}\n",
    )
    .await?;
    machine.degraded("alone").await?;
    machine.write("alone", "not x")?;
    machine.running("page").await?;

    machine.write("page", "wrong")?;

    machine.until("page", |text| text == "right").await?;
    machine.stop().await
}

/// A resource whose state is wrong at one look, once its file was written.
#[derive(Debug, Default)]
struct Wavering(AtomicUsize);

#[async_trait]
impl Unit for Wavering {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        if !context.folder().join("watched").exists() {
            return Ok(Found::Valid(json!({"mode": "0600", "text": "old"})));
        }
        let is_wrong = self.0.fetch_add(1, Ordering::Relaxed) == 0;
        let mode = if is_wrong { json!(7) } else { json!("0600") };
        Ok(Found::Valid(json!({"mode": mode, "text": "new"})))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().path(context.folder().join("watched")))
    }
}

#[tokio::test]
async fn a_config_that_is_wrong_until_its_dependency_looks_again_is_no_failure() -> TestResult {
    let setting = (long(), with_double(Wavering::default()));
    let manifest = "resources:\n  source: {type: double}\n  page: {type: file, dependencies: \
                    [source], config: {path: '@/page', mode: '{{ source.state.mode }}', content: \
                    '{{ source.state.text }}'}}\n";
    let machine = Machine::begin(tempfile::tempdir()?, manifest, setting).await?;
    machine.running("page").await?;
    let mut events = machine.resources().await?.events();

    machine.write("watched", "x")?;
    machine.until("page", |text| text == "new").await?;

    machine.stop().await?;
    assert_eq!(degraded(&mut events), Vec::<String>::new());
    Ok(())
}

/// A resource whose looks fail; they are counted.
#[derive(Debug, Default)]
struct Broken(AtomicUsize);

#[async_trait]
impl Unit for Broken {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Err(format!("look {} failed", self.0.fetch_add(1, Ordering::Relaxed)).into())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().path(context.folder().join("watched")))
    }
}

#[tokio::test]
async fn failures_stay_counted_when_a_watch_ends_a_backoff() -> TestResult {
    let setting = (long().jitter(0.0), with_double(Broken::default()));
    let manifest = "resources: {it: {type: double}}\n";
    let machine = Machine::begin(tempfile::tempdir()?, manifest, setting).await?;
    machine.degraded_by("it", "look 0").await?;
    let until =
        async || Some(machine.resources().await.ok()?.report().await.workers["it"].until?.0);
    let first = until().await.ok_or("it does not try again")?;

    machine.write("watched", "x")?;
    machine.degraded_by("it", "look 1").await?;

    // The second wait is two hours, and the first was one.
    let second = until().await.ok_or("it does not try again")?;
    assert!(second.duration_since(first)? > Duration::from_secs(50 * 60));
    machine.stop().await
}
