//! What expressions become.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use crankcase_manifest::Overrides;
use crankcase_resources::dynamic::Config;
use crankcase_resources::front::{DependencyState, Inputs, Rendered, RenderedText, Scope};
use serde_json::{Value, json};

use crate::site::Site;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// Renders the config of the last resource.
fn render(site: &Site, overrides: &Overrides, inputs: &Inputs) -> Result<Rendered> {
    let manifest = site.load_with(overrides)?;
    let last = manifest.declarations().last().ok_or("no resource")?;
    Ok(last.config.render(inputs)?)
}

fn known(rendered: Rendered) -> Result<(Config, std::sync::Arc<dyn Scope>)> {
    match rendered {
        Rendered::Known { config, scope } => Ok((config, scope)),
        Rendered::Unknown { because } => Err(format!("unknown because of {because:?}").into()),
    }
}

/// Evaluates one text without dependencies.
fn value(text: &str) -> Result<Value> {
    let site = Site::new(&format!(
        "vars: {{n: 3, s: text, l: [1, 2], m: {{k: v}}}}\nresources:\n  r: {{type: file, config: \
         {{x: {}}}}}\n",
        serde_json::to_string(text)?
    ))?;
    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;
    Ok(config["x"].clone())
}

const DEPENDENT: &str = "vars: {root: /srv}\nresources:\n  a: {type: file}\n  b: {type: file}\n  r:\n    \
    type: file\n    dependencies: {dir: a, other-one: b}\n    config:\n";

fn state(value: Value) -> DependencyState {
    DependencyState::Known(value.into())
}

#[test]
fn what_a_state_cannot_give_is_an_error_with_its_place_however_it_is_used() -> Result {
    let seen = json!({"stdout": "whole", "unusable": {"stderr": "it has more than 4 bytes"}});
    let uses = [
        "{{ dir.state.stderr }}",
        "{{ dir.state['stderr'] | default('x') }}",
        "a{{ deps.dir.state.stderr }}",
        "{% if dir.state.stderr is defined %}x{% endif %}",
        "{{ dir.state | attr('stderr') }}",
        "{{ [dir.state] | map(attribute='stderr') | list }}",
        "{{ [dir.state] | map(attribute='stderr', default='x') | join }}",
        "{{ dir.state | tojson }}",
        "{{ dir.state }}",
        "{% for key, value in dir.state | items %}{{ value }}{% endfor %}",
        "{% set it = dir.state %}{{ it.stderr | length }}",
        "{{ [dir.state, dir.state] | sort | length }}",
        "{{ [[dir.state, dir.state]] | map('max') | list }}",
        "{{ [dir.state] < [dir.state] }}",
        "{{ 'x' in ([dir.state] | map(attribute='stderr')) }}",
    ];
    let inputs = Inputs::new([("dir".to_owned(), state(seen.clone()))].into_iter().collect());
    let of = |text: &str| -> Result<_> {
        let text = serde_json::to_string(text)?;
        let site = Site::new(&format!("{DEPENDENT}      x: {text}\n"))?;
        render(&site, &Overrides::default(), &inputs)
    };

    for text in uses {
        let error = of(text).expect_err(text).to_string();
        assert!(error.contains("site.yaml:9:"), "{text}: {error}");
        assert!(
            error.contains("stderr cannot be used: it has more than 4 bytes"),
            "{text}: {error}"
        );
    }
    // What can be used can be used in every way.
    for text in [
        "{{ dir.state.stdout }}",
        "{{ [dir.state] | map(attribute='stdout') | first }}",
        "{% for key, value in dir.state | items if key == 'stdout' %}{{ value }}{% endfor %}",
    ] {
        assert_eq!(known(of(text)?)?.0["x"], "whole", "{text}");
    }
    Ok(())
}

