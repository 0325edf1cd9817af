//! Tests of the public API, on real files.

mod files;
mod kills;
mod model;
#[path = "../../../facts/tests/it/mount.rs"]
mod mount;
mod needs_root;
mod old;
mod readers;
mod support;
