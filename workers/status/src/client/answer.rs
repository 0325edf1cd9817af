//! Reads answers of an agent.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::ClientError;
use crate::wire::{VERSION, Versioned};

#[derive(Deserialize)]
struct OnlyVersion {
    version: u32,
}

/// Reads an answer, and refuses one of another version.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ClientError> {
    let OnlyVersion { version } = serde_json::from_slice(text).map_err(ClientError::Answer)?;
    if version != VERSION {
        return Err(ClientError::Version { version });
    }
    let answer: Versioned<T> = serde_json::from_slice(text).map_err(ClientError::Answer)?;
    Ok(answer.value)
}
