//! What the README says that commands print.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::agent::Agent;
use crate::machine::Machine;
use crate::pages::{Step, steps};
use crate::world::{Error, TestResult, ran};

/// The folder of the site in the README.
const SITE: &str = "/tmp/site";

/// Puts the same in the place of each instant, and of how long something takes.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_instant =
            |word: &str| humantime::parse_rfc3339(word.strip_suffix(',').unwrap_or(word)).is_ok();
        let is_duration = |at: usize| {
            let has_unit = matches!(words.get(at + 1), Some(&("ms" | "s")));
            words[at].parse::<f64>().is_ok() && (has_unit || at > 0 && words[at - 1] == "took_ms:")
        };
        let word = |(at, word): (usize, &&str)| match () {
            () if is_instant(word) && word.ends_with(',') => "INSTANT,".to_owned(),
            () if is_instant(word) => "INSTANT".to_owned(),
            () if is_duration(at) => "DURATION".to_owned(),
            () => (*word).to_owned(),
        };
        words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ") + "\n"
    });
    lines.collect()
}

/// Runs the commands of the README, one after another.
struct Shell {
    machine: Machine,
    root: PathBuf,
    site: String,
    agent: Option<Agent>,
}

impl Shell {
    /// Runs a command, and returns what it prints.
    async fn run(&mut self, command: &str) -> Result<String, Error> {
        let command = command.replace(SITE, &self.site);
        let words: Vec<&str> = command.split(' ').collect();
        match &words[..] {
            ["crankcase", arguments @ .., "2>log", "&"] => {
                let mut agent = Agent::of(self.program(&[arguments, &["-v"]].concat())).await?;
                // Its watches are there.
                agent.until_logged(&["/agent/resources/style: transition: started"]).await?;
                self.agent = Some(agent);
                Ok(String::new())
            }
            ["chmod", mode, path] => {
                let mode = u32::from_str_radix(mode, 8)?;
                fs::set_permissions(path, Permissions::from_mode(mode))?;
                Ok(String::new())
            }
            ["grep", word, "log"] => Ok(self.logged(word).await? + "\n"),
            ["ln", "-sf", target, path] => {
                let new = format!("{path}.new");
                symlink(target, &new)?;
                fs::rename(new, path)?;
                self.logged("/agent/resources/style: a worker is degraded").await?;
                Ok(String::new())
            }
            ["kill", "%1"] => {
                let agent = self.agent.take().ok_or("no agent runs")?;
                agent.clean_kill(&self.machine).await?;
                Ok(String::new())
            }
            ["crankcase", arguments @ .., "|", "tail", "-n", last] => {
                let last: usize = last.parse()?;
                let printed = self.printed(arguments).await?;
                let lines: Vec<_> = printed.lines().collect();
                Ok(lines[lines.len().saturating_sub(last)..].join("\n") + "\n")
            }
            ["crankcase", arguments @ ..] => self.printed(arguments).await,
            _ => Err(format!("{command} is none of the test's").into()),
        }
    }

    /// Waits for a line of the agent's log.
    async fn logged(&mut self, part: &str) -> Result<String, Error> {
        self.agent.as_mut().ok_or("no agent runs")?.until_logged(&[part]).await
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut program = self.machine.program(arguments);
        // The site has scripts.
        program.current_dir(&self.root).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        program
    }

    async fn printed(&self, arguments: &[&str]) -> Result<String, Error> {
        let ran = ran(self.program(arguments)).await?;
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        Ok(ran.stdout)
    }
}

#[test]
fn nothing_but_instants_and_durations_is_the_same_whatever_it_is() {
    let line = |at: &str, why: &str, took: &str| {
        timeless(&format!("{at}  INFO page: repaired: by: write; why: {why}; took_ms: {took}\n"))
    };
    let (first, why) =
        ("2026-11-25T08:00:00.000000Z", "the fact /web/Templates/A/to/Z has changed");
    let one = line(first, why, "1.0");

    assert_eq!(line("2027-01-02T03:04:05.678901Z", why, "12.3"), one);
    for other in ["the fact /web/Templates/Another/Z has changed", "it was time to look"] {
        assert_ne!(line(first, other, "1.0"), one);
    }
    assert!(one.contains(&format!("why: {why}; ")), "{one}");
}

#[tokio::test]
async fn commands_print_what_the_readme_says() -> TestResult {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = fs::read_to_string(root.join("README.md"))?;
    let machine = Machine::new("")?;
    let site = machine.path("site").display().to_string();
    let mut shell = Shell { machine, root, site, agent: None };
    let steps = steps(&readme);
    assert!(steps.len() >= 12, "{steps:?}");
    for step in steps {
        let Step::Run(command, printed) = step else { return Err("the README has a file".into()) };
        let shown = shell.run(command).await?.replace(&shell.site, SITE);
        assert_eq!(timeless(&shown), timeless(&printed), "{command}");
    }
    Ok(())
}
