//! How often types are asked how they work, and how many at a time.

use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::external::program;
use crate::machine::Machine;
use crate::world::{Error, TestResult};

/// How many resources there are.
const COUNT: usize = 100;

/// A type each of whose calls notes how many others are at work, and waits for a line of `gate`.
const GATED: &str = r#"#!/bin/sh
call=${1-init}
mkdir -p at-work
mkdir at-work/$$
echo $call $(ls at-work | wc -l) >> calls
read -r line < gate
rmdir at-work/$$
case $call in
init) echo 'INIT' ;;
*) echo '{"status": "VALID", "state": {}}' ;;
esac
"#;

const V0: &str = r#"{"state_action": {"args": ["look"]}}"#;
const V1: &str =
    r#"{"protocol": 1, "depends_on_files": [], "calls": {"check": {"args": ["look"]}}}"#;

fn start(init: &str) -> Result<Machine, Error> {
    let resource = |number| format!("  r{number}: {{type: \"program:./it\"}}\n");
    let machine =
        Machine::new(&format!("resources:\n{}", (0..COUNT).map(resource).collect::<String>()))?;
    program(&machine, "it", &GATED.replace("INIT", init))?;
    machine.fifo("gate")?;
    // What types have said is kept where there is a state folder.
    fs::create_dir(machine.path("state"))?;
    Ok(machine)
}

/// Runs a command whose types are called so often, one after another, and returns how many calls were at
/// work at a time.
async fn at_work(
    machine: &Machine,
    command: &str,
    calls: &[(&str, usize)],
) -> Result<Vec<usize>, Error> {
    // Open for reading too, so that no line is lost while nobody else reads.
    let mut gate = OpenOptions::new().read(true).write(true).open(machine.path("gate"))?;
    let child = machine.begin(&[command, "site.yaml"])?;
    let (mut before, mut most) = (0, Vec::new());
    for (call, count) in calls {
        // All that may be at work wait at the gate.
        machine.lines("calls", before + (*count).min(16)).await?;
        gate.write_all("\n".repeat(*count).as_bytes())?;
        let noted = machine.lines("calls", before + *count).await?;
        let noted: Vec<_> = noted[before..].iter().map(|line| line.split_whitespace()).collect();
        let mut at_work = Vec::new();
        for mut words in noted {
            assert_eq!(words.next(), Some(*call));
            at_work.push(words.next().ok_or("there is no number")?.parse::<usize>()?);
        }
        before += count;
        most.push(at_work.into_iter().max().unwrap_or_default());
    }
    let ended = machine.ended(child).await?;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let all = machine.read("calls").unwrap_or_default();
    assert_eq!(all.lines().count(), before, "{all}");
    let _none = fs::remove_file(machine.path("calls"));
    Ok(most)
}

#[tokio::test]
async fn a_type_of_protocol_0_is_asked_for_each_resource_by_each_process() -> TestResult {
    let machine = start(V0)?;

    let first = at_work(&machine, "check", &[("init", 1), ("init", COUNT - 1)]).await?;
    let again = at_work(&machine, "check", &[("init", 1), ("init", COUNT - 1)]).await?;

    assert_eq!((first, again), (vec![1, 16], vec![1, 16]));
    Ok(())
}

#[tokio::test]
async fn a_type_of_protocol_1_is_asked_once_and_looks_at_16_at_a_time() -> TestResult {
    let machine = start(V1)?;

    let first = at_work(&machine, "plan", &[("init", 1), ("look", COUNT)]).await?;
    let known = at_work(&machine, "plan", &[("look", COUNT)]).await?;

    assert_eq!((first, known), (vec![1, 16], vec![16]));
    Ok(())
}
