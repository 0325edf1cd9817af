//! Tests of the public API.
mod exec;
mod file;
mod file_attacks;
mod file_faults;
mod file_rights;
mod kinds;
mod plan;
mod support;
