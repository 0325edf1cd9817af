//! The kind `fact`: keeps a fact that is the agent's own.

use std::fmt;

use crankcase_resources::dynamic::Shape;
use crankcase_resources::{
    Actions, BoxError, Check, Claim, Claimed, Context, Field, Params, Partial, Resource, Stale,
    Type, Unfinished, Watch, Wrong,
};
use crankcase_workers::read_pointer_segment;
use serde_json::Value;

/// keeps a fact as declared, which is the agent's own: what it has found out or decided, for others to use
///
/// It writes over no fact of a user, and a user overwrites it only deliberately. It writes no secret where everybody
/// would be shown it. Its state is its config.
#[derive(Clone, PartialEq, Params)]
pub struct Fact {
    /// where it is: a JSON pointer, such as /seen/web
    #[param(declared)]
    pub path: FactPath,
    /// the value
    #[param(declared)]
    pub value: Value,
}

/// Shows the shape of the value.
impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Fact");
        shown.field("path", &self.path).field("value", &Shape::of(&self.value)).finish()
    }
}

/// Where a fact is: a JSON pointer (RFC 6901) to something below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactPath(String);

impl AsRef<str> for FactPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Field for FactPath {
    fn ty() -> Type {
        Type::Text
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let text = String::take(value)?;
        let is_segment =
            |segment: &str| !segment.is_empty() && read_pointer_segment(segment).is_ok();
        match text.strip_prefix('/') {
            Some(names) if names.split('/').all(is_segment) => Ok(Self(text)),
            _ => {
                let right =
                    "it begins with /, as /seen/web does, no name in it is empty, and ~ is ~0";
                Err(format!("{text:?} is no path to a fact: {right}").into())
            }
        }
    }

    fn give(&self) -> Value {
        self.0.clone().into()
    }
}

/// What is done to a `fact`.
#[derive(Debug, Actions)]
pub enum Do {
    /// writes the fact
    Write { path: String, value: Value },
}

impl Resource for Fact {
    const NAME: &'static str = "fact";
    const KEEPS_FACTS: bool = true;
    type State = Self;
    type Action = Do;

    fn claims(partial: &FactPartial) -> Claimed {
        match &partial.path {
            Partial::Given(path) => Claimed::of(vec![Claim::keeps("fact", path.as_ref())]),
            _ => Claimed::unknown(),
        }
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let found = context.stored_fact(self.path.as_ref())?;
        if found.as_ref() == Some(&self.value) {
            return Ok(Check::valid(self.clone()));
        }
        let stale = match found.clone() {
            Some(value) => Stale::<Self>::new(Self { path: self.path.clone(), value }),
            None => Stale::absent(),
        };
        let stale = stale.differs("value", found.unwrap_or_default(), self.value.clone());
        let write = Do::Write { path: self.path.0.clone(), value: self.value.clone() };
        Ok(stale.act(write).after(self.clone()).into())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().fact(context.watch_fact(self.path.as_ref())?))
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        let Do::Write { path, value } = action;
        Ok(context.set_fact(path, Some(value.clone())).await?)
    }
}
