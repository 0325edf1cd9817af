//! Hands the notifications that are not answered yet to the resources that a site has now.

use std::collections::{BTreeMap, HashSet};

use crate::facilities::Facilities;
use crate::naming::owners_of;
use crate::site::Site;

impl Site {
    /// Forgets the notifications of targets that have left the site. A notification of a resource
    /// whose items were not known then becomes one of each item. A site that was
    /// [cut](Self::select) does not know what has left, and changes nothing.
    pub(crate) async fn take_over_notices(&self, facilities: &Facilities) {
        let notices = facilities.notices();
        if self.is_cut() || notices.are_all_answered() {
            return;
        }
        let unsure = self.unsure();
        let names = self.declarations().iter().map(|declared| declared.name.as_str());
        let names: HashSet<&str> = names.collect();
        let mut items: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in &names {
            for owner in owners_of(name) {
                items.entry(owner).or_default().push((*name).to_owned());
            }
        }
        let heirs = |target: &str| match names.contains(target) || unsure.has(target) {
            true => vec![target.to_owned()],
            false => items.get(target).cloned().unwrap_or_default(),
        };
        notices.hand_over(heirs).await;
    }
}
