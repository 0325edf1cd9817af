//! A site as check, plan, apply and run load it.

use std::error::Error;
use std::path::PathBuf;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_manifest::{Overrides, SiteFiles};
use crankcase_resources::{ApplyOptions, PlanOptions, Site as Loaded, Verdict};

use crate::site::Site;

pub(crate) fn load(site: &Site) -> Result<Loaded, String> {
    let loaded = SiteFiles::new(vec![site.folder().to_owned()], builtin()).load();
    loaded.map_err(|err| err.to_string().replace(&format!("{}/", site.folder().display()), ""))
}

/// Returns the lines that begin with a place.
pub(crate) fn places(said: &str) -> Vec<&str> {
    let is_place = |line: &&str| !line.starts_with("  ");
    said.lines().filter(is_place).collect()
}

#[test]
fn hidden_files_of_a_folder_are_no_manifests() -> Result<(), Box<dyn Error>> {
    let site = Site::new("resources: {}\n")?;
    std::os::unix::fs::symlink("ada@host.1:2", site.path(".#site.yaml"))?;
    site.write(".site.yaml", "resources: 3\n")?;

    load(&site)?;

    let empty = tempfile::tempdir()?;
    std::fs::write(empty.path().join(".site.yaml"), "resources: {}\n")?;
    let loaded = SiteFiles::new(vec![empty.path().to_owned()], builtin()).load();
    assert!(loaded.unwrap_err().to_string().contains("holds no *.yaml"));
    Ok(())
}

#[test]
fn the_folder_of_relative_paths_is_absolute_however_the_manifest_was_named()
-> Result<(), Box<dyn Error>> {
    let site = Site::new("resources: {a: {type: noop}}\n")?;
    let to_root: PathBuf = std::env::current_dir()?.components().skip(1).map(|_| "..").collect();
    let named = to_root.join(site.path("site.yaml").strip_prefix("/")?);

    let loaded = SiteFiles::new(vec![named.clone()], builtin()).load()?;

    let declared = &loaded.declarations()[0];
    assert!(declared.folder.is_absolute());
    assert_eq!(declared.folder.canonicalize()?, site.folder().canonicalize()?);
    assert_eq!(declared.place.file, named, "messages name it as it was named");
    Ok(())
}

#[test]
fn a_site_that_is_loaded_again_is_another_one_only_if_it_has_changed() -> Result<(), Box<dyn Error>>
{
    let text = "vars: {a: 1}\nresources:\n  one: {type: noop, config: {x: '{{ a }}'}}\n  other: \
                {type: noop, dependencies: [one]}\n";
    let site = Site::new(text)?;
    let before = load(&site)?;

    assert_eq!(load(&site)?, before);
    for (old, new) in [
        ("a: 1", "a: 2"),
        ("one: {type: noop,", "one: {type: noop, notify: [other],"),
        ("dependencies: [one]", "dependencies: {alias: one}"),
        ("vars", "# A line more.\nvars"),
        ("{a: 1}", "{a: '1'}"),
    ] {
        site.write("site.yaml", text.replace(old, new))?;
        assert_ne!(load(&site)?, before, "{new}");
    }
    Ok(())
}

#[test]
fn a_variable_that_no_manifest_declares_cannot_be_set() -> Result<(), Box<dyn Error>> {
    let site = Site::new("vars: {root: /srv, port: }\n")?;
    let file = tempfile::tempdir()?;
    std::fs::write(file.path().join("more.yaml"), "zone: a\n")?;
    let set = |names: &[&str]| -> Result<Loaded, String> {
        let vars = names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
        let overrides =
            Overrides { files: vec![file.path().join("more.yaml")], vars, ..Overrides::default() };
        let paths = vec![site.folder().to_owned()];
        let loaded = SiteFiles { overrides, ..SiteFiles::new(paths, builtin()) }.load();
        loaded.map_err(|err| err.to_string())
    };

    let said = set(&["rot", "distant"]).expect_err("they are refused");

    let expected = "--var: no manifest has a variable \"rot\"\n  help: did you mean \"root\"?\n\
                    --var: no manifest has a variable \"distant\"\n  help: declare it among the \
                    \"vars\" of the manifest: distant:";
    assert_eq!(said, expected);
    // A variable that a manifest leaves empty, or that a file of variables sets, is declared.
    set(&["root", "port", "zone"])?;
    Ok(())
}

