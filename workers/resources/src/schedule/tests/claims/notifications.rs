//! Notifications, and their records (I6, I7).

use super::{Does, FAILED, GOOD, answer, begin, chain, commands, ending, graph, kept, settle};
use crate::schedule::{
    Answer, Command, Ending, GraphBuilder, Id, Machine, Outcome, Reason, Record, Standing, Ticket,
};

/// Makes a machine in which 1 has a visit, to which a notification of 0 was delivered.
pub(super) fn notified() -> (Machine, Ticket) {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    commands(&mut machine);
    machine.report(source, Ending { has_acted: true, ..GOOD });
    let [target] = begin(&mut machine, &[]);
    (machine, target)
}

/// Loses the worker of 0 during its action. Requires that 0 notifies 1 when it is good again.
fn is_delivered_later(lose: impl FnOnce(&mut Machine)) {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    let [lost] = begin(&mut machine, &[0]);
    machine.ask(lost, None);
    commands(&mut machine);

    lose(&mut machine);
    let before = commands(&mut machine);
    machine.attach(Id(0));
    let visited = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(before, [], "I7: it waits for its source");
    assert_eq!(visited, [0, 1], "I7: it is delivered");
}

#[test]
fn a_notification_of_a_failed_action_is_delivered_when_its_source_is_good() {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    machine.request(Id(0), Reason::Change);
    let visited = settle(&mut machine, |_| Does::Act(Ending { has_acted: true, ..FAILED }));
    let pending: Vec<_> = machine.pending().collect();

    machine.request(Id(0), Reason::Routine);
    let then = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!((visited, pending), (vec![0], vec![(Id(1), Id(0))]), "I7: it is not lost");
    assert_eq!(then, [0, 1], "I7: it is delivered");
    assert_eq!(machine.pending().next(), None, "I7: it is acknowledged");
}

#[test]
fn a_notification_of_a_lost_worker_is_delivered_when_its_source_is_good_again() {
    is_delivered_later(|machine| machine.detach(Id(0)));
}

#[test]
fn a_notification_waits_while_its_source_is_held_back() {
    let mut machine = kept(graph(3, &[(1, 0)], &[(1, 2)]));
    let [lost] = begin(&mut machine, &[1]);
    machine.ask(lost, None);
    commands(&mut machine);
    machine.detach(Id(1));
    machine.request(Id(0), Reason::Change);
    settle(&mut machine, |_| Does::End(FAILED));

    machine.attach(Id(1));
    machine.request(Id(2), Reason::Routine);
    settle(&mut machine, |_| Does::Act(GOOD));
    let before = (machine.standing(Id(1)), machine.pending().count());
    machine.request(Id(0), Reason::Routine);
    let visited = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(before, (Some(Standing::HeldBack(Id(0))), 1), "I7: it waits for its source");
    assert_eq!(visited, [0, 1, 2], "I7: it is delivered");
    assert_eq!(machine.pending().next(), None, "I7: it is acknowledged");
}

#[test]
fn a_notification_of_a_replaced_resource_is_delivered_when_the_new_one_is_good() {
    is_delivered_later(|machine| machine.swap(graph(2, &[], &[(0, 1)]), &[Id(0)], &[]));
}

#[test]
fn a_notification_of_a_source_that_is_gone_waits_for_nobody() {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    machine.request(Id(0), Reason::Change);
    settle(&mut machine, |_| Does::Act(Ending { has_acted: true, ..FAILED }));
    let mut site = GraphBuilder::default();
    site.resource(Id(1), None);

    machine.swap(site.build().expect("one resource has no cycle"), &[], &[]);
    let visited = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(visited, [1], "I7: it is delivered");
    assert_eq!(machine.pending().next(), None, "I7: it is acknowledged");
}

#[test]
fn a_notification_of_a_source_that_leaves_during_its_action_waits_for_nobody() {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    commands(&mut machine);
    let mut site = GraphBuilder::default();
    site.resource(Id(1), None);

    machine.swap(site.build().expect("one resource has no cycle"), &[], &[]);
    let visited = settle(&mut machine, |_| Does::End(GOOD));
    machine.report(source, Ending { has_acted: true, ..GOOD });

    assert_eq!(visited, [1], "I7: it is delivered, as nothing is wrong with its source");
    assert_eq!(machine.pending().next(), None, "I7: it is acknowledged");
    assert_eq!(commands(&mut machine), [], "I4: its source has left");
}

