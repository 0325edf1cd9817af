//! Resources that are prepared with configs that they had before.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_engine::Stop;
use serde_json::json;

use super::{NotPrepared, Prepared, Setting};
use crate::base::error::{AttributeError, BoxError};
use crate::declare::claim::{Claim, PATH};
use crate::declare::declaration::{Config, Declaration};
use crate::declare::earlier_config::EarlierConfig;
use crate::declare::known::{Claimed, KnownConfig};
use crate::declare::literal::Literal;
use crate::kind::config_report::ConfigReport;
use crate::kind::context::Context;
use crate::kind::contract::{Kind, Unit};
use crate::kind::kinds::Kinds;
use crate::report::found::Found;
use crate::state::facilities::Facilities;
use crate::visit::inputs::Inputs;

/// Keeps a path.
#[derive(Debug)]
struct Page;

impl Kind for Page {
    fn name(&self) -> &'static str {
        "page"
    }

    fn summary(&self) -> &'static str {
        "keeps a path"
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(Self))
    }

    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let claims = known.text("path").map(|path| Claim::keeps(PATH, path));
        let claimed = Claimed::of(claims.into_iter().collect());
        ConfigReport { claimed, ..ConfigReport::default() }
    }
}

#[async_trait]
impl Unit for Page {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }
}

fn config(path: &str) -> Config {
    [("path".to_owned(), json!(path))].into_iter().collect()
}

/// Returns a declaration whose claims are known at load.
fn declare(name: &str, path: &str) -> Declaration {
    let config = config(path);
    let judged = Page.judge(&KnownConfig { config: &config, unknown: &BTreeSet::new() });
    let mut declaration = Literal::new(config).declare(Path::new("/srv"), name, "page");
    declaration.claim(&judged.claimed);
    declaration
}

fn setting(declarations: &[Declaration]) -> Setting {
    let (_, stop) = Stop::pair();
    Setting::new(&Kinds::default().with(Page), stop, declarations, &Facilities::default())
}

fn as_before(
    before: EarlierConfig,
    declaration: &Declaration,
    setting: &Setting,
) -> Result<Prepared, NotPrepared> {
    Prepared::as_before((before, Vec::new()), (declaration, "it is wrong"), setting)
}

fn earlier(path: &str) -> EarlierConfig {
    EarlierConfig { config: config(path), hidden: BTreeSet::new() }
}

#[test]
fn what_was_secret_in_a_config_is_hidden_when_the_declaration_does_not_say_so() {
    let declaration = declare("page", "/new");
    let setting = setting(std::slice::from_ref(&declaration));
    let before = EarlierConfig { hidden: ["path".to_owned()].into(), ..earlier("/hunter2") };

    let prepared = as_before(before, &declaration, &setting).expect("it is right");

    assert!(prepared.context.hidden().contains("path"));
    assert!(!setting.facilities.secrets().redact("at /hunter2").contains("hunter2"));
}

#[test]
fn a_resource_that_is_as_before_keeps_its_things_until_it_is_as_declared() {
    let (page, other) = (declare("page", "/new"), declare("other", "/other"));
    let setting = setting(&[page.clone(), other.clone()]);
    let inputs = Inputs::default();

    as_before(earlier("/old"), &page, &setting).expect("nobody keeps it");
    let refused = as_before(earlier("/old"), &other, &setting);
    Prepared::of(&page, &setting, &inputs, None).expect("it is right");
    let allowed = as_before(earlier("/old"), &other, &setting);

    let NotPrepared::Wrong(error) = refused.expect_err("it is kept") else { panic!("it is known") };
    assert!(error.contains("by resource \"page\" already"), "{error}");
    assert!(allowed.is_ok());
}

#[test]
fn a_resource_is_not_as_before_if_another_one_keeps_the_same_now() {
    let (page, other) = (declare("page", "/new"), declare("other", "/old"));
    let setting = setting(&[page.clone(), other]);

    assert!(as_before(earlier("/old"), &page, &setting).is_err());
}
