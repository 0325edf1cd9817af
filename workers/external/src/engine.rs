//! What a container engine is asked beside the calls of types.

use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Finished, Job, ProcessConfig};

use crate::settings::{Pull, Settings};

/// How long an engine may take to remove a container.
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
    (settings, stop): (&Settings, &Stop),
) -> Result<String, String> {
    if settings.pull == Pull::Always {
        pull(engine, image, stop).await?;
    }
    if let Some(id) = inspect(engine, image, (settings.engine_timeout, stop)).await? {
        return Ok(id);
    }
    if settings.pull == Pull::Never {
        return Err(format!("there is no image {image}, and none is to be pulled"));
    }
    pull(engine, image, stop).await?;
    let id = inspect(engine, image, (settings.engine_timeout, stop)).await?;
    id.ok_or_else(|| format!("{} has pulled {image} and has no such image", engine[0]))
}

async fn inspect(
    engine: &[String],
    image: &str,
    wait: (Duration, &Stop),
) -> Result<Option<String>, String> {
    let words = ["image", "inspect", "--format", "{{.Id}}", image];
    let finished = run(engine, &words, wait).await?;
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

async fn pull(engine: &[String], image: &str, stop: &Stop) -> Result<(), String> {
    let finished = run(engine, &["pull", "--quiet", image], (PULL, stop)).await?;
    if finished.status.success() {
        return Ok(());
    }
    Err(format!("cannot pull {image}: {}", finished.stderr.trim()))
}

/// Runs an engine for something that is no call of a type, for so long, or until it is told to stop.
async fn run(
    engine: &[String],
    words: &[&str],
    (timeout, stop): (Duration, &Stop),
) -> Result<Finished, String> {
    let all = engine.iter().map(String::as_str).chain(words.iter().copied());
    let mut process = ProcessConfig::new("container engine", all.map(Into::into).collect());
    process.inherit = ENVIRONMENT.map(Into::into).to_vec();
    let run = Job::new(process, timeout).run(None, stop, (None, None)).await;
    run.map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("cannot run {}: {error}{}", engine[0], source.unwrap_or_default())
    })
}

/// Removes a container with all that runs in it; returns whether it is gone.
pub(crate) async fn remove(engine: &[String], name: &str) -> bool {
    // Whoever is told to stop still removes what it has started.
    let (_stopper, stop) = Stop::pair();
    run(engine, &["rm", "--force", name], (REMOVAL, &stop)).await.is_ok_and(|finished| {
        finished.status.success() || finished.stderr.to_lowercase().contains("no such container")
    })
}
