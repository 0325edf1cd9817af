//! The type against the rules for all types.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crankcase_external::{External, Settings};
use crankcase_resources::Kinds;
use crankcase_resources::front::{KindRequest, WantedKind};
use crankcase_resources::testing::{Conformance, Sample};
use serde_json::json;

#[test]
fn it_does_what_a_type_has_to() -> Result<(), Box<dyn Error>> {
    let name = concat!("program:", env!("CARGO_BIN_EXE_hosts"));
    let mut kinds = Kinds::default().from_source(Arc::new(External::new(Settings::default())));
    let wanted = WantedKind::new(name, "sample", env!("CARGO_MANIFEST_DIR").into());
    assert_eq!(kinds.make(&KindRequest::new(vec![wanted], Vec::new())), []);

    let config = |folder: &Path| {
        let names = json!({"db.example": "10.0.0.1", "web.example": "2001:db8::1"});
        json!({"file": folder.join("hosts"), "names": names})
    };
    let sample = Sample::new(name, "new names", config)
        .of_process()
        .drift("an address was changed", |folder| {
            let file = folder.join("hosts");
            let text = fs::read_to_string(&file)?;
            fs::write(file, text.replace("10.0.0.1", "10.0.0.2"))
        })
        .drift("the file was removed", |folder| fs::remove_file(folder.join("hosts")));

    Ok(Conformance::new(kinds).sample(sample).graphs(3).check()?)
}
