//! The facts at one moment, and the effect of a change on them.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use serde_json::Value;

use crate::authority::{Owned, Owners};
use crate::change::{Change, FactsError, LARGEST_CHANGE, Load, Outcome, Submission};
use crate::difference::{Difference, Digest, difference, difference_at};
use crate::edits::edited;
use crate::layers;
use crate::merge::merge;
use crate::operation::{Lenience, Operation};
use crate::pointer::Pointer;
use crate::schema::{Extent, Schemas};
use crate::store::{Commit, Document, Entry, OWN, StoreError, Stored};
use crate::tree::Tree;
use crate::update::Update;
use crate::version::{Version, check_reason};
use crate::violation::{Sink, Violation};

/// The facts at one moment. Cheap to clone. Two snapshots are equal if they come from the same commit.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(Arc<Stored>, Seen);

/// The facts that a host sees, made when they are used first.
#[derive(Debug, Clone, Default)]
struct Seen {
    host: Option<Arc<str>>,
    facts: Arc<OnceLock<Tree>>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.0.revision == other.0.revision && self.0.digest == other.0.digest
    }
}

impl From<Stored> for Snapshot {
    fn from(stored: Stored) -> Self {
        Self(Arc::new(stored), Seen::default())
    }
}

impl Snapshot {
    /// Returns all facts.
    pub fn facts(&self) -> &Tree {
        &self.0.facts
    }

    /// Returns the facts at a path; none if nothing is there.
    pub fn at(&self, path: &Pointer) -> Option<Tree> {
        self.0.facts.at(path)
    }

    /// Returns the facts at a path as the host of the facts sees them, with its [layers](crate::effective); none if
    /// nothing is there. [`Facts::seen_by`](crate::Facts::seen_by) sets the host.
    pub fn seen(&self, path: &Pointer) -> Option<Tree> {
        if path.is_within(&layers::layers()) {
            return self.at(path);
        }
        let Seen { host, facts } = &self.1;
        facts.get_or_init(|| layers::effective(&self.0.facts, host.as_deref())).at(path)
    }

    /// Returns the same facts for a host.
    pub(crate) fn of_host(self, host: Option<Arc<str>>) -> Self {
        Self(self.0, Seen { host, facts: Arc::default() })
    }

    /// Returns the version of the facts, as given by a user; 0 before the first.
    pub fn version(&self) -> u64 {
        self.0.version
    }

    /// Returns the number of changes so far, including those of the agent.
    pub fn revision(&self) -> u64 {
        self.0.revision
    }

    /// Returns the digest of the facts.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns the paths of the agent's facts, each with its owner: a part of the agent.
    pub fn owned(&self) -> &Owners {
        &self.0.owned
    }

    /// Returns the schemas.
    pub fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }

    /// Returns the facts as they were at the end of a version.
    pub(crate) fn facts_at(&self, version: u64, past: &mut dyn Past) -> Result<Tree, FactsError> {
        facts_at(&self.0, version, past)
    }

    /// Returns the facts at a path, with `(sensitive)` instead of each secret; none if nothing is there.
    pub fn redacted(&self, path: &Pointer) -> Option<Value> {
        Some(self.0.schemas.redacted(path, &self.at(path)?))
    }
}

/// The parts of the history that a change may need.
pub(crate) trait Past {
    /// Returns the entries with a revision below this one, newest first.
    fn entries(&mut self, before: u64) -> Result<Vec<Entry>, StoreError>;

    /// Returns the last document.
    fn document(&mut self) -> Result<Option<Document>, StoreError>;
}

