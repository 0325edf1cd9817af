//! Visits that share an action, and slots (I9, I10).

use super::{Does, FAILED, GOOD, answer, begin, commands, graph, kept, settle};
use crate::schedule::{Answer, Command, Id, Machine, Policy, Reason};

#[test]
fn visits_that_ask_in_one_step_are_one_group() {
    let mut machine = kept(graph(5, &[], &[]));
    let [first, second, other, alone, late] = begin(&mut machine, &[0, 1, 2, 3, 4]);

    machine.ask(first, Some(7));
    machine.ask(other, Some(8));
    machine.ask(alone, None);
    machine.ask(second, Some(7));
    let answers = commands(&mut machine);
    machine.ask(late, Some(7));

    let expected = [&[first, second][..], &[other], &[alone]].map(|it| answer(it, Answer::Act));
    assert_eq!(answers, expected, "I9: the groups of the step");
    assert_eq!(commands(&mut machine), [answer(&[late], Answer::Act)], "I9: it waits for nobody");
}

#[test]
fn a_group_leaves_out_visits_that_may_not_act() {
    let mut machine = kept(graph(4, &[(1, 0), (3, 2)], &[]));
    let [held_back, free] = begin(&mut machine, &[1, 3]);
    let [ticket] = begin(&mut machine, &[0]);
    machine.report(ticket, FAILED);

    machine.ask(held_back, Some(7));
    machine.ask(free, Some(7));

    let expected = [answer(&[free], Answer::Act), answer(&[held_back], Answer::HeldBack)];
    assert_eq!(commands(&mut machine), expected, "I9: who may act");
}

#[test]
fn another_site_splits_the_groups_of_the_step() {
    let mut machine = kept(graph(2, &[], &[]));
    machine.request(Id(0), Reason::Change);
    settle(&mut machine, |_| Does::End(FAILED));
    // A resource that has failed holds up nobody, so both may act.
    let [first, second] = begin(&mut machine, &[0, 1]);

    machine.ask(first, Some(7));
    machine.ask(second, Some(7));
    machine.swap(graph(2, &[], &[(0, 1)]), &[], &[]);
    let mut answers = commands(&mut machine);
    answers.retain(|command| matches!(command, Command::Answer { .. }));

    let expected = [first, second].map(|ticket| answer(&[ticket], Answer::Act));
    assert_eq!(answers, expected, "I9: a path joins them");
}

#[test]
fn in_one_pass_a_group_waits_for_its_kind_and_holds_no_slot() {
    let mut machine = Machine::new(Policy::pass(1), graph(3, &[], &[]), []);
    let [first] = begin(&mut machine, &[]);

    machine.ask(first, Some(7));
    let [second] = begin(&mut machine, &[]);
    machine.report(second, GOOD);
    let [third] = begin(&mut machine, &[]);
    machine.ask(third, Some(7));

    let expected = [answer(&[first, third], Answer::Act)];
    assert_eq!(commands(&mut machine), expected, "I9: they act together");
}

#[test]
fn a_visit_that_was_acted_for_goes_on_when_there_is_a_slot() {
    let mut machine = Machine::new(Policy::pass(1), graph(2, &[], &[]), []);
    let [first] = begin(&mut machine, &[]);
    machine.ask(first, Some(7));
    let [second] = begin(&mut machine, &[]);
    machine.ask(second, Some(7));
    commands(&mut machine);

    // The first has acted for both, and still works.
    machine.ask(second, None);
    let before = commands(&mut machine);
    machine.report(first, GOOD);

    assert_eq!(before, [], "I10: there is one slot");
    let expected = [answer(&[second], Answer::Act)];
    assert_eq!(commands(&mut machine), expected, "I10: the slot is free");
}
