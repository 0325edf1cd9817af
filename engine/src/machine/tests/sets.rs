//! Sets. A set is a name without a manifold; those who use it follow its members.

use std::sync::Arc;
use std::time::Duration;

use crate::machine::cycles::{CycleSearch, Found};
use crate::machine::ends::{End, Left};
use crate::machine::{Command, Edge, EndKind, Machine, Need, NodeId, Port, Scope, Step};
use crate::vocabulary::policy::Policy;

/// Takes all steps, lets each start succeed, and returns which nodes are told to stop.
fn steps(machine: &mut Machine) -> Vec<NodeId> {
    let mut stopped = Vec::new();
    loop {
        match machine.step(Scope::All) {
            Step::Command(Command::Start(id, generation)) => machine.started(id, generation),
            Step::Command(Command::Stop(id, _)) => stopped.push(id),
            Step::Command(_) | Step::Worked => {}
            Step::Idle => return stopped,
        }
    }
}

fn end(machine: &mut Machine, id: NodeId) {
    let (zero, left) = (Duration::ZERO, Left::Nothing);
    let end = End { kind: EndKind::Stopped, ran: zero, at: zero, left };
    machine.ended(id, machine.view(id).generation, end);
}

/// Returns a machine with a set, one that uses the set, and its members, the last of which came
/// when the user was running.
fn machine() -> (Machine, NodeId, NodeId, [NodeId; 2]) {
    let mut machine = Machine::new(Arc::new(Policy::default()), 0);
    let [set, user, first, last] = [(); 4].map(|()| machine.add());
    machine.join(set, first);
    machine.install(user, &[Edge { target: set, need: Need::Set, port: Port(0) }], None);
    machine.install(first, &[], None);
    steps(&mut machine);
    machine.join(set, last);
    machine.install(last, &[], None);
    steps(&mut machine);
    (machine, set, user, [first, last])
}

#[test]
fn a_kill_stops_the_users_of_a_set_before_its_members() {
    let (mut machine, _, user, mut members) = machine();

    machine.kill();

    assert_eq!(steps(&mut machine), [user], "P6: a member stops before the users of its set");
    end(&mut machine, user);
    let mut stopped = steps(&mut machine);
    stopped.sort_unstable();
    members.sort_unstable();
    assert_eq!(stopped, members, "P6: a member does not stop");
}

#[test]
fn members_come_and_go_without_a_bounce() {
    let (mut machine, set, user, [first, _]) = machine();

    machine.uninstall(first);

    assert_eq!(steps(&mut machine), [first], "S7: a member bounces a user of its set");
    end(&mut machine, first);
    steps(&mut machine);
    assert_eq!(machine.members(set).count(), 1, "P10: a set keeps a name that is gone");
    machine.uninstall(user);
    end(&mut machine, user);
    steps(&mut machine);
    assert_eq!(machine.members(set).count(), 0, "P10: a set is kept without users");
}

#[test]
fn a_cycle_through_a_set_is_found_from_both_sides() {
    let (mut machine, set, user, [first, last]) = machine();
    let edge = Edge { target: user, need: Need::Live, port: Port(0) };

    assert!(machine.may_reach(last, &[edge]), "P8: a cycle through a set is missed");
    let found = |machine: &Machine, node, edges: &[Edge]| {
        let mut search = CycleSearch::new(1);
        search.add(node, edges);
        loop {
            match search.step(machine) {
                Found::Nothing => {}
                found => return found,
            }
        }
    };
    let cycle = found(&machine, first, &[edge]);
    assert!(matches!(&cycle, Found::Cycle(path) if path.len() == 3), "P8: {cycle:?}");
    machine.join(set, user);
    let own = found(&machine, user, &[Edge { target: set, need: Need::Set, port: Port(0) }]);
    assert!(matches!(&own, Found::Cycle(path) if path.len() == 2), "P8: {own:?}");
}
