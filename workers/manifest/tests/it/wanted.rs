//! What a manifest tells of its resources' states: which attributes somebody uses.
use crankcase_kinds::builtin;
use crankcase_manifest::SiteFiles;
use crankcase_resources::front::Wanted;
use tempfile::tempdir;

#[test]
fn a_manifest_tells_what_dependents_use_of_a_state() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempdir()?;
    std::fs::write(folder.path().join("page.j2"), "{{ log.state.mode }}")?;
    let site = folder.path().join("site.yaml");
    for (uses, expected) in [
        ("content: plain", Wanted::nothing()),
        ("content: '{{ deps.log.state.size }}'", some(&["size"])),
        (
            "content: '{{ log.state.size }}{{ deps[\"log\"].state[\"mode\"] }}'",
            some(&["mode", "size"]),
        ),
        ("content: '{% if false %}{{ log.state.sha256 }}{% endif %}'", some(&["sha256"])),
        ("content: '{{ log.state | tojson }}'", Wanted::Whole),
        ("content: '{% set it = log.state %}{{ it.mode }}'", Wanted::Whole),
        ("content: '{{ log.state[\"mo\" ~ \"de\"] }}'", Wanted::Whole),
        ("content: '{{ deps | length }}'", Wanted::Whole),
        // The file may be another one when it is rendered.
        ("template: page.j2", Wanted::Whole),
    ] {
        std::fs::write(
            &site,
            format!(
                "resources:\n  log: {{type: file, config: {{path: /log}}}}\n  page:\n    type: file\n    \
                 dependencies: [log]\n    config:\n      path: /page\n      {uses}\n"
            ),
        )?;
        let loaded = SiteFiles::new(vec![site.clone()], builtin()).load()?;
        assert_eq!(loaded.resource("log")?.wanted, expected, "{uses}");
        assert_eq!(loaded.resource("page")?.wanted, Wanted::nothing());
    }
    Ok(())
}

#[test]
fn what_is_used_of_all_resources_of_a_for_each_is_wanted_of_each()
-> Result<(), Box<dyn std::error::Error>> {
    for (uses, expected) in [
        ("{{ deps.logs | length }}", Wanted::Whole),
        ("{{ logs['a'].size }}{{ deps.logs.b.mode }}", some(&["mode", "size"])),
        ("plain", Wanted::nothing()),
    ] {
        let folder = tempdir()?;
        let site = folder.path().join("site.yaml");
        std::fs::write(
            &site,
            format!(
                "resources:\n  log: {{type: file, for_each: [a, b], config: {{path: '/log/{{{{ item \
                 }}}}'}}}}\n  page: {{type: file, dependencies: {{logs: log}}, config: {{path: /page, \
                 content: \"{uses}\"}}}}\n"
            ),
        )?;
        let loaded = SiteFiles::new(vec![site], builtin()).load()?;
        for log in ["log[\"a\"]", "log[\"b\"]"] {
            assert_eq!(loaded.resource(log)?.wanted, expected, "{uses}");
        }
    }
    Ok(())
}

fn some(attributes: &[&str]) -> Wanted {
    Wanted::Attributes(attributes.iter().map(|name| (*name).to_owned()).collect())
}
