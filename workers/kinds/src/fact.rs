use crankcase_resources::{
    Actions, BoxError, Check, Claim, Claimed, Context, Half, Params, Resource, Stale, Unfinished,
    Watch,
};
use serde_json::Value;

/// keeps a fact as declared, which is the agent's own: what it has found out or decided, for others to use
///
/// It writes over no fact of a user, and a user overwrites it only deliberately. It writes no secret where everybody
/// would be shown it. Its state is its config.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Fact {
    /// where it is: a JSON pointer, such as /seen/web
    #[param(declared)]
    pub path: String,
    /// the value
    pub value: Value,
}

/// What is done to a `fact`.
#[derive(Debug, Actions)]
pub enum Do {
    /// writes the fact
    Write { path: String, value: Value },
}

impl Resource for Fact {
    const NAME: &'static str = "fact";
    type State = Self;
    type Action = Do;

    fn claims(half: &FactHalf) -> Claimed {
        match &half.path {
            Half::Given(path) => Claimed::of(vec![Claim::keeps("fact", path)]),
            _ => Claimed::unknown(),
        }
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let found = context.fact(&self.path)?;
        if found.as_ref() == Some(&self.value) {
            return Ok(Check::valid(self.clone()));
        }
        let stale = Stale::absent().differs("value", found.unwrap_or_default(), self.value.clone());
        let write = Do::Write { path: self.path.clone(), value: self.value.clone() };
        Ok(stale.act(write).after(self.clone()).into())
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        Ok(Watch::never().fact(context.watch_fact(&self.path)?))
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        let Do::Write { path, value } = action;
        Ok(context.set_fact(path, Some(value.clone())).await?)
    }
}
