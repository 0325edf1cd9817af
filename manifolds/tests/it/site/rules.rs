//! Rules that are written in Rust.

use std::fs;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use crankcase_facts::{Change, Facts, Operation, Sqlite, Submission, Tree, Update};
use crankcase_resources::BoxError;
use crankcase_resources::report::EventKind;
use crankcase_resources::rules::{Cause, Handler, Rule, RuleTools, Trigger};
use crankcase_resources::state::{
    Document, Key, Loaded, MemoryStore, Record, Records, Store, StoreError, Topic,
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::site::machine::{Machine, TestResult};

/// Sets a fact of its own to the value of its cause, but hangs at the value "hangs".
#[derive(Debug)]
struct Tell {
    to: &'static str,
    /// Gets a message before the handler hangs.
    hangs: watch::Sender<()>,
}

impl Tell {
    fn rule(name: &str, on: &str, to: &'static str) -> (Rule, watch::Receiver<()>) {
        let handler = Self { to, hangs: watch::Sender::new(()) };
        let hangs = handler.hangs.subscribe();
        (Rule::new(name, Trigger::Fact(on.to_owned()), Arc::new(handler)), hangs)
    }
}

#[async_trait]
impl Handler for Tell {
    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError> {
        if cause.value == Some(json!("hangs")) {
            self.hangs.send_replace(());
            pending::<()>().await;
        }
        tools.set_fact(self.to, cause.value.clone()).await
    }
}

/// Counts up in the subtree that it waits for, for ever.
#[derive(Debug)]
struct CountUp;

#[async_trait]
impl Handler for CountUp {
    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError> {
        let count = cause.value.as_ref().and_then(|value| value["n"].as_u64()).unwrap_or_default();
        tools.set_fact("/loop/n", Some(json!(count + 1))).await
    }
}

/// Copies a fact, with another one of the same moment.
#[derive(Debug)]
struct Copy {
    /// Told before a panic.
    panics: watch::Sender<()>,
}

#[async_trait]
impl Handler for Copy {
    fn matches(&self, cause: &Cause, _: &RuleTools) -> Result<bool, BoxError> {
        Ok(cause.value.as_ref().is_some_and(|value| *value != json!("skipped")))
    }

    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError> {
        if cause.value == Some(json!("panic")) {
            self.panics.send_replace(());
            panic!("a handler that panics");
        }
        let both = json!([cause.value, tools.fact("/beside")?]);
        tools.set_fact("/copy", Some(both)).await
    }
}

fn set(facts: &Facts, values: &[(&str, Value)]) -> TestResult {
    let set = |(path, value): &(&str, Value)| Ok(Operation::Set(path.parse()?, value.clone()));
    let update = Update::of(values.iter().map(set).collect::<TestResult<_>>()?);
    let submission = Submission::new(Change::Update(update), "ada");
    facts.submit(&submission, SystemTime::UNIX_EPOCH)?;
    Ok(())
}

#[tokio::test]
async fn a_rule_in_rust_handles_what_it_matches_and_outlives_a_panic() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&facts, &[("/it", json!("first")), ("/beside", json!(1))])?;
    let mut copies = facts.watch(&"/copy".parse()?);
    let machine = Machine::new("resources: {}").await?;
    let handler = Copy { panics: watch::Sender::new(()) };
    let mut panics = handler.panics.subscribe();
    let mut rule = Rule::new("copy", Trigger::Fact("/it".to_owned()), Arc::new(handler));
    rule.parameters.attempts = 1;
    machine.rule("resources: {}", vec![rule], facts.clone()).await?;
    let mut copied = async || -> TestResult<Value> {
        copies.changed().await?;
        Ok(copies.borrow_and_update().as_ref().map(Tree::to_value).unwrap_or_default())
    };

    assert_eq!(copied().await?, json!(["first", 1]));
    set(&facts, &[("/it", json!("skipped"))])?;
    set(&facts, &[("/it", json!("panic"))])?;
    panics.changed().await?;
    set(&facts, &[("/it", json!("last")), ("/beside", json!(2))])?;

    assert_eq!(copied().await?, json!(["last", 2]));
    machine.stop().await
}

/// The rule whose record is unreadable.
const TORN: &str = "torn";

/// A store from which one record cannot be read.
#[derive(Debug, Default)]
struct Torn(MemoryStore);

impl Store for Torn {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.0.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        match &*key.name {
            TORN => Err(StoreError::new(io::Error::other("the disk is torn"))),
            _ => self.0.document(key),
        }
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        self.0.write(records)
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_its_own_rule() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&facts, &[("/it", json!("first"))])?;
    let mut told = facts.watch(&"/good".parse()?);
    let machine = Machine::new("resources: {}").await?;
    let store = Arc::new(Torn::default());
    for name in [TORN, "text"] {
        let (key, document) = (Key::new(Topic::Rule, name), Document::from_text("no record")?);
        store.write(&[Record::Stored { key, document }])?;
    }
    let rules = [(TORN, "/bad1"), ("text", "/bad2"), ("zgood", "/good")];
    let rules = rules.map(|(name, to)| Tell::rule(name, "/it", to).0);

    let records = Records::open(store.clone())?;
    machine.rule_on(records, "resources: {}", (rules.to_vec(), facts.clone())).await?;

    told.wait_for(Option::is_some).await?;
    set(&facts, &[("/it", json!("second"))])?;
    told.wait_for(|it| it.as_ref().map(Tree::to_value) == Some(json!("second"))).await?;
    let current = facts.current();
    assert!(
        ["/bad1", "/bad2"]
            .iter()
            .all(|path| current.at(&path.parse().unwrap_or_default()).is_none())
    );
    let text = store.document(&Key::new(Topic::Rule, "text"))?.ok_or("it is gone")?;
    assert_eq!(text.as_str(), "no record");
    let reason = machine.rules_degraded_by("rule text stands still: cannot read").await?;
    assert!(reason.contains("rule torn stands still: the disk is torn"), "{reason}");
    machine.stop().await
}

