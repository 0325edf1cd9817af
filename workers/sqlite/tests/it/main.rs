//! Tests of the public API, on real files.

#[path = "../../../facts/tests/it/mount.rs"]
mod mount;
mod needs_root;
mod opening;
mod support;
mod versions;
