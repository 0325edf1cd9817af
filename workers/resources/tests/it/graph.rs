//! Graphs that are declared from Rust.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::dynamic::{Config, Kind, Unit};
use crankcase_resources::front::Surroundings;
use crankcase_resources::{
    Account, ApplyOptions, AttributeError, BoxError, Graph, GraphError, Kinds, Meta, Node,
    NodeError, Outcome, PlanOptions,
};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use crate::probe::{Event, Journal, probes};
use crate::support::TestResult;

#[track_caller]
fn node(name: &str) -> Node {
    faulty(name, "")
}

#[track_caller]
fn faulty(name: &str, fault: &str) -> Node {
    Node::new(name, "probe").with("name", name).with("fault", fault)
}

fn graph(nodes: impl IntoIterator<Item = Node>) -> Result<Graph, GraphError> {
    let mut graphs = nodes.into_iter().map(Graph::from);
    let first = graphs.next().expect("there is a node");
    graphs.try_fold(first, |graph, other| graph.merge(&other))
}

fn here() -> Surroundings {
    Surroundings::new(Path::new("/"))
}

fn names<'a>(nodes: &[&'a Node]) -> Vec<&'a str> {
    nodes.iter().map(|node| node.name()).collect()
}

/// Returns what is wrong, without the places.
fn said(error: &GraphError) -> Vec<String> {
    let place = |text: &str| text.split_once(": ").map(|(_, rest)| rest.to_owned());
    let text = |error: &NodeError| error.to_string();
    error.errors().iter().map(text).map(|text| place(&text).unwrap_or(text)).collect()
}

async fn apply(graph: &Graph, kinds: &Kinds) -> Result<Account, GraphError> {
    let (_stopper, stop) = Stop::pair();
    Ok(graph.site(kinds, &here())?.apply(&ApplyOptions::default(), stop).await)
}

fn outcome<'a>(account: &'a Account, name: &str) -> &'a Outcome {
    let mut resources = account.resources.iter();
    &resources.find(|it| it.name == name).expect("it is in the account").outcome
}

#[test]
fn equal_nodes_become_one_and_different_ones_are_refused_with_both_places() -> TestResult {
    let base = Graph::from(node("base"));
    let left = Graph::from(node("left")).after(&base)?;
    let right = Graph::from(node("right")).after(&base)?;

    let diamond = Graph::from(node("top")).after(&left)?.after(&right)?;
    let other = Graph::from(faulty("base", "fails"));
    let refused = diamond.clone().merge(&other).expect_err("base is there twice");

    assert_eq!(names(&diamond.nodes().collect::<Vec<_>>()), ["base", "left", "right", "top"]);
    let [error @ NodeError::Different { place, other: first, .. }] = refused.errors() else {
        return Err(refused.into());
    };
    assert!(place != first && place.file.ends_with("graph.rs"), "{error}");
    let wanted = "nodes \"base\", the other is at";
    assert!(error.to_string().contains(wanted), "{error}");
    assert!(error.to_string().ends_with("; they differ in config.fault"), "{error}");
    // Either value may be a secret.
    assert!(!format!("{error} {diamond:?} {other:?}").contains("fails"), "{error}");
    Ok(())
}

#[test]
fn a_missing_requirement_and_a_circle_are_refused_by_name() -> TestResult {
    let missing = graph([node("page").after("docrot"), node("docroot")])?;
    let circle = graph([node("a").after("b"), node("b").after("c"), node("c").after("a")])?;
    let alone = graph([node("a").after("a")])?;

    let refused = |graph: &Graph| {
        let (kinds, journal) = probes();
        let error = graph.site(&kinds, &here()).expect_err("it is wrong");
        assert_eq!(said(&error), said(&graph.to_wire(&kinds, &here()).unwrap_err()));
        assert!(journal.events().is_empty());
        said(&error)
    };
    assert_eq!(
        refused(&missing),
        ["node \"page\" requires \"docrot\", which is not in the graph; did you mean \"docroot\"?"]
    );
    assert_eq!(refused(&circle), ["a -> b -> c -> a"]);
    assert_eq!(refused(&alone), ["a -> a"]);
    Ok(())
}

#[test]
fn a_kind_is_refused_where_it_is_not_known_before_and_after_the_way() -> TestResult {
    let (kinds, _) = probes();
    let strange = Graph::from(Node::new("a", "prob"));

    let here_refused = strange.site(&kinds, &here()).expect_err("there is no such kind");
    let sent = Graph::from(node("a")).to_wire(&kinds, &here())?;
    let there_refused = Graph::from_wire(&sent, &Kinds::default(), &here()).expect_err("no kinds");

    assert_eq!(
        said(&here_refused),
        ["node \"a\": there is no type \"prob\"; did you mean \"probe\"?"]
    );
    assert!(matches!(there_refused.errors(), [NodeError::Kind { name, .. }] if name == "a"));
    Ok(())
}

