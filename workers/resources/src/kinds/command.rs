//! What `exec` and `process` share: a command as a manifest writes it.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crankcase_workers::ProcessConfig;

use crate::attributes::Attributes;
use crate::text::shown;

/// Where and with what environment a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
}

impl Place {
    /// Returns how a command is run there.
    pub(super) fn process(&self, name: &str, argv: &[String]) -> ProcessConfig {
        let environment = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        let process = ProcessConfig::new(name, argv.iter().map(Into::into).collect());
        let process = process.environment(environment.collect());
        match &self.cwd {
            Some(folder) => process.folder(folder.clone()),
            None => process,
        }
    }
}

/// Whether a command is a line for a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    /// The kind has no lines.
    Never,
    /// The kind has lines, and they are not asked for.
    Off,
    /// It is a line for this shell.
    On(&'static str),
}

/// Reads an argument vector, or a line for the shell.
pub(super) fn command(
    attributes: &mut Attributes<'_>,
    name: &str,
    shell: Shell,
) -> Option<Vec<String>> {
    let value = attributes.value(name)?;
    if let Shell::On(shell) = shell {
        let line = attributes.text(name)?.to_owned();
        refuse_nul(attributes, name, &line);
        return Some(vec![shell.to_owned(), "-c".to_owned(), line]);
    }
    if value.is_string() {
        let line = shown(value);
        let help = match shell {
            Shell::Never => "[\"sh\", \"-c\", \"the line\"]".to_owned(),
            _ => "[\"program\", \"argument\"], or set shell: true".to_owned(),
        };
        let message = format!("{line} is a line for a shell; write a list as {help}");
        attributes.wrong(name, message);
        return None;
    }
    let argv = attributes.texts(name)?;
    if argv.first().is_none_or(String::is_empty) {
        attributes.wrong(name, "names no program".to_owned());
    } else {
        refuse_nul(attributes, name, &argv.concat());
    }
    Some(argv)
}

/// Refuses what no path and no argument of a program can hold.
fn refuse_nul(attributes: &mut Attributes<'_>, name: &str, text: &str) {
    if text.contains('\0') {
        attributes.wrong(name, "contains a NUL character".to_owned());
    }
}

/// Reads `cwd` and `env`.
pub(super) fn place(attributes: &mut Attributes<'_>) -> Place {
    let cwd = absolute(attributes, "cwd");
    let env = attributes.text_map("env").unwrap_or_default();
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            attributes.wrong("env", format!("{name:?} cannot be a variable with this value"));
        }
    }
    Place { cwd, env }
}

/// Reads an absolute path.
pub(super) fn absolute(attributes: &mut Attributes<'_>, name: &str) -> Option<PathBuf> {
    let text = attributes.text(name)?;
    let path = Path::new(text);
    if !path.is_absolute() {
        attributes.wrong(name, format!("{path:?} is not absolute; begin it with /"));
    }
    refuse_nul(attributes, name, text);
    Some(path.to_owned())
}
