//! The page on how a type is written, to the letter.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::machine::within;
use crate::pages::{Step, steps};
use crate::world::{Error, TestResult};

/// The home of the page's reader.
const HOME: &str = "/home/ada";

/// The heading from which on the page needs a container engine.
const IMAGES: &str = "## In an image";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Does what a part of the page says.
pub(crate) async fn follow(page: &str) -> TestResult {
    let home = tempfile::tempdir()?;
    let home = home.path().to_str().ok_or("it is no text")?;
    let folder = Path::new(home).join("types");
    fs::create_dir(&folder)?;
    // Root has one state folder for all, which is none of a test's.
    let program = Path::new(home).join("bin/crankcase");
    let state = Path::new(home).join("state");
    let (bin, state) = (env!("CARGO_BIN_EXE_crankcase"), state.display());
    fs::create_dir(Path::new(home).join("bin"))?;
    fs::write(&program, format!("#!/bin/sh\nexec '{bin}' --state-dir '{state}' \"$@\"\n"))?;
    fs::set_permissions(program, Permissions::from_mode(0o755))?;
    // What the page takes from the repository.
    symlink(root().join("examples"), folder.join("examples"))?;
    for step in steps(page) {
        match step {
            Step::Write(name, text) => fs::write(folder.join(name), text.replace(HOME, home))?,
            Step::Run(command, printed) => {
                let shown = run(&command.replace(HOME, home), (home, &folder)).await?;
                // What an engine says while it makes an image is its own business.
                let shown = if command.contains("build-image") { String::new() } else { shown };
                // How far a command has come is said only on a slow machine.
                let is_progress = |line: &&str| {
                    let is_counted = line.starts_with("apply: ") && line.contains(" done");
                    is_counted || line.starts_with("load: waits for ")
                };
                let shown: String =
                    shown.split_inclusive('\n').filter(|line| !is_progress(line)).collect();
                assert_eq!(shown.replace(home, HOME), printed, "{command}");
            }
        }
    }
    Ok(())
}

async fn run(command: &str, (home, folder): (&str, &Path)) -> Result<String, Error> {
    let path = std::env::var("PATH")?;
    let own = std::env::var("HOME")?;
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(folder).kill_on_drop(true);
    shell
        .env("HOME", home)
        .env("USER", "ada")
        .env("PATH", format!("{home}/bin:{path}"))
        .stdin(Stdio::null());
    // A toolchain lies in the home of who runs the tests.
    for (name, folder) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let folder = std::env::var(name).unwrap_or_else(|_| format!("{own}/{folder}"));
        shell.env(name, folder);
    }
    Ok(String::from_utf8(within(shell.output()).await??.stdout)?)
}

/// Returns the parts of the page, without and with containers.
pub(crate) fn page() -> Result<(String, String), Error> {
    let page = fs::read_to_string(root().join("docs/write-a-type.md"))?;
    let (first, images) = page.split_once(IMAGES).ok_or("the page has no images")?;
    Ok((first.to_owned(), images.to_owned()))
}

#[tokio::test]
async fn a_type_is_written_as_the_page_says() -> TestResult {
    let (page, _) = page()?;
    let example = fs::read_to_string(root().join("examples/types/line"))?;

    let is_example =
        |step: &Step<'_>| matches!(step, Step::Write("line", text) if *text == example);
    assert!(steps(&page).iter().any(is_example), "the page has another line than the example");
    follow(&page).await
}
