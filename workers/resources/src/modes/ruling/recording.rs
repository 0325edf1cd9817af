//! How events and rules get on record, and rules without a record stand still.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use crate::base::blocking::blocking;
use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::modes::ruling::journal::Begun;
use crate::modes::ruling::record::Record;
use crate::modes::ruling::{Life, RECORD_AGAIN, Rules};
use crate::rules::cause::Cause;

impl Rules {
    /// Puts events on record, for each rule that waits for them.
    pub(super) async fn note(&self, lives: &mut BTreeMap<String, Life>, events: &[Begun]) {
        let mut is_noted = true;
        for (name, life) in lives.iter_mut().filter(|(_, life)| life.parameters.is_enabled) {
            let events = events.iter().map(|begun| &begun.event);
            let events = events.filter(|happened| life.rule.on.is_for(happened));
            let causes: Vec<_> = events
                .map(|happened| Cause {
                    rule: name.clone(),
                    of: happened.resource.clone(),
                    before: None,
                    value: None,
                    happened: Some(happened.clone()),
                })
                .collect();
            if !causes.is_empty() {
                causes.into_iter().for_each(|cause| life.record.push(cause));
                is_noted &= self.write(life).await;
            }
        }
        if is_noted {
            let begun = events.iter().filter(|begun| begun.number > 0);
            let begun: Vec<_> = begun.map(|it| (it.event.resource.clone(), it.number)).collect();
            let journal = Arc::clone(&self.events.journal);
            let note = move || {
                begun.iter().for_each(|(name, number)| journal.note(name, *number));
                Ok::<_, BoxError>(())
            };
            // The journal logs its own errors.
            drop(blocking(note).await);
        }
    }

    /// Puts the events on record that an earlier agent has left.
    pub(super) async fn note_left(&self, lives: &mut BTreeMap<String, Life>) {
        let journal = Arc::clone(&self.events.journal);
        match blocking(move || journal.take_left()).await {
            Ok(left) => self.note(lives, &left).await,
            Err(error) => {
                let error = chain(&*error);
                tracing::error!(error, "the events that an earlier agent has left cannot be read");
            }
        }
    }

    /// Reads the record of a rule. If it cannot be read, the rule stands still.
    pub(super) async fn read(&self, life: &mut Life) {
        match Record::read(&self.records, &life.rule.name).await {
            Ok(record) => {
                let later = std::mem::replace(&mut life.record, record).pending;
                later.into_iter().for_each(|cause| life.record.push(cause));
                (life.is_read, life.stands_still) = (true, None);
            }
            Err(error) => stand_still(life, &*error),
        }
    }

    /// Writes the record of a rule. Returns whether it was written; if it was not, the rule stands still.
    pub(super) async fn write(&self, life: &mut Life) -> bool {
        if !life.is_read {
            return false;
        }
        match life.record.write(&self.records, &life.rule.name).await {
            Ok(()) => life.stands_still = None,
            Err(error) => stand_still(life, &*error),
        }
        life.stands_still.is_none()
    }

    /// Tries a record again that could not be read or written, if it is time.
    pub(super) async fn mend(&self, life: &mut Life, now: Instant) {
        if life.stands_still.as_ref().is_none_or(|(_, again)| *again > now) {
            return;
        }
        if life.is_read {
            self.write(life).await;
        } else {
            self.read(life).await;
            // What came meanwhile is only in memory.
            if life.is_read && !life.record.pending.is_empty() {
                self.write(life).await;
            }
        }
    }
}

fn stand_still(life: &mut Life, error: &(dyn std::error::Error + Send + Sync + 'static)) {
    let (rule, error) = (&life.rule.name, chain(error));
    if life.stands_still.as_ref().is_none_or(|(known, _)| *known != error) {
        tracing::error!(rule, error, "a rule stands still, because of its record");
    }
    life.stands_still = Some((error, Instant::now() + RECORD_AGAIN));
}
