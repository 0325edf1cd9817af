//! Resources that read the host by themselves.

use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_manifest::{Host, SiteFiles};
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{BoxError, Check, Claimed, Context, Params, Resource, Unfinished, kind};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult};

/// says the name of the host
#[derive(Debug, Clone, PartialEq, Params)]
struct Named {}

/// What it has said.
#[derive(Debug, Clone, PartialEq, Params)]
struct NamedState {
    /// the name
    name: String,
}

impl Resource for Named {
    const NAME: &'static str = "named";
    const READS_HOST: bool = true;
    type State = NamedState;
    type Action = Infallible;

    fn claims(_: &NamedPartial) -> Claimed {
        Claimed::default()
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let name = context.host()["name"].as_str().unwrap_or_default().to_owned();
        Ok(Check::valid(NamedState { name }))
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}

/// A resource whose kind does not say that it reads the host; it keeps what it has seen at each look.
#[derive(Debug, Default)]
struct Blind {
    looks: watch::Sender<Vec<Value>>,
}

#[async_trait]
impl Unit for Blind {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.looks.send_modify(|looks| looks.push(context.host().clone()));
        Ok(Found::Valid(json!({})))
    }
}

#[tokio::test]
async fn another_host_has_those_alone_look_again_that_read_it() -> TestResult {
    let blind = Blind::default();
    let looks = blind.looks.subscribe();
    let kinds = with_double(blind).with(kind::<Named>());
    let site = "resources:\n  named: {type: named}\n  blind: {type: double}\n  page: {type: file, \
                dependencies: [named], config: {path: '@/page', content: '{{ named.state.name }}'}}\n";
    let machine = Machine::with_kinds(site, kinds.clone()).await?;
    machine.running("blind").await?;
    let files = SiteFiles::new(vec![machine.path("site.yaml")], kinds);

    for name in ["first", "second"] {
        let host = Host::new(move || json!({"name": name}));
        let site = SiteFiles { host, ..files.clone() }.load()?;
        machine.provide(Arc::new(site)).await?;
        machine.until("page", |text| text == name).await?;
    }

    machine.settled().await?;
    assert_eq!(*looks.borrow(), [Value::Null]);
    Ok(())
}
