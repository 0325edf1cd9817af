//! The kind `exec`: its guards, output, environment, timeout and end.

use std::path::Path;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::run::apply;
use crankcase_resources::{ApplyOptions, Halt, Outcome};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::support::{TestResult, apply_builtin, declare, declare_with, failure};

/// A bound for what would otherwise hang; nothing waits for it.
const HANGS: Duration = Duration::from_secs(300);

fn shell(line: &str) -> Value {
    json!({"shell": true, "command": line})
}

fn with(mut config: Value, attribute: &str, value: impl Into<Value>) -> Value {
    config[attribute] = value.into();
    config
}

fn make_fifo(path: &Path) -> TestResult {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

#[tokio::test]
async fn a_command_without_a_guard_runs_once_per_apply() -> TestResult {
    let folder = tempdir()?;
    let line = format!("echo x >> {}/log", folder.path().display());

    for count in 1..=2 {
        let account = apply_builtin(&[declare("add", "exec", shell(&line))]).await?;
        assert_eq!(account.changes(), 1);
        assert_eq!(std::fs::read_to_string(folder.path().join("log"))?, "x\n".repeat(count));
    }
    Ok(())
}

#[tokio::test]
async fn guards_keep_a_command_from_running() -> TestResult {
    for (guard, value, runs) in [
        ("creates", "/", false),
        ("unless", "true", false),
        ("onlyif", "true", true),
        ("onlyif", "false", false),
    ] {
        let config = with(shell("true"), guard, value);
        let account = apply_builtin(&[declare("guarded", "exec", config)]).await?;
        assert_eq!(
            (account.changes(), account.failures()),
            (usize::from(runs), 0),
            "{guard} {value}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_command_that_does_not_reach_its_goal_has_failed() -> TestResult {
    let folder = tempdir()?;
    let missing = folder.path().join("missing").display().to_string();
    let declarations = [
        declare("creates", "exec", with(shell("true"), "creates", missing)),
        declare("unless", "exec", with(shell("true"), "unless", "false")),
    ];

    let account = apply_builtin(&declarations).await?;

    for name in ["creates", "unless"] {
        assert!(failure(&account, name).contains("still not as declared"), "{account}");
    }
    Ok(())
}

#[tokio::test]
async fn a_guard_that_cannot_be_run_is_an_error_and_not_an_answer() -> TestResult {
    let config = json!({"command": ["true"], "unless": ["/no/such/program"]});
    let killed = with(shell("true"), "onlyif", "kill -9 $$");

    let account =
        apply_builtin(&[declare("missing", "exec", config), declare("killed", "exec", killed)])
            .await?;

    assert!(failure(&account, "missing").contains("guard unless: cannot run \"/no/such/program\""));
    assert!(failure(&account, "killed").contains("guard onlyif was ended by signal 9"));
    Ok(())
}

#[tokio::test]
async fn an_exit_code_fails_the_resource_and_keeps_its_output() -> TestResult {
    let declarations = [declare("bad", "exec", shell("echo out; echo err >&2; exit 3"))];

    let account = apply_builtin(&declarations).await?;

    let text = failure(&account, "bad");
    assert!(text.contains("the command exited with code 3"), "{text}");
    assert!(text.contains("| out\n      | err"), "{text}");
    Ok(())
}

#[tokio::test]
async fn dependents_see_what_a_command_wrote() -> TestResult {
    let declarations = [
        declare("date", "exec", json!({"command": ["printf", "today"]})),
        declare_with("print", "print", json!({}), ("message", "date", "stdout")),
    ];

    let account = apply_builtin(&declarations).await?;

    assert_eq!(account.get("print").unwrap().done[0].log, ["today"]);
    Ok(())
}

#[tokio::test]
async fn an_output_that_was_cut_or_is_no_text_is_in_no_config() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("copy");
    let large = "head -c 200000 /dev/zero | tr '\\0' x";
    let cut = |most: usize| format!("it has more than the {most} bytes of max_output");
    let cases = [
        (shell(large), "stdout", Some(cut(131_072))),
        (shell(&format!("({large}) >&2")), "stderr", Some(cut(131_072))),
        (shell(&format!("({large}) >&2")), "stdout", None),
        (with(shell("printf 12345"), "max_output", 4), "stdout", Some(cut(4))),
        (with(shell("printf 12345"), "max_output", 5), "stdout", None),
        (with(shell(large), "max_output", 200_000), "stdout", None),
        (shell(r"printf 'a\377'"), "stdout", Some("it is not UTF-8".to_owned())),
        // As text it would have more bytes than it has.
        (
            with(shell(r"printf 'a\377'"), "max_output", 2),
            "stdout",
            Some("it is not UTF-8".to_owned()),
        ),
        (shell(r"printf 'a\377' >&2"), "stdout", None),
    ];

    for (config, output, why) in cases {
        let declarations = [
            declare("it", "exec", config.clone()),
            declare_with("copy", "file", json!({"path": path}), ("content", "it", output)),
        ];
        let account = apply_builtin(&declarations).await?;

        let Some(why) = why else {
            assert_eq!(account.failures(), 0, "{account}");
            std::fs::remove_file(&path)?;
            continue;
        };
        let expected = format!("site.yaml:1:1: content: it.{output} cannot be used: {why}");
        assert!(failure(&account, "copy").contains(&expected), "{config}: {account}");
        assert!(!path.exists());
        assert_eq!(account.get("it").map(|it| &it.outcome), Some(&Outcome::Changed));
    }
    Ok(())
}

#[tokio::test]
async fn of_a_large_output_whole_lines_of_both_ends_are_logged() -> TestResult {
    let config = with(shell("seq 1 100000"), "max_output", 1_000_000);

    let account = apply_builtin(&[declare("it", "exec", config)]).await?;

    let log = &account.get("it").unwrap().done[0].log;
    assert_eq!((log[0].as_str(), log[log.len() - 1].as_str()), ("1", "100000"));
    let middle = log.iter().filter(|line| line.parse::<u32>().is_err());
    let middle: Vec<_> = middle.map(String::as_str).collect();
    assert_eq!(middle, ["... the middle of the output is left out ..."]);
    assert!(log.iter().map(|line| line.len() + 1).sum::<usize>() <= 66_000);
    Ok(())
}

#[tokio::test]
async fn arguments_are_not_read_by_a_shell() -> TestResult {
    let config = json!({"command": ["printf", "%s", "$HOME; `id` *"]});

    let account = apply_builtin(&[declare("say", "exec", config)]).await?;

    assert_eq!(account.get("say").unwrap().done[0].log, ["$HOME; `id` *"]);
    Ok(())
}

#[tokio::test]
async fn only_path_home_lang_and_what_is_given_is_in_the_environment() -> TestResult {
    let config = json!({"command": ["env"], "env": {"GIVEN": "x"}, "cwd": "/"});

    let account = apply_builtin(&[declare("env", "exec", config)]).await?;

    let log = &account.get("env").unwrap().done[0].log;
    let allowed = ["PATH=", "HOME=", "LANG=", "GIVEN=x"];
    assert!(
        log.iter().all(|line| allowed.iter().any(|allowed| line.starts_with(allowed))),
        "{log:?}"
    );
    assert!(log.contains(&"GIVEN=x".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_missing_folder_to_run_in_is_named() -> TestResult {
    let config = json!({"command": ["true"], "cwd": "/no/such"});

    let account = apply_builtin(&[declare("lost", "exec", config)]).await?;

    assert!(failure(&account, "lost").contains(r#"folder "/no/such" to run in does not exist"#));
    Ok(())
}

#[tokio::test]
async fn output_is_bounded_and_need_not_be_text() -> TestResult {
    let line = r"printf 'first\377\n'; head -c 1000000 /dev/zero | tr '\0' x; echo; echo last";

    let account = apply_builtin(&[declare("flood", "exec", shell(line))]).await?;

    let log = account.get("flood").unwrap().done[0].log.join("\n");
    assert!(log.len() < 66_000, "{}", log.len());
    assert!(log.starts_with("first\u{fffd}\n") && log.ends_with("\nlast"));
    assert!(log.contains("bytes are left out"));
    Ok(())
}

#[tokio::test]
async fn an_error_is_kept_whatever_the_other_output_holds() -> TestResult {
    let zeros = "head -c 70000 /dev/zero; printf 'IMPORT%s' ANT >&2; exit 1";
    let no_text = r"noise() { head -c 70000 /dev/zero | tr '\0' '\377'; }; noise; noise >&2; echo >&2
        printf 'IMPORT%s' ANT >&2; exit 1";

    for line in [zeros, no_text] {
        let account = apply_builtin(&[declare("bad", "exec", shell(line))]).await?;

        let account = failure(&account, "bad");
        assert!(account.contains("IMPORTANT"), "{line}");
        assert!(!account.contains("were dropped"), "{line}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_command_leaves_behind_does_not_hold_it_up() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo)?;
    // The child keeps the output open for as long as nobody writes to the FIFO.
    let line = format!("cat {} & echo started", fifo.display());
    let declarations = [declare("daemon", "exec", shell(&line))];

    let account = tokio::time::timeout(HANGS, apply_builtin(&declarations)).await??;

    assert_eq!(account.get("daemon").unwrap().done[0].log, ["started"]);
    drop(pipe::OpenOptions::new().read_write(true).open_sender(&fifo)?);
    Ok(())
}

/// Runs a line whose processes all hold a FIFO open, and returns once they have all ended.
async fn run_to_the_last_process(
    config: Value,
    fifo: &Path,
) -> Result<String, Box<dyn std::error::Error>> {
    make_fifo(fifo)?;
    let mut reader = pipe::OpenOptions::new().open_receiver(fifo)?;
    let declarations = [declare("slow", "exec", config)];
    let kinds = builtin();
    let (stopper, stop) = Stop::pair();
    let is_stopped = async {
        let mut first = [0];
        reader.read_exact(&mut first).await?;
        stopper.stop();
        reader.read_to_end(&mut Vec::new()).await
    };
    let options = ApplyOptions::default();
    let both = async { tokio::join!(apply(&declarations, &kinds, &options, stop), is_stopped) };
    let (account, read) = tokio::time::timeout(HANGS, both).await?;
    read?;
    let account = account?;
    let outcome = &account.resources[0].outcome;
    assert!(matches!(outcome, Outcome::Halted { at: Some(_), by: Halt::Stop }), "{account}");
    Ok(account.to_string())
}

#[tokio::test]
async fn a_stop_ends_the_whole_process_group() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    let line = format!("exec 3>{}; sleep 1000 & echo >&3; wait", fifo.display());

    let end = run_to_the_last_process(shell(&line), &fifo).await?;

    assert!(end.contains("slow (exec) is unfinished: apply was told to stop"), "{end}");
    assert!(!end.contains(" | "), "it has written nothing: {end}");
    Ok(())
}

#[tokio::test]
async fn a_command_that_is_ended_may_clean_up() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    let trap = "trap 'echo cleaned up; exit' TERM";
    let line = format!("{trap}; exec 3>{}; sleep 1000 & echo >&3; wait", fifo.display());

    let end = run_to_the_last_process(shell(&line), &fifo).await?;

    assert!(end.contains("| cleaned up"), "{end}");
    Ok(())
}

#[tokio::test]
async fn a_group_that_ignores_term_is_killed() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    let line = format!("trap '' TERM; exec 3>{}; sleep 1000 & echo >&3; wait", fifo.display());

    let end = run_to_the_last_process(with(shell(&line), "grace", "50ms"), &fifo).await?;

    assert!(end.contains("slow (exec) is unfinished: apply was told to stop"), "{end}");
    Ok(())
}

#[tokio::test]
async fn what_ignores_term_is_killed_also_when_its_leader_has_ended() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    let child = "(trap '' TERM; echo >&3; exec sleep 1000)";
    let line = format!("exec 3>{}; {child} & wait", fifo.display());

    let end = run_to_the_last_process(shell(&line), &fifo).await?;

    assert!(end.contains("slow (exec) is unfinished: apply was told to stop"), "{end}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_command_that_takes_too_long_is_ended() -> TestResult {
    let folder = tempdir()?;
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo)?;
    let line = format!("echo out; echo err >&2; echo >{}; sleep 1000", fifo.display());
    let config = with(with(shell(&line), "timeout", "50ms"), "grace", "1s");
    let declarations = [declare("slow", "exec", config)];
    // A paused clock stands while a thread blocks: this one does until the command has written.
    let written = tokio::task::spawn_blocking(move || std::fs::read(fifo));
    let resumed = async {
        let written = written.await;
        tokio::time::resume();
        written
    };

    let both = async { tokio::join!(apply_builtin(&declarations), resumed) };
    let (account, written) = tokio::time::timeout(HANGS, both).await?;

    written??;
    let account = account?;
    let text = failure(&account, "slow");
    assert!(text.contains("it took longer than 50ms and was ended"), "{text}");
    assert!(text.ends_with("\n      | out\n      | err\n"), "{text}");
    Ok(())
}
