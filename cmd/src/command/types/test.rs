//! The command `types test`: tries whether an external type keeps to its protocol.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use crankcase_resources::derived::Value;
use crankcase_resources::testing::{Conformance, Sample};
use crankcase_workers::read_file;

use crate::calls::calls;
use crate::exit::ExitError;
use crate::external_args::ExternalArgs;
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::{exit, print};

/// How large a config may be, in bytes.
const MOST: u64 = 16 * 1024 * 1024;

/// The word in a config that stands for the folder of a check.
const FOLDER: &str = "FOLDER";

/// What is tried.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The type, as a manifest names it; a relative path begins at the working directory
    #[arg(value_name = "TYPE")]
    name: String,
    /// A file with the config of a resource, in YAML or JSON. FOLDER in a text of it stands for a folder
    /// that is new and empty for each of the checks. The resource is made, changed and removed many times
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// An attribute of the state that differs at each look, such as a time, or a path in FOLDER whose files do; may be
    /// given again
    #[arg(long, value_name = "NAME")]
    volatile: Vec<String>,
    /// How many random sites of several such resources are tried
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    sites: u64,
    #[command(flatten)]
    external: ExternalArgs,
}

/// The result of the checks.
#[derive(Debug, serde::Serialize)]
struct Tried {
    #[serde(rename = "type")]
    name: String,
    /// The violations that the checks have found.
    wrong: Vec<String>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let (mut interrupts, asked) = (Interrupts::listen()?, global.clone());
    // Also printed there: a signal ends what nobody reads.
    let test = move || -> anyhow::Result<u8> {
        let tried = tried(&asked, &args)?;
        print::data(asked.output, &tried, write)?;
        Ok(if tried.wrong.is_empty() { exit::DONE } else { exit::FAILED })
    };
    let code = interrupts.unless(test).await.transpose()?;
    Ok(code.unwrap_or(exit::INTERRUPTED))
}

fn write(tried: &Tried, out: &mut print::Out<'_>) -> io::Result<()> {
    for wrong in &tried.wrong {
        for (at, line) in wrong.trim_end().lines().enumerate() {
            let indent = if at == 0 { "" } else { "    " };
            writeln!(out, "{indent}{}", print::one_line(line))?;
        }
    }
    let name = print::one_line(&tried.name);
    match tried.wrong.len() {
        0 => writeln!(out, "{name} is as it should be"),
        count => writeln!(out, "{name}: {count} things are wrong"),
    }
}

/// Tries a type. Blocks for it.
fn tried(global: &Global, args: &Args) -> anyhow::Result<Tried> {
    let shown = args.config.display();
    let text = read_file(&args.config, MOST)?;
    let config: Value =
        serde_saphyr::from_slice(&text).with_context(|| format!("cannot read {shown}"))?;
    let asked = args.external.ask(global, &args.name)?;
    let Some((kinds, name)) = asked else {
        let text =
            format!("\"{}\" is no external type: it names no image and no program", args.name);
        bail!(ExitError::new(exit::INVALID, text));
    };
    let config = move |folder: &Path| filled(&config, &folder.to_string_lossy());
    let sample = Sample::new(&name, &shown.to_string(), config).of_process();
    let sample = sample.limited_by(|bytes| calls().limit_writes(bytes));
    let sample = args.volatile.iter().fold(sample, |sample, name| sample.volatile(name));
    let checked = Conformance::new(kinds).sample(sample).graphs(args.sites).check();
    let wrong = checked.err().map(|wrong| wrong.iter().map(str::to_owned).collect());
    Ok(Tried { name, wrong: wrong.unwrap_or_default() })
}

/// Returns a config with a folder in its texts.
fn filled(config: &Value, folder: &str) -> Value {
    match config {
        Value::String(text) => text.replace(FOLDER, folder).into(),
        Value::Array(items) => items.iter().map(|item| filled(item, folder)).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(name, value)| (name.clone(), filled(value, folder)));
            Value::Object(entries.collect())
        }
        value => value.clone(),
    }
}
