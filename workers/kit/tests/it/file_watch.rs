//! Subscriptions on real files and folders.

mod changes;
mod limits;
mod sharing;
