//! The kind `file`: content, mode, owner, folders, removal and the differences that are shown.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_kinds::builtin;
use crankcase_resources::run::Proposal;
use crankcase_resources::{Account, ApplyOptions, Approval};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{
    TestResult, apply_builtin, apply_with, declare, declare_in, failure, names, plan_builtin, uses,
};

async fn apply_file(config: Value) -> Result<Account, Box<dyn std::error::Error>> {
    apply_builtin(&[declare("it", "file", config)]).await
}

fn mode(path: &Path) -> Result<u32, Box<dyn std::error::Error>> {
    Ok(path.metadata()?.mode() & 0o7777)
}

fn as_folder(path: &Path) -> String {
    format!("{}/", path.display())
}

#[tokio::test]
async fn a_file_is_created_with_its_content_and_mode() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");

    let account = apply_file(json!({"path": path, "content": "hello\n", "mode": "0666"})).await?;

    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    assert_eq!(fs::read_to_string(&path)?, "hello\n");
    assert_eq!(mode(&path)?, 0o666);
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

#[tokio::test]
async fn a_file_without_content_is_created_empty_and_then_left_alone() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");

    assert_eq!(apply_file(json!({"path": path})).await?.changes(), 1);
    assert_eq!(mode(&path)?, 0o644);
    fs::write(&path, "written by another")?;

    assert_eq!(apply_file(json!({"path": path})).await?.changes(), 0);
    assert_eq!(fs::read_to_string(&path)?, "written by another");
    Ok(())
}

#[tokio::test]
async fn new_content_keeps_mode_and_owner_that_are_not_declared() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o4751))?;
    let owner = if rustix::process::geteuid().is_root() { 12_345 } else { path.metadata()?.uid() };
    std::os::unix::fs::chown(&path, Some(owner), None)?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o4751))?;

    let account = apply_file(json!({"path": path, "content": "new"})).await?;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!((fs::read_to_string(&path)?.as_str(), mode(&path)?), ("new", 0o4751));
    assert_eq!(path.metadata()?.uid(), owner);
    Ok(())
}