/// Returns the outcome of a change, and the commit for it; no commit if nothing changes.
pub(crate) fn change(
    before: &Snapshot,
    submission: &Submission,
    (past, now): (&mut dyn Past, SystemTime),
) -> Result<(Outcome, Option<Commit>), FactsError> {
    check_texts(submission)?;
    check_size(&submission.change)?;
    let stored = &before.0;
    if let Some(expected) = submission.expect_version.filter(|it| *it != stored.version) {
        return Err(FactsError::Unexpected { expected, stored: stored.version });
    }
    let changed = Changed::of(stored, submission, past)?;
    let differences = differences((&stored.facts, &changed.facts), &submission.change);
    let mut owned = stored.owned.clone();
    let (overwritten, owners) = match &submission.change {
        // A value that is already there makes no commit.
        Change::Own(_) if differences.is_empty() => {
            return Ok((outcome(stored, differences, Vec::new()), None));
        }
        Change::Own(operations) => {
            let owners = owned.own((operations, &submission.who), &stored.facts);
            (Vec::new(), owners.map_err(|of_other| FactsError::Owned(vec![of_other]))?)
        }
        _ => {
            let overwritten = owned.overwrite(&differences, &submission.overwrites);
            let overwritten = overwritten.map_err(FactsError::Owned)?;
            let owners = overwritten.iter().map(|it| (it.path.clone(), None)).collect();
            (overwritten, owners)
        }
    };
    let mut sink = judged((stored, &changed.facts), &changed.schemas, &differences);
    if !sink.is_empty() {
        for violation in &mut sink.violations {
            locate(violation, &submission.change);
            let path = violation.path.as_ref();
            violation.is_secret |= path.is_some_and(|path| changed.schemas.is_sensitive(path));
        }
        return Err(FactsError::Invalid(sink.into()));
    }
    let Changed { facts, version, schemas, kind, who, why, document } = changed;
    let (revision, digest) = (stored.revision + 1, stored.digest.after(&differences));
    let changes_schema = match &submission.change {
        Change::Register(path, _) => Some(path.clone()),
        _ => None,
    };
    let next = Stored { facts, version, revision, digest, owned, schemas };
    let outcome = outcome(&next, differences.clone(), overwritten);
    let kind = kind.to_owned();
    let entry = Entry { revision, version, at: now, who, why, kind, digest, differences };
    Ok((outcome, Some(Commit { stored: next, entry, owners, changes_schema, document })))
}

/// Returns the differences that a change made. Compares only the paths that it may have changed.
fn differences((before, after): (&Tree, &Tree), change: &Change) -> Vec<Difference> {
    let operations = match change {
        Change::Update(update) => &update.operations,
        Change::Own(operations) => operations,
        _ => return difference(before, after),
    };
    difference_at(before, after, operations.iter().flat_map(Operation::touched))
}

fn outcome(stored: &Stored, differences: Vec<Difference>, overwritten: Vec<Owned>) -> Outcome {
    let Stored { version, revision, digest, .. } = *stored;
    Outcome { version, revision, digest, differences, overwritten, degraded: Vec::new() }
}

/// Adds the place in the document to a violation, if the change has written the fact.
fn locate(violation: &mut Violation, change: &Change) {
    let document = match (change, &violation.path) {
        (Change::Update(update), Some(path)) => update.place_of_fact(path),
        (Change::Load(_), Some(path)) => Some(path.below(&Pointer::root().join("facts"))),
        _ => None,
    };
    violation.document = document.or(violation.document.take());
}

/// The facts after a change, before they are checked.
struct Changed {
    facts: Tree,
    version: u64,
    schemas: Schemas,
    kind: &'static str,
    who: String,
    why: Option<String>,
    document: Option<Document>,
}

impl Changed {
    fn of(
        stored: &Stored,
        submission: &Submission,
        past: &mut dyn Past,
    ) -> Result<Self, FactsError> {
        let changed = Self {
            facts: stored.facts.clone(),
            version: stored.version,
            schemas: stored.schemas.clone(),
            kind: OWN,
            who: submission.who.clone(),
            why: submission.why.clone(),
            document: None,
        };
        match &submission.change {
            Change::Update(update) => changed.updated(update),
            Change::Load(load) => changed.loaded(load, past),
            Change::Restore(version) => changed.restored((*version, stored), past),
            Change::Own(operations) => {
                let facts = edited(&changed.facts, operations, own_lenience(), |_| None)?;
                Ok(Self { facts, ..changed })
            }
            Change::Register(path, schema) => {
                let schemas = changed.schemas.with(path, schema.clone());
                Ok(Self { schemas, kind: "schema", ..changed })
            }
        }
    }

