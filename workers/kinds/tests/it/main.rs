//! Tests of the public API.
mod composite;
mod conformance;
mod edges;
mod exec;
mod file;
mod file_attacks;
mod file_reading;
mod file_rights;
mod graph;
mod in_place;
mod kinds;
mod needs_root;
mod plan;
mod reversal;
mod stops_first;
mod support;
mod website;
