//! The command `types`: shows the types of resources, with their parameters and states.

use std::io::{self, Write};

use crankcase_kinds::with_facts;
use crankcase_resources::dynamic::{ActionType, Kind, Parameter, Table};
use serde::Serialize;
use serde_json::Value;

use crate::command::progress::loaded;
use crate::external_args::ExternalArgs;
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::{exit, print};

mod test;

/// Which type is shown.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// The type; all of them by default
    #[arg(value_name = "TYPE")]
    name: Option<String>,
    /// Print the JSON Schema of a protocol of external types instead: 0 or 1
    #[arg(long, value_name = "VERSION", conflicts_with = "name", value_parser = clap::value_parser!(u8).range(0..=1))]
    protocol: Option<u8>,
    #[command(flatten)]
    external: ExternalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What is done with a type.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Try whether an external type keeps to its protocol, and to what plan, apply and run need
    Test(test::Args),
}

/// A type of resources, as data.
#[derive(Debug, Serialize)]
struct Described<'a> {
    name: &'a str,
    summary: &'a str,
    /// Whether its resources are programs that only `run` keeps.
    is_supervised: bool,
    /// The attributes that a config may have.
    parameters: &'a Table,
    /// The attributes of a state that expressions may use.
    state: &'a Table,
    /// The actions on a resource.
    actions: Vec<ActionType>,
    /// The JSON Schema of a config in a manifest, of draft 2020-12 or as it says.
    schema: Value,
    /// Whether the schema says more than the parameters.
    #[serde(skip)]
    is_schema_own: bool,
}

/// All types.
#[derive(Debug, Serialize)]
struct All<'a> {
    types: Vec<Described<'a>>,
}

impl<'a> Described<'a> {
    fn new(kind: &'a dyn Kind) -> Self {
        let (parameters, state) = (kind.table(), kind.states());
        let own = kind.config_schema();
        let is_schema_own = own.is_some();
        let schema = own.unwrap_or_else(|| parameters.manifest_schema());
        let is_supervised = kind.is_supervised();
        Self {
            name: kind.name(),
            summary: kind.summary(),
            is_supervised,
            parameters,
            state,
            actions: kind.actions(),
            schema,
            is_schema_own,
        }
    }
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    if let Some(Command::Test(args)) = args.command {
        return test::run(global, args).await;
    }
    if let Some(protocol) = args.protocol.and_then(crankcase_external::protocol) {
        print::data(global.output, &protocol, |protocol, out| {
            writeln!(out, "{}", serde_json::to_string_pretty(protocol)?)
        })?;
        return Ok(exit::DONE);
    }
    let kinds = with_facts();
    if let Some(name) = args.name {
        let (mut interrupts, asked) = (Interrupts::listen()?, global.clone());
        // Also printed there: a signal ends what nobody reads.
        let show = move || -> anyhow::Result<()> {
            let external = args.external.ask(&asked, &name)?;
            let (kinds, name) = external.unwrap_or((kinds, name));
            let kind = kinds.get(&name)?;
            print::data(asked.output, &Described::new(&**kind), write_one)
        };
        let shown = loaded(global, &mut interrupts, show).await.transpose()?;
        return Ok(if shown.is_some() { exit::DONE } else { exit::INTERRUPTED });
    }
    let names: Vec<_> = kinds.names().collect();
    let all = names.iter().map(|name| kinds.get(name)).collect::<Result<Vec<_>, _>>()?;
    let all: Vec<_> = all.into_iter().map(|kind| Described::new(&**kind)).collect();
    print::data(global.output, &All { types: all }, |all, out| {
        for Described { name, summary, .. } in &all.types {
            writeln!(out, "{name:<10}{summary}")?;
        }
        Ok(())
    })?;
    Ok(exit::DONE)
}

fn write_one(kind: &Described<'_>, out: &mut print::Out<'_>) -> io::Result<()> {
    writeln!(out, "{}: {}", print::one_line(kind.name), print::one_line(kind.summary))?;
    if kind.is_schema_own {
        writeln!(out, "\nconfig, as a JSON Schema:")?;
        for line in serde_json::to_string_pretty(&kind.schema)?.lines() {
            writeln!(out, "{}", print::one_line(line))?;
        }
    } else {
        writeln!(out, "\nparameters:")?;
        write_table(kind.parameters, out)?;
    }
    writeln!(out, "\nstate, for expressions:")?;
    write_table(kind.state, out)?;
    if !kind.actions.is_empty() {
        writeln!(out, "\nactions:")?;
    }
    for ActionType { name, doc, .. } in &kind.actions {
        writeln!(out, "  {name:<14}{doc}")?;
    }
    Ok(())
}

fn write_table(table: &Table, out: &mut print::Out<'_>) -> io::Result<()> {
    for Parameter { name, ty, is_required, default, unit, is_sensitive, is_exposed, doc, .. } in
        &table.parameters
    {
        let unit = unit.as_ref().map_or_else(String::new, |unit| format!(", in {unit}"));
        let default = match default {
            Some(default) => format!("; {default} by default"),
            None if *is_required => "; required".to_owned(),
            None => String::new(),
        };
        let sensitive = if *is_sensitive { "; sensitive" } else { "" };
        let exposed = if *is_exposed { "; on a command line" } else { "" };
        writeln!(out, "  {name:<12}{doc}")?;
        writeln!(out, "              {}{unit}{default}{sensitive}{exposed}", ty.noun())?;
    }
    if table.is_open {
        writeln!(out, "  any")?;
    }
    Ok(())
}
