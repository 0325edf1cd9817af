//! Which config file is followed, in which format and within which limits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_engine::ConfigError;

/// The largest file that may be allowed, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The longest quiet that may be asked for.
const MAX_QUIET: Duration = Duration::from_secs(60);

/// Which file a [`ConfigFile`](crate::ConfigFile) follows, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFileConfig {
    /// The file, an absolute path. It may be a symlink.
    pub path: PathBuf,
    /// What it is written in. Default: what its name ends with, `.yaml` or `.yml`, `.json`, or
    /// `.toml`.
    pub format: Option<ConfigFormat>,
    /// How long the file must have been left alone before it is read again. Default 100 ms, at most
    /// 60 s.
    ///
    /// Editors write a file in several steps, and what is there in between is of no interest.
    pub quiet: Duration,
    /// The size of the file at most, in bytes. Default 1 MiB, at most 16 MiB.
    pub max_bytes: u64,
}

/// What a config file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigFormat {
    /// YAML 1.2: only `true` and `false` are booleans, keys are given once, and aliases are bounded.
    Yaml,
    /// JSON.
    Json,
    /// TOML 1.
    Toml,
}

crankcase_engine::setters! {
    ConfigFileConfig {
        path: PathBuf,
        quiet: Duration,
        max_bytes: u64,
    }
    optional {
        format: ConfigFormat,
    }
}

impl ConfigFileConfig {
    /// Returns a configuration with the defaults.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            format: None,
            quiet: Duration::from_millis(100),
            max_bytes: 1024 * 1024,
        }
    }

    /// Checks every field; opens and looks up nothing.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first field that cannot be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !self.path.is_absolute() || self.path.file_name().is_none() {
            let reason = "the absolute path of a file";
            return Err(ConfigError::new("path", self.path.display(), reason));
        }
        if self.format_in_use().is_none() {
            let reason = "a path that ends in .yaml, .yml, .json or .toml, or a format";
            return Err(ConfigError::new("path", self.path.display(), reason));
        }
        if self.quiet > MAX_QUIET {
            let value = format!("{:?}", self.quiet);
            return Err(ConfigError::new("quiet", value, "at most 60 s"));
        }
        if !(1..=MAX_BYTES).contains(&self.max_bytes) {
            return Err(ConfigError::new("max_bytes", self.max_bytes, "1 to 16777216"));
        }
        Ok(())
    }

    /// Returns the format that was set, or that the name says.
    pub(super) fn format_in_use(&self) -> Option<ConfigFormat> {
        let extension = || self.path.extension().and_then(|extension| extension.to_str());
        self.format.or_else(|| match extension()? {
            "yaml" | "yml" => Some(ConfigFormat::Yaml),
            "json" => Some(ConfigFormat::Json),
            "toml" => Some(ConfigFormat::Toml),
            _ => None,
        })
    }
}
