//! Sites that follow each other, and resources that notify each other.

use async_trait::async_trait;
use crankcase_engine::EventKind;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Found, Stale, Unit};
use crankcase_resources::{Action, BoxError, Context, Unfinished, Watch};
use serde_json::json;
use tokio::sync::watch;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, has_reversal, lines, quick, within};

/// A resource whose refresh goes on until its worker is told to stop, and is done then.
#[derive(Debug, Default)]
struct Lasting {
    refreshes: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Lasting {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        self.refreshes.send_modify(|refreshes| *refreshes += 1);
        context.stop().wait().await;
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("last"))
    }
}

#[tokio::test]
async fn another_site_touches_only_what_has_changed() -> TestResult {
    let machine = Machine::new(
        "resources:\n  same: {type: process, config: {command: [sh, -c, 'echo >> @/same; exec \
         sleep 1000']}}\n  other: {type: process, config: {command: [sh, -c, 'echo 1 >> @/other; \
         exec sleep 1000']}}\n  gone: {type: process, config: {command: [sh, -c, 'echo $$ > \
         @/gone; exec sleep 1000']}}\n  page: {type: file, config: {path: '@/page', content: a}}\n",
    )
    .await?;
    for name in ["same", "other", "gone"] {
        machine.until(name, |text| lines(text) == 1).await?;
    }
    machine.until("page", |text| text == "a").await?;

    machine
        .swap(
            "resources:\n  new: {type: file, config: {path: '@/new', content: b}}\n  same: {type: \
             process, config: {command: [sh, -c, 'echo >> @/same; exec sleep 1000']}}\n  other: \
             {type: process, config: {command: [sh, -c, 'echo 2 >> @/other; exec sleep \
             1000']}}\n  page: {type: file, config: {path: '@/page', content: b}}\n",
        )
        .await?;

    machine.until("new", |text| text == "b").await?;
    machine.until("page", |text| text == "b").await?;
    machine.until("other", |text| text == "1\n2\n").await?;
    let report = machine.resources().await?.report().await;
    assert!(!report.workers.contains_key("gone"), "{report}");
    let gone = machine.read("gone").ok_or("it ran")?;
    assert!(!std::path::Path::new(&format!("/proc/{}", gone.trim())).exists());
    assert_eq!(machine.read("same").as_deref().map(lines), Some(1));
    assert_eq!(machine.starts("same").await?, 1);
    machine.stop().await
}

#[tokio::test]
async fn a_resource_with_other_dependencies_is_wired_anew() -> TestResult {
    let machine = Machine::new(
        "resources:\n  a: {type: file, config: {path: '@/a', content: a}}\n  b: {type: file, \
         dependencies: [a], config: {path: '@/b', content: '{{ a.state.path }}'}}\n",
    )
    .await?;
    machine.running("b").await?;

    machine
        .swap(
            "resources:\n  c: {type: file, config: {path: '@/c', content: c}}\n  b: {type: file, \
             dependencies: [c], config: {path: '@/b', content: '{{ c.state.path }}'}}\n",
        )
        .await?;

    let wanted = machine.text("@/c");
    machine.until("b", |text| text == wanted).await?;
    assert_eq!(machine.read("a").as_deref(), Some("a"), "what leaves a site is left as it is");
    machine.stop().await
}

