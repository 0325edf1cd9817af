//! Secrets, which are in the files and environments that they are for, and nowhere else.

use std::fs;
use std::path::Path;

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::{Error, Ran, TestResult, ran};

/// What must be in nothing that is written for people or kept.
const PLANTED: [&str; 8] = [
    "hunter2-of-a-file",
    "HUNTER2-OF-A-FILE",
    "second line of it",
    "token-of-the-environment",
    "of-a-credential",
    "quoted \"literal\" one",
    "given-on-the-line",
    "old-one-on-the-disk",
];

const SITE: &str = r#"vars:
  password: {secret: {file: password}}
  token: {secret: {env: TOKEN}}
  key: {secret: {credential: key}}
  db: {host: db.example, password: {sensitive: 'quoted "literal" one'}}
  pin: {sensitive: "none"}
  loud: "{{ vars.password | upper }}"
  users: [ada, brian]
resources:
  plain:
    type: file
    config: {path: "@/plain", content: "{{ vars.db.host }}\n"}
  conf:
    type: file
    config: {path: "@/conf", content: "user=ada\npassword={{ vars.password }}\nloud={{ loud }}\n", mode: "0600"}
  rendered:
    type: file
    config: {path: "@/rendered", template: rendered.j2, mode: "0600"}
  says:
    type: exec
    dependencies: [conf]
    config:
      command: [sh, -c, 'cat @/conf; echo "$PIN"; echo "$TOKEN" >&2']
      onlyif: [test, -e, "@/conf"]
      env: {TOKEN: "{{ vars.token }}", PIN: "{{ vars.pin }}"}
  fails:
    type: exec
    config:
      command: [sh, -c, 'echo "$KEY"; echo "no $KEY, $(cat @/rendered)" >&2; exit 3']
      env: {KEY: "{{ vars.key }}"}
    dependencies: [rendered]
  wrong:
    type: file
    dependencies: [plain]
    config: {path: "@/wrong", content: x, mode: "{{ vars.token if plain.state else '' }}"}
  prints:
    type: print
    config: {message: "the password is {{ vars.db.password }}, {{ vars.pin }}"}
  server:
    type: process
    config:
      keep: false
      command: [sh, -c, 'echo "up with $KEY"; sleep 1; echo "down with $KEY" >&2; exit 4']
      env: {KEY: "{{ vars.key }}"}
"#;

const TEMPLATE: &str = "{% set all = [vars.key, vars.token] %}{% for it in all %}{{ it[:40] }};\
                        {% endfor %}\n{{ vars.db.password }}\n";

fn machine() -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    machine.write("password", "hunter2-of-a-file\nsecond line of it\n")?;
    fs::create_dir(machine.path("credentials"))?;
    machine.write("credentials/key", "of-a-credential")?;
    machine.write("rendered.j2", TEMPLATE)?;
    machine.write("rendered", "old-one-on-the-disk\n")?;
    machine.write("conf", "password=old-one-on-the-disk\n")?;
    Ok(machine)
}

/// Runs the program with the secrets of its environment.
async fn told(machine: &Machine, arguments: &[&str]) -> Result<Ran, Error> {
    let mut program = machine.program(arguments);
    program.env("TOKEN", "token-of-the-environment");
    program.env("CREDENTIALS_DIRECTORY", machine.path("credentials"));
    ran(program).await
}

/// Fails if a text has a secret in it.
#[track_caller]
fn shows_none(what: &str, text: &str) {
    for secret in PLANTED {
        let escaped = secret.replace('"', "\\\"");
        let is_shown = text.contains(secret) || text.contains(&escaped);
        assert!(!is_shown, "{what} shows {secret}:\n{text}");
    }
}

