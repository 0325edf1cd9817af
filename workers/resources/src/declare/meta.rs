//! The settings that a resource of any kind may have, such as `noop` and `timeout`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::error::AttributeError;

/// How a resource is treated, whatever its kind is; as `meta` in a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Meta {
    /// Whether it is only ever looked at, and never changed; not by default.
    pub noop: bool,
    /// Whether it is put back as it was when it is not kept any more; not by default.
    pub reverse: bool,
    /// How often it is looked at without a reason; none by default: as often as the agent looks at
    /// all resources.
    #[serde(with = "duration")]
    pub poll: Option<Duration>,
    /// How long a look, and each action, may take; none by default: as long as it takes.
    #[serde(with = "duration")]
    pub timeout: Option<Duration>,
    /// Whether it comes after the resources that make what it needs; it does by default.
    pub automatic_edges: bool,
}

impl Default for Meta {
    fn default() -> Self {
        Self { noop: false, reverse: false, poll: None, timeout: None, automatic_edges: true }
    }
}

impl Meta {
    /// How short and how long `poll` and `timeout` may be.
    pub const TIMES: RangeInclusive<Duration> =
        Duration::from_secs(1)..=Duration::from_secs(24 * 60 * 60);

    /// Returns which of the times is too short or too long.
    pub(crate) fn errors(&self) -> Vec<AttributeError> {
        let times = [("poll", self.poll), ("timeout", self.timeout)];
        let wrong = times.into_iter().filter_map(|(name, time)| {
            let time = time.filter(|time| !Self::TIMES.contains(time))?;
            let shown = humantime::format_duration(time);
            Some(AttributeError::new(name, format!("is from 1s to 1day, not {shown}")))
        });
        wrong.collect()
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A duration as manifests write it, such as `30s`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| humantime::format_duration(time).to_string()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| humantime::parse_duration(&text).map_err(D::Error::custom)).transpose()
    }
}
