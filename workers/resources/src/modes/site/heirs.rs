//! Hands the notifications that are not answered yet to the resources that a site has now.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::base::naming::owners_of;
use crate::base::text::chain;
use crate::modes::site::Site;
use crate::state::facilities::Facilities;
use crate::state::{Notification, Record};

impl Site {
    /// Forgets the notifications of targets that have left the site. A notification of a resource
    /// whose items were not known then becomes one of each item. A site that was
    /// [cut](Self::select) does not know what has left, and changes nothing.
    pub(crate) async fn take_over_notices(&self, facilities: &Facilities) {
        let records = facilities.records();
        let pending = records.look(|loaded| loaded.pending.clone());
        if self.is_cut() || pending.is_empty() {
            return;
        }
        let unsure = self.unsure();
        let names = self.declarations().iter().map(|declared| declared.name.as_str());
        let names: HashSet<&str> = names.collect();
        let mut items: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for name in &names {
            for owner in owners_of(name) {
                items.entry(owner).or_default().push(name);
            }
        }
        let mut moved = Vec::new();
        for Notification { target, source } in pending {
            if !names.contains(&*target) && !unsure.has(&target) {
                for heir in items.get(&*target).into_iter().flatten() {
                    let notification = Notification::new(*heir, Arc::clone(&source));
                    moved.push(Record::Pending(notification));
                }
                moved.push(Record::Acknowledged(Notification { target, source }));
            }
        }
        if moved.is_empty() {
            return;
        }
        // That this cannot be written costs another attempt, and no more.
        if let Err(error) = records.flush(records.push(moved)).await {
            let error = chain(&error);
            tracing::warn!(error, "cannot put on disk who has left and is not notified any more");
        }
    }
}
