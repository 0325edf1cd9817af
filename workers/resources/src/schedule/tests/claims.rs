//! Single rules, each by the smallest site in which it matters.

mod groups;
mod notifications;
mod reasons;

use std::collections::BTreeMap;

use crate::schedule::{
    Answer, Command, CycleError, Ending, Graph, GraphBuilder, Id, Machine, Outcome, Policy, Reason,
    Standing, Ticket,
};

const GOOD: Ending = ending(Outcome::Good);
const CHANGED: Ending = Ending { has_acted: true, has_new_state: true, ..GOOD };
const FAILED: Ending = ending(Outcome::Failed);

const fn ending(outcome: Outcome) -> Ending {
    Ending { outcome, has_acted: false, has_new_state: false, is_holding: false }
}

/// Builds a graph of resources 0, 1, ... of one kind, from what needs what and what notifies what.
fn graph(count: usize, needs: &[(usize, usize)], notifications: &[(usize, usize)]) -> Graph {
    let mut builder = GraphBuilder::default();
    for id in 0..count {
        builder.resource(Id(id), Some(0));
    }
    for (id, used) in needs {
        builder.needs(Id(*id), Id(*used));
    }
    for (source, target) in notifications {
        builder.notifies(Id(*source), Id(*target));
    }
    builder.build().expect("a graph without a cycle")
}

/// Builds a graph in which each resource needs the one before.
fn chain(count: usize) -> Graph {
    let needs: Vec<_> = (1..count).map(|id| (id, id - 1)).collect();
    graph(count, &needs, &[])
}

/// The acts of a visit: it may ask, and then it ends in this way if it may act.
#[derive(Clone, Copy)]
enum Does {
    End(Ending),
    Act(Ending),
}

/// Lets all visits end until there are none. Returns the visited resources.
fn settle(machine: &mut Machine, mut visit: impl FnMut(usize) -> Does) -> Vec<usize> {
    let (mut visited, mut asked) = (Vec::new(), BTreeMap::new());
    while let Some(command) = machine.next() {
        match command {
            Command::Visit { ticket, .. } => {
                visited.push(ticket.id.0);
                assert!(visited.len() < 100_000, "I5: it never comes to rest");
                match visit(ticket.id.0) {
                    Does::End(ending) => {
                        machine.report(ticket, ending);
                    }
                    Does::Act(ending) => {
                        asked.insert(ticket, ending);
                        machine.ask(ticket, None);
                    }
                }
            }
            Command::Answer { tickets, answer } => {
                let act = |ticket: &Ticket| (answer == Answer::Act).then(|| asked[ticket]);
                for ticket in &tickets {
                    machine.report(*ticket, act(ticket).unwrap_or(ending(Outcome::NotAllowed)));
                }
            }
            Command::Write(_) | Command::Skip { .. } | Command::Wake { .. } => {}
        }
    }
    visited
}

/// Makes a machine that keeps a site, with everything good and at rest.
fn kept(graph: Graph) -> Machine {
    let ids = graph.ids().to_vec();
    let mut machine = Machine::new(Policy::keep(), graph, []);
    ids.into_iter().for_each(|id| machine.attach(id));
    settle(&mut machine, |_| Does::End(GOOD));
    machine
}

/// Takes all commands but those for visits that wait for something of their own.
fn commands(machine: &mut Machine) -> Vec<Command> {
    let taken = std::iter::from_fn(|| machine.next());
    taken.filter(|command| !matches!(command, Command::Wake { .. })).collect()
}

/// Requests visits because of a change, and returns those that begin.
fn begin<const COUNT: usize>(machine: &mut Machine, ids: &[usize]) -> [Ticket; COUNT] {
    ids.iter().for_each(|id| machine.request(Id(*id), Reason::Change));
    let visit = |command| match command {
        Command::Visit { ticket, .. } => Some(ticket),
        _ => None,
    };
    let tickets: Vec<Ticket> = commands(machine).into_iter().filter_map(visit).collect();
    tickets.try_into().expect("as many visits begin as are expected")
}

fn answer(tickets: &[Ticket], answer: Answer) -> Command {
    Command::Answer { tickets: tickets.to_vec(), answer }
}

#[test]
fn a_chain_comes_up_with_one_visit_of_each() {
    let mut machine = Machine::new(Policy::keep(), chain(10_000), []);

    (0..10_000).rev().for_each(|id| machine.attach(Id(id)));
    let visited = settle(&mut machine, |_| Does::Act(CHANGED));

    assert!(visited.into_iter().eq(0..10_000), "I2: not once each, in order");
    assert!(machine.is_at_rest(), "I5: at rest");
}

