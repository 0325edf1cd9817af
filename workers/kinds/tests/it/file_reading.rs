//! What of a file is read, and what its state holds.
use std::fs::File;

use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Found, Stale};
use crankcase_resources::front::Wanted;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{TestResult, declare, look};

/// More than can be read while a test runs.
const HUGE: u64 = 8 << 40;

/// Looks at a file whose dependents use these attributes.
async fn check(config: Value, wanted: &[&str]) -> Result<Found, Box<dyn std::error::Error>> {
    let mut declaration = declare("page", "file", config);
    let wanted = wanted.iter().map(|name| (*name).to_owned()).collect();
    declaration.wanted = Wanted::Attributes(wanted);
    look(&builtin(), &declaration).await
}

fn valid(found: Found) -> Result<Value, String> {
    match found {
        Found::Valid(state) => Ok(state),
        other => Err(format!("{other:?}")),
    }
}

fn stale(found: Found) -> Result<Stale, String> {
    match found {
        Found::Stale(amiss) => Ok(amiss),
        other => Err(format!("{other:?}")),
    }
}

fn keys(state: &Value) -> Vec<&str> {
    state.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

#[tokio::test]
async fn a_file_whose_content_is_not_declared_is_not_read() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("log");
    File::create(&path)?.set_len(HUGE)?;

    let state = valid(check(json!({"path": path}), &[]).await?)?;
    assert_eq!(keys(&state), ["path", "state", "mode", "owner", "group"]);

    let state = valid(check(json!({"path": path}), &["size"]).await?)?;
    assert_eq!(state["size"], HUGE);
    Ok(())
}

#[tokio::test]
async fn a_file_of_another_size_than_its_content_is_stale_unread() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    File::create(&path)?.set_len(HUGE)?;

    let stale = stale(check(json!({"path": path, "content": "new"}), &["sha256"]).await?)?;

    assert_eq!(stale.current.as_ref().map(|state| &state["sha256"]), Some(&Value::Null));
    let difference = &stale.differences[0];
    assert_eq!(difference.old, format!("{HUGE} bytes"));
    assert!(difference.new.as_str().is_some_and(|new| new.starts_with("3 bytes, sha256 ")));
    assert_eq!((stale.differences.len(), &difference.text), (1, &None));
    Ok(())
}

#[tokio::test]
async fn a_large_file_is_compared_to_its_last_byte() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    let content = "line\n".repeat(100_000);
    std::fs::write(&path, content.replacen("line", "Line", 1))?;
    drop(stale(check(json!({"path": path, "content": content}), &[]).await?)?);

    std::fs::write(&path, &content)?;

    let state = valid(check(json!({"path": path, "content": content}), &[]).await?)?;
    assert_eq!(state["size"], content.len());
    assert_eq!(state["sha256"].as_str().map(str::len), Some(64));
    Ok(())
}

#[tokio::test]
async fn the_digest_of_a_file_whose_content_is_not_declared_is_made_for_who_uses_it() -> TestResult
{
    let folder = tempdir()?;
    let path = folder.path().join("page");
    std::fs::write(&path, "x")?;

    let state = valid(check(json!({"path": path, "mode": "0644"}), &["sha256"]).await?)?;

    let digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    assert_eq!(state["sha256"], digest);
    assert_eq!(state.get("size"), None);
    Ok(())
}
