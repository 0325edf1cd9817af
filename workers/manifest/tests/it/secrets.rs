//! Secrets: where they come from, and what comes of them.

use std::error::Error;
use std::fs;

use crankcase_kinds::builtin;
use crankcase_manifest::{DataFiles, SiteFiles};
use crankcase_resources::Site as Loaded;
use crankcase_resources::front::{Inputs, Rendered};
use serde_json::{Value, json};

use crate::site::Site;

type TestResult<T = ()> = Result<T, Box<dyn Error>>;

fn files(site: &Site) -> SiteFiles {
    SiteFiles::new(vec![site.folder().to_owned()], builtin())
}

/// Returns the rendered config of a resource.
fn config(site: &Loaded, name: &str) -> TestResult<Value> {
    match site.resource(name)?.config.render(&Inputs::default())? {
        Rendered::Known { config, .. } => Ok(config.into()),
        Rendered::Unknown { because } => Err(format!("unknown because of {because:?}").into()),
    }
}

/// Returns the attributes of a resource that are shown to nobody.
fn hidden(site: &Loaded, name: &str) -> TestResult<Vec<String>> {
    Ok(site.resource(name)?.hidden.iter().cloned().collect())
}

#[test]
fn a_secret_is_read_without_the_end_of_its_last_line() -> TestResult {
    for (text, read) in [("a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b"), ("a\n\n", "a\n")] {
        let site = Site::new(
            "vars: {it: [{secret: {file: 'it'}}]}\nresources: {it: {type: print, config: {message: \
             '{{ it[0] }}'}}}\n",
        )?;
        fs::write(site.folder().join("it"), text)?;

        let loaded = files(&site).load()?;

        assert_eq!(config(&loaded, "it")?, json!({ "message": read }));
        assert_eq!(hidden(&loaded, "it")?, ["message"]);
    }
    Ok(())
}

#[test]
fn what_comes_of_a_secret_is_hidden_and_its_neighbours_are_not() -> TestResult {
    let site = Site::new(
        "vars:
  db: {host: db.example, password: {sensitive: of-the-db}}
  url: \"postgres://{{ db.password }}@{{ vars['db'].host }}\"
  all: {first: ['{{ url | upper }}'], second: plain}
  name: {secret: plain, other: 1}
  keys: {one: {sensitive: of-the-keys}}
resources:
  a: {type: print, config: {message: '{{ vars.db.host }} {{ name.secret }} {{ all.second }}'}}
  b: {type: print, config: {message: '{{ url }}'}}
  c: {type: print, config: {message: '{{ all.first[0] }}'}}
  d: {type: print, config: {message: '{{ vars | tojson }}'}}
  e: {type: print, config: {message: '{% for key in keys %}{{ keys[key] }}{% endfor %}'}}
  f: {type: file, config: {path: /f, mode: '0600', template: f.j2}}
  g: {type: file, config: {path: /g, mode: '0600', template: g.j2}}
",
    )?;
    fs::write(site.folder().join("f.j2"), "{% with p = db.password %}{{ p[3:] }}{% endwith %}")?;
    fs::write(site.folder().join("g.j2"), "{{ vars.db.host }}")?;

    let loaded = files(&site).load()?;

    assert_eq!(config(&loaded, "a")?, json!({"message": "db.example plain plain"}));
    let none: [&str; 0] = [];
    for (name, attributes) in [("a", &none[..]), ("f", &["template"]), ("g", &none)] {
        assert_eq!(hidden(&loaded, name)?, attributes, "{name}");
    }
    for name in ["b", "c", "d", "e"] {
        assert_eq!(hidden(&loaded, name)?, ["message"], "{name}");
    }
    // What was rendered is known in each form that it has.
    let said = "of-the-db, POSTGRES://OF-THE-DB@DB.EXAMPLE, the-db, of-the-keys, but db.example";
    let redacted = loaded.secrets().redact(said);
    let hidden = "(sensitive)";
    assert_eq!(redacted, format!("{hidden}, {hidden}, {hidden}, {hidden}, but db.example"));
    Ok(())
}

#[test]
fn a_secret_that_cannot_be_had_is_said_with_its_place() -> TestResult {
    let long = format!("{{credential: '{}'}}", "x/y");
    for (source, place, error) in [
        (
            "{file: absent}",
            22,
            "cannot read the secret from file \"absent\": cannot read the file: it \
                               does not exist",
        ),
        ("{file: empty}", 22, "cannot read the secret from file \"empty\": it is empty"),
        ("{file: /}", 22, "cannot read the secret from file \"/\": not a regular file"),
        ("{file: binary}", 22, "cannot read the secret from file \"binary\": it is not UTF-8"),
        (
            "{env: CRANKCASE_ABSENT}",
            21,
            "cannot read the secret from env \"CRANKCASE_ABSENT\": there is \
                                        no such variable",
        ),
        (
            &long,
            28,
            "cannot read the secret from credential \"x/y\": it is not the name of a credential",
        ),
        ("{fil: x}", 16, "unknown source \"fil\" of a secret"),
        ("{file: [x]}", 22, "\"file\" is a string, not a list"),
        ("{file: x, env: y}", 6, "a \"secret\" has one source"),
        ("{}", 6, "a \"secret\" has one source"),
    ] {
        let site = Site::new(&format!("vars:\n  it: {{secret: {source}}}\nresources: {{}}\n"))?;
        fs::write(site.folder().join("empty"), "")?;
        fs::write(site.folder().join("binary"), [0xff])?;

        let refused = files(&site).load().err().ok_or_else(|| format!("{source} was taken"))?;

        let problem = &refused.problems()[0];
        assert_eq!(problem.message, error);
        let at = problem.place.as_ref().map(|place| (place.line, place.column));
        assert_eq!(at, Some((2, place + 1)), "{source}");
    }
    Ok(())
}

