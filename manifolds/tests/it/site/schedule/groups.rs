//! Resources that are acted on together while a site is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Backoff;
use crankcase_resources::dynamic::{Config, Found, GroupMember, Unit};
use crankcase_resources::{Action, BoxError, Context, Observer, Unfinished};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use crate::site::double::with_kinds;
use crate::site::machine::{Machine, TestResult, quick, within};
use crate::site::schedule::{Beginnings, Versioned, seen, wants};

/// Lines of one file: each follows the version of what it depends on, and all are written by one
/// action.
#[derive(Debug, Default)]
struct Lines {
    written: Mutex<BTreeMap<String, u64>>,
    /// The resources of each action that was done for several at once.
    groups: Mutex<Vec<BTreeSet<String>>>,
    changed: watch::Sender<u64>,
    /// Whether the next action for several resources runs until its worker is stopped.
    is_endless: AtomicBool,
    /// The resource that does such an action, once it has begun.
    leader: watch::Sender<Option<String>>,
    /// The resources whose actions were seen to begin, and which were not acted on since.
    beginnings: Arc<Beginnings>,
    /// The resources that were acted on, but whose actions were not seen to begin.
    unseen: Mutex<BTreeSet<String>>,
    /// The resource that cannot say how it is put back.
    secretive: Mutex<Option<String>>,
}

impl Lines {
    fn write<'a>(&self, contexts: impl Iterator<Item = &'a Context>) {
        let written = contexts.map(|context| (context.name().to_owned(), seen(context)));
        let written = written.collect::<Vec<_>>();
        let names: BTreeSet<_> = written.iter().map(|(name, _)| name.clone()).collect();
        {
            let begun = &mut *self.beginnings.0.lock();
            let unseen = names.iter().filter(|name| !begun.remove(*name));
            self.unseen.lock().extend(unseen.cloned());
        }
        self.groups.lock().push(names);
        self.written.lock().extend(written);
        let least = self.written.lock().values().copied().min().unwrap_or_default();
        self.changed.send_replace(least);
    }
}