#[tokio::test]
async fn a_changed_resource_refreshes_what_it_notifies() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: x}, notify: \
         [listed]}\n  used: {type: file, config: {path: '@/used', content: x}}\n  listed: {type: \
         exec, config: {command: [sh, -c, 'echo >> @/listed'], creates: '@/listed'}}\n  edge:\n    \
         type: exec\n    dependencies: {used: {resource: used, on_change: notify}}\n    config: \
         {command: [sh, -c, 'echo >> @/edge'], creates: '@/edge'}\n",
    )
    .await?;
    machine.running("page").await?;
    machine.running("listed").await?;
    machine.running("edge").await?;
    let settled = (machine.read("listed"), machine.read("edge"));
    let counts = |(one, other): &(Option<String>, Option<String>)| {
        (one.as_deref().map_or(0, lines), other.as_deref().map_or(0, lines))
    };
    let (listed, edge) = counts(&settled);
    assert_eq!(edge, 1);

    machine.write("page", "wrong")?;
    machine.write("used", "wrong")?;

    machine.until("listed", |text| lines(text) > listed).await?;
    machine.until("edge", |text| lines(text) == 2).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_notification_and_the_state_it_comes_with_are_one_start() -> TestResult {
    let site = "resources:\n  config: {type: file, config: {path: '@/config', content: a}}\n  \
                server:\n    type: process\n    dependencies: {config: {resource: config, \
                on_change: notify}}\n    config: {command: [sh, -c, 'echo $SEEN >> @/starts; exec \
                sleep 1000'], env: {SEEN: '{{ deps.config.state.size | string }}'}}\n";
    let machine = Machine::new(site).await?;
    machine.until("starts", |text| text == "1\n").await?;

    machine.swap(&site.replace("content: a", "content: bb")).await?;
    machine.until("starts", |text| text.contains('2')).await?;
    machine.swap(&site.replace("content: a", "content: ccc")).await?;

    machine.until("starts", |text| text == "1\n2\n3\n").await?;
    machine.stop().await
}

#[tokio::test]
async fn a_notification_finds_its_way_after_both_sides_were_started_anew() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: x}, notify: \
         [heard]}\n  heard: {type: exec, config: {command: [sh, -c, 'echo >> @/heard'], creates: \
         '@/heard'}}\n",
    )
    .await?;
    machine.running("page").await?;
    machine.until("heard", |text| lines(text) >= 1).await?;
    for name in ["heard", "page"] {
        machine.bounce(name).await?;
        machine.running(name).await?;
    }
    let before = machine.read("heard").as_deref().map_or(0, lines);

    machine.write("page", "wrong")?;

    machine.until("heard", |text| lines(text) > before).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_refresh_that_was_interrupted_is_done_by_the_next_worker() -> TestResult {
    let machine = Machine::new("{}").await?;
    let pipe = machine.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
    machine
        .swap(
            "resources:\n  page: {type: file, config: {path: '@/page', content: x}, notify: \
             [heard]}\n  heard: {type: exec, config: {command: [sh, -c, 'echo >> @/began; read line < \
             @/pipe; echo >> @/done'], unless: ['true']}}\n",
        )
        .await?;
    machine.until("began", |text| lines(text) == 1).await?;

    machine.bounce("heard").await?;

    machine.until("began", |text| lines(text) == 2).await?;
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "end\n")).await??;
    machine.until("done", |text| lines(text) == 1).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_resource_that_comes_back_heeds_the_first_notification() -> TestResult {
    let lasting = Lasting::default();
    let mut refreshes = lasting.refreshes.subscribe();
    let page = "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n";
    let both = format!(
        "{page}  heard: {{type: double, dependencies: {{page: {{resource: page, on_change: \
         notify}}}}}}\n"
    );
    let machine = Machine::with_kinds(&both, with_double(lasting)).await?;
    within(refreshes.wait_for(|count| *count == 1)).await?;
    let mut events = machine.resources().await?.events();
    machine.swap(page).await?;
    machine.happened(&mut events, "heard", &EventKind::Removed).await;
    machine.swap(&both).await?;
    machine.running("heard").await?;

    machine.write("page", "wrong")?;

    within(refreshes.wait_for(|count| *count == 2)).await?;
    machine.stop().await
}

/// A resource that tells at each look what was done to those that it uses, and at each refresh what
/// was done to those that notify it.
#[derive(Debug, Default)]
struct Told {
    looks: watch::Sender<Vec<Vec<String>>>,
    refreshes: watch::Sender<Vec<Vec<String>>>,
}

/// Returns the names of actions.
fn names(by: &str, actions: &[Action]) -> Vec<String> {
    actions.iter().map(|action| format!("{by}: {}", action.name)).collect()
}

