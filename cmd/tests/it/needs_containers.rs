//! Types that are containers, on a real engine, by protocol 0.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use tokio::process::Command;

use crate::external::DISK;
use crate::machine::{Machine, within};
use crate::world::{Error, TestResult};
use crate::write_a_type;

mod endings;
mod podman;

/// A manifest whose disk lies in a plug, so that it outlives its containers.
const SITE: &str = r#"plugs: {disks: {path: "@/disks"}}
resources:
  data: {type: "IMAGE", config: {path: "/disks/data", size: "200gb"}}
"#;

/// A type that was written for Deployster: it knows nothing of this program.
fn old() -> String {
    let plug = r#"{"config_schema": {"type": "object", "required""#;
    let asks = r#"{"plugs": {"disks": {"container_path": "/disks"}}, "config_schema": {"type": "object", "required""#;
    // Its workspace is read only, so what it has to say it notes on its disk.
    let notes = DISK
        .replace(">> calls", ">> /disks/calls")
        .replace("> \"told.$call\"", "> \"/disks/told.$call\"");
    let at_start = "input=$(cat)\nif [ ! -d /disks ]; then mkdir /disks; fi\n";
    notes.replace(plug, asks).replace("input=$(cat)\n", at_start)
}

async fn docker(words: &[&str]) -> Result<String, Error> {
    let output = within(Command::new("docker").args(words).output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => {
            Err(format!("docker {words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }
}

fn busybox() -> Result<&'static str, Error> {
    let mut places = ["/bin/busybox", "/usr/bin/busybox"].into_iter();
    Ok(places.find(|it| fs::exists(it).unwrap_or(false)).ok_or("there is no busybox")?)
}

/// A machine with an image of its own.
struct Ship {
    machine: Machine,
    image: String,
}

impl Ship {
    /// Builds an image whose entrypoint is this script.
    async fn build(script: &str) -> Result<Self, Error> {
        let machine = Machine::new("{}")?;
        let name = machine.path("x").display().to_string().to_lowercase();
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let image = format!("acme/{name}:1");
        let context = machine.path("context");
        fs::create_dir_all(&context)?;
        fs::create_dir(machine.path("disks"))?;
        fs::copy(busybox()?, context.join("busybox"))?;
        fs::write(context.join("type"), script)?;
        fs::set_permissions(context.join("type"), Permissions::from_mode(0o755))?;
        let file = "FROM scratch\nCOPY busybox /bin/busybox\n\
                    RUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\nCOPY type /type\nENTRYPOINT [\"/type\"]\n";
        fs::write(context.join("Dockerfile"), file)?;
        let context = context.display().to_string();
        docker(&["build", "--quiet", "--network", "none", "--tag", &image, &context]).await?;
        fs::remove_dir_all(machine.path("context"))?;
        let ship = Self { machine, image };
        ship.declare(SITE)?;
        Ok(ship)
    }

    /// Writes a manifest, with the image in the place of `IMAGE`.
    fn declare(&self, site: &str) -> TestResult {
        let site = self.machine.text(site).replace("IMAGE", &self.image);
        self.machine.write("site.yaml", &site)
    }

    fn calls(&self) -> String {
        let calls = self.machine.read("disks/calls").unwrap_or_default();
        calls
            .lines()
            .map(|call| call.split(' ').next().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the containers that there are of the machine's agents.
    async fn containers(&self) -> Result<String, Error> {
        let label = format!("label=crankcase.agent={}", self.machine.path("state").display());
        docker(&["ps", "--all", "--quiet", "--filter", &label]).await
    }
}

#[tokio::test]
async fn an_image_that_was_written_for_deployster_works_unchanged() -> TestResult {
    let ship = Ship::build(&old()).await?;
    let Ship { machine, image } = &ship;
    let network = ["--network", "none"];
    let run = async |words: &[&str]| machine.run(&[words, &network].concat()).await;

    let check = run(&["check", "site.yaml"]).await?;
    let plan = run(&["plan", "site.yaml"]).await?;
    let applied = run(&["apply", "site.yaml"]).await?;
    let again = run(&["apply", "site.yaml"]).await?;
    // A relative state folder is no name of a volume.
    let relative = Command::new(env!("CARGO_BIN_EXE_crankcase"))
        .args(["--state-dir", "state", "apply", "site.yaml", "--network", "none"])
        .current_dir(machine.path(""))
        .output();
    let relative = within(relative).await??;

    assert_eq!(String::from_utf8(relative.stdout)?, "apply: 0 changed, 1 unchanged\n");
    assert_eq!(check.code, Some(0), "{check:?}");
    let expected = format!(
        "~ data ({image}) would change\n    state: \"absent\" -> \"exists\"\n    1. create "
    );
    assert!(plan.stdout.starts_with(&expected), "{plan:?}");
    assert!(applied.stdout.contains("\n      | writes 200gb\n"), "{applied:?}");
    assert_eq!(again.stdout, "apply: 0 changed, 1 unchanged\n", "{again:?}");
    assert_eq!(machine.read("disks/data").as_deref(), Some("200gb"));
    let told: Value = serde_json::from_str(&machine.read("disks/told.state").ok_or("nothing")?)?;
    assert_eq!((&told["type"], &told["version"]), (&Value::from(image.as_str()), &"18.0.0".into()));
    assert_eq!(told["workspace"], machine.path("").display().to_string().trim_end_matches('/'));
    assert_eq!(ship.calls(), "state state write state state state");
    assert_eq!(ship.containers().await?, "");
    Ok(())
}

#[tokio::test]
async fn a_container_works_in_its_workspace_and_writes_only_where_it_may() -> TestResult {
    let script = r#"#!/bin/sh
cat >/dev/null
try() { touch "$1/x" 2>/dev/null && echo rw || echo ro; }
case ${1-init} in
init) echo '{"plugs": {"a": {"container_path": "/a"}, "b": {"container_path": "/b", "writable": false},
                       "c": {"container_path": "/c", "optional": true}}, "state_action": {"args": ["state"]}}' ;;
state) printf '{"status": "VALID", "state": {"here": "%s", "workspace": "%s", "conf": "%s", "a": "%s", "b": "%s", "c": "%s"}}' \
        "$(cat it)" "$(try .)" "$(try CONF)" "$(try /a)" "$(try /b)" "$(try /c)" ;;
esac
"#;
    let folder = tempfile::tempdir()?;
    let conf = folder.path().display().to_string();
    let ship = Ship::build(&script.replace("CONF", &conf)).await?;
    let machine = &ship.machine;
    machine.write("it", "here")?;
    fs::create_dir(machine.path("b"))?;
    ship.declare(
        r#"plugs: {a: {path: "disks"}, b: {path: "@/b"}, c: {path: "@/b", read_only: true}}
resources:
  r: {type: "IMAGE"}
  told: {type: file, dependencies: [r], config: {path: "@/told", content: "{{ r.state | tojson }}"}}
"#,
    )?;

    let words = ["apply", "site.yaml", "--network", "none", "--conf", &conf];
    let applied = machine.run(&words).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(
        applied
            .stderr
            .contains("Optional plug 'c' is readonly, but requested with write access (denied)"),
        "{applied:?}"
    );
    let told: Value = serde_json::from_str(&machine.read("told").ok_or("nothing was told")?)?;
    let expected = serde_json::json!({"here": "here", "workspace": "ro", "conf": "ro", "a": "rw", "b": "ro", "c": "ro"});
    assert_eq!(told, expected);
    Ok(())
}

#[tokio::test]
async fn an_action_may_be_a_call_of_another_image_by_its_digest() -> TestResult {
    let other = Ship::build("#!/bin/sh\necho the other one\n").await?;
    let id = docker(&["image", "inspect", "--format", "{{.Id}}", &other.image]).await?;
    let script = format!(
        "#!/bin/sh\ncase ${{1-init}} in\ninit) echo '{{\"state_action\": {{\"args\": [\"state\"]}}}}' ;;\n\
         state) echo '{{\"status\": \"STALE\", \"actions\": [{{\"name\": \"tell\", \"image\": \"{}\"}}, \
         {{\"name\": \"echo\", \"entrypoint\": \"/bin/echo\", \"args\": [\"by its entrypoint\"]}}]}}' ;;\nesac\n",
        other.image
    );
    let ship = Ship::build(&script).await?;
    ship.declare("resources: {r: {type: \"docker:IMAGE\"}}\n")?;

    let applied = ship.machine.run(&["apply", "site.yaml", "--network", "none"]).await?;

    assert!(id.starts_with("sha256:"), "{id}");
    for line in ["      | the other one\n", "      | by its entrypoint\n"] {
        assert!(applied.stdout.contains(line), "{applied:?}");
    }
    assert!(
        applied.stdout.contains("it is still not as declared after its actions"),
        "{applied:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_container_finds_its_folder_and_no_other_one_of_the_agent() -> TestResult {
    let script = r#"#!/bin/sh
cat >/dev/null
case ${1-init} in
init) echo '{"state_action": {"args": ["state"]}}' ;;
state) echo x > "$CRANKCASE_FOLDER/x"
  printf '{"status": "VALID", "state": {"folder": "%s", "state": "%s"}}' "$CRANKCASE_FOLDER" "$(ls STATE)" ;;
esac
"#;
    let machine = Machine::new("{}")?;
    let state = machine.path("state").display().to_string();
    let ship = Ship::build(&script.replace("STATE", &state)).await?;
    let site = r#"resources:
  r: {type: "IMAGE"}
  told: {type: file, dependencies: [r], config: {path: "@/told", content: "{{ r.state | tojson }}"}}
"#;
    machine.write("site.yaml", &machine.text(site).replace("IMAGE", &ship.image))?;

    let applied = machine.run(&["apply", "site.yaml", "--network", "none"]).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    let told: Value = serde_json::from_str(&machine.read("told").ok_or("nothing was told")?)?;
    let folder = told["folder"].as_str().ok_or("no folder")?.to_owned();
    assert_eq!(fs::read_to_string(format!("{folder}/x"))?, "x\n");
    // Beside history, records and locks, there is only the way to it.
    let shown = told["state"].as_str().ok_or("no state")?;
    assert!(folder.starts_with(&format!("{state}/{shown}")), "{told}");
    Ok(())
}