#[async_trait]
impl Unit for Lines {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let is_written = self.written.lock().get(context.name()) == Some(&seen(context));
        Ok(if is_written { Found::Valid(json!({})) } else { wants("write") })
    }

    fn group(&self) -> Option<String> {
        Some("the file".to_owned())
    }

    async fn reversal(&self, context: &Context) -> Result<Option<Config>, BoxError> {
        match self.secretive.lock().as_deref() == Some(context.name()) {
            true => Err("nobody can say how it is".into()),
            false => Ok(None),
        }
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        self.write([context].into_iter());
        Ok(())
    }

    async fn act_together(&self, members: &[GroupMember]) -> Result<(), Unfinished> {
        if self.is_endless.swap(false, Ordering::Relaxed) {
            let context = &members[0].context;
            self.leader.send_replace(Some(context.name().to_owned()));
            context.stop().wait().await;
            return Err(Unfinished::Interrupted);
        }
        self.write(members.iter().map(|member| &member.context));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn resources_that_ask_in_one_step_are_acted_on_together() -> TestResult {
    let (source, lines) = (Arc::new(Versioned::default()), Arc::new(Lines::default()));
    let kinds = with_kinds([
        ("source", Arc::clone(&source) as Arc<dyn Unit>),
        ("line", Arc::clone(&lines) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  source: {type: source}\n  one: {type: line, dependencies: [source]}\n  \
                two: {type: line, dependencies: [source]}\n";
    let machine = Machine::begin(tempfile::tempdir()?, site, (quick(), kinds)).await?;
    machine.running("one").await?;
    machine.running("two").await?;
    lines.groups.lock().clear();

    *source.version.lock() = 1;
    source.signals.signal("source")?;
    within(lines.changed.subscribe().wait_for(|version| *version == 1)).await?;
    machine.settled().await?;

    let both = BTreeSet::from(["one", "two"].map(str::to_owned));
    assert_eq!(*lines.groups.lock(), [both]);
    assert_eq!(lines.written.lock().values().collect::<Vec<_>>(), [&1, &1]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_of_a_group_is_seen_to_begin_before_it_is_acted_on() -> TestResult {
    let (source, lines) = (Arc::new(Versioned::default()), Arc::new(Lines::default()));
    let kinds = with_kinds([
        ("source", Arc::clone(&source) as Arc<dyn Unit>),
        ("line", Arc::clone(&lines) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  source: {type: source}\n  one: {type: line, dependencies: [source]}\n  \
                two: {type: line, dependencies: [source]}\n";
    let observer = Arc::clone(&lines.beginnings) as Arc<dyn Observer>;
    let machine = Machine::observed(tempfile::tempdir()?, site, (quick(), kinds), observer).await?;
    machine.running("one").await?;
    machine.running("two").await?;
    lines.groups.lock().clear();

    *source.version.lock() = 1;
    source.signals.signal("source")?;
    within(lines.changed.subscribe().wait_for(|version| *version == 1)).await?;
    machine.settled().await?;

    let both = BTreeSet::from(["one", "two"].map(str::to_owned));
    assert_eq!(*lines.groups.lock(), [both]);
    assert_eq!(*lines.unseen.lock(), BTreeSet::new());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_of_a_group_that_cannot_be_put_on_record_leaves_the_other_alone() -> TestResult {
    for (secretive, other) in [("one", "two"), ("two", "one")] {
        let (source, lines) = (Arc::new(Versioned::default()), Arc::new(Lines::default()));
        let kinds = with_kinds([
            ("source", Arc::clone(&source) as Arc<dyn Unit>),
            ("line", Arc::clone(&lines) as Arc<dyn Unit>),
        ]);
        let site = "resources:\n  source: {type: source}\n  \
                    one: {type: line, dependencies: [source], meta: {reverse: true}}\n  \
                    two: {type: line, dependencies: [source], meta: {reverse: true}}\n";
        // Both are as declared at first.
        lines.written.lock().extend(["one", "two"].map(|name| (name.to_owned(), 0)));
        *lines.secretive.lock() = Some(secretive.to_owned());
        let machine = Machine::begin(tempfile::tempdir()?, site, (quick(), kinds)).await?;
        machine.running("one").await?;
        machine.running("two").await?;

        let mut changed = lines.changed.subscribe();
        *source.version.lock() = 1;
        source.signals.signal("source")?;
        let reason = machine.degraded(secretive).await?;
        within(changed.changed()).await?;

        let why = "cannot put on record how to put it back: nobody can say how it is";
        assert_eq!(reason, why);
        assert_eq!(*lines.groups.lock(), [BTreeSet::from([other.to_owned()])]);
        machine.stop().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_resource_acts_alone_when_the_one_that_acts_for_it_is_bounced() -> TestResult {
    let (source, lines) = (Arc::new(Versioned::default()), Arc::new(Lines::default()));
    let kinds = with_kinds([
        ("source", Arc::clone(&source) as Arc<dyn Unit>),
        ("line", Arc::clone(&lines) as Arc<dyn Unit>),
    ]);
    let site = "resources:\n  source: {type: source}\n  one: {type: line, dependencies: [source]}\n  \
                two: {type: line, dependencies: [source]}\n";
    // No failed resource is tried again before the end.
    let day = Duration::from_secs(24 * 60 * 60);
    let backoff = Backoff::default().initial(day).max(day);
    let machine = Machine::begin(tempfile::tempdir()?, site, (backoff, kinds)).await?;
    machine.running("one").await?;
    machine.running("two").await?;

    lines.is_endless.store(true, Ordering::Relaxed);
    *source.version.lock() = 1;
    source.signals.signal("source")?;
    let mut leader = lines.leader.subscribe();
    let leader = within(leader.wait_for(Option::is_some)).await?.clone().unwrap_or_default();
    machine.bounce(&leader).await?;
    within(lines.changed.subscribe().wait_for(|version| *version == 1)).await?;

    assert_eq!(lines.written.lock().values().collect::<Vec<_>>(), [&1, &1]);
    machine.stop().await
}