#[test]
fn a_name_that_no_resource_can_have_is_refused() {
    let (kinds, _) = probes();
    for name in ["", "1", "a b", "a..b", "a/b"] {
        let refused = Graph::from(node(name)).site(&kinds, &here()).expect_err(name);
        assert!(matches!(refused.errors(), [NodeError::Name { .. }]), "{refused}");
    }
    assert!(Graph::from(node("home[\"ada\"]")).site(&kinds, &here()).is_ok());
}

#[test]
fn a_requirement_by_graph_is_one_by_name_and_a_merge() -> TestResult {
    let folder = Graph::from(node("folder"));
    let by_graph = Graph::from(node("page")).told_by(&folder)?;
    let by_name = Graph::from(node("page").told_by("folder"));

    assert_eq!(by_graph, by_name.clone().merge(&folder)?);
    assert_eq!(by_graph, folder.clone().merge(&by_name)?);
    Ok(())
}

#[test]
fn who_requires_the_other_head_becomes_the_head_and_else_the_first_is() -> TestResult {
    let (a, b) = (Graph::from(node("a")), Graph::from(node("b")));
    let needs_a = Graph::from(node("c").after("a"));

    assert_eq!(a.clone().merge(&b)?.head(), "a");
    assert_eq!(b.clone().merge(&a)?.head(), "b");
    assert_eq!(a.clone().merge(&needs_a)?.head(), "c");
    assert_eq!(needs_a.clone().merge(&a)?.head(), "c");
    Ok(())
}

#[test]
fn layers_come_after_what_they_require_in_the_order_of_names() -> TestResult {
    let nodes = [
        node("z"),
        node("b").after("z"),
        node("a").after("z").told_by("y"),
        node("y"),
        node("x").after("a"),
    ];
    let layers = graph(nodes)?;
    let layers: Vec<_> = layers.layers()?.iter().map(|layer| names(layer).join(" ")).collect();
    assert_eq!(layers, ["y z", "a b", "x"]);
    Ok(())
}

/// Returns graphs of up to twelve nodes. Each node requires some of the nodes before it.
fn graphs() -> impl Strategy<Value = Graph> {
    let node = (any::<u16>(), any::<u16>(), "\\PC{0,6}", any::<(bool, bool)>());
    proptest::collection::vec(node, 1..12).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate().map(|(index, (after, told, fault, flags))| {
            let mut node = faulty(&format!("n{index}"), &fault);
            for before in 0..index {
                let name = format!("n{before}");
                match (after >> before & 1, told >> before & 3) {
                    (1, 0) => node = node.told_by(&name),
                    (1, 1) => node = node.using("name", &name, "name"),
                    (1, _) => node = node.after(&name),
                    _ => {}
                }
            }
            let mut meta = Meta::default();
            (meta.noop, meta.automatic_edges) = (flags.0, flags.1);
            meta.poll = flags.1.then(|| Duration::from_millis(1_500));
            let node = node.meta(meta).tag(&format!("t{}", flags.1));
            if flags.0 { node.readonly() } else { node }
        });
        graph(nodes).expect("their names differ")
    })
}

proptest! {
    #[test]
    fn what_was_sent_is_received_as_it_was(graph in graphs()) {
        let (kinds, _) = probes();
        let text = graph.to_wire(&kinds, &here()).unwrap();

        let received = Graph::from_wire(&text, &kinds, &here()).unwrap();
        prop_assert_eq!(received.to_wire(&kinds, &here()).unwrap(), text);
        prop_assert_eq!(&received, &graph);

        let layers = graph.layers().unwrap();
        for (depth, layer) in layers.iter().enumerate() {
            for required in layer.iter().flat_map(|node| node.requires()) {
                let before = layers[..depth].iter().flatten();
                prop_assert!(before.clone().any(|node| node.name() == required));
            }
        }
        let (site, again) =
            (graph.site(&kinds, &here()).unwrap(), received.site(&kinds, &here()).unwrap());
        prop_assert_eq!(site.digest(), again.digest());
    }

    #[test]
    fn what_is_cut_off_on_the_way_is_refused(graph in graphs(), cut in any::<usize>()) {
        let (kinds, _) = probes();
        let text = graph.to_wire(&kinds, &here()).unwrap();
        let cut = (0..=cut % text.len()).rev().find(|cut| text.is_char_boundary(*cut)).unwrap();
        prop_assert!(Graph::from_wire(&text[..cut], &kinds, &here()).is_err());
    }
}

