//! Tests of the public API.

mod kept;
mod loading;
mod output;
mod references;
mod sensitive;
mod world;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_external::{External, Settings};
use crankcase_resources::Kinds;
use crankcase_resources::front::{KindRequest, RequestError, WantedKind};
use crankcase_resources::testing::{Conformance, Sample};
use serde_json::json;

use crate::world::program;

/// A type that keeps a text in a file.
const TEXT: &str = r#"#!/bin/sh
input=$(cat)
get() { printf '%s\n' "$input" | sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" | head -n 1; }
path=$(get path) text=$(get text)
case ${1-init} in
init) echo '{"protocol": 1, "config_schema": {"required": ["path", "text"], "additionalProperties": false,
        "properties": {"path": {"type": "string"}, "text": {"type": "string"}}},
        "calls": {"check": {"args": ["check"]}, "delete": {"args": ["delete"]}, "reverse": {"args": ["reverse"]}}}' ;;
check)
  planned="{\"path\": \"$path\", \"text\": \"$text\"}"
  if [ ! -e "$path" ]; then
    echo "{\"status\": \"STALE\", \"planned\": $planned, \"actions\": [{\"name\": \"write\", \"args\": [\"write\"]}]}"
  elif [ "$(cat "$path")" = "$text" ]; then
    echo "{\"status\": \"VALID\", \"state\": $planned}"
  else
    echo "{\"status\": \"STALE\", \"staleState\": {\"path\": \"$path\", \"text\": \"$(cat "$path")\"},
           \"planned\": $planned, \"actions\": [{\"name\": \"write\", \"args\": [\"write\"]}]}"
  fi ;;
write) printf '%s' "$text" > "$path.new" && mv "$path.new" "$path" ;;
delete) rm "$path" ;;
reverse) if [ -e "$path" ]; then echo "{\"config\": {\"path\": \"$path\", \"text\": \"$(cat "$path")\"}}"; else echo '{"config": null}'; fi ;;
esac
"#;

/// Returns the kinds with one of a program, and its name.
fn kinds(folder: &Path, text: &str) -> Result<(Kinds, String), Box<dyn Error>> {
    let path = folder.join("type");
    program(&path, text)?;
    let name = format!("program:{}", path.display());
    let mut kinds = Kinds::default().from_source(Arc::new(External::new(Settings::default())));
    let wanted = WantedKind::new(&name, "sample", folder.to_owned());
    let errors = kinds.make(&KindRequest::new(vec![wanted], Vec::new()));
    assert_eq!(errors, []);
    Ok((kinds, name))
}

fn sample(name: &str) -> Sample {
    let config = |folder: &Path| json!({"path": folder.join("it"), "text": "right"});
    Sample::new(name, "a new text", config)
        .of_process()
        .drift("it was changed", |folder| fs::write(folder.join("it"), "wrong"))
        .drift("it was removed", |folder| fs::remove_file(folder.join("it")))
}

#[test]
fn an_engine_that_answers_late_is_what_the_machine_lacks() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = folder.path().join("engine");
    program(&engine, "#!/bin/sh\nsleep 1000\n")?;
    let engine = engine.display().to_string();
    let mut settings = Settings::default();
    (settings.engine, settings.engine_timeout) = (vec![engine.clone()], Duration::from_millis(100));
    let mut kinds = Kinds::default().from_source(Arc::new(External::new(settings)));
    let wanted = WantedKind::new("acme/disk:1", "sample", folder.path().to_owned());

    let errors = kinds.make(&KindRequest::new(vec![wanted], Vec::new()));

    let expected = format!("cannot run {engine}: it took longer than 100ms and was ended");
    assert_eq!(errors, [(RequestError::Machine(0), expected)]);
    Ok(())
}

#[test]
fn a_program_is_a_kind_as_good_as_any() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (kinds, name) = kinds(folder.path(), TEXT)?;

    Ok(Conformance::new(kinds).sample(sample(&name)).graphs(3).check()?)
}

#[test]
fn a_program_that_breaks_its_promises_is_found_out() -> Result<(), Box<dyn Error>> {
    for (right, wrong, found) in [
        ("write) printf '%s'", "write) : '%s'", "still not as declared"),
        ("check)\n", "check) echo >> \"$path.log\"\n", "check"),
        (r#"$planned, \"act"#, r#"{\"text\": \"x\"}, \"act"#, "text was foreseen to be"),
    ] {
        assert!(TEXT.contains(right), "{right}");
        let folder = tempfile::tempdir()?;
        let (kinds, name) = kinds(folder.path(), &TEXT.replace(right, wrong))?;

        let checked = Conformance::new(kinds).sample(sample(&name)).graphs(1).check();

        let violations = checked.err().map(|it| it.to_string()).unwrap_or_default();
        assert!(!violations.is_empty() && violations.contains(found), "{wrong}: {violations}");
    }
    Ok(())
}
