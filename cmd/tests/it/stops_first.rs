//! A program that must not see how a file changes.

use crate::machine::Machine;
use crate::world::TestResult;

/// A file, and a server that reads it. Before the file changes, the server is stopped.
const SITE: &str = r#"resources:
  data:
    type: file
    config: {path: "@/data", content: "old\n", stop_first: [sh, "@/stop"]}
  server:
    type: exec
    dependencies: {data: {resource: data, on_change: notify}}
    config: {command: [sh, "@/start"], unless: [test, -e, "@/running"]}
"#;

const REMOVED: &str = r#"resources:
  data: {type: file, config: {path: "@/data", state: absent, stop_first: [sh, "@/stop"]}}
"#;

/// A server that writes the content of the file to a second file, once when it starts and once when
/// it gets TERM.
const SERVER: &str = "\
trap 'cat @/data >> @/seen; rm @/running; kill $!; echo > @/ended; exit' TERM
cat @/data >> @/seen
echo $$ > @/running
echo > @/begun
sleep 1000 &
wait
";

#[tokio::test]
async fn a_program_that_is_stopped_first_never_sees_a_file_change() -> TestResult {
    for command in [&["apply", "site.yaml"][..], &["run", "site.yaml", "--until-settled"]] {
        let machine = Machine::new(SITE)?;
        machine.fifo("begun")?;
        machine.fifo("ended")?;
        machine.write("server", SERVER)?;
        machine.write("start", "sh @/server > @/output 2>&1 &\nread line < @/begun\n")?;
        machine.write("stop", "kill $(cat @/running) && read line < @/ended\n")?;

        for site in [SITE, &SITE.replace("old", "new"), REMOVED] {
            machine.write("site.yaml", site)?;
            let ran = machine.run(command).await?;
            assert_eq!(ran.code, Some(0), "{command:?}: {ran:?} {:?}", machine.read("output"));
        }

        // Each server has told its beginning and its end.
        let seen = machine.read("seen");
        assert_eq!(seen.as_deref(), Some("old\nold\nnew\nnew\n"), "{command:?}");
        assert_eq!(machine.read("data"), None, "{command:?}");
    }
    Ok(())
}