    fn updated(self, update: &Update) -> Result<Self, FactsError> {
        let stored = self.version;
        if let Some(expected) = update.base_version.filter(|it| *it != stored) {
            return Err(FactsError::Unexpected { expected, stored });
        }
        let version = match update.version {
            Some(version) => newer(version, stored)?,
            None => next(stored)?,
        };
        let place_of = |operation| Some(update.place_of(operation));
        let facts = edited(&self.facts, &update.operations, update.lenience(), place_of)?;
        // The sender is verified; the author is only a claim.
        let who = match &update.author {
            Some(author) if *author != self.who => format!("{author}, by {}", self.who),
            _ => self.who,
        };
        let why = update.reason.clone().or(self.why);
        Ok(Self { facts, version, kind: "update", who, why, ..self })
    }

    fn loaded(self, load: &Load, past: &mut dyn Past) -> Result<Self, FactsError> {
        let version = newer(load.version, self.version)?;
        let document = Some(Document { version, facts: load.facts.clone() });
        if !load.merges {
            return Ok(Self { facts: load.facts.clone(), version, kind: "load", document, ..self });
        }
        let base = past.document()?.unwrap_or_default().facts;
        let facts = merge(&base, &load.facts, &self.facts).map_err(FactsError::Conflicts)?;
        Ok(Self { facts, version, kind: "merge", document, ..self })
    }

    fn restored(
        self,
        (to, stored): (u64, &Stored),
        past: &mut dyn Past,
    ) -> Result<Self, FactsError> {
        let mut facts = facts_at(stored, to, past)?;
        // The facts of the agent keep their current values.
        for (path, _) in stored.owned.iter() {
            match stored.facts.at(path) {
                Some(fact) => facts.put(path, fact.0),
                None => facts.remove(path),
            }
        }
        Ok(Self { facts, version: next(stored.version)?, kind: "restore", ..self })
    }
}

/// Returns the facts as they were at the end of a version. Undoes the later changes, newest first, and checks each of
/// them: an entry has to lead from the facts of the entry before it to its own.
pub(crate) fn facts_at(
    stored: &Stored,
    version: u64,
    past: &mut dyn Past,
) -> Result<Tree, FactsError> {
    if version > stored.version {
        return Err(FactsError::NoVersion(version));
    }
    let (mut facts, mut newer) = (stored.facts.clone(), None::<Entry>);
    loop {
        let below = newer.as_ref().map_or(stored.revision + 1, |newer| newer.revision);
        let entries = past.entries(below)?;
        if entries.is_empty() {
            if let (Some(first), 1) = (&newer, below) {
                check(first, (0, 0, Digest::of(&Tree::default())))?;
            }
            // Before the first commit there were no facts.
            let is_known = (version, below) == (0, 1);
            return if is_known { Ok(facts) } else { Err(FactsError::NoVersion(version)) };
        }
        for entry in entries {
            match &newer {
                Some(newer) => check(newer, (entry.revision, entry.version, entry.digest))?,
                None if (entry.revision, entry.digest) == (stored.revision, stored.digest) => {}
                None => {
                    let Stored { version, revision, .. } = *stored;
                    return Err(FactsError::Damaged { version, revision });
                }
            }
            if entry.version == version {
                return Ok(facts);
            }
            if entry.version < version {
                return Err(FactsError::NoVersion(version));
            }
            undo(&mut facts, &entry.differences);
            newer = Some(entry);
        }
    }
}

/// Checks that an entry leads from the facts before it, with their revision, version and digest, to its own facts. An
/// entry whose changes are not kept any more leads anywhere.
fn check(entry: &Entry, (revision, version, before): (u64, u64, Digest)) -> Result<(), FactsError> {
    let is_next =
        || entry.revision == revision + 1 && before.after(&entry.differences) == entry.digest;
    match entry.version >= version && (entry.is_emptied() || is_next()) {
        true => Ok(()),
        false => Err(FactsError::Damaged { version: entry.version, revision: entry.revision }),
    }
}

