//! What is put on record before a resource acts.
//!
//! Invariants:
//! 1. Nothing is put on record before the schedule has allowed the action, so a visit that may not
//!    act leaves no trace. If an allowed action does not begin, the record of how to put the
//!    resource back is removed: somebody else may change the resource before it acts.
//! 2. Everything is on record, and all records are on disk, before the action begins. Of resources
//!    that are acted on together, each puts its own on record before it joins, and the first waits
//!    until all of it is on disk.

use serde_json::Map;

use crate::base::text::chain;
use crate::state::Position;
use crate::state::reversal::Reversal;
use crate::visit::announcement::Announcement;
use crate::visit::opened::{NotBegun, Opened};
use crate::visit::prepared::Prepared;

impl Opened {
    /// Makes an announcement, unless it is made: puts on record how the resource is put back as it
    /// is now, whom it notifies, and the event that the action leads to. Returns up to where
    /// records have to be on disk before the resource acts.
    pub(super) async fn record(&self, announcement: &Announcement) -> Result<Position, NotBegun> {
        if let Some(records) = announcement.made() {
            return Ok(records);
        }
        let reversal = self.note_reversal(announcement).await.map_err(|error| {
            NotBegun::NotOnRecord(format!("cannot put on record how to put it back: {error}"))
        })?;
        let facilities = self.prepared.context.facilities();
        let notifications = announcement.notifications(self.name());
        let records = match notifications.is_empty() {
            true => reversal,
            false => facilities.records().push(notifications),
        };
        if let Some(event) = announcement.event() {
            facilities.observe(move |observer| observer.begins(&event)).await;
        }
        announcement.make(records);
        Ok(records)
    }

    /// Waits until the records up to there are on disk, with which the resource may act.
    pub(super) async fn flush_promise(
        &self,
        announcement: &Announcement,
        records: Position,
    ) -> Result<(), NotBegun> {
        let what = if announcement.targets().is_empty() {
            "how to put it back"
        } else {
            "whom it notifies"
        };
        self.flush(records)
            .await
            .map_err(|error| NotBegun::NotOnRecord(format!("cannot put on record {what}: {error}")))
    }

    /// Waits until the records up to there are on disk.
    pub(super) async fn flush(&self, records: Position) -> Result<(), String> {
        let flushed = self.prepared.context.facilities().records().flush(records).await;
        flushed.map_err(|err| chain(&err))
    }

    /// Forgets how the resource is put back, if an announcement whose action was not begun has put
    /// that on record. If the observer has seen the action begin, tells it that no event follows.
    pub(crate) async fn note_not_begun(&self, announcement: &Announcement) {
        let facilities = self.prepared.context.facilities();
        if let Some(thing) = announcement.reversed() {
            Reversal::withdraw(facilities.records(), thing);
        }
        if announcement.made().is_some() && announcement.event().is_some() {
            let name = self.name().to_owned();
            facilities.observe(move |observer| observer.failed_again(&name)).await;
        }
    }

    /// Puts on record how the resource is put back as it is now, unless that is on record. Returns
    /// up to where the records of that are.
    async fn note_reversal(&self, announcement: &Announcement) -> Result<Position, String> {
        let Prepared { kind, context, .. } = &self.prepared;
        if !context.is_reversed() || !context.facilities().are_lasting() {
            return Ok(Position::default());
        }
        let (records, thing) = (context.facilities().records(), self.prepared.thing());
        if let Some(position) = Reversal::position(records, &thing) {
            return Ok(position);
        }
        let (config, call) = self.asked(|unit, context| unit.reversal(context)).await;
        let config = config?;
        if config.is_none() {
            let why = call.lines().join("; ");
            tracing::warn!(resource = context.name(), why, "it cannot be put back as it is now");
        }
        let (resource, kind) = (context.name().to_owned(), kind.name().to_owned());
        let notified = announcement.targets().iter().map(ToString::to_string).collect();
        let folder = context.folder().to_owned();
        // What was there may come from a secret too.
        let hidden = config.iter().filter(|_| !context.hidden().is_empty());
        let hidden = hidden.flat_map(Map::keys).cloned().collect();
        let reversal = Reversal { resource, kind, folder, notified, hidden, config };
        let position = reversal.push(records, &thing).map_err(|err| chain(&err))?;
        announcement.note_reversal(thing);
        Ok(position)
    }
}
