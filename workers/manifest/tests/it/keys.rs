//! The keys of a resource: for each item, only when, and how it is treated.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_manifest::{Host, Manifest, SiteFiles};
use crankcase_resources::dynamic::{Config, ConfigReport, Kind, KnownConfig, Unit};
use crankcase_resources::front::{DependencyState, Inputs, Rendered};
use crankcase_resources::{
    Account, ApplyOptions, AttributeError, Claimed, Outcome, PlanOptions, Selection,
    Site as Loaded, Verdict,
};
use serde_json::{Value, json};

use crate::site::Site;

type TestResult<T = ()> = Result<T, Box<dyn Error>>;

fn load(site: &Site) -> TestResult<Loaded> {
    Ok(SiteFiles::new(vec![site.folder().to_owned()], builtin()).load()?)
}

async fn apply(site: &Loaded) -> Account {
    let (_stopper, stop) = Stop::pair();
    site.apply(&ApplyOptions::default(), stop).await
}

fn names(manifest: &Manifest) -> Vec<&str> {
    manifest.declarations().iter().map(|declared| &*declared.name).collect()
}

/// Renders the config of a resource with no more than what is given.
fn rendered(manifest: &Manifest, name: &str, inputs: &Inputs) -> TestResult<Rendered> {
    let mut declared = manifest.declarations().iter();
    let declared = declared.find(|declared| declared.name == name).ok_or("no such resource")?;
    Ok(declared.config.render(inputs)?)
}

fn known(manifest: &Manifest, name: &str, inputs: &Inputs) -> TestResult<Value> {
    match rendered(manifest, name, inputs)? {
        Rendered::Known { config, .. } => Ok(config.into()),
        Rendered::Unknown { because } => Err(format!("unknown because of {because:?}").into()),
    }
}

#[test]
fn there_is_a_resource_for_each_item_of_a_list() -> TestResult {
    let site = Site::new(
        "vars: {users: [ada, 'b c']}\nresources:\n  home:\n    type: file\n    for_each: '{{ users \
         }}'\n    config: {path: '/home/{{ item }}/', mode: '0700'}\n",
    )?;

    let manifest = site.load()?;

    assert_eq!(names(&manifest), ["home[\"ada\"]", "home[\"b c\"]"]);
    let config = known(&manifest, "home[\"b c\"]", &Inputs::default())?;
    assert_eq!(config, json!({"path": "/home/b c/", "mode": "0700"}));
    Ok(())
}

#[test]
fn there_is_a_resource_for_each_entry_of_a_map() -> TestResult {
    let site = Site::new(
        "resources:\n  home:\n    type: file\n    for_each: {ada: {mode: '0700'}, brian: {mode: \
         '{{ \"07\" ~ \"50\" }}'}}\n    config: {path: '/{{ item.key }}', mode: '{{ \
         item.value.mode }}'}\n",
    )?;

    let manifest = site.load()?;

    assert_eq!(names(&manifest), ["home[\"ada\"]", "home[\"brian\"]"]);
    let config = known(&manifest, "home[\"brian\"]", &Inputs::default())?;
    assert_eq!(config, json!({"path": "/brian", "mode": "0750"}));
    Ok(())
}

#[test]
fn a_list_in_another_order_declares_the_same_resources() -> TestResult {
    let text = |users: &str| {
        format!(
            "resources:\n  home: {{type: file, for_each: {users}, config: {{path: '/{{{{ item \
             }}}}'}}}}\n  all: {{type: file, dependencies: [home]}}\n"
        )
    };
    let one = Site::new(&text("[ada, brian]"))?;
    let before = one.load()?;
    one.write("site.yaml", text("[brian, ada]"))?;

    let after = one.load()?;

    let find = |manifest: &Manifest, name: &str| {
        manifest.declarations().iter().find(|declared| declared.name == name).cloned()
    };
    for name in ["home[\"ada\"]", "home[\"brian\"]", "all"] {
        let (before, after) = (find(&before, name), find(&after, name));
        let (before, after) = (before.ok_or("not there")?, after.ok_or("not there")?);
        assert!(before.is_equal(&after), "{name} is another one");
    }
    Ok(())
}