#[test]
fn what_is_for_another_program_stands_between_raw_and_endraw() -> Result {
    for text in ["{{.Names}}", "a {{ $x }} b", "{{- .Names }}"] {
        let error = value(text).expect_err(text).to_string();
        assert!(error.contains("{% raw %} and {% endraw %}"), "{text}: {error}");
    }
    assert_eq!(value("{% raw %}{{.Names}}{% endraw %}")?, "{{.Names}}");
    assert!(!value("{{ 1 + }}").expect_err("it ends too early").to_string().contains("raw"));
    Ok(())
}

#[test]
fn what_a_loop_does_not_have_is_an_error_however_it_is_asked_for() -> Result {
    let turns = |asked: &str| value(&format!("{{% for x in vars.l %}}{asked}{{% endfor %}}"));

    for asked in ["{{ loop.nextitem is defined }}", "{{ loop.x | default(1) }}", "{{ loop['x'] }}"]
    {
        let error = turns(asked).expect_err(asked).to_string();
        assert!(error.contains("loop has no \""), "{asked}: {error}");
    }
    assert_eq!(turns("{{ loop.index }}")?, "12");
    Ok(())
}

#[test]
fn one_expression_keeps_its_type_and_a_text_is_a_text() -> Result {
    assert_eq!(value("{{ vars.n }}")?, json!(3));
    assert_eq!(value("{{ n + 0.5 }}")?, json!(3.5));
    assert_eq!(value("{{ l }}")?, json!([1, 2]));
    assert_eq!(value("{{ m }}")?, json!({"k": "v"}));
    assert_eq!(value("{{ none }}")?, json!(null));
    assert_eq!(value("{{ n > 2 and not false }}")?, json!(true));
    assert_eq!(value("{{ n }}{{ n }}")?, json!("33"));
    assert_eq!(value(" {{ n }}")?, json!(" 3"));
    assert_eq!(value("{{ n | string }}")?, json!("3"));
    Ok(())
}

#[test]
fn a_merge_key_may_have_its_tag() -> Result {
    let site = Site::new(
        "vars:\n  a: &a {x: 1}\n  b:\n    !!merge <<: *a\n    y: 2\nresources: {r: {type: file, config: \
         {c: '{{ vars.b }}'}}}\n",
    )?;

    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;

    assert_eq!(config["c"], json!({"x": 1, "y": 2}));
    Ok(())
}

#[test]
fn a_tag_of_the_type_that_a_value_has_changes_nothing() -> Result {
    let site = Site::new(
        "resources: {r: {type: file, config: {a: !!int +5, b: !!bool true, c: !!float 1.50, d: !!null \
         ~, e: !!str 5, !!str f: !!seq [x]}}}\n",
    )?;

    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;

    let expected = json!({"a": 5, "b": true, "c": 1.5, "d": null, "e": "5", "f": ["x"]});
    assert_eq!(Value::from(config), expected);
    Ok(())
}

#[test]
fn a_text_is_kept_to_the_letter() -> Result {
    assert_eq!(value("{# no comment #} {{ n }}\n")?, json!("{# no comment #} 3\n"));
    assert_eq!(value("a {# b")?, json!("a {# b"));
    assert_eq!(value("}} %} {")?, json!("}} %} {"));
    assert_eq!(value("<{{ '<&>' }}>")?, json!("<<&>>"));
    assert_eq!(value("{% raw %}{{ x }}{% endraw %}")?, json!("{{ x }}"));
    Ok(())
}

