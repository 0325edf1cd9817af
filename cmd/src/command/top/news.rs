//! What has happened since the reports that the table is made of.

use std::collections::BTreeMap;
use std::mem::take;

use crankcase_status::wire::Event;

/// How many moments are kept; if there are more, all is asked for.
const KEPT: usize = 1000;

/// What has happened and may not be in the table.
///
/// The agent writes all times alike and by one clock. What happened before a report was begun is in it, but a report
/// of what has changed does not name those that are gone.
#[derive(Debug, Default)]
pub(super) struct News {
    /// When the last report of all was begun, and the last one of all or of what has changed.
    whole_at: Option<String>,
    reported_at: Option<String>,
    /// The first event of each moment that may not be reported.
    moments: BTreeMap<String, u64>,
    /// The workers that were uninstalled after the last report of all, and when, until that was asked for.
    gone: BTreeMap<String, (String, u64)>,
}

impl News {
    /// Takes note of an event. Returns whether a report of all is needed because of it.
    pub(super) fn note(&mut self, event: &Event) -> bool {
        let Event { path, at, sequence, .. } = event;
        let mut needs_whole = false;
        match event.kind() {
            "uninstalled" | "removed" if !is_before(at, self.whole_at.as_ref()) => {
                // The later one counts: a report may have been begun between the two.
                self.gone.insert(path.clone(), (at.clone(), *sequence));
            }
            // Another worker of the same name: nothing that was in the other one counts.
            "installed" => needs_whole = self.gone.remove(path).is_some(),
            _ => {}
        }
        if !is_before(at, self.reported_at.as_ref()) {
            self.moments.entry(at.clone()).or_insert(*sequence);
        }
        if self.moments.len() > KEPT {
            self.moments.clear();
            needs_whole = true;
        }
        needs_whole
    }

    /// Returns the number of the first event that the table may not show yet.
    pub(super) fn first(&self) -> Option<u64> {
        let gone = self.gone.values().map(|(_, sequence)| *sequence);
        self.moments.values().copied().chain(gone).min()
    }

    /// Takes note that a report is asked for. Returns the workers that are gone.
    pub(super) fn ask(&mut self) -> Vec<String> {
        self.moments.clear();
        take(&mut self.gone).into_keys().collect()
    }

    /// Takes note of a report of all.
    pub(super) fn all_reported(&mut self, at: &str) {
        self.gone.retain(|_, (gone_at, _)| &**gone_at >= at);
        self.whole_at = Some(at.to_owned());
        self.reported(at);
    }

    /// Takes note of a report of what has changed.
    pub(super) fn reported(&mut self, at: &str) {
        self.moments.retain(|moment, _| &**moment >= at);
        self.reported_at = Some(at.to_owned());
    }
}

fn is_before(at: &str, reported: Option<&String>) -> bool {
    reported.is_some_and(|reported| at < reported.as_str())
}
