//! No input panics: what is wrong is told with its place, and what loads renders.
//!
//! Whole sites are loaded, so that the kinds judge what the mutations make of their configs. Each
//! test counts what its cases have reached, as one that only ever meets the parser shows little.

use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::path::Path;

use crankcase_manifest::{ManifestError, Problem, SiteFiles};
use crankcase_resources::front::{DependencyState, Inputs, Place, Rendered};
use crankcase_resources::{Declaration, Site as Resources};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::json;

use crate::site::Site;

type Result = std::result::Result<(), Box<dyn std::error::Error>>;

/// How many texts each test loads.
const CASES: u32 = 2_000;

const GOOD: &str = r#"vars: {root: /srv, list: [1, 2], path: "{{ root }}/x", map: &m {a: 1}}
resources:
  docroot:
    type: file
    config: {path: "{{ vars.root }}/", mode: "0755", state: exists}
  index:
    type: file
    dependencies: {dir: docroot}
    meta: {noop: false}
    config:
      path: "{{ deps.dir.state.path }}index.html"
      owner: root
      content: |
        {% for x in list if x > 1 %}{{ loop.index }}: {{ x ~ "y" | upper }}
        {% endfor %}{{ [1, {"a": -2 ** 3}] | tojson }}{{ path[1:-1] }}
  page:
    type: file
    config: {path: /srv/page, template: page.j2, mode: "0644"}
  server: {type: process, dependencies: [index], notify: [last], config: {command: [httpd, -f], grace: 3s}}
  last: {type: exec, config: {command: [sh, -c, "echo {{ root }}"], unless: ["true"], timeout: 1m}}
  any: {type: noop, config: {x: [*m, {<<: *m, b: "{{ list | length }}"}]}}
  said: {type: print, config: {message: "{{ path | upper }}"}}
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

/// How many cases have come how far.
#[derive(Debug, Default)]
struct Reached {
    /// Were refused by the parser.
    parser: Cell<u32>,
    /// Were refused for an expression.
    expressions: Cell<u32>,
    /// Were refused by a kind.
    kinds: Cell<u32>,
    /// Were loaded and rendered.
    loaded: Cell<u32>,
}

impl Reached {
    fn load(&self, text: &[u8]) -> std::result::Result<(), TestCaseError> {
        let failed = |err: std::io::Error| TestCaseError::fail(err.to_string());
        let site = Site::new("").map_err(failed)?;
        site.write("page.j2", "{{ root }}\n").map_err(failed)?;
        let path = site.write("site.yaml", text).map_err(failed)?;
        match SiteFiles::new(vec![path.clone()], crankcase_kinds::builtin()).load() {
            Ok(resources) => {
                count(&self.loaded, true);
                resources
                    .declarations()
                    .iter()
                    .try_for_each(|declaration| renders(&resources, declaration, &path))
            }
            Err(err) => self.refused(&err, &path),
        }
    }

    fn refused(&self, err: &ManifestError, path: &Path) -> std::result::Result<(), TestCaseError> {
        let any = |test: &dyn Fn(&Problem) -> bool| err.problems().iter().any(test);
        let expressions = ["does not parse", "unknown name", "unknown variable", "unknown filter"];
        count(&self.parser, any(&|problem| problem.message.starts_with("not YAML")));
        count(
            &self.expressions,
            any(&|problem| expressions.iter().any(|part| problem.message.contains(part))),
        );
        count(
            &self.kinds,
            any(&|problem| {
                let attribute = problem.message.split_once(": ").map(|(attribute, _)| attribute);
                ["path", "mode", "state", "owner", "command", "grace", "timeout", "message"]
                    .iter()
                    .any(|name| attribute == Some(name))
            }),
        );
        prop_assert!(!err.problems().is_empty());
        for problem in err.problems() {
            prop_assert!(!problem.message.is_empty());
            prop_assert!(problem.place.is_some(), "no place: {problem}");
            if let Some(place) = &problem.place {
                within(place, path, problem)?;
            }
        }
        Ok(())
    }
}

