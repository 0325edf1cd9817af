use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use crankcase_kinds::builtin;
use crankcase_resources::{
    ApplyOptions, Approval, AsPlanned, Graph, Node, Plan, PlanOptions, Salt, Surroundings, Verdict,
    plan,
};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{
    TestResult, apply_builtin, apply_with, declare, declare_with, names, plan_builtin, uses,
};

#[tokio::test]
async fn a_plan_shows_what_would_change_and_changes_nothing() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path().display();
    std::fs::write(folder.path().join("page"), "one\ntwo\nthree\n")?;
    std::fs::set_permissions(folder.path().join("page"), PermissionsExt::from_mode(0o604))?;
    let page =
        json!({"path": format!("{root}/page"), "content": "one\n2\nthree\n", "mode": "0644"});
    let declarations = [
        declare("site", "file", json!({"path": format!("{root}/site/"), "mode": "0750"})),
        declare_with(
            "index",
            "file",
            json!({"path": format!("{root}/site/index")}),
            ("content", "site", "mode"),
        ),
        declare("page", "file", page),
        declare("touch", "exec", json!({"command": ["touch", format!("{root}/touched")]})),
        declare_with("log", "file", json!({"content": "x"}), ("path", "touch", "stdout")),
        declare("same", "file", json!({"path": format!("{root}/"), "state": "exists"})),
        declare("wrong", "file", json!({"path": "/", "mod": "1"})),
        uses(declare("behind", "noop", json!({})), &["wrong"]),
    ];

    let plan = plan_builtin(&declarations).await?;

    let text = plan.to_string().replace(&root.to_string(), "ROOT");
    assert_eq!(
        text,
        r#"~ site (file) would change
    state: "absent" -> "exists"
    mode: absent -> "0750"
    1. create_folder path="ROOT/site/"
~ index (file) would change
    state: "absent" -> "exists"
    content: absent -> "4 bytes, sha256 a27c7465ecc3"
      @@ -0,0 +1 @@
      +0750
      \ No newline at end of file
    mode: absent -> "0644"
    1. create path="ROOT/site/index"
~ page (file) would change
    content: "14 bytes, sha256 b6285c57e879" -> "12 bytes, sha256 bc85caa9b61b"
      @@ -1,3 +1,3 @@
       one
      -two
      +2
       three
    mode: "0604" -> "0644"
    1. write path="ROOT/page"
~ touch (exec) would change
    ran: false -> true
    1. run command=["touch","ROOT/touched"]
? log (file) may change after touch: its config is known after apply
! wrong (file) failed: the config is not valid: mod: there is no such attribute; did you mean "mode"?; path: the root folder is always there; name one in it
- behind (noop) is skipped because of wrong
plan: 4 to change, 1 may change, 1 unchanged, 2 failed or skipped
"#
    );
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

#[tokio::test]
async fn a_plan_survives_being_written_and_read() -> TestResult {
    let declarations = [
        declare("touch", "exec", json!({"command": ["true"]})),
        uses(declare("wrong", "file", json!({})), &["touch"]),
    ];

    let plan = plan_builtin(&declarations).await?;

    assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan)?)?, plan);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_looked_at_before_its_dependency_may_change() -> TestResult {
    let folder = tempdir()?;
    let site = folder.path().join("site");
    let page = |name| json!({"path": site.join(name), "content": "x"});
    let declarations = [
        declare("site", "exec", json!({"command": ["mkdir", site]})),
        uses(declare("index", "file", page("index.html")), &["site"]),
        declare("lonely", "file", page("lonely.html")),
    ];

    let plan = plan_builtin(&declarations).await?;

    let Verdict::MayChange { because, reason } = &plan.get("index").unwrap().verdict else {
        panic!("{plan}")
    };
    assert_eq!(because, &["site"]);
    assert_eq!(
        reason,
        &format!(
            "it cannot be looked at yet: folder {site:?} does not exist; a resource that this one \
             depends on must make it"
        )
    );
    let Verdict::Failed { error } = &plan.get("lonely").unwrap().verdict else { panic!("{plan}") };
    let wanted =
        format!("folder {site:?} does not exist; a resource that this one depends on must make it");
    assert_eq!(error, &wanted);
    Ok(())
}

#[tokio::test]
async fn what_is_made_by_others_first_is_planned_as_if_it_were_there() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path().display();
    let in_folder = |path: &str| format!("{root}/{path}");
    let file = |path: &str| json!({"path": in_folder(path), "content": "x"});
    let exec =
        |path: &str| json!({"command": ["mkdir", in_folder(path)], "creates": in_folder(path)});
    let declarations = [
        declare("top", "file", json!({"path": in_folder("top/")})),
        uses(declare("inner", "file", json!({"path": in_folder("top/inner/")})), &["top"]),
        uses(declare("leaf", "file", file("top/inner/leaf")), &["inner"]),
        declare("made", "exec", exec("made")),
        uses(declare("in-made", "file", file("made/leaf")), &["made"]),
        uses(declare("again", "exec", exec("made")), &["in-made"]),
        declare(
            "drop",
            "exec",
            json!({"command": ["touch", in_folder("file")], "creates": in_folder("file")}),
        ),
        uses(
            declare("mode", "file", json!({"path": in_folder("file"), "mode": "0600"})),
            &["drop"],
        ),
        uses(
            declare(
                "copy",
                "file",
                json!({"path": in_folder("copy"), "source": in_folder("file")}),
            ),
            &["drop"],
        ),
    ];

    let plan = plan_builtin(&declarations).await?;
    assert!(names(folder.path())?.is_empty());
    let account = apply_builtin(&declarations).await?;

    let verdicts = plan.resources.iter().map(|planned| match &planned.verdict {
        Verdict::Changes(_) => format!("{} changes", planned.name),
        Verdict::Unchanged => format!("{} stays", planned.name),
        verdict => format!("{}: {verdict:?}", planned.name),
    });
    let verdicts: Vec<_> = verdicts.collect();
    assert_eq!(
        verdicts[..7],
        [
            "top changes",
            "inner changes",
            "leaf changes",
            "made changes",
            "in-made changes",
            "again stays",
            "drop changes"
        ]
    );
    // Of a file that a command makes, nothing is known but that it will be there.
    for verdict in &verdicts[7..] {
        assert!(verdict.contains("MayChange"), "{verdict}");
    }
    assert_eq!((account.changes(), account.failures()), (8, 0), "{account}");
    Ok(())
}

