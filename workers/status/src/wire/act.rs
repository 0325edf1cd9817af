//! The acts of a person on a worker, and their effects on other workers.

use std::fmt;

use crankcase_workers::name_first;
use serde::{Deserialize, Serialize};

/// An act on a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Stop it and start it again.
    Bounce,
    /// Stop it and keep it stopped.
    Park,
    /// Let it start again after a park.
    Unpark,
}

impl Act {
    /// Returns its word, such as `bounce`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bounce => "bounce",
            Self::Park => "park",
            Self::Unpark => "unpark",
        }
    }

    /// Reads its word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        [Self::Bounce, Self::Park, Self::Unpark].into_iter().find(|act| act.as_str() == word)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A change of a worker that a person can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WorkerChange {
    /// The engine does something to it.
    Act(Act),
    /// Have it leave its work alone, and run on.
    Pause,
    /// Have it work again after a pause.
    Resume,
}

impl WorkerChange {
    /// Returns its word, such as `pause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Act(act) => act.as_str(),
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// Reads its word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            word => Act::read(word).map(Self::Act),
        }
    }
}

/// The effects that an act on a worker would have on others of its engine, if it were done now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Preview {
    /// The paths of the workers that would be stopped and started again.
    pub bounced: Vec<String>,
    /// The paths of the workers that would be stopped and could not start again.
    pub stopped: Vec<String>,
    /// How many workers are in the worker of the act, if that is an engine.
    #[serde(default)]
    pub inside: usize,
}

impl Preview {
    /// Returns the effects in words, such as `bounces also a, b and 3 more`, without those in other
    /// engines. Of each list it has at most `most` names, as `name` writes them.
    pub fn in_words(&self, most: usize, name: fn(&str) -> String) -> String {
        let part = |(verb, paths): (&str, &[String])| {
            let names = paths.iter().map(|path| name(path.rsplit('/').next().unwrap_or(path)));
            (!paths.is_empty()).then(|| format!("{verb} also {}", name_first(most, names)))
        };
        let parts = [("bounces", &*self.bounced), ("stops", &*self.stopped)].map(part);
        let mut parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            parts.push("bounces no other worker of its engine".to_owned());
        }
        if self.inside > 0 {
            parts.insert(0, format!("concerns the {} workers in it", self.inside));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::Preview;

    #[test]
    fn a_preview_names_the_first_and_counts_the_others() {
        let paths = |names: &[&str]| names.iter().map(|name| format!("/agent/{name}")).collect();
        let words = |bounced: &[&str], stopped: &[&str]| {
            let preview = Preview { bounced: paths(bounced), stopped: paths(stopped), inside: 0 };
            preview.in_words(2, str::to_uppercase)
        };

        assert_eq!(words(&[], &[]), "bounces no other worker of its engine");
        let engine = Preview { inside: 7, ..Preview::default() };
        let told = "concerns the 7 workers in it; bounces no other worker of its engine";
        assert_eq!(engine.in_words(2, str::to_owned), told);
        assert_eq!(words(&["a", "b"], &[]), "bounces also A, B");
        assert_eq!(words(&["a"], &["b", "c", "d"]), "bounces also A; stops also B, C and 1 more");
    }
}
