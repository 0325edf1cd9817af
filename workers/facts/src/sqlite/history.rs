//! The bounds of the history: the changes by users and those by the agent have a place each.
//!
//! When the oldest change by the agent leaves its place, its differences are removed, and its row stays instead of the
//! emptied row before it. So at most one emptied row is between two changes by users, and the digest of each change that
//! is kept still follows from the row before it.

use rusqlite::{Connection, Transaction};

use crate::store::{KEPT_BYTES, KEPT_BYTES_OF_AGENT, KEPT_ENTRIES, KEPT_ENTRIES_OF_AGENT};

/// The bounds of a place: a number of entries, and a number of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    entries: u64,
    bytes: u64,
}

/// How much of the history is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    users: Place,
    agent: Place,
}

impl Default for Kept {
    fn default() -> Self {
        let users = Place { entries: KEPT_ENTRIES, bytes: KEPT_BYTES };
        Self { users, agent: Place { entries: KEPT_ENTRIES_OF_AGENT, bytes: KEPT_BYTES_OF_AGENT } }
    }
}

/// The counts of the history: the number of changes by users, and the number and size of those by
/// the agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    users: i64,
    agent: i64,
    bytes_of_agent: i64,
}

impl Counts {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let users = "SELECT count(*) FROM entry WHERE kind <> 'own'";
        let agent = "SELECT count(*), coalesce(sum(octet_length(differences)), 0) FROM entry
                     WHERE kind = 'own' AND differences <> '[]'";
        let users = connection.query_row(users, [], |row| row.get(0))?;
        connection.query_row(agent, [], |row| {
            Ok(Self { users, agent: row.get(0)?, bytes_of_agent: row.get(1)? })
        })
    }
}

/// The most changes by the agent that one commit removes. An earlier program may have left 100,000 of them: the first
/// commit after it does not remove all, which would take seconds.
const MOST_EMPTIED: usize = 1_000;

/// Removes the oldest entries from a place that a new entry has made too large. `counts` are the
/// counts of the history before, if they are known. `added` is the size of the new entry in bytes.
/// Returns the counts of the history after that.
pub(super) fn trim(
    transaction: &Transaction<'_>,
    counts: Option<Counts>,
    (is_of_agent, added): (bool, i64),
    kept: Kept,
) -> rusqlite::Result<Counts> {
    let mut counts = match counts {
        Some(counts) if is_of_agent => {
            let bytes_of_agent = counts.bytes_of_agent + added;
            Counts { agent: counts.agent + 1, bytes_of_agent, ..counts }
        }
        Some(counts) => Counts { users: counts.users + 1, ..counts },
        None => Counts::read(transaction)?,
    };
    let mut total = change(transaction, added)?;
    for _ in 0..MOST_EMPTIED {
        let is_large = counts.agent > kept.agent.entries as i64
            || counts.bytes_of_agent > kept.agent.bytes as i64;
        if counts.agent <= 1 || !is_large {
            break;
        }
        let (entry, size) = oldest_of_agent(transaction)?;
        total = change(transaction, empty(transaction, entry)? - size)?;
        counts.agent -= 1;
        counts.bytes_of_agent -= size;
    }
    while counts.users > 1
        && (counts.users > kept.users.entries as i64
            || total - counts.bytes_of_agent > kept.users.bytes as i64)
    {
        let removed = remove_oldest_of_users(transaction)?;
        total = change(transaction, -removed.bytes)?;
        counts.users -= 1;
        counts.agent -= removed.agent;
        counts.bytes_of_agent -= removed.bytes_of_agent;
    }
    Ok(counts)
}

/// Changes the size of the history by some bytes; returns the new size.
fn change(transaction: &Transaction<'_>, by: i64) -> rusqlite::Result<i64> {
    let sum = "UPDATE state SET history = history + ?1 RETURNING history";
    transaction.prepare_cached(sum)?.query_row([by], |row| row.get(0))
}

