//! Resources for each item, that are only read, and that are looked at often.

use std::fs;
use std::sync::Arc;

use crankcase_engine::Name;
use crankcase_kinds::builtin;
use crankcase_manifest::{Host, SiteFiles};
use crankcase_resources::front::worker_name;
use crankcase_resources::run::State;
use serde_json::json;

use crate::site::machine::{Machine, TestResult, lines};

#[tokio::test]
async fn what_leaves_a_list_ends_and_the_others_run_on() -> TestResult {
    let manifest = |list: &str| {
        format!(
            "resources:\n  run: {{type: process, for_each: {list}, config: {{command: [sh, -c, \
             'echo >> @/$0; exec sleep 1000', '{{{{ item }}}}']}}}}\n"
        )
    };
    let machine = Machine::new(&manifest("[ada, brian]")).await?;
    machine.until("ada", |text| lines(text) == 1).await?;
    machine.until("brian", |text| lines(text) == 1).await?;

    machine.swap(&manifest("[carl, brian]")).await?;

    machine.until("carl", |text| lines(text) == 1).await?;
    let resources = machine.resources().await?;
    resources.settled().await?;
    let report = resources.report().await;
    assert!(!report.workers.contains_key("run..ada"), "{report}");
    assert_eq!(machine.starts("run..brian").await?, 1);
    assert_eq!(machine.read("brian").as_deref().map(lines), Some(1));
    machine.stop().await
}

#[tokio::test]
async fn what_depends_on_all_of_a_list_follows_each_state() -> TestResult {
    let machine = Machine::new(
        "resources:\n  part: {type: file, for_each: [a, '/b c'], config: {path: '@/{{ item | \
         replace(\"/\", \"\") }}', mode: '0600'}}\n  all: {type: file, dependencies: [part], config: \
         {path: '@/all', content: '{% for name, state in part | items %}{{ name }} {{ state.size \
         }};{% endfor %}'}}\n",
    )
    .await?;
    machine.until("all", |text| text == "/b c 0;a 0;").await?;

    machine.write("b c", "four")?;

    machine.until("all", |text| text == "/b c 4;a 0;").await?;
    let name = Name::<State>::parse(&worker_name("part[\"/b c\"]"))?;
    machine.resources().await?.running(name).await?;
    machine.stop().await
}

#[tokio::test]
async fn an_automatic_edge_leads_to_the_resource_of_an_item() -> TestResult {
    let machine = Machine::new(
        "resources:\n  page: {type: file, config: {path: '@/a b/page', content: x}}\n  folder: \
         {type: file, for_each: ['a b'], config: {path: '@/{{ item }}/'}}\n",
    )
    .await?;

    machine.until("a b/page", |text| text == "x").await?;

    let report = machine.resources().await?.report().await;
    let inputs = report.workers["page"].inputs.iter();
    let inputs: Vec<_> = inputs.map(|input| input.name.to_string()).collect();
    assert_eq!(inputs, ["folder..a.20b"]);
    machine.stop().await
}

#[tokio::test]
async fn what_is_only_read_is_not_degraded_and_offers_its_state() -> TestResult {
    let machine = Machine::new(
        "resources:\n  read: {type: file, readonly: true, config: {path: '@/read', content: \
         wanted}}\n  page: {type: file, dependencies: [read], config: {path: '@/page', content: \
         'it has {{ read.state.size }}'}}\n",
    )
    .await?;
    let missing = machine.degraded("read").await?;

    machine.write("read", "other")?;

    machine.until("page", |text| text == "it has 5").await?;
    let report = machine.resources().await?.report().await;
    assert_eq!(missing, "it is only read, and does not exist");
    assert_eq!(report.workers["read"].degraded, None, "{report}");
    assert_eq!(machine.read("read").as_deref(), Some("other"));
    machine.stop().await
}

#[tokio::test]
async fn what_says_how_often_is_looked_at_without_a_watch() -> TestResult {
    let machine = Machine::new(
        "resources:\n  run: {type: exec, meta: {poll: 1s}, config: {command: [touch, '@/made'], \
         unless: [test, -e, '@/made']}}\n",
    )
    .await?;
    machine.until("made", |_| true).await?;

    fs::remove_file(machine.path("made"))?;

    machine.until("made", |_| true).await?;
    machine.stop().await
}

#[tokio::test]
async fn another_host_moves_only_what_uses_it() -> TestResult {
    let machine = Machine::new("resources: {}\n").await?;
    let path = machine.path("hosted.yaml");
    let text = "resources:\n  named: {type: file, config: {path: '@/named', content: '{{ host.name \
                }}'}}\n  plain: {type: process, config: {command: [sh, -c, 'echo >> @/plain; exec \
                sleep 1000']}}\n";
    fs::write(&path, machine.text(text))?;
    let on = |name: &'static str| {
        let files = SiteFiles::new(vec![path.clone()], builtin());
        SiteFiles { host: Host::new(move || json!({"name": name})), ..files }.load()
    };
    machine.provide(Arc::new(on("one")?)).await?;
    machine.until("named", |text| text == "one").await?;
    machine.until("plain", |text| lines(text) == 1).await?;

    machine.provide(Arc::new(on("two")?)).await?;

    machine.until("named", |text| text == "two").await?;
    assert_eq!(machine.starts("plain").await?, 1);
    assert_eq!(machine.read("plain").as_deref().map(lines), Some(1));
    machine.stop().await
}
