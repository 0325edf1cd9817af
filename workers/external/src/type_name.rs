//! The program that the type of a resource names.

use std::path::{Path, PathBuf};

use crate::reference;
use crate::settings::Settings;

/// A word before a colon, which says what runs the rest.
const PREFIXES: [&str; 3] = ["program", "docker", "podman"];

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
    /// Reads a type that a manifest or an action names; `None` if it names no external program. A
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

    /// Reads the image that a call of this type names. An image without an engine is run by the engine of the type,
    /// which has its images. A bare name is the name of an image here, and not of a kind.
    pub(crate) fn of_call(
        &self,
        image: &str,
        folder: &Path,
        settings: &Settings,
    ) -> Result<Self, String> {
        let named = image.split_once(':').filter(|(prefix, _)| PREFIXES.contains(prefix));
        let read = match (named, self) {
            (Some(_), _) => Self::parse(image, folder, settings)?,
            (None, Self::Container { engine, .. }) => {
                Some(Self::container((engine.clone(), image), settings)?)
            }
            (None, Self::Program(_)) => {
                Some(Self::container((settings.engine.clone(), image), settings)?)
            }
        };
        read.ok_or_else(|| "it names no program".to_owned())
    }

    /// Returns whether podman runs it.
    pub(crate) fn is_podman(&self) -> bool {
        matches!(self, Self::Container { engine, .. } if is_named(&engine[0], "podman"))
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
        // A named engine runs as it is configured, if it is the configured one.
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

    #[test]
    fn the_engine_of_a_type_runs_the_images_of_its_calls() -> Result<(), String> {
        let of_podman = parse("podman:acme/disk:1")?.ok_or("it is none")?;
        let of_program = parse("program:./disk")?.ok_or("it is none")?;
        let settings = Settings::default();
        let call =
            |own: &Runner, image: &str| own.of_call(image, Path::new("/site"), &settings).map(Some);

        for image in ["acme/slack:2", "busybox:1", "busybox"] {
            assert_eq!(call(&of_podman, image), container("podman", image), "{image}");
            assert_eq!(call(&of_program, image), container("docker", image), "{image}");
        }
        assert_eq!(call(&of_podman, "docker:acme/slack"), container("docker", "acme/slack"));
        assert_eq!(call(&of_program, "podman:acme/slack"), container("podman", "acme/slack"));
        let program = Ok(Some(Runner::Program("/site/x".into())));
        assert_eq!(call(&of_podman, "program:./x"), program);
        for wrong in ["", "program:", "docker:-v", "a//b", "-v"] {
            assert!(call(&of_podman, wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