/// What was rehearsed at load needs no more than the states of others to render.
fn renders(
    resources: &Resources,
    declaration: &Declaration,
    path: &Path,
) -> std::result::Result<(), TestCaseError> {
    let states = |state: &DependencyState| {
        let aliases = declaration.dependencies.iter().map(|edge| edge.alias.clone());
        Inputs::new(aliases.map(|alias| (alias, state.clone())).collect())
    };
    let rendered = declaration.config.render(&states(&DependencyState::Unknown));
    prop_assert!(rendered.is_ok(), "{}: {rendered:?}", declaration.name);
    if let Ok(Rendered::Known { config, .. }) = rendered {
        let kind = resources.kinds().get(&declaration.kind);
        let kind = kind.map_err(|err| TestCaseError::fail(err.to_string()))?;
        let made = kind.make(&config);
        prop_assert!(made.is_ok(), "{}: {made:?}", declaration.name);
    }
    let known = DependencyState::Known(json!({"path": "/x/"}).into());
    if let Err(err) = declaration.config.render(&states(&known)) {
        within(&err.place, path, &err)?;
    }
    Ok(())
}

/// Checks that a place is one of a file.
fn within(
    place: &Place,
    path: &Path,
    said: &dyn std::fmt::Display,
) -> std::result::Result<(), TestCaseError> {
    prop_assert!(place.file.parent() == path.parent(), "{said}");
    let bytes = fs::read(&place.file).map_err(|err| TestCaseError::fail(err.to_string()))?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.split('\n').nth(place.line - 1);
    prop_assert!(line.is_some_and(|line| place.column <= line.chars().count() + 1), "{said}");
    Ok(())
}

fn count(cell: &Cell<u32>, is_one: bool) {
    cell.set(cell.get() + u32::from(is_one));
}

/// Loads many texts, and returns how far they have come.
fn run<S: Strategy>(
    strategy: &S,
    text: impl Fn(S::Value) -> Vec<u8>,
) -> std::result::Result<Reached, Box<dyn std::error::Error>>
where
    S::Value: std::fmt::Debug,
{
    let reached = Reached::default();
    let config = Config { failure_persistence: None, ..Config::with_cases(CASES) };
    let ran = TestRunner::new(config).run(strategy, |value| reached.load(&text(value)));
    ran.map_err(|err| match err {
        TestError::Fail(why, value) => format!("{why}\n{value:?}"),
        TestError::Abort(why) => why.to_string(),
    })?;
    Ok(reached)
}

/// A change of a text.
#[derive(Debug, Clone)]
enum Mutation {
    Byte(Index, u8),
    Insert { place: Index, part: Index, removed: usize },
    SwapTokens(Index, Index),
    CopyWord(Index, Index),
    SwapLines(Index, Index),
    RepeatLine(Index),
}

impl Mutation {
    fn apply(&self, text: &mut Vec<u8>) {
        match self {
            Self::Byte(place, byte) => {
                let place = place.index(text.len());
                text[place] = *byte;
            }
            Self::Insert { place, part, removed } => {
                let start = place.index(text.len());
                let end = (start + removed).min(text.len());
                text.splice(start..end, PARTS[part.index(PARTS.len())].bytes());
            }
            Self::SwapTokens(first, second) => swap(text, b' ', first, second),
            Self::CopyWord(from, to) => {
                let words: Vec<_> = words(text).collect();
                let word = text[words[from.index(words.len())].clone()].to_vec();
                text.splice(words[to.index(words.len())].clone(), word);
            }
            Self::SwapLines(first, second) => swap(text, b'\n', first, second),
            Self::RepeatLine(line) => {
                let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
                let line = lines[line.index(lines.len())].to_vec();
                text.extend(line);
            }
        }
    }
}

