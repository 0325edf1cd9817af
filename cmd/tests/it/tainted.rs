//! Secrets on their way: from where they are known, through filters and the states of resources, to where they are
//! used. Nothing that the agent writes shows one, or what was made of one.

use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::agent::Agent;
use crate::external::program;
use crate::facts::facts;
use crate::machine::Machine;
use crate::world::{Error, TestResult};

/// A type whose state has secrets, at two depths, and other attributes.
const VAULT: &str = r#"#!/bin/sh
cat > /dev/null
case ${1-init} in
init) echo '{"protocol": 1, "sensitive": {"state": ["/password", "/nested/token"]}, "calls": {"check": {"args": ["check"]}}}' ;;
check) echo '{"status": "VALID", "state": {"password": "Sesame-Open-77", "nested": {"token": "Tok-en-Of-88", "open": "plain"}}}' ;;
esac
"#;

/// The secrets as they begin.
const SECRETS: [&str; 4] = ["Sesame-Open-77", "Tok-en-Of-88", "Var-Secret-99", "Fact-Secret-11"];

/// The expressions that read them.
const SOURCES: [&str; 8] = [
    "vault.state.password",
    "deps.vault.state['password']",
    "vault.state.nested.token",
    "(vault.state.nested | items | last | join('='))",
    "(vault.state | tojson)",
    "pin",
    "vars['pin']",
    "facts.door.pin",
];

/// Filters for them. The result is a text again, and long enough to be found in an output.
const FILTERS: [&str; 10] = [
    "lower",
    "upper",
    "title",
    "replace('e', '33')",
    "replace('S', '$')",
    "tojson",
    "trim",
    "indent(2)",
    "default('none')",
    "list | reverse | join('')",
];

/// How many sites are tried, and how many ways there are in each.
const SEEDS: u64 = 4;
const WAYS: usize = 10;

fn one_of<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of[random.random_range(0..of.len())]
}

/// A site whose secrets go many ways, and the files in which each step of a way is written down.
struct Site {
    random: StdRng,
    text: String,
    steps: usize,
}

impl Site {
    fn random(seed: u64) -> Self {
        let text = "vars: {pin: {sensitive: Var-Secret-99}}\nresources:\n  \
                    vault: {type: \"program:./vault\"}\n";
        let random = StdRng::seed_from_u64(seed);
        let mut site = Self { random, text: text.to_owned(), steps: 0 };
        for way in 0..WAYS {
            site.add_way(way);
        }
        site
    }

    fn add(&mut self, name: &str, used: &str, rest: &str) {
        self.text.push_str(&format!("  {name}: {{dependencies: [vault{used}], {rest}}}\n"));
    }

    /// Adds a source, filters, none to two commands that hand on what they were given, and a sink.
    fn add_way(&mut self, way: usize) {
        let mut value = one_of(&mut self.random, &SOURCES).to_owned();
        let mut used = String::new();
        for carrier in 0..=self.random.random_range(0..3) {
            for _ in 0..self.random.random_range(0..3) {
                value = format!("({value} | {})", one_of(&mut self.random, &FILTERS));
            }
            let step = self.steps;
            self.steps += 1;
            let content = format!(
                "type: file, config: {{path: \"@/step{step}\", content: \"{{{{ {value} }}}}\"}}"
            );
            self.add(&format!("step{step}"), &used, &content);
            let name = format!("way{way}_{carrier}");
            let hands_on = "type: exec, config: {command: [sh, -c, 'printf %s \"$T\"']";
            self.add(&name, &used, &format!("{hands_on}, env: {{T: \"{{{{ {value} }}}}\"}}}}"));
            (value, used) = (format!("{name}.state.stdout"), format!(", {name}"));
        }
        let sink = match self.random.random_range(0..4) {
            0 => format!("type: print, config: {{message: \"it is {{{{ {value} }}}}\"}}"),
            1 => format!(
                "type: file, config: {{path: \"@/sink{way}\", content: \"a\\n{{{{ {value} }}}}\\n\"}}"
            ),
            2 => format!(
                "type: exec, config: {{command: [sh, -c, 'echo \"$T\" >&2; exit 3'], env: {{T: \"{{{{ {value} }}}}\"}}}}"
            ),
            _ => format!(
                "type: file, config: {{path: \"@/no/{{{{ {value} | replace('/', '_') }}}}\", content: x}}"
            ),
        };
        self.add(&format!("sink{way}"), &used, &sink);
    }
}

/// Returns all lines that are not to be shown: the secrets, and what the steps have made of them.
fn hidden(machine: &Machine, site: &Site) -> Vec<String> {
    let steps = (0..site.steps).filter_map(|step| machine.read(&format!("step{step}")));
    let made = steps.collect::<Vec<_>>();
    let lines = made.iter().flat_map(|text| text.lines()).map(str::trim);
    let lines = lines.filter(|line| line.len() >= 4 && *line != "none");
    lines.chain(SECRETS).map(str::to_owned).collect()
}

/// Requires that a text shows none of what is hidden.
fn shows_none(what: &str, text: &str, hidden: &[String], site: &Site) {
    for secret in hidden {
        let found = text.lines().find(|line| line.contains(secret.as_str()));
        assert!(found.is_none(), "{what} shows {secret}: {found:?}\n{}", site.text);
    }
}

/// Returns the contents of all files below a folder, as far as they are text.
fn texts_below(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            texts.extend(texts_below(&entry.path())?);
        } else if kind.is_file() {
            let text = String::from_utf8_lossy(&fs::read(entry.path())?).into_owned();
            texts.push((entry.path().display().to_string(), text));
        }
    }
    Ok(texts)
}

#[tokio::test]
async fn no_secret_is_shown_whatever_way_it_goes() -> TestResult {
    for seed in 0..SEEDS {
        let site = Site::random(seed);
        let machine = Machine::new(&site.text)?;
        program(&machine, "vault", VAULT)?;
        facts(&machine, &["set", "/door", "{pin: Fact-Secret-11}"]).await?;
        machine.write("schema.yaml", "properties: {pin: {sensitive: true}}\n")?;
        facts(&machine, &["schema", "/door", "--set", "schema.yaml"]).await?;

        let mut said = Vec::new();
        for output in ["human", "json"] {
            for command in ["plan", "apply"] {
                said.push(machine.run(&[command, "site.yaml", "-v", "--output", output]).await?);
            }
        }
        let hidden = hidden(&machine, &site);
        assert!(hidden.len() > SECRETS.len() + WAYS, "{hidden:?} {:?}", said[1]);
        let mut agent = Agent::start_with(&machine, &["run", "site.yaml", "-v"]).await?;
        agent.until_logged(&["a worker is degraded"]).await?;
        let (history, report) =
            (&["history", "1", "--output", "json"], &["report", "--output", "json"]);
        for arguments in
            [&history[..], report, &["history", "2"], &["report", "--all"], &["facts", "get", "/"]]
        {
            said.push(machine.run(arguments).await?);
        }
        agent.signal(rustix::process::Signal::TERM)?;

        shows_none("the log", &agent.whole_log().await?, &hidden, &site);
        for ran in said {
            shows_none("a command", &format!("{}{}", ran.stdout, ran.stderr), &hidden, &site);
        }
        for (file, text) in texts_below(&machine.path("state"))? {
            if !file.contains("facts.db") {
                shows_none(&file, &text, &hidden, &site);
            }
        }
    }
    Ok(())
}
