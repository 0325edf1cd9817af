//! A site as check, plan, apply and run load it.

use std::error::Error;
use std::path::PathBuf;

use crankcase_engine::Stop;
use crankcase_kinds::{builtin, with_facts};
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
fn resources_come_after_those_that_make_what_they_need() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  build: {type: exec, config: {command: [/opt/bin/build, -o, out], cwd: \
         /srv}}\n  server: {type: process, config: {command: [sleep, /srv/www/conf]}}\n  conf: \
         {type: file, config: {path: /srv/www/conf, content: x}}\n  tool: {type: file, config: \
         {path: /opt/bin/build, content: x}}\n  stamp: {type: file, config: {path: /srv/stamp, \
         mode: '0600'}}\n  touch: {type: exec, config: {command: [touch], creates: \
         /srv/stamp}}\n  www: {type: file, config: {path: /srv/www/}}\n  srv: {type: file, \
         config: {path: /srv/}}\n",
    )?;

    let loaded = load(&site)?;

    let edges = loaded.declarations().iter().flat_map(|after| {
        after.automatic.iter().map(|edge| format!("{} < {}", edge.resource, after.name))
    });
    let expected = [
        "srv < build",
        "tool < build",
        "conf < server",
        "www < conf",
        "touch < stamp",
        "srv < stamp",
        "srv < touch",
        "srv < www",
    ];
    assert_eq!(edges.collect::<Vec<_>>(), expected);
    assert_eq!(
        loaded.declarations()[2].automatic[0].because,
        r#""conf" needs path "/srv/www", and "www" makes path "/srv/www""#
    );
    let mut files = SiteFiles::new(vec![site.folder().to_owned()], builtin());
    files.overrides.no_automatic_edges = true;
    assert!(files.load()?.declarations().iter().all(|declared| declared.automatic.is_empty()));
    Ok(())
}

#[test]
fn what_uses_a_secret_comes_after_those_that_make_its_file() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "vars:\n  key: {secret: {file: key}}\n  derived: '{{ key }}, as it is'\nresources:\n  direct: \
         {type: file, config: {path: /srv/direct, content: '{{ vars.key }}'}}\n  in_turn: {type: \
         file, config: {path: /srv/in_turn, content: '{{ derived }}'}}\n  rendered: {type: file, \
         config: {path: /srv/rendered, template: page}}\n  other: {type: file, config: {path: \
         /srv/other, content: x}}\n  z: {type: file, config: {path: '@/key', content: s3cret}}\n",
    )?;
    let text = std::fs::read_to_string(site.path("site.yaml"))?;
    site.write("site.yaml", text.replace('@', &site.folder().display().to_string()))?;
    site.write("key", "s3cret")?;
    site.write("page", "{{ vars.key }}")?;

    let loaded = load(&site)?;

    for (name, is_after) in
        [("direct", true), ("in_turn", true), ("rendered", true), ("other", false), ("z", false)]
    {
        let automatic = &loaded.resource(name)?.automatic;
        assert_eq!(automatic.iter().any(|edge| edge.resource == "z"), is_after, "{name}");
    }
    Ok(())
}

#[test]
fn a_file_that_is_read_is_there_or_made_before() -> Result<(), Box<dyn Error>> {
    let made = |source: &str, rest: &str| {
        format!(
            "resources:\n  a: {{type: file, config: {{path: /srv/a, source: {source}}}{rest}}}\n  z: \
             {{type: file, config: {{path: /srv/gone/z, content: x}}}}\n"
        )
    };
    let after = "resources:\n  a: {type: file, config: {path: /srv/a, source: /srv/gone/z}}\n  z: \
                 {type: file, dependencies: [a], config: {path: /srv/gone/z, content: x}}\n";
    let error = "site.yaml:2:42: source: \"/srv/gone/z\": cannot read the file: it does not exist";

    assert_eq!(load(&Site::new(&made("/srv/gone/z", ""))?).map(drop), Ok(()));
    assert_eq!(load(&Site::new(&made("/srv/gone/./y/../z", ""))?).map(drop), Ok(()));
    let through = ", dependencies: [b]}\n  b: {type: noop, dependencies: [z]";
    let through = made("/srv/gone/z", &format!(", meta: {{automatic_edges: false}}{through}"));
    assert_eq!(load(&Site::new(&through)?).map(drop), Ok(()));
    for site in [after, &made("/srv/gone/z", ", meta: {automatic_edges: false}")] {
        let said = load(&Site::new(site)?).expect_err("it is not made before");
        assert_eq!(places(&said), [error]);
    }
    Ok(())
}

