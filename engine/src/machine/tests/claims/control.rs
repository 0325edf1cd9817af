//! Install, uninstall, replace and park (P7, S14), and cycles (P8).

use super::{failed, installed, live_on, on, running, stopped};
use crate::machine::Scope;
use crate::machine::tests::world::{Arrow, Checked, Event, World, find_cycle, policy};

#[test]
fn s14_a_replaced_worker_keeps_its_hold_on_its_old_input() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Install(1, [].into()), Event::Bounce(0)])?;
    assert!(!world.is_told(0));
    world.apply(&stopped(1))?;

    assert!(world.is_told(0));
    Ok(())
}

#[test]
fn s14_dependents_of_a_replaced_worker_bounce() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply(&Event::Install(0, [].into()))?;
    world.rest()?;

    assert_eq!((world.starts(0), world.starts(1)), (2, 2));
    Ok(())
}

#[test]
fn s14_a_name_whose_worker_still_stops_can_be_installed_again() -> Checked {
    let mut world = running(&[&[]])?;

    world.apply_all(&[Event::Uninstall(0), Event::Install(0, [].into())])?;
    assert_eq!(world.starts(0), 1);
    world.rest()?;

    assert_eq!(world.starts(0), 2);
    Ok(())
}

#[test]
fn s14_a_stuck_worker_that_is_replaced_is_followed_when_it_ends() -> Checked {
    let mut world = running(&[&[]])?;
    world.apply_all(&[Event::Bounce(0), Event::Fire(0), Event::Fire(0)])?;

    world.apply(&Event::Install(0, [].into()))?;
    assert_eq!(world.starts(0), 1);
    world.apply(&stopped(0))?;
    world.rest()?;

    assert_eq!(world.starts(0), 2);
    Ok(())
}

#[test]
fn dependents_come_back_when_a_name_is_installed_again() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;
    world.apply(&Event::Uninstall(0))?;
    world.rest()?;
    assert!(!world.is_live(1));

    world.apply(&Event::Install(0, [].into()))?;
    world.rest()?;

    assert!(world.is_running(1));
    Ok(())
}

#[test]
fn s9_a_park_by_hand_ends_only_by_unpark() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;
    world.apply_all(&[Event::Park(1), stopped(1), Event::Bounce(1), Event::Changed(0, 0)])?;
    world.apply(&Event::Bounce(0))?;
    world.rest()?;
    assert!(!world.is_live(1));

    world.apply(&Event::Unpark(1))?;

    assert!(world.is_live(1));
    Ok(())
}

#[test]
fn p10_a_name_is_forgotten_with_its_last_idle_user() -> Checked {
    let mut world = World::new(2, policy(), 0);
    world.apply(&Event::Install(1, [on(0)].into()))?;

    world.apply(&Event::Uninstall(1))?;

    assert!(world.seats.iter().all(|seat| seat.id.is_none()));
    Ok(())
}

#[test]
fn p10_a_name_is_kept_while_a_replaced_worker_follows_it() -> Checked {
    let mut world = running(&[&[], &[live_on(0)], &[on(1)]])?;

    world.apply_all(&[Event::Install(1, [].into()), Event::Uninstall(0), stopped(0)])?;
    assert!(world.seats[0].id.is_some());
    world.apply_all(&[stopped(2), stopped(1)])?;

    assert!(world.seats[0].id.is_none());
    Ok(())
}

#[test]
fn p1_late_news_of_a_forgotten_worker_do_not_reach_its_successor() -> Checked {
    let mut world = running(&[&[]])?;
    let old = world.id(0);
    world.apply_all(&[Event::Uninstall(0), stopped(0)])?;
    assert!(world.seats[0].id.is_none());

    world.apply(&Event::Install(0, [].into()))?;
    assert_eq!(world.id(0), old);
    world.apply(&Event::EndedOld(0))?;

    assert!(world.is_live(0));
    Ok(())
}

#[test]
fn a_timer_that_was_taken_back_does_nothing() -> Checked {
    let mut world = running(&[&[]])?;
    world.apply(&failed(0))?;
    let token = world.seats[0].token.expect("it backs off");
    world.apply(&Event::Bounce(0))?;
    let generation = world.seats[0].generation;

    world.apply(&Event::FireOld(0, token))?;

    assert_eq!(world.seats[0].generation, generation);
    assert!(world.worker(0).is_some_and(|worker| !worker.is_aborted));
    Ok(())
}

