//! Types that are containers of podman.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use tokio::process::Command;

use super::endings::{HANGING, HANGS, WATCHED, WATCHES};
use super::{SITE, busybox, old};
use crate::agent::Agent;
use crate::machine::{Machine, within};
use crate::world::{Error, Ran, TestResult};

/// Podman with all that it keeps in a folder, as it runs without a service manager.
struct Podman {
    machine: Machine,
    engine: String,
}

impl Podman {
    /// Imports an image whose entrypoint is this script.
    async fn import(script: &str) -> Result<Self, Error> {
        let machine = Machine::new(&SITE.replace("IMAGE", "podman:acme/disk:1"))?;
        let root = machine.path("rootfs/bin");
        fs::create_dir_all(&root)?;
        fs::create_dir(machine.path("disks"))?;
        fs::copy(busybox()?, root.join("busybox"))?;
        for name in ["cat", "cut", "head", "mkdir", "sed", "sh", "sleep"] {
            symlink("busybox", root.join(name))?;
        }
        fs::write(root.join("type"), script)?;
        fs::set_permissions(root.join("type"), Permissions::from_mode(0o755))?;
        let (tar, folder) = (machine.path("image.tar"), machine.path("rootfs"));
        let packed =
            Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(folder).arg(".").status();
        assert!(within(packed).await??.success());
        let engine = "podman --root @/podman --runroot @/run --tmpdir @/tmp --runtime runc \
                      --cgroup-manager cgroupfs --events-backend none --storage-driver vfs";
        let podman = Self { engine: machine.text(engine), machine };
        let tar = tar.display().to_string();
        let entrypoint = "ENTRYPOINT [\"/bin/type\"]";
        podman.ask(&["import", "--quiet", "--change", entrypoint, &tar, "acme/disk:1"]).await?;
        Ok(podman)
    }

    /// Asks the engine itself.
    async fn ask(&self, words: &[&str]) -> Result<String, Error> {
        let mut engine = self.engine.split(' ');
        let mut command = Command::new(engine.next().unwrap_or_default());
        let output = within(command.args(engine).args(words).output()).await??;
        assert!(output.status.success(), "{words:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the words of a command.
    fn words<'a>(&'a self, command: &'a str) -> [&'a str; 8] {
        // Where the limits of a machine cannot be raised, podman may not set its own.
        let limits = [
            "--engine-option=--ulimit=nofile=1024:1024",
            "--engine-option=--ulimit=nproc=1000:1000",
        ];
        let [nofile, nproc] = limits;
        [command, "site.yaml", "--network", "none", "--engine", &self.engine, nofile, nproc]
    }

    async fn apply(&self) -> Result<Ran, Error> {
        self.machine.run(&self.words("apply")).await
    }
}

#[tokio::test]
async fn podman_runs_a_type_as_docker_does() -> TestResult {
    let podman = Podman::import(&old()).await?;

    let applied = podman.apply().await?;
    let again = podman.apply().await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(applied.stdout.contains("      | writes 200gb\n"), "{applied:?}");
    assert_eq!(again.stdout, "apply: 0 changed, 1 unchanged\n", "{again:?}");
    assert_eq!(podman.machine.read("disks/data").as_deref(), Some("200gb"));
    assert_eq!(podman.ask(&["ps", "--all", "--quiet"]).await?, "");
    Ok(())
}

#[tokio::test]
async fn a_container_of_podman_ends_with_its_call() -> TestResult {
    let podman = Podman::import(HANGS).await?;
    podman.machine.write("site.yaml", &HANGING.replace("IMAGE", "podman:acme/disk:1"))?;

    let applied = podman.apply().await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert_eq!(podman.machine.read("disks/up").as_deref(), Some("up\n"), "{applied:?}");
    assert_eq!(podman.ask(&["ps", "--all", "--quiet"]).await?, "");
    Ok(())
}

#[tokio::test]
async fn an_agent_that_ends_leaves_no_container_of_podman() -> TestResult {
    let podman = Podman::import(WATCHES).await?;
    podman.machine.write(
        "site.yaml",
        &podman.machine.text(&WATCHED.replace("IMAGE", "podman:acme/disk:1")),
    )?;
    let agent = Agent::start_with(&podman.machine, &podman.words("run")).await?;
    podman.machine.until("disks/up", |text| text == "up\n").await?;
    let pid = podman.ask(&["inspect", "--latest", "--format", "{{.State.Pid}}"]).await?;

    agent.clean_kill(&podman.machine).await?;

    assert!(!fs::exists(format!("/proc/{}", pid.trim()))?, "{pid}");
    assert_eq!(podman.ask(&["ps", "--all", "--quiet"]).await?, "");
    Ok(())
}
