//! Pauses of resources, and the parks of an earlier agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::schedule::shared::Schedule;
use crate::schedule::state::State;
use crate::state::{Document, Hold, Key, Position, Record, Records, Topic};

impl Schedule {
    /// Returns whether the site has a resource of this name.
    pub fn has(&self, resource: &str) -> bool {
        self.look(|kept| kept.has(resource))
    }

    /// Pauses a resource: it is left alone from now on. The pause is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When it cannot be put on record. Then nothing has changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is as an error.
    pub async fn pause(
        &self,
        resource: &str,
        hold: Hold,
        records: &Records,
    ) -> Result<(), BoxError> {
        hold.note(records, Key::new(Topic::Pause, resource)).await?;
        // It is visited, so that its worker reports its state.
        self.renew([resource], || {
            self.holds().paused.insert(resource.into(), hold);
        });
        Ok(())
    }

    /// Resumes a resource that was paused: it is kept again. That is on disk when this returns.
    ///
    /// # Errors
    ///
    /// When that cannot be put on record. Then the next agent leaves the resource alone again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the resource is kept again at once.
    pub async fn resume(&self, resource: &str, records: &Records) -> Result<(), BoxError> {
        let mut position = Position::default();
        self.renew([resource], || {
            let mut holds = self.holds();
            if holds.paused.remove(resource).is_some() {
                let key = Key::new(Topic::Pause, resource);
                position = records.push([Record::Removed { key }]);
            }
        });
        Ok(records.flush(position).await?)
    }

    /// Takes over the `read` pauses that are still on record, and forgets all others.
    pub fn take_over_pauses(&self, records: &Records, read: BTreeMap<Arc<str>, Hold>) {
        let mut holds = self.holds();
        records.look(|loaded| {
            let is_on_record = |name: &Arc<str>| {
                loaded.documents.contains(&Key::new(Topic::Pause, Arc::clone(name)))
            };
            holds.paused.retain(|name, _| is_on_record(name));
            for (name, hold) in read.into_iter().filter(|(name, _)| is_on_record(name)) {
                holds.paused.entry(name).or_insert(hold);
            }
        });
    }

    /// Keeps the workers of these resources from all work once they start, until the engine parks
    /// them.
    pub fn expect_parks(&self, resources: &[String]) {
        self.holds().to_park.extend(resources.iter().cloned());
    }

    /// Notes that a resource whose park was expected is parked.
    pub fn end_expected_park(&self, resource: &str) {
        self.holds().to_park.remove(resource);
    }

    /// Returns whether the worker of a resource is to be parked as soon as it has started.
    pub(crate) fn is_to_be_parked(&self, resource: &str) -> bool {
        self.holds().to_park.contains(resource)
    }

    /// Returns the pause of a resource, if a person has paused it.
    pub(crate) fn pause_of(&self, resource: &str) -> Option<Hold> {
        self.holds().paused.get(resource).cloned()
    }

    /// Puts the state of a paused resource on record, so that its dependents go on under the next
    /// agent too.
    pub(crate) fn note_paused_state(&self, resource: &str, state: &State, records: &Records) {
        let mut holds = self.holds();
        let Some(hold) = holds.paused.get_mut(resource) else { return };
        hold.state = Some(state.value().clone());
        match Document::of(&*hold) {
            Ok(document) => {
                records.push([Record::Stored { key: Key::new(Topic::Pause, resource), document }]);
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(resource, error, "cannot note the state of a paused resource");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::base::error::BoxError;
    use crate::schedule::shared::Schedule;
    use crate::state::{Hold, Key, Records, Topic};

    #[tokio::test]
    async fn a_resource_is_paused_until_it_is_resumed() -> Result<(), BoxError> {
        let (schedule, records) = (Schedule::default(), Records::default());
        let hold = Hold::new("ada", "a look", String::new());

        schedule.pause("page", hold.clone(), &records).await?;
        assert_eq!(schedule.pause_of("page"), Some(hold));
        schedule.resume("page", &records).await?;
        schedule.resume("page", &records).await?;

        assert_eq!(schedule.pause_of("page"), None);
        assert!(Hold::all(&records, Topic::Pause).await.is_empty());
        Ok(())
    }

    #[tokio::test]
    async fn a_pause_holds_as_long_as_it_is_on_record() -> Result<(), BoxError> {
        let (records, key) = (Records::default(), Key::new(Topic::Pause, "page"));
        let hold = Hold::new("ada", "a look", String::new());
        hold.note(&records, key.clone()).await?;
        let (schedule, read) = (Schedule::default(), Hold::all(&records, Topic::Pause).await);

        schedule.take_over_pauses(&records, read.clone());
        assert_eq!(schedule.pause_of("page"), Some(hold));
        Hold::forget(&records, key).await?;
        schedule.take_over_pauses(&records, BTreeMap::new());
        assert_eq!(schedule.pause_of("page"), None);
        schedule.take_over_pauses(&records, read);
        assert_eq!(schedule.pause_of("page"), None);
        Ok(())
    }
}
