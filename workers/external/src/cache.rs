//! The identity of a type's program, and the earlier answers of the program.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crankcase_resources::{BoxError, blocking};
use crankcase_workers::{Folder, open_file};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::calls::Caller;
use crate::engine::{digest_of_image, inspect};
use crate::type_name::Runner;
use crate::unknown::Unknown;

/// The largest answer that is kept, in bytes.
const LARGEST: u64 = 17 * 1024 * 1024;

/// How much a process keeps in memory, in bytes. When there is more, it forgets all and begins anew.
const MOST: usize = 64 * 1024 * 1024;

/// The key of an answer with the files that it depends on.
const DEPENDS_ON: &str = "depends_on_files";

/// The most bytes of the files that an answer depends on, which are read at each load.
const MOST_READ: u64 = 256 * 1024 * 1024;

/// How many symlinks the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// How far the clock of files may be behind.
const COARSE: Duration = Duration::from_millis(50);

/// Returns the digest of a program's file, or of its image: a program with another content has another one. Pulls the
/// image if the settings ask for that.
///
/// # Errors
///
/// When the file cannot be read, or the image is not there.
pub(crate) async fn identity(runner: &Runner, caller: &Caller<'_>) -> Result<String, Unknown> {
    match runner {
        Runner::Program(path) => {
            let digest = digest_of_program(path, caller).await;
            digest.map_err(|error| {
                let is_denied = is_denied(&*error);
                let text = format!("cannot read the program {}: {error}", path.display());
                if is_denied { Unknown::Machine(text) } else { Unknown::Type(vec![text]) }
            })
        }
        Runner::Container { engine, image } => {
            digest_of_image(engine, image, caller).await.map_err(Unknown::Machine)
        }
    }
}

/// Returns whether an error says that reading is not permitted.
fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>().map(io::Error::kind);
    own == Some(io::ErrorKind::PermissionDenied) || error.source().is_some_and(is_denied)
}

async fn digest_of_program(path: &Path, caller: &Caller<'_>) -> Result<String, BoxError> {
    let (path, is_over) = (path.to_owned(), caller.stopped());
    // There is no bound: a program that the machine can run may be read.
    let mut left = u64::MAX;
    blocking(move || digest_of(&path, &mut left, &is_over)).await
}

/// Returns the digest of a file, and takes its size off the bytes that may still be read. Reads no further once the
/// caller is told to stop.
fn digest_of(path: &Path, left: &mut u64, is_over: &impl Fn() -> bool) -> Result<String, BoxError> {
    let too_much = || format!("its files have more than {MOST_READ} bytes");
    let (mut file, size): (File, u64) = open_file(path)?;
    if size > *left {
        return Err(too_much().into());
    }
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(base16ct::lower::encode_string(&hasher.finalize()));
        }
        // It may grow meanwhile.
        *left = left.checked_sub(count as u64).ok_or_else(too_much)?;
        hasher.update(&buffer[..count]);
        // A small file is read to its end in any case.
        if count == buffer.len() && is_over() {
            return Err("interrupted".into());
        }
    }
}

/// The answers of types. Each is kept in memory until the process ends. An answer is also kept in the folder of the
/// cache, if its files tell whether it still holds.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    answers: Mutex<Answers>,
}

/// The answers in memory.
#[derive(Debug, Default)]
struct Answers {
    by_question: HashMap<String, Entry>,
    /// How many bytes they have at most.
    bytes: usize,
}

/// An answer that is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    answer: Value,
    /// The digest of the files that the program has said it depends on.
    files: Option<String>,
}

/// A question to a type.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) runner: &'a Runner,
    pub(crate) identity: &'a str,
    pub(crate) input: &'a Value,
}

impl Kept {
    /// Returns the earlier answer to this question, if it still holds.
    pub(crate) async fn recall(
        &self,
        caller: &Caller<'_>,
        question: Question<'_>,
    ) -> Option<Value> {
        let settings = caller.settings;
        let key = question.key();
        let known = self.answers.lock().by_question.get(&key).cloned();
        let stored = || {
            let cache = settings.cache.as_deref().filter(|_| !settings.is_fresh)?;
            let folder = Folder::open_own(cache).ok()?;
            serde_json::from_slice(&folder.read(&key, LARGEST).ok()?).ok()
        };
        let Entry { answer, files } = known.or_else(stored)?;
        if let Some(files) = files {
            let now = digest_of_files((question.runner, caller), &answer, None).await;
            now.ok().flatten().filter(|now| *now == files)?;
        }
        Some(answer)
    }

