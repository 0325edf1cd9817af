//! Files whose new content a command validates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::Config;
use crankcase_resources::run::apply;
use crankcase_resources::state::Records;
use crankcase_resources::{Account, ApplyOptions, Facilities, Halt, Outcome};
use crankcase_workers::Secrets;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::Builder;

use crate::support::{
    TestResult, apply_builtin, apply_with, declare, failure, names, plan_builtin,
};

/// A bound for what would otherwise hang; nothing waits for it.
const HANGS: Duration = Duration::from_secs(60);

async fn apply_file(config: Value) -> Result<Account, Box<dyn std::error::Error>> {
    apply_builtin(&[declare("it", "file", config)]).await
}

/// Returns a new content for a path, which a line for a shell validates; `$1` is the new file.
fn validated(path: &Path, line: &str) -> Value {
    json!({"path": path, "content": "new", "validate": ["sh", "-c", line, "sh", "%s"]})
}

/// Returns what is wrong with a config of a file.
fn errors(config: Value) -> Vec<String> {
    let config: Config = serde_json::from_value(config).expect("a config is a map");
    match builtin().get("file").expect("it is built in").make(&config) {
        Ok(resource) => panic!("{resource:?} is valid"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

fn make_fifo(path: &Path) -> TestResult {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

#[tokio::test]
async fn a_command_sees_the_new_file_whole_while_the_old_one_is_in_place() -> TestResult {
    let (folder, beside) = (tempdir()?, tempdir()?);
    let (path, seen) = (folder.path().join("page"), beside.path().join("seen"));
    fs::write(&path, "old")?;
    let script = beside.path().join("validate");
    let look = "#!/bin/sh\n{ cat \"$1\"; echo; cat \"$2\"; echo; stat -c %a \"$1\"; \
                dirname \"$1\"; } > \"$3\"\n";
    fs::write(&script, look)?;
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755))?;
    let config = json!({
        "path": path, "content": "new", "mode": "0640",
        "validate": [script, "%s", path, seen],
    });

    let account = apply_file(config).await?;

    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    let expected = format!("new\nold\n640\n{}\n", folder.path().display());
    assert_eq!(fs::read_to_string(&seen)?, expected);
    assert_eq!(fs::read_to_string(&path)?, "new");
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

#[tokio::test]
async fn a_refused_file_leaves_the_old_one_and_ends_the_error_with_the_last_lines() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;

    for (line, said) in [
        ("echo out; echo first >&2; echo wrong in line 7 >&2; exit 3", "first / wrong in line 7"),
        ("echo only the stdout; exit 3", "only the stdout"),
    ] {
        let account = apply_file(validated(&path, line)).await?;

        let text = failure(&account, "it");
        let why =
            format!(r#""sh" refused the new content: it exited with code 3; it said last: {said}"#);
        assert!(text.contains(&why), "{text}");
        assert_eq!(fs::read_to_string(&path)?, "old");
        assert_eq!(names(folder.path())?, ["page"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_new_file_that_is_refused_is_not_made() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");

    let account = apply_file(validated(&path, "exit 1")).await?;

    let text = failure(&account, "it");
    assert!(text.contains(r#""sh" refused the new content: it exited with code 1"#), "{text}");
    assert!(!text.contains("it said last"), "{text}");
    assert_eq!(names(folder.path())?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn the_path_of_the_new_file_may_be_a_part_of_an_argument() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    let config = |word: &str| {
        let line = format!("grep -q {word} '%s' && grep -q {word} \"%s\"");
        json!({"path": path, "content": "new", "validate": ["sh", "-c", line]})
    };

    let refused = apply_file(config("old")).await?;
    let account = apply_file(config("new")).await?;

    assert!(failure(&refused, "it").contains("refused the new content"), "{refused}");
    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    Ok(())
}

#[tokio::test]
async fn a_command_that_cannot_be_started_leaves_the_old_file() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;
    let config = json!({"path": path, "content": "new", "validate": ["/no/such/program", "%s"]});

    let account = apply_file(config).await?;

    let text = failure(&account, "it");
    let why = r#"cannot validate the new content: cannot run "/no/such/program""#;
    assert!(text.contains(why), "{text}");
    assert_eq!(fs::read_to_string(&path)?, "old");
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

#[tokio::test]
async fn what_a_command_says_of_a_secret_is_hidden() -> TestResult {
    let (folder, state) = (tempdir()?, tempdir()?);
    let path = folder.path().join("page");
    let secrets = Secrets::default();
    secrets.add("hunter2");
    let line = "echo password is hunter2; echo password is hunter2 >&2; exit 1";
    let facilities = Facilities::open(state.path(), Records::default()).hiding(&secrets);
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let declarations = [declare("it", "file", validated(&path, line))];

    let account = apply_with(&declarations, &builtin(), &options).await?;

    let text = failure(&account, "it");
    assert!(text.contains("it said last: password is (sensitive)"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    Ok(())
}

#[tokio::test]
async fn nothing_is_validated_in_a_plan_or_without_a_new_content() -> TestResult {
    let (folder, beside) = (tempdir()?, tempdir()?);
    let (path, ran) = (folder.path().join("page"), beside.path().join("ran"));
    let config = validated(&path, &format!("echo x >> {}", ran.display()));
    let mode = |mode: &str| {
        let mut config = config.clone();
        config["mode"] = mode.into();
        config
    };

    let plan = plan_builtin(&[declare("it", "file", config.clone())]).await?;
    assert_eq!((plan.changes(), ran.exists()), (1, false), "{plan}");

    for (config, changes) in [(config.clone(), 1), (config.clone(), 0), (mode("0600"), 1)] {
        let account = apply_file(config).await?;
        assert_eq!((account.changes(), account.failures()), (changes, 0), "{account}");
        assert_eq!(fs::read_to_string(&ran)?, "x\n");
    }
    Ok(())
}

/// Returns a line whose processes hold a FIFO open, write a byte to it, and do not end.
fn endless(fifo: &Path) -> String {
    format!("exec 3>{}; sleep 1000 & echo >&3; wait", fifo.display())
}

#[tokio::test]
async fn a_stop_ends_the_command_with_its_children_and_removes_the_new_file() -> TestResult {
    let (folder, beside) = (tempdir()?, tempdir()?);
    let (path, fifo) = (folder.path().join("page"), beside.path().join("fifo"));
    fs::write(&path, "old")?;
    make_fifo(&fifo)?;
    let mut reader = pipe::OpenOptions::new().open_receiver(&fifo)?;
    let declarations = [declare("it", "file", validated(&path, &endless(&fifo)))];
    let (kinds, options) = (builtin(), ApplyOptions::default());
    let (stopper, stop) = Stop::pair();

    let stopped = async {
        let mut first = [0];
        reader.read_exact(&mut first).await?;
        stopper.stop();
        reader.read_to_end(&mut Vec::new()).await
    };
    let both = async { tokio::join!(apply(&declarations, &kinds, &options, stop), stopped) };
    let (account, read) = tokio::time::timeout(HANGS, both).await?;

    read?;
    let account = account?;
    let outcome = &account.resources[0].outcome;
    assert!(matches!(outcome, Outcome::Halted { at: Some(_), by: Halt::Stop }), "{account}");
    assert_eq!(fs::read_to_string(&path)?, "old");
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

// The clock stands while a thread waits for the validation: it is only moved by the test.
#[tokio::test(start_paused = true)]
async fn a_command_that_takes_longer_than_30_s_is_ended_with_its_children() -> TestResult {
    let (folder, beside) = (tempdir()?, tempdir()?);
    let (path, fifo) = (folder.path().join("page"), beside.path().join("fifo"));
    fs::write(&path, "old")?;
    make_fifo(&fifo)?;
    let mut reader = pipe::OpenOptions::new().open_receiver(&fifo)?;

    let late = async {
        let mut first = [0];
        reader.read_exact(&mut first).await?;
        tokio::time::advance(Duration::from_secs(31)).await;
        reader.read_to_end(&mut Vec::new()).await
    };
    let (account, read) = tokio::join!(apply_file(validated(&path, &endless(&fifo))), late);

    read?;
    let account = account?;
    let text = failure(&account, "it");
    let why = "cannot validate the new content: it took longer than 30s and was ended";
    assert!(text.contains(why), "{text}");
    assert_eq!(fs::read_to_string(&path)?, "old");
    assert_eq!(names(folder.path())?, ["page"]);
    Ok(())
}

#[test]
fn many_files_are_validated_on_a_runtime_with_four_threads() -> TestResult {
    let (folder, state) = (tempdir()?, tempdir()?);
    let declarations = (0..16).map(|number| {
        let (name, path) = (format!("it-{number}"), folder.path().join(number.to_string()));
        declare(&name, "file", validated(&path, "test -s \"$1\""))
    });
    let declarations: Vec<_> = declarations.collect();
    // On record while it runs, a command needs a thread to begin.
    let facilities = Facilities::open(state.path(), Records::default());
    let (kinds, options) = (builtin(), ApplyOptions { facilities, ..ApplyOptions::default() });
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;

    let account = runtime.block_on(async {
        let applying = apply_with(&declarations, &kinds, &options);
        tokio::time::timeout(HANGS, applying).await
    })??;

    assert_eq!((account.changes(), account.failures()), (16, 0), "{account}");
    Ok(())
}

#[test]
fn a_validation_that_could_never_run_is_refused_when_it_is_loaded() {
    let validate = json!(["test", "-s", "%s"]);
    let file = json!({"path": "/x", "content": "x"});
    let with = |config: &Value, more: Value| {
        let maps = [config, &more].map(|map| map.as_object().cloned().unwrap_or_default());
        Value::Object(maps.into_iter().flatten().collect())
    };

    for (config, why) in [
        (json!({"path": "/x/"}), "a folder has no content that could be validated"),
        (
            json!({"path": "/x", "state": "absent"}),
            "what is absent has no content that could be validated",
        ),
        (
            json!({"path": "/x"}),
            "there is no content to validate; give content, source or template as well",
        ),
        (
            with(&file, json!({"in_place": true})),
            "with in_place: true there is no new file that could be validated",
        ),
        (
            with(&file, json!({"stop_first": ["true"]})),
            "stop_first would stop the program before it is known whether the content is valid; give \
             only one of the two",
        ),
    ] {
        let config = with(&config, json!({"validate": validate}));
        assert_eq!(errors(config), [format!("validate: {why}")]);
    }
    for words in [json!(["test"]), json!(["%s"]), json!(["test", "-s", "% s"])] {
        let said = errors(with(&file, json!({"validate": words})));
        assert!(said[0].starts_with("validate: none of its arguments has %s"), "{said:?}");
    }
    assert_eq!(
        errors(with(&file, json!({"validate": "test -s %s"}))),
        [
            r#"validate: "test -s %s" is a line for a shell; write a list as ["sh", "-c", "the line"]"#
        ]
    );
}
