//! Tests of the public API, on real files.

mod files;
#[path = "../../../facts/tests/it/mount.rs"]
mod mount;
mod needs_root;
mod old;
mod support;
