//! Plans that are saved, and carried out as they were seen or not at all.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::world::{Ran, TestResult};

const SITE: &str = r#"vars: {text: one}
resources:
  page: {type: file, config: {path: "@/page", content: "{{ text }}", mode: "0644"}}
  other: {type: file, config: {path: "@/other", content: "as is", mode: "0644"}}
"#;

async fn saved() -> Result<Machine, crate::world::Error> {
    let machine = Machine::new(SITE)?;
    machine.write("other", "as is")?;
    let ran = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(machine)
}

fn is_refused(machine: &Machine, ran: &Ran) {
    let expected = "crankcase: the plan is out of date: the manifest or what was looked at has \
                    changed; plan again\n";
    assert_eq!((ran.code, &*ran.stdout), (Some(75), ""));
    assert!(ran.stderr.ends_with(expected), "{ran:?}");
    assert!(!machine.path("page").exists(), "something was done");
}

#[tokio::test]
async fn a_saved_plan_is_carried_out_as_it_was_seen() -> TestResult {
    let machine = saved().await?;
    let mode = fs::metadata(machine.path("plan"))?.permissions().mode() & 0o777;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert_eq!(mode, 0o600, "others can read what a plan shows");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("apply: 1 changed, 1 unchanged\n"), "{ran:?}");
    assert_eq!(machine.read("page").as_deref(), Some("one"));
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_remembers_the_variables_and_where_its_manifest_is() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.write("vars.yaml", "text: of a file\n")?;
    let arguments =
        ["plan", "site.yaml", "--var-file", "vars.yaml", "--var", "text=two", "-o", "plan"];
    machine.run(&arguments).await?;
    fs::create_dir(machine.path("elsewhere"))?;
    let mut apply = machine.program(&["apply", "../plan"]);
    apply.current_dir(machine.path("elsewhere"));

    let ran = crate::world::ran(apply).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(machine.read("page").as_deref(), Some("two"));
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_the_manifest_has_changed_in_what_no_plan_shows() -> TestResult
{
    let site = |env: &str, mode: &str| {
        format!(
            "resources:\n  first: {{type: file, config: {{path: '@/first', content: one}}}}\n  page: \
             {{type: file, dependencies: [first], config: {{path: '@/page', content: '{{{{ \
             deps.first.state.sha256 }}}}', mode: '{mode}'}}}}\n  run: {{type: exec, config: {{command: \
             [/bin/true], creates: '@/made', env: {{A: {env}}}}}}}\n"
        )
    };
    for changed in [site("two", "0600"), site("one", "0644")] {
        let machine = Machine::new(&site("one", "0600"))?;
        let planned = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
        machine.write("site.yaml", &changed)?;

        let ran = machine.run(&["apply", "plan"]).await?;

        assert_eq!(planned.code, Some(0), "{planned:?}");
        is_refused(&machine, &ran);
        assert!(!machine.path("first").exists(), "something was done");
    }
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_takes_no_other_variables() -> TestResult {
    let machine = saved().await?;
    machine.write("vars.yaml", "text: two\n")?;

    for arguments in
        [["apply", "plan", "--var", "text=two"], ["apply", "plan", "--var-file", "vars.yaml"]]
    {
        let ran = machine.run(&arguments).await?;

        let expected = "crankcase: a saved plan has the variables and tags that it was made \
                        with; leave out --var, --var-file and --tag\n";
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(64), "", expected));
        assert!(!machine.path("page").exists(), "something was done");
    }
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_the_manifest_has_changed() -> TestResult {
    let machine = saved().await?;
    machine.write("site.yaml", &SITE.replace("text: one", "text: two"))?;

    let ran = machine.run(&["apply", "plan"]).await?;

    is_refused(&machine, &ran);
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_what_was_looked_at_has_changed() -> TestResult {
    let machine = saved().await?;
    fs::set_permissions(machine.path("other"), Permissions::from_mode(0o600))?;

    let ran = machine.run(&["apply", "plan"]).await?;

    is_refused(&machine, &ran);
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_that_was_carried_out_is_out_of_date() -> TestResult {
    let machine = saved().await?;
    machine.run(&["apply", "plan"]).await?;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert_eq!(ran.code, Some(75), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_that_was_spoiled_is_invalid_input() -> TestResult {
    let machine = saved().await?;
    let text = machine.read("plan").ok_or("no plan")?;

    for spoiled in [
        text[..text.len() / 2].to_owned(),
        text.replace("\"crankcase_plan\": 3", "\"crankcase_plan\": 999"),
        text.replace("\"crankcase_plan\": 3", "\"crankcase_plan\": \"x\""),
        text.replace("\"paths\"", "\"pats\""),
    ] {
        machine.write("plan", &spoiled)?;
        let ran = machine.run(&["apply", "plan"]).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{ran:?}");
        assert!(ran.stderr.contains("the saved plan plan"), "{ran:?}");
        assert!(!machine.path("page").exists(), "something was done");
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_takes_the_place_of_plain_files_only() -> TestResult {
    let machine = saved().await?;
    machine.fifo("pipe")?;
    symlink(machine.path("plan"), machine.path("link"))?;

    for (name, found) in [("pipe", "FIFO"), ("link", "symlink"), (".", "folder")] {
        let before = fs::symlink_metadata(machine.path(name))?;
        let ran = machine.run(&["plan", "site.yaml", "-o", name]).await?;

        let expected = format!(
            "crankcase: cannot save the plan in {name}: {name:?} is a {found} and not a file; it is \
             left as it is\n"
        );
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.ends_with(&expected), "{ran:?}");
        let after = fs::symlink_metadata(machine.path(name))?;
        assert_eq!(after.file_type(), before.file_type());
    }
    let again = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    assert_eq!(again.code, Some(0), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_plan_whose_manifest_has_no_name_in_text_is_not_saved() -> TestResult {
    let machine = Machine::new(SITE)?;
    let name = OsStr::from_bytes(b"\xff.yaml");
    fs::rename(machine.path("site.yaml"), machine.path("").join(name))?;
    let mut plan = machine.program(&["plan", "-o", "plan"]);
    plan.arg(name);

    let ran = crate::world::ran(plan).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected = "cannot save the plan in plan: path contains invalid UTF-8 characters\n";
    assert!(ran.stderr.ends_with(expected), "{ran:?}");
    assert!(!machine.path("plan").exists());
    Ok(())
}

#[tokio::test]
async fn a_plan_that_cannot_be_saved_leaves_no_part_of_it() -> TestResult {
    let machine = Machine::new(SITE)?;
    fs::create_dir(machine.path("taken"))?;

    let ran = machine.run(&["plan", "site.yaml", "-o", "taken"]).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("crankcase: cannot save the plan in taken: "), "{ran:?}");
    let mut left: Vec<_> = fs::read_dir(machine.path(""))?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<std::io::Result<_>>()?;
    left.sort();
    assert_eq!(left, ["site.yaml", "taken"]);
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_in_the_place_of_a_manifest_is_said_to_be_one() -> TestResult {
    let machine = saved().await?;
    fs::create_dir(machine.path("folder"))?;
    fs::copy(machine.path("plan"), machine.path("folder/plan.json"))?;
    fs::copy(machine.path("site.yaml"), machine.path("folder/site.yaml"))?;

    for (arguments, path) in [
        (&["check", "plan"][..], "plan"),
        (&["plan", "plan"], "plan"),
        (&["run", "plan"], "plan"),
        (&["graph", "plan"], "plan"),
        (&["plan", "site.yaml", "plan", "-o", "other"], "@/plan"),
        (&["apply", "plan", "site.yaml"], "plan"),
        (&["apply", "folder"], "folder/plan.json"),
    ] {
        let ran = machine.run(arguments).await?;

        let expected = format!(
            "crankcase: {path} is a saved plan, not a manifest; `crankcase apply {path}`, with no \
             other file, carries it out\n"
        );
        assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(65), "", &*expected));
        assert!(!machine.path("page").exists(), "something was done");
    }
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_in_the_place_of_a_manifest_is_data_where_data_is_asked_for() -> TestResult {
    let machine = saved().await?;

    let ran = machine.run(&["check", "plan", "--output", "json"]).await?;

    let problem = json!({
        "file": "plan", "line": null, "column": null, "message": "is a saved plan, not a manifest",
        "help": "`crankcase apply plan`, with no other file, carries it out",
        "value": null, "suggestion": null,
    });
    let expected = json!({
        "version": 1, "valid": false, "resources": null, "problems": [problem], "omitted": 0,
    });
    assert_eq!((ran.code, &*ran.stderr), (Some(65), ""), "{ran:?}");
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout)?, expected);
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_that_is_too_large_is_invalid_input() -> TestResult {
    let machine = saved().await?;
    let plan = OpenOptions::new().write(true).open(machine.path("plan"))?;
    plan.set_len(64 * 1024 * 1024 + 1)?;

    let ran = machine.run(&["apply", "plan"]).await?;

    let expected = "crankcase: the saved plan plan is larger than 67108864 bytes\n";
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(65), "", expected));
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_for_the_tags_that_it_was_made_with() -> TestResult {
    let machine = Machine::new(
        &SITE.replace("{type: file,", "{type: file, tags: [x],").replacen("[x]", "[web]", 1),
    )?;
    let planned = machine.run(&["plan", "site.yaml", "--tag", "web", "-o", "plan"]).await?;

    let beside = machine.run(&["apply", "plan", "--tag", "x"]).await?;
    let unknown = machine.run(&["plan", "site.yaml", "--tag", "wbe"]).await?;
    let ran = machine.run(&["apply", "plan"]).await?;

    assert!(
        planned.stdout.ends_with("plan: 1 to change, 0 may change, 0 unchanged\n"),
        "{planned:?}"
    );
    assert_eq!((beside.code, unknown.code), (Some(64), Some(64)), "{beside:?} {unknown:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(machine.read("page").as_deref(), Some("one"));
    assert!(!machine.path("other").exists());
    Ok(())
}
