//! What a container engine is asked beside the calls of types.

use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Finished, Job, ProcessConfig};
use tokio::time::timeout;

use crate::calls::Caller;
use crate::settings::Pull;

/// How long an engine may take to end and remove a container.
const REMOVAL: Duration = Duration::from_secs(60);

/// How long it may take to get an image.
const PULL: Duration = Duration::from_secs(60 * 60);

/// What a client of an engine may have of the agent's environment.
pub(crate) const ENVIRONMENT: [&str; 8] = [
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
    "CONTAINERS_CONF",
    "CONTAINER_HOST",
    "XDG_RUNTIME_DIR",
];

/// Returns the digest of an image, which is pulled if that is to be.
///
/// # Errors
///
/// When the engine has none, or does not answer.
pub(crate) async fn digest_of_image(
    engine: &[String],
    image: &str,
    caller: &Caller<'_>,
) -> Result<String, String> {
    let settings = caller.settings;
    if settings.pull == Pull::Always {
        pull(engine, image, caller).await?;
    }
    if let Some(id) = inspect(engine, image, caller).await? {
        return Ok(id);
    }
    if settings.pull == Pull::Never {
        return Err(format!("there is no image {image}, and none is to be pulled"));
    }
    pull(engine, image, caller).await?;
    let id = inspect(engine, image, caller).await?;
    id.ok_or_else(|| format!("{} has pulled {image} and has no such image", engine[0]))
}

async fn inspect(
    engine: &[String],
    image: &str,
    caller: &Caller<'_>,
) -> Result<Option<String>, String> {
    let words = ["image", "inspect", "--format", "{{.Id}}", image];
    let finished = ask(engine, &words, (caller, caller.settings.engine_timeout)).await?;
    let id = finished.stdout.trim();
    if finished.status.success() && !id.is_empty() {
        return Ok(Some(id.to_owned()));
    }
    let said = finished.stderr.to_lowercase();
    let is_missing =
        ["no such image", "not known", "no such object"].iter().any(|it| said.contains(it));
    if is_missing {
        return Ok(None);
    }
    Err(format!("{} does not say what {image} is: {}", engine[0], finished.stderr.trim()))
}

async fn pull(engine: &[String], image: &str, caller: &Caller<'_>) -> Result<(), String> {
    let finished = ask(engine, &["pull", "--quiet", image], (caller, PULL)).await?;
    if finished.status.success() {
        return Ok(());
    }
    Err(format!("cannot pull {image}: {}", finished.stderr.trim()))
}

/// Asks an engine for something that is no call of a type, for so long, or until the caller is told to
/// stop.
async fn ask(
    engine: &[String],
    words: &[&str],
    (caller, timeout): (&Caller<'_>, Duration),
) -> Result<Finished, String> {
    let Caller { calls, ledger, stop: told, .. } = caller;
    if calls.is_over() {
        return Err(format!("cannot run {}: it was told to stop", engine[0]));
    }
    let _open = calls.begin(format!("{} {}", engine[0], words.join(" ")));
    let (stopper, stop) = Stop::pair();
    let job = job(engine, words, timeout);
    let run = job.run(*ledger, &stop, (None, None));
    calls.stopping((&stopper, told), run).await.map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("cannot run {}: {error}{}", engine[0], source.unwrap_or_default())
    })
}

fn job(engine: &[String], words: &[&str], timeout: Duration) -> Job {
    let all = engine.iter().map(String::as_str).chain(words.iter().copied());
    let mut process = ProcessConfig::new("container engine", all.map(Into::into).collect());
    process.inherit = ENVIRONMENT.map(Into::into).to_vec();
    Job::new(process, timeout)
}

/// Ends all that runs in a container, and removes it; returns whether it is gone.
pub(crate) async fn remove(engine: &[String], name: &str) -> bool {
    // Whoever is told to stop still removes what it has started.
    let (_stopper, stop) = Stop::pair();
    let run = async |words: &[&str]| {
        let finished = job(engine, words, REMOVAL).run(None, &stop, (None, None)).await.ok()?;
        let is_missing = finished.stderr.to_lowercase().contains("no such container");
        Some((finished.status.success(), is_missing))
    };
    let gone = async {
        // Podman removes a container that was asked to end and has not, and leaves its processes.
        if run(&["kill", "--signal=KILL", name]).await == Some((true, false)) {
            run(&["wait", name]).await;
        }
        let removed = run(&["rm", "--force", name]).await;
        removed.is_some_and(|(is_done, is_missing)| is_done || is_missing)
    };
    timeout(REMOVAL, gone).await.unwrap_or(false)
}
