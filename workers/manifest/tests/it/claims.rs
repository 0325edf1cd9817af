//! The claims of resources: the order that follows from them, and the resources that are in conflict.

use std::error::Error;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_manifest::SiteFiles;
use crankcase_resources::{ApplyOptions, PlanOptions};

use crate::loading::{load, places};
use crate::site::Site;

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
    let site = Site::new("")?;
    site.declare(
        "vars:\n  key: {secret: {file: key}}\n  derived: '{{ key }}, as it is'\nresources:\n  direct: \
         {type: file, config: {path: /srv/direct, content: '{{ vars.key }}'}}\n  in_turn: {type: \
         file, config: {path: /srv/in_turn, content: '{{ derived }}'}}\n  rendered: {type: file, \
         config: {path: /srv/rendered, template: page}}\n  other: {type: file, config: {path: \
         /srv/other, content: x}}\n  z: {type: file, config: {path: '@/key', content: s3cret}}\n",
    )?;
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

#[test]
fn a_file_that_another_resource_may_make_is_not_missed() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let load = |resources: &str| {
        site.declare(&format!("resources:\n{resources}"))?;
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

/// Returns the message about a manifest, with the folder of the site as `@`. `state` is the state folder, if any.
fn said(site: &Site, text: &str, state: Option<&str>) -> Result<String, Box<dyn Error>> {
    site.declare(text)?;
    let mut files = SiteFiles::new(vec![site.folder().to_owned()], builtin());
    files.state = state.map(|name| site.path(name));
    let (loaded, root) = (files.load(), site.folder().display().to_string());
    Ok(loaded.map_or_else(|error| error.to_string().replace(&root, "@"), |_| "valid".to_owned()))
}

/// Returns the message about two files with these configs.
fn said_of(site: &Site, first: &str, second: &str) -> Result<String, Box<dyn Error>> {
    let text = format!(
        "resources:\n  a: {{type: file, config: {first}}}\n  b: {{type: file, config: {second}}}\n"
    );
    said(site, &text, None)
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
    let said_of = |config: &str, kind: &str| {
        let text = format!("resources:\n  a: {{type: {kind}, config: {config}}}\n");
        said(&site, &text, Some("state"))
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