#[test]
fn what_is_no_graph_is_refused_as_a_whole() {
    let (kinds, _) = probes();
    let one = json!({"name": "a", "type": "probe", "config": {}});
    let with = |key: &str, value: Value| {
        let mut node = one.clone();
        node[key] = value;
        node
    };
    let wire = |layers: Value| json!({"format": 1, "head": "a", "layers": layers}).to_string();
    let cases = [
        (String::new(), "EOF while parsing a value"),
        ("[]".to_owned(), "expected a map with format, head and layers"),
        (json!({"head": "a"}).to_string(), "missing field `format`"),
        (json!({"format": 2, "what": 1}).to_string(), "its format is 2, and 1 is spoken here"),
        (json!({"format": 1, "head": "a", "layers": [], "more": 1}).to_string(), "`more`"),
        (wire(json!([])), "its head \"a\" is none of its nodes"),
        (wire(json!([[with("more", json!(1))]])), "unknown field `more`"),
        (wire(json!([[with("config", json!([]))]])), "invalid type: sequence"),
        (wire(json!([[one], [one]])), "there are two nodes \"a\", one at wire:1:1"),
        (wire(json!([[one, one]])), "there are two nodes \"a\", one at wire:1:1"),
        // A circle would have to have a node before what it requires.
        (
            wire(json!([[with("requires", json!({"a": "check"}))]])),
            "requires \"a\", which is in no layer before it",
        ),
        (
            wire(json!([[with("uses", json!({"name": {"node": "ghost", "attribute": "x"}}))]])),
            "uses the state of \"ghost\", which it does not require",
        ),
        (
            wire(json!([[with("requires", json!({"a": "check"}))]]))
                .replace("{}", "{\"name\": 1}")
                .replace("\"requires\"", "\"uses\"")
                .replace("{\"a\":\"check\"}", "{\"name\":{\"node\":\"a\",\"attribute\":\"x\"}}"),
            "node \"a\" has name in its config and in what it uses",
        ),
        (wire(json!([[with("requires", json!({"a": "perhaps"}))]])), "unknown variant `perhaps`"),
        (" ".repeat((64 << 20) + 1), "it has 67108865 bytes or more, and 64 MiB are the most"),
        (
            wire(json!([[one]])).replace("{}", &format!("{{\"a\": {}", "[".repeat(100_000))),
            "recursion limit exceeded",
        ),
    ];
    for (text, wanted) in cases {
        let refused = Graph::from_wire(&text, &kinds, &here()).expect_err(wanted);
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
}

/// A kind whose configs leave out what this machine alone knows, and get what the other one knows.
#[derive(Debug)]
struct Local;

impl Kind for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn summary(&self) -> &'static str {
        "knows where it is"
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Err(Vec::new())
    }

    fn send(&self, config: &mut Config, _: &Surroundings) -> Result<(), BoxError> {
        if config.contains_key("fixed") {
            return Err("it stays where it is".into());
        }
        config.remove("host");
        Ok(())
    }

    fn receive(&self, config: &mut Config, there: &Surroundings) -> Result<(), BoxError> {
        config.insert("host".to_owned(), there.host["name"].clone());
        Ok(())
    }
}

#[test]
fn a_kind_leaves_out_what_is_local_and_fills_in_what_is_local_there() -> TestResult {
    let kinds = Kinds::default().with(Local);
    let node = Node::new("a", "local").with("host", "here").with("port", 1);
    let there = here().host(json!({"name": "there"}));

    let sent = Graph::from(node.clone()).to_wire(&kinds, &here())?;
    let received = Graph::from_wire(&sent, &kinds, &there)?;
    let refused = Graph::from(node.with("fixed", true)).to_wire(&kinds, &here());

    assert!(!sent.contains("here"), "{sent}");
    let config = received.node("a").map(|node| Value::Object(node.config().clone()));
    assert_eq!(config, Some(json!({"port": 1, "host": "there"})));
    assert_eq!(said(&refused.unwrap_err()), ["node \"a\" cannot travel: it stays where it is"]);
    Ok(())
}

#[test]
fn of_very_many_things_that_are_wrong_the_first_are_told() {
    let (kinds, _) = probes();
    let layer = |prefix: &str, requires: Value| -> Value {
        let node = |number| {
            let name = format!("{prefix}{number}");
            json!({"name": name, "type": "probe", "config": {}, "requires": requires})
        };
        (0..50_000).map(node).collect()
    };
    let layers = [layer("first", json!({})), layer("second", json!({"missing": "check"}))];
    let text = json!({"format": 1, "head": "first0", "layers": layers}).to_string();

    let refused = Graph::from_wire(&text, &kinds, &here()).expect_err("requirements are missing");

    assert_eq!(refused.errors().len(), 20);
}

