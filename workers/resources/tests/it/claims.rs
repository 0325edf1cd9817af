//! What resources keep, make and need.

use std::collections::HashSet;

use crankcase_resources::front::{Conflict, Dependency, Order, conflicts, connect};
use crankcase_resources::{Claim, Declaration, OnChange, PATH};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::support::declare;

/// Returns a resource with these claims.
fn resource(name: &str, claims: impl IntoIterator<Item = Claim>) -> Declaration {
    let mut declaration = declare(name, "probe", json!({}));
    declaration.claims = claims.into_iter().collect();
    declaration
}

fn after(mut declaration: Declaration, name: &str) -> Declaration {
    let (alias, resource) = (name.to_owned(), name.to_owned());
    declaration.dependencies.push(Dependency { alias, resource, on_change: OnChange::Check });
    declaration
}

/// Returns who comes after whom by automatic edges.
fn edges(mut declarations: Vec<Declaration>) -> Vec<(String, String)> {
    connect(&mut declarations);
    let each = declarations.iter();
    let each = each.flat_map(|after| after.automatic.iter().map(move |edge| (after, edge)));
    each.map(|(after, edge)| (after.name.clone(), edge.resource.clone())).collect()
}

fn pair(after: &str, before: &str) -> (String, String) {
    (after.to_owned(), before.to_owned())
}

#[test]
fn a_path_comes_after_the_makers_of_the_nearest_one_at_or_above_it() {
    let folder = resource("folder", [Claim::keeps(PATH, "/srv")]);
    let made = resource("made", [Claim::makes(PATH, "/srv/www")]);
    let rights = resource(
        "rights",
        [Claim::keeps(PATH, "/srv/www").part("its mode"), Claim::needs(PATH, "/srv/www")],
    );
    let page =
        resource("page", [Claim::keeps(PATH, "/srv/www/a/b"), Claim::needs(PATH, "/srv/www/a")]);
    let other = resource("other", [Claim::needs(PATH, "/srv/wwws")]);
    let stranger = resource("stranger", [Claim::needs(PATH, "/etc/passwd")]);

    let edges = edges(vec![page, rights, made, folder, other, stranger]);

    let expected = [
        pair("page", "rights"),
        pair("page", "made"),
        pair("rights", "made"),
        pair("other", "folder"),
    ];
    assert_eq!(edges, expected);
}

#[test]
fn other_spaces_have_no_names_above_others() {
    let user = resource("user", [Claim::keeps("user", "www")]);
    let group = resource("group", [Claim::keeps("group", "www")]);
    let file = resource("file", [Claim::needs("user", "www"), Claim::needs("user", "www/data")]);

    assert_eq!(edges(vec![user, group, file]), [pair("file", "user")]);
}

#[test]
fn what_is_removed_goes_after_those_that_need_it() {
    let folder = resource("folder", [Claim::removes(PATH, "/srv")]);
    let page = resource("page", [Claim::removes(PATH, "/srv/page"), Claim::needs(PATH, "/srv")]);
    let mut declarations = vec![folder, page];

    connect(&mut declarations);

    let because = r#""folder" removes path "/srv", which "page" needs"#;
    assert_eq!(declarations[0].automatic[0].resource, "page");
    assert_eq!(declarations[0].automatic[0].because, because);
    assert!(declarations[1].automatic.is_empty());
}

#[test]
fn an_edge_says_why_it_is_there_and_whether_it_notifies() {
    let file = resource("sshd_config", [Claim::keeps(PATH, "/etc/sshd_config")]);
    let service = resource("sshd", [Claim::needs(PATH, "/etc/sshd_config").told()]);
    let mut declarations = vec![file, service];

    connect(&mut declarations);

    let edge = &declarations[1].automatic[0];
    let because =
        r#""sshd" needs path "/etc/sshd_config", and "sshd_config" makes path "/etc/sshd_config""#;
    assert_eq!((edge.on_change, edge.because.as_str()), (OnChange::Notify, because));
}

#[test]
fn a_declared_edge_is_not_made_again_and_a_resource_can_do_without() {
    let folder = resource("folder", [Claim::keeps(PATH, "/srv")]);
    let declared = after(resource("declared", [Claim::needs(PATH, "/srv")]), "folder");
    let mut without = resource("without", [Claim::needs(PATH, "/srv")]);
    without.has_automatic_edges = false;

    assert_eq!(edges(vec![folder, declared, without]), []);
}