/// A store on a disk that is full for as long as a test says so.
#[derive(Debug, Default)]
struct Bounded {
    inner: MemoryStore,
    is_full: AtomicBool,
}

impl Store for Bounded {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StoreError::new(io::Error::other("the disk is full"))),
            false => self.inner.write(records),
        }
    }

    // A write is over when its record is pushed, so none runs while the disk gets room.
    fn is_blocking(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn an_attempt_that_was_not_made_for_want_of_a_record_does_not_count() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&facts, &[("/it", json!("first"))])?;
    let machine = Machine::new("resources: {}").await?;
    let store = Arc::new(Bounded::default());
    store.is_full.store(true, Ordering::Relaxed);
    let records = Records::open(store.clone())?;
    let (rule, _) = Tell::rule("once", "/it", "/told");

    machine.rule_on(records.clone(), "resources: {}", (vec![rule], facts)).await?;
    machine.rules_degraded_by("rule once stands still").await?;
    store.is_full.store(false, Ordering::Relaxed);
    // Whatever is written next takes with it what waits.
    records.flush(records.push([])).await?;

    let written = store.document(&Key::new(Topic::Rule, "once"))?.ok_or("it is not there")?;
    let written: Value = serde_json::from_str(written.as_str())?;
    assert_eq!(written["attempts"], json!(0));
    machine.stop().await
}

#[tokio::test]
async fn attempts_at_one_value_do_not_count_for_another() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&facts, &[("/it", json!("hangs"))])?;
    let mut told = facts.watch(&"/told".parse()?);
    let machine = Machine::new("resources: {}").await?;
    let once = || {
        let (mut rule, hangs) = Tell::rule("once", "/it", "/told");
        rule.parameters.attempts = 1;
        (vec![rule], hangs)
    };
    let (rules, mut hangs) = once();
    machine.rule("resources: {}", rules, facts.clone()).await?;
    hangs.changed().await?;
    // As after a kill: the attempt has no end.
    machine.forget_rules().await?;
    set(&facts, &[("/it", json!("other"))])?;

    machine.rule("resources: {}", once().0, facts.clone()).await?;

    told.wait_for(|it| it.as_ref().map(Tree::to_value) == Some(json!("other"))).await?;
    machine.stop().await
}

#[tokio::test]
async fn a_rule_that_causes_itself_is_slowed_and_that_is_said() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    set(&facts, &[("/loop", json!({"begin": 1}))])?;
    let mut count = facts.watch(&"/loop/n".parse()?);
    let reached = |least: u64| {
        move |it: &Option<Tree>| it.as_ref().and_then(|it| it.to_value().as_u64()) >= Some(least)
    };
    let machine = Machine::new("resources: {}").await?;
    let rule = Rule::new("up", Trigger::Fact("/loop".to_owned()), Arc::new(CountUp));
    let began = Instant::now();

    machine.rule("resources: {}", vec![rule], facts.clone()).await?;

    // Ten commits come at once, and each of the others is a second after the one before it.
    count.wait_for(reached(12)).await?;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    machine.rules_degraded_by("rule up acts again and again").await?;
    machine.stop().await
}

#[tokio::test]
async fn an_event_that_an_agent_has_left_is_handled_by_the_next_one() -> TestResult {
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    let mut told = facts.watch(&"/told".parse()?);
    let machine = Machine::new("resources: {}").await?;
    fs::create_dir_all(machine.path("state/rules"))?;
    let event = |name: &str| json!({"begun": {"event": "changed", "resource": name, "type": "file", "why": "", "took_ms": 0}});
    let lines =
        [event("page"), event("told"), json!({"noted": {"resource": "told", "event": "changed"}})]
            .map(|it| it.to_string());
    let journal = machine.path("state/rules/events.jsonl");
    fs::write(&journal, format!("{}\n{{\"begun", lines.join("\n")))?;
    let on = Trigger::Event { resource: None, event: Some(EventKind::Changed) };
    let rule = Rule::new("tell", on, Arc::new(TellResource));

    machine.rule("resources: {}", vec![rule], facts.clone()).await?;

    told.wait_for(Option::is_some).await?;
    assert_eq!(told.borrow().as_ref().map(Tree::to_value), Some(json!("page")));
    machine.stop().await?;
    assert_eq!(fs::read_to_string(journal)?, "");
    assert_eq!(facts.current().revision(), 1, "one event was handled");
    Ok(())
}

/// Sets the fact `/told` to the resource of an event.
#[derive(Debug)]
struct TellResource;

#[async_trait]
impl Handler for TellResource {
    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError> {
        tools.set_fact("/told", Some(json!(cause.of))).await
    }
}
