//! A test suite that every [`Backend`] must pass.

use std::error::Error;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::{
    Backend, Change, Document, Facts, FactsError, Load, Operation, Pointer, Schema, Submission,
    Update, Version,
};

type Checked = Result<(), Box<dyn Error>>;

/// Checks a backend. Each call of `open` opens the same store, as another process would. The store is empty at first.
///
/// # Errors
///
/// The first requirement that the backend does not meet.
pub fn check(open: &dyn Fn() -> Result<Box<dyn Backend>, Box<dyn Error>>) -> Checked {
    let reopened = || -> Result<Facts, Box<dyn Error>> { Ok(Facts::open(open()?)?) };
    is_empty_at_first(&reopened()?)?;
    keeps_what_was_committed(&reopened()?, &reopened)?;
    commits_once_for_a_revision(open)?;
    keeps_all_kinds(&reopened()?, &reopened)?;
    tells_the_past(&reopened()?)?;
    refuses_together(&reopened()?)
}

fn require(is_so: bool, what: &str) -> Checked {
    if is_so { Ok(()) } else { Err(what.into()) }
}

fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn update(operations: Vec<Operation>) -> Submission {
    Submission::new(Change::Update(Update::of(operations)), "ada")
}

fn set(path: &str, value: Value) -> Result<Operation, Box<dyn Error>> {
    Ok(Operation::Set(path.parse()?, value))
}

fn is_empty_at_first(facts: &Facts) -> Checked {
    let current = facts.current();
    require(current.facts().to_value() == json!({}), "facts are there at first")?;
    require((current.version(), current.revision()) == (0, 0), "a new store has a version")?;
    require(facts.log(None, 1)?.is_empty(), "a new store has a history")
}

fn keeps_what_was_committed(
    facts: &Facts,
    reopened: &dyn Fn() -> Result<Facts, Box<dyn Error>>,
) -> Checked {
    let value = json!({"list": [1, {"b": 1, "a": null}], "~/": "\u{1f980}", "empty": {}, "deep": {"er": -1.5}});
    facts.submit(&update(vec![set("/one", value)?, set("/two", json!({}))?]), noon())?;
    facts.submit(&update(vec![set("/two/three", json!(u64::MAX))?]), noon())?;
    facts.submit(&update(vec![Operation::Delete("/one/deep/er".parse()?)]), noon())?;
    let (before, after) = (facts.current(), reopened()?.current());
    require(before.facts() == after.facts(), "other facts are read than were committed")?;
    require(before.digest() == after.digest(), "another digest is read than was committed")?;
    require(
        (after.version(), after.revision()) == (3, 3),
        "another version is read than was committed",
    )?;
    let expected = json!({"one": {"list": [1, {"a": null, "b": 1}], "~/": "\u{1f980}", "empty": {}, "deep": {}},
                          "two": {"three": u64::MAX}});
    require(after.facts().to_value() == expected, "the facts are not as the updates say")
}

fn commits_once_for_a_revision(
    open: &dyn Fn() -> Result<Box<dyn Backend>, Box<dyn Error>>,
) -> Checked {
    let (one, other) = (Facts::open(open()?)?, Facts::open(open()?)?);
    let version = one.current().version() + 1;
    let update = |value: u64| -> Result<Submission, Box<dyn Error>> {
        let document = json!({"version": version, "ops": [["SET", "/who", value]]});
        Ok(Submission::new(Change::Update(Update::read(&document)?), "ada"))
    };
    one.submit(&update(1)?, noon())?;
    let second = other.submit(&update(2)?, noon());
    let is_stale = matches!(second, Err(FactsError::Stale { given, stored }) if given == stored);
    require(is_stale, "of two changes to one version both were accepted")?;
    require(
        other.current().at(&"/who".parse()?) == one.current().at(&"/who".parse()?),
        "one that was refused does not see what was accepted",
    )
}

fn keeps_all_kinds(facts: &Facts, reopened: &dyn Fn() -> Result<Facts, Box<dyn Error>>) -> Checked {
    let path: Pointer = "/agent".parse()?;
    let own = Change::Own(vec![Operation::Set(path.clone(), json!({"seen": true}))]);
    facts.submit(&Submission::new(own, "watcher"), noon())?;
    let schema = Schema::read("ada", json!({"type": "object"}))?;
    facts.submit(&Submission::new(Change::Register(path.clone(), Some(schema)), "ada"), noon())?;
    let version = Version::new(facts.current().version() + 5).ok_or("no version is left")?;
    let tree = facts.current().facts().clone();
    let load = Change::Load(Load { version, facts: tree.clone(), merges: false });
    facts.submit(&Submission::new(load, "ada"), noon())?;
    let after = reopened()?;
    let current = after.current();
    require(current.owned().iter().eq([(&path, "watcher")]), "whose a fact is is lost")?;
    require(current.schemas() == facts.current().schemas(), "a schema is lost")?;
    require(current.schemas().iter().count() == 1, "a schema is lost")?;
    let document = Document { version: version.get(), facts: tree };
    require(after.document()? == Some(document), "the document is lost")?;
    require(current.version() == version.get(), "the version of the document is lost")?;
    after.submit(&Submission::new(Change::Register(path, None), "ada"), noon())?;
    require(reopened()?.current().schemas().iter().next().is_none(), "a schema comes back")
}

fn tells_the_past(facts: &Facts) -> Checked {
    let log = facts.log(None, usize::MAX)?;
    let revisions: Vec<_> = log.iter().map(|entry| entry.revision).collect();
    let expected: Vec<_> = (1..=facts.current().revision()).rev().collect();
    require(revisions == expected, "the history has not all changes, newest first")?;
    require(log.iter().all(|entry| entry.at == noon()), "the history has other times")?;
    let first = log.last().ok_or("the history is empty")?;
    require(first.who == "ada" && first.kind == "update", "the history has another author")?;
    let mut restore = Submission::new(Change::Restore(1), "ada");
    restore.overwrites = vec![Pointer::root()];
    facts.submit(&restore, noon())?;
    let restored = facts.current().facts().to_value();
    require(
        restored["one"]["deep"] == json!({"er": -1.5}),
        "what a change has removed does not come back",
    )?;
    require(restored.get("who").is_none(), "what a change has added stays")
}

fn refuses_together(facts: &Facts) -> Checked {
    let before = facts.current();
    let operations = vec![set("/new", json!(1))?, Operation::Delete("/nowhere".parse()?)];
    require(
        facts.submit(&update(operations), noon()).is_err(),
        "a delete of nothing was accepted",
    )?;
    require(facts.current() == before, "a change that was refused has changed something")
}
