//! The types that every part of the engine uses: names, values, ends, errors, policies and times.
//!
//! These modules import nothing from the rest of the engine.

pub(crate) mod backoff;
pub(crate) mod backtrace;
pub(crate) mod chunks;
pub(crate) mod clock;
pub(crate) mod discard;
pub(crate) mod error;
pub(crate) mod exit;
pub(crate) mod family;
pub(crate) mod follow;
pub(crate) mod hash;
pub(crate) mod live;
pub(crate) mod live_set;
pub(crate) mod name;
pub(crate) mod policy;
pub(crate) mod selection;
mod setters;
pub(crate) mod settings;
pub(crate) mod spawned;
pub(crate) mod text;
pub(crate) mod ticks;
pub(crate) mod value;
pub(crate) mod wake;