fn oldest_of_agent(transaction: &Transaction<'_>) -> rusqlite::Result<(i64, i64)> {
    let oldest = "SELECT revision, octet_length(differences) FROM entry
                  WHERE kind = 'own' AND differences <> '[]' ORDER BY revision LIMIT 1";
    transaction.prepare_cached(oldest)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Removes the differences of an entry, and the emptied entry before it. Returns how many bytes are left.
fn empty(transaction: &Transaction<'_>, revision: i64) -> rusqlite::Result<i64> {
    let empty = "UPDATE entry SET differences = '[]' WHERE revision = ?1";
    transaction.prepare_cached(empty)?.execute([revision])?;
    let before = "DELETE FROM entry
                  WHERE revision = (SELECT max(revision) FROM entry WHERE revision < ?1)
                  AND kind = 'own' AND differences = '[]'";
    let removed = transaction.prepare_cached(before)?.execute([revision])?;
    Ok(if removed > 0 { 0 } else { EMPTY })
}

/// The size of an entry without differences.
const EMPTY: i64 = 2;

/// The entries that were removed: their size, and the number and size of those by the agent.
#[derive(Default)]
struct Removed {
    bytes: i64,
    agent: i64,
    bytes_of_agent: i64,
}

/// Removes the oldest change by a user, and those by the agent before it: no version there can be restored any more.
fn remove_oldest_of_users(transaction: &Transaction<'_>) -> rusqlite::Result<Removed> {
    let remove = "DELETE FROM entry
                  WHERE revision <= (SELECT min(revision) FROM entry WHERE kind <> 'own')
                  RETURNING kind = 'own' AND differences <> '[]', octet_length(differences)";
    let mut remove = transaction.prepare_cached(remove)?;
    let (mut rows, mut removed) = (remove.query([])?, Removed::default());
    while let Some(row) = rows.next()? {
        let (is_of_agent, bytes): (bool, i64) = (row.get(0)?, row.get(1)?);
        removed.bytes += bytes;
        if is_of_agent {
            (removed.agent, removed.bytes_of_agent) =
                (removed.agent + 1, removed.bytes_of_agent + bytes);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::path::Path;
    use std::time::SystemTime;

    use rusqlite::Connection;
    use serde_json::json;

    use super::{Kept, Place};
    use crate::sqlite::Sqlite;
    use crate::{Change, Entry, Facts, FactsError, Operation, Submission, Update};

    type TestResult<T = ()> = Result<T, Box<dyn Error>>;

    fn open(path: &Path, users: Place, agent: Place) -> TestResult<Facts> {
        let mut store = Sqlite::open(path)?;
        store.keep(Kept { users, agent });
        Ok(Facts::open(Box::new(store))?)
    }

    fn entries(entries: u64) -> Place {
        Place { entries, bytes: 1_000_000 }
    }

    fn set(facts: &Facts, path: &str, value: u64) -> TestResult {
        let update = Update::of(vec![Operation::Set(path.parse()?, json!(value))]);
        facts.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::UNIX_EPOCH)?;
        Ok(())
    }

    fn own(facts: &Facts, path: &str, value: u64) -> TestResult {
        let own = Change::Own(vec![Operation::Set(path.parse()?, json!(value))]);
        facts.submit(&Submission::new(own, "rule r"), SystemTime::UNIX_EPOCH)?;
        Ok(())
    }

    /// Returns the size of the history as it is counted, and as it is.
    fn sizes(path: &Path) -> TestResult<(i64, i64)> {
        let query = "SELECT history, (SELECT sum(octet_length(differences)) FROM entry) FROM state";
        Ok(Connection::open(path)?.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    #[test]
    fn the_agent_evicts_no_change_of_a_user_and_its_own_oldest_ones() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        let facts = open(&path, entries(100), entries(3))?;
        set(&facts, "/a", 1)?;
        (0..10).try_for_each(|value| own(&facts, "/seen", value))?;
        set(&facts, "/a", 2)?;
        (10..20).try_for_each(|value| own(&facts, "/seen", value))?;
        set(&facts, "/a", 3)?;

        let log = facts.log(None, 100)?;
        let kinds: Vec<_> = log.iter().map(|it| it.kind.as_str()).collect();
        assert_eq!(kinds, ["update", "own", "own", "own", "update", "update"]);
        let rows: i64 =
            Connection::open(&path)?
                .query_row("SELECT count(*) FROM entry", [], |row| row.get(0))?;
        assert_eq!(rows, 8, "one emptied entry is between two changes of a user");
        let (counted, real) = sizes(&path)?;
        assert_eq!(counted, real);
        for (version, value) in [(2, 2), (1, 1)] {
            assert_eq!(
                facts.at_version(version)?.at(&"/a".parse()?).map(|it| it.to_value()),
                Some(json!(value))
            );
        }
        // Another process counts anew, and an entry that is damaged is found behind the emptied ones.
        let other = open(&path, entries(100), entries(2))?;
        own(&other, "/seen", 99)?;
        assert_eq!(other.log(None, 100)?.len(), 5);
        assert_eq!(sizes(&path)?.0, sizes(&path)?.1);
        let damage = "UPDATE entry SET differences = '[[\"/a\",[7],[2]]]' WHERE version = 2 AND kind = 'update'";
        Connection::open(&path)?.execute(damage, [])?;
        assert!(other.at_version(2).is_ok());
        let damaged = other.at_version(1);
        assert!(matches!(damaged, Err(FactsError::Damaged { version: 2, .. })), "{damaged:?}");
        Ok(())
    }

    #[test]
    fn a_place_that_is_too_large_loses_its_oldest_entries() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("facts.db");
        let one = r#"[["/a",[1],[2]]]"#.len() as u64;
        let facts = open(&path, Place { entries: 100, bytes: 3 * one }, entries(100))?;
        for value in 1..10 {
            set(&facts, "/a", value)?;
            own(&facts, "/seen", value)?;
        }
        let versions = |of: &str| -> TestResult<Vec<u64>> {
            let log = facts.log(None, 100)?.into_iter();
            Ok(log.filter(|it: &Entry| it.kind == of).map(|it| it.version).collect())
        };

        assert_eq!(versions("update")?, [9, 8, 7]);
        assert_eq!(versions("own")?, [9, 8, 7, 6]);
        assert_eq!(sizes(&path)?.0, sizes(&path)?.1);
        assert!(facts.at_version(6).is_ok());
        assert!(matches!(facts.at_version(5), Err(FactsError::NoVersion(5))));
        Ok(())
    }
}
