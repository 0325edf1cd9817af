//! A kind for the checks, whose resources show a value to other resources only after apply.

use std::path::Path;

use serde_json::Value;

use crate::base::error::BoxError;
use crate::declare::action::Unfinished;
use crate::declare::claim::{Claim, PATH};
use crate::declare::known::Claimed;
use crate::declare::params::AbsPath;
use crate::kind::context::Context;
use crate::kind::resource::{Check, Resource, Stale};
use crate::{Actions, Params};

/// keeps a value in a file, and has it in its state as soon as it is there
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct Giver {
    /// the file
    path: AbsPath,
    /// the value
    value: Value,
}

/// The state of a giver.
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct GiverState {
    /// the value
    value: Value,
}

#[derive(Debug, Actions)]
pub(super) enum Do {
    /// writes the value
    Give,
}

impl Resource for Giver {
    const NAME: &'static str = "testing-giver";
    type State = GiverState;
    type Action = Do;

    fn claims(partial: &GiverPartial) -> Claimed {
        let path = partial.path.as_given().map(|path| path.as_ref().to_string_lossy().into_owned());
        Claimed::of(path.into_iter().map(|path| Claim::keeps(PATH, path)).collect())
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        let path: &Path = self.path.as_ref();
        if std::fs::read(path).is_ok_and(|held| held == self.text().as_bytes()) {
            return Ok(Check::valid(GiverState { value: self.value.clone() }));
        }
        // The value may be a secret of the resource that it is given to.
        Ok(Stale::absent().differs("given", false, true).act(Do::Give).into())
    }

    async fn act(&self, Do::Give: &Do, _: &Context) -> Result<(), Unfinished> {
        let path: &Path = self.path.as_ref();
        Ok(std::fs::write(path, self.text())?)
    }
}

impl Giver {
    fn text(&self) -> String {
        self.value.to_string()
    }
}
