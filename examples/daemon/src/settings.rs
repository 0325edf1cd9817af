//! The settings file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::BoxError;

/// What a person sets, in a TOML file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the HTTP server listens.
    pub listen: SocketAddr,
    /// The file that holds all notes.
    pub store: PathBuf,
    /// How often the poller looks for fresh notes.
    #[serde(deserialize_with = "duration")]
    pub poll_every: Duration,
    /// The tenants by name.
    pub tenants: BTreeMap<String, Tenant>,
}

/// What is set for one tenant.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// How many notes are kept, at least 1.
    pub limit: usize,
}

impl Settings {
    /// Reads a file and checks it.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or says something that cannot be used.
    pub fn read(path: &Path) -> Result<Self, BoxError> {
        let settings: Self = toml::from_str(&fs::read_to_string(path)?)?;
        settings.validate()?;
        Ok(settings)
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    ///
    /// Names the first setting that cannot be used.
    pub fn validate(&self) -> Result<(), BoxError> {
        if self.poll_every.is_zero() {
            return Err("poll_every is 0; expected a longer time".into());
        }
        for (name, tenant) in &self.tenants {
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase()) {
                return Err(format!("tenant {name:?}: expected a name of the letters a-z").into());
            }
            if tenant.limit == 0 {
                return Err(format!("tenants.{name}.limit is 0; expected at least 1").into());
            }
        }
        Ok(())
    }

    /// Returns the names of all tenants.
    pub fn names(&self) -> BTreeSet<String> {
        self.tenants.keys().cloned().collect()
    }

    /// Returns how many notes of a tenant are kept: all, if it is not in the settings any more.
    pub fn limit(&self, tenant: &str) -> usize {
        self.tenants.get(tenant).map_or(usize::MAX, |tenant| tenant.limit)
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(de::Error::custom)
}
