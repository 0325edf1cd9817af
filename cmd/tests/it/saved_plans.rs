//! Plans that are saved, and carried out as they were seen or not at all.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::once::lines;
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

fn is_refused(machine: &Machine, ran: &Ran, moved: &str) {
    let expected = format!("crankcase: the plan is out of date: {moved}; plan again\n");
    assert_eq!((ran.code, &*ran.stdout), (Some(75), ""));
    assert!(ran.stderr.ends_with(&expected), "{ran:?}");
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
    let site = |env: &str| {
        format!(
            "resources:\n  run: {{type: exec, config: {{command: [/bin/true], creates: '@/made', env: \
             {{A: {env}}}}}}}\n"
        )
    };
    let machine = Machine::new(&site("one"))?;
    let planned = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    machine.write("site.yaml", &site("two"))?;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert_eq!(planned.code, Some(0), "{planned:?}");
    is_refused(&machine, &ran, "@/site.yaml has changed");
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

        let expected = "crankcase: a saved plan has the variables and resources that it was made \
                        with; leave out --var, --var-file, --tag, --only and --skip\n";
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

    is_refused(&machine, &ran, "@/site.yaml has changed");
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_what_was_looked_at_has_changed() -> TestResult {
    let machine = saved().await?;
    fs::set_permissions(machine.path("other"), Permissions::from_mode(0o600))?;

    let ran = machine.run(&["apply", "plan"]).await?;

    is_refused(&machine, &ran, "\"other\" is not as it was");
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_what_it_would_write_has_changed_also_on_an_empty_machine()
-> TestResult {
    let site = "vars: {text: reviewed}\nresources:\n  folder: {type: file, config: {path: '@/www/'}}\n  \
                index: {type: file, config: {path: '@/www/index', template: index.j2}}\n";
    let machine = Machine::new(site)?;
    machine.write("index.j2", "it is {{ text }}")?;
    let planned = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    machine.write("index.j2", "it is not {{ text }}")?;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert!(planned.stdout.contains("+it is reviewed"), "{planned:?}");
    is_refused(&machine, &ran, "\"index\" is not as it was");
    assert!(!machine.path("www").exists(), "something was done");
    Ok(())
}

#[tokio::test]
async fn a_saved_plan_is_refused_when_a_file_of_variables_has_changed_or_a_manifest_is_new()
-> TestResult {
    let machine = Machine::new("")?;
    fs::create_dir(machine.path("site"))?;
    machine.write("site/a.yaml", SITE)?;
    machine.write("vars.yaml", "text: two\n")?;
    let planned = machine.run(&["plan", "site", "--var-file", "vars.yaml", "-o", "plan"]).await?;

    machine.write("vars.yaml", "text: two # still\n")?;
    let other = machine.run(&["apply", "plan"]).await?;
    machine.write("vars.yaml", "text: two\n")?;
    machine.write("site/b.yaml", "resources: {c: {type: noop}}\n")?;
    let new = machine.run(&["apply", "plan"]).await?;

    assert_eq!(planned.code, Some(0), "{planned:?}");
    is_refused(&machine, &other, "@/vars.yaml has changed");
    is_refused(&machine, &new, "@/site/b.yaml is new");
    Ok(())
}

#[tokio::test]
async fn nothing_of_a_changed_manifest_is_run_before_it_is_refused() -> TestResult {
    let site = |command: &str| {
        format!(
            "resources: {{it: {{type: exec, config: {{command: [/bin/true], unless: [sh, -c, \
             '{command}']}}}}}}\n"
        )
    };
    let machine = Machine::new(&site("exit 1"))?;
    machine.run(&["plan", "site.yaml", "--only", "it", "-o", "plan"]).await?;

    machine.write("site.yaml", &site(": > @/ran; exit 1"))?;
    let guard = machine.run(&["apply", "plan"]).await?;
    machine.write("site.yaml", "resources: {}\n")?;
    let gone = machine.run(&["apply", "plan"]).await?;

    for ran in [guard, gone] {
        is_refused(&machine, &ran, "@/site.yaml has changed");
    }
    assert!(!machine.path("ran").exists(), "the guard was run");
    Ok(())
}

#[tokio::test]
async fn what_a_saved_plan_does_not_show_binds_it_as_well() -> TestResult {
    let site = "resources:\n  conf: {type: file, config: {path: '@/conf', mode: '0644'}}\n  deploy: \
                {type: exec, dependencies: [conf], config: {command: [sh, -c, 'echo $SUM > @/page'], \
                creates: '@/page', env: {SUM: '{{ conf.state.sha256 }}'}}}\n";
    let machine = Machine::new(site)?;
    machine.write("conf", "reviewed")?;
    let planned = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    machine.write("conf", "not reviewed")?;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert_eq!(planned.code, Some(0), "{planned:?}");
    is_refused(&machine, &ran, "\"deploy\" is not as it was");
    Ok(())
}

#[tokio::test]
async fn what_a_saved_plan_could_not_show_is_not_written() -> TestResult {
    let site = "resources:\n  date: {type: exec, config: {command: [echo, unseen], unless: [test, -e, \
                '@/date']}}\n  page: {type: file, dependencies: [date], config: {path: '@/page', \
                content: '{{ date.state.stdout }}'}}\n  after: {type: noop, dependencies: [page]}\n  \
                other: {type: file, config: {path: '@/other', content: seen}}\n";
    let machine = Machine::new(&site.replace("echo, unseen", "sh, -c, 'echo unseen; : > @/date'"))?;
    let planned = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;

    let ran = machine.run(&["apply", "plan"]).await?;

    assert!(planned.stdout.contains("? page (file) may change after date"), "{planned:?}");
    assert_eq!(ran.code, Some(75), "{ran:?}");
    let left = "- page (file) is left as it is: the plan could not show yet how it changes; plan \
                again\n";
    assert!(ran.stdout.contains(left), "{ran:?}");
    assert!(ran.stdout.contains("- after (noop) was skipped because of page"), "{ran:?}");
    assert!(ran.stdout.contains(", 1 left for another plan"), "{ran:?}");
    assert!(machine.path("other").exists() && !machine.path("page").exists());
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
        text.replace("\"crankcase_plan\":5", "\"crankcase_plan\":999"),
        text.replace("\"crankcase_plan\":5", "\"crankcase_plan\":\"x\""),
        text.replace("\"paths\"", "\"pats\""),
        "{\n  \"crankcase_plan\": 3, \"tags\": []}".to_owned(),
    ] {
        machine.write("plan", &spoiled)?;
        let ran = machine.run(&["apply", "plan"]).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{ran:?}");
        assert!(ran.stderr.contains("the saved plan plan"), "{ran:?}");
        let is_older = spoiled.contains("\"crankcase_plan\": 3,");
        assert_eq!(ran.stderr.contains("has version 3; expected 5"), is_older, "{ran:?}");
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
        "format": 1, "valid": false, "resources": null, "problems": [problem], "omitted": 0,
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
async fn a_resource_is_chosen_with_what_it_needs_and_left_out_with_what_needs_it() -> TestResult {
    let site = "resources:\n  a: {type: noop}\n  b: {type: noop, dependencies: [a]}\n  c: {type: \
                noop, dependencies: [b]}\n  d: {type: noop, for_each: [x, y]}\n";
    let machine = Machine::new(site)?;
    let cases = [
        (&["--only", "b"][..], &["a", "b"][..]),
        (&["--skip", "b"], &["a", "d[\"x\"]", "d[\"y\"]"]),
        (&["--only", "c", "--skip", "b"], &[]),
        (&["--only", "d", "--skip", "d[\"y\"]"], &["d[\"x\"]"]),
        (&["--only", "a", "--only", "d[\"y\"]", "--jobs", "1"], &["a", "d[\"y\"]"]),
    ];
    for command in ["plan", "apply"] {
        for (options, wanted) in cases {
            let arguments = [&[command, "site.yaml", "--output", "json"], options].concat();
            let ran = machine.run(&arguments).await?;

            let told: Vec<Value> = match command {
                "apply" => lines(&ran.stdout)?,
                _ => serde_json::from_value(
                    serde_json::from_str::<Value>(&ran.stdout)?["resources"].take(),
                )?,
            };
            let mut told: Vec<_> = told.iter().filter_map(|it| it["name"].as_str()).collect();
            // Independent ones end in no order.
            told.sort_unstable();
            assert_eq!((ran.code, &*told), (Some(0), wanted), "{options:?}");
        }
        let ran = machine.run(&[command, "site.yaml", "--only", "e"]).await?;
        assert_eq!((ran.code, &*ran.stdout), (Some(64), ""), "{ran:?}");
        assert!(ran.stderr.contains("there is no resource \"e\""), "{ran:?}");
    }
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
