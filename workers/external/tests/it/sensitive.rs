//! Attributes of configs that a type declares as sensitive, before its first good look.

use crankcase_engine::Stop;
use crankcase_resources::state::{Records, Topic};
use crankcase_resources::{ApplyOptions, Facilities};

use crate::world::{TestResult, World};

const SECRET: &str = "hunter2-hunter2";

/// A type whose look, or action, does this with the secret of its config.
fn telling(check: &str, act: &str) -> String {
    format!(
        r#"#!/bin/sh
secret=$(sed -n 's/^ *"password": "\(.*\)",\{{0,1\}}$/\1/p')
case ${{1-init}} in
init) echo '{{"protocol": 1, "sensitive": {{"config": ["/login/password"]}},
  "config_schema": {{"properties": {{"login": {{"properties": {{"password": {{"type": "string", "maxLength": 20}}}}}}}}}},
  "calls": {{"check": {{"args": ["check"]}}}}}}' ;;
check) {check} ;;
act) {act} ;;
esac
"#
    )
}

fn site(secret: &str) -> String {
    format!(
        "resources: {{r1: {{type: \"program:./it\", config: {{login: {{password: {secret}}}}}}}}}\n"
    )
}

#[tokio::test]
async fn a_secret_is_hidden_whatever_a_look_or_an_action_says() -> TestResult {
    let stale = r#"echo '{"status": "STALE", "actions": [{"name": "a", "args": ["act"]}]}'"#;
    for (check, act) in [
        ("echo no $secret >&2; exit 1", ""),
        ("echo {broken $secret", ""),
        ("echo $secret", ""),
        (r#"echo '{"status": "VALID", "state": {}, "x'$secret'": 1}'"#, ""),
        (r#"echo '{"status": "'$secret'"}'"#, ""),
        (r#"printf '\377 %s' $secret"#, ""),
        ("echo $secret >&2; kill -9 $$", ""),
        (stale, "echo got $secret; echo and $secret >&2; exit 3"),
        (stale, "echo got $secret"),
    ] {
        let world = World::new(&site(SECRET), &telling(check, act))?;

        let (account, events) = world.apply().await?;

        let shown = format!("{account}{}", serde_json::to_string(&(&account, &events))?);
        assert_eq!(account.failures(), 1, "{check}: {shown}");
        assert!(!shown.contains(SECRET), "{check}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn a_secret_with_a_quote_is_hidden_in_an_answer_that_is_no_json() -> TestResult {
    let check = r#"printf '{broken %s' "$secret""#;
    let world = World::new(&site("'hun\"ter2-long'"), &telling(check, ""))?;

    let (account, events) = world.apply().await?;

    let shown = format!("{account}{}", serde_json::to_string(&(&account, &events))?);
    assert_eq!(account.failures(), 1, "{shown}");
    assert!(shown.contains("(sensitive)") && !shown.contains("ter2-long"), "{shown}");
    Ok(())
}

#[test]
fn a_secret_that_is_written_with_escapes_is_in_no_line_of_an_error() -> TestResult {
    for secret in [
        "'hunter2-''hunter2-hunter2'",
        r#""hunter2-\u0068unter2-hunter2""#,
        r#""hunter2-\x68unter2-hunter2""#,
        r#""hunter2-\"hunter2-hunter2""#,
        r#""hunter2-\thunter2-hunter2""#,
    ] {
        let world = World::new(&site(secret), &telling("exit 1", ""))?;

        let error = world.files().load().err().ok_or("it was loaded")?;

        let text = error.to_string();
        assert!(text.contains("is longer than 20") && !text.contains("unter2"), "{secret}: {text}");
    }
    Ok(())
}

#[test]
fn a_secret_that_breaks_the_schema_is_nowhere_in_the_error() -> TestResult {
    let secret = "hunter2-hunter2-hunter2";
    let world = World::new(&site(secret), &telling("exit 1", ""))?;

    let error = world.files().load().err().ok_or("it was loaded")?;

    // With the line of the manifest.
    let text = error.to_string();
    let shown: Vec<_> = error.problems().iter().map(|problem| problem.message.clone()).collect();
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].contains("is longer than 20"), "{shown:?}");
    assert!(!text.contains(secret) && text.contains("password: (sensitive)"), "{text}");
    Ok(())
}

/// Applies a site in a state folder. Returns how many configs are on record then.
async fn recorded(site: &str) -> TestResult<usize> {
    let check = r#"echo '{"status": "VALID", "state": {}}'"#;
    let (world, state) = (World::new(site, &telling(check, ""))?, tempfile::tempdir()?);
    let records = Records::default();
    let facilities = Facilities::open(state.path(), records.clone());
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();

    let account = world.files().load()?.apply(&options, stop).await;

    assert_eq!(account.failures(), 0, "{account}");
    let is_config = |topic: Topic| topic == Topic::LastGood;
    Ok(records.look(|loaded| loaded.documents.iter().filter(|it| is_config(it.topic)).count()))
}

#[tokio::test]
async fn a_config_with_a_secret_is_not_on_record_however_short_the_secret_is() -> TestResult {
    let open = "resources: {r1: {type: \"program:./it\", config: {login: {user: '123'}}}}\n";

    assert_eq!(recorded(open).await?, 1);
    assert_eq!(recorded(&site("'123'")).await?, 0);
    Ok(())
}