/// Returns what is said of two files at these paths, with the folder of the site as `@`.
fn said_of(site: &Site, first: &str, second: &str) -> Result<String, Box<dyn Error>> {
    let text = format!(
        "resources:\n  a: {{type: file, config: {first}}}\n  b: {{type: file, config: {second}}}\n"
    );
    let root = site.folder().display().to_string();
    site.write("site.yaml", text.replace('@', &root))?;
    let loaded = SiteFiles::new(vec![site.folder().to_owned()], builtin()).load();
    Ok(loaded.map_or_else(|error| error.to_string().replace(&root, "@"), |_| "valid".to_owned()))
}

#[test]
fn one_file_under_two_paths_is_refused_with_both_places() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    std::fs::create_dir(site.path("run"))?;
    std::os::unix::fs::symlink("run", site.path("link"))?;
    std::fs::write(site.path("run/x"), "x")?;
    std::fs::hard_link(site.path("run/x"), site.path("hard"))?;
    let kept = |path: &str| format!("{{path: '@/{path}', content: x}}");
    let refused = [
        (kept("run/x"), kept("link/x"), "run/x", "link/x"),
        (kept("run/new"), kept("link/new"), "run/new", "link/new"),
        (kept("run/a/b/new"), kept("link/a/b/new"), "run/a/b/new", "link/a/b/new"),
        (kept("hard"), kept("run/x"), "hard", "run/x"),
        (kept("run/x"), "{path: '@/link/x', mode: '0600'}".to_owned(), "run/x", "link/x"),
        (kept("run/x"), "{path: '@/link/x', state: absent}".to_owned(), "run/x", "link/x"),
        (
            "{path: '@/run/'}".to_owned(),
            "{path: '@/link/', mode: '0700'}".to_owned(),
            "run",
            "link",
        ),
    ];

    for (first, second, one, other) in refused {
        let said = said_of(&site, &first, &second)?;
        let expected = format!(
            "@/site.yaml:3:28: path \"@/{other}\" is kept as \"@/{one}\" by resource \"a\" already, at \
             @/site.yaml:2:28"
        );
        assert_eq!(places(&said), [expected]);
    }
    let others = [
        (kept("run/x"), kept("link/y")),
        (kept("run/x"), kept("x")),
        (kept("run/a/new"), kept("link/new")),
    ];
    for (first, second) in others {
        assert_eq!(said_of(&site, &first, &second)?, "valid");
    }
    Ok(())
}

#[test]
fn what_a_file_is_written_under_is_no_path_of_another_resource() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let long = "l".repeat(210);
    let hashed = crankcase_workers::temporary_name(long.as_ref());
    let cases = [
        ("x".to_owned(), ".x.crankcase-tmp".to_owned()),
        (long, hashed.into_string().map_err(|_| "no text")?),
    ];

    for (target, temporary) in cases {
        let kept = |name: &str| format!("{{path: '@/{name}', content: x}}");
        let said = said_of(&site, &kept(&target), &kept(&temporary))?;
        let expected = format!(
            "@/site.yaml:3:28: path \"@/{temporary}\" is used for a temporary file by resource \"a\" \
             already, at @/site.yaml:2:28"
        );
        assert_eq!(places(&said), [expected]);
        // It is nobody's temporary file.
        assert_eq!(said_of(&site, &kept("other"), &kept(&temporary))?, "valid");
    }
    Ok(())
}

