//! Plans of commands: what they may change, and whether they can be started.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crankcase_kinds::builtin;
use crankcase_resources::front::Surroundings;
use crankcase_resources::report::Salt;
use crankcase_resources::run::plan;
use crankcase_resources::{
    ApplyOptions, Approval, AsPlanned, Graph, Node, Plan, PlanOptions, Verdict,
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{TestResult, apply_with, declare, plan_builtin, uses};

/// Returns whether a plan says what would be done.
fn is_known(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Changes(_) | Verdict::Unchanged)
}

#[tokio::test]
async fn what_a_command_may_write_first_is_not_compared_as_it_is() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("built"), "old")?;
    std::fs::write(path("copy"), "old")?;
    let command = json!(["cp", "-f", "/etc/hostname", path("built")]);
    let copy = |key: &str, name: &str| {
        let node = Node::new(name, "file").with("path", json!(path(name)));
        node.with(key, json!(path("built")))
    };
    let between = Node::new("between", "noop").after("build");
    let all = |build: Node| {
        let nodes = [
            between.clone(),
            copy("source", "copy").after("between"),
            copy("template", "page").after("build"),
            copy("source", "alone"),
        ];
        let mut rest = nodes.into_iter().map(Graph::from);
        rest.try_fold(Graph::from(build), |all, node| all.merge(&node))
    };
    let build = Node::new("build", "exec").with("command", command);

    let plan_with = async |build: Node| -> TestResult<Plan> {
        let site = all(build)?.site(&builtin(), &Surroundings::new(folder.path()))?;
        let plan = site.plan(&PlanOptions::default()).await;
        let alone = plan.get("alone").map(|it| &it.verdict);
        assert!(matches!(alone, Some(Verdict::Changes(_))), "{plan}");
        Ok(plan)
    };
    let may_write = [build.clone(), build.clone().with("onlyif", json!(["true"]))];
    // The first one has nothing to do, and the second one names the file that it makes.
    let writes_neither = [
        build.clone().with("unless", json!(["true"])),
        build.with("creates", json!(path("other"))),
    ];

    for build in may_write {
        let plan = plan_with(build).await?;
        for name in ["copy", "page"] {
            let verdict = plan.get(name).map(|it| &it.verdict);
            let Some(Verdict::MayChange { because, reason }) = verdict else {
                return Err(format!("{plan}").into());
            };
            assert_eq!(because, &["build"]);
            let expected = " may be changed by a resource before this one, and is known after that";
            assert!(reason.ends_with(expected), "{reason}");
        }
    }
    for build in writes_neither {
        let plan = plan_with(build).await?;
        for name in ["copy", "page"] {
            let verdict = plan.get(name).map(|it| &it.verdict);
            assert!(verdict.is_some_and(is_known), "{name}: {plan}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_guard_that_may_see_what_changes_first_is_known_later() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let guards = [
        ("relative", json!({"command": ["true"], "cwd": "/", "onlyif": ["test", "-e", "f"]})),
        ("line", json!({"command": ":", "shell": true, "unless": "grep -q x '/no/such'"})),
        ("inner", json!({"command": ["true"], "onlyif": ["sh", "-c", "test -e /no/such"]})),
        ("none", json!({"command": ["true"], "unless": ["true"]})),
    ];
    let mut declarations = vec![
        declare("first", "file", json!({"path": path("first"), "content": "x"})),
        uses(declare("between", "noop", json!({})), &["first"]),
        uses(declare("later", "noop", json!({})), &["between"]),
    ];
    for (name, config) in &guards {
        declarations.push(uses(declare(name, "exec", config.clone()), &["later"]));
        declarations.push(declare(&format!("{name} alone"), "exec", config.clone()));
    }
    let made = json!({"command": ["touch", path("made")], "creates": path("made")});
    declarations.push(uses(declare("creates", "exec", made), &["later"]));

    let plan = plan_builtin(&declarations).await?;

    for (name, _) in &guards {
        let verdict = plan.get(name).map(|it| &it.verdict);
        let Some(Verdict::MayChange { because, reason }) = verdict else { panic!("{plan}") };
        assert_eq!(because, &["first"]);
        assert!(reason.ends_with(" may see what changes before it"), "{reason}");
        let alone = plan.get(&format!("{name} alone")).map(|it| &it.verdict);
        assert!(alone.is_some_and(is_known), "{name}: {plan}");
    }
    // The makers of a path are known.
    let creates = plan.get("creates").map(|it| &it.verdict);
    assert!(matches!(creates, Some(Verdict::Changes(_))), "{plan}");
    Ok(())
}

#[tokio::test]
async fn a_command_that_is_left_alone_makes_nothing_that_others_look_at() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("built"), "old")?;
    // The guard may see what changes before it, so nobody knows yet whether the command would run.
    let mut guarded = json!({"command": ["true"], "unless": ["false"]});
    let build = uses(declare("build", "exec", guarded.clone()), &["first"]);
    guarded["creates"] = json!(path("made"));
    let mut make = uses(declare("make", "exec", guarded), &["first"]);
    make.noop = true;
    let again = json!({"command": ["true"], "creates": path("made")});
    for noop in [false, true] {
        let mut build = build.clone();
        build.noop = noop;
        let copy = json!({"path": path("copy"), "source": path("built")});

        let plan = plan_builtin(&[
            declare("first", "file", json!({"path": path("first"), "content": "x"})),
            build,
            uses(declare("copy", "file", copy), &["build"]),
            make.clone(),
            uses(declare("again", "exec", again.clone()), &["make"]),
        ])
        .await?;

        let may_change = |name: &str| {
            let verdict = plan.get(name).map(|it| &it.verdict);
            matches!(verdict, Some(Verdict::MayChange { .. }))
        };
        let all = ["build", "copy", "make", "again"].map(may_change);
        assert_eq!(all, [true, !noop, true, false], "{plan}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_sees_that_a_command_cannot_be_started() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [("plain", "x"), ("script", "#!/no/such/interpreter -x\n")] {
        std::fs::write(path(name), text)?;
    }
    std::fs::set_permissions(path("script"), PermissionsExt::from_mode(0o755))?;
    let cases = [
        (
            json!({"command": ["no-such-program"]}),
            "cannot run \"no-such-program\": No such file or directory",
        ),
        (json!({"command": [path("gone")]}), "No such file or directory"),
        (json!({"command": [path("plain")]}), "Permission denied"),
        (json!({"command": [folder.path()]}), "Permission denied"),
        (json!({"command": ["plain"], "env": {"PATH": "/no/such"}}), "No such file or directory"),
        (
            json!({"command": [path("script")]}),
            "its interpreter \"/no/such/interpreter\" does not exist",
        ),
        (json!({"command": ["true"], "cwd": path("gone")}), "to run in does not exist"),
        (json!({"command": ["true"], "user": "no-such-user"}), "there is no user \"no-such-user\""),
        (json!({"command": ["true"], "group": "no-such"}), "there is no group \"no-such\""),
        (
            json!({"command": "true", "shell": true, "cwd": path("plain")}),
            "plain\": it is no folder",
        ),
    ];

    for (config, expected) in cases {
        let mut guarded = config.clone();
        guarded["creates"] = json!("/");
        let plan = plan_builtin(&[
            declare("it", "exec", config.clone()),
            declare("guarded", "exec", guarded),
        ])
        .await?;

        let Some(Verdict::Failed { error }) = plan.get("it").map(|it| &it.verdict) else {
            panic!("{config}: {plan}")
        };
        assert!(error.contains(expected), "{error}");
        // A program that need not run need not be there.
        let guarded = plan.get("guarded").map(|it| &it.verdict);
        assert_eq!(guarded, Some(&Verdict::Unchanged), "{config}");
    }
    Ok(())
}

