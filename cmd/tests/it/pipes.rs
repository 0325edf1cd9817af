//! Manifests from standard input and other pipes.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::Stdio;

use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

use crate::agent::Agent;
use crate::external::program;
use crate::machine::{Machine, signal, within};
use crate::world::{Error, Ran, TestResult, ran};

/// A page whose content is in a file beside it, named by a relative path.
const SITE: &str = "resources:\n  page: {type: file, config: {path: '@/page', source: beside}}\n";

fn machine() -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    machine.write("beside", "right")?;
    Ok(machine)
}

/// Runs the program with a text on its standard input.
async fn fed(machine: &Machine, arguments: &[&str], text: &str) -> Result<Ran, Error> {
    let mut input = tempfile::tempfile()?;
    input.write_all(machine.text(text).as_bytes())?;
    input.rewind()?;
    // A pipe, which cannot be read twice as a file could be.
    let mut cat = std::process::Command::new("cat");
    let mut cat = cat.stdin(input).stdout(Stdio::piped()).spawn()?;
    let mut command = machine.program(arguments);
    command.stdin(cat.stdout.take().ok_or("no stdout")?);
    let ran = ran(command).await?;
    cat.wait()?;
    Ok(Ran { stderr: machine.generic(&ran.stderr), ..ran })
}

/// Opens a pipe for writing, which waits until the program has opened it.
pub(crate) async fn opened(machine: &Machine, name: &str) -> Result<File, Error> {
    let path = machine.path(name);
    let opening = spawn_blocking(move || File::options().write(true).open(path));
    Ok(within(opening).await???)
}