#[test]
fn nothing_is_kept_in_the_state_folder_of_the_agent() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    std::fs::create_dir_all(site.path("state/private"))?;
    std::os::unix::fs::symlink("state", site.path("link"))?;
    std::os::unix::fs::symlink("state/private", site.path("inner"))?;
    let said_of = |config: &str, kind: &str| -> Result<_, Box<dyn Error>> {
        let root = site.folder().display().to_string();
        let text = format!("resources:\n  a: {{type: {kind}, config: {config}}}\n");
        site.write("site.yaml", text.replace('@', &root))?;
        let mut files = SiteFiles::new(vec![site.folder().to_owned()], builtin());
        files.state = Some(site.path("state"));
        let loaded = files.load();
        Ok(loaded
            .map_or_else(|error| error.to_string().replace(&root, "@"), |_| "valid".to_owned()))
    };

    let inside = ["state/", "state/lock", "state/private/a/b", "link/lock", "link/", "inner/a/b"];
    for path in inside {
        let said = said_of(&format!("{{path: '@/{path}', state: absent}}"), "file")?;
        let name = path.trim_end_matches('/');
        let expected = format!(
            "@/site.yaml:2:28: path \"@/{name}\" is in the agent's state folder \"@/state\""
        );
        assert_eq!(places(&said), [expected]);
    }
    let made = said_of("{command: ['true'], creates: '@/state/x'}", "exec")?;
    assert!(made.contains("is in the agent's state folder"), "{made}");
    for path in ["states", "other/state", ""] {
        assert_eq!(said_of(&format!("{{path: '@/{path}/'}}"), "file")?, "valid");
    }
    Ok(())
}

#[test]
fn one_resource_can_do_without_automatic_edges() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  srv: {type: file, config: {path: /srv/}}\n  a: {type: file, config: {path: \
         /srv/a}, meta: {automatic_edges: false}}\n  b: {type: file, config: {path: /srv/b}, \
         meta: {automatic_edges: true}}\n  c: {type: file, config: {path: /srv/c}}\n",
    )?;

    let loaded = load(&site)?;

    let declared = loaded.declarations().iter();
    let edges = declared.map(|declared| (declared.has_automatic_edges, declared.automatic.len()));
    assert_eq!(edges.collect::<Vec<_>>(), [(true, 0), (false, 0), (true, 1), (true, 1)]);
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
    // What a manifest leaves empty, and what a file of variables sets, is declared.
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
fn a_file_that_another_resource_may_make_is_not_missed() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let load = |resources: &str| {
        let text = resources.replace('@', &site.folder().display().to_string());
        site.write("site.yaml", format!("resources:\n{text}"))?;
        Ok::<_, Box<dyn Error>>(load(&site).err().unwrap_or_default())
    };
    let copy = "  copy: {type: file, config: {path: /copy, source: made}, dependencies: ";

    // By its own declaration, or by a command that comes first; by nobody else.
    let kept = load(&format!("{copy}[]}}\n  made: {{type: file, config: {{path: '@/made'}}}}\n"))?;
    let command = "  dir: {type: noop, dependencies: [make]}\n  make: {type: exec, config: \
                   {command: [x]}}\n";
    let after = load(&format!("{copy}[dir]}}\n{command}"))?;
    let apart = load(&format!("{copy}[]}}\n{command}"))?;

    assert_eq!((&*kept, &*after), ("", ""));
    assert!(apart.contains("made\": cannot read the file: it does not exist"), "{apart}");
    Ok(())
}

