//! Why resources were looked at, and whether what was done to them is a repair.

use std::fs;
use std::time::Duration;

use crankcase_engine::Backoff;
use crankcase_kinds::builtin;
use crankcase_resources::report::EventKind;

use crate::site::machine::{Machine, TestResult, quick};
use crate::site::seen::Seen;

/// Two files. One uses the state of the other, and notifies a command.
const SITE: &str = "resources:\n  source: {type: file, config: {path: '@/source', content: a}}\n  note: \
                    {type: file, dependencies: [source], notify: [told], config: {path: '@/note', \
                    content: '{{ deps.source.state.sha256 }}'}}\n  told: {type: exec, config: {command: \
                    ['true'], creates: /}}\n";

#[tokio::test]
async fn each_event_has_its_true_reason() -> TestResult {
    let (seen, observer) = Seen::pair();
    let setting = (quick(), builtin());
    let machine = Machine::observed(tempfile::tempdir()?, SITE, setting, observer).await?;
    for name in ["source", "note", "told"] {
        machine.running(name).await?;
    }

    machine.write("source", "wrong")?;
    let repaired = seen.first("source", EventKind::Repaired).await?;
    let path = machine.path("source");
    assert!(repaired.why.contains(&format!("its watch has told of {path:?}")), "{repaired:?}");

    machine.swap(&SITE.replace("content: a", "content: b")).await?;
    let changes = |name: &'static str| seen.nth(name, EventKind::Changed, 1);
    let source = changes("source").await?;
    assert!(source.why.starts_with("its declaration has changed: content"), "{source:?}");
    let note = changes("note").await?;
    assert!(note.why.contains("\"source\" has a new state"), "{note:?}");
    let told = seen.nth("told", EventKind::Refreshed, 1).await?;
    assert_eq!(told.why, "\"note\" notifies it");
    let first = seen.first("source", EventKind::Changed).await?;
    assert_eq!(first.why, "its worker has started");
    machine.stop().await
}

#[tokio::test]
async fn what_is_found_by_the_time_says_so() -> TestResult {
    let (seen, observer) = Seen::pair();
    let site = "resources:\n  page: {type: file, config: {path: '@/page', content: right}}\n";
    let machine = Machine::unwatched_by(site, observer).await?;
    machine.running("page").await?;

    machine.write("page", "wrong")?;

    assert_eq!(seen.first("page", EventKind::Repaired).await?.why, "it was time to look");
    machine.stop().await
}

#[tokio::test]
async fn edits_of_a_template_are_changes_and_never_slowed() -> TestResult {
    let (seen, observer) = Seen::pair();
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("page.j2"), "x")?;
    let site = "resources:\n  page: {type: file, config: {path: '@/page', template: page.j2}}\n";
    // A repair that is slowed is not made before the end.
    let day = Duration::from_secs(24 * 60 * 60);
    let backoff = Backoff::default().initial(day).max(day);
    let machine = Machine::observed(folder, site, (backoff, builtin()), observer).await?;
    machine.until("page", |page| page == "x").await?;
    machine.running("page").await?;

    // Ten repairs in a row would be made at once.
    for edit in 2..=15 {
        let text = "x".repeat(edit);
        machine.write("page.j2", &text)?;
        machine.until("page", |page| page == text).await?;
    }

    let repairs = seen.events().into_iter().filter(|event| event.event == EventKind::Repaired);
    assert_eq!(repairs.count(), 0);
    assert_eq!(machine.tally().await?.resources["page"].repairs, 0);
    machine.stop().await
}
