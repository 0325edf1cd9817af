//! Every built-in kind is as plan, apply and run need it, alone and beside the others.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crankcase_kinds::builtin;
use crankcase_resources::testing::{Conformance, Sample, Violations};
use serde_json::{Value, json};

#[test]
fn the_built_in_kinds_conform() -> Result<(), Violations> {
    // One that is new here needs a sample below.
    assert_eq!(builtin().names().collect::<Vec<_>>(), ["exec", "file", "noop", "print", "process"]);
    let samples = [files(), commands(), others()].into_iter().flatten();
    samples.fold(Conformance::new(builtin()).graphs(60), Conformance::sample).check()
}

fn files() -> Vec<Sample> {
    let page = |folder: &Path| folder.join("page");
    vec![
        file("a new file", |folder| json!({"path": folder.join("page"), "content": "hello\n"}))
            .drift("it is written to", move |folder| fs::write(page(folder), "bye"))
            .drift("it is gone", move |folder| fs::remove_file(page(folder))),
        file("a file with other content and rights", |folder| {
            json!({"path": folder.join("page"), "content": "hello", "mode": "0640", "owner": 0})
        })
        .prepared(move |folder| fs::write(page(folder), "bye"))
        .drift("its mode is another one", move |folder| {
            fs::set_permissions(page(folder), PermissionsExt::from_mode(0o600))
        }),
        file("rights alone", |folder| json!({"path": folder.join("page"), "mode": "0640"}))
            .prepared(move |folder| File::create(page(folder)).map(drop))
            .drift("its mode is another one", move |folder| {
                fs::set_permissions(page(folder), PermissionsExt::from_mode(0o600))
            }),
        file("a file that a program must not see change", |folder| {
            json!({"path": folder.join("page"), "content": "hello", "stop_first": ["true"]})
        })
        .prepared(move |folder| fs::write(page(folder), "bye"))
        .drift("it is written to", move |folder| fs::write(page(folder), "bye again")),
        file("a copy", |folder| json!({"path": folder.join("page"), "source": "original"}))
            .prepared(|folder| fs::write(folder.join("original"), [0, 159, 146, 150]))
            .drift("it is gone", move |folder| fs::remove_file(page(folder))),
        file("a template", |folder| json!({"path": folder.join("page"), "template": "original"}))
            .prepared(|folder| fs::write(folder.join("original"), "hello"))
            .drift("it is gone", move |folder| fs::remove_file(page(folder))),
        file("a file that a command validates", |folder| {
            let validate = ["test", "-s", "%s"];
            json!({"path": folder.join("page"), "content": "hello", "validate": validate})
        })
        .prepared(move |folder| fs::write(page(folder), "bye"))
        .drift("it is gone", move |folder| fs::remove_file(page(folder))),
        file("a folder", |folder| {
            json!({"path": format!("{}/", folder.join("sub").display()), "mode": "0750"})
        })
        .drift("it is gone", |folder| fs::remove_dir(folder.join("sub"))),
        file("what is to be gone", |folder| {
            json!({"path": folder.join("page"), "state": "absent"})
        })
        .prepared(move |folder| fs::write(page(folder), "bye"))
        .drift("it is there", move |folder| fs::write(page(folder), "again")),
    ]
}

fn commands() -> Vec<Sample> {
    let made = |folder: &Path| folder.join("made");
    let exec = |name, config: fn(&Path) -> Value| Sample::new("exec", name, config);
    vec![
        exec("a command with a goal", |folder| {
            json!({"command": ["touch", folder.join("made")], "creates": folder.join("made")})
        })
        .drift("its goal is gone", move |folder| fs::remove_file(made(folder))),
        exec("a line with guards", |folder| {
            let path = folder.join("made").display().to_string();
            json!({
                "command": format!("mkdir -p {path}"),
                "unless": format!("test -d {path}"),
                "onlyif": "true",
                "shell": true,
                "env": {"WHO": "Ada"},
                "timeout": "20s",
            })
        })
        .drift("its goal is gone", move |folder| fs::remove_dir(made(folder))),
        exec("a command without a goal", |folder| {
            json!({"command": ["touch", "made"], "cwd": folder, "grace": "1s"})
        })
        .in_each_run(),
    ]
}

fn others() -> Vec<Sample> {
    vec![
        Sample::new(
            "process",
            "a program",
            |folder| json!({"command": ["sleep", "60"], "cwd": folder, "limits": {"nofile": 100}}),
        ),
        Sample::new(
            "process",
            "a program that is ready when it says so",
            |folder| json!({"command": ["sleep", "60"], "ready": {"file": folder.join("up")}}),
        ),
        Sample::new(
            "process",
            "a program that reloads",
            |folder| json!({"command": ["sleep", "60"], "reload": {"command": ["touch", folder.join("x")]}}),
        ),
        Sample::new(
            "process",
            "a program whose health is checked",
            |folder| json!({"command": ["sleep", "60"], "health": {"command": ["test", "-d", folder]}}),
        ),
        Sample::new("print", "a message", |_| json!({"message": "hello"})).in_each_run(),
        Sample::new("noop", "anything", |_| json!({"any": [1, {"thing": null}]})),
    ]
}

fn file(name: &str, config: fn(&Path) -> Value) -> Sample {
    Sample::new("file", name, config)
}
