//! What an input hides is seen in all that is said of it.

use std::error::Error;

use crankcase_manifest::{Overrides, SiteFiles};
use crankcase_resources::front::{DependencyState, Inputs};
use crankcase_workers::is_unprintable;
use serde_json::json;

use crate::site::Site;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Characters that move the cursor, hide, or turn the direction of a text.
const HIDDEN: [char; 17] = [
    '\u{7}', '\u{1b}', '\u{85}', '\u{9b}', '\u{61c}', '\u{200b}', '\u{200e}', '\u{200f}',
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}',
];

/// Manifests that are refused, with the place of what is hidden: `%` in a quoted text of YAML, `@`
/// where it stands as it is.
const REFUSED: &[&str] = &[
    "\"%\": 1",
    "@: 1",
    "vars: {\"a%\": 1}",
    "vars: {a: !x@ 1}",
    "vars: {a: *x@}",
    "vars: {a: 01, \"b%\": 1, \"b%\": 2}",
    "vars: {a: \"{{ b% }}\"}",
    "vars: {a: \"{{ 1 | b% }}\"}",
    "vars: {a: \"{{ {'b%': 1}['c'] }}\"}",
    "vars: {a: \"{{ {'b%': 1}.c }}\"}",
    "vars: {m: {\"b%\": 1}, a: \"{{ vars.m.c }}\"}",
    "vars: {a: \"{{ 'x' | int('%', '%') }}\"}",
    "vars: {a: \"{{ [] | map('%') }}\"}",
    "resources: {\"a%\": {type: noop}}",
    "resources: {a: {type: \"no%op\"}}",
    "resources: {a: {type: noop, \"c%\": 1}}",
    "resources: {a: {type: noop, dependencies: [\"b%\"]}}",
    "resources: {a: {type: noop, dependencies: {\"b%\": a}}}",
    "resources: {a: {type: noop, meta: {\"b%\": 1}}}",
    "resources: {a: {type: file, config: {path: \"x%\"}}}",
    "resources: {a: {type: file, config: {path: \"/x\", mode: \"%\", state: \"%\", \"z%\": 1}}}",
    "resources: {a: {type: file, config: {path: \"/x\", source: \"/none%\"}}}",
    "resources: {a: {type: exec, config: {command: [x], timeout: \"1%\", cwd: \"%\"}}}",
    "resources: {a: {type: process, config: {command: [x], stop_signal: \"%\"}}}",
    "resources: {a: {type: file, config: {path: \"/x%\"}}, b: {type: file, config: {path: \"/x%\"}}}",
];

fn shows(said: &str) -> bool {
    !said.contains(|character| is_unprintable(character) && character != '\n')
}

#[test]
fn what_a_refused_manifest_hides_is_escaped() -> Result {
    for character in HIDDEN {
        let quoted = format!("\\u{:04x}", u32::from(character));
        for text in REFUSED {
            let text = text.replace('%', &quoted).replace('@', &character.to_string());
            let site = Site::new(&text)?;
            let files = SiteFiles::new(vec![site.path("site.yaml")], crankcase_kinds::builtin());
            let err = files.load().err().ok_or_else(|| format!("valid: {text}"))?;
            assert!(shows(&err.to_string()), "{:?}", err.to_string());
            assert!(shows(&err.brief()), "{:?}", err.brief());
        }
    }
    Ok(())
}

#[test]
fn what_names_of_files_and_variables_hide_is_escaped() -> Result {
    let site = Site::new("{}")?;
    let path = site.write("a\u{202e}\u{1b}.yaml", "x: 1")?;
    let vars = vec![("n\u{202e}".to_owned(), String::new())];
    let overrides = Overrides { files: vec![site.path("no\u{1b}")], vars, ..Overrides::default() };
    let mut files = SiteFiles::new(vec![path], crankcase_kinds::builtin());
    files.overrides = overrides;
    let err = files.load().err().ok_or("valid")?;

    assert_eq!(err.problems().len(), 3, "{err}");
    assert!(shows(&err.to_string()), "{:?}", err.to_string());
    assert!(err.to_string().contains("a\\u{202e}\\u{1b}.yaml:1:1: unknown key \"x\""));
    Ok(())
}

#[test]
fn what_a_state_hides_is_escaped_in_errors() -> Result {
    let site = Site::new(
        "resources: {a: {type: file}, b: {type: file, dependencies: [a], config: {x: '{{ a.state.c }}'}}}",
    )?;
    let manifest = site.load()?;
    let state = DependencyState::Known(json!({"b\u{202e}\u{1b}": 1}).into());
    let states = Inputs::new([("a".to_owned(), state)].into());
    let err = manifest.declarations()[1].config.render(&states).err().ok_or("rendered")?;
    assert!(err.message.contains("it has b\\u{202e}\\u{1b}"), "{err}");
    Ok(())
}