#[tokio::test]
async fn a_plan_lists_the_actions_of_the_apply_and_does_none() -> TestResult {
    let (kinds, journal) = probes();
    let graph = graph([node("a").after("b"), node("b"), faulty("c", "valid")])?;

    let plan = graph.site(&kinds, &here())?.plan(&PlanOptions::default()).await;
    let (planned, before) = (serde_json::to_value(&plan)?, begun(&journal));
    let account = apply(&graph, &kinds).await?;

    assert_eq!(before, [""; 0]);
    for accounted in &account.resources {
        let planned = planned["resources"].as_array().unwrap();
        let planned = planned.iter().find(|it| it["name"] == accounted.name.as_str()).unwrap();
        let actions = planned.get("actions").and_then(Value::as_array).map_or(0, Vec::len);
        assert_eq!(actions, accounted.done.len(), "{planned}");
    }
    assert_eq!((begun(&journal).join(" "), account.changes()), ("b a".into(), 2));
    Ok(())
}

fn begun(journal: &Journal) -> Vec<String> {
    let events = journal.events().into_iter();
    events
        .filter_map(|event| if let Event::Began(name) = event { Some(name) } else { None })
        .collect()
}

#[tokio::test]
async fn shutdown_comes_dependents_first_and_then_the_actions_the_other_way_round() -> TestResult {
    let (kinds, journal) = probes();
    let stops = |name: &str| faulty(name, "stops first");
    let chain = graph([stops("a").after("b"), stops("b").after("c"), stops("c")])?;

    let account = apply(&chain, &kinds).await?;

    assert_eq!(account.failures(), 0, "{account}");
    let is_shown = |event: &Event| !matches!(event, Event::Closed(_));
    let events: Vec<_> = journal.events().into_iter().filter(is_shown).collect();
    assert_eq!(events[..3], ["a", "b", "c"].map(|name| Event::ShutDown(name.into())));
    assert_eq!(begun(&journal), ["c", "b", "a"]);
    Ok(())
}

#[tokio::test]
async fn the_account_says_what_was_done_where_it_failed_and_what_was_never_begun() -> TestResult {
    let (kinds, _) = probes();
    // Two layers, as in `[[one, two], [three, four]]`; `four` fails, and so does `five` beside it.
    let nodes = [
        node("one"),
        node("two"),
        node("three").after("one"),
        faulty("four", "fails").after("two"),
        faulty("five", "panic in action").after("two"),
        node("six").after("four"),
        node("seven").after("three"),
        faulty("eight", "valid"),
    ];

    let account = apply(&graph(nodes)?, &kinds).await?;

    let failed = |name: &str| match outcome(&account, name) {
        Outcome::Failed { at: Some(at), error } => format!("{}: {error}", at.action.name),
        other => format!("{other:?}"),
    };
    assert_eq!(failed("four"), "make: out of luck");
    assert!(failed("five").starts_with("make: ") && failed("five").contains("bang"));
    let four = account.resources.iter().find(|it| it.name == "four").unwrap();
    assert_eq!(four.remaining.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["polish"]);
    assert_eq!(outcome(&account, "six"), &Outcome::Skipped { because: "four".into() });
    // What does not depend on what failed goes on, also in later layers.
    for name in ["one", "two", "three", "seven"] {
        assert_eq!(outcome(&account, name), &Outcome::Changed, "{name}");
    }
    let one = account.resources.iter().find(|it| it.name == "one").unwrap();
    assert_eq!(one.done[0].log, ["begins"]);
    assert_eq!(outcome(&account, "eight"), &Outcome::Unchanged);
    Ok(())
}

#[tokio::test]
async fn with_fail_fast_no_later_layer_begins() -> TestResult {
    let (kinds, journal) = probes();
    let nodes = [faulty("bad", "fails"), node("z"), node("late").after("z")];
    let options = ApplyOptions { fail_fast: true, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();

    let account = graph(nodes)?.site(&kinds, &here())?.apply(&options, stop).await;

    assert!(matches!(outcome(&account, "late"), Outcome::NotAttempted { .. }), "{account}");
    assert!(!begun(&journal).contains(&"late".to_owned()));
    Ok(())
}

#[tokio::test]
async fn the_nodes_of_a_layer_work_side_by_side() -> TestResult {
    let (kinds, journal) = probes();
    // Each ends only when it is told to, which is when all have begun.
    let nodes = ["a", "b", "c"].map(|name| faulty(name, "ends when told"));
    let site = graph(nodes)?.site(&kinds, &here())?;
    let (stopper, stop) = Stop::pair();
    let options = ApplyOptions::default();
    let all_begun = async {
        while begun(&journal).len() < 3 {
            journal.began.notified().await;
        }
        stopper.stop();
    };

    let (account, ()) = tokio::join!(site.apply(&options, stop), all_begun);

    assert_eq!(begun(&journal).len(), 3, "{account}");
    Ok(())
}
