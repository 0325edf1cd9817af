//! The built-in kinds, and what they say of wrong configs.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Config, Found, KnownConfig};
use crankcase_resources::run::apply;
use crankcase_resources::{ApplyOptions, Halt, Outcome};
use crankcase_workers::{HealthCheck, HealthProbe, Readiness, Reload, StopSignal};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{TestResult, apply_builtin, declare, look, names, plan_builtin};

fn errors(kind: &str, config: Value) -> Vec<String> {
    let config: Config = serde_json::from_value(config).expect("a config is a map");
    match builtin().get(kind).expect("it is built in").make(&config) {
        Ok(resource) => panic!("{resource:?} is valid"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn builtin_kinds_are_listed_in_order() {
    let kinds = builtin();

    assert_eq!(kinds.names().collect::<Vec<_>>(), ["exec", "file", "noop", "print", "process"]);
}

#[test]
fn only_a_process_is_supervised() {
    let kinds = builtin();

    let is_supervised = |name: &&str| kinds.get(name).is_ok_and(|kind| kind.is_supervised());
    assert_eq!(kinds.names().filter(is_supervised).collect::<Vec<_>>(), ["process"]);
}

#[test]
fn an_unknown_kind_is_answered_with_the_nearest() {
    let error = builtin().get("fiel").unwrap_err();

    assert_eq!(error.to_string(), r#"there is no type "fiel"; did you mean "file"?"#);
}

#[tokio::test]
async fn what_is_declared_of_a_state_is_what_a_check_reports() -> TestResult {
    let folder = tempdir()?;
    std::fs::create_dir(folder.path().join("www"))?;
    std::fs::write(folder.path().join("page"), "")?;
    let path = folder.path().display();
    for (kind, config, names) in [
        ("file", json!({"path": format!("{path}//www//")}), "path"),
        ("file", json!({"path": format!("/{path}/page"), "state": "exists"}), "path"),
        ("file", json!({"path": format!("{path}/none"), "state": "absent"}), "path"),
        ("process", json!({"command": ["sleep", "1"]}), "command"),
        ("print", json!({"message": "hi"}), "message"),
        ("exec", json!({"command": ["true"], "onlyif": ["false"]}), ""),
        ("noop", json!({"any": 1}), ""),
    ] {
        let config: Config = serde_json::from_value(config)?;
        let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };

        let declared = builtin().judge(kind, &known).declared;
        let declaration = declare(kind, kind, Value::Object(config));
        let found = look(&builtin(), &declaration).await?;

        assert_eq!(declared.keys().map(String::as_str).collect::<String>(), names, "{kind}");
        let state = match found {
            Found::Valid(state) => state,
            Found::Stale(amiss) => {
                let differences = amiss.differences.into_iter();
                differences.map(|difference| (difference.attribute, difference.new)).collect()
            }
            found => return Err(format!("{found:?}").into()),
        };
        assert!(declared.iter().all(|(name, value)| state[name] == *value), "{state}");
    }
    Ok(())
}

#[test]
fn all_errors_of_a_config_come_at_once() {
    let config =
        json!({"path": "srv", "mode": 420, "contend": "x", "owner": true, "state": "absend"});

    assert_eq!(
        errors("file", config),
        [
            r#"contend: there is no such attribute; did you mean "content"?"#,
            r#"path: "srv" is not absolute; begin it with /"#,
            r#"mode: 420 is a number; quote it and write it in octal, as "0644""#,
            "owner: true is neither a name nor an id",
            r#"state: "absend" is not known; did you mean "absent"?"#,
        ]
    );
}

#[test]
fn a_file_has_at_most_one_source_of_content_and_a_folder_none() {
    let twice = json!({"path": "/x", "content": "", "template": "x.j2"});
    let folder = json!({"path": "/x/", "source": "x"});

    assert_eq!(errors("file", twice), ["template: only one of content, template can be given"]);
    assert_eq!(
        errors("file", folder),
        ["source: a folder has none; take the / from the end of the path for a file"]
    );
}

#[test]
fn a_line_for_a_shell_is_answered_with_what_the_kind_takes() {
    let line = json!({"command": "sleep 1"});

    assert_eq!(
        errors("process", line.clone()),
        [r#"command: "sleep 1" is a line for a shell; write a list as ["sh", "-c", "the line"]"#]
    );
    let list = r#"write a list as ["program", "argument"], or set shell: true"#;
    assert_eq!(
        errors("exec", line),
        [format!(r#"command: "sleep 1" is a line for a shell; {list}"#)]
    );
}

#[test]
fn a_variable_that_is_no_text_is_named() {
    let env = json!({"A": "x", "PORT": 8080, "ON": true});

    let help = "is not a text; quote it, or add `| string` to an expression";
    let expected =
        [format!(r#"env: 8080 of "PORT" {help}"#), format!(r#"env: true of "ON" {help}"#)];
    let mut said = errors("process", json!({"command": ["x"], "env": env}));
    said.sort();
    assert_eq!(said, expected);
    assert_eq!(
        errors("process", json!({"command": ["x"], "env": ["A=x"]})),
        [r#"env: ["A=x"] is not a map from names to texts"#]
    );
}

#[test]
fn a_signal_may_be_meant_by_its_long_name() {
    assert_eq!(
        errors("process", json!({"command": ["x"], "stop_signal": "SIGTERM"})),
        [r#"stop_signal: "SIGTERM" is not known; did you mean "TERM"?"#]
    );
}

#[test]
fn bad_paths_and_modes_are_refused() {
    for path in ["", "x", "/x/../y", "/./x", "/", "/a\0b"] {
        let errors = errors("file", json!({"path": path}));
        assert!(errors[0].starts_with("path: "), "{path:?}: {errors:?}");
    }
    assert!(errors("file", json!({"path": format!("/{}", "x".repeat(256))}))[0].contains("255"));
    for mode in ["", "8", "+644", "64", "00644", "u=rw", "17777", "0o644"] {
        let errors = errors("file", json!({"path": "/x", "mode": mode}));
        assert!(errors[0].starts_with("mode: "), "{mode:?}: {errors:?}");
    }
}

#[test]
fn what_holds_a_nul_can_be_no_command_and_no_path() {
    let config = json!({
        "shell": true, "command": "a\0b", "unless": "c\0", "creates": "/d\0", "cwd": "/e\0"
    });
    let wrong = |attribute| format!("{attribute}: contains a NUL character");

    let found = errors("exec", config);

    assert_eq!(found, ["command", "creates", "unless", "cwd"].map(wrong));
    assert_eq!(errors("process", json!({"command": ["a", "b\0"]})), [wrong("command")]);
}

#[test]
fn a_command_that_is_a_line_asks_for_a_shell() {
    assert_eq!(
        errors("exec", json!({"command": "echo a"})),
        [
            r#"command: "echo a" is a line for a shell; write a list as ["program", "argument"], or set shell: true"#
        ]
    );
    assert_eq!(errors("exec", json!({"command": []})), ["command: names no program"]);
    assert_eq!(
        errors("exec", json!({"command": ["a"], "timeout": 5})),
        [r#"timeout: 5 is not a duration; write one as "30s""#]
    );
    assert_eq!(
        errors("exec", json!({"command": ["a"], "cwd": "x"})),
        [r#"cwd: "x" is not absolute; begin it with /"#]
    );
}

#[test]
fn a_process_says_where_its_output_goes_and_whether_it_outlives_the_agent() -> TestResult {
    for (word, rate, has_file) in
        [("journal", 1000, false), ("file", u32::MAX, true), ("none", 0, false)]
    {
        let config = json!({"command": ["httpd"], "output": word, "keep": false});
        let config: Config = serde_json::from_value(config)?;

        let resource =
            builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
        let process = resource.program().ok_or("it is no program")?;

        assert!(!process.survives);
        assert_eq!(
            (process.lines_per_second, process.log_file.is_some()),
            (rate, has_file),
            "{word}"
        );
    }
    Ok(())
}

#[test]
fn a_process_is_read_with_its_defaults() -> TestResult {
    let config: Config = serde_json::from_value(json!({"command": ["httpd", "-f"]}))?;

    let resource =
        builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
    let process = resource.program().ok_or("it is no program")?;

    assert_eq!(process.command, ["httpd", "-f"]);
    assert_eq!((process.stop_signal, process.grace.as_secs()), (StopSignal::Terminate, 10));
    assert_eq!(
        (process.survives, process.lines_per_second, &process.log_file),
        (true, 1000, &None)
    );
    assert_eq!(
        errors("process", json!({"command": ["a"], "stop_signal": "TREM"})),
        [r#"stop_signal: "TREM" is not known; did you mean "TERM"?"#]
    );
    Ok(())
}

#[test]
fn a_process_is_ready_by_what_its_config_says() -> TestResult {
    let config: Config = serde_json::from_value(json!({
        "command": ["httpd", "-f"],
        "ready": {"http": "http://localhost:8080/up", "port": null},
        "ready_timeout": "5s",
    }))?;

    let resource =
        builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
    let process = resource.program().ok_or("it is no program")?;

    let address = ([127, 0, 0, 1], 8080).into();
    assert_eq!(process.readiness, Readiness::Http { address, path: "/up".to_owned() });
    assert_eq!(process.ready_timeout, Duration::from_secs(5));
    Ok(())
}

#[test]
fn a_process_may_leave_a_daemon_whose_pid_is_in_a_file() -> TestResult {
    let daemon = json!({"command": ["nginx"], "daemon": {"pid_file": "/run/nginx.pid"}});
    let config: Config = serde_json::from_value(daemon)?;

    let resource =
        builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
    let process = resource.program().ok_or("it is no program")?;

    assert_eq!(process.pid_file.as_deref(), Some(Path::new("/run/nginx.pid")));
    for (daemon, expected) in [
        (json!({}), "daemon: pid_file: is missing"),
        (json!("/run/nginx.pid"), r#"daemon: "/run/nginx.pid" is not a map of pid_file"#),
        (json!({"pid_file": "x"}), r#"daemon: pid_file: "x" is not absolute; begin it with /"#),
    ] {
        assert_eq!(errors("process", json!({"command": ["a"], "daemon": daemon})), [expected]);
    }
    Ok(())
}

#[test]
fn a_process_is_ready_by_one_thing_that_can_come_in_time() {
    let one = "ready: give one of port, http, line, notify, file, after";
    for (ready, expected) in [
        (json!({}), one),
        (json!({"port": 80, "line": "up"}), one),
        (json!({"notify": false}), one),
        (json!(8080), "ready: 8080 is not a map of port, http, line, notify, file, after"),
        (json!({"prt": 80}), r#"ready: prt: there is no such attribute; did you mean "port"?"#),
        (
            json!({"port": 0}),
            r#"ready: port: 0 is neither a port nor an address with one, as "127.0.0.1:8080""#,
        ),
        (json!({"line": ""}), "ready: line: give a text of one line that is not empty"),
        (json!({"after": "2m"}), "ready: after: 2m is not below the ready_timeout of 1m"),
    ] {
        assert_eq!(errors("process", json!({"command": ["a"], "ready": ready})), [expected]);
    }
    let notify = json!({"command": ["a"], "user": "www", "ready": {"notify": true}});
    let socket = "ready: notify: a program with another user cannot reach the agent's socket";
    assert_eq!(errors("process", notify), [socket]);
    let late = json!({"command": ["a"], "ready_timeout": "2days"});
    assert_eq!(errors("process", late), [r#"ready_timeout: "2days" is not between 1ms and 1day"#]);
}

#[test]
fn a_process_reloads_by_a_signal_or_a_command() -> TestResult {
    let command = vec!["nginx".into(), "-s".into(), "reload".into()];
    let timeout = Duration::from_secs(60);
    for (reload, expected) in [
        (json!({"signal": "HUP"}), Reload::Signal(StopSignal::Hangup)),
        (json!({"command": ["nginx", "-s", "reload"]}), Reload::Command { command, timeout }),
    ] {
        let config: Config = serde_json::from_value(json!({"command": ["a"], "reload": reload}))?;
        let resource =
            builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
        let process = resource.program().ok_or("it is no program")?;
        assert_eq!(process.reload.as_ref(), Some(&expected));
    }
    for (reload, expected) in [
        (json!({}), "reload: give one of signal, command"),
        (
            json!({"signal": "TERM"}),
            r#"reload: signal: "TERM" is not known; use one of HUP, USR1, USR2, WINCH"#,
        ),
        (json!({"signal": "HUP", "timeout": "1s"}), "reload: timeout: a signal has none"),
        (json!({"command": []}), "reload: command: names no program"),
    ] {
        assert_eq!(errors("process", json!({"command": ["a"], "reload": reload})), [expected]);
    }
    Ok(())
}

#[test]
fn a_process_is_asked_by_one_thing_whether_it_is_well() -> TestResult {
    let health = json!({"port": 8080, "every": "1m", "failures": 1});
    let config: Config = serde_json::from_value(json!({"command": ["a"], "health": health}))?;

    let resource =
        builtin().get("process")?.make(&config).map_err(|errors| errors[0].to_string())?;
    let process = resource.program().ok_or("it is no program")?;

    let check = HealthCheck::new(HealthProbe::Port(([127, 0, 0, 1], 8080).into()));
    let check = check.every(Duration::from_secs(60)).timeout(Duration::from_secs(5)).failures(1);
    assert_eq!(process.health.as_ref(), Some(&check));
    let one = "health: give one of command, http, port";
    for (health, expected) in [
        (json!({"every": "1s"}), one),
        (json!({"port": 80, "command": ["true"]}), one),
        (json!({"port": 80, "failures": 0}), "health: failures: 0 is not at least 1"),
        (
            json!({"port": 80, "timeout": "2days"}),
            r#"health: timeout: "2days" is not between 1ms and 1day"#,
        ),
    ] {
        assert_eq!(errors("process", json!({"command": ["a"], "health": health})), [expected]);
    }
    Ok(())
}

#[tokio::test]
async fn a_process_is_left_to_run() -> TestResult {
    let declarations = [declare("server", "process", json!({"command": ["false"]}))];

    let plan = plan_builtin(&declarations).await?;
    let account = apply_builtin(&declarations).await?;

    assert_eq!(plan.changes() + account.changes() + account.failures(), 0);
    assert!(plan.to_string().contains("server (process) is supervised by run only"));
    assert!(account.to_string().contains("server (process) is supervised by run only"));
    Ok(())
}

#[tokio::test]
async fn a_message_is_printed_once_per_apply() -> TestResult {
    let declarations = [declare("hello", "print", json!({"message": "hello\u{1b}[31m"}))];

    for _ in 0..2 {
        let account = apply_builtin(&declarations).await?;
        assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
        assert_eq!(account.get("hello").unwrap().done[0].log, ["hello\\u{1b}[31m"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_notified_command_runs_again_and_a_fresh_one_does_not() -> TestResult {
    let mut hello = declare("hello", "print", json!({"message": "x"}));
    hello.notify = ["guarded", "free"].map(str::to_owned).into();
    let guarded = json!({"command": ["true"], "creates": "/"});
    let declarations = [
        hello,
        declare("guarded", "exec", guarded),
        declare("free", "exec", json!({"command": ["true"]})),
    ];

    let account = apply_builtin(&declarations).await?;

    for name in ["guarded", "free"] {
        let done = &account.get(name).unwrap().done;
        assert_eq!(done.iter().filter(|done| done.action.name == "run").count(), 1, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn a_file_of_any_size_does_not_hold_up_the_end() -> TestResult {
    let folder = tempdir()?;
    let large = folder.path().join("large");
    File::create(&large)?.set_len(1 << 40)?;
    let begun = folder.path().join("begun");
    mknodat(CWD, &begun, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    let declarations = [
        declare("copy", "file", json!({"path": folder.path().join("copy"), "source": large})),
        declare("begun", "exec", json!({"command": ["sh", "-c", ": > \"$0\"", begun]})),
    ];
    let (stopper, stop) = Stop::pair();

    let (kinds, options) = (builtin(), ApplyOptions::default());
    // A pipe is open when both sides want it to be.
    let opened = tokio::task::spawn_blocking(move || File::open(begun));
    let (account, opened) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        let opened = opened.await;
        stopper.stop();
        opened
    });

    opened??;
    let account = account?;
    let expected = &Outcome::Halted { at: None, by: Halt::Stop };
    assert_eq!(&account.get("copy").unwrap().outcome, expected, "{account}");
    assert_eq!(names(folder.path())?, ["begun", "large"]);
    Ok(())
}

#[test]
fn exec_and_process_name_what_is_wrong_with_rights() {
    let all = "as, core, cpu, data, fsize, memlock, msgqueue, nice, nofile, nproc, rtprio, rttime, \
               sigpending, stack";
    for kind in ["exec", "process"] {
        for (attribute, value, message) in [
            ("user", json!(""), r#""" is neither a name nor an id"#.to_owned()),
            ("user", json!(4_294_967_295_u64), "4294967295 is neither a name nor an id".to_owned()),
            (
                "group",
                json!("99999999999"),
                r#""99999999999" is neither a name nor an id"#.to_owned(),
            ),
            ("umask", json!(22), r#"22 is not a umask; write one in octal, as "022""#.to_owned()),
            (
                "umask",
                json!("1022"),
                r#""1022" is not a umask; write one in octal, as "022""#.to_owned(),
            ),
            (
                "umask",
                json!("089"),
                r#""089" is not a umask; write one in octal, as "022""#.to_owned(),
            ),
            ("limits", json!(3), "3 is not a map from names to numbers".to_owned()),
            (
                "limits",
                json!({"nofiles": 3}),
                r#"there is no limit "nofiles"; did you mean "nofile"?"#.to_owned(),
            ),
            (
                "limits",
                json!({"frobnicate": 3}),
                format!(r#"there is no limit "frobnicate"; there are {all}"#),
            ),
            (
                "limits",
                json!({"core": "none"}),
                r#""none" of core is no number, nor "unlimited""#.to_owned(),
            ),
        ] {
            let errors = errors(kind, json!({"command": ["true"], attribute: value}));
            assert_eq!(errors, [format!("{attribute}: {message}")], "{kind}");
        }
    }
}
