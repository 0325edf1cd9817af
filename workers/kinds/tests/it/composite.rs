//! A kind whose resources are made of others is as plan and apply need it.

use std::fs;

use crankcase_kinds::builtin;
use crankcase_resources::kind;
use crankcase_resources::testing::{Conformance, Sample, Violations};
use serde_json::json;

use crate::website::Website;

#[test]
fn a_kind_of_parts_conforms() -> Result<(), Violations> {
    let sample = |name: &str| {
        Sample::new("website", name, |folder| json!({"root": folder.join("www"), "text": "hello"}))
    };
    let page = sample("a new one")
        .drift("its page is written to", |folder| fs::write(folder.join("www/index.html"), "bye"));
    let folder = sample("one that is half there")
        .prepared(|folder| fs::create_dir(folder.join("www")))
        .drift("it is gone", |folder| fs::remove_dir_all(folder.join("www")));
    Conformance::new(builtin().with(kind::<Website>()))
        .sample(page)
        .sample(folder)
        .graphs(30)
        .check()
}
