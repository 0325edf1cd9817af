//! A fact that depends on itself, and the message about it.

use crankcase_resources::front::{Place, circle};

use crate::manifest::lines::Source;
use crate::manifest::problem::{Hint, Problems, quoted};

/// A fact that depends on itself by way of resources.
#[derive(Debug)]
pub(crate) struct FactCircle<'a> {
    /// The names of the resources, each followed by one that it needs; the first is also the last.
    pub(crate) path: Vec<&'a str>,
    /// The JSON pointer to the fact.
    pub(crate) pointer: &'a str,
    /// The name of the resource that uses the fact, and its place.
    pub(crate) user: &'a str,
    pub(crate) used_at: Place,
    /// The place of the path at which the fact is kept.
    pub(crate) source: &'a Source,
    pub(crate) offset: usize,
}

impl FactCircle<'_> {
    /// Reports the circle with both places.
    pub(crate) fn tell(&self, problems: &mut Problems) {
        let Self { path, pointer, user, used_at, source, offset } = self;
        let path = circle(path);
        let message = format!("this fact depends on itself, and may change for ever: {path}");
        let help = format!(
            "{}, at {used_at}, uses it; keep it at a path on which it does not depend",
            quoted(user)
        );
        problems.with_hint(source, *offset, message, Hint::of(*pointer).or(help));
    }
}