#[test]
fn operators_filters_tests_and_statements_work() -> Result {
    let cases = [
        ("{{ 7 // 2 * 2 ** 3 - 1 }}", json!(23)),
        ("{{ -7 % 3 }}", json!(2)),
        ("{{ 1 / 4 }}", json!(0.25)),
        ("{{ s ~ '/' ~ n }}", json!("text/3")),
        ("{{ s[1:3] }}{{ s[-1:] }}{{ l[-1] }}", json!("ext2")),
        ("{{ l + [3] }}", json!([1, 2, 3])),
        ("{{ 1 in l and 'ex' in s and 'k' in m and 9 not in l }}", json!(true)),
        ("{{ 1 < n <= 3 }}", json!(true)),
        ("{{ 'yes' if n is odd else 'no' }}", json!("yes")),
        ("{{ m.nope | default('d') }}", json!("d")),
        ("{{ m.nope is defined }}", json!(false)),
        ("{{ l | map('string') | join(', ') }}", json!("1, 2")),
        ("{{ [3, 1, 2] | sort(reverse=true) }}", json!([3, 2, 1])),
        ("{{ s | upper | replace('T', 'x') }}", json!("xEXx")),
        ("{{ range(3) | tojson }}{{ range(1, 6, 2) | join }}", json!("[0, 1, 2]135")),
        ("{{ {'a': [1, {'b': n}]} }}", json!({"a": [1, {"b": 3}]})),
        ("{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% else %}-{% endfor %}", json!("12")),
        ("{% for k, v in m | items %}{{ k }}={{ v }}{% endfor %}", json!("k=v")),
        ("{% if n == 1 %}a{% elif n == 3 %}b{% else %}c{% endif %}", json!("b")),
        ("{% set x = n + 1 %}{% with y = x %}{{ y }}{% endwith %}", json!("4")),
        ("{% for x in [] %}{% else %}none{%- endfor -%}  !", json!("none!")),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text).map_err(|err| format!("{text}: {err}"))?, expected, "{text}");
    }
    Ok(())
}

#[test]
fn booleans_in_texts_are_written_as_yaml_writes_them() -> Result {
    let cases = [
        ("dbg={{ true }} {{ n == 4 }}", "dbg=true false"),
        ("{{ true ~ '/' ~ n }}", "true/3"),
        ("{{ true | string }}{{ false | upper }}", "trueFALSE"),
        ("{{ [true, 'a', 1.5] | join('-') }}", "true-a-1.5"),
        ("{{ [true, 2] | map('string') | join }}", "true2"),
        ("{{ [true, 2] | join(d='-') }}", "true-2"),
        ("{{ 'a\\nb' | indent(first=true, width=1) }}", " a\n b"),
        ("{{ 'a\\nb' | indent(blank=true) }}", "a\n    b"),
        ("{{ 'a=1' | replace(1, true) }}", "a=true"),
        ("{{ m | tojson }} {{ [true, none] | tojson }}", "{\"k\": \"v\"} [true, null]"),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text).map_err(|err| format!("{text}: {err}"))?, json!(expected), "{text}");
    }
    Ok(())
}

#[test]
fn yes_and_no_are_texts_and_quotes_keep_texts() -> Result {
    let site = Site::new(
        "resources:\n  r: {type: file, config: {a: yes, b: NO, c: \"0755\", d: true, e: 1.1, f: \
         0x1F, g: ~, h: 2026-01-01, i: 1000.0, j: '', k: 0, l: -0.5, m: 1.2.3}}\n",
    )?;
    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;
    let expected = json!({"a": "yes", "b": "NO", "c": "0755", "d": true, "e": 1.1, "f": 31,
        "g": null, "h": "2026-01-01", "i": 1000.0, "j": "", "k": 0, "l": -0.5, "m": "1.2.3"});
    assert_eq!(Value::Object(config), expected);
    Ok(())
}

#[test]
fn variables_use_each_other_and_overrides_count_more() -> Result {
    let site = Site::new(
        "vars: {path: \"{{ root }}/www\", root: /srv, n: '1'}\nresources:\n  r: {type: file, config: \
         {path: \"{{ path }}\", n: \"{{ n }}\", more: \"{{ vars['more-x'] }}\"}}\n",
    )?;
    let first = tempfile::tempdir()?;
    let file = first.path().join("vars.yaml");
    std::fs::write(&file, "{root: /a, n: '2', more-x: \"{{ n }}\"}")?;
    let vars = vec![("n".into(), "5".into()), ("root".into(), "{{ n }}".into())];

    let overrides = Overrides { files: vec![file], vars, ..Overrides::default() };
    let (config, _) = known(render(&site, &overrides, &Inputs::default())?)?;

    // What takes the place of a text is a text, whatever it looks like.
    assert_eq!(Value::Object(config), json!({"path": "{{ n }}/www", "n": "5", "more": "5"}));
    Ok(())
}

