//! Helpers that the tests share.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crankcase_facts::{
    Change, Facts, FactsError, Load, Operation, Outcome, Pointer, Schema, Sqlite, Submission,
    Update,
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// Facts in a folder of their own.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) facts: Facts,
}

pub(crate) fn noon() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(crate) fn open(path: &Path) -> TestResult<Facts> {
    Ok(Facts::open(Box::new(Sqlite::open(path)?))?)
}

pub(crate) fn pointer(text: &str) -> Pointer {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

impl World {
    pub(crate) fn new() -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        let facts = open(&folder.path().join("facts.db"))?;
        Ok(Self { folder, facts })
    }

    /// Returns a world with these facts, at version 1.
    pub(crate) fn with(facts: Value) -> TestResult<Self> {
        let world = Self::new()?;
        world.load(1, facts)?;
        Ok(world)
    }

    pub(crate) fn submit(&self, change: Change) -> Result<Outcome, FactsError> {
        self.facts.submit(&Submission::new(change, "ada"), noon())
    }

    pub(crate) fn update(&self, document: Value) -> Result<Outcome, FactsError> {
        self.submit(Change::Update(Update::read(&document)?))
    }

    /// Submits operations with the next version.
    pub(crate) fn ops(&self, ops: Value) -> Result<Outcome, FactsError> {
        let version = self.facts.current().version() + 1;
        self.update(json!({"version": version, "ops": ops}))
    }

    pub(crate) fn load(&self, version: u64, facts: Value) -> Result<Outcome, FactsError> {
        self.submit(load(version, facts, false)?)
    }

    pub(crate) fn merge(&self, version: u64, facts: Value) -> Result<Outcome, FactsError> {
        self.submit(load(version, facts, true)?)
    }

    pub(crate) fn register(&self, path: &str, schema: Value) -> Result<Outcome, FactsError> {
        let schema = Schema::read("ada", schema)?;
        self.submit(Change::Register(pointer(path), Some(schema)))
    }

    pub(crate) fn own(&self, owner: &str, path: &str, value: Value) -> Result<Outcome, FactsError> {
        let change = Change::Own(vec![Operation::Set(pointer(path), value)]);
        self.facts.submit(&Submission::new(change, owner), noon())
    }

    pub(crate) fn value(&self) -> Value {
        self.facts.current().facts().to_value()
    }
}

pub(crate) fn load(version: u64, facts: Value, merges: bool) -> Result<Change, FactsError> {
    Ok(Change::Load(Load::read(&json!({"version": version, "facts": facts}), merges)?))
}

/// Returns the error of a refused change, as text.
pub(crate) fn refused(result: Result<Outcome, FactsError>) -> String {
    result.map_or_else(|error| error.to_string(), |outcome| panic!("accepted: {outcome:?}"))
}
