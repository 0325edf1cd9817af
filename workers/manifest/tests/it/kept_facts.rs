//! Facts that resources of the manifest keep, as far as they are known while it is loaded.

use std::error::Error;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_kinds::with_facts;
use crankcase_manifest::{SeenFacts, SeenLayer, SiteFacts, SiteFiles};
use crankcase_resources::{Kinds, Site as Loaded};
use serde_json::{Value, json};

use crate::site::Site;

/// Facts that never change.
#[derive(Debug)]
pub(crate) struct Said {
    facts: Value,
    /// The layer of the role `web`. That of the role `db` is empty.
    layer: Value,
}

impl Said {
    /// Returns these facts, with empty layers.
    pub(crate) fn below_layers(facts: Value) -> Self {
        Self { facts, layer: json!({}) }
    }
}

#[async_trait]
impl SiteFacts for Said {
    fn current(&self) -> SeenFacts {
        let layer = |role, facts: &Value| SeenLayer {
            pointer: format!("/layers/role/{role}"),
            facts: Arc::new(facts.clone()),
        };
        let layers = vec![layer("web", &self.layer), layer("db", &json!({}))];
        SeenFacts { value: Arc::new(self.facts.clone()), layers, ..SeenFacts::default() }
    }

    async fn changed(&self, _revision: u64) {
        pending::<()>().await;
    }
}

/// Loads a site of a resource `user` with a config, and others.
fn load(user: &str, others: &str, said: Said) -> Result<Loaded, Box<dyn Error>> {
    let text = format!("resources:\n  user: {{type: file, config: {{{user}}}}}\n{others}");
    load_site(&Site::new(&text)?, with_facts(), said)
}

/// Loads a site of some kinds.
pub(crate) fn load_site(site: &Site, kinds: Kinds, said: Said) -> Result<Loaded, Box<dyn Error>> {
    let mut files = SiteFiles::new(vec![site.folder().to_owned()], kinds);
    files.facts = Arc::new(said);
    Ok(files.load()?)
}

fn nothing() -> Said {
    Said::below_layers(json!({}))
}

const KEEP: &str = "  keep: {type: fact, config: {path: /seen/dir, value: /srv/www}}\n";

#[test]
fn what_uses_a_kept_fact_depends_on_its_resource() -> Result<(), Box<dyn Error>> {
    let stored = json!({"seen": {"dir": "/old", "other": "x"}, "none": "y"});
    for (content, is_used) in [
        ("{{ facts.seen.dir }}", true),
        ("{{ facts['seen'].dir[1:] }}", true),
        ("{{ facts.seen | tojson }}", true),
        ("n {{ facts | length }}", true),
        ("{{ facts.seen.dir | default('x') }}", true),
        ("{{ facts.seen.other }}", false),
        ("{{ facts.none }}", false),
    ] {
        let user = format!("path: /user, content: \"{content}\"");

        let loaded = load(&user, KEEP, Said::below_layers(stored.clone()))?;

        let used = &loaded.resource("user")?.dependencies;
        let used: Vec<_> = used.iter().map(|it| (&*it.alias, &*it.resource)).collect();
        let expected = if is_used { vec![("fact /seen/dir", "keep")] } else { Vec::new() };
        assert_eq!(used, expected, "{content}");
    }
    Ok(())
}

#[test]
fn what_uses_a_fact_depends_on_each_resource_that_keeps_it_in_a_layer_of_the_host()
-> Result<(), Box<dyn Error>> {
    let of_role = KEEP.replace("keep:", "role:").replace("/seen", "/layers/role/web/seen");
    let other_role = KEEP.replace("keep:", "other:").replace("/seen", "/layers/role/db/seen");
    let of_others = other_role.replace("role/db", "role/mail");
    // What it keeps is not what it uses.
    let copied = of_others.replace("/srv/www", "'{{ facts.seen.dir }}'");
    for (others, keepers) in [
        (format!("{KEEP}{of_role}"), vec!["keep", "role"]),
        (format!("{of_role}{KEEP}"), vec!["role", "keep"]),
        (format!("{of_role}{other_role}"), vec!["role", "other"]),
        (format!("{of_role}{of_others}"), vec!["role"]),
        (copied, vec![]),
    ] {
        let stored = Said::below_layers(json!({"seen": {"dir": "/old"}}));

        let loaded = load("path: /user, content: '{{ facts.seen.dir }}'", &others, stored)?;

        let used = &loaded.resource("user")?.dependencies;
        let used: Vec<_> = used.iter().map(|it| &*it.resource).collect();
        assert_eq!(used, keepers, "{others}");
    }
    Ok(())
}

