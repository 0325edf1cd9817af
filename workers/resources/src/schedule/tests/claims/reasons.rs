//! Reasons of visits, and looks that do not count (I5).

use super::notifications::notified;
use super::{CHANGED, Does, GOOD, begin, chain, commands, ending, graph, kept, settle};
use crate::schedule::{
    Because, Command, Ending, Id, Machine, Outcome, Policy, Reason, Reported, Standing, Ticket,
};

const KEPT_AS_BEFORE: Ending = ending(Outcome::KeptAsBefore);

#[test]
fn what_is_kept_as_before_holds_back_nobody_and_acknowledges_nothing() {
    let (mut machine, target) = notified();
    machine.report(target, KEPT_AS_BEFORE);
    commands(&mut machine);

    let is_pending = machine.pending().eq([(Id(1), Id(0))]);

    assert_eq!(machine.standing(Id(1)), Some(Standing::Good), "I5: it is as declared before");
    assert!(is_pending, "I7: it has answered nothing");
}

#[test]
fn what_is_kept_as_before_is_excused_once_as_a_look_that_fails() {
    let mut machine = kept(chain(2));
    machine.request(Id(1), Reason::Change);

    let mut reported = Vec::new();
    let visited = settle_reported(&mut machine, &mut reported, |id| match id {
        0 => GOOD,
        _ => KEPT_AS_BEFORE,
    });

    assert_eq!(visited, [1, 0, 1], "I5: what it needs is visited first");
    assert_eq!(reported[0], Reported::Excused, "I5: excused");
    assert_eq!(reported[2], Reported::Counted, "I5: excused once");
}

#[test]
fn what_is_still_kept_as_before_wakes_nobody_when_it_is_tried_again() {
    let mut machine = kept(chain(2));
    let kept_as_before = |id: usize| Does::End(if id == 0 { GOOD } else { KEPT_AS_BEFORE });
    machine.request(Id(1), Reason::Change);
    let first = settle(&mut machine, kept_as_before);

    machine.request(Id(1), Reason::Routine);
    let then = settle(&mut machine, kept_as_before);

    assert_eq!((first, then), (vec![1, 0, 1], vec![1]), "I5: who is visited");
}

#[test]
fn a_visit_says_which_resource_is_its_reason() {
    let mut machine = kept(chain(3));
    let because = |machine: &mut Machine| {
        let reasons = commands(machine).into_iter().filter_map(|command| match command {
            Command::Visit { because, ticket, .. } => Some((ticket, because)),
            _ => None,
        });
        reasons.collect::<Vec<_>>()
    };

    machine.request(Id(0), Reason::Change);
    let [(first, by_hand)] = because(&mut machine)[..] else { panic!("I5: one visit") };
    machine.report(first, CHANGED);
    let [(second, new_state)] = because(&mut machine)[..] else { panic!("I5: one visit") };
    machine.report(second, ending(Outcome::CannotLook));
    let [(_, look_failed)] = because(&mut machine)[..] else { panic!("I5: one visit") };

    let expected = [None, Some(Because::NewState(Id(0))), Some(Because::LookFailed(Id(1)))];
    assert_eq!([by_hand, new_state, look_failed], expected, "I5: the reasons");
}

#[test]
fn a_resource_that_has_left_is_no_reason() {
    let mut machine = kept(graph(3, &[(1, 0), (1, 2)], &[]));
    let [first, leaving] = begin(&mut machine, &[0, 2]);
    machine.report(leaving, CHANGED);

    machine.swap(graph(2, &[(1, 0)], &[]), &[], &[]);
    machine.report(first, GOOD);

    let [Command::Visit { ticket, because, .. }] = &commands(&mut machine)[..] else {
        panic!("I5: one visit")
    };
    assert_eq!((ticket.id, *because), (Id(1), None), "I5: its number may mean another one");
}

#[test]
fn what_waits_names_the_first_that_is_unsettled() {
    let mut machine = kept(chain(3));
    let [_ticket] = begin(&mut machine, &[0]);
    machine.request(Id(2), Reason::Change);
    let none: [Ticket; 0] = begin(&mut machine, &[]);

    assert_eq!(none, [], "I2: nothing else begins");
    assert_eq!(machine.waits_for(Id(2)), Some(Id(0)), "I2: what it waits for");
    assert_eq!(machine.waits_for(Id(0)), None, "I2: it waits for nothing");
}

#[test]
fn what_is_to_begin_and_has_no_slot_says_so() {
    let policy = Policy { slots: 1, ..Policy::keep() };
    let mut machine = Machine::new(policy, graph(2, &[], &[]), []);
    machine.attach(Id(0));
    machine.attach(Id(1));

    let [_ticket] = begin(&mut machine, &[]);

    let mut lacking = [machine.lacks_slot(Id(0)), machine.lacks_slot(Id(1))];
    lacking.sort_unstable();
    assert_eq!(lacking, [None, Some(1)], "I5: one visit is under way, and one waits for a slot");
}

/// Lets all visits end in this way until there are none. Returns the visited resources.
fn settle_reported(
    machine: &mut Machine,
    reported: &mut Vec<Reported>,
    ending: impl Fn(usize) -> Ending,
) -> Vec<usize> {
    let mut visited = Vec::new();
    while let Some(command) = machine.next() {
        if let Command::Visit { ticket, .. } = command {
            visited.push(ticket.id.0);
            reported.push(machine.report(ticket, ending(ticket.id.0)));
        }
    }
    visited
}
