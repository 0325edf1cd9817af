//! The command that stops a program before a file is changed.

use std::fs;
use std::path::Path;

use crankcase_engine::Stop;
use crankcase_kinds::{Argv, EntryPath, File, builtin};
use crankcase_resources::front::Surroundings;
use crankcase_resources::{ApplyOptions, Graph, PlanOptions};
use serde_json::json;
use tempfile::tempdir;

use crate::support::{TestResult, apply_builtin, declare, failure};

fn new_content(path: &Path) -> Result<File, Box<dyn std::error::Error>> {
    let path = EntryPath::parse(path.to_str().ok_or("not UTF-8")?)?;
    Ok(File { content: Some("new".into()), ..File::new(path) })
}

#[tokio::test]
async fn a_program_is_stopped_before_any_file_is_changed() -> TestResult {
    let folder = tempdir()?;
    let [first, second, seen] = ["first", "second", "seen"].map(|name| folder.path().join(name));
    fs::write(&first, "old")?;
    fs::write(&second, "old")?;
    let copy = ["cp".to_owned(), first.display().to_string(), seen.display().to_string()];
    let stopping = File { stop_first: Some(Argv(copy.into())), ..new_content(&second)? };
    let before = Graph::of("first", new_content(&first)?);
    let all = Graph::of("second", stopping).after(&before)?;
    let site = all.site(&builtin(), &Surroundings::new(Path::new("/")))?;
    let (_stopper, stop) = Stop::pair();

    let plan = site.plan(&PlanOptions::default()).await.to_string();
    let account = site.apply(&ApplyOptions::default(), stop).await;

    assert!(plan.contains("before everything else: stop_first command=[\"cp\","), "{plan}");
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    let texts = [fs::read_to_string(seen)?, fs::read_to_string(second)?];
    assert_eq!(texts, ["old", "new"]);
    Ok(())
}

#[tokio::test]
async fn a_file_is_left_as_it_is_if_what_must_not_see_its_change_cannot_be_stopped() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;
    let busy = ["sh", "-c", "echo busy >&2; exit 3"];

    for config in [
        json!({"path": path, "content": "new", "stop_first": busy}),
        json!({"path": path, "mode": "0600", "stop_first": busy}),
        json!({"path": path, "state": "absent", "stop_first": busy}),
    ] {
        let account = apply_builtin(&[declare("it", "file", config)]).await?;

        let text = failure(&account, "it");
        assert!(text.contains("failed at stop_first") && text.contains("busy"), "{text}");
        assert_eq!(account.get("it").map(|it| it.done.len()), Some(0), "{account}");
    }
    assert_eq!(fs::read_to_string(path)?, "old");
    Ok(())
}

#[tokio::test]
async fn nothing_is_stopped_before_a_file_is_made_or_if_it_is_as_declared() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    let config = json!({"path": path, "content": "new", "stop_first": ["false"]});
    let page = [declare("it", "file", config)];

    let made = apply_builtin(&page).await?;
    let again = apply_builtin(&page).await?;

    assert_eq!((made.changes(), made.failures()), (1, 0), "{made}");
    assert_eq!((again.changes(), again.failures()), (0, 0), "{again}");
    Ok(())
}
