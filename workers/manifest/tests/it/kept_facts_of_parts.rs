//! Facts that parts of resources keep, as far as they are known while a manifest is loaded.

use std::error::Error;
use std::sync::Arc;

use crankcase_kinds::with_facts;
use crankcase_resources::dynamic::{Config, ConfigReport, Kind, KnownConfig, Part, Unit};
use crankcase_resources::front::is_fact_alias;
use crankcase_resources::{AttributeError, Claimed, Partial, Site as Loaded};
use serde_json::{Value, json};

use crate::kept_facts::{Said, load_site};
use crate::site::Site;

/// A kind whose resources are made of parts.
#[derive(Debug)]
struct Composite {
    name: &'static str,
    parts: fn(&KnownConfig<'_>) -> Vec<Part>,
}

impl Kind for Composite {
    fn name(&self) -> &str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "is made of others"
    }

    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let (claimed, parts) = (Claimed::default(), (self.parts)(known));
        ConfigReport { errors: Vec::new(), claimed, parts, ..ConfigReport::default() }
    }

    /// Nothing is made of what is only loaded.
    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Err(Vec::new())
    }
}

/// Returns an attribute of a config as far as it is known.
fn given(known: &KnownConfig<'_>, attribute: &str) -> Partial<Value> {
    match known.config.get(attribute) {
        Some(value) if known.is_known(attribute) => Partial::Given(value.clone()),
        _ => Partial::Unknown,
    }
}

/// Returns a part that keeps the fact of a config, itself or by its own part.
fn keeper(name: &str, kind: &str, known: &KnownConfig<'_>) -> Part {
    let part = Part::new(name, kind).with_partial("path", given(known, "path"));
    part.with_partial("value", given(known, "value"))
}

/// Returns a part that is a page, which is rendered from a file.
fn page(known: &KnownConfig<'_>) -> Part {
    let part = Part::new("page", "file").with("path", "/page");
    part.with_partial("template", given(known, "template"))
}

fn composite(name: &'static str, parts: fn(&KnownConfig<'_>) -> Vec<Part>) -> Composite {
    Composite { name, parts }
}

/// Loads a site with composites. `report` keeps a fact, and `nested` by its part `report`. `paged`
/// and `deep` have a page as well, and `late` keeps its fact after that.
fn load(site: &Site, stored: Value) -> Result<Loaded, Box<dyn Error>> {
    let kinds = with_facts()
        .with(composite("report", |known| vec![keeper("seen", "fact", known)]))
        .with(composite("nested", |known| vec![keeper("report", "report", known)]))
        .with(composite("paged", |known| vec![page(known), keeper("seen", "fact", known)]))
        .with(composite("deep", |known| vec![page(known), keeper("report", "report", known)]))
        .with(composite("late", |known| {
            vec![page(known), keeper("seen", "fact", known).after("page")]
        }));
    load_site(site, kinds, Said::below_layers(stored))
}

/// Loads a site of some resources, of which one uses facts.
fn load_text(text: &str, stored: Value) -> Result<Loaded, Box<dyn Error>> {
    load(&Site::new(text)?, stored)
}

/// Returns the facts on which a resource depends, and the resources that keep these.
fn facts_of<'a>(loaded: &'a Loaded, name: &str) -> Result<Vec<(&'a str, &'a str)>, Box<dyn Error>> {
    let used = loaded.resource(name)?.dependencies.iter();
    let used = used.filter(|used| is_fact_alias(&used.alias));
    Ok(used.map(|used| (&*used.alias, &*used.resource)).collect())
}

const WEB: &str = "  web: {type: report, config: {path: /seen/dir, value: /srv}}\n";

