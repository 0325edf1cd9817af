//! The checks of kinds find each fault that is planted into one.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use crankcase_resources::dynamic::{
    ActionType, Config, ConfigReport, Found, Kind, KnownConfig, Parameter, Stale, Table, Unit,
};
use crankcase_resources::testing::{Conformance, Sample, Violations};
use crankcase_resources::{
    Action, AttributeError, BoxError, Claim, Claimed, Context, Kinds, PATH, Secret, Unfinished,
    Watch,
};
use serde_json::{Value, json};

/// Each fault, and what is said of it.
const FAULTS: &[(&str, &str)] = &[
    ("a check writes", "a check changes"),
    ("checks differ", "two checks differ"),
    ("nothing is done", "after its actions it is not as declared"),
    ("it writes elsewhere", "it changes what it does not claim"),
    ("it forgets", "after apply a plan still says"),
    ("a half is wrong", "which is not so with it"),
    ("a half claims too much", "which it does not with it"),
    ("a half claims too little", "it has said all that it claims"),
    ("it writes in two steps", "leaves neither what was nor what is to be"),
    ("it is blind", "is not seen"),
    ("it watches something else", "is not watched"),
    ("an error shows the secret", "an error shows a secret"),
    ("the table lies", "the table refuses what the kind takes"),
    ("errors come late", "at load it says"),
    ("it panics", "judging it: panicked"),
    ("it takes any attribute", "an attribute is taken that is not in the table"),
    ("it has other actions", "is not in the list of actions"),
    ("it does any action", "it does an action that it does not have"),
    ("its state is another one", "the table of states refuses the state"),
    ("it stops first", "a shutdown-first action comes of a kind that has none"),
    ("it puts nothing back", "it is not put back as it was"),
    ("it foresees another state", "is_on was foreseen to be false, and is true"),
    ("it plans a restart too many", "planned for node-"),
];

#[test]
fn each_fault_is_found() {
    for (fault, wanted) in FAULTS {
        let found = check(fault).expect_err(fault).to_string();
        assert!(found.contains(wanted), "{fault}: {found}");
    }
}

#[test]
fn a_kind_without_a_fault_conforms() -> Result<(), Violations> {
    check("none")
}

#[test]
fn checks_without_a_sample_are_an_error() {
    let kinds = Kinds::default().with(Lamp { fault: "none", table: table(), states: states() });
    let found = Conformance::new(kinds).check().expect_err("there is no sample");
    assert_eq!(found.iter().collect::<Vec<_>>(), ["there is no sample"]);
}

fn check(fault: &'static str) -> Result<(), Violations> {
    let lamp = Lamp { fault, table: table(), states: states() };
    let sample = Sample::new(
        "lamp",
        "a lamp",
        |folder| json!({"path": folder.join("lamp"), "code": "planted-secret"}),
    );
    let sample = sample.drift("it is out", |folder| fs::write(folder.join("lamp"), "off"));
    Conformance::new(Kinds::default().with(lamp)).sample(sample).check()
}

fn table() -> Table {
    let path = Parameter::of::<String>("path", "the file of the lamp");
    let wanted = Parameter::of::<Option<String>>("wanted", "\"off\" if it is to be gone");
    let code = Parameter::of::<Option<Secret<String>>>("code", "its code");
    Table::new("a lamp", vec![path, wanted, code])
}

fn states() -> Table {
    Table::new("a state", vec![Parameter::of::<bool>("is_on", "whether it is on")])
}

/// Keeps a file that holds `on`.
#[derive(Debug)]
struct Lamp {
    fault: &'static str,
    table: Table,
    states: Table,
}

impl Lamp {
    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn errors(&self, config: &Config) -> Vec<AttributeError> {
        let is_wrong = |name: &str| !config.get(name).is_some_and(Value::is_string);
        let mut errors = Vec::new();
        if is_wrong("path") && !self.has("the table lies") {
            errors.push(AttributeError::new("path", "it is to be a text".to_owned()));
        }
        if let Some(code) = config.get("code").filter(|code| !code.is_string() && !code.is_null()) {
            let shown = if self.has("an error shows the secret") { code } else { &Value::Null };
            errors.push(AttributeError::new("code", format!("it is to be a text: {shown}")));
        }
        if config.get("wanted").is_some_and(|wanted| !wanted.is_string() && !wanted.is_null()) {
            errors.push(AttributeError::new("wanted", "it is to be a text".to_owned()));
        }
        let names = config.keys().filter(|name| self.table.get(name).is_none());
        if !self.has("it takes any attribute") {
            errors.extend(names.map(|name| AttributeError::new(name, "unknown".to_owned())));
        }
        errors
    }
}

