//! Tests of the public API.
mod bad_manifests;
mod bounds;
mod claims;
mod hidden;
mod json;
mod kept_facts;
mod keys;
mod loading;
mod manifest_order;
mod mutations;
mod rendering;
mod rule_loops;
mod secrets;
mod site;
mod states;
mod wanted;
mod wrong_facts;