#[test]
fn a_variable_is_not_missed_while_the_manifest_cannot_be_read() -> Result<(), Box<dyn Error>> {
    let site = Site::new("vars: {root: [}\n")?;
    let overrides = Overrides { vars: vec![("root".into(), "x".into())], ..Overrides::default() };

    let paths = vec![site.folder().to_owned()];
    let loaded = SiteFiles { overrides, ..SiteFiles::new(paths, builtin()) }.load();

    let said = loaded.expect_err("it is refused").to_string();
    assert!(!said.contains("--var"), "{said}");
    Ok(())
}

#[test]
fn the_manifest_and_its_configs_are_refused_together_with_their_places()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a:\n    type: file\n    config: {path: x, mdoe: '0644'}\n  b:\n    type: \
         exec\n    dependencies: [c]\n    config: {command: [a], timeout: 5}\n  d:\n    type: \
         process\n  e:\n    type: file\n    dependencies: [a]\n    config: {path: '{{ \
         deps.a.state.path }}', mode: 644}\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    let lines = places(&said);
    assert_eq!(
        lines,
        [
            "site.yaml:4:14: path: \"x\" is not absolute; begin it with /",
            "site.yaml:4:23: mdoe: there is no such attribute; did you mean \"mode\"?",
            "site.yaml:7:20: unknown resource \"c\"",
            "site.yaml:8:28: timeout: 5 is not a duration; write one as \"30s\"",
            "site.yaml:9:3: command: is missing",
            "site.yaml:14:47: mode: 644 is a number; quote it and write it in octal, as \"0644\"",
        ],
        "{said}"
    );
    Ok(())
}

#[test]
fn what_cannot_be_read_hides_nothing_that_is_wrong_elsewhere() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a:\n    type: file\n    config: {path: /a, mode: 0755}\n  b:\n    type: \
         file\n    config: {path: /b, mode: 755}\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    let lines = places(&said);
    assert_eq!(
        lines,
        [
            "site.yaml:4:30: \"0755\" is a number with a leading zero, which some read as octal",
            "site.yaml:7:24: mode: 755 is a number; quote it and write it in octal, as \"0644\"",
        ],
        "{said}"
    );
    Ok(())
}

#[test]
fn nothing_that_is_wrong_with_a_resource_hides_what_is_wrong_with_its_config()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        r#"vars: {bad: "{{ 1 / 0 }}", good: x}
resources:
  key: {type: file, confg: {}, config: {path: a, mode: 644}}
  expression: {type: file, config: {path: "{{ nobody }}", mode: 644, owner: "{{ [] | first }}"}}
  variable: {type: file, config: {path: "{{ bad }}", mdoe: x, content: "{{ good / 2 }}"}}
  notify: {type: print, notify: [nobody], config: {}}
  shell: {type: exec, dependencies: [key], config: {shell: "{{ key.state.x }}", command: a, cdw: /}}
"#,
    )?;

    let said = load(&site).expect_err("it is refused");

    assert_eq!(
        places(&said),
        [
            "site.yaml:1:17: division by zero",
            "site.yaml:3:21: unknown key \"confg\" in resource \"key\"",
            "site.yaml:3:41: path: \"a\" is not absolute; begin it with /",
            "site.yaml:3:50: mode: 644 is a number; quote it and write it in octal, as \"0644\"",
            "site.yaml:4:47: unknown name \"nobody\"",
            "site.yaml:4:59: mode: 644 is a number; quote it and write it in octal, as \"0644\"",
            "site.yaml:4:86: the value is undefined",
            "site.yaml:5:54: mdoe: there is no such attribute; did you mean \"mode\"?",
            "site.yaml:5:76: cannot calculate with a string and a number",
            "site.yaml:6:3: message: is missing",
            "site.yaml:6:34: unknown resource \"nobody\"",
            "site.yaml:7:64: the state of \"key\" has no \"x\"",
            "site.yaml:7:93: cdw: there is no such attribute; did you mean \"cwd\"?",
        ],
        "{said}"
    );
    Ok(())
}

#[test]
fn files_that_cannot_be_read_and_templates_that_cannot_be_rendered_are_refused()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        r#"vars: {bad: "{{ 1 / 0 }}", map: {a: 1}}
resources:
  a: {type: file, config: {path: /a, source: none.css}}
  b: {type: file, config: {path: /b, template: none.j2}}
  c: {type: file, config: {path: /c, template: syntax.j2}}
  d: {type: file, dependencies: [a], config: {path: "{{ a.state.path }}.d", template: names.j2}}
  e: {type: file, config: {path: /e, template: binary.j2}}
  f: {type: file, config: {path: /f/, source: ., mode: 7}}
  g: {type: file, config: {path: /g, template: bad.j2}}
  h: {type: file, config: {path: /h, state: absent, template: none.j2}}
