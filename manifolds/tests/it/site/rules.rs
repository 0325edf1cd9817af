//! Rules that are written in Rust.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_facts::{Change, Facts, Operation, Sqlite, Submission, Tree, Update};
use crankcase_resources::{BoxError, Cause, Handler, Hands, Rule, Trigger};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::site::machine::{Machine, TestResult};

/// Copies a fact, with another one of the same moment.
#[derive(Debug)]
struct Copy {
    /// Told before a panic.
    panics: watch::Sender<()>,
}

#[async_trait]
impl Handler for Copy {
    fn matches(&self, cause: &Cause, _: &Hands) -> Result<bool, BoxError> {
        Ok(cause.value.as_ref().is_some_and(|value| *value != json!("skipped")))
    }

    async fn handle(&self, cause: &Cause, hands: &Hands) -> Result<(), BoxError> {
        if cause.value == Some(json!("panic")) {
            self.panics.send_replace(());
            panic!("a handler that panics");
        }
        let both = json!([cause.value, hands.fact("/beside")?]);
        hands.set_fact("/copy", Some(both)).await
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
