//! What the README says that commands print.

use std::fs;
use std::path::Path;

use crate::machine::Machine;
use crate::world::{TestResult, ran};

/// The folder of the site in the README.
const SITE: &str = "/tmp/site";

/// Returns the commands of the README's consoles, each with what it prints.
fn commands(readme: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    let mut is_console = false;
    for line in readme.lines() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => is_console = line == "```console",
            Some(command) if is_console => commands.push((command, String::new())),
            None if is_console => {
                if let Some((_, printed)) = commands.last_mut() {
                    printed.push_str(line);
                    printed.push('\n');
                }
            }
            _ => {}
        }
    }
    commands
}

#[tokio::test]
async fn commands_print_what_the_readme_says() -> TestResult {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = fs::read_to_string(root.join("README.md"))?;
    let machine = Machine::new("")?;
    let site = machine.path("site").display().to_string();
    let commands = commands(&readme);
    assert!(commands.len() >= 4, "{commands:?}");
    for (command, printed) in commands {
        let (command, last) = match command.split_once(" | tail -n ") {
            Some((command, last)) => (command, last.parse()?),
            None => (command, usize::MAX),
        };
        let command = command.strip_prefix("crankcase ").ok_or("another program")?;
        let arguments: Vec<_> = command.split(' ').map(|word| word.replace(SITE, &site)).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut program = machine.program(&arguments);
        // The site has scripts.
        program.current_dir(&root).env("PATH", "/usr/local/bin:/usr/bin:/bin");

        let ran = ran(program).await?;

        let lines: Vec<_> = ran.stdout.lines().collect();
        let shown = lines[lines.len().saturating_sub(last)..].join("\n") + "\n";
        assert_eq!(
            (ran.code, shown.replace(&site, SITE)),
            (Some(0), printed),
            "{command}: {ran:?}"
        );
    }
    Ok(())
}
