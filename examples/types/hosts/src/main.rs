//! A type of resources: keeps the addresses of names in a hosts file, and leaves the other names alone.

mod hosts;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs, thread};

use serde::Deserialize;
use serde_json::{Value, json};

use hosts::Hosts;

/// What the type is told, as far as it wants to know.
#[derive(Deserialize)]
struct Input {
    /// Not there when it is asked how it works.
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    file: PathBuf,
    names: BTreeMap<String, IpAddr>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told that it cannot be told.
            #[expect(clippy::disallowed_methods, reason = "the agent reads it")]
            drop(writeln!(io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let Input { config } = serde_json::from_reader(io::stdin())?;
    let call = env::args().nth(1);
    match (call.as_deref(), config) {
        (None, _) => answer(&init())?,
        (Some("check"), Some(config)) => answer(&check(&config)?)?,
        (Some("write"), Some(Config { file, names })) => {
            let mut hosts = Hosts::read(&file)?;
            hosts.set(&names);
            hosts.write(&file)?;
        }
        (Some("watch"), Some(config)) => watch(&config)?,
        (Some(call), _) => return Err(format!("there is no call {call:?} of this input").into()),
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the agent reads it")]
fn answer(answer: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{answer}")
}

fn init() -> Value {
    json!({
        "protocol": 1,
        "summary": "keeps the addresses of names in a hosts file",
        "config_schema": {
            "required": ["file", "names"],
            "additionalProperties": false,
            "properties": {
                "file": {"type": "string", "pattern": "^/"},
                "names": {
                    "type": "object",
                    "propertyNames": {"pattern": "^[A-Za-z0-9.-]+$"},
                    "additionalProperties": {"type": "string", "pattern": "^[0-9A-Fa-f.:]+$"},
                },
            },
        },
        // Where a container finds the folder of the file.
        "plugs": {"names": {"path": "/names", "writable": true, "optional": true}},
        "calls": {"check": {"args": ["check"]}, "watch": {"args": ["watch"]}},
    })
}

fn check(Config { file, names }: &Config) -> Result<Value, Box<dyn Error>> {
    let hosts = Hosts::read(file)?;
    let now: BTreeMap<_, _> =
        names.keys().filter_map(|name| Some((name, hosts.get(name)?))).collect();
    let differing = names.iter().filter(|(name, address)| now.get(name) != Some(address));
    let differences: Vec<_> = differing
        .map(|(name, new)| {
            json!({"attribute": format!("names.{name}"), "old": now.get(name), "new": new})
        })
        .collect();
    Ok(match differences.is_empty() {
        true => json!({"status": "VALID", "state": {"names": names}}),
        false => json!({
            "status": "STALE",
            "staleState": {"names": now},
            "planned": {"names": names},
            "differences": differences,
            "actions": [{"name": "write", "args": ["write"]}],
        }),
    })
}

/// Writes a line whenever the file has changed: each has the resource looked at.
#[expect(
    clippy::disallowed_methods,
    reason = "the agent reads it, and there is no runtime to wait in"
)]
fn watch(Config { file, .. }: &Config) -> io::Result<()> {
    let changed = || fs::metadata(file).and_then(|metadata| metadata.modified()).ok();
    let mut seen = changed();
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = changed();
        if now != seen {
            seen = now;
            writeln!(io::stdout(), "{} has changed", file.display())?;
        }
    }
}