#[test]
fn one_resource_of_a_for_each_is_depended_on_by_its_name() -> TestResult {
    let site = Site::new(
        "resources:\n  home: {type: file, for_each: [ada, brian]}\n  page: {type: file, \
         dependencies: {dir: 'home[\"ada\"]'}, notify: ['home[\"brian\"]'], config: {path: '{{ \
         dir.state.path }}page'}}\n",
    )?;
    let manifest = site.load()?;
    let state = DependencyState::Known(json!({"path": "/a/"}).into());
    let inputs = Inputs::new(BTreeMap::from([("dir".to_owned(), state)]));

    let page = &manifest.declarations()[2];

    assert_eq!(page.dependencies.len(), 1);
    assert_eq!(page.dependencies[0].resource, "home[\"ada\"]");
    assert_eq!(page.notify, ["home[\"brian\"]"]);
    assert_eq!(manifest.order().inputs(2), [0]);
    assert_eq!(known(&manifest, "page", &inputs)?, json!({"path": "/a/page"}));
    Ok(())
}

#[test]
fn all_resources_of_a_for_each_are_a_map_from_item_to_state() -> TestResult {
    let site = Site::new(
        "resources:\n  home: {type: file, for_each: [brian, ada]}\n  empty: {type: file, for_each: \
         []}\n  list:\n    type: file\n    dependencies: [home, empty]\n    config:\n      path: '{{ \
         deps.home[\"ada\"].path }}'\n      content: '{% for user, state in home | items %}{{ user \
         }}={{ state.path }} {% endfor %}{{ deps.empty | length }}'\n",
    )?;
    let manifest = site.load()?;
    let of = |path: &str| DependencyState::Known(json!({"path": path}).into());
    let mut deps = BTreeMap::from([("home[\"ada\"]".to_owned(), of("/a"))]);

    let waits = rendered(&manifest, "list", &Inputs::new(deps.clone()))?;
    deps.insert("home[\"brian\"]".to_owned(), of("/b"));
    let config = known(&manifest, "list", &Inputs::new(deps))?;

    let Rendered::Unknown { because } = waits else { return Err("it is known".into()) };
    assert_eq!(because, ["home[\"brian\"]"]);
    assert_eq!(config, json!({"path": "/a", "content": "ada=/a brian=/b 0"}));
    Ok(())
}

#[tokio::test]
async fn what_is_made_for_each_item_is_applied_and_used() -> TestResult {
    let site = Site::new("")?;
    site.write(
        "list.j2",
        "{% for name, state in files | items %}{{ name }} {{ state.mode }}\n{% endfor %}",
    )?;
    let text = "resources:\n  file: {type: file, for_each: {a: '0600', b: '0640'}, config: {path: \
                '@/{{ item.key }}', mode: '{{ item.value }}'}}\n  list: {type: file, dependencies: \
                {files: file}, config: {path: '@/list', template: list.j2}}\n";
    site.declare(text)?;
    let loaded = load(&site)?;

    let plan = loaded.plan(&PlanOptions::default()).await;
    let account = apply(&loaded).await;

    let list = plan.get("list").ok_or("no list")?;
    let Verdict::Changes(change) = &list.verdict else {
        return Err(format!("{list:?}").into());
    };
    assert_eq!(change.differences[1].text.as_deref(), Some("@@ -0,0 +1,2 @@\n+a 0600\n+b 0640\n"));
    assert_eq!((account.changes(), account.failures()), (3, 0), "{account}");
    assert_eq!(fs::read_to_string(site.path("list"))?, "a 0600\nb 0640\n");
    Ok(())
}

#[test]
fn a_resource_whose_when_is_false_is_not_there() -> TestResult {
    let site = Site::new(
        "vars: {is_server: false}\nresources:\n  a: {type: file, when: '{{ is_server }}'}\n  b: \
         {type: file, when: '{{ not is_server }}', dependencies: [a, c], notify: [a]}\n  c: {type: \
         file, for_each: [x, y], when: '{{ item != \"x\" }}'}\n",
    )?;

    let manifest = site.load()?;

    assert_eq!(names(&manifest), ["b", "c[\"y\"]"]);
    let b = &manifest.declarations()[0];
    let used: Vec<_> = b.dependencies.iter().map(|used| &*used.resource).collect();
    assert_eq!((used, b.notify.len()), (vec!["c[\"y\"]"], 0));
    Ok(())
}

