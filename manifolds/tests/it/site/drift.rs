//! Files that change under the agent's hands.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::WorkerState;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{BoxError, Context, Watch};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, quick, within};

#[tokio::test]
async fn a_file_that_was_edited_or_deleted_comes_back() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n",
    )
    .await?;
    machine.running("page").await?;

    machine.write("page", "wrong")?;
    machine.until("page", |text| text == "right").await?;
    fs::remove_file(machine.path("page"))?;
    machine.until("page", |text| text == "right").await?;

    assert_eq!(machine.starts("page").await?, 1);
    machine.stop().await
}

#[tokio::test]
async fn a_repair_and_what_follows_it_stand_among_the_events_with_who_and_why() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n  index: \
         {type: exec, dependencies: {page: {resource: page, on_change: notify}}, config: {command: \
         ['true'], creates: /}}\n  server: {type: process, dependencies: {page: {resource: page, \
         on_change: notify}}, config: {command: [sleep, '1000']}}\n",
    )
    .await?;
    machine.running("index").await?;
    machine.running("server").await?;
    let resources = machine.resources().await?;
    let [mut pages, mut indexes, mut servers] = [(); 3].map(|()| resources.events());

    machine.write("page", "wrong")?;

    let repaired = machine.text("repaired: write path=\"@/page\"");
    assert_eq!(
        machine.noted(&mut pages, "page", &repaired).await?,
        "agent: not as declared any more: content"
    );
    let notified = "page: a change notifies it";
    let refreshed = "refreshed: run command=[\"true\"]";
    assert_eq!(machine.noted(&mut indexes, "index", refreshed).await?, notified);
    let restarted = "restarted its program";
    assert_eq!(machine.noted(&mut servers, "server", restarted).await?, notified);
    machine.stop().await
}

#[tokio::test]
async fn a_changed_template_is_rendered_anew() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page.j2"), "hello {{ vars.name }}")?;
    let machine = Machine::begin(
        folder,
        "vars: {name: Ada}\nresources:\n  page: {type: file, config: {path: '@/page', template: \
         page.j2}}\n",
        (quick(), builtin()),
    )
    .await?;
    machine.until("page", |text| text == "hello Ada").await?;

    machine.write("page.j2", "bye {{ vars.name }}")?;

    machine.until("page", |text| text == "bye Ada").await?;
    machine.stop().await
}

/// A resource with a file in the folder of its manifest; it tells where it was looked at.
#[derive(Debug, Default)]
struct Beside {
    looks: watch::Sender<(PathBuf, usize)>,
}

#[async_trait]
impl Unit for Beside {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|(folder, looks)| {
            context.folder().clone_into(folder);
            *looks += 1;
        });
        Ok(Found::Valid(json!({})))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().path(context.folder().join("source")))
    }
}

#[tokio::test]
async fn a_file_is_watched_where_another_manifest_has_it() -> TestResult {
    let beside = Beside::default();
    let mut looks = beside.looks.subscribe();
    let site = "resources: {it: {type: double}}\n";
    let machine = Machine::with_kinds(site, with_double(beside)).await?;
    machine.running("it").await?;
    let other = machine.path("other");
    fs::create_dir(&other)?;

    machine.swap_at("other/site.yaml", site).await?;
    let (_, before) = within(looks.wait_for(|(folder, _)| *folder == other)).await?.clone();
    machine.write("other/source", "changed")?;

    within(looks.wait_for(|(_, looks)| *looks > before)).await?;
    machine.stop().await
}

/// A resource that takes ten seconds to be looked at, and that is written meanwhile.
#[derive(Debug)]
struct Busy {
    path: PathBuf,
    looks: watch::Sender<Vec<Instant>>,
}

#[async_trait]
impl Unit for Busy {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| looks.push(Instant::now()));
        fs::write(&self.path, format!("{}", self.looks.borrow().len()))?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(Found::Valid(json!({})))
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().path(&self.path))
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_written_all_the_time_is_not_read_all_the_time() -> TestResult {
    let folder = tempfile::tempdir()?;
    let busy = Busy { path: folder.path().join("log"), looks: watch::Sender::default() };
    let mut looks = busy.looks.subscribe();
    let setting = (quick(), with_double(busy));
    let machine = Machine::begin(folder, "resources: {it: {type: double}}", setting).await?;

    let looks = looks.wait_for(|looks| looks.len() == 3).await?.clone();

    let waits: Vec<_> = looks.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    // The first look that the file causes is at once; the next waits for nine times as long as that
    // took.
    assert_eq!(waits, [10, 100]);
    machine.stop().await
}