#[tokio::test]
async fn an_image_is_pulled_when_it_is_missing_unless_none_is_to_be() -> TestResult {
    let registry = std::env::var("CRANKCASE_TEST_REGISTRY")?;
    let ship = Ship::build(&old()).await?;
    let name = format!("{registry}/{}", ship.image);
    docker(&["tag", &ship.image, &name]).await?;
    docker(&["push", "--quiet", &name]).await?;
    let digest =
        docker(&["image", "inspect", "--format", "{{index .RepoDigests 0}}", &name]).await?;
    docker(&["image", "rm", "--force", &name, &ship.image]).await?;
    let machine = &ship.machine;
    // Not by the machine, which takes each @ for its folder.
    fs::write(machine.path("site.yaml"), machine.text(SITE).replace("IMAGE", digest.trim()))?;
    let run = async |pull: &str| {
        machine.run(&["apply", "site.yaml", "--network", "none", "--pull", pull]).await
    };

    let never = run("never").await?;
    let missing = run("missing").await?;
    let then = run("never").await?;
    machine.write(
        "site.yaml",
        &machine.text(SITE).replace("IMAGE", &format!("{registry}/acme/none:1")),
    )?;
    let none = run("always").await?;

    assert_eq!(never.code, Some(1), "{never:?}");
    assert!(never.stderr.contains("and none is to be pulled"), "{never:?}");
    assert_eq!((missing.code, then.code), (Some(0), Some(0)), "{missing:?} {then:?}");
    assert!(digest.contains("@sha256:"), "{digest}");
    assert!(none.stderr.contains(&format!("cannot pull {registry}/acme/none:1: ")), "{none:?}");
    Ok(())
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_named() -> TestResult {
    let ship = Ship::build(&old()).await?;
    let words = ["plan", "site.yaml", "--engine"];

    let missing = ship.machine.run(&[&words[..], &["/no/such/engine"]].concat()).await?;
    let down =
        ship.machine.run(&[&words[..], &["docker --host unix:///no/such/socket"]].concat()).await?;

    assert_eq!((missing.code, down.code), (Some(1), Some(1)), "{missing:?} {down:?}");
    assert!(missing.stderr.contains("cannot run /no/such/engine: "), "{missing:?}");
    let option = ["plan", "site.yaml", "--engine-option=--no-such-option"];
    let refused = ship.machine.run(&option).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("exit code #125!"), "{refused:?}");
    assert!(down.stderr.contains("docker does not say what acme/"), "{down:?}");
    Ok(())
}

#[tokio::test]
async fn a_type_is_put_into_an_image_as_the_page_says() -> TestResult {
    let (_, images) = write_a_type::page()?;

    write_a_type::follow(&images).await
}