#[tokio::test]
async fn a_tag_chooses_resources_with_all_that_they_depend_on() -> TestResult {
    let site = Site::new(
        "resources:\n  a: {type: noop}\n  b: {type: noop, dependencies: [a], tags: [web], notify: \
         [c]}\n  c: {type: noop, tags: [db, slow]}\n  d: {type: noop}\n",
    )?;
    let loaded = load(&site)?;
    let select = |tags: &[&str]| -> TestResult<Vec<String>> {
        let tags: Vec<_> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let chosen = loaded.select(&Selection { tags, ..Selection::default() })?;
        Ok(chosen.declarations().iter().map(|declared| declared.name.clone()).collect())
    };

    assert_eq!(select(&["web"])?, ["a", "b"]);
    assert_eq!(select(&["slow"])?, ["c"], "who notifies is not needed");
    assert_eq!(select(&["db", "web"])?, ["a", "b", "c"]);
    let error = select(&["webb"]).err().ok_or("it was found")?;
    assert_eq!(error.to_string(), "no resource has the tag \"webb\"; did you mean \"web\"?");
    let web = Selection { tags: vec!["web".to_owned()], ..Selection::default() };
    let plan = loaded.select(&web)?.plan(&PlanOptions::default()).await;
    assert_eq!(plan.resources.len(), 2);
    Ok(())
}

#[test]
fn a_tag_chooses_what_automatic_edges_lead_to() -> TestResult {
    let site = Site::new(
        "resources:\n  folder: {type: file, for_each: [/srv, /www], config: {path: '{{ item }}/'}}\n  \
         page: {type: file, tags: [web], config: {path: /srv/page}}\n",
    )?;

    let web = Selection { tags: vec!["web".to_owned()], ..Selection::default() };
    let chosen = load(&site)?.select(&web)?;

    let names: Vec<_> = chosen.declarations().iter().map(|declared| &*declared.name).collect();
    assert_eq!(names, ["folder[\"/srv\"]", "page"]);
    Ok(())
}

#[tokio::test]
async fn what_is_readonly_is_read_and_never_changed() -> TestResult {
    let site = Site::new("")?;
    site.write("there", "as it is")?;
    let text = "resources:\n  there: {type: file, readonly: true, config: {path: '@/there', content: \
                other}}\n  copy: {type: file, dependencies: [there], config: {path: '@/copy', \
                content: '{{ there.state.size }} bytes'}}\n  missing: {type: file, readonly: true, \
                config: {path: '@/missing'}}\n  user: {type: file, dependencies: [missing], config: \
                {path: '@/user', content: '{{ missing.state.path }}'}}\n";
    site.declare(text)?;
    let loaded = load(&site)?;

    let plan = loaded.plan(&PlanOptions::default()).await;
    let account = apply(&loaded).await;

    for name in ["there", "missing"] {
        assert_eq!(plan.get(name).ok_or(name)?.verdict, Verdict::Unchanged);
        assert_eq!(account.get(name).ok_or(name)?.outcome, Outcome::Unchanged);
    }
    let because = "missing".to_owned();
    assert_eq!(plan.get("user").ok_or("user")?.verdict, Verdict::Skipped { because });
    assert_eq!(fs::read_to_string(site.path("there"))?, "as it is");
    assert_eq!(fs::read_to_string(site.path("copy"))?, "8 bytes");
    assert!(!site.path("missing").exists() && !site.path("user").exists());
    Ok(())
}

#[test]
fn meta_says_how_often_to_look_and_how_long_that_may_take() -> TestResult {
    let site = Site::new(
        "resources:\n  a: {type: file, meta: {poll: 30s, timeout: 2m}}\n  b: {type: file}\n",
    )?;

    let manifest = site.load()?;

    let [a, b] = manifest.declarations() else { return Err("not two".into()) };
    assert_eq!(a.poll, Some(Duration::from_secs(30)));
    assert_eq!(a.timeout, Some(Duration::from_secs(120)));
    assert_eq!((b.poll, b.timeout), (None, None));
    assert!(!a.is_equal(b));
    Ok(())
}

