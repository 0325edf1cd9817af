//! What a kind is: its contract, what it may use, and how a kind in Rust becomes one.

pub(crate) mod config_report;
pub(crate) mod context;
pub(crate) mod contract;
pub(crate) mod foresight;
pub(crate) mod kind_source;
pub(crate) mod kinds;
pub(crate) mod part;
pub(crate) mod resource;
pub(crate) mod secrets;
pub(crate) mod typed;
pub(crate) mod watch;
