//! No input panics: whatever is loaded is valid or an error, and what is valid renders.

use crankcase_resources::{DependencyState, Inputs};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use crate::site::Site;

const GOOD: &str = r#"vars: {root: /srv, list: [1, 2], path: "{{ root }}/x", map: &m {a: 1}}
resources:
  docroot:
    type: file
    config: {path: "{{ vars.root }}/", mode: "0755", more: *m}
  index:
    type: file
    dependencies: {dir: docroot}
    meta: {noop: false}
    config:
      path: "{{ deps.dir.state.path }}index.html"
      content: |
        {% for x in list if x > 1 %}{{ loop.index }}: {{ x ~ "y" | upper }}
        {% endfor %}{{ [1, {"a": -2 ** 3}] | tojson }}{{ path[1:-1] }}
  server: {type: process, dependencies: [index], notify: [last]}
  last: {type: exec}
"#;

const PARTS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ":",
    " ",
    "\n",
    "\t",
    "-",
    "|",
    ".",
    "*m",
    "&m ",
    "vars",
    "deps",
    "for",
    "if",
    "endif",
    "0",
    "9999999999999999999",
    "not ",
    "é",
    "\u{0}",
    "<<: ",
    "!!str ",
    "---\n",
    "#",
    "%",
    "(",
    ")",
    ",",
    "~",
    "**",
    "//",
    "is ",
    "range(9)",
    "\u{feff}",
];

fn load(text: &[u8]) -> Result<(), TestCaseError> {
    let site = Site::new("").map_err(|err| TestCaseError::fail(err.to_string()))?;
    site.write("site.yaml", text).map_err(|err| TestCaseError::fail(err.to_string()))?;
    match site.load() {
        Ok(manifest) => {
            for declaration in manifest.declarations() {
                for state in [
                    DependencyState::Unknown,
                    DependencyState::Known(json!({"path": "/x/"}).into()),
                ] {
                    let aliases = declaration.dependencies.iter().map(|edge| edge.alias.clone());
                    let deps = aliases.map(|alias| (alias, state.clone())).collect();
                    let inputs = Inputs::new(deps);
                    // An error is as good as a result: what is asked is that it comes back.
                    let rendered = declaration.config.render(&inputs);
                    prop_assert!(rendered.is_ok() || rendered.is_err());
                }
            }
        }
        Err(err) => prop_assert!(!err.problems().is_empty() && !err.to_string().is_empty()),
    }
    Ok(())
}

#[test]
fn the_good_manifest_is_valid() -> Result<(), Box<dyn std::error::Error>> {
    let site = Site::new(GOOD)?;
    assert_eq!(site.said(site.load()), "valid");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        load(&bytes)?;
    }

    #[test]
    fn mutations_of_a_good_manifest_are_no_panic(
        changes in proptest::collection::vec((any::<Index>(), any::<Index>(), 0_usize..6), 1..6),
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (place, part, removed) in changes {
            let start = place.index(text.len());
            let end = (start + removed).min(text.len());
            text.splice(start..end, PARTS[part.index(PARTS.len())].chars());
        }
        load(text.into_iter().collect::<String>().as_bytes())?;
    }

    #[test]
    fn expressions_of_random_parts_are_no_panic(
        parts in proptest::collection::vec(any::<Index>(), 0..12),
    ) {
        let inner: String = parts.iter().map(|part| PARTS[part.index(PARTS.len())]).collect();
        let text = json!({"vars": {"list": [1], "x": format!("{{{{ {inner} }}}}")}});
        load(text.to_string().as_bytes())?;
    }
}
