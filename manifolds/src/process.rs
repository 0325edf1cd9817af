//! The manifold of an external command.

use std::time::Duration;

use crankcase_engine::input::Inputs;
use crankcase_engine::{ConfigError, Manifold};
use crankcase_workers::{Ledger, Process, ProcessConfig};

/// How much longer than the process itself the engine waits: for its start, and for its end.
const SLACK: Duration = Duration::from_secs(10);

/// What is run, and where it is recorded.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is run, when it is ready, and how it is ended.
    pub process: ProcessConfig,
    /// Where it is recorded, so that it is found if this process is killed. `None`: nowhere.
    pub ledger: Option<Ledger>,
}

/// Returns a manifold that runs an external command while its inputs are up.
///
/// It is up when the process is ready, and offers a
/// [`ProcessHandle`](crankcase_workers::ProcessHandle). Whatever the process ends with is a failure
/// with its reason, and the engine starts it again after a backoff; so it is for a command that
/// cannot be executed, a port that is taken, and a process that is not ready in time. While lines of
/// its output are dropped, it is degraded. The values of the inputs are not used: it is their coming
/// and going that counts.
///
/// The start timeout and the grace of the manifold are set above those of the process, so that it
/// is the process whose reason is reported; setting them anew takes that away.
///
/// # Errors
///
/// When the configuration cannot be used; it names the field at fault.
///
/// # Examples
///
/// ```
/// use std::net::Ipv4Addr;
/// use crankcase_engine::Name;
/// use crankcase_manifolds::process;
/// use crankcase_workers::{ProcessConfig, Readiness};
///
/// const STORE: Name<String> = Name::new("store");
///
/// # fn main() -> Result<(), crankcase_engine::ConfigError> {
/// let command = ["httpd", "-f", "-p", "8080"].map(Into::into);
/// let web = ProcessConfig::new("web", command.into()).readiness(Readiness::Port((Ipv4Addr::LOCALHOST, 8080).into()));
/// let web = process::manifold(process::Config { process: web, ledger: None }, STORE)?;
/// # drop(web);
/// # Ok(())
/// # }
/// ```
pub fn manifold<I: Inputs>(config: Config, inputs: I) -> Result<Manifold, ConfigError> {
    config.process.validate()?;
    let (ready_timeout, grace) = (config.process.ready_timeout, config.process.grace);
    // A daemon is waited for twice: until it is there, and until it is ready.
    let waits = if config.process.pid_file.is_some() { 2 } else { 1 };
    let manifold = Manifold::builder()
        .inputs(inputs)
        .start_with(config, |Config { process, ledger }, _values, ctx| async move {
            let process = Process::spawn_for(ctx.stop(), process, ledger.as_ref()).await?;
            Ok(process.telling(ctx.health().into()).ready().await?)
        })
        .output(Process::handle)
        .report(|process| {
            let handle = process.handle();
            move || {
                let status = serde_json::to_value(handle.status()).unwrap_or_default();
                std::future::ready(status)
            }
        })
        .build();
    Ok(manifold.start_timeout(ready_timeout * waits + SLACK).grace(grace + SLACK))
}
