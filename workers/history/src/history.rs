//! The reader of the record.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use crate::record::{Event, Recorded, Run, instant, millis};
use crate::store::{HistoryError, Store};

/// The part of the record that is asked for. The default is all of it.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only this run.
    pub run: Option<i64>,
    /// Only the events of the resource with this name.
    pub resource: Option<String>,
    /// Only the events at this time or later, and the runs that were not over by then.
    pub since: Option<SystemTime>,
    /// At most this many, the last ones.
    pub last: Option<usize>,
}

/// The record of runs and events.
#[derive(Debug)]
pub struct History {
    store: Store,
}

impl History {
    /// Opens the record; nothing if there is none.
    ///
    /// # Errors
    ///
    /// When the file is damaged, or of a later version.
    pub fn open(path: &Path) -> Result<Option<Self>, HistoryError> {
        Ok(Store::read(path)?.map(|store| Self { store }))
    }

    /// Returns the runs that were not over by the time of the query, whatever its resource, in the
    /// order in which they began.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn runs(&self, query: &Query) -> Result<Vec<Run>, HistoryError> {
        self.read_runs(query).map_err(|source| self.store.wrong(source))
    }

    /// Returns the events that are asked for, in the order in which they happened.
    ///
    /// # Errors
    ///
    /// When the file is damaged.
    pub fn events(&self, query: &Query) -> Result<Vec<Recorded>, HistoryError> {
        self.read_events(query).map_err(|source| self.store.wrong(source))
    }

    fn read_runs(&self, query: &Query) -> rusqlite::Result<Vec<Run>> {
        let mut values = vec![Value::Integer(query.since.map_or(0, millis))];
        let mut only = "";
        if let Some(run) = query.run {
            only = "AND id = ?3";
            values.push(limit(query));
            values.push(run.into());
        } else {
            values.push(limit(query));
        }
        let mut statement = self.store.connection.prepare(&format!(
            "SELECT * FROM (SELECT id, mode, site, began, ended, outcome FROM run
             WHERE (began >= ?1 OR ended IS NULL OR ended >= ?1) {only} ORDER BY id DESC LIMIT ?2) ORDER BY id"
        ))?;
        let read = |row: &Row<'_>| {
            let (began, ended): (i64, Option<i64>) = (row.get(3)?, row.get(4)?);
            Ok(Run {
                run: row.get(0)?,
                mode: row.get(1)?,
                site: row.get(2)?,
                began: instant(began),
                ended: ended.map(instant),
                outcome: row.get(5)?,
                counts: BTreeMap::new(),
            })
        };
        let runs: rusqlite::Result<Vec<Run>> =
            statement.query_map(params_from_iter(values), read)?.collect();
        let mut runs = runs?;
        let mut counting = self
            .store
            .connection
            .prepare("SELECT event, count(*) FROM event WHERE run = ?1 GROUP BY event")?;
        for run in &mut runs {
            let counts = counting.query_map([run.run], |row| {
                let count: i64 = row.get(1)?;
                Ok((row.get(0)?, u64::try_from(count).unwrap_or_default()))
            })?;
            run.counts = counts.collect::<rusqlite::Result<_>>()?;
        }
        Ok(runs)
    }

    fn read_events(&self, query: &Query) -> rusqlite::Result<Vec<Recorded>> {
        let mut values = vec![Value::Integer(query.since.map_or(0, millis)), limit(query)];
        let mut only = String::new();
        if let Some(run) = query.run {
            values.push(run.into());
            only += &format!(" AND run = ?{}", values.len());
        }
        if let Some(resource) = &query.resource {
            values.push(resource.clone().into());
            only += &format!(" AND resource = ?{}", values.len());
        }
        let mut statement = self.store.connection.prepare(&format!(
            "SELECT * FROM (SELECT id, run, at, event, resource, type, differences, actions, error,
             why, took_ms, details FROM event WHERE at >= ?1{only} ORDER BY id DESC LIMIT ?2) ORDER BY id"
        ))?;
        let events = statement.query_map(params_from_iter(values), recorded)?;
        events.collect()
    }
}

/// Returns how many rows are read at most; SQLite takes -1 for all.
fn limit(query: &Query) -> Value {
    query.last.map_or(-1, |last| i64::try_from(last).unwrap_or(i64::MAX)).into()
}

fn recorded(row: &Row<'_>) -> rusqlite::Result<Recorded> {
    let (actions, took_ms): (String, i64) = (row.get(7)?, row.get(10)?);
    let details: Option<String> = row.get(11)?;
    let event = Event {
        details: details.and_then(|details| serde_json::from_str(&details).ok()),
        event: row.get(3)?,
        resource: row.get(4)?,
        kind: row.get(5)?,
        differences: row.get(6)?,
        actions: actions.lines().map(str::to_owned).collect(),
        error: row.get(8)?,
        why: row.get(9)?,
        took_ms: u64::try_from(took_ms).unwrap_or_default(),
    };
    Ok(Recorded { run: row.get(1)?, at: instant(row.get(2)?), event })
}
