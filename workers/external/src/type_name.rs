//! What the type of a resource means.

use std::path::{Path, PathBuf};

use crate::reference;
use crate::settings::Settings;

/// The images that came with Deployster: without a tag they have its version.
const ORIGINAL: &str = "kfirz/deployster-";

/// A program that makes up a type, or an action of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runner {
    /// A file of this machine.
    Program(PathBuf),
    /// An image, and the words that call the engine that runs it.
    Container { engine: Vec<String>, image: String },
}

impl Runner {
    /// Reads a type that a manifest or an action names; `None` if it is none of an external program. A
    /// relative path begins at `folder`.
    pub(crate) fn parse(
        text: &str,
        folder: &Path,
        settings: &Settings,
    ) -> Result<Option<Self>, String> {
        let (engine, image) = match text.split_once(':') {
            Some(("program", "")) => return Err("it names no program".to_owned()),
            Some(("program", path)) => {
                return Ok(Some(Self::Program(tidied(&folder.join(path)))));
            }
            Some((engine @ ("docker" | "podman"), image)) => (vec![engine.to_owned()], image),
            _ if text.contains(['/', ':']) => (settings.engine.clone(), text),
            _ => return Ok(None),
        };
        Self::container((engine, image), settings).map(Some)
    }

    /// Reads the name of an image that the configured engine runs.
    pub(crate) fn image(image: &str, settings: &Settings) -> Result<Self, String> {
        Self::container((settings.engine.clone(), image), settings)
    }

    fn container(
        (engine, image): (Vec<String>, &str),
        settings: &Settings,
    ) -> Result<Self, String> {
        if let Some(wrong) = reference::amiss(image) {
            return Err(wrong);
        }
        let is_original = image.starts_with(ORIGINAL) && !image.contains([':', '@']);
        let tag = if is_original { format!(":{}", settings.version) } else { String::new() };
        // An engine that is named runs as it is configured, if it is the one.
        let is_configured = settings.engine.first().is_some_and(|name| is_named(name, &engine[0]));
        let engine = if is_configured { settings.engine.clone() } else { engine };
        Ok(Self::Container { engine, image: format!("{image}{tag}") })
    }
}

fn is_named(program: &str, name: &str) -> bool {
    Path::new(program).file_name().is_some_and(|file| file == name)
}

/// Returns a path without the parts that mean nothing.
fn tidied(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Runner;
    use crate::settings::Settings;

    fn parse(text: &str) -> Result<Option<Runner>, String> {
        Runner::parse(text, Path::new("/site"), &Settings::default())
    }

    fn container(engine: &str, image: &str) -> Result<Option<Runner>, String> {
        let engine = vec![engine.to_owned()];
        Ok(Some(Runner::Container { engine, image: image.to_owned() }))
    }

    #[test]
    fn a_type_names_a_program_or_an_image() {
        assert_eq!(parse("file"), Ok(None));
        assert_eq!(parse("program:./types/x"), Ok(Some(Runner::Program("/site/types/x".into()))));
        assert_eq!(parse("program:/bin/x"), Ok(Some(Runner::Program("/bin/x".into()))));
        assert_eq!(parse("acme/disk:2.1"), container("docker", "acme/disk:2.1"));
        assert_eq!(parse("busybox:1"), container("docker", "busybox:1"));
        assert_eq!(parse("podman:x"), container("podman", "x"));
        assert_eq!(parse("docker:reg:5000/x:1"), container("docker", "reg:5000/x:1"));
        assert_eq!(
            parse("kfirz/deployster-gcp"),
            container("docker", "kfirz/deployster-gcp:18.0.0")
        );
        assert_eq!(parse("kfirz/deployster-gcp:1"), container("docker", "kfirz/deployster-gcp:1"));
        for wrong in ["program:", "docker:", "docker:-v", "a//b", "x:y z"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