#[tokio::test]
async fn what_notifies_and_what_is_further_away_is_seen_as_well() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("conf"), "old")?;
    std::fs::write(path("same"), "same")?;
    let mut key =
        declare("key", "exec", json!({"command": ["touch", path("key")], "creates": path("key")}));
    key.notify.push("mode".to_owned());
    let declarations = [
        key,
        declare("mode", "file", json!({"path": path("key"), "mode": "0600"})),
        declare("conf", "file", json!({"path": path("conf"), "content": "new"})),
        uses(declare("same", "file", json!({"path": path("same"), "content": "same"})), &["conf"]),
        uses(
            declare("copy", "file", json!({"path": path("copy"), "source": path("conf")})),
            &["same"],
        ),
    ];

    let plan = plan_builtin(&declarations).await?;
    let account = apply_builtin(&declarations).await?;

    for (name, maker) in [("mode", "key"), ("copy", "conf")] {
        let Some(Verdict::MayChange { because, .. }) = plan.get(name).map(|it| &it.verdict) else {
            return Err(plan.to_string().into());
        };
        assert_eq!(because, &[maker]);
    }
    assert_eq!((plan.failures(), account.failures()), (0, 0), "{account}");
    assert_eq!(std::fs::read_to_string(path("copy"))?, "new");
    Ok(())
}

#[tokio::test]
async fn what_may_be_written_first_is_not_compared_as_it_is() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("conf"), "old")?;
    std::fs::write(path("copy"), "old")?;
    let date = Graph::from(Node::new("date", "exec").with("command", json!(["echo", "new"])));
    let conf = Graph::from(Node::new("conf", "file").with("path", json!(path("conf"))));
    let copy = Node::new("copy", "file").with("path", json!(path("copy")));
    let copy = Graph::from(copy.with("source", json!(path("conf"))));
    let all = copy.after(&conf.using("content", &date, "stdout")?)?;

    let site = all.site(&builtin(), &Surroundings::new(folder.path()))?;
    let plan = site.plan(&PlanOptions::default()).await;

    let copy = plan.get("copy").map(|it| &it.verdict);
    assert!(matches!(copy, Some(Verdict::MayChange { .. })), "{plan}");
    Ok(())
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
            assert!(!matches!(verdict, Some(Verdict::MayChange { .. })), "{plan}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_looks_at_a_thing_that_is_changed_first_is_known_later() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("dir"))?;
    std::fs::write(path("conf"), "old")?;
    std::fs::write(path("copy"), "old")?;
    let test = json!(["test", "-e", path("made")]);
    let guarded = json!({"command": ["true"], "onlyif": test, "unless": ["false"]});
    let declarations = [
        declare("made", "file", json!({"path": path("made"), "content": "x"})),
        uses(declare("guarded", "exec", guarded), &["made"]),
        declare("conf", "file", json!({"path": path("conf"), "content": "new"})),
        uses(
            declare("copy", "file", json!({"path": path("copy"), "source": path("dir/../conf")})),
            &["conf"],
        ),
    ];

    let plan = plan_builtin(&declarations).await?;

    for name in ["guarded", "copy"] {
        let verdict = plan.get(name).map(|it| &it.verdict);
        assert!(matches!(verdict, Some(Verdict::MayChange { .. })), "{plan}");
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
        assert!(!matches!(alone, Some(Verdict::MayChange { .. })), "{plan}");
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

#[tokio::test]
async fn only_what_comes_before_counts_as_made() -> TestResult {
    let folder = tempdir()?;
    let site = folder.path().join("site");
    let page = json!({"path": site.join("page"), "content": "x"});
    let declarations = [
        declare("site", "file", json!({"path": format!("{}/", site.display())})),
        declare("page", "file", page),
    ];

    // Without automatic edges the page need not come after its folder.
    let plan = plan_builtin(&declarations).await?;

    let page = &plan.get("page").unwrap().verdict;
    assert!(matches!(page, Verdict::Failed { .. }), "{plan}");
    Ok(())
}

#[tokio::test]
async fn after_apply_there_is_nothing_left_to_plan() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path().display();
    let made = format!("{root}/made");
    let declarations = [
        declare("site", "file", json!({"path": format!("{root}/site/"), "mode": "0711"})),
        uses(
            declare("page", "file", json!({"path": format!("{root}/site/page"), "content": "x"})),
            &["site"],
        ),
        declare("made", "exec", json!({"command": ["touch", made], "creates": made})),
        declare("gone", "file", json!({"path": format!("{root}/gone"), "state": "absent"})),
    ];

    let first = apply_builtin(&declarations).await?;
    let second = apply_builtin(&declarations).await?;
    let plan = plan_builtin(&declarations).await?;

    assert_eq!((first.changes(), first.failures()), (3, 0), "{first}");
    assert_eq!((second.changes(), second.failures()), (0, 0), "{second}");
    assert_eq!(plan.to_string(), "plan: 0 to change, 0 may change, 4 unchanged\n");
    Ok(())
}
