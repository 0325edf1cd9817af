//! The order of resources and the graph behind it.

use std::error::Error;

use crankcase_manifest::{Manifest, Overrides};
use crankcase_resources::OnChange;
use crankcase_resources::front::{Order, OrderError};

use crate::site::{KINDS, Site};

fn names(manifest: &Manifest, positions: &[usize]) -> Vec<String> {
    positions.iter().map(|index| manifest.declarations()[*index].name.clone()).collect()
}

#[test]
fn what_is_depended_on_comes_first_and_else_the_order_of_the_file() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  c: {type: file, dependencies: [a]}\n  b: {type: file}\n  a: {type: file}\n",
    )?;

    let manifest = site.load()?;

    assert_eq!(names(&manifest, manifest.order().nodes()), ["a", "c", "b"]);
    assert_eq!(names(&manifest, manifest.order().dependents(2)), ["c"]);
    assert_eq!(names(&manifest, manifest.order().inputs(0)), ["a"]);
    Ok(())
}

#[test]
fn what_notifies_comes_before_what_it_notifies() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  server: {type: process}\n  page: {type: file, notify: [server]}\n",
    )?;

    let manifest = site.load()?;

    assert_eq!(names(&manifest, manifest.order().nodes()), ["page", "server"]);
    assert_eq!(names(&manifest, manifest.order().dependents(1)), ["server"]);
    assert_eq!(manifest.declarations()[1].notify, ["server"]);
    Ok(())
}

#[test]
fn a_chain_of_100_000_is_sorted() -> Result<(), Box<dyn Error>> {
    let mut text = String::from("resources:\n  r0: {type: file}\n");
    for index in 1..100_000 {
        text.push_str(&format!("  r{index}: {{type: file, dependencies: [r{}]}}\n", index - 1));
    }
    let site = Site::new(&text)?;

    let manifest = site.load()?;

    assert!(manifest.order().nodes().iter().copied().eq(0..100_000));
    Ok(())
}

#[test]
fn a_dependency_is_an_alias_a_map_or_a_name() -> Result<(), Box<dyn Error>> {
    let site = Site::new(
        "resources:\n  a: {type: file}\n  b: {type: file}\n  c:\n    type: file\n    \
         dependencies: {x: a, y: {resource: b, on_change: notify}, z: {resource: d, on_change: reload}}\n  d: {type: file, \
         dependencies: [a], meta: {noop: true}}\n",
    )?;

    let manifest = site.load()?;

    let [_, _, c, d] = manifest.declarations() else { return Err("not four".into()) };
    let edges: Vec<_> = c.dependencies.iter().map(|edge| (&*edge.alias, &*edge.resource)).collect();
    assert_eq!(edges, [("x", "a"), ("y", "b"), ("z", "d")]);
    assert_eq!(c.dependencies[0].on_change, OnChange::Check);
    assert_eq!(c.dependencies[1].on_change, OnChange::Notify);
    assert_eq!(c.dependencies[2].on_change, OnChange::Reload);
    assert_eq!(d.dependencies[0].alias, "a");
    assert!(d.noop && !c.noop);
    Ok(())
}

#[test]
fn several_files_and_folders_are_one_manifest() -> Result<(), Box<dyn Error>> {
    let site = Site::new("vars: {root: /srv}\nresources:\n  a: {type: file}\n")?;
    site.write(
        "tail.json",
        "{\n\t\"resources\": {\"b\": {\"type\": \"file\",\n\t\"dependencies\": [\"a\"]}}\n}",
    )?;
    site.write("zeta.yml", "resources:\n  c: {type: file, config: {path: \"{{ root }}\"}}\n")?;
    site.write("notes.txt", "not a manifest")?;
    let paths = ["zeta.yml", "site.yaml", "tail.json"].map(|name| site.path(name));

    let folder = site.load()?;
    let files = Manifest::load(&paths, &Overrides::default(), KINDS)?;

    assert_eq!(names(&folder, &[0, 1, 2]), ["a", "b", "c"]);
    assert_eq!(names(&files, &[0, 1, 2]), ["c", "a", "b"]);
    assert_eq!(folder.declarations()[1].place.file.parent(), Some(site.folder()));
    Ok(())
}

#[test]
fn a_graph_of_declarations_refuses_what_a_manifest_would() -> Result<(), Box<dyn Error>> {
    let site = Site::new("resources:\n  a: {type: file}\n  b: {type: file, dependencies: [a]}\n")?;
    let manifest = site.load()?;
    let declarations = manifest.declarations();

    let mut cycle = declarations.to_vec();
    cycle[1].notify.push("a".into());
    assert_eq!(
        Order::new(&cycle).err(),
        Some(OrderError::Cycle { path: ["a", "b", "a"].map(String::from).into() })
    );
    let lonely = [declarations[1].clone()];
    assert!(matches!(Order::new(&lonely), Err(OrderError::Unknown { used, .. }) if used == "a"));
    let twice = [declarations[0].clone(), declarations[0].clone()];
    assert_eq!(Order::new(&twice).err(), Some(OrderError::Duplicate { name: "a".into() }));
    Ok(())
}