    /// Keeps the answer to a call that began at this time.
    pub(crate) async fn keep(
        &self,
        caller: &Caller<'_>,
        (question, began): (Question<'_>, SystemTime),
        answer: &Value,
    ) {
        let compared = async {
            question.require_same(caller).await?;
            digest_of_files((question.runner, caller), answer, Some(began)).await
        };
        let files = match compared.await {
            Ok(files) => files,
            // The answer may be of another program, or for other files, than those that are there
            // now.
            Err(error) => {
                tracing::debug!(error, "an answer is not kept");
                return;
            }
        };
        // The answer of a program may depend on anything, unless the program has named the files.
        let is_lasting = files.is_some() || matches!(question.runner, Runner::Container { .. });
        let (key, entry) = (question.key(), Entry { answer: answer.clone(), files });
        let Ok(text) = serde_json::to_vec(&entry) else { return };
        // A plan makes no state folder.
        let is_there = |cache: &&Path| cache.parent().is_some_and(Path::is_dir);
        let cache = caller.settings.cache.as_deref().filter(is_there);
        if let Some(cache) = cache.filter(|_| is_lasting) {
            let stored = Folder::make_own(cache);
            let stored = stored.and_then(|folder| folder.replace(&key, &text, 0o600));
            if let Err(error) = stored {
                tracing::debug!(%error, "an answer is not kept");
            }
        }
        let mut answers = self.answers.lock();
        if answers.bytes + text.len() > MOST {
            // Most of them are of programs that have changed since.
            *answers = Answers::default();
        }
        answers.bytes += text.len();
        answers.by_question.insert(key, entry);
    }
}

impl Question<'_> {
    /// Requires that a program or an image is the one that it was before it was asked.
    ///
    /// # Errors
    ///
    /// When it was replaced: then nobody knows which of the two has answered.
    async fn require_same(&self, caller: &Caller<'_>) -> Result<(), BoxError> {
        let (now, shown) = match self.runner {
            Runner::Program(path) => {
                (Some(digest_of_program(path, caller).await?), path.display().to_string())
            }
            Runner::Container { engine, image } => {
                (inspect(engine, image, caller).await?, image.clone())
            }
        };
        match now.as_deref() == Some(self.identity) {
            true => Ok(()),
            false => Err(format!("{shown} has changed while it was asked").into()),
        }
    }

    fn key(&self) -> String {
        let mut hasher = Sha256::new();
        // The first is the version of what is kept.
        for part in ["2", self.identity, &self.input.to_string()] {
            // With its length, so that no text runs into the next.
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        base16ct::lower::encode_string(&hasher.finalize())
    }
}

/// Returns the digest of the files on which a program's answer depends. Returns none if the answer names no files, or
/// if the type runs in a container.
///
/// # Errors
///
/// When a file cannot be read, or has changed since `began`: then nobody knows for which content
/// the program has answered. When the files have more than 256 MiB, or the caller is told to stop.
async fn digest_of_files(
    (runner, caller): (&Runner, &Caller<'_>),
    answer: &Value,
    began: Option<SystemTime>,
) -> Result<Option<String>, BoxError> {
    let Runner::Program(program) = runner else { return Ok(None) };
    let Some(files) = answer.get(DEPENDS_ON).and_then(Value::as_array) else { return Ok(None) };
    let folder = program.parent().unwrap_or(Path::new("/")).to_owned();
    let files: Vec<_> = files.iter().filter_map(|file| Some(folder.join(file.as_str()?))).collect();
    let is_over = caller.stopped();
    blocking(move || -> Result<_, BoxError> {
        let (mut hasher, mut left) = (Sha256::new(), MOST_READ);
        for path in &files {
            let digest = match std::fs::metadata(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                Err(error) => return Err(error.into()),
                Ok(found) => {
                    if began.is_some_and(|began| last_change(path, &found) + COARSE >= began) {
                        return Err(format!("{} has just changed", path.display()).into());
                    }
                    digest_of(path, &mut left, &is_over)?
                }
            };
            hasher.update(Sha256::digest(path.as_os_str().as_encoded_bytes()));
            hasher.update(Sha256::digest(digest));
        }
        Ok(Some(base16ct::lower::encode_string(&hasher.finalize())))
    })
    .await
}

/// Returns the time at which a file, or a symlink that leads to it, was last changed.
fn last_change(path: &Path, found: &Metadata) -> SystemTime {
    let (mut open, mut links) = (vec![path.to_owned()], BTreeMap::new());
    while let Some(path) = open.pop().filter(|_| links.len() < MOST_LINKS) {
        for above in path.ancestors() {
            let Ok(link) = std::fs::symlink_metadata(above) else { continue };
            if link.is_symlink() && links.insert(above.to_owned(), changed(&link)).is_none() {
                // The target of a symlink may be a symlink too.
                let folder = above.parent().unwrap_or(Path::new("/"));
                open.extend(std::fs::read_link(above).map(|target| folder.join(target)));
            }
        }
    }
    links.into_values().fold(changed(found), SystemTime::max)
}

/// Returns the time of the last change of a file. Nobody can set this time.
fn changed(found: &Metadata) -> SystemTime {
    let (seconds, nanos) = (found.ctime().max(0), found.ctime_nsec().max(0));
    let since = Duration::new(seconds.unsigned_abs(), u32::try_from(nanos).unwrap_or_default());
    SystemTime::UNIX_EPOCH + since
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::error::Error;
    use std::fs::File;

    use super::digest_of;

    #[test]
    fn a_file_is_read_no_further_once_its_reader_is_told_to_stop() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("large");
        File::create(&path)?.set_len(1024 * 1024)?;
        let looked = Cell::new(0);
        let is_over = || {
            looked.set(looked.get() + 1);
            looked.get() == 3
        };

        let mut left = u64::MAX;
        let error = digest_of(&path, &mut left, &is_over).err().ok_or("it was read")?;

        assert_eq!((error.to_string().as_str(), looked.get()), ("interrupted", 3));
        Ok(())
    }
}