#[test]
fn a_variable_that_is_a_boolean_is_set_to_a_boolean() -> Result {
    let site = Site::new(
        "vars: {on: true, n: 8080, text: 'true', empty: , made: '{{ true }}'}\nresources:\n  r: \
         {type: file, config: {x: '{{ [on, n, text, empty, made] }}'}}\n",
    )?;
    let set = |values: &[&str]| Overrides {
        vars: values
            .iter()
            .flat_map(|value| {
                ["on", "n", "text", "empty", "made"].map(|name| (name.into(), (*value).into()))
            })
            .collect(),
        files: Vec::new(),
        ..Overrides::default()
    };

    let (config, _) = known(render(&site, &set(&["false"]), &Inputs::default())?)?;
    let (last, _) = known(render(&site, &set(&["false", "true"]), &Inputs::default())?)?;
    let said = site.said(site.load_with(&set(&["1.30"])));

    assert_eq!(config["x"], json!([false, "false", "false", "false", "false"]));
    assert_eq!(last["x"], json!([true, "true", "true", "true", "true"]));
    // The value may be a secret, and is not shown.
    let expected = "--var: variable \"on\" is a boolean\n  help: say true or false";
    assert_eq!(said.trim(), expected);
    Ok(())
}

#[test]
fn a_variable_without_a_value_can_be_asked_for() -> Result {
    let site = Site::new(
        "vars: {p: , db: , name: a, k: p}\nresources:\n  r:\n    type: file\n    config:\n      default: \
         \"{{ p | default('d', true) }}/{{ db.port | default(5432) }}\"\n      asked: \"{{ [p is none, p \
         == vars[k], not p, p or name, p in [none]] }}\"\n      if: \"{% if name and p %}{% else %}no{% \
         endif %}\"\n      none: \"{{ p | default(none) }}\"\n      branch: \"{{ p if p else name }}\"\n      \
         spare: \"{{ name | default(p) }}\"\n      literal: null\n      attribute: \"{{ [{'n': 1}, {'n': \
         true}] | join('-', attribute='n') }}\"\n",
    )?;

    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;

    let expected = json!({"default": "d/5432", "asked": [true, true, true, "a", true], "if": "no",
        "none": null, "branch": "a", "spare": "a", "literal": null, "attribute": "1-True"});
    assert_eq!(Value::Object(config), expected);
    Ok(())
}

#[test]
fn a_null_of_a_state_is_kept_whole_and_refused_in_a_text() -> Result {
    let states = Inputs::new(BTreeMap::from([
        ("dir".into(), state(json!({"code": null}))),
        ("other-one".into(), DependencyState::Unknown),
    ]));
    let render = |text: &str| -> Result<_> {
        let site = Site::new(&format!("{DEPENDENT}      x: \"{text}\"\n"))?;
        Ok(site.load()?.declarations()[2].config.render(&states))
    };

    let (whole, _) = known(render("{{ dir.state.code }}")??)?;
    let part = render("code {{ dir.state.code }}")?.err().ok_or("rendered")?;

    assert_eq!(whole["x"], json!(null));
    assert!(part.message.starts_with("dir.state.code is null, which cannot be put into a text"));
    Ok(())
}

#[test]
fn dependencies_are_seen_by_alias() -> Result {
    let site = Site::new(&format!(
        "{DEPENDENT}      path: \"{{{{ deps.dir.state.path }}}}x\"\n      short: \"{{{{ dir.state }}}}\"\n      \
         dashed: \"{{{{ deps['other-one'].state.n }}}}\"\n"
    ))?;
    let states = Inputs::new(BTreeMap::from([
        ("dir".into(), state(json!({"path": "/d/"}))),
        ("other-one".into(), state(json!({"n": [1]}))),
    ]));

    let (config, _) = known(render(&site, &Overrides::default(), &states)?)?;

    let expected = json!({"path": "/d/x", "short": {"path": "/d/"}, "dashed": [1]});
    assert_eq!(Value::Object(config), expected);
    Ok(())
}