"#,
    )?;
    site.write("syntax.j2", "one\ntwo {{ 1 + }}\n")?;
    site.write("names.j2", "{{ a.state.mode }}\n{{ nobdy }}\n{{ deps.b.state }}\n")?;
    site.write("binary.j2", b"one\n\xff")?;
    site.write("bad.j2", "{{ bad }}\n{{ map.zone }}\n")?;

    let said = load(&site).expect_err("it is refused");

    assert_eq!(
        places(&said),
        [
            "binary.j2:2:1: not UTF-8 at byte 4",
            "names.j2:2:4: unknown name \"nobdy\"",
            "names.j2:3:4: unknown dependency \"b\"",
            "site.yaml:1:17: division by zero",
            "site.yaml:3:38: source: \"none.css\": cannot read the file: it does not exist",
            "site.yaml:4:38: template: \"none.j2\": cannot read the file: it does not exist",
            "site.yaml:8:39: source: a folder has none; take the / from the end of the path for a file",
            "site.yaml:8:39: source: \".\": not a regular file",
            "site.yaml:8:50: mode: 7 is a number; quote it and write it in octal, as \"0644\"",
            "syntax.j2:2:12: the expression does not parse: unexpected end of variable block",
        ],
        "{said}"
    );
    Ok(())
}

#[test]
fn what_is_written_out_is_judged_however_long_the_rest_takes() -> Result<(), Box<dyn Error>> {
    let costly = "{% for x in range(99999) %}{{ x }}{% endfor %}";
    let noop = |name| format!("  {name}: {{type: noop, config: {{x: '{costly}'}}}}\n");
    let site = Site::new(&format!(
        "resources:\n{}{}{}  a:\n    type: file\n    config: {{path: /x, mdoe: '0644', mode: \
         ['{{{{ 1 }}}}'], owner: '{{{{ 1 }}}}', source: /no/such}}\n",
        noop("x"),
        noop("y"),
        noop("z"),
    ))?;

    let said = load(&site).expect_err("it is refused");

    let lines = places(&said);
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("site.yaml:7:24: mdoe: there is no such attribute"), "{said}");
    assert!(lines[1].contains(" source: \"/no/such\": "), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_config_that_is_wrong_only_once_it_is_known_is_told_with_its_place()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a: {type: noop, config: {path: x}}\n  b:\n    type: file\n    \
         dependencies: [a]\n    config:\n      path: '{{ deps.a.state.path }}'\n",
    )?;
    let loaded = load(&site)?;

    let plan = loaded.plan(&PlanOptions::default()).await;

    let text = plan.to_string();
    assert!(text.contains("site.yaml:7:7: path: \"x\" is not absolute"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_template_is_planned_with_the_states_to_come() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let made = site.path("made");
    site.write("page.j2", "mode {{ made.state.mode }}\n")?;
    site.write(
        "site.yaml",
        format!(
            "resources:\n  made: {{type: file, config: {{path: '{0}', mode: '0600'}}}}\n  page: \
             {{type: file, dependencies: [made], config: {{path: '{0}.txt', template: \
             page.j2}}}}\n",
            made.display()
        ),
    )?;
    let loaded = load(&site)?;
    let (_stopper, stop) = Stop::pair();

    let before = loaded.plan(&PlanOptions::default()).await;
    let account = loaded.apply(&ApplyOptions::default(), stop).await;

    let Some(page) = before.get("page") else { return Err("no page".into()) };
    let Verdict::Changes(change) = &page.verdict else {
        return Err(format!("{page:?}").into());
    };
    let text = change.differences.iter().find_map(|difference| difference.text.as_deref());
    assert_eq!(text, Some("@@ -0,0 +1 @@\n+mode 0600\n"));
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    assert_eq!(std::fs::read_to_string(site.path("made.txt"))?, "mode 0600\n");
    Ok(())
}

#[tokio::test]
async fn a_template_over_what_nobody_foresees_is_known_after_apply() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let page = site.path("page");
    site.write("page.j2", "it is {{ date.state.stdout }}\n")?;
    site.write(
        "site.yaml",
        format!(
            "resources:\n  date: {{type: exec, config: {{command: [echo, '1']}}}}\n  page: {{type: \
             file, dependencies: [date], config: {{path: '{}', template: page.j2}}}}\n",
            page.display()
        ),
    )?;

    let plan = load(&site)?.plan(&PlanOptions::default()).await;

    let Some(Verdict::MayChange { because, reason }) = plan.get("page").map(|page| &page.verdict)
    else {
        return Err(plan.to_string().into());
    };
    assert_eq!(
        (because.join(" "), reason.as_str()),
        ("date".into(), "its config is known after apply")
    );
    Ok(())
}
