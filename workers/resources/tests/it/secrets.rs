//! Values that nobody is shown.

use crankcase_resources::run::plan;
use crankcase_resources::{
    Actions, ApplyOptions, BoxError, Check, Context, Kinds, Params, PlanOptions, Resource, Secret,
    Stale, Unfinished, kind,
};
use serde_json::json;

use crate::support::{TestResult, apply_with, declare};

/// keeps a door locked
#[derive(Debug, Clone, PartialEq, Params)]
struct Door {
    /// what opens it
    code: Secret<String>,
}

/// The state of a door.
#[derive(Debug, Clone, PartialEq, Params)]
struct DoorState {
    /// who was there last
    visitor: Option<Secret<String>>,
}

#[derive(Debug, Actions)]
enum Do {
    /// sets the code
    SetCode,
}

impl Resource for Door {
    const NAME: &'static str = "door";
    type State = DoorState;
    type Action = Do;

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        let stale = Stale::absent().differs("code", "old-secret", "planted-secret");
        Ok(stale.differs("visitor", json!(null), "secret-agent").act(Do::SetCode).into())
    }

    async fn act(&self, Do::SetCode: &Do, _: &Context) -> Result<(), Unfinished> {
        Ok(())
    }
}

#[tokio::test]
async fn differences_of_sensitive_attributes_hide_their_values() -> TestResult {
    let kinds = Kinds::default().with(kind::<Door>());
    let declarations = [declare("door", "door", json!({"code": "planted-secret"}))];

    let plan = plan(&declarations, &kinds, &PlanOptions::default()).await?;
    let account = apply_with(&declarations, &kinds, &ApplyOptions::default()).await?;

    let json = (serde_json::to_string(&plan)?, serde_json::to_string(&account)?);
    let shown = format!("{plan} {plan:?} {account} {account:?} {json:?}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(plan.to_string().contains("code: \"(sensitive)\" -> \"(sensitive)\""), "{plan}");
    assert!(plan.to_string().contains("visitor: absent -> \"(sensitive)\""), "{plan}");
    Ok(())
}
