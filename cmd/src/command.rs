//! The commands, one module for each.

pub(crate) mod apply;
pub(crate) mod boot;
pub(crate) mod bootstrap;
pub(crate) mod check;
pub(crate) mod confirm;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod facts;
pub(crate) mod graph;
pub(crate) mod history;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod plan;
mod progress;
pub(crate) mod report;
pub(crate) mod run;
mod runtime;
mod take_over;
pub(crate) mod top;
pub(crate) mod types;
pub(crate) mod why;

use anyhow::bail;
use clap::Subcommand;
use crankcase_status::wire::Act;
use tracing::Level;

use crate::exit::{ExitError, USAGE};
use crate::global::{Format, Global};
use crate::print;

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Keep this machine as declared, until a signal comes
    Run(run::Command),
    /// Load facts, and then keep this machine as declared, as `run` does
    ///
    /// Facts that are loaded already change nothing. Facts that are not newer than the stored ones are left
    /// alone, with a warning. Newer ones replace only the values that they change. If an agent runs already,
    /// it gets the facts.
    Bootstrap(bootstrap::Args),
    /// Validate manifests, and do no more
    Check(check::Args),
    /// Show what apply would change, and change nothing
    ///
    /// Guards of commands run.
    Plan(plan::Args),
    /// Make this machine as declared, once
    ///
    /// In the place of SITE it takes a plan that `plan -o` has saved: that is carried out only if a
    /// plan made now is the same. At a first SIGINT or SIGTERM nothing more begins, and a command
    /// that runs is not waited for: it gets TERM, and KILL after its grace. A second one kills it at
    /// once. What depends on a process, which only `run` starts, is left alone: it needs run.
    Apply(apply::Args),
    /// Show what the running agent and its workers are doing
    Report(report::Args),
    /// Show the chain from a worker to the root cause
    Why(why::Args),
    /// Show how the running agent came up: the critical path, and what is not up
    Boot(boot::Args),
    /// Print the metrics of the running agent and its resources, in the text format of Prometheus
    ///
    /// The control socket has them at /metrics. For a collector that cannot ask there, `run --metrics` serves them on a
    /// port.
    Metrics,
    /// Answer an assistant on stdin and stdout, by the Model Context Protocol
    ///
    /// It has tools that look: trouble, report, why, graph, events, changes, boot and plan. It opens no port, runs
    /// no commands, reads no files, and shows no facts.
    #[cfg(feature = "mcp")]
    Mcp(mcp::Args),
    /// Serve a page on which the running agent is seen live, and print its address
    ///
    /// The page is served by this command, on 127.0.0.1, until it ends; the agent opens no port. The address has a
    /// token: whoever knows it sees what the agent does.
    Page(page::Args),
    /// Show the types of resources, or the parameters, the state and the JSON Schema of one
    Types(types::Args),
    /// Draw the dependencies of a site or of the running agent
    Graph(graph::Args),
    /// Show what was changed, repaired and failed, and when
    ///
    /// `apply` and `run` put it on record in the state folder; the last 1,000 runs are kept.
    History(history::Args),
    /// Read and change the facts: the versioned data that manifests and the agent use
    ///
    /// They are kept in the state folder. A change is made by the agent if one runs there.
    #[command(subcommand)]
    Facts(facts::Command),
    /// Follow what happens in the running agent
    Events(events::Args),
    /// Watch the running agent in the terminal: its workers with the root causes first, why, and what happens
    ///
    /// It is made for a terminal of 80 columns and 24 rows, and needs 60 and 16. The last line has the keys.
    Top(top::Args),
    /// Stop a worker and start it again
    ///
    /// A worker that could not start again now is left as it is, and the reason is told: one that is
    /// held back, parked, or waits for what it needs.
    Bounce(control::BounceArgs),
    /// Stop a worker and keep it stopped until it is unparked
    ///
    /// What needs it running stops and waits. What depends on a resource runs on with the state that
    /// was last known, and waits only when it starts next. A resource stays parked until `unpark`, also
    /// under the next agent, or until its manifest has it no more. A part of the agent itself is
    /// started again with the agent.
    Park(control::Args),
    /// Let a parked worker start again, also one that failed too often
    Unpark(control::Args),
    /// Leave a resource alone until it is resumed, while its program runs on
    ///
    /// It is not looked at and not changed, and its notifications wait. A program of it that ends is
    /// started again, with the config with which it ran: to keep it stopped, park it. What depends on
    /// the resource goes on with the state that was last known. It stays paused until `resume`, also
    /// under the next agent, or until its manifest has it no more.
    Pause(control::Args),
    /// Keep a paused resource as declared again
    Resume(control::Args),
}

impl Command {
    /// Returns what is logged when nothing is said: an agent tells what it does.
    pub(crate) fn usual_log(&self) -> Level {
        match self {
            Self::Run(_) | Self::Bootstrap(_) => Level::INFO,
            _ => Level::WARN,
        }
    }

    /// Returns whether the log can be written: not into what the live view draws.
    pub(crate) fn has_log(&self) -> bool {
        !matches!(self, Self::Top(_)) || !print::is_stderr_terminal()
    }

    /// Runs the command; returns the exit code.
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<u8> {
        if global.output == Format::Svg && !matches!(self, Self::Boot(_) | Self::Graph(_)) {
            bail!(ExitError::new(USAGE, "only graph and boot have --output svg"));
        }
        match self {
            Self::Run(command) => run::run(global, &command),
            Self::Bootstrap(args) => bootstrap::run(global, &args),
            Self::Check(args) => runtime::work(check::run(global, args)),
            Self::Plan(args) => runtime::work(plan::run(global, args)),
            Self::Apply(args) => runtime::work(apply::run(global, args)),
            Self::Report(args) => runtime::ask(report::run(global, args)),
            Self::Why(args) => runtime::ask(why::run(global, args)),
            Self::Boot(args) => runtime::ask(boot::run(global, args)),
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => runtime::ask(mcp::run(global, args)),
            Self::Metrics => runtime::ask(metrics::run(global)),
            Self::Page(args) => runtime::ask(page::run(global, args)),
            Self::Types(args) => runtime::work(types::run(global, args)),
            Self::Graph(args) => runtime::work(graph::run(global, args)),
            Self::History(args) => history::run(global, &args),
            Self::Facts(command) => facts::run(global, command),
            Self::Events(args) => runtime::ask(events::run(global, args)),
            Self::Top(args) => runtime::ask(top::run(global, args)),
            Self::Bounce(args) => runtime::ask(control::bounce(global, args)),
            Self::Park(args) => runtime::ask(control::run(global, Act::Park, args)),
            Self::Unpark(args) => runtime::ask(control::run(global, Act::Unpark, args)),
            Self::Pause(args) => runtime::ask(control::pause(global, args)),
            Self::Resume(args) => runtime::ask(control::resume(global, args)),
        }
    }
}