/// Returns where the runs of letters and digits stand.
fn words(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let runs =
        text.chunk_by(|one, next| one.is_ascii_alphanumeric() == next.is_ascii_alphanumeric());
    let mut end = 0;
    let runs = runs.map(move |run| {
        end += run.len();
        (end - run.len()..end, run[0].is_ascii_alphanumeric())
    });
    runs.filter(|(_, is_word)| *is_word).map(|(run, _)| run)
}

fn swap(text: &mut Vec<u8>, separator: u8, first: &Index, second: &Index) {
    let mut parts: Vec<_> = text.split(|byte| *byte == separator).collect();
    let count = parts.len();
    parts.swap(first.index(count), second.index(count));
    *text = parts.join(&separator);
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        1 => (index(), any::<u8>()).prop_map(|(place, byte)| Mutation::Byte(place, byte)),
        1 => (index(), index(), 0_usize..6).prop_map(|(place, part, removed)| Mutation::Insert {
            place,
            part,
            removed
        }),
        1 => (index(), index()).prop_map(|(first, second)| Mutation::SwapTokens(first, second)),
        4 => (index(), index()).prop_map(|(from, to)| Mutation::CopyWord(from, to)),
        1 => (index(), index()).prop_map(|(first, second)| Mutation::SwapLines(first, second)),
        1 => index().prop_map(Mutation::RepeatLine),
    ]
}

#[test]
fn the_good_manifest_is_valid() -> Result {
    let reached = Reached::default();
    reached.load(GOOD.as_bytes()).map_err(|err| err.to_string())?;
    assert_eq!(reached.loaded.get(), 1);
    Ok(())
}

#[test]
fn mutations_of_a_good_manifest_are_refused_with_places_or_render() -> Result {
    let mutations = proptest::collection::vec(mutation(), 1..3);
    let reached = run(&mutations, |mutations| {
        let mut text = GOOD.as_bytes().to_vec();
        mutations.iter().for_each(|mutation| mutation.apply(&mut text));
        text
    })?;
    assert!(reached.parser.get() > CASES / 20, "{reached:?}");
    assert!(reached.expressions.get() > CASES / 50, "{reached:?}");
    assert!(reached.kinds.get() > CASES / 50, "{reached:?}");
    assert!(reached.loaded.get() > CASES / 20, "{reached:?}");
    Ok(())
}

#[test]
fn configs_of_random_values_are_refused_with_places_or_render() -> Result {
    let values = r#"(""|~|0|-1|1\.5|true|x|/|/a|/a/|a b|"0644"|"0999"|1s|5m|\[\]|\[a\]|\{\}|\{a: b\}|'\{\{ root \}\}')"#;
    let names =
        "(path|mode|owner|content|state|command|shell|unless|grace|timeout|env|cwd|message)";
    let kinds = "(file|exec|process|print|noop)";
    let strategy = (kinds, proptest::collection::btree_map(names, values, 0..5));
    let reached = run(&strategy, |(kind, config)| {
        let config: Vec<_> =
            config.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let config = config.join(", ");
        format!("vars: {{root: /srv}}\nresources: {{a: {{type: {kind}, config: {{{config}}}}}}}")
            .into_bytes()
    })?;
    assert!(reached.kinds.get() > CASES / 5, "{reached:?}");
    assert!(reached.loaded.get() > CASES / 20, "{reached:?}");
    Ok(())
}

#[test]
fn expressions_of_random_parts_are_refused_with_places_or_render() -> Result {
    let parts = proptest::collection::vec(any::<Index>(), 0..12);
    let reached = run(&parts, |parts| {
        let inner: String = parts.iter().map(|part| PARTS[part.index(PARTS.len())]).collect();
        json!({"vars": {"list": [1], "x": format!("{{{{ {inner} }}}}")}}).to_string().into_bytes()
    })?;
    assert!(reached.expressions.get() > CASES / 5, "{reached:?}");
    Ok(())
}