/// Fails if a file in a folder has a secret in it.
fn keeps_none(folder: &Path) -> TestResult {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            keeps_none(&path)?;
        } else if found.is_file() {
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            shows_none(&path.display().to_string(), &text);
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_secret_is_in_anything_that_plan_and_apply_write() -> TestResult {
    let machine = machine()?;
    let var = ["--var", "pin=given-on-the-line"];
    for arguments in [
        &["check", "site.yaml"][..],
        &["graph", "site.yaml"],
        &["plan", "site.yaml"],
        &["plan", "site.yaml", "--output", "json"],
        &["plan", "site.yaml", "-o", "plan"],
        &["plan", "site.yaml", var[0], var[1], "-vv"],
        &["apply", "site.yaml", var[0], var[1], "--output", "json"],
        &["apply", "site.yaml", var[0], var[1], "-vv", "--log-format", "json"],
    ] {
        let ran = told(&machine, arguments).await?;
        shows_none(&format!("{arguments:?}"), &format!("{}{}", ran.stdout, ran.stderr));
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
    }
    shows_none("the saved plan", &machine.read("plan").ok_or("there is none")?);
    keeps_none(&machine.path("state"))?;

    let conf = machine.read("conf").ok_or("it was not written")?;
    let loud = "loud=HUNTER2-OF-A-FILE\nSECOND LINE OF IT\n";
    assert_eq!(conf, format!("user=ada\npassword=hunter2-of-a-file\nsecond line of it\n{loud}"));
    let rendered = "of-a-credential;token-of-the-environment;\nquoted \"literal\" one\n";
    assert_eq!(machine.read("rendered").as_deref(), Some(rendered));
    Ok(())
}

#[tokio::test]
async fn a_plan_shows_what_is_no_secret_and_says_where_one_is() -> TestResult {
    let machine = machine()?;

    let ran = told(&machine, &["plan", "site.yaml"]).await?;

    for shown in [
        "+db.example",
        "content: \"(sensitive)\" -> \"(sensitive)\"",
        "print message=\"(sensitive)\"",
    ] {
        assert!(ran.stdout.contains(shown), "{shown}: {}", ran.stdout);
    }
    assert!(ran.stdout.contains("mode: \"0644\" -> \"0600\""), "{}", ran.stdout);
    Ok(())
}

#[tokio::test]
async fn no_secret_is_in_anything_that_an_agent_writes() -> TestResult {
    let machine = machine()?;
    let mut program = machine.program(&["run", "site.yaml", "-vv", "--log-format", "json"]);
    program.env("TOKEN", "token-of-the-environment");
    program.env("CREDENTIALS_DIRECTORY", machine.path("credentials"));
    let mut agent = Agent::of(program).await?;
    agent.until_logged(&["the command exited with code 3"]).await?;
    agent.until_logged(&["down with (sensitive)"]).await?;
    // A secret that is another one by now takes the old one's place, and is hidden like it.
    machine.write("password", "token-of-the-environment-2")?;
    agent.until_logged(&["\"changed\"", "\"resource\":\"conf\""]).await?;
    machine.write("conf", "hunter2-of-a-file")?;
    agent.until_logged(&["\"repaired\"", "\"resource\":\"conf\""]).await?;

    let mut said = String::new();
    for arguments in [
        &["report", "--all"][..],
        &["report", "--all", "--output", "json"],
        &["why", "/agent/resources/fails"],
        &["why", "/agent/resources/wrong"],
        &["why", "/agent/resources/server"],
        &["graph", "--live"],
    ] {
        let ran = machine.run(arguments).await?;
        said += &format!("{arguments:?} {ran:?}\n");
    }
    agent.signal(rustix::process::Signal::TERM)?;
    let log = agent.whole_log().await?;

    assert!(said.contains("no (sensitive), "), "{said}");
    shows_none("an answer", &said);
    shows_none("the log", &log);
    keeps_none(&machine.path("state"))
}

#[tokio::test]
async fn a_secret_is_on_no_command_line_unless_it_is_asked_for_there() -> TestResult {
    let site = |meta: &str| {
        format!(
            "vars: {{pin: {{sensitive: '12345'}}}}\nresources:\n  it: {{type: exec, {meta}config: \
             {{command: [sh, -c, 'echo $0 > @/out', '{{{{ pin }}}}'], creates: '@/out'}}}}\n"
        )
    };
    let machine = Machine::new(&site(""))?;
    let refused = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", &site("meta: {exposes: [vars.pin]}, "))?;
    let done = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", &site("meta: {exposes: [vars.pim]}, "))?;
    let misspelt = machine.run(&["check", "site.yaml"]).await?;

    assert_eq!(refused.code, Some(65), "{refused:?}");
    let error = "site.yaml:3:38: the secret vars.pin would be on a command line, which all users can \
                 read\n";
    assert!(refused.stderr.contains(error), "{}", refused.stderr);
    let help = "help: hand it over in \"env\" or in a file, or ask for it: meta: {exposes: \
                [vars.pin]}\n";
    assert!(refused.stderr.contains(help), "{}", refused.stderr);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("run command=(sensitive)") || done.stdout.contains("(sensitive)"));
    assert!(!done.stdout.contains("12345"), "{done:?}");
    assert_eq!(machine.read("out").as_deref(), Some("12345\n"));
    assert!(misspelt.stderr.contains("did you mean \"vars.pin\"?"), "{misspelt:?}");
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_takes_no_secret_from_the_command_line() -> TestResult {
    let machine = machine()?;

    // Also one that is too short to be hidden in other texts.
    let arguments = ["plan", "site.yaml", "--var", "pin=12", "-o", "plan"];
    let ran = told(&machine, &arguments).await?;

    let expected = "crankcase: cannot save a plan with the secret of --var pin in it; set it in a \
                    file, with --var-file\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(64), expected));
    assert!(!machine.path("plan").exists());
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_a_secret_has_changed() -> TestResult {
    let machine = machine()?;
    told(&machine, &["plan", "site.yaml", "-o", "plan"]).await?;
    machine.write("password", "another-one")?;

    let ran = told(&machine, &["apply", "plan"]).await?;

    assert_eq!(ran.code, Some(75), "{ran:?}");
    let expected = "crankcase: the plan is out of date: a secret, or what is known of the host, has \
                    changed; plan again\n";
    assert_eq!(ran.stderr, expected);
    Ok(())
}