#[test]
fn only_a_used_unknown_dependency_makes_a_config_unknown() -> Result {
    let uses = |text: &str| -> Result<Option<Vec<String>>> {
        let site = Site::new(&format!("{DEPENDENT}      x: {}\n", serde_json::to_string(text)?))?;
        let states = Inputs::new(BTreeMap::from([
            ("dir".into(), DependencyState::Unknown),
            ("other-one".into(), DependencyState::Unknown),
        ]));
        Ok(match render(&site, &Overrides::default(), &states)? {
            Rendered::Known { .. } => None,
            Rendered::Unknown { because } => Some(because),
        })
    };

    assert_eq!(uses("{{ vars.root }}")?, None);
    assert_eq!(uses("{{ vars.root if true else dir.state.path }}")?, None);
    assert_eq!(uses("{{ dir.state.path }}")?, Some(vec!["dir".into()]));
    assert_eq!(uses("{{ deps['dir'] is defined }}")?, Some(vec!["dir".into()]));
    let both = Some(vec!["dir".into(), "other-one".into()]);
    assert_eq!(uses("{{ dir.state.path ~ deps['other-one'].state }}")?, both);
    assert_eq!(uses("{% for name in deps %}{{ name }}{% endfor %}")?, both);
    Ok(())
}

#[test]
fn a_missing_part_of_a_state_is_an_error_with_its_place() -> Result {
    for text in ["{{ dir.state.zone }}", "x{{ dir.state.zone }}", "{{ [dir.state.zone] }}"] {
        let site = Site::new(&format!("{DEPENDENT}      x: \"{text}\"\n"))?;
        let states = Inputs::new(BTreeMap::from([
            ("dir".into(), state(json!({"path": "/d"}))),
            ("other-one".into(), DependencyState::Unknown),
        ]));
        let manifest = site.load()?;

        let rendered = manifest.declarations()[2].config.render(&states);

        let err = rendered.err().ok_or("rendered")?;
        assert_eq!(err.message, "dir.state has no \"zone\"; it has path");
        assert_eq!(err.place.line, 9);
    }
    Ok(())
}

#[test]
fn a_template_sees_what_the_config_saw() -> Result {
    let site = Site::new(&format!("{DEPENDENT}      x: 1\n"))?;
    let states = Inputs::new(BTreeMap::from([
        ("dir".into(), state(json!({"path": "/d"}))),
        ("other-one".into(), DependencyState::Unknown),
    ]));
    let (_, scope) = known(render(&site, &Overrides::default(), &states)?)?;
    let path = Path::new("page.j2");

    let text = |text: &str| RenderedText::Known(text.to_owned());
    assert_eq!(scope.render_text(path, "{{ 1 }}")?, text("1"));
    let rendered = scope.render_text(path, "{{ root }} {{ dir.state.path }}\n")?;
    assert_eq!(rendered, text("/srv /d\n"));
    let err = scope.render_text(path, "a\nbc {{ nope }}").err().ok_or("rendered")?;
    assert_eq!(err.to_string(), "page.j2:2:7: \"nope\" is undefined");
    let unknown = "{{ deps['other-one'].state.x }}";
    let unknown = scope.render_text(path, unknown)?;
    assert_eq!(unknown, RenderedText::Unknown(vec!["other-one".to_owned()]));
    Ok(())
}

#[test]
fn merge_keys_and_aliases_are_resolved() -> Result {
    let site = Site::new(
        "vars:\n  base: &base {owner: root, mode: \"0600\"}\nresources:\n  r:\n    type: file\n    \
         config: {<<: *base, mode: \"0644\", list: [*base]}\n",
    )?;
    let (config, _) = known(render(&site, &Overrides::default(), &Inputs::default())?)?;
    let base = json!({"owner": "root", "mode": "0600"});
    assert_eq!(Value::Object(config), json!({"mode": "0644", "list": [base], "owner": "root"}));
    Ok(())
}
