//! What a plan is bound to in addition to what it shows.

use std::fmt;

use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::declare::declaration::Config;

/// What the seals of one plan are made with. It is random, so that the seals of two plans say nothing of
/// each other.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Salt(String);

impl Salt {
    /// Returns a new one.
    pub fn random() -> Self {
        let bytes: [u8; 16] = rand::rng().random();
        Self(base16ct::lower::encode_string(&bytes))
    }

    fn digest(&self, value: &Value) -> String {
        let mut hasher = Sha256::new_with_prefix(&self.0);
        hasher.update(value.to_string());
        base16ct::lower::encode_string(&hasher.finalize())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt")
    }
}

/// What a change comes from and what it leads to, whatever is shown of it.
#[derive(Clone, Copy)]
pub struct Basis<'a> {
    /// The config with the values of all its expressions.
    pub(crate) config: &'a Config,
    /// The state after the change, as far as it is known.
    pub(crate) after: Option<&'a Value>,
    /// The digests of the programs that it executes; null if there are none.
    pub(crate) programs: &'a Value,
}

impl Basis<'_> {
    /// Returns what tells them from others.
    pub(crate) fn seal(&self, salt: &Salt) -> Seal {
        let config = salt.digest(&Value::Object(self.config.clone()));
        let after = salt.digest(self.after.unwrap_or(&Value::Null));
        let programs = (!self.programs.is_null()).then(|| salt.digest(self.programs));
        Seal { config, after, programs, follows_changes: false }
    }
}

/// Digests of what a plan is bound to. The plan does not show all of that: not the secrets, the
/// environment of a command, the whole of a long content, or the programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    pub(crate) config: String,
    pub(crate) after: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) programs: Option<String>,
    /// Whether other resources change first, and perhaps the programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) follows_changes: bool,
}

impl Seal {
    /// Returns whether a change that is about to be made is the planned one.
    pub(crate) fn is_of_change(&self, now: &Self) -> bool {
        self.after == now.after && self.is_of_refresh(now)
    }

    /// Returns whether a refresh that is about to be done is the planned one. It leads to no state that a plan
    /// foresees.
    pub(crate) fn is_of_refresh(&self, now: &Self) -> bool {
        self.config == now.config && (self.follows_changes || self.programs == now.programs)
    }
}

impl fmt::Debug for Basis<'_> {
    // A config may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Basis")
    }
}
