//! The order of an apply in random graphs, and declarations without an order.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_resources::front::OrderError;
use crankcase_resources::run::plan;
use crankcase_resources::{Account, ApplyOptions, Declaration, Kinds, Outcome, PlanOptions};
use proptest::prelude::*;
use serde_json::json;

use crate::notify::notifying;
use crate::probe::{Event, Journal, Probe};
use crate::support::{TestResult, apply_with, declare, uses};

/// Resources by number, each with those that it uses, in any order; some fail.
#[derive(Debug, Clone)]
struct Graph {
    uses: Vec<BTreeSet<usize>>,
    failing: BTreeSet<usize>,
    order: Vec<usize>,
    parallel: NonZeroUsize,
}

fn graphs() -> impl Strategy<Value = Graph> {
    (1_usize..16).prop_flat_map(|count| {
        let edges = proptest::collection::vec((0..count, 0..count), 0..count * 2);
        let failing = proptest::collection::btree_set(0..count, 0..3);
        let order = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        (edges, failing, order, 1_usize..5).prop_map(move |(edges, failing, order, parallel)| {
            let mut uses = vec![BTreeSet::new(); count];
            for (one, other) in edges.into_iter().filter(|(one, other)| one != other) {
                uses[one.max(other)].insert(one.min(other));
            }
            let parallel = NonZeroUsize::new(parallel).expect("it is at least 1");
            Graph { uses, failing, order, parallel }
        })
    })
}

impl Graph {
    fn declarations(&self) -> Vec<Declaration> {
        let declare_one = |node: &usize| {
            let fault = if self.failing.contains(node) { "fails" } else { "" };
            let used: Vec<_> = self.uses[*node].iter().map(|used| format!("r{used}")).collect();
            let used: Vec<_> = used.iter().map(String::as_str).collect();
            let config = json!({"name": format!("r{node}"), "fault": fault});
            uses(declare(&format!("r{node}"), "probe", config), &used)
        };
        self.order.iter().map(declare_one).collect()
    }

    /// Returns whether the resource, or one that it uses, fails.
    fn is_stopped(&self, node: usize) -> bool {
        self.failing.contains(&node) || self.uses[node].iter().any(|used| self.is_stopped(*used))
    }

    fn apply(&self) -> (Account, Vec<Event>) {
        let probe = Probe::default();
        let journal: Arc<Journal> = Arc::clone(&probe.journal);
        let kinds = Kinds::default().with(probe);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("threads can be had");
        let options = ApplyOptions { parallel: self.parallel, ..ApplyOptions::default() };
        let account = runtime
            .block_on(apply_with(&self.declarations(), &kinds, &options))
            .expect("it has no circle");
        (account, journal.events())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_action_begins_before_what_it_uses_is_done(graph in graphs()) {
        let (_, events) = graph.apply();
        let at: BTreeMap<String, usize> = events
            .iter()
            .enumerate()
            .filter_map(|(at, event)| match event {
                Event::Closed(name) => Some((name.clone(), at)),
                _ => None,
            })
            .collect();
        for (place, event) in events.iter().enumerate() {
            let Event::Began(name) = event else { continue };
            let node: usize = name[1..].parse().unwrap();
            for used in &graph.uses[node] {
                let used = format!("r{used}");
                // The last close is the one of apply itself.
                prop_assert!(events[..place].contains(&Event::Ended(used.clone())));
                prop_assert!(at[&used] < place);
            }
        }
    }

    #[test]
    fn a_failure_stops_exactly_what_depends_on_it(graph in graphs()) {
        let (account, events) = graph.apply();
        for node in 0..graph.uses.len() {
            let name = format!("r{node}");
            let outcome = &account.get(&name).unwrap().outcome;
            if graph.uses[node].iter().any(|used| graph.is_stopped(*used)) {
                let Outcome::Skipped { because } = outcome else {
                    return Err(TestCaseError::fail(format!("{name}: {outcome:?}")));
                };
                prop_assert!(graph.failing.contains(&because[1..].parse::<usize>().unwrap()));
                prop_assert!(!events.contains(&Event::Began(name)));
            } else if graph.failing.contains(&node) {
                let is_failed = matches!(outcome, Outcome::Failed { .. });
                prop_assert!(is_failed);
            } else {
                prop_assert_eq!(outcome, &Outcome::Changed);
            }
        }
    }

    #[test]
    fn no_more_actions_run_at_a_time_than_allowed(graph in graphs()) {
        let (_, events) = graph.apply();
        let mut running = BTreeSet::new();
        for event in events {
            match event {
                Event::Began(name) => drop(running.insert(name)),
                Event::Ended(name) | Event::Closed(name) => drop(running.remove(&name)),
                _ => {}
            }
            prop_assert!(running.len() <= graph.parallel.get());
        }
    }

    #[test]
    fn the_account_lists_what_is_used_first_and_else_keeps_the_order(graph in graphs()) {
        let (account, _) = graph.apply();
        let (again, _) = graph.apply();
        let names = |account: &Account| -> Vec<String> {
            account.resources.iter().map(|accounted| accounted.name.clone()).collect()
        };
        let listed = names(&account);
        prop_assert_eq!(&listed, &names(&again));
        for (node, used) in graph.uses.iter().enumerate() {
            let place = |node: usize| listed.iter().position(|name| *name == format!("r{node}"));
            prop_assert!(used.iter().all(|used| place(*used) < place(node)));
        }
    }
}

async fn refused(declarations: &[Declaration]) -> OrderError {
    plan(declarations, &Kinds::default(), &PlanOptions::default()).await.expect_err("it is refused")
}

#[tokio::test]
async fn a_circle_is_refused_with_its_path() {
    let notifier = notifying(uses(declare("a", "noop", json!({})), &["c"]), "b");
    let declarations = [
        declare("outside", "noop", json!({})),
        notifier,
        declare("b", "noop", json!({})),
        uses(declare("c", "noop", json!({})), &["b"]),
        uses(declare("behind", "noop", json!({})), &["c"]),
    ];

    let error = refused(&declarations).await;

    let text = error.to_string();
    assert!(matches!(error, OrderError::Cycle { .. }));
    assert!(
        ["a -> c -> b -> a", "c -> b -> a -> c", "b -> a -> c -> b"]
            .iter()
            .any(|path| text.ends_with(path)),
        "{text}"
    );
}

#[tokio::test]
async fn unknown_and_double_names_are_refused() -> TestResult {
    let unknown =
        [declare("index", "noop", json!({})), uses(declare("b", "noop", json!({})), &["indx"])];
    let double = [declare("a", "noop", json!({})), declare("a", "noop", json!({}))];

    assert_eq!(
        refused(&unknown).await.to_string(),
        r#"resource "b" uses "indx", which is not declared; did you mean "index"?"#
    );
    assert_eq!(refused(&double).await.to_string(), r#"resource "a" is declared twice"#);
    Ok(())
}