#[test]
fn a_notification_of_a_rule_waits_for_a_site_that_has_its_target() {
    let mut machine = kept(chain(1));

    machine.notify(Id(1), Id(100));
    let pending: Vec<_> = machine.pending().collect();
    machine.swap(chain(2), &[], &[]);
    machine.attach(Id(1));
    let visited = settle(&mut machine, |_| Does::End(GOOD));

    assert_eq!(pending, [(Id(1), Id(100))], "I6: the store is not as the machine");
    assert_eq!(visited, [1], "I7: it is delivered");
    assert_eq!(machine.pending().next(), None, "I7: it is acknowledged");
}

#[test]
fn a_notification_of_a_rule_is_on_record_in_its_step_although_an_earlier_one_is_pending() {
    let mut machine = kept(chain(1));
    let (target, source) = (Id(0), Id(100));
    machine.notify(target, source);
    let [visit] = begin(&mut machine, &[]);

    machine.notify(target, source);
    machine.report(visit, GOOD);
    let after = commands(&mut machine);

    let is_record = |command: &&Command| matches!(command, Command::Write(_));
    let records: Vec<_> = after.iter().filter(is_record).collect();
    let record = Command::Write(Record::Pending { target, source });
    assert_eq!(records, [&record], "I6: it is on record");
    assert_eq!(machine.pending().count(), 1, "I7: it was sent later");
}

#[test]
fn a_notification_that_is_forgotten_is_not_sent_by_a_visit_under_way() {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    commands(&mut machine);

    machine.swap(chain(1), &[], &[]);
    machine.forget(Id(1), Id(0));
    machine.report(source, Ending { has_acted: true, ..GOOD });
    machine.swap(chain(2), &[], &[]);
    machine.attach(Id(1));
    let [target] = begin(&mut machine, &[]);

    assert_eq!(machine.pending().next(), None, "I7: it is forgotten");
    assert_eq!(target.id, Id(1), "I5: only the new one is visited");
}

#[test]
fn a_visit_does_not_acknowledge_what_was_sent_after_it_began() {
    let (mut machine, target) = notified();
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    commands(&mut machine);
    machine.report(source, Ending { has_acted: true, ..GOOD });

    machine.report(target, GOOD);

    assert_eq!(machine.pending().count(), 1, "I7: it was sent later");
    assert_eq!(settle(&mut machine, |_| Does::End(GOOD)), [1], "I7: it is delivered");
    assert_eq!(machine.pending().count(), 0, "I7: it is acknowledged");
}

#[test]
fn a_visit_acknowledges_what_it_has_done_before_it_ends_and_nothing_that_was_sent_later() {
    let (mut machine, target) = notified();
    machine.acknowledge_delivered(Id(1));
    let before = machine.pending().count();
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    commands(&mut machine);
    machine.report(source, Ending { has_acted: true, ..GOOD });

    machine.acknowledge_delivered(Id(1));
    machine.report(target, GOOD);

    assert_eq!(before, 0, "I7: it is acknowledged");
    assert_eq!(machine.pending().count(), 1, "I7: it was sent later");
}

#[test]
fn a_notification_stays_on_record_while_its_source_may_act_again() {
    let (mut machine, target) = notified();
    let [source] = begin(&mut machine, &[0]);
    machine.ask(source, None);
    let answers = commands(&mut machine);

    machine.report(target, GOOD);
    let after = commands(&mut machine);
    machine.report(source, ending(Outcome::Stopped));

    let record = Record::Acknowledged { target: Id(1), source: Id(0) };
    assert_eq!(answers, [answer(&[source], Answer::Act)], "I6: it was on record");
    assert_eq!(after, [], "I6: it is struck off too early");
    assert_eq!(commands(&mut machine), [Command::Write(record)], "I6: it is struck off");
}

#[test]
fn a_resource_that_is_left_alone_acknowledges_nothing() {
    let (mut machine, target) = notified();

    machine.report(target, ending(Outcome::LeftAlone));

    assert_eq!(machine.pending().count(), 1, "I7: it is acknowledged");
}

#[test]
fn a_notification_is_on_record_before_the_action_and_struck_off_if_nothing_was_begun() {
    let mut machine = kept(graph(2, &[], &[(0, 1)]));
    let [ticket] = begin(&mut machine, &[0]);
    let (target, source) = (Id(1), Id(0));

    machine.ask(ticket, None);
    let before = commands(&mut machine);
    machine.report(ticket, ending(Outcome::Stopped));
    let after = commands(&mut machine);

    let record = Command::Write(Record::Pending { target, source });
    assert_eq!(before, [record, answer(&[ticket], Answer::Act)], "I6: on record");
    let record = Command::Write(Record::Acknowledged { target, source });
    assert_eq!(after, [record], "I6: struck off");
}