#[test]
fn a_dependency_that_is_declared_is_the_one_on_the_fact() -> Result<(), Box<dyn Error>> {
    let others = format!(
        "{KEEP}  other: {{type: print, dependencies: {{it: keep}}, config: {{message: '{{{{ facts.seen.dir }}}}'}}}}\n"
    );

    let loaded = load("path: /user, content: x", &others, nothing())?;

    let used = &loaded.resource("other")?.dependencies;
    let used: Vec<_> = used.iter().map(|it| (&*it.alias, &*it.resource)).collect();
    assert_eq!(used, [("it", "keep")]);
    Ok(())
}

#[test]
fn a_kept_fact_is_known_at_load_as_far_as_its_resource_declares_it() -> Result<(), Box<dyn Error>> {
    let with_state = "  first: {type: file, config: {path: /first/}}\n  keep: {type: fact, dependencies: [first], config: {path: /seen/dir, value: '/{{ first.state.owner }}'}}\n";
    for (keep, stored, claimed) in [
        (KEEP, json!({}), Some("/srv/www/page")),
        // The stored fact does not count: the resource writes another one.
        (KEEP, json!({"seen": {"dir": "/old"}}), Some("/srv/www/page")),
        (with_state, json!({}), None),
        (with_state, json!({"seen": {"dir": "/old"}}), None),
    ] {
        let stored = Said::below_layers(stored);
        let loaded = load("path: '{{ facts.seen.dir }}/page', content: x", keep, stored)?;

        let user = loaded.resource("user")?;
        let claim =
            user.claims.iter().find(|claim| claim.is_made()).map(|claim| claim.name.as_str());
        assert_eq!((claim, user.is_claimed), (claimed, claimed.is_some()), "{keep}");
    }
    Ok(())
}

#[test]
fn a_fact_that_no_resource_writes_is_the_one_that_is_stored() -> Result<(), Box<dyn Error>> {
    let seen = json!({"seen": {"dir": "/layer"}});
    let readonly = KEEP.replace("type: fact", "type: fact, readonly: true");
    let in_layer = KEEP.replace("/seen/dir", "/layers/role/web/seen/dir");
    for (keep, layer) in [
        (readonly.as_str(), json!({})),
        (in_layer.as_str(), json!({})),
        (KEEP, seen.clone()),
        (KEEP, json!({"seen": 5})),
    ] {
        let user = "path: '{{ facts.seen.dir }}/page', content: x";

        let loaded = load(user, keep, Said { facts: seen.clone(), layer })?;

        let claim = loaded.resource("user")?.claims.iter().find(|claim| claim.is_made());
        let claim = claim.map(|claim| claim.name.as_str());
        assert_eq!(claim, Some("/layer/page"), "{keep}");
    }
    Ok(())
}

#[test]
fn a_layer_is_merged_over_a_kept_map() -> Result<(), Box<dyn Error>> {
    let keep = "  keep: {type: fact, config: {path: /seen, value: {dir: /srv, name: www}}}\n";
    let layer = json!({"seen": {"name": "page"}});
    let user = "path: '{{ facts.seen.dir }}/{{ facts.seen.name }}', content: x";

    let loaded = load(user, keep, Said { facts: layer.clone(), layer })?;

    let claim = loaded.resource("user")?.claims.iter().find(|claim| claim.is_made());
    assert_eq!(claim.map(|claim| claim.name.as_str()), Some("/srv/page"));
    Ok(())
}

#[test]
fn a_kept_fact_is_used_by_way_of_variables() -> Result<(), Box<dyn Error>> {
    let others =
        format!("{KEEP}vars: {{page: '{{{{ dir }}}}/page', dir: '{{{{ facts.seen.dir }}}}'}}\n");
    for stored in [json!({}), json!({"seen": {"dir": "/old"}})] {
        let loaded = load("path: '{{ page }}', content: x", &others, Said::below_layers(stored))?;

        let user = loaded.resource("user")?;
        let claim = user.claims.iter().find(|claim| claim.is_made());
        assert_eq!(claim.map(|claim| claim.name.as_str()), Some("/srv/www/page"));
        assert_eq!(user.dependencies[0].resource, "keep");
    }
    Ok(())
}

#[test]
fn a_variable_of_facts_that_nobody_keeps_is_refused_as_before() -> Result<(), Box<dyn Error>> {
    let vars = "vars: {word: '{{ facts.nosuch }}'}\n";
    let readonly = KEEP.replace("type: fact", "type: fact, readonly: true");
    let of_seen = vars.replace("nosuch", "seen.dir");
    for (others, content) in [
        (format!("{KEEP}{vars}"), "x"),
        // The problem is reported where the variable is used.
        (format!("{readonly}{of_seen}"), "'{{ word }}'"),
    ] {
        let user = format!("path: /user, content: {content}");

        let refused = load(&user, &others, nothing()).err().ok_or("it is loaded")?.to_string();

        assert!(refused.contains("facts has no"), "{refused}");
    }
    Ok(())
}