#[test]
fn p8_every_kind_of_input_counts_for_a_cycle() -> Checked {
    let mut world = installed(&[&[live_on(1)], &[live_on(2)], &[]])?;

    let closing = world.edges(&[live_on(0)]);
    let id = world.id(2);
    let cycle = find_cycle(&world.machine, &[(id, closing)]);

    assert_eq!(cycle.map(|cycle| cycle.len()), Some(3), "P8: all three are on it");
    Ok(())
}

#[test]
fn p8_a_worker_that_uses_itself_is_a_cycle_of_one() -> Checked {
    let mut world = installed(&[&[]])?;

    let closing = world.edges(&[on(0)]);
    let id = world.id(0);
    let cycle = find_cycle(&world.machine, &[(id, closing)]);

    assert_eq!(cycle, Some(vec![id]), "P8: it is the whole cycle");
    Ok(())
}

#[test]
fn p8_a_group_that_turns_an_edge_round_is_no_cycle() -> Checked {
    let mut world = installed(&[&[], &[on(0)]])?;

    let (first, second) = (world.id(0), world.id(1));
    let turned = world.edges(&[on(1)]);

    let cycle = find_cycle(&world.machine, &[(first, turned.clone()), (second, vec![])]);
    assert_eq!(cycle, None, "P8: the group is not judged by its final graph");
    assert!(find_cycle(&world.machine, &[(first, turned)]).is_some());
    Ok(())
}

#[test]
fn s16_what_a_caller_waits_for_comes_before_all_else() -> Checked {
    let mut world = World::new(200, policy(), 0);
    world.apply(&Event::BeginGroup)?;
    for place in 0..200 {
        world.apply(&Event::Install(place, [].into()))?;
    }
    let id = world.id(100);
    world.machine.hurry(id);

    world.apply_to(Scope::Calls, &Event::EndGroup)?;

    assert_eq!(world.starts(100), 1, "S16: its caller waits for the others");
    assert_eq!((0..200).filter(|place| world.is_live(*place)).count(), 1);
    world.settle()
}

/// Returns a world in which a bounce of the first name reaches many others, and nothing is stopped
/// yet.
fn in_a_wave(inputs: &[&[Arrow]]) -> Result<World, String> {
    let user = [on(0)];
    let mut world = running(&[inputs, &[&user[..]; 200]].concat())?;
    world.apply_to(Scope::Marks, &Event::Bounce(0))?;
    Ok(world)
}

/// Asks for something, and does what its caller waits for.
fn ask(world: &mut World, place: usize, event: &Event) -> Checked {
    let id = world.id(place);
    world.machine.hurry(id);
    world.apply_to(Scope::Calls, event)
}

#[test]
fn s16_a_caller_waits_for_no_other_wave_that_has_reached_the_users_too() -> Checked {
    let mut world = in_a_wave(&[&[], &[], &[on(0), on(1)], &[on(2)]])?;

    ask(&mut world, 1, &Event::Park(1))?;
    world.apply_to(Scope::Calls, &stopped(3))?;

    assert_eq!(world.stops(), [3, 2], "S16: its caller waits for a wave");
    world.settle()
}

#[test]
fn s16_a_caller_waits_for_no_wave_that_closes_its_worker_already() -> Checked {
    let mut world = in_a_wave(&[&[], &[on(0)], &[on(1)]])?;

    ask(&mut world, 1, &Event::Park(1))?;
    world.apply_to(Scope::Calls, &stopped(2))?;

    assert_eq!(world.stops(), [2, 1], "S16: its caller waits for a wave");
    world.settle()
}

#[test]
fn s16_a_caller_waits_for_no_wave_though_a_replaced_worker_holds_its_own() -> Checked {
    let mut world = in_a_wave(&[&[], &[], &[on(1)], &[on(2)]])?;
    world.apply_to(Scope::Marks, &Event::Install(2, [].into()))?;

    ask(&mut world, 1, &Event::Bounce(1))?;
    world.apply_to(Scope::Calls, &stopped(3))?;
    world.apply_to(Scope::Calls, &stopped(2))?;

    assert_eq!(world.stops(), [3, 2, 1], "S16: its caller waits for a wave");
    world.settle()
}

#[test]
fn s16_a_caller_waits_for_no_wave_though_a_replaced_worker_holds_a_user() -> Checked {
    let mut world = in_a_wave(&[&[], &[], &[on(1)], &[on(2)]])?;
    world.apply_to(Scope::Marks, &Event::Install(3, [].into()))?;

    ask(&mut world, 1, &Event::Bounce(1))?;
    world.apply_to(Scope::Calls, &stopped(3))?;

    assert_eq!(world.stops(), [3, 2], "S16: its caller waits for a wave");
    world.settle()
}