impl Kind for Lamp {
    fn name(&self) -> &'static str {
        "lamp"
    }

    fn summary(&self) -> &'static str {
        "keeps a lamp on"
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn states(&self) -> &Table {
        &self.states
    }

    fn actions(&self) -> Vec<ActionType> {
        ["switch_on", "flash"].map(|name| ActionType::new(name, "does it")).to_vec()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let is_half = !known.unknown.is_empty();
        let mut errors = self.errors(known.config);
        errors.retain(|error| known.is_known(&error.attribute) || self.has("a half is wrong"));
        if self.has("errors come late") {
            errors.clear();
        }
        assert!(!self.has("it panics"), "bang");
        let path = known.text("path");
        let claimed = path.map(|path| Claim::keeps(PATH, path));
        let more = path.filter(|_| self.has("a half claims too much") && is_half);
        let more = more.map(|path| Claim::keeps(PATH, format!("{path}/more")));
        let mut claimed = Claimed::of(claimed.into_iter().chain(more).collect());
        claimed.is_open = !known.is_known("path") && !self.has("a half claims too little");
        ConfigReport { errors, claimed, ..ConfigReport::default() }
    }

    fn can_reverse(&self) -> bool {
        true
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let errors = self.errors(config);
        if !errors.is_empty() {
            return Err(errors);
        }
        let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("path").into();
        let is_wanted = text("wanted") != "off";
        let looks = AtomicUsize::new(0);
        Ok(Arc::new(Lit { fault: self.fault, path, is_wanted, looks }))
    }
}

#[derive(Debug)]
struct Lit {
    fault: &'static str,
    path: PathBuf,
    is_wanted: bool,
    looks: AtomicUsize,
}

impl Lit {
    fn has(&self, fault: &str) -> bool {
        self.fault == fault
    }

    fn is_on(&self) -> bool {
        let held = fs::read_to_string(&self.path);
        if self.has("it is blind") { held.is_ok() } else { held.is_ok_and(|held| held == "on") }
    }

    fn action(&self) -> Action {
        let action = if self.has("it has other actions") { "switch" } else { "switch_on" };
        Action::new(action)
    }
}

#[async_trait]
impl Unit for Lit {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if self.has("a check writes") {
            fs::write(&self.path, "dim")?;
        }
        if !self.is_wanted {
            return Ok(if self.path.exists() {
                let amiss = Stale::new(None).differs("is_on", true, false);
                Found::Stale(amiss.action(Action::new("flash")))
            } else {
                Found::Valid(json!({"is_on": false}))
            });
        }
        let acted = context.memory::<AtomicBool>().load(Ordering::Relaxed);
        if if self.has("it forgets") { acted } else { self.is_on() } {
            let name = if self.has("its state is another one") { "is_off" } else { "is_on" };
            return Ok(Found::Valid(json!({name: true})));
        }
        let old = if self.has("checks differ") { json!(looks) } else { json!(false) };
        let amiss = Stale::new(None).differs("is_on", old, true).action(self.action());
        if self.has("it foresees another state") {
            return Ok(Found::Stale(amiss.after(json!({"is_on": false}))));
        }
        if self.has("it stops first") {
            return Ok(Found::Stale(amiss.shutdown(Action::new("flash"))));
        }
        Ok(Found::Stale(amiss))
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        if !matches!(&*action.name, "switch_on" | "switch" | "flash") {
            return if self.has("it does any action") { Ok(()) } else { Err("unknown".into()) };
        }
        context.memory::<AtomicBool>().store(true, Ordering::Relaxed);
        if !self.is_wanted {
            return Ok(fs::remove_file(&self.path)?);
        }
        if self.has("nothing is done") {
            return Ok(());
        }
        if self.has("it writes elsewhere") {
            fs::write(self.path.with_file_name("elsewhere"), "on")?;
        }
        if self.has("it writes in two steps") {
            fs::write(&self.path, "o")?;
            tokio::task::yield_now().await;
        }
        Ok(fs::write(&self.path, "on")?)
    }

    async fn reversal(&self, _: &Context) -> Result<Option<Config>, BoxError> {
        let wanted = if self.has("it puts nothing back") { "on" } else { "off" };
        Ok(json!({"path": self.path, "wanted": wanted}).as_object().cloned())
    }

    fn refresh(&self, done: &[Action], context: &Context) -> Option<Action> {
        let acted = context.memory::<AtomicBool>().load(Ordering::Relaxed);
        let is_wanted =
            if self.has("it plans a restart too many") { !acted } else { done.is_empty() };
        is_wanted.then(|| Action::new("flash"))
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        let path = self.path.with_file_name("other");
        let path = if self.has("it watches something else") { &path } else { &self.path };
        Ok(Watch::never().path(path))
    }
}
