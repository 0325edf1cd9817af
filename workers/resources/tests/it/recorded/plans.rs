//! What apply would do.

use crankcase_engine::Stop;
use crankcase_resources::report::Salt;
use crankcase_resources::run::plan;
use crankcase_resources::{ApplyOptions, Declaration, Kinds, PlanOptions, Site};
use serde_json::json;

use crate::notify::notifying;
use crate::probe::{probe, probes};
use crate::recorded::lamps::{before_departures, lamp, lamps, one_of_many};
use crate::recorded::{Recording, hidden, left_and_read, needs_run};
use crate::support::{StateFolder, TestResult, declare, declare_with, uses};

impl Recording {
    async fn plan(
        &mut self,
        claim: &str,
        (kinds, site): (&Kinds, &[Declaration]),
        options: &PlanOptions,
    ) -> TestResult {
        let plan = plan(site, kinds, options).await?;
        self.add(claim, &plan, &plan)
    }
}

#[tokio::test(start_paused = true)]
async fn plans_are_written_as_before() -> TestResult {
    let mut recording = Recording::default();

    verdicts(&mut recording).await?;
    notifications(&mut recording).await?;
    seals(&mut recording).await?;
    departures(&mut recording).await?;

    recording.compare("plans.txt")
}

async fn verdicts(recording: &mut Recording) -> TestResult {
    let [left, read] = left_and_read();
    let of = |name: &str, used: &str| {
        declare_with(name, "probe", json!({"fault": ""}), ("name", used, "name"))
    };
    let site = [
        probe("changes", ""),
        probe("same", "valid"),
        probe("stops", "stops first"),
        probe("foresees", "foresees foresees"),
        of("foreseen", "foresees"),
        of("later", "changes"),
        uses(probe("unseen", "cannot look"), &["changes"]),
        of("of_left", "left"),
        of("of_read", "read"),
        left,
        read,
        hidden(),
    ];
    let options = PlanOptions::default();
    let claim = "some would change, some may, and some are left alone";
    recording.plan(claim, (&probes().0, &site), &options).await?;

    let site = [
        probe("dark", "cannot look"),
        uses(probe("behind", ""), &["dark"]),
        probe("panics", "panic in check"),
        declare("unknown", "prob", json!({})),
    ];
    recording.plan("some cannot be looked at", (&probes().0, &site), &options).await?;

    let mut declares = lamp("declares");
    declares.declares_others = true;
    let site = [
        declares,
        declare("wrong", "lamp", json!({"name": "wrong", "on": "maybe"})),
        declare("program", "program", json!({})),
        one_of_many("a", ""),
        one_of_many("b", ""),
    ];
    let claim = "lamps are switched, and a program is not looked at";
    recording.plan(claim, (&lamps(), &site), &options).await?;

    let claim = "what depends on a program needs run";
    recording.plan(claim, (&lamps(), &needs_run()), &options).await
}

async fn notifications(recording: &mut Recording) -> TestResult {
    let later = declare_with("later", "probe", json!({}), ("name", "page", "name"));
    let site = [
        notifying(probe("page", ""), "server"),
        notifying(probe("conf", ""), "both"),
        notifying(later, "perhaps"),
        probe("server", "valid"),
        probe("both", ""),
        probe("perhaps", "valid"),
    ];
    let claim = "some would be refreshed, and one perhaps";
    recording.plan(claim, (&probes().0, &site), &PlanOptions::default()).await
}

async fn seals(recording: &mut Recording) -> TestResult {
    let salt: Salt = serde_json::from_value(json!("the salt of this test"))?;
    let options = PlanOptions { salt: Some(salt), ..PlanOptions::default() };
    let site = [lamp("first"), uses(lamp("second"), &["first"])];
    let claim = "it is bound to programs, which may change before the second";
    recording.plan(claim, (&lamps(), &site), &options).await?;

    let site = [probe("foresees", "foresees foresees"), probe("same", "valid")];
    recording.plan("it is bound to configs", (&probes().0, &site), &options).await
}

async fn departures(recording: &mut Recording) -> TestResult {
    let (folder, kinds) = (StateFolder::new()?, lamps());
    let before = Site::new(before_departures(), kinds.clone(), "before".to_owned())?;
    let facilities = folder.open()?;
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();
    assert_eq!(before.apply(&options, stop).await.changes(), 4);

    let after = Site::new(vec![lamp("kept")], kinds, "after".to_owned())?;
    let facilities = folder.of_plan()?;
    let plan = after.plan(&PlanOptions { facilities, ..PlanOptions::default() }).await;

    recording.add("one would be put back, and two released", &plan, &plan)
}
