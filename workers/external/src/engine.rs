//! Questions to a container engine that are no calls of types.

use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Finished, Job, ProcessConfig};
use tokio::time::{sleep, timeout};

use crate::calls::Caller;
use crate::settings::Pull;

/// How long each step may take that ends the processes of a container. The next step follows in any
/// case.
const ENDING: Duration = Duration::from_secs(15);

/// How long until the next question to an engine that is already removing the container.
const AGAIN: Duration = Duration::from_millis(100);

/// How long an engine may take to make a container after the end of the client that asked for it.
const LATE: Duration = Duration::from_millis(500);

/// How long the pull of an image may take.
const PULL: Duration = Duration::from_secs(60 * 60);

/// The variables of the agent's environment that a client of an engine gets.
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

/// Returns the digest of an image. Pulls the image first if the settings ask for that.
///
/// # Errors
///
/// When the engine cannot get the image, or does not answer.
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

/// Returns the digest of an image, or `None` if the engine has no such image.
///
/// # Errors
///
/// When the engine does not answer, or answers something else.
pub(crate) async fn inspect(
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

/// Asks an engine a question that is no call of a type. Ends after the timeout, or when the caller
/// must stop.
async fn ask(
    engine: &[String],
    words: &[&str],
    (caller, timeout): (&Caller<'_>, Duration),
) -> Result<Finished, String> {
    let Caller { calls, stop: told, .. } = caller;
    if calls.is_over(told) {
        return Err(format!("cannot run {}: it was told to stop", engine[0]));
    }
    let _open = calls.begin(format!("{} {}", engine[0], words.join(" ")));
    let (stopper, stop) = Stop::pair();
    let job = job(engine, words, timeout);
    let run = job.run(caller.ledger(), &stop, (None, None));
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

/// The result of the removal of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is gone.
    Gone,
    /// The engine has refused it.
    Refused,
    /// The engine has not answered.
    Unanswered,
}

/// Ends all processes of a container, and removes the container. Takes no longer than the limit.
pub(crate) async fn remove(engine: &[String], name: &str, limit: Duration) -> Removal {
    // A caller that must stop still removes its container.
    let (_stopper, stop) = Stop::pair();
    let run = async |words: &[&str], limit: Duration| {
        let finished = job(engine, words, limit).run(None, &stop, (None, None)).await.ok()?;
        Some((finished.status.success(), finished.stderr.to_lowercase()))
    };
    let gone = async {
        // Podman also removes a container that has not ended yet, and leaves its processes.
        let killed = run(&["kill", "--signal=KILL", name], ENDING).await;
        // The engine may still make the container, for a client that has ended.
        let mut may_come = killed.as_ref().is_some_and(|(_, said)| is_missing(said));
        if killed.is_some_and(|(is_done, _)| is_done) {
            run(&["wait", name], ENDING).await;
        }
        while let Some((is_done, said)) = run(&["rm", "--force", name], limit).await {
            if is_done || is_missing(&said) {
                if !std::mem::take(&mut may_come) {
                    return Removal::Gone;
                }
                sleep(LATE).await;
                continue;
            }
            // Docker also removes a container by itself when it ends, because of --rm.
            if !said.contains("already in progress") {
                return Removal::Refused;
            }
            sleep(AGAIN).await;
        }
        Removal::Unanswered
    };
    timeout(limit, gone).await.unwrap_or(Removal::Unanswered)
}

/// Returns whether an answer in lower case says that there is no such container.
fn is_missing(said: &str) -> bool {
    said.contains("no such container")
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::{Removal, remove};

    const LONG: Duration = Duration::from_secs(1000);

    /// An engine that is already removing a container when it is asked to.
    const REMOVES: &str = r#"#!/bin/sh
echo "$@" >> FOLDER/asked
[ "$1" = rm ] || exit 0
if [ -e FOLDER/again ]; then
  echo 'Error: No such container: it' >&2
else
  echo 'Error response from daemon: removal of container it is already in progress' >&2
fi
: > FOLDER/again
exit 1
"#;

    /// An engine that makes the container after the first request to remove it. Newer engines exit
    /// with 0 if there was none.
    const MAKES: &str = r#"#!/bin/sh
echo "$@" >> FOLDER/asked
if [ "$1" = rm ] && [ -e FOLDER/container ]; then
  exec rm FOLDER/container
fi
[ "$1" = rm ] && : > FOLDER/container
echo 'Error response from daemon: No such container: it' >&2
[ "$1" = rm ] && exit CODE
exit 1
"#;

    #[tokio::test]
    async fn a_container_that_is_made_after_its_client_has_ended_is_removed()
    -> Result<(), Box<dyn Error>> {
        for code in ["0", "1"] {
            let folder = tempfile::tempdir()?;
            let engine = folder.path().join("engine");
            let script = MAKES.replace("FOLDER", &folder.path().to_string_lossy());
            fs::write(&engine, script.replace("CODE", code))?;
            fs::set_permissions(&engine, Permissions::from_mode(0o755))?;

            let removal = remove(&[engine.display().to_string()], "it", LONG).await;

            let asked = fs::read_to_string(folder.path().join("asked"))?;
            assert_eq!(removal, Removal::Gone, "{code}: {asked}");
            assert!(!folder.path().join("container").exists(), "{code}: {asked}");
            assert_eq!(asked, "kill --signal=KILL it\nrm --force it\nrm --force it\n");
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_container_that_is_just_being_removed_is_waited_for() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let engine = folder.path().join("engine");
        fs::write(&engine, REMOVES.replace("FOLDER", &folder.path().to_string_lossy()))?;
        fs::set_permissions(&engine, Permissions::from_mode(0o755))?;

        let removal = remove(&[engine.display().to_string()], "it", LONG).await;

        let asked = fs::read_to_string(folder.path().join("asked"))?;
        assert_eq!(removal, Removal::Gone, "{asked}");
        assert_eq!(asked, "kill --signal=KILL it\nwait it\nrm --force it\nrm --force it\n");
        Ok(())
    }
}
