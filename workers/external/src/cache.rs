//! Which program a type is just now, and what it has answered before.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crankcase_engine::Stop;
use crankcase_resources::{BoxError, blocking};
use crankcase_workers::{Folder, open_file};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::engine::digest_of_image;
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::unknown::Unknown;

/// The largest answer that is kept, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Returns what tells a program from one of another content: the digest of its file, or of its image,
/// which is pulled if that is to be.
///
/// # Errors
///
/// When there is none.
pub(crate) async fn identity(
    runner: &Runner,
    (settings, stop): (&Settings, &Stop),
) -> Result<String, Unknown> {
    match runner {
        Runner::Program(path) => {
            let (path, shown) = (path.clone(), path.display().to_string());
            let digest = blocking(move || digest_of(&path)).await;
            digest.map_err(|error| {
                let is_denied = is_denied(&*error);
                let text = format!("cannot read the program {shown}: {error}");
                if is_denied { Unknown::Machine(text) } else { Unknown::Type(vec![text]) }
            })
        }
        Runner::Container { engine, image } => {
            digest_of_image(engine, image, (settings, stop)).await.map_err(Unknown::Machine)
        }
    }
}

/// Returns whether an error is that something may not be read.
fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let own = error.downcast_ref::<io::Error>().map(io::Error::kind);
    own == Some(io::ErrorKind::PermissionDenied) || error.source().is_some_and(is_denied)
}

fn digest_of(path: &Path) -> Result<String, BoxError> {
    let (mut file, _): (File, u64) = open_file(path)?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(base16ct::lower::encode_string(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Returns what a program of this identity has answered to this input, if that is known.
pub(crate) fn recall(cache: Option<&Path>, identity: &str, input: &Value) -> Option<Value> {
    let folder = Folder::open(cache?).ok()?;
    serde_json::from_slice(&folder.read(key(identity, input), LARGEST).ok()?).ok()
}

/// Keeps what it has answered, if the folder that the cache is in is there.
pub(crate) fn keep(cache: Option<&Path>, (identity, input): (&str, &Value), answer: &Value) {
    // A plan makes no state folder.
    let is_there = |cache: &&Path| cache.parent().is_some_and(Path::is_dir);
    let Some(cache) = cache.filter(is_there) else { return };
    let keep = || -> Result<(), BoxError> {
        let folder = Folder::make(cache)?;
        Ok(folder.replace(key(identity, input), &serde_json::to_vec(answer)?, 0o600)?)
    };
    if let Err(error) = keep() {
        tracing::debug!(error, "an answer is not kept");
    }
}

fn key(identity: &str, input: &Value) -> String {
    let mut hasher = Sha256::new();
    for part in [identity, &input.to_string()] {
        // With its length, so that no text runs into the next.
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    base16ct::lower::encode_string(&hasher.finalize())
}