#[test]
fn a_path_that_two_resources_keep_is_refused_with_both_places() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "vars: {root: /srv}\nresources:\n  a: {type: file, config: {path: '{{ root }}//x'}}\n  b: \
         {type: file, dependencies: [a], config: {path: /srv/x/, mode: '{{ a.state.mode }}'}}\n  \
         look: {type: file, meta: {noop: true}, config: {path: /srv/x}}\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    let expected = "site.yaml:4:47: path \"/srv/x\" is kept by resource \"a\" already, at \
                    site.yaml:3:28";
    assert_eq!(places(&said), [expected], "{said}");
    assert!(said.ends_with("  help: make one resource of the two"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_path_that_becomes_known_is_kept_by_one_resource_too() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let path = site.path("x");
    site.write(
        "site.yaml",
        format!(
            "resources:\n  name: {{type: noop, config: {{path: '{0}'}}}}\n  found: {{type: file, \
             dependencies: [name], config: {{path: '{{{{ name.state.path }}}}', content: \
             found}}}}\n  known: {{type: file, config: {{path: '{0}', content: known}}}}\n",
            path.display()
        ),
    )?;
    let loaded = load(&site)?;
    let (_stopper, stop) = Stop::pair();

    let plan = loaded.plan(&PlanOptions::default()).await;
    let account = loaded.apply(&ApplyOptions::default(), stop).await;

    let expected = format!(
        "! found (file) failed: path {path:?} is kept by resource \"known\" already, at {}:4:3",
        site.path("site.yaml").display()
    );
    assert!(plan.to_string().contains(&expected), "{plan}");
    assert!(account.to_string().contains(&expected), "{account}");
    assert_eq!(std::fs::read_to_string(path)?, "known");
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

/// What is said of a resource that uses a fact, and of some rules.
fn ruled(rules: &str) -> Result<String, Box<dyn Error>> {
    let site = Site::new(&format!(
        r#"vars: {{n: "{{{{ facts.n | default(0) }}}}"}}
resources:
  page: {{type: file, config: {{path: /srv/page, content: "n {{{{ vars.n }}}}"}}}}
  copy: {{type: fact, config: {{path: /copy/of, value: "{{{{ facts.from | default(0) }}}}"}}}}
  read: {{type: fact, readonly: true, config: {{path: /read, value: "{{{{ facts.wanted | default(0) }}}}"}}}}
  user: {{type: file, dependencies: {{it: page}}, config: {{path: /srv/user, content: "{{{{ deps.it.state.path }}}}"}}}}
rules:
{rules}"#
    ))?;
    let loaded = SiteFiles::new(vec![site.folder().to_owned()], with_facts()).load();
    Ok(loaded.map_or_else(|said| said.to_string(), |_| "fine".to_owned()))
}

#[test]
fn rules_that_cause_each_other_for_ever_are_refused() -> Result<(), Box<dyn Error>> {
    let value = r#"value: "{{ item.value }}""#;
    for (rules, names) in [
        // Facts that set each other.
        (
            format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /b/c, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a, {value}}}]}}\n"),
            r#"rule "a" -> rule "b" -> rule "a""#,
        ),
        (format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /a/b, {value}}}]}}\n"), r#"rule "a" -> rule "a""#),
        // A count of the changes of a resource that uses the count, by way of a variable.
        (
            r#"  a: {on: {event: changed, resource: page}, do: [set: {path: /n, value: "{{ (facts.n | default(0)) + 1 }}"}]}"#.to_owned(),
            r#"rule "a" -> resource "page" -> rule "a""#,
        ),
        (format!("  a: {{on: {{event: any}}, do: [set: {{path: /n, {value}}}]}}\n"), r#"rule "a" -> resource "page" -> rule "a""#),
        (format!("  a: {{on: {{state: user}}, do: [set: {{path: /n, {value}}}]}}\n"), r#"rule "a" -> resource "page" -> resource "user" -> rule "a""#),
        // A resource that keeps a fact.
        (format!("  a: {{on: {{fact: /copy}}, do: [set: {{path: /from, {value}}}]}}\n"), r#"rule "a" -> resource "copy" -> rule "a""#),
        // Notifications.
        ("  a: {on: {event: refreshed}, do: [notify: page]}\n".to_owned(), r#"rule "a" -> resource "page" -> rule "a""#),
    ] {
        let said = ruled(&rules)?;
        assert!(said.contains(&format!("these cause each other for ever: {names}")), "{rules}{said}");
        assert!(said.contains("a \"match\" that is false at some time ends the loop"), "{said}");
    }
    Ok(())
}

#[test]
fn rules_that_end_are_no_loop() -> Result<(), Box<dyn Error>> {
    let value = r#"value: "{{ item.value }}""#;
    for rules in [
        // A value without an expression is the same the second time.
        format!(
            "  a: {{on: {{fact: /a}}, do: [set: {{path: /b, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a, value: 1}}]}}\n"
        ),
        format!(
            "  a: {{on: {{fact: /a}}, do: [set: {{path: /b, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a}}]}}\n"
        ),
        // A match may end it.
        format!(
            "  a: {{on: {{fact: /a}}, match: \"{{{{ item.value < 9 }}}}\", do: [set: {{path: /a, {value}}}]}}\n"
        ),
        format!("  a: {{on: {{fact: /a}}, enabled: false, do: [set: {{path: /a, {value}}}]}}\n"),
        format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /n, {value}}}]}}\n"),
        format!("  a: {{on: {{state: user}}, do: [set: {{path: /x, {value}}}]}}\n"),
        format!("  a: {{on: {{event: failed}}, do: [set: {{path: /n, {value}}}]}}\n"),
        // What is only read is never written.
        format!("  a: {{on: {{fact: /read}}, do: [set: {{path: /wanted, {value}}}]}}\n"),
        "  a: {on: {event: changed, resource: page}, do: [notify: page]}\n".to_owned(),
    ] {
        assert_eq!(ruled(&rules)?, "fine", "{rules}");
    }
    Ok(())
}