#[async_trait]
impl Unit for Told {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let done = context.dependencies().iter();
        let done = done.flat_map(|used| names(&used.resource, &used.actions)).collect();
        self.looks.send_modify(|looks| looks.push(done));
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        let done = context.notices().iter();
        let done = done.flat_map(|notice| names(&notice.by, &notice.actions)).collect();
        self.refreshes.send_modify(|refreshes| refreshes.push(done));
        Ok(())
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("refresh"))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().path(context.folder().join("watched")))
    }
}

#[tokio::test]
async fn a_notified_resource_sees_what_was_done_until_it_has_answered() -> TestResult {
    let told = Told::default();
    let (mut looks, mut refreshes) = (told.looks.subscribe(), told.refreshes.subscribe());
    let site = "resources:\n  page: {type: file, notify: [server], config: {path: '@/page', content: \
                right}}\n  conf: {type: file, config: {path: '@/conf', content: x}}\n  server: \
                {type: double, dependencies: {conf: {resource: conf, on_change: notify}}}\n";
    let machine = Machine::with_kinds(site, with_double(told)).await?;
    within(refreshes.wait_for(|refreshes| refreshes.concat().len() == 2)).await?;
    machine.running("server").await?;
    let before = refreshes.borrow().len();

    machine.write("conf", "y")?;
    within(refreshes.wait_for(|refreshes| refreshes.len() > before)).await?;
    within(looks.wait_for(|looks| looks.iter().any(|done| *done == ["conf: write"]))).await?;
    machine.write("watched", "x")?;
    within(looks.wait_for(|looks| looks.last().is_some_and(Vec::is_empty))).await?;

    assert_eq!(refreshes.borrow()[before..], [["conf: write"]]);
    machine.stop().await
}

#[tokio::test]
async fn a_notification_is_kept_for_one_that_is_not_up_yet() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/page', content: x}, notify: \
         [late]}\n  late:\n    type: exec\n    dependencies: [folder]\n    config: {command: [sh, \
         -c, 'echo >> @/late'], creates: '@/page'}\n  folder: {type: file, config: {path: \
         '@/gone/site/'}}\n",
    )
    .await?;
    machine.running("page").await?;
    machine.degraded("folder").await?;

    std::fs::create_dir(machine.path("gone"))?;

    machine.until("late", |text| lines(text) == 1).await?;
    machine.stop().await
}

/// A resource whose first refresh goes on until it is told to stop, and is not done then.
#[derive(Debug, Default)]
struct Interrupted {
    refreshes: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Interrupted {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        self.refreshes.send_modify(|refreshes| *refreshes += 1);
        if *self.refreshes.borrow() > 1 {
            return Ok(());
        }
        context.stop().wait().await;
        Err(Unfinished::Interrupted)
    }

    fn refresh(&self, _: &[Action], _: &Context) -> Option<Action> {
        Some(Action::new("restart"))
    }
}

#[tokio::test]
async fn a_refresh_that_an_agent_owes_is_done_by_the_next_one() -> TestResult {
    let unit = Interrupted::default();
    let mut refreshes = unit.refreshes.subscribe();
    let site = "resources:\n  server: {type: double}\n  page: {type: file, notify: [server], \
                config: {path: '@/page', content: x}}\n";
    let machine = Machine::with_kinds(site, with_double(unit)).await?;
    within(refreshes.wait_for(|refreshes| *refreshes == 1)).await?;

    machine.restart().await?;

    within(refreshes.wait_for(|refreshes| *refreshes == 2)).await?;
    machine.until_on_record(|loaded| loaded.pending.is_empty()).await?;
    machine.restart().await?;
    let report = machine.settled().await?;
    assert_eq!(*refreshes.borrow(), 2, "{report}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_to_be_is_put_back_when_it_leaves_and_not_at_the_end() -> TestResult {
    let other = "resources:\n  other: {type: noop}\n";
    let page =
        "  page: {type: file, config: {path: @/page, content: new}, meta: {reverse: true}}\n";
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("page"), "old")?;
    let declared = format!("{other}{page}");
    let machine = Machine::begin(folder, &declared, (quick(), builtin())).await?;
    machine.until("page", |page| page == "new").await?;
    machine.restart().await?;
    machine.running("page").await?;
    assert_eq!(machine.read("page").as_deref(), Some("new"));
    assert!(machine.is_on_record(has_reversal)?);

    machine.swap(other).await?;

    machine.until("page", |page| page == "old").await?;
    // It is nobody's concern any more: what is written after it is left alone, also by the next look.
    machine.until_on_record(|loaded| !has_reversal(loaded)).await?;
    machine.write("page", "by hand")?;
    machine
        .swap(&format!("{other}  more: {{type: file, config: {{path: @/more, content: x}}}}\n"))
        .await?;
    machine.until("more", |more| more == "x").await?;
    assert_eq!(machine.read("page").as_deref(), Some("by hand"));
    Ok(())
}