#[test]
fn a_deep_tree_that_was_moved_away_is_back_in_one_go_and_nothing_has_failed() {
    let mut machine = kept(chain(6));
    let mut is_there = [false; 6];

    // Only the last resource has noticed. No resource can be looked at while the one before is
    // away.
    machine.request(Id(5), Reason::Change);
    let visited = settle(&mut machine, |id| {
        if id > 0 && !is_there[id - 1] {
            return Does::End(ending(Outcome::CannotLook));
        }
        if std::mem::replace(&mut is_there[id], true) {
            Does::End(GOOD)
        } else {
            Does::Act(CHANGED)
        }
    });

    assert_eq!(is_there, [true; 6], "I5: not all are back");
    let is_good = |id| machine.standing(Id(id)) == Some(Standing::Good);
    assert!((0..6).all(is_good) && machine.is_at_rest(), "I5: not at rest");
    assert!(visited.len() <= 18, "I5: {visited:?}");
}

#[test]
fn a_held_back_resource_names_the_failed_one_and_goes_on_when_that_is_repaired() {
    let mut machine = kept(chain(4));
    machine.request(Id(0), Reason::Change);
    settle(&mut machine, |_| Does::End(FAILED));
    machine.request(Id(3), Reason::Change);
    settle(&mut machine, |_| Does::Act(CHANGED));
    let before = [2, 3].map(|id| machine.standing(Id(id)));

    machine.request(Id(0), Reason::Routine);
    let visited = settle(&mut machine, |id| Does::End(if id == 0 { GOOD } else { CHANGED }));

    let expected = [Some(Standing::Good), Some(Standing::HeldBack(Id(0)))];
    assert_eq!(before, expected, "I11: who is held back");
    assert_eq!(visited, [0, 3], "I5: who goes on");
}

#[test]
fn a_failed_resource_that_is_tried_again_wakes_nobody() {
    let mut machine = kept(chain(3));
    machine.request(Id(0), Reason::Change);
    settle(&mut machine, |_| Does::End(FAILED));
    machine.request(Id(2), Reason::Change);
    settle(&mut machine, |_| Does::Act(CHANGED));

    machine.request(Id(0), Reason::Change);
    let visited = settle(&mut machine, |_| Does::End(FAILED));

    assert_eq!(visited, [0], "I5: who is visited");
    assert_eq!(machine.standing(Id(2)), Some(Standing::HeldBack(Id(0))), "I11: still held back");
}

#[test]
fn a_failed_resource_that_still_cannot_be_looked_at_wakes_nobody() {
    let mut machine = kept(chain(3));
    let cannot_look =
        |id: usize| Does::End(if id == 1 { ending(Outcome::CannotLook) } else { GOOD });
    machine.request(Id(1), Reason::Change);
    let first = settle(&mut machine, cannot_look);

    machine.request(Id(1), Reason::Change);
    let then = settle(&mut machine, cannot_look);

    assert_eq!((first, then), (vec![1, 0, 1], vec![1]), "I5: who is visited");
    assert_eq!(machine.standing(Id(1)), Some(Standing::Failed), "I5: it has failed");
}

#[test]
fn a_repair_wakes_failed_resources_at_any_distance() {
    let mut machine = kept(chain(4));
    machine.request(Id(3), Reason::Change);
    settle(&mut machine, |_| Does::End(FAILED));

    machine.request(Id(0), Reason::Change);
    let visited = settle(&mut machine, |_| Does::Act(Ending { has_acted: true, ..GOOD }));

    assert_eq!(visited, [0, 3], "I5: who is visited");
}

#[test]
fn a_visit_that_has_seen_an_old_state_may_not_act() {
    let mut machine = kept(chain(2));
    let [late] = begin(&mut machine, &[1]);
    let [ticket] = begin(&mut machine, &[0]);
    machine.report(ticket, CHANGED);

    machine.ask(late, None);

    assert_eq!(commands(&mut machine), [answer(&[late], Answer::Again)], "I3: old states");
}

#[test]
fn a_new_state_is_a_reason_to_visit_those_that_need_it() {
    let mut machine = kept(chain(3));

    machine.request(Id(0), Reason::Routine);
    let visited = settle(&mut machine, |id| Does::End(if id == 0 { CHANGED } else { GOOD }));

    assert_eq!(visited, [0, 1], "I5: who is visited");
}

#[test]
fn a_redeclared_resource_is_visited() {
    let mut machine = kept(chain(3));

    machine.swap(chain(3), &[], &[Id(1)]);

    assert_eq!(settle(&mut machine, |_| Does::End(GOOD)), [1], "I5: who is visited");
}

#[test]
fn a_routine_visit_makes_nobody_wait_until_it_asks() {
    let mut machine = kept(chain(2));
    machine.request(Id(0), Reason::Routine);
    let [first] = begin(&mut machine, &[]);
    let [second] = begin(&mut machine, &[1]);

    machine.ask(first, None);
    machine.ask(second, None);

    let acts = |command: &Command| *command == answer(&[second], Answer::Again);
    assert!(commands(&mut machine).iter().any(acts), "I3: it acts beside what it needs");
}