#[tokio::test]
async fn mode_and_owner_are_mended_without_a_new_file() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "x")?;
    fs::set_permissions(&path, PermissionsExt::from_mode(0o777))?;
    let before = path.metadata()?.ino();
    let owner = if rustix::process::geteuid().is_root() { 12_345 } else { path.metadata()?.uid() };
    let config =
        json!({"path": path, "content": "x", "mode": "4700", "owner": owner, "group": owner});

    let account = apply_file(config.clone()).await?;

    assert_eq!(account.failures(), 0, "{account}");
    let metadata = path.metadata()?;
    assert_eq!((mode(&path)?, metadata.uid(), metadata.ino()), (0o4700, owner, before));
    assert_eq!(apply_file(config).await?.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn an_unknown_owner_is_an_error() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");

    let account = apply_file(json!({"path": path, "owner": "no-such-user"})).await?;

    assert!(failure(&account, "it").contains(r#"there is no user "no-such-user""#));
    assert!(!path.exists());
    Ok(())
}

/// Writes a file when a change is to be approved.
#[derive(Debug)]
struct Meanwhile(PathBuf);

#[async_trait]
impl Approval for Meanwhile {
    async fn refuses(&self, _: &str, _: Proposal<'_>) -> Option<String> {
        fs::write(&self.0, "another").err().map(|err| err.to_string())
    }
}

#[tokio::test]
async fn a_source_that_changes_after_the_look_is_not_written() -> TestResult {
    let folder = tempdir()?;
    let (source, path) = (folder.path().join("source"), folder.path().join("copy"));
    fs::write(&source, "looked at")?;
    let copy = declare("copy", "file", json!({"path": path, "source": source}));
    let options =
        ApplyOptions { approval: vec![Arc::new(Meanwhile(source))], ..ApplyOptions::default() };

    let account = apply_with(&[copy], &builtin(), &options).await?;

    let error = failure(&account, "copy");
    assert!(error.contains("has changed since it was looked at"), "{error}");
    assert_eq!(names(folder.path())?, ["source"]);
    Ok(())
}

#[tokio::test]
async fn sources_and_templates_are_found_beside_the_manifest() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path();
    fs::write(root.join("page.j2"), "\u{feff}hello {{ name }}")?;
    fs::write(root.join("raw"), b"\0{{ name }}\xff")?;
    fs::write(root.join("bad.j2"), "{{ unknown }}")?;
    let declarations = [
        declare_in(root, "page", "file", json!({"path": root.join("page"), "template": "page.j2"})),
        declare_in(root, "copy", "file", json!({"path": root.join("copy"), "source": "raw"})),
        declare_in(root, "bad", "file", json!({"path": root.join("bad"), "template": "bad.j2"})),
        declare_in(root, "none", "file", json!({"path": root.join("none"), "source": "none.x"})),
    ];

    let account = apply_builtin(&declarations).await?;

    assert_eq!(fs::read_to_string(root.join("page"))?, "hello Ada");
    assert_eq!(fs::read(root.join("copy"))?, b"\0{{ name }}\xff");
    assert!(failure(&account, "bad").contains("bad.j2:1:1: unknown is undefined"), "{account}");
    assert!(failure(&account, "none").contains("none.x\": No such file"), "{account}");
    Ok(())
}

#[tokio::test]
async fn an_empty_source_or_template_is_refused_unless_that_is_allowed() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    // A byte order mark is no part of a template.
    for (attribute, text) in [("source", ""), ("template", ""), ("template", "\u{feff}")] {
        fs::write(folder.path().join("from"), text)?;
        fs::write(&path, "old")?;
        let config = json!({"path": path, attribute: "from"});
        let allowed = json!({"path": path, attribute: "from", "allow_empty": true});
        let [refused, allowed] =
            [config, allowed].map(|config| declare_in(folder.path(), "it", "file", config));

        let account = apply_builtin(&[refused]).await?;
        let error = failure(&account, "it");
        assert!(error.contains("from\" is empty, which is refused unless allow_empty"), "{error}");
        assert_eq!(fs::read_to_string(&path)?, "old");

        let account = apply_builtin(&[allowed]).await?;
        assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
        assert_eq!(fs::read_to_string(&path)?, "");
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_is_created_and_mended() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("site");

    assert_eq!(apply_file(json!({"path": as_folder(&path)})).await?.failures(), 0);
    assert_eq!((path.is_dir(), mode(&path)?), (true, 0o755));

    let account = apply_file(json!({"path": as_folder(&path), "mode": "1777"})).await?;
    assert_eq!((account.changes(), mode(&path)?), (1, 0o1777), "{account}");
    Ok(())
}

#[tokio::test]
async fn files_and_empty_folders_are_removed() -> TestResult {
    let folder = tempdir()?;
    let (file, empty) = (folder.path().join("file"), folder.path().join("empty"));
    fs::write(&file, "x")?;
    fs::create_dir(&empty)?;
    let below_missing = folder.path().join("missing").join("file");

    for path in [file.display().to_string(), as_folder(&empty)] {
        let account = apply_file(json!({"path": path, "state": "absent"})).await?;
        assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    }

    assert_eq!(names(folder.path())?.len(), 0);
    let account = apply_file(json!({"path": below_missing, "state": "absent"})).await?;
    assert_eq!((account.changes(), account.failures()), (0, 0), "{account}");
    Ok(())
}

#[tokio::test]
async fn a_folder_that_is_not_empty_is_not_removed() -> TestResult {
    let folder = tempdir()?;
    for name in ["a", "b", "c", "d"] {
        fs::write(folder.path().join(name), "")?;
    }

    let config = json!({"path": as_folder(folder.path()), "state": "absent"});
    let plan = plan_builtin(&[declare("it", "file", config.clone())]).await?;
    let account = apply_file(config).await?;

    for text in [plan.to_string(), failure(&account, "it")] {
        assert!(
            text.contains("is not empty, it holds \"") && text.contains(" and more;"),
            "{text}"
        );
    }
    assert_eq!(names(folder.path())?.len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_difference_of_much_or_of_bytes_is_told_by_digest() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    for (old, new) in
        [(b"\xff\0".to_vec(), "x".to_owned()), (b"x".to_vec(), "line\n".repeat(100_000))]
    {
        fs::write(&path, old)?;
        let declarations = [declare("it", "file", json!({"path": path, "content": new}))];
        let text = plan_builtin(&declarations).await?.to_string();
        assert!(text.contains("sha256") && !text.contains("@@"), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_long_difference_is_cut() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    let declarations = [declare(
        "it",
        "file",
        json!({"path": path, "content": "a long line it is\n".repeat(1_999)}),
    )];

    let text = plan_builtin(&declarations).await?.to_string();

    assert!(text.len() < 32_000 && text.contains("... "), "{}", text.len());
    Ok(())
}

#[tokio::test]
async fn what_others_may_not_read_or_comes_from_elsewhere_has_no_diff() -> TestResult {
    let (site, elsewhere) = (tempdir()?, tempdir()?);
    let path = site.path().join("page");
    fs::write(site.path().join("source"), "new\n")?;
    fs::write(elsewhere.path().join("source"), "new\n")?;
    symlink(elsewhere.path().join("source"), site.path().join("link"))?;
    let outside = elsewhere.path().join("source");
    let climbing = format!("../{}", outside.strip_prefix("/tmp").unwrap_or(&outside).display());
    let cases = [
        // What there is before, the config, and whether the change is shown.
        (None, json!({"content": "new\n"}), true),
        (None, json!({"content": "new\n", "mode": "0640"}), false),
        (None, json!({"content": "new\n", "mode": "0640", "diff": true}), true),
        (None, json!({"content": "new\n", "diff": false}), false),
        (Some(0o644), json!({"content": "new\n"}), true),
        (Some(0o600), json!({"content": "new\n"}), false),
        (Some(0o600), json!({"content": "new\n", "mode": "0644"}), false),
        (Some(0o644), json!({"content": "new\n", "mode": "0600"}), false),
        (Some(0o600), json!({"content": "new\n", "diff": true}), true),
        (Some(0o644), json!({"source": "source"}), true),
        (Some(0o644), json!({"source": "./source", "diff": false}), false),
        (Some(0o644), json!({"source": "link"}), false),
        (Some(0o644), json!({"source": outside}), false),
        (Some(0o644), json!({"source": climbing}), false),
        (Some(0o644), json!({"source": outside, "diff": true}), true),
        (Some(0o644), json!({"template": outside}), false),
        (Some(0o644), json!({"template": "source"}), true),
    ];

    for (before, mut config, is_shown) in cases {
        config["path"] = json!(path);
        if let Some(mode) = before {
            fs::write(&path, "old\n")?;
            fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
        }
        let declarations = [declare_in(site.path(), "it", "file", config.clone())];
        let plan = plan_builtin(&declarations).await?.to_string();
        let account = apply_builtin(&declarations).await?.to_string();

        for said in [plan, account] {
            assert!(said.contains("content: "), "{config}: {said}");
            assert_eq!(said.contains("+new"), is_shown, "{config}: {said}");
            assert_eq!(said.contains("-old"), is_shown && before.is_some(), "{config}: {said}");
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_new_folder_keeps_the_group_bit_of_its_parent_unless_a_mode_is_declared() -> TestResult {
    let folder = tempdir()?;
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o2755))?;
    let path = |name: &str| folder.path().join(name);
    let declarations = [
        declare("open", "file", json!({"path": as_folder(&path("open"))})),
        uses(declare("inner", "file", json!({"path": as_folder(&path("open/inner"))})), &["open"]),
        declare("given", "file", json!({"path": as_folder(&path("given")), "mode": "0755"})),
        declare("page", "file", json!({"path": path("page"), "content": "x"})),
    ];

    let plan = plan_builtin(&declarations).await?;
    let account = apply_builtin(&declarations).await?;

    assert_eq!((account.changes(), account.failures()), (4, 0), "{account}");
    let modes = ["open", "open/inner", "given", "page"].map(|name| mode(&path(name)).ok());
    assert_eq!(modes, [0o2755, 0o2755, 0o755, 0o644].map(Some));
    assert_eq!(plan.to_string().matches("mode: absent -> \"2755\"").count(), 2, "{plan}");
    assert_eq!(plan_builtin(&declarations).await?.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn what_would_be_in_a_file_is_absent() -> TestResult {
    let folder = tempdir()?;
    fs::write(folder.path().join("plain"), "x")?;
    let inner = folder.path().join("plain/a/b");

    for path in [inner.display().to_string(), as_folder(&inner)] {
        let account = apply_file(json!({"path": path, "state": "absent"})).await?;
        assert_eq!((account.changes(), account.failures()), (0, 0), "{account}");
    }
    Ok(())
}

#[tokio::test]
async fn a_return_at_the_end_of_a_line_is_seen() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "a\r\nb\n")?;
    let config = json!({"path": path, "content": "a\nb\n"});

    let plan = plan_builtin(&[declare("it", "file", config)]).await?;

    assert!(plan.to_string().contains("-a\\r\n      +a\n"), "{plan}");
    Ok(())
}
