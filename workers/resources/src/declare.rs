//! What is to be: declarations, claims and edges, and the parameters and actions of kinds as data.

pub(crate) mod action;
pub(crate) mod automatic;
pub(crate) mod claim;
pub(crate) mod declaration;
pub(crate) mod earlier_config;
pub(crate) mod file_conflicts;
pub(crate) mod kept_thing;
pub(crate) mod known;
pub(crate) mod literal;
pub(crate) mod meta;
pub(crate) mod order;
pub(crate) mod params;
pub(crate) mod surroundings;
pub(crate) mod tuning;
