//! Rules that cause each other.

use std::error::Error;

use crankcase_kinds::with_facts;
use crankcase_manifest::SiteFiles;

use crate::site::Site;

/// Returns the message about these rules, in a site with resources that use and keep facts.
fn ruled(rules: &str) -> Result<String, Box<dyn Error>> {
    let site = Site::new(&format!(
        r#"vars: {{n: "{{{{ facts.n | default(0) }}}}"}}
resources:
  page: {{type: file, config: {{path: /srv/page, content: "n {{{{ vars.n }}}}"}}}}
  copy: {{type: fact, config: {{path: /copy/of, value: "{{{{ facts.from | default(0) }}}}"}}}}
  read: {{type: fact, readonly: true, config: {{path: /read, value: "{{{{ facts.wanted | default(0) }}}}"}}}}
  user: {{type: file, dependencies: {{it: page}}, config: {{path: /srv/user, content: "{{{{ deps.it.state.path }}}}"}}}}
rules:
{rules}"#
    ))?;
    let loaded = SiteFiles::new(vec![site.folder().to_owned()], with_facts()).load();
    Ok(loaded.map_or_else(|said| said.to_string(), |_| "fine".to_owned()))
}

#[test]
fn rules_that_cause_each_other_for_ever_are_refused() -> Result<(), Box<dyn Error>> {
    let value = r#"value: "{{ item.value }}""#;
    for (rules, names) in [
        // Facts that set each other.
        (
            format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /b/c, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a, {value}}}]}}\n"),
            r#"rule "a" -> rule "b" -> rule "a""#,
        ),
        (format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /a/b, {value}}}]}}\n"), r#"rule "a" -> rule "a""#),
        // A count of the changes of a resource that uses the count, by way of a variable.
        (
            r#"  a: {on: {event: changed, resource: page}, do: [set: {path: /n, value: "{{ (facts.n | default(0)) + 1 }}"}]}"#.to_owned(),
            r#"rule "a" -> resource "page" -> rule "a""#,
        ),
        (format!("  a: {{on: {{event: any}}, do: [set: {{path: /n, {value}}}]}}\n"), r#"rule "a" -> resource "page" -> rule "a""#),
        (format!("  a: {{on: {{state: user}}, do: [set: {{path: /n, {value}}}]}}\n"), r#"rule "a" -> resource "page" -> resource "user" -> rule "a""#),
        // A resource that keeps a fact.
        (format!("  a: {{on: {{fact: /copy}}, do: [set: {{path: /from, {value}}}]}}\n"), r#"rule "a" -> resource "copy" -> rule "a""#),
        // Notifications.
        ("  a: {on: {event: refreshed}, do: [notify: page]}\n".to_owned(), r#"rule "a" -> resource "page" -> rule "a""#),
    ] {
        let said = ruled(&rules)?;
        assert!(said.contains(&format!("these cause each other for ever: {names}")), "{rules}{said}");
        assert!(said.contains("a \"match\" that is false at some time ends the loop"), "{said}");
    }
    Ok(())
}

#[test]
fn rules_that_end_are_no_loop() -> Result<(), Box<dyn Error>> {
    let value = r#"value: "{{ item.value }}""#;
    for rules in [
        // A value without an expression is the same the second time.
        format!(
            "  a: {{on: {{fact: /a}}, do: [set: {{path: /b, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a, value: 1}}]}}\n"
        ),
        format!(
            "  a: {{on: {{fact: /a}}, do: [set: {{path: /b, {value}}}]}}\n  b: {{on: {{fact: /b}}, do: [set: {{path: /a}}]}}\n"
        ),
        // A match may end it.
        format!(
            "  a: {{on: {{fact: /a}}, match: \"{{{{ item.value < 9 }}}}\", do: [set: {{path: /a, {value}}}]}}\n"
        ),
        format!("  a: {{on: {{fact: /a}}, enabled: false, do: [set: {{path: /a, {value}}}]}}\n"),
        format!("  a: {{on: {{fact: /a}}, do: [set: {{path: /n, {value}}}]}}\n"),
        format!("  a: {{on: {{state: user}}, do: [set: {{path: /x, {value}}}]}}\n"),
        format!("  a: {{on: {{event: failed}}, do: [set: {{path: /n, {value}}}]}}\n"),
        // A fact that is only read is never written.
        format!("  a: {{on: {{fact: /read}}, do: [set: {{path: /wanted, {value}}}]}}\n"),
        "  a: {on: {event: changed, resource: page}, do: [notify: page]}\n".to_owned(),
    ] {
        assert_eq!(ruled(&rules)?, "fine", "{rules}");
    }
    Ok(())
}