#[test]
fn a_visit_that_was_given_up_has_no_effect_any_more() {
    let mut machine = kept(chain(2));
    let [lost] = begin(&mut machine, &[0]);
    machine.ask(lost, None);
    machine.swap(chain(1), &[Id(0)], &[]);
    let answers = commands(&mut machine);
    machine.attach(Id(0));
    let [newer] = begin(&mut machine, &[]);

    machine.report(lost, FAILED);
    machine.ask(lost, None);
    let after = commands(&mut machine);
    machine.report(newer, GOOD);

    assert_eq!((answers, after), (Vec::new(), Vec::new()), "I4: it has an effect");
    assert_eq!(machine.standing(Id(0)), Some(Standing::Good), "I4: it has an effect");
    assert_eq!(machine.standing(Id(1)), None, "there is no such resource any more");
}

#[test]
fn a_good_resource_without_a_worker_holds_back_nobody() {
    let mut machine = kept(chain(2));

    machine.detach(Id(0));
    machine.request(Id(1), Reason::Change);
    settle(&mut machine, |_| Does::Act(CHANGED));
    let good = [0, 1].map(|id| machine.standing(Id(id)));
    machine.request(Id(0), Reason::Change);
    machine.request(Id(1), Reason::Change);
    settle(&mut machine, |_| Does::Act(CHANGED));
    let called = machine.standing(Id(1));

    assert_eq!(good, [Some(Standing::Absent), Some(Standing::Good)], "I11: at rest");
    assert_eq!(called, Some(Standing::HeldBack(Id(0))), "I3: nobody can look at it");
}

#[test]
fn a_lost_worker_holds_back_nobody_if_its_visit_was_a_routine_look() {
    let lose = |has_asked: bool| {
        let mut machine = kept(chain(2));
        machine.request(Id(0), Reason::Routine);
        let [lost] = begin(&mut machine, &[]);
        if has_asked {
            machine.ask(lost, None);
            commands(&mut machine);
        }
        machine.detach(Id(0));
        machine.request(Id(1), Reason::Change);
        settle(&mut machine, |_| Does::Act(CHANGED));
        machine.standing(Id(1))
    };

    let [looked, acted] = [false, true].map(lose);

    assert_eq!(looked, Some(Standing::Good), "I11: it has not acted");
    assert_eq!(acted, Some(Standing::HeldBack(Id(0))), "I11: it may have acted");
}

#[test]
fn what_needs_a_resource_whose_worker_was_lost_waits_for_the_visit_of_the_next_one() {
    let mut machine = kept(chain(2));
    let [lost] = begin(&mut machine, &[0]);
    machine.ask(lost, None);
    commands(&mut machine);
    machine.request(Id(1), Reason::Change);

    machine.detach(Id(0));
    machine.attach(Id(0));
    let visited = settle(&mut machine, |_| Does::Act(CHANGED));

    assert_eq!(visited, [0, 1], "I2: who is visited");
}

#[test]
fn a_request_during_a_pass_is_no_reason_for_a_second_visit() {
    let mut machine = Machine::new(Policy::pass(1), graph(1, &[], &[]), []);
    let [ticket] = begin(&mut machine, &[]);

    machine.request(Id(0), Reason::Change);
    machine.report(ticket, GOOD);
    machine.request(Id(0), Reason::Change);

    assert_eq!(commands(&mut machine), [], "I8: a second visit");
    assert!(machine.is_at_rest(), "I8: it is over");
}

#[test]
fn a_resource_that_holds_up_the_end_of_the_run_is_at_work_until_its_next_visit() {
    let mut machine = kept(chain(2));
    machine.request(Id(0), Reason::Routine);
    settle(&mut machine, |_| Does::End(Ending { is_holding: true, ..GOOD }));
    let before = (machine.standing(Id(0)), machine.is_at_rest());
    machine.request(Id(1), Reason::Change);
    let visited = settle(&mut machine, |_| Does::Act(CHANGED));

    machine.request(Id(0), Reason::Routine);
    settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(before, (Some(Standing::AtWork), false), "I5: it is at rest");
    assert_eq!(visited, [1], "I5: nobody waits for it");
    assert_eq!(machine.standing(Id(0)), Some(Standing::Good), "I11: it is good");
    assert!(machine.is_at_rest(), "I5: it is not at rest");
}

#[test]
fn resources_without_an_order_between_them_are_visited_as_they_were_added() {
    let mut builder = GraphBuilder::default();
    for id in [2, 0, 3, 1] {
        builder.resource(Id(id), None);
    }
    builder.needs(Id(2), Id(3));
    let graph = builder.build().expect("a graph without a cycle");
    let mut machine = Machine::new(Policy::pass(1), graph, []);

    let visited = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(visited, [0, 3, 2, 1], "I2: in another order");
}

#[test]
fn resources_that_are_before_each_other_have_no_order() {
    let mut builder = GraphBuilder::default();
    for id in 0..4 {
        builder.resource(Id(id), None);
    }
    builder.needs(Id(1), Id(2)).notifies(Id(1), Id(2)).needs(Id(3), Id(1)).needs(Id(0), Id(9));

    let error = builder.build().err();

    assert_eq!(error, Some(CycleError(vec![Id(1), Id(2), Id(3)])));
}