fn undo(facts: &mut Tree, differences: &[Difference]) {
    for Difference { path, before, .. } in differences.iter().rev() {
        match before {
            Some(before) if path.is_root() => *facts = before.clone(),
            Some(before) => facts.put(path, before.0.clone()),
            None => facts.remove(path),
        }
    }
}

/// The lenience for the agent: it may repeat its operations without an error.
fn own_lenience() -> Lenience {
    Lenience { creates_parents: true, ignores_missing: true }
}

fn newer(version: Version, stored: u64) -> Result<u64, FactsError> {
    let given = version.get();
    if given > stored { Ok(given) } else { Err(FactsError::Stale { given, stored }) }
}

fn next(stored: u64) -> Result<u64, FactsError> {
    match Version::new(stored.saturating_add(1)) {
        Some(version) => Ok(version.get()),
        None => Err(FactsError::Stale { given: stored, stored }),
    }
}

/// Returns the violations of changed facts, as they are without layers and as each host sees them.
fn judged(
    (stored, facts): (&Stored, &Tree),
    schemas: &Schemas,
    differences: &[Difference],
) -> Sink {
    let mut sink = Sink::default();
    layers::check(facts).into_iter().for_each(|violation| sink.push(|| violation));
    let (hosts, hosts_before) = (layers::hosts(facts), layers::hosts(&stored.facts));
    let has_schemas = *schemas == stored.schemas;
    let whole = |facts: &Tree| {
        vec![Difference { path: Pointer::root(), before: None, after: Some(facts.clone()) }]
    };
    // The layers of the hosts may complete the facts of the site.
    let extent = if hosts.is_empty() { Extent::Whole } else { Extent::Part };
    let site = layers::effective(facts, None);
    let is_checked = has_schemas && (extent == Extent::Part || hosts_before.is_empty());
    let of_site = differences.iter().filter(|it| !it.path.is_within(&layers::layers()));
    let of_site: Vec<_> = of_site.cloned().collect();
    match is_checked {
        true => schemas.check((&site, extent), &of_site, &mut sink),
        false => {
            schemas.check((&site, extent), &whole(&site), &mut sink);
            schemas.check_fixed(&of_site, &mut sink);
        }
    }
    let told = sink.violations.iter().map(|it| (it.path.clone(), it.message.clone()));
    let mut told: BTreeSet<_> = told.collect();
    for host in hosts {
        let seen = layers::effective(facts, Some(&host));
        let before = layers::effective(&stored.facts, Some(&host));
        let changed = difference(&before, &seen);
        let mut of_host = Sink::default();
        match has_schemas && hosts_before.contains(&host) {
            true => schemas.check((&seen, Extent::Whole), &changed, &mut of_host),
            false => {
                schemas.check((&seen, Extent::Whole), &whole(&seen), &mut of_host);
                schemas.check_fixed(&changed, &mut of_host);
            }
        }
        sink.omitted += of_host.omitted;
        for mut violation in of_host.violations {
            let path = violation.path.as_ref().map(|path| layers::set_by(facts, &host, path));
            if told.insert((path.clone(), violation.message.clone())) {
                violation.message = format!("as {host} sees it: {}", violation.message);
                violation.path = path;
                sink.push(|| violation);
            }
        }
    }
    sink
}

fn check_size(change: &Change) -> Result<(), FactsError> {
    let size = change.size();
    if size <= LARGEST_CHANGE {
        return Ok(());
    }
    let message = format!(
        "the change has {size} bytes as JSON, and at most {LARGEST_CHANGE} (32 MiB) are taken; make it in parts"
    );
    Err(FactsError::Invalid(Violation::of_document(&Pointer::root(), message).into()))
}

fn check_texts(submission: &Submission) -> Result<(), FactsError> {
    let texts = [Some(&submission.who), submission.why.as_ref()];
    for (text, what) in texts.into_iter().zip(["the name of who asks", "the reason"]) {
        if let Some(Err(why)) = text.map(|text| check_reason(text)) {
            let violation = Violation::of_document(&Pointer::root(), format!("{what} {why}"));
            return Err(FactsError::Invalid(violation.into()));
        }
    }
    Ok(())
}
