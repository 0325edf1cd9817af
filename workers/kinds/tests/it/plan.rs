//! Plans of the built-in kinds.

use std::os::unix::fs::PermissionsExt;

use crankcase_kinds::builtin;
use crankcase_resources::front::Surroundings;
use crankcase_resources::{Graph, Node, Plan, PlanOptions, Verdict};
use serde_json::json;
use tempfile::tempdir;

use crate::support::{TestResult, apply_builtin, declare, declare_with, names, plan_builtin, uses};

mod commands;

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
                json!({"path": in_folder("copy"), "source": in_folder("file"), "allow_empty": true}),
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