#[test]
fn the_examples_of_the_manual_are_valid() -> TestResult {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/manifest.md");
    let manual = fs::read_to_string(manual)?;
    let mut count = 0;

    for example in manual.split("```yaml\n").skip(1) {
        let text = example.split("```").next().unwrap_or_default();
        let site = Site::new(text)?;
        site.write("index.html.j2", "{{ deps.dir.state.path }}\n")?;
        let mut files = SiteFiles::new(vec![site.folder().to_owned()], builtin());
        // Where secrets come from is not there; what is set in their places is as good.
        let secrets = text.lines().filter(|line| line.contains(": {secret: "));
        let names = secrets.filter_map(|line| line.trim().split_once(':'));
        files.overrides.vars = names.map(|(name, _)| (name.to_owned(), "x".to_owned())).collect();
        files.load().map_err(|error| format!("{text}\n{error}"))?;
        count += 1;
    }

    assert!(count >= 7, "{count}");
    Ok(())
}

/// A kind whose resources read the host by themselves.
#[derive(Debug)]
struct Reader;

impl Kind for Reader {
    fn name(&self) -> &'static str {
        "reader"
    }

    fn summary(&self) -> &'static str {
        "reads the host"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        builtin().get("noop").expect("it is built in").make(config)
    }

    fn judge(&self, _: &KnownConfig<'_>) -> ConfigReport {
        ConfigReport { claimed: Claimed::default(), ..ConfigReport::default() }
    }

    fn reads_host(&self) -> bool {
        true
    }
}

#[test]
fn another_host_changes_what_uses_it_and_nothing_else() -> TestResult {
    let site = Site::new(
        "vars: {where: 'at {{ host.name }}', root: /srv}\nresources:\n  plain: {type: noop, config: \
         {a: '{{ root }}'}}\n  direct: {type: noop, config: {a: '{{ host.name }}'}}\n  by_var: \
         {type: noop, config: {a: '{{ vars.where }}'}}\n  all: {type: noop, config: {a: '{{ vars | \
         length }}'}}\n  each: {type: noop, for_each: ['{{ host.name }}']}\n  only: {type: noop, \
         when: '{{ host.name == \"b\" }}'}\n  reader: {type: reader, config: {a: b}}\n",
    )?;
    let on = |name: &str| -> TestResult<Loaded> {
        let kinds = builtin().with(Reader);
        let files = SiteFiles::new(vec![site.folder().to_owned()], kinds);
        let value = json!({"name": name});
        Ok(SiteFiles { host: Host::new(move || value.clone()), ..files }.load()?)
    };
    let (before, same, after) = (on("a")?, on("a")?, on("b")?);

    assert!(before == same && before != after);
    let changed = [("direct", false), ("by_var", false), ("all", false), ("reader", false)];
    for (name, is_equal) in changed.into_iter().chain([("plain", true)]) {
        let (before, after) = (before.resource(name)?, after.resource(name)?);
        assert_eq!(before.is_equal(after), is_equal, "{name}");
    }
    assert!(before.resource("each[\"a\"]").is_ok() && after.resource("each[\"b\"]").is_ok());
    assert!(before.resource("only").is_err() && after.resource("only").is_ok());
    assert_eq!(after.resource("reader")?.host.as_deref(), Some(&json!({"name": "b"})));
    assert_eq!(after.resource("direct")?.host, None);
    Ok(())
}

#[tokio::test]
async fn a_template_sees_the_host() -> TestResult {
    let site = Site::new("")?;
    site.write("page.j2", "{{ host.system.os }} {{ host['memory'] }}")?;
    let text = "resources: {page: {type: file, config: {path: '@/page', template: page.j2}}}\n";
    site.declare(text)?;
    let host = Host::new(|| json!({"system": {"os": "debian"}, "memory": 1024}));
    let files = SiteFiles::new(vec![site.folder().to_owned()], builtin());
    let loaded = SiteFiles { host, ..files }.load()?;

    let account = apply(&loaded).await;

    assert_eq!(account.failures(), 0, "{account}");
    assert_eq!(fs::read_to_string(site.path("page"))?, "debian 1024");
    Ok(())
}