#[tokio::test]
async fn a_template_sees_the_variables_of_another_site() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page.j2"), "hello {{ vars.name }}")?;
    let site = "vars: {name: Ada}\nresources:\n  page: {type: file, config: {path: '@/page', \
                template: page.j2}}\n";
    let machine = Machine::begin(folder, site, (quick(), builtin())).await?;
    machine.until("page", |text| text == "hello Ada").await?;
    machine.running("page").await?;
    let mut events = machine.resources().await?.events();

    machine.swap(&site.replace("Ada", "Brian")).await?;

    machine.until("page", |text| text == "hello Brian").await?;
    assert_eq!(machine.starts("page").await?, 1);
    // It is no drift: the manifest has changed.
    let changed = machine.text("changed: write path=\"@/page\"");
    let origin = machine.noted(&mut events, "page", &changed).await?;
    assert_eq!(origin, "agent: not as declared: content");
    machine.stop().await
}

#[tokio::test]
async fn drift_is_found_without_a_watcher_too() -> TestResult {
    let machine = Machine::unwatched(
        "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n",
    )
    .await?;
    machine.running("page").await?;

    machine.write("page", "wrong")?;

    machine.until("page", |text| text == "right").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_config_that_is_wrong_is_told_with_its_place_and_mended_with_the_state_it_uses()
-> TestResult {
    let machine = Machine::new(
        "resources:\n  source: {type: file, config: {path: '@/source'}}\n  note:\n    type: \
         file\n    dependencies: [source]\n    config:\n      path: '@/note'\n      mode: '{{ \
         deps.source.state.mode if deps.source.state.size else 7 }}'\n",
    )
    .await?;
    let reason = machine.degraded("note").await?;
    assert!(reason.contains("site.yaml:8:7: mode: 7 is a number"), "{reason}");

    machine.write("source", "no longer empty")?;

    machine.running("note").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_dependent_waits_for_the_first_state_of_what_it_uses() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page:\n    type: file\n    dependencies: {dir: folder}\n    config: {path: \
         '{{ deps.dir.state.path }}page', content: x}\n  folder: {type: file, config: {path: \
         '@/gone/site/'}}\n",
    )
    .await?;
    let reason = machine.degraded("folder").await?;
    let report = machine.resources().await?.report().await;
    assert!(reason.contains("does not exist"), "{reason}");
    assert_eq!(report.workers["page"].state, WorkerState::Waiting);

    fs::create_dir(machine.path("gone"))?;

    machine.until("gone/site/page", |text| text == "x").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_new_state_of_a_dependency_is_rendered_into_its_dependents() -> TestResult {
    let machine = Machine::new(
        "resources:\n  source: {type: file, config: {path: '@/source', mode: '0600'}}\n  note:\n    \
         type: file\n    dependencies: [source]\n    config: {path: '@/note', content: '{{ \
         deps.source.state.sha256 }}'}\n",
    )
    .await?;
    machine.running("note").await?;
    let before = machine.read("note").ok_or("no note")?;

    machine.write("source", "another content, which nobody declares")?;

    machine.until("note", |text| text != before && text.len() == before.len()).await?;
    assert_eq!(machine.starts("note").await?, 1);
    machine.stop().await
}

#[tokio::test]
async fn a_resource_that_fails_is_degraded_with_the_reason_and_others_are_not() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n  other: \
         {type: file, config: {path: '@/other', content: right}}\n",
    )
    .await?;
    machine.running("page").await?;
    machine.running("other").await?;

    machine.spoil("page")?;
    let reason = machine.degraded("page").await?;
    machine.write("other", "wrong")?;
    machine.until("other", |text| text == "right").await?;

    let report = machine.resources().await?.report().await;
    assert!(reason.contains("is a symlink and not a file"), "{reason}");
    assert_eq!(report.workers["page"].state, WorkerState::Running);
    assert!(report.workers["other"].is_well());
    fs::remove_file(machine.path("page"))?;
    machine.until("page", |text| text == "right").await?;
    machine.stop().await
}

