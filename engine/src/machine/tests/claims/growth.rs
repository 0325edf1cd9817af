//! No growth, and no work beyond what a change touches (P10, P8).

use super::{failed, on, running};
use crate::machine::ends::{End, Left};
use crate::machine::tests::world::{Checked, Event, World};
use crate::machine::{Command, EndKind, Machine, NodeId, Scope, Step};

/// How much the machine's queues have room for.
fn room(world: &World) -> usize {
    let machine = &world.machine;
    let queues =
        machine.commands.capacity() + machine.spread.capacity() + machine.pending.capacity();
    queues + machine.graph.bound()
}

#[test]
fn p10_a_crash_loop_leaves_nothing_behind() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;
    world.trace = None;
    let crash = |world: &mut World| -> Checked {
        world.apply_all(&[failed(0), Event::Fire(0)])?;
        world.rest()
    };
    crash(&mut world)?;
    let before = room(&world);

    for _ in 0..20_000 {
        crash(&mut world)?;
    }

    assert_eq!(room(&world), before, "P10");
    Ok(())
}

#[test]
fn p10_names_that_come_and_go_leave_nothing_behind() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;
    world.trace = None;
    let mut before = None;

    for _ in 0..5_000 {
        world.apply_all(&[Event::Uninstall(1), Event::Uninstall(0)])?;
        world.rest()?;
        assert!(world.seats.iter().all(|seat| seat.id.is_none()));
        world.apply_all(&[Event::Install(1, [on(0)].into()), Event::Install(0, [].into())])?;
        world.rest()?;
        assert_eq!(*before.get_or_insert(room(&world)), room(&world), "P10");
    }

    Ok(())
}

fn drain(machine: &mut Machine) -> (usize, Vec<Command>) {
    let (mut steps, mut commands) = (0, Vec::new());
    loop {
        steps += 1;
        match machine.step(Scope::All) {
            Step::Idle => return (steps, commands),
            Step::Worked => {}
            Step::Command(command) => commands.push(command),
        }
    }
}

#[test]
fn p10_a_restart_costs_the_same_among_ten_and_among_ten_thousand() {
    let steps = |size: usize| {
        let policy = std::sync::Arc::new(crate::vocabulary::policy::Policy::default());
        let mut machine = Machine::new(policy, 0);
        let ids: Vec<NodeId> = (0..size).map(|_| machine.add()).collect();
        for id in &ids {
            machine.install(*id, &[], None);
        }
        drain(&mut machine);
        for id in &ids {
            machine.started(*id, 1);
            drain(&mut machine);
        }
        let zero = std::time::Duration::ZERO;
        let end = End { kind: EndKind::Failed, ran: zero, at: zero, left: Left::Nothing };
        machine.ended(ids[0], 1, end);
        drain(&mut machine).0
    };

    assert_eq!(steps(10), steps(10_000));
}
