//! Tests of the public API, on real files.

mod authority;
mod crashes;
mod damage;
mod documents;
mod history;
mod layered;
mod mount;
mod needs_root;
mod operations;
mod rfc;
mod schemas;
mod support;
mod watching;