#[tokio::test]
async fn what_stands_in_the_way_of_a_put_back_holds_it_up_only_while_it_is_there() -> TestResult {
    let site = "resources:\n  folder: {type: file, config: {path: @/sub/}, meta: {reverse: true}}\n  \
                page: {type: file, config: {path: @/sub/page, content: x}, meta: {reverse: true}}\n";
    let machine = Machine::new(site).await?;
    machine.running("page").await?;
    machine.write("sub/log", "by hand")?;
    machine.swap("resources:\n  other: {type: noop}\n").await?;
    machine.until_gone(&machine.path("sub/page")).await?;
    let reason = machine.degraded("folder").await?;
    assert!(reason.contains("not empty"), "{reason}");

    std::fs::remove_file(machine.path("sub/log"))?;

    machine.until_gone(&machine.path("sub")).await?;
    machine.settled().await?;
    Ok(())
}

#[tokio::test]
async fn an_item_that_stands_for_another_file_has_the_first_one_put_back() -> TestResult {
    let site = |path: &str| {
        format!(
            "resources:\n  page:\n    type: file\n    for_each: ['a/b']\n    config: {{path: \
             '{path}', content: '{{{{ item }}}}'}}\n    meta: {{reverse: true}}\n"
        )
    };
    let machine = Machine::new(&site("@/first")).await?;
    machine.until("first", |first| first == "a/b").await?;

    machine.swap(&site("@/second")).await?;

    machine.until("second", |second| second == "a/b").await?;
    machine.until_gone(&machine.path("first")).await?;
    Ok(())
}

/// A resource that is changed at its second look, and cannot be looked at right after that.
#[derive(Debug, Default)]
struct Unseen {
    looks: watch::Sender<usize>,
}

#[async_trait]
impl Unit for Unseen {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| *looks += 1);
        let looks = *self.looks.borrow();
        match looks {
            2 => {
                let amiss = Stale::new(None).differs("it", "wrong", "right");
                Ok(Found::Stale(amiss.action(Action::new("mend"))))
            }
            3 => Err("it is out of sight".into()),
            _ => Ok(Found::Valid(json!({}))),
        }
    }

    async fn act(&self, _: &Action, _: &Context) -> Result<(), Unfinished> {
        Ok(())
    }
}

#[tokio::test]
async fn a_change_after_which_the_resource_cannot_be_looked_at_is_notified() -> TestResult {
    let unseen = Unseen::default();
    let mut looks = unseen.looks.subscribe();
    let manifest = |poll: &str| {
        format!(
            "resources:\n  it: {{type: double, notify: [heard], meta: {{poll: {poll}}}}}\n  heard: \
             {{type: exec, config: {{command: [sh, -c, 'echo >> @/heard'], creates: \
             '@/site.yaml'}}}}\n"
        )
    };
    let machine = Machine::with_kinds(&manifest("1h"), with_double(unseen)).await?;
    looks.wait_for(|looks| *looks == 1).await?;

    machine.swap(&manifest("2h")).await?;

    machine.until("heard", |heard| lines(heard) == 1).await
}