#[tokio::test]
async fn every_command_takes_a_manifest_from_standard_input() -> TestResult {
    for name in ["-", "/dev/stdin"] {
        let machine = machine()?;
        for arguments in [
            &["check", name][..],
            &["graph", name],
            &["plan", name],
            &["apply", name],
            &["run", name, "--until-settled"],
        ] {
            let ran = fed(&machine, arguments, SITE).await?;

            assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        }
        assert_eq!(machine.read("page").as_deref(), Some("right"));
    }
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_in_a_manifest_from_standard_input_is_said_with_its_place() -> TestResult {
    let machine = machine()?;

    let wrong = fed(&machine, &["check", "-"], "resources:\n  page: {type: fil}\n").await?;
    let large = fed(&machine, &["check", "-"], &"# too much\n".repeat(2 << 20)).await?;

    assert_eq!(wrong.code, Some(65), "{wrong:?}");
    assert!(wrong.stderr.contains("<stdin>:2:16: unknown type \"fil\""), "{wrong:?}");
    assert_eq!(large.code, Some(65), "{large:?}");
    assert!(large.stderr.contains("<stdin>: the file is larger than 16 MiB"), "{large:?}");
    Ok(())
}

#[tokio::test]
async fn a_pipe_that_is_named_is_read_to_its_end() -> TestResult {
    let machine = machine()?;
    std::fs::create_dir(machine.path("elsewhere"))?;
    machine.fifo("elsewhere/pipe")?;
    let child = machine.begin(&["apply", "elsewhere/pipe"])?;

    let mut pipe = opened(&machine, "elsewhere/pipe").await?;
    pipe.write_all(machine.text(SITE).as_bytes())?;
    drop(pipe);

    let ran = machine.ended(child).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Relative paths start at the working directory, not beside the pipe.
    assert_eq!(machine.read("page").as_deref(), Some("right"));
    Ok(())
}

#[tokio::test]
async fn a_plan_of_a_manifest_from_a_pipe_is_not_saved() -> TestResult {
    let machine = machine()?;

    let ran = fed(&machine, &["plan", "-", "-o", "plan"], SITE).await?;

    let expected = "crankcase: cannot save a plan of a manifest from a pipe: apply could not read it \
                    again\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(64), expected), "{ran:?}");
    assert!(!machine.path("plan").exists());
    Ok(())
}

#[tokio::test]
async fn sighup_leaves_a_manifest_from_a_pipe_as_it_is_and_says_so() -> TestResult {
    let machine = machine()?;
    machine.fifo("pipe")?;
    let starting = Agent::start_with(&machine, &["run", "pipe"]);
    let writing = async {
        let mut pipe = opened(&machine, "pipe").await?;
        Ok::<_, Error>(pipe.write_all(machine.text(SITE).as_bytes())?)
    };
    let (agent, written) = tokio::join!(starting, writing);
    let mut agent = agent?;
    written?;
    machine.until("page", |text| text == "right").await?;

    agent.signal(Signal::HUP)?;

    agent.until_logged(&["the manifest came from a pipe", "it stays as it is"]).await?;
    let report = machine.run(&["report", "--exit-status"]).await?;
    assert_eq!(report.code, Some(0), "{report:?}");
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_signal_while_a_manifest_is_loaded_ends_the_command_in_order() -> TestResult {
    for (command, code) in [("plan", 130), ("apply", 130), ("run", 0)] {
        let machine = machine()?;
        machine.fifo("pipe")?;
        let child = machine.begin(&[command, "pipe"])?;
        let pid = child.id().ok_or("it has ended")?.to_string();
        // The load waits for what is written, which never ends.
        let _pipe = opened(&machine, "pipe").await?;

        signal(&pid, Signal::TERM)?;

        let ran = machine.ended(child).await?;
        assert_eq!(ran.code, Some(code), "{command}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_nobody_reads_can_be_interrupted() -> TestResult {
    let resources = |config: &str| {
        let resource = |number| format!("  r{number}: {{type: print, config: {config}}}\n");
        format!("resources:\n{}", (0..300).map(resource).collect::<String>())
    };
    let machine = Machine::new(&resources("{message: hi}"))?;
    machine.write("wrong.yaml", &resources("{message: hi, mesage: hi}"))?;
    let schema: String = (0..600).map(|number| format!("\"a{number}\": true,")).collect();
    let init = format!(
        "#!/bin/sh\ncat << END\n{{\"config_schema\": {{\"properties\": {{{schema} \"b\": true}}}},
          \"state_action\": {{\"args\": [\"state\"]}}}}\nEND\n"
    );
    program(&machine, "it", &init)?;
    for command in [
        &["graph", "site.yaml", "--format", "json"][..],
        &["check", "wrong.yaml", "--output", "json"],
        &["types", "program:./it"],
        &["plan", "site.yaml"],
        &["apply", "site.yaml"],
    ] {
        let (mut child, mut stdout) = machine.begin_narrow(command)?;

        // It is written, and is more than the pipe holds.
        within(stdout.read_u8()).await??;
        signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
        let ended = within(child.wait()).await??;

        assert_eq!(ended.code(), Some(130), "{command:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_report_at_the_end_of_a_run_that_nobody_reads_can_be_interrupted() -> TestResult {
    // Nothing happens to them: the report is all that is printed.
    let resources = (0..100).map(|number| format!("  r{number}: {{type: noop}}\n"));
    let machine = Machine::new(&format!("resources:\n{}", resources.collect::<String>()))?;
    for output in ["json", "yaml"] {
        let command = ["run", "site.yaml", "--until-settled", "--output", output];
        let (mut child, mut stdout) = machine.begin_narrow(&command)?;

        // It is written, and is more than the pipe holds.
        within(stdout.read_u8()).await??;
        signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
        let ended = within(child.wait()).await??;

        assert_eq!(ended.code(), Some(130), "{output}");
    }
    Ok(())
}

/// A type that fills the stderr of the program that asks it, and takes its time when it is told to end.
const FILLS: &str = "#!/bin/sh
trap 'sleep 5; exit 1' TERM
dd if=/dev/zero of=/proc/$PPID/fd/2 bs=4096 count=1000 oflag=nonblock 2> /dev/null
echo $$ > up
sleep 1000 & wait
";

#[tokio::test]
async fn what_is_said_of_types_while_nobody_reads_holds_up_no_end() -> TestResult {
    let machine = Machine::new("resources: {r1: {type: \"program:./it\"}}\n")?;
    program(&machine, "it", FILLS)?;
    let mut child = machine.begin(&["check", "site.yaml"])?;
    machine.until("up", |text| text.ends_with('\n')).await?;

    signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
    let ended = within(child.wait()).await??;

    assert_eq!(ended.code(), Some(130));
    Ok(())
}

#[tokio::test]
async fn a_command_that_waits_for_a_pipe_can_be_interrupted() -> TestResult {
    for command in ["check", "graph", "plan", "apply"] {
        let machine = machine()?;
        machine.fifo("pipe.yaml")?;
        let child = machine.begin(&[command, "pipe.yaml"])?;
        let _writer = opened(&machine, "pipe.yaml").await?;

        signal(&child.id().ok_or("it has ended")?.to_string(), Signal::INT)?;
        let ended = machine.ended(child).await?;

        assert_eq!(ended.code, Some(130), "{command}: {ended:?}");
    }
    Ok(())
}
