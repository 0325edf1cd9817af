//! States of other resources, as far as they are known while a manifest is loaded.

use std::error::Error;
use std::os::unix::fs::MetadataExt;

use crankcase_engine::Stop;
use crankcase_resources::{ApplyOptions, PlanOptions, Verdict};

use crate::loading::{load, places};
use crate::site::Site;

#[test]
fn an_attribute_that_a_state_does_not_have_is_found_at_its_place() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  dir: {type: file, config: {path: /srv/}}\n  any: {type: noop, config: {x: \
         1}}\n  page:\n    type: file\n    dependencies: [dir, any]\n    config:\n      path: '{{ \
         deps.dir.state.paht }}page'\n      content: '{{ any.state.whatever | default(\"\") }}'\n      \
         mode: '{{ dir.state.mode }}'\n",
    )?;

    let said = load(&site).unwrap_err();

    assert_eq!(places(&said), [r#"site.yaml:8:17: the state of "dir" has no "paht""#], "{said}");
    assert!(said.contains(r#"help: did you mean "path"?"#), "{said}");
    Ok(())
}

#[test]
fn an_attribute_of_a_state_is_refused_where_its_type_is_never_right() -> Result<(), Box<dyn Error>>
{
    const REFUSED: &[(&str, &str)] = &[
        (
            "mode: '{{ deps.run.state.ran }}'",
            "37: mode: deps.run.state.ran is true or false; this takes a mode in octal",
        ),
        (
            "content: '{{ server.state.command }}'",
            "40: content: server.state.command is a list of texts; this takes a text",
        ),
        (
            "owner: '{{ all.a.ran }}'",
            "38: owner: all.a.ran is true or false; this takes a text or a whole number from 0 to \
             4294967294",
        ),
        // It may be null, and a path must be given.
        (
            "path: '{{ run.state.exit_code }}'",
            "24: path: run.state.exit_code is a whole number from -2147483648 to 2147483647; this \
             takes an absolute path",
        ),
    ];
    const TAKEN: &[&str] = &[
        // Null counts as not given.
        "mode: '{{ run.state.exit_code }}'",
        "mode: '{{ run.state.stdout }}'",
        "mode: '{{ run.state.ran | string }}'",
        "content: 'it {{ run.state.ran }}'",
        "content: \"{{ run.state.ran }}\\n\"",
        "content: '{{ any.state.x }}'",
    ];
    let said = |attribute: &str| {
        let path = if attribute.starts_with("path") { "" } else { "path: /page, " };
        let text = format!(
            "resources:\n  run: {{type: exec, config: {{command: [a]}}}}\n  all: {{type: exec, \
             for_each: [a], config: {{command: [a]}}}}\n  server: {{type: process, config: {{command: \
             [a]}}}}\n  any: {{type: noop}}\n  page:\n    type: file\n    dependencies: [run, all, server, \
             any]\n    config: {{{path}{attribute}}}\n"
        );
        Ok::<_, Box<dyn Error>>(load(&Site::new(&text)?).err().unwrap_or_default())
    };

    for (attribute, message) in REFUSED {
        let said = said(attribute)?;
        assert_eq!(places(&said), [format!("site.yaml:9:{message}")], "{said}");
    }
    for attribute in TAKEN {
        assert_eq!(said(attribute)?, "", "{attribute}");
    }
    Ok(())
}

#[test]
fn a_path_in_a_folder_that_another_resource_declares_is_known_at_load() -> Result<(), Box<dyn Error>>
{
    let site = Site::new(
        "resources:\n  page: {type: file, dependencies: [dir], config: {path: '{{ \
         deps.dir.state.path }}page', content: x}}\n  dir: {type: file, config: {path: \
         /srv//www/}}\n  other: {type: file, config: {path: /srv/www/page, content: y}}\n",
    )?;

    let said = load(&site).expect_err("two keep the path");

    let expected = "site.yaml:4:32: path \"/srv/www/page\" is kept by resource \"page\" already, at \
                    site.yaml:2:52";
    assert_eq!(places(&said), [expected], "{said}");
    Ok(())
}

#[test]
fn what_is_declared_of_a_state_orders_resources_over_several_steps() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  reader: {type: exec, config: {command: [cat, /srv/www/a/b]}}\n  c: {type: \
         file, dependencies: [b], config: {path: '{{ b.state.path }}b'}}\n  b: {type: file, \
         dependencies: {www: a}, config: {path: '{{ www.state[\"path\"] }}a/'}}\n  a: {type: file, \
         config: {path: /srv/www/}}\n  home: {type: file, for_each: [ada], config: {path: '/home/{{ \
         item }}/'}}\n  note: {type: file, for_each: [ada], dependencies: [home], config: {path: \
         '{{ home[item].path }}note'}}\n  look: {type: exec, config: {command: [cat, \
         /home/ada/note]}}\n",
    )?;

    let loaded = load(&site)?;

    let edges = loaded.declarations().iter().flat_map(|after| {
        after.automatic.iter().map(|edge| format!("{} < {}", edge.resource, after.name))
    });
    assert_eq!(edges.collect::<Vec<_>>(), ["c < reader", "note[\"ada\"] < look"]);
    Ok(())
}

#[test]
fn what_is_not_declared_of_a_state_is_not_known_at_load() -> Result<(), Box<dyn Error>> {
    for (expression, claimed) in [
        ("{{ dir.state.path }}x", Some("/srv/x")),
        ("{{ dir.state.path if dir.state.path is defined else dir.state.mode }}", Some("/srv")),
        (
            "{% for dir in [{'state': {'path': '/own'}}] %}{{ dir.state.path }}{% endfor %}{{ \
             deps.dir.state.path }}",
            Some("/own/srv"),
        ),
        ("{{ dir.state.path }}{{ dir.state.mode }}", None),
        ("{{ dir.state.mode | default('/x') }}", None),
        ("{{ dir.state | length }}", None),
        ("{% set it = dir.state %}{{ it.path }}", None),
        ("{{ deps | length }}", None),
        ("{{ any.state.path | default('/x') }}", None),
    ] {
        let site = Site::new(&format!(
            "resources:\n  dir: {{type: file, config: {{path: /srv/}}}}\n  any: {{type: noop, config: \
             {{path: /y}}}}\n  page: {{type: exec, dependencies: [dir, any], config: {{command: [cat, \
             \"{expression}\"]}}}}\n"
        ))?;

        let loaded = load(&site)?;

        let page = loaded.resource("page")?;
        let claim = page.claims.first().map(|claim| claim.name.as_str());
        assert_eq!((claim, page.is_claimed), (claimed, claimed.is_some()), "{expression}");
    }
    Ok(())
}

#[test]
fn what_a_declared_attribute_makes_wrong_is_told_at_load_with_its_place()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  dir: {type: file, config: {path: /srv/}}\n  page:\n    type: file\n    \
         dependencies: [dir]\n    config:\n      path: '{{ dir.state.path }}/../x'\n      mode: '{{ \
         dir.state.path / 2 }}'\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    assert_eq!(
        places(&said),
        [
            "site.yaml:7:7: path: \"/srv//../x\" contains . or ..; write the path without",
            "site.yaml:8:17: cannot calculate with a string and a number",
        ],
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_plan_of_an_empty_machine_shows_what_is_made_in_a_new_folder()
-> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let folder = site.path("dir");
    site.write(
        "site.yaml",
        format!(
            "resources:\n  dir: {{type: file, config: {{path: '{}/'}}}}\n  page: {{type: file, \
             dependencies: [dir], config: {{path: '{{{{ dir.state.path }}}}page', content: x}}}}\n",
            folder.display()
        ),
    )?;
    let loaded = load(&site)?;
    let (_stopper, stop) = Stop::pair();

    let plan = loaded.plan(&PlanOptions::default()).await;
    let account = loaded.apply(&ApplyOptions::default(), stop).await;

    let page = plan.get("page").map(|page| &page.verdict);
    assert!(matches!(page, Some(Verdict::Changes(_))), "{plan}");
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    assert_eq!(std::fs::read_to_string(folder.join("page"))?, "x");
    Ok(())
}

#[tokio::test]
async fn a_plan_of_an_empty_machine_shows_what_is_made_of_groups_and_whole_states()
-> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let (folder, owner) = (site.folder().display().to_string(), site.folder().metadata()?);
    let text = r#"resources:
  home: {type: file, for_each: [ada, brian], config: {path: "@/{{ item }}/", mode: "0700"}}
  index:
    type: file
    dependencies: {all: home}
    config:
      path: "@/index"
      content: "{{ all | length }}:{% for user, state in all | items %} {{ user }} {{ state.path }}{% endfor %}"
  names: {type: file, dependencies: {all: home}, config: {path: "@/names", content: "{{ all | list | join }}"}}
  page: {type: file, dependencies: {all: home}, config: {path: "@/page", template: page.j2}}
  whole: {type: file, config: {path: "@/whole", content: x, owner: USER, group: GROUP}}
  copy: {type: file, dependencies: [whole], config: {path: "@/copy", content: "{{ whole.state | tojson }}"}}
  # The file system may decide who owns what is new.
  owned:
    type: file
    dependencies: {all: home}
    config: {path: "@/owned", content: "{{ all.ada.owner | default('nobody') }}"}
  each:
    type: file
    dependencies: {all: home}
    config: {path: "@/each", content: "{% for user, state in all | items %}{{ state | length }}{% endfor %}"}
"#;
    let text = text.replace("USER", &owner.uid().to_string());
    site.declare(&text.replace("GROUP", &owner.gid().to_string()))?;
    site.write("page.j2", "{% for user, state in all | items %}{{ state.mode }}{% endfor %}\n")?;
    let loaded = load(&site)?;
    let (_stopper, stop) = Stop::pair();

    let plan = loaded.plan(&PlanOptions::default()).await;
    let account = loaded.apply(&ApplyOptions::default(), stop).await;

    let verdicts = [
        ("index", true),
        ("names", true),
        ("page", true),
        ("copy", true),
        ("owned", false),
        ("each", false),
    ];
    for (name, is_known) in verdicts {
        let verdict = plan.get(name).map(|it| &it.verdict);
        assert_eq!(matches!(verdict, Some(Verdict::Changes(_))), is_known, "{name}: {plan}");
    }
    assert_eq!((account.changes(), account.failures()), (9, 0), "{account}");
    let made = |name: &str| std::fs::read_to_string(site.path(name));
    assert_eq!(made("index")?.replace(&folder, "@"), "2: ada @/ada/ brian @/brian/");
    assert_eq!((made("names")?.as_str(), made("page")?.as_str()), ("adabrian", "07000700\n"));
    assert!(made("copy")?.contains("\"size\": 1"));
    assert_eq!(loaded.plan(&PlanOptions::default()).await.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn a_secret_elsewhere_takes_nothing_from_what_is_foreseen() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let text = r#"vars: {pin: {sensitive: hunter2hunter2}}
resources:
  home: {type: file, for_each: [ada, brian], config: {path: "@/{{ item }}/", mode: "0700"}}
  index: {type: file, dependencies: {all: home}, config: {path: "@/index", content: "{{ all | length }} homes"}}
"#;
    site.write("site.yaml", text.replace('@', &site.folder().display().to_string()))?;
    let loaded = load(&site)?;

    let plan = loaded.plan(&PlanOptions::default()).await;

    let index = plan.get("index").map(|it| &it.verdict);
    assert!(matches!(index, Some(Verdict::Changes(_))), "{plan}");
    Ok(())
}
