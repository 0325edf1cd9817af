//! Kinds that need no disk: lamps that are switched alone, together and back, and a program.

use std::any::Any;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, Found, GroupMember, Kind, Stale, Unit};
use crankcase_resources::{
    Action, AttributeError, BoxError, Context, Declaration, Difference, Kinds, Unfinished,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::program::Program;
use crate::support::declare;

/// The names of the lamps that are on.
type Lit = Arc<Mutex<BTreeSet<String>>>;

/// Returns the kinds `lamp` and `program`. All lamps are off.
pub(super) fn lamps() -> Kinds {
    Kinds::default().with(Lamps::default()).with(Program)
}

/// Returns a declaration of a lamp that is to be on.
pub(super) fn lamp(name: &str) -> Declaration {
    declare(name, "lamp", json!({"name": name, "on": true}))
}

/// Returns a declaration of a lamp that is switched on together with others, and has a fault.
pub(super) fn one_of_many(name: &str, fault: &str) -> Declaration {
    declare(name, "lamp", json!({"name": name, "on": true, "set": "hall", "fault": fault}))
}

/// Returns the lamps of a site before all but the first of them leave. One is put back then.
pub(super) fn before_departures() -> Vec<Declaration> {
    let mut back = lamp("back");
    back.reverse = true;
    vec![lamp("kept"), back, lamp("gone"), lamp("also_gone")]
}

/// The kind `lamp`: `name`, whether it is `on`, the `set` with which it is switched, and `fault`.
#[derive(Debug, Default)]
struct Lamps {
    lit: Lit,
}

impl Kind for Lamps {
    fn name(&self) -> &'static str {
        "lamp"
    }

    fn summary(&self) -> &'static str {
        "keeps a lamp on or off"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(on) = config.get("on").and_then(Value::as_bool) else {
            let wrong = "a lamp is on or off: write true or false".to_owned();
            return Err(vec![AttributeError::new("on", wrong)]);
        };
        let (name, fault) = (text("name").unwrap_or_default(), text("fault").unwrap_or_default());
        let lit = Arc::clone(&self.lit);
        Ok(Arc::new(Lamp { name, on, set: text("set"), fault, lit }))
    }

    fn is_grouping(&self) -> bool {
        true
    }

    fn can_reverse(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Lamp {
    name: String,
    on: bool,
    set: Option<String>,
    fault: String,
    lit: Lit,
}

impl Lamp {
    fn is_on(&self) -> bool {
        self.lit.lock().contains(&self.name)
    }

    fn switch(&self) {
        let mut lit = self.lit.lock();
        if self.on {
            lit.insert(self.name.clone());
        } else {
            lit.remove(&self.name);
        }
    }
}

fn word(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

#[async_trait]
impl Unit for Lamp {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        if self.fault == "dark" {
            return Err("nobody can see it".into());
        }
        let is_on = self.is_on();
        let state = json!({"on": is_on});
        if is_on == self.on {
            return Ok(Found::Valid(state));
        }
        let text = format!("-{}\n+{}\n", word(is_on), word(self.on));
        let difference = Difference::new("on", is_on.into(), self.on.into()).with_text(text);
        let switch = Action::new("switch").with("on", self.on);
        Ok(Found::Stale(Stale::new(Some(state)).difference(difference).action(switch)))
    }

    async fn act(&self, _: &Action, context: &Context) -> Result<(), Unfinished> {
        context.log("alone");
        if self.fault == "broken" {
            return Err("its fuse has blown".into());
        }
        self.switch();
        Ok(())
    }

    async fn reversal(&self, _: &Context) -> Result<Option<Config>, BoxError> {
        let name = ("name".to_owned(), Value::from(self.name.as_str()));
        let on = ("on".to_owned(), Value::from(self.is_on()));
        Ok(Some([name, on].into_iter().collect()))
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![PathBuf::from("/there/is/no/switch")]
    }

    fn group(&self) -> Option<String> {
        self.set.clone()
    }

    async fn act_together(&self, members: &[GroupMember]) -> Result<(), Unfinished> {
        let lamps = members.iter().filter_map(|member| {
            let unit: &dyn Any = &*member.unit;
            unit.downcast_ref::<Self>()
        });
        let lamps: Vec<_> = lamps.collect();
        if lamps.iter().any(|lamp| lamp.fault == "broken") {
            return Err("a fuse has blown".into());
        }
        members.iter().for_each(|member| member.context.log("together"));
        lamps.iter().for_each(|lamp| lamp.switch());
        Ok(())
    }
}