#[test]
fn what_uses_a_fact_of_a_part_depends_on_the_part_at_any_depth() -> Result<(), Box<dyn Error>> {
    for (kind, part) in [("report", r#"web["seen"]"#), ("nested", r#"web["report/seen"]"#)] {
        for message in ["{{ facts.seen.dir }}", "{{ dir }}", "{{ facts.seen | tojson }}"] {
            let vars = "vars: {dir: '{{ facts.seen.dir }}'}";
            let user = format!("  user: {{type: print, config: {{message: '{message}'}}}}");
            let web = WEB.replace("report", kind);
            let text = format!("{vars}\nresources:\n{user}\n{web}");

            let loaded = load_text(&text, json!({}))?;

            assert_eq!(facts_of(&loaded, "user")?, [("fact /seen/dir", part)], "{text}");
            assert!(facts_of(&loaded, "web")?.is_empty(), "{text}");
        }
    }
    Ok(())
}

#[test]
fn a_fact_of_a_part_is_known_at_load_as_far_as_the_part_declares_it() -> Result<(), Box<dyn Error>>
{
    let user = "  user: {type: file, config: {path: '{{ facts.seen.dir }}/page', content: x}}\n";
    let first = "  first: {type: file, config: {path: /first/}}\n";
    let of_state = WEB.replace("/srv", "'/{{ first.state.owner }}'");
    let of_state = of_state.replace("config", "dependencies: [first], config");
    for (web, claimed) in [(WEB, Some("/srv/page")), (of_state.as_str(), None)] {
        let text = format!("resources:\n{user}{first}{web}");

        let loaded = load_text(&text, json!({"seen": {"dir": "/old"}}))?;

        let claims = &loaded.resource("user")?.claims;
        let claim = claims.iter().find(|claim| claim.is_made()).map(|claim| claim.name.as_str());
        assert_eq!(claim, claimed, "{text}");
    }
    Ok(())
}

#[test]
fn a_composite_and_all_its_parts_come_after_a_fact_that_it_uses() -> Result<(), Box<dyn Error>> {
    let other = "  other: {type: nested, config: {path: /other, value: '{{ facts.seen.dir }}'}}\n";

    let loaded = load_text(&format!("resources:\n{other}{WEB}"), json!({}))?;

    for name in ["other", r#"other["report"]"#, r#"other["report/seen"]"#] {
        assert_eq!(facts_of(&loaded, name)?, [("fact /seen/dir", r#"web["seen"]"#)], "{name}");
    }
    Ok(())
}

#[test]
fn the_parts_of_each_item_keep_facts_of_their_own() -> Result<(), Box<dyn Error>> {
    let web =
        "  web: {type: report, for_each: [a, b], config: {path: '/seen/{{ item }}', value: x}}\n";
    let (a, b) = (("fact /seen/a", r#"web["a/seen"]"#), ("fact /seen/b", r#"web["b/seen"]"#));
    for (message, used) in
        [("{{ facts.seen.b }}", vec![b]), ("{{ facts.seen | tojson }}", vec![a, b])]
    {
        let user = format!("  user: {{type: print, config: {{message: '{message}'}}}}\n");

        let loaded = load_text(&format!("resources:\n{user}{web}"), json!({}))?;

        assert_eq!(facts_of(&loaded, "user")?, used, "{message}");
    }
    Ok(())
}

#[test]
fn a_parameter_says_in_which_layer_a_part_keeps_a_fact() -> Result<(), Box<dyn Error>> {
    let user = "  user: {type: print, config: {message: '{{ facts.seen.dir }}'}}\n";
    let stored = json!({"seen": {"dir": "/old"}});
    // The host has the role `web`, and not the role `mail`.
    for (role, used) in
        [("web", vec![("fact /layers/role/web/seen/dir", r#"web["seen"]"#)]), ("mail", Vec::new())]
    {
        let web = WEB.replace("/seen", "'/layers/role/{{ role }}/seen").replace("dir,", "dir',");
        let text = format!("vars: {{role: {role}}}\nresources:\n{user}{web}");

        let loaded = load_text(&text, stored.clone())?;

        assert_eq!(facts_of(&loaded, "user")?, used, "{text}");
    }
    Ok(())
}

#[test]
fn a_part_comes_after_the_part_beside_it_that_keeps_a_fact_for_its_file()
-> Result<(), Box<dyn Error>> {
    for (kind, part) in [("paged", r#"web["seen"]"#), ("deep", r#"web["report/seen"]"#)] {
        let config = "{path: /seen/dir, value: /srv, template: page.j2}";
        let site = Site::new(&format!("resources:\n  web: {{type: {kind}, config: {config}}}\n"))?;
        site.write("page.j2", "{{ facts.seen.dir }}\n")?;

        let loaded = load(&site, json!({}))?;

        let used = facts_of(&loaded, r#"web["page"]"#)?;
        assert_eq!(used, [("fact /seen/dir", part)], "{kind}");
        assert_eq!((facts_of(&loaded, "web")?, facts_of(&loaded, part)?), (vec![], vec![]));
    }
    Ok(())
}

#[test]
fn a_fact_of_a_part_that_depends_on_itself_is_refused_with_both_places()
-> Result<(), Box<dyn Error>> {
    let own = WEB.replace("/srv", "'{{ facts.seen.dir | default(0) }}'");
    let user = "  user: {type: print, config: {message: '{{ facts.seen.dir | default(0) }}'}}\n";
    let web = WEB.replace("config", "dependencies: [user], config");
    let two = own.replace("web", "two").replace("/seen/dir", "/seen/two");
    let one = own.replace("seen.dir", "seen.two");
    let late = WEB.replace("report", "late").replace("/srv", "/srv, template: page.j2");
    for (resources, circle, kept, used) in [
        (own, r#"web -> web["seen"] -> web"#, "2:3", "2:3"),
        (format!("{user}{web}"), r#"user -> web["seen"] -> web -> user"#, "3:3", "2:3"),
        (format!("{one}{two}"), r#"web -> two["seen"] -> two -> web"#, "3:3", "2:3"),
        (late, r#"web["page"] -> web["seen"] -> web["page"]"#, "2:3", "2:3"),
    ] {
        let site = Site::new(&format!("resources:\n{resources}"))?;
        site.write("page.j2", "{{ facts.seen.dir | default(0) }}\n")?;

        let refused = load(&site, json!({})).err().ok_or("it is loaded")?.to_string();

        let said = format!(
            "site.yaml:{kept}: this fact depends on itself, and may change for ever: {circle}\n"
        );
        assert!(refused.contains(&said), "{refused}");
        assert!(refused.contains(&format!("site.yaml:{used}, uses it")), "{refused}");
    }
    Ok(())
}

#[test]
fn a_path_that_is_known_after_apply_makes_no_edge_and_is_named_where_the_fact_is_missing()
-> Result<(), Box<dyn Error>> {
    let first = "  first: {type: file, config: {path: /first/}}\n";
    let of_state = WEB.replace("/seen/dir", "'/seen/{{ first.state.owner }}'");
    let of_state = of_state.replace("config", "dependencies: [first], config");
    let user = "  user: {type: print, config: {message: '{{ facts.seen.ada }}'}}\n";
    for (kind, keeper) in [("report", r#"web["seen"]"#), ("fact", "web")] {
        let text = format!("resources:\n{first}{user}{}", of_state.replace("report", kind));

        let loaded = load_text(&text.replace("ada", "ada | default(''x'')"), json!({"seen": {}}))?;
        let refused = load_text(&text, json!({})).err();

        assert!(facts_of(&loaded, "user")?.is_empty(), "{text}");
        let refused = refused.ok_or("it is loaded")?.to_string();
        assert!(refused.contains(&format!("{keeper} may write it")), "{refused}");
    }
    Ok(())
}

#[test]
fn only_the_part_that_keeps_the_fact_declares_others() -> Result<(), Box<dyn Error>> {
    let home =
        "  home: {type: print, for_each: '{{ facts.seen.users }}', config: {message: hello}}\n";
    let config = "{path: /seen/users, value: [ada], template: page.j2}";
    let site = Site::new(&format!("resources:\n{home}  web: {{type: paged, config: {config}}}\n"))?;
    site.write("page.j2", "hello\n")?;

    let first = load(&site, json!({}))?;
    let loaded = load(&site, json!({"seen": {"users": ["ada"]}}))?;

    let part = r#"web["seen"]"#;
    assert_eq!(facts_of(&first, "home")?, [("fact /seen/users", part)]);
    for loaded in [first, loaded] {
        let declaring = loaded.declarations().iter().filter(|it| it.declares_others);
        assert_eq!(declaring.map(|it| &*it.name).collect::<Vec<_>>(), [part]);
    }
    Ok(())
}

#[test]
fn a_fact_of_a_composite_with_a_secret_counts_as_one() -> Result<(), Box<dyn Error>> {
    let vars = "vars: {pin: {sensitive: '918273'}}\n";
    let user = "  user: {type: file, config: {path: /user, content: '{{ facts.seen.dir }}'}}\n";
    let web = WEB.replace("/srv", "'{{ pin }}'");

    let loaded = load_text(&format!("{vars}resources:\n{user}{web}"), json!({}))?;

    let hidden = &loaded.resource("user")?.hidden;
    assert!(hidden.contains("content"), "{hidden:?}");
    Ok(())
}