#[test]
fn what_is_wrong_with_an_expression_that_uses_a_secret_does_not_show_it() -> TestResult {
    for message in ["{{ pin[:3] + 1 }}", "{% set p = pin[1:] %}{{ p | join(1) + [2] }}"] {
        let site = Site::new(&format!(
            "vars: {{pin: {{sensitive: abcdef}}}}\nresources: {{it: {{type: print, config: {{message: \
             '{message}'}}}}}}\n"
        ))?;

        let refused = files(&site).load().err().ok_or("it was taken")?;

        let expected = "it cannot be evaluated; it uses a secret, so no more is shown of why";
        assert_eq!(refused.problems()[0].message, expected);
        assert!(!refused.to_string().contains("abc"), "{refused}");
    }
    Ok(())
}

#[test]
fn names_of_resources_are_no_secrets() -> TestResult {
    let site = Site::new(
        "vars:\n  users: {ada: {sensitive: hunter2}}\nresources:\n  it: {type: noop, for_each: '{{ \
         users }}'}\n",
    )?;

    let refused = files(&site).load().err().ok_or("it was taken")?;

    let problem = &refused.problems()[0];
    let expected = "\"for_each\" uses a secret, vars.users, and names of resources are shown";
    assert_eq!(problem.message, expected);
    assert!(problem.help.as_ref().is_some_and(|help| help.contains("{{ vars.passwords[item] }}")));
    Ok(())
}

#[test]
fn a_value_that_is_set_in_the_place_of_a_secret_is_one() -> TestResult {
    let site = Site::new(
        "vars: {pin: {secret: {file: absent}}}\nresources: {it: {type: print, config: {message: '{{ pin \
         }}'}}}\n",
    )?;
    let mut files = files(&site);
    files.overrides.vars = vec![("pin".to_owned(), "of-the-line".to_owned())];

    let loaded = files.load()?;

    assert_eq!(hidden(&loaded, "it")?, ["message"]);
    assert_eq!(loaded.secrets().redact("it is of-the-line"), "it is (sensitive)");
    Ok(())
}

#[test]
fn a_secret_that_is_written_out_is_in_no_error_also_when_its_variable_is_wrong() -> TestResult {
    let site = Site::new(
        "vars:\n  db: {password: {sensitive: hunter2}, url: '{{ nope }}'}\nresources: {}\n",
    )?;

    let refused = files(&site).load().err().ok_or("it was taken")?;

    assert!(!format!("{refused} {:?}", refused.problems()).contains("hunter2"), "{refused}");
    Ok(())
}

#[test]
fn what_was_meant_to_be_a_secret_is_no_plain_value() -> TestResult {
    for secret in ["{secret: /etc/pw}", "{sensitive: x, note: y}", "{secret: {file: x}, note: y}"] {
        let site = Site::new(&format!("vars:\n  it: {secret}\nresources: {{}}\n"))?;

        let refused = files(&site).load().err().ok_or_else(|| format!("{secret} was taken"))?;

        let message = &refused.problems()[0].message;
        assert!(message.starts_with("a secret is a map with the only key \"secret\""), "{message}");
    }
    Ok(())
}

#[test]
fn what_stands_beside_a_secret_in_a_list_is_shown() -> TestResult {
    let site = Site::new(
        "vars: {users: [{name: alice, password: {sensitive: of-alice}}]}\nresources: {it: {type: print, \
         config: {message: '{{ users[0].password }}'}}}\n",
    )?;

    let loaded = files(&site).load()?;

    assert_eq!(hidden(&loaded, "it")?, ["message"]);
    assert_eq!(loaded.secrets().redact("alice: of-alice"), "alice: (sensitive)");
    Ok(())
}

#[test]
fn no_debug_text_of_what_a_site_is_made_of_shows_a_value() -> TestResult {
    let site = Site::new("vars: {key: hunter2}\nresources: {}\n")?;
    let data = site.folder().join("facts.yaml");
    fs::write(&data, "key: hunter2\n")?;
    let mut files = files(&site);
    files.overrides.vars.push(("key".to_owned(), "hunter2".to_owned()));

    for debug in [format!("{:?}", DataFiles::read(&[data])?), format!("{files:?}")] {
        assert!(debug.contains("key") && !debug.contains("hunter2"), "{debug}");
    }
    Ok(())
}