#[test]
fn a_notification_is_not_lost_beside_a_declared_edge_without_one() {
    let file = resource("conf", [Claim::keeps(PATH, "/etc/conf")]);
    let service = after(resource("service", [Claim::needs(PATH, "/etc/conf").told()]), "conf");
    let mut declarations = vec![file, service];

    connect(&mut declarations);

    let order = Order::new(&declarations).unwrap();
    assert_eq!(order.notifiers(1), [0]);
    assert_eq!(order.inputs(1), [0]);
}

#[test]
fn nothing_is_kept_in_a_folder_that_another_resource_removes() {
    let removed = resource("removed", [Claim::removes(PATH, "/srv/www")]);
    let page = resource("page", [Claim::keeps(PATH, "/srv/www/a/page")]);
    let gone = resource("gone", [Claim::removes(PATH, "/srv/www/gone")]);
    let other = resource("other", [Claim::keeps(PATH, "/srv/www2")]);

    let found = conflicts(&[page, gone, removed, other]);

    assert_eq!((found.len(), found[0].first, found[0].second), (1, 2, 0));
}

#[test]
fn an_edge_that_would_close_a_cycle_is_left_out_and_told() {
    // It is declared the other way round.
    let folder = after(resource("folder", [Claim::keeps(PATH, "/srv")]), "page");
    let page = resource("page", [Claim::keeps(PATH, "/srv/page"), Claim::needs(PATH, "/srv")]);
    let more = resource("more", [Claim::keeps(PATH, "/srv/more"), Claim::needs(PATH, "/srv")]);
    let mut declarations = vec![folder, page, more];

    connect(&mut declarations);

    assert_eq!(declarations[1].left_out[0].resource, "folder");
    assert!(declarations[1].automatic.is_empty());
    assert_eq!(declarations[2].automatic[0].resource, "folder");
}

#[test]
fn one_thing_has_one_keeper_and_each_part_of_it_too() {
    let whole = || Claim::keeps(PATH, "/etc/x");
    let part = |part| whole().part(part);
    let cases = [
        ([whole(), whole()], true),
        ([whole(), part("line 1")], true),
        ([part("line 1"), whole()], true),
        ([part("line 1"), part("line 1")], true),
        ([part("line 1"), part("line 2")], false),
        ([whole(), Claim::removes(PATH, "/etc/x")], true),
        ([whole(), Claim::makes(PATH, "/etc/x")], false),
        ([whole(), Claim::needs(PATH, "/etc/x")], false),
        ([whole(), Claim::keeps(PATH, "/etc/y")], false),
        ([whole(), Claim::keeps("unit", "/etc/x")], false),
    ];

    for ([one, other], is_against) in cases {
        let declarations = [resource("one", [one]), resource("other", [other.clone()])];
        let found = conflicts(&declarations);
        let found: Vec<_> = found
            .into_iter()
            .map(|Conflict { first, second, claim, .. }| (first, second, claim))
            .collect();
        let expected = if is_against { vec![(0, 1, other)] } else { Vec::new() };
        assert_eq!(found, expected);
    }
}

/// A path of up to three names, each of two.
fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just("a"), Just("b")], 1..4).prop_map(|names| format!("/{}", names.join("/")))
}

fn claim() -> impl Strategy<Value = Claim> {
    (path(), 0..4).prop_map(|(path, role)| match role {
        0 => Claim::keeps(PATH, path),
        1 => Claim::removes(PATH, path),
        2 => Claim::makes(PATH, path),
        _ => Claim::needs(PATH, path),
    })
}

proptest! {
    #[test]
    fn automatic_edges_close_no_cycle_and_only_those_that_would_are_left_out(
        claims in vec(vec(claim(), 0..4), 1..8),
        declared in vec((0..8usize, 0..8usize), 0..8),
    ) {
        let name = |node: usize| format!("r{node}");
        let count = claims.len();
        let mut declarations: Vec<_> =
            claims.into_iter().enumerate().map(|(node, claims)| resource(&name(node), claims)).collect();
        let mut seen = HashSet::new();
        for (one, other) in declared {
            let (before, node) = (one.min(other), one.max(other));
            if before < node && node < count && seen.insert((before, node)) {
                let declaration = declarations[node].clone();
                declarations[node] = after(declaration, &name(before));
            }
        }

        connect(&mut declarations);

        prop_assert!(Order::new(&declarations).is_ok());
        for node in 0..count {
            for edge in declarations[node].left_out.clone() {
                let mut with = declarations.clone();
                with[node].automatic.push(edge);
                prop_assert!(Order::new(&with).is_err());
            }
        }
    }
}
