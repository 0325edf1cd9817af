//! A site as check, plan, apply and run load it.

use std::error::Error;

use crankcase_engine::Stop;
use crankcase_resources::{ApplyOptions, Kinds, Overrides, PlanOptions, Site as Loaded, Verdict};

use crate::site::Site;

fn load(site: &Site) -> Result<Loaded, String> {
    let paths = [site.folder().to_owned()];
    let loaded = Loaded::load(&paths, &Overrides::default(), Kinds::builtin());
    loaded.map_err(|err| err.to_string().replace(&format!("{}/", site.folder().display()), ""))
}

#[test]
fn the_manifest_and_its_configs_are_refused_together_with_their_places()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a:\n    type: file\n    config: {path: x, mdoe: '0644'}\n  b:\n    type: \
         exec\n    dependencies: [c]\n    config: {command: [a], timeout: 5}\n  d:\n    type: \
         process\n  e:\n    type: file\n    dependencies: [a]\n    config: {path: '{{ \
         deps.a.state.path }}', mode: 644}\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("site.yaml")).collect();
    assert_eq!(
        lines,
        [
            "site.yaml:4:14: path: \"x\" is not absolute; begin it with /",
            "site.yaml:4:23: mdoe: there is no such attribute; did you mean \"mode\"?",
            "site.yaml:7:20: unknown resource \"c\"",
            "site.yaml:8:28: timeout: 5 is not a duration; write one as \"30s\"",
            "site.yaml:9:3: command: is missing",
        ],
        "{said}"
    );
    Ok(())
}

#[test]
fn what_cannot_be_read_hides_nothing_that_is_wrong_elsewhere() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a:\n    type: file\n    config: {path: /a, mode: 0755}\n  b:\n    type: \
         file\n    config: {path: /b, mode: 755}\n",
    )?;

    let said = load(&site).expect_err("it is refused");

    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("site.yaml")).collect();
    assert_eq!(
        lines,
        [
            "site.yaml:4:30: \"0755\" is a number with a leading zero, which some read as octal",
            "site.yaml:7:24: mode: 755 is a number; quote it and write it in octal, as \"0644\"",
        ],
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn a_config_that_is_wrong_only_once_it_is_known_is_told_with_its_place()
-> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a: {type: noop, config: {path: x}}\n  b:\n    type: file\n    \
         dependencies: [a]\n    config:\n      path: '{{ deps.a.state.path }}'\n",
    )?;
    let loaded = load(&site)?;

    let plan = loaded.plan(&PlanOptions::default()).await;

    let text = plan.to_string();
    assert!(text.contains("site.yaml:7:7: path: \"x\" is not absolute"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_template_over_a_state_to_come_is_known_after_apply() -> Result<(), Box<dyn Error>> {
    let site = Site::new("")?;
    let made = site.path("made");
    site.write("page.j2", "mode {{ made.state.mode }}\n")?;
    site.write(
        "site.yaml",
        format!(
            "resources:\n  made: {{type: file, config: {{path: '{0}', mode: '0600'}}}}\n  page: \
             {{type: file, dependencies: [made], config: {{path: '{0}.txt', template: \
             page.j2}}}}\n",
            made.display()
        ),
    )?;
    let loaded = load(&site)?;
    let (_stopper, stop) = Stop::pair();

    let before = loaded.plan(&PlanOptions::default()).await;
    let account = loaded.apply(&ApplyOptions::default(), stop).await;

    let Some(page) = before.get("page") else { return Err("no page".into()) };
    let Verdict::MayChange { because, reason } = &page.verdict else {
        return Err(format!("{page:?}").into());
    };
    assert_eq!(
        (because.join(" "), reason.as_str()),
        ("made".into(), "its config is known after apply")
    );
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    assert_eq!(std::fs::read_to_string(site.path("made.txt"))?, "mode 0600\n");
    Ok(())
}