#[tokio::test]
async fn resources_that_want_one_file_otherwise_are_told_and_held_back() -> TestResult {
    // Another name for the same folder, which is not there yet when the site is loaded.
    let machine = Machine::begin(
        tempfile::tempdir()?,
        "resources:\n  alias: {type: exec, config: {command: [ln, -s, ., '@/alias'], creates: \
         '@/alias'}}\n  one: {type: file, config: {path: '@/page', content: a}}\n  other: {type: \
         file, config: {path: '@/alias/page', content: b}}\n  third: {type: file, config: {path: \
         '@/third', content: right}}\n",
        (quick(), builtin()),
    )
    .await?;

    let reason = machine.degraded_by("one", "again and again").await?;

    assert!(reason.starts_with("something else changes it"), "{reason}");
    machine.write("third", "wrong")?;
    machine.until("third", |text| text == "right").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_path_that_becomes_known_is_left_to_the_resource_that_keeps_it() -> TestResult {
    let manifest = |known: &str| {
        format!(
            "resources:\n  name: {{type: noop, config: {{path: '@/page'}}}}\n  found: {{type: file, \
             dependencies: [name], config: {{path: '{{{{ name.state.path }}}}', content: \
             found}}}}\n  known: {{type: file, config: {{path: '@/{known}', content: known}}}}\n"
        )
    };
    let machine = Machine::new(&manifest("page")).await?;

    let reason = machine.degraded("found").await?;
    machine.until("page", |text| text == "known").await?;
    machine.swap(&manifest("other")).await?;
    machine.until("page", |text| text == "found").await?;

    let expected =
        machine.text("path \"@/page\" is kept by resource \"known\" already, at @/site.yaml:4:3");
    assert_eq!(reason, expected);
    machine.stop().await
}

#[tokio::test]
async fn a_resource_whose_new_config_is_wrong_goes_on_keeping_its_path() -> TestResult {
    let manifest = |name: &str| {
        format!(
            "resources:\n  name: {{type: noop, config: {{{name}}}}}\n  found: {{type: file, \
             dependencies: [name], config: {{path: '{{{{ name.state.path }}}}', mode: '{{{{ \
             name.state.mode }}}}', content: found}}}}\n"
        )
    };
    let machine = Machine::new(&manifest("path: '@/page', mode: '0600'")).await?;
    machine.running("found").await?;

    let wrong = manifest("path: '@/other', mode: 7, page: '@/page'");
    machine.swap(&wrong).await?;
    machine.degraded_by("found", "mode: 7 is a number").await?;
    let other = "  other: {type: file, dependencies: [name], config: {path: '{{ name.state.page }}', \
                 content: other}}\n";
    machine.swap(&format!("{wrong}{other}")).await?;

    let reason = machine.degraded("other").await?;
    assert!(reason.contains("is kept by resource \"found\" already"), "{reason}");
    assert_eq!(machine.read("page").as_deref(), Some("found"));
    machine.stop().await
}

#[tokio::test]
async fn a_path_that_became_known_is_free_when_its_resource_is_left_alone() -> TestResult {
    let name = "resources:\n  name: {type: noop, config: {path: '@/page'}}\n";
    let found = "  found: {type: file, dependencies: [name], config: {path: '{{ name.state.path }}', \
                 content: found}}\n";
    let machine = Machine::new(&format!("{name}{found}")).await?;
    machine.running("found").await?;

    let alone = found.replace("content: found}", "content: found}, meta: {noop: true}");
    let known = "  known: {type: file, dependencies: [name], config: {path: '{{ name.state.path }}', \
                 content: known}}\n";
    machine.swap(&format!("{name}{alone}{known}")).await?;

    machine.until("page", |text| text == "known").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_template_that_goes_away_degrades_what_is_made_of_it() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page.j2"), "one")?;
    let site = "resources:\n  page: {type: file, config: {path: '@/page', template: page.j2}}\n";
    let machine = Machine::begin(folder, site, (quick(), builtin())).await?;
    machine.until("page", |text| text == "one").await?;

    fs::remove_file(machine.path("page.j2"))?;
    let gone = machine.degraded_by("page", "cannot read").await?;
    machine.write("page.j2", "\n{{ nobody }}")?;
    let wrong = machine.degraded_by("page", "nobody").await?;
    machine.write("page.j2", "two")?;
    machine.until("page", |text| text == "two").await?;

    assert!(gone.contains("page.j2"), "{gone}");
    assert!(wrong.contains(&machine.text("@/page.j2:2:4: ")), "{wrong}");
    machine.stop().await
}

#[tokio::test]
async fn a_resource_that_is_left_alone_is_reported_and_not_changed() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: x}, meta: {noop: \
         true}}\n",
    )
    .await?;

    let reason = machine.degraded("page").await?;

    assert!(reason.starts_with("it is left alone (noop): state: "), "{reason}");
    assert_eq!(machine.read("page"), None);
    machine.stop().await
}

#[tokio::test]
async fn a_watcher_that_starts_anew_loses_no_drift() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page.j2"), "{{ vars.text }}")?;
    let site = "vars: {text: right}\nresources:\n  page: {type: file, config: {path: '@/page', \
                template: page.j2}}\n  note: {type: file, dependencies: [page], config: {path: \
                '@/note', content: '{{ page.state.size | string }}'}}\n";
    let machine = Machine::begin(folder, site, (quick(), builtin())).await?;
    machine.running("note").await?;

    machine.bounce_watcher().await?;
    machine.swap(&site.replace("right", "righter")).await?;
    // When the note is there, the page was looked at for the last time.
    machine.until("note", |text| text == "7").await?;
    machine.write("page", "wrong")?;

    machine.until("page", |text| text == "righter").await?;
    machine.stop().await
}