#[tokio::test]
async fn a_sealed_plan_binds_what_is_in_a_program_that_is_named_by_its_path() -> TestResult {
    let folder = tempdir()?;
    let tool = folder.path().join("tool");
    let write = |text: &str| -> TestResult {
        std::fs::write(&tool, format!("#!/bin/sh\n{text}\n"))?;
        Ok(std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755))?)
    };
    let options = PlanOptions { salt: Some(Salt::random()), ..PlanOptions::default() };
    let plan_it = async |config: &Value| {
        let declarations = [declare("it", "exec", config.clone())];
        plan(&declarations, &builtin(), &options).await.map(|plan| (declarations, plan))
    };
    let cases = [
        (json!({"command": [tool]}), true),
        (json!({"command": ["./tool"]}), true),
        (json!({"command": ["true"], "onlyif": [tool]}), true),
        (json!({"command": ["sh", tool]}), false),
    ];

    for (mut config, is_bound) in cases {
        config["cwd"] = json!(folder.path());
        write(":")?;
        let (declarations, planned) = plan_it(&config).await?;
        assert_eq!(plan_it(&config).await?.1, planned);
        write(": another one")?;
        let (_, other) = plan_it(&config).await?;
        let approval: Vec<Arc<dyn Approval>> = vec![Arc::new(AsPlanned::new(planned.clone()))];
        let options = ApplyOptions { approval, ..ApplyOptions::default() };
        let account = apply_with(&declarations, &builtin(), &options).await?;

        assert_eq!(other != planned, is_bound, "{config}");
        assert_eq!(account.changes(), usize::from(!is_bound), "{account}");
    }
    Ok(())
}

#[tokio::test]
async fn a_sealed_plan_reads_no_program_that_is_no_file() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::XUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)?;
    let options = PlanOptions { salt: Some(Salt::random()), ..PlanOptions::default() };

    for program in [&*fifo, Path::new("/dev/zero"), folder.path()] {
        // It need not run.
        let declarations = [declare("it", "exec", json!({"command": [program], "creates": "/"}))];
        let planned = plan(&declarations, &builtin(), &options).await?;
        assert_eq!(planned.changes(), 0, "{planned}");
    }
    Ok(())
}
