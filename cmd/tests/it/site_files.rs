//! What a site is made of: files, folders and variables; and its graph.

use std::fs;

use serde_json::Value;

use crate::machine::Machine;
use crate::world::TestResult;

/// A page with the value of a variable.
const SITE: &str = "vars: {text: of the manifest}\nresources:\n  page: {type: file, config: {path: \
                    '@/page', content: '{{ text }}'}}\n";

#[tokio::test]
async fn a_variable_on_the_command_line_counts_more_than_files_and_these_than_the_manifest()
-> TestResult {
    let machine = Machine::new(SITE)?;
    machine.write("one.yaml", "text: of one\n")?;
    machine.write("two.yaml", "text: of two\n")?;
    let files = ["--var-file", "one.yaml", "--var-file", "two.yaml"];
    let var = ["--var", "text={{ taken }} as=it is"];

    for (arguments, expected) in [
        (&[][..], "of the manifest"),
        (&files[..2], "of one"),
        (&files, "of two"),
        (&[&var[..], &files].concat(), "{{ taken }} as=it is"),
    ] {
        let ran = machine.run(&[&["apply", "site.yaml"], arguments].concat()).await?;

        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(machine.read("page").as_deref(), Some(expected));
    }
    Ok(())
}

#[tokio::test]
async fn several_files_and_folders_are_one_site() -> TestResult {
    let machine = Machine::new(SITE)?;
    fs::create_dir_all(machine.path("more/deeper"))?;
    let late = "resources:\n  late: {type: file, dependencies: [page], config: {path: '@/late'}}\n";
    machine.write("more/a.yml", late)?;
    machine.write("more/b.json", r#"{"resources": {"b": {"type": "noop"}}}"#)?;
    machine.write("more/README.md", "no manifest")?;
    machine.write("more/deeper/c.yaml", "no manifest")?;

    let ran = machine.run(&["apply", "more", "site.yaml"]).await?;
    let alone = machine.run(&["check", "more"]).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("apply: 2 changed, 1 unchanged\n"), "{ran:?}");
    assert!(machine.path("late").exists());
    assert_eq!(alone.code, Some(65));
    assert!(alone.stderr.contains("more/a.yml:2:37: unknown resource \"page\"\n"), "{alone:?}");
    Ok(())
}

#[tokio::test]
async fn graph_shows_kinds_and_dashes_what_notifies() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  www: {type: file, config: {path: "@/www/"}}
  page: {type: file, dependencies: {dir: www}, notify: [note], config: {path: "@/www/page"}}
  server:
    type: process
    dependencies: {page: {resource: page, on_change: notify}, www: www}
    config: {command: [/bin/sleep, "1000"]}
  note: {type: print, config: {message: changed}}
"#,
    )?;

    let ran = machine.run(&["graph", "site.yaml", "--format", "dot"]).await?;
    let text = machine.run(&["graph", "site.yaml"]).await?;
    let mermaid = machine.run(&["graph", "site.yaml", "--format", "mermaid"]).await?;

    let expected = r#"digraph crankcase {
  node [shape=box style=filled fillcolor=white]
  "www" [label="www\nfile"]
  "page" [label="page\nfile"]
  "server" [label="server\nprocess"]
  "note" [label="note\nprint"]
  "page" -> "www" [style=solid]
  "note" -> "page" [style=dashed]
  "server" -> "page" [style=dashed]
  "server" -> "www" [style=solid]
}
"#;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{ran:?}");
    let expected = "
              ┌──[page (file)]◄─┬╌╌[note (print)]
[www (file)]◄─┴─────────────────┴╌╌[server (process)]
";
    let expected = expected.trim_start_matches('\n');
    assert_eq!((text.code, &*text.stdout), (Some(0), expected), "{text:?}");
    let edges = "  n1 --> n0\n  n3 -.-> n1\n  n2 -.-> n1\n  n2 --> n0\n";
    assert!(mermaid.stdout.starts_with("flowchart RL\n"), "{mermaid:?}");
    assert!(mermaid.stdout.ends_with(edges), "{mermaid:?}");
    Ok(())
}

#[tokio::test]
async fn graph_shows_what_is_near_a_resource() -> TestResult {
    let machine = Machine::new(
        "resources:\n  a: {type: noop}\n  b: {type: noop, dependencies: [a]}\n  \
         c: {type: noop, dependencies: [b]}\n  d: {type: noop, dependencies: [c]}\n  \
         e: {type: noop, notify: [a]}\n",
    )?;

    for (arguments, expected) in [
        (&["--around", "a"][..], &["a", "b", "e"][..]),
        (&["--around", "b", "--depth", "2"], &["a", "b", "c", "d", "e"]),
        (&["--around", "a", "--depth", "0"], &["a", "e"]),
        (&["--around", "d", "--depth", "18446744073709551615"], &["a", "b", "c", "d", "e"]),
    ] {
        let arguments = [&["graph", "site.yaml", "--output", "json"], arguments].concat();
        let ran = machine.run(&arguments).await?;

        let graph: Value = serde_json::from_str(&ran.stdout)?;
        let nodes = graph["resources"].as_array().ok_or("no resources")?.iter();
        let names: Vec<_> = nodes.filter_map(|node| node["name"].as_str()).collect();
        assert_eq!((ran.code, &*names), (Some(0), expected), "{arguments:?}");
    }
    let wrong = machine.run(&["graph", "site.yaml", "--around", "aa"]).await?;
    let expected = "crankcase: there is no resource \"aa\"; did you mean \"a\"?\n";
    assert_eq!((wrong.code, &*wrong.stderr), (Some(1), expected), "{wrong:?}");
    Ok(())
}
