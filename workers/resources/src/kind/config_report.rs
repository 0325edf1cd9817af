//! What a kind reports of a config before anything on the machine is looked at.

use std::fmt;

use serde_json::{Map, Value};

use crate::base::error::AttributeError;
use crate::base::shape::Shape;
use crate::declare::claim::{Claim, PATH, path_name};
use crate::declare::declaration::Declaration;
use crate::declare::known::Claimed;
use crate::kind::part::Part;

/// What a kind says of a config before anything is looked at; see
/// [`Kinds::judge`](crate::Kinds::judge).
pub struct ConfigReport {
    /// What is wrong with the config.
    pub errors: Vec<AttributeError>,
    /// What the resource keeps, makes, needs and reads.
    pub claimed: Claimed,
    /// The attributes of the state that are known whatever a check finds: each is one of the config,
    /// with the value that every check will report.
    pub declared: Map<String, Value>,
    /// The resources that it is made of.
    pub parts: Vec<Part>,
}

/// Shows the names of what is declared, and no values.
impl fmt::Debug for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { errors, claimed, declared, parts } = self;
        let mut shown = f.debug_struct("ConfigReport");
        shown.field("errors", errors).field("claimed", claimed);
        shown.field("declared", &Shape::of_map(declared)).field("parts", parts).finish()
    }
}

/// What is known where there is no kind to ask.
impl Default for ConfigReport {
    fn default() -> Self {
        let claimed = Claimed::unknown();
        Self { errors: Vec::new(), claimed, declared: Map::new(), parts: Vec::new() }
    }
}

impl Declaration {
    /// Takes over the claims and the files to read that its kind reports. It needs what it reads.
    /// If it is only looked at, it keeps and makes nothing, and needs what it would keep.
    pub fn claim(&mut self, claimed: &Claimed) {
        let reads =
            claimed.reads.iter().filter_map(|read| path_name(&self.folder.join(&read.path)));
        let reads = reads.map(|path| Claim::needs(PATH, path));
        let claims = claimed.claims.iter().cloned().chain(reads);
        self.claims = match self.noop {
            true => claims.filter_map(Claim::looked_at).collect(),
            false => claims.collect(),
        };
        // There was room for four, and a file has two.
        self.claims.shrink_to_fit();
        self.is_claimed = !self.noop && !claimed.is_open;
        self.makes_unnamed = !self.noop && claimed.makes_unnamed();
        self.stops_first = !self.noop && claimed.stops_first;
    }
}
