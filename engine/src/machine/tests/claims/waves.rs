//! One wave: who stops when, who waits for what, and for how long (P3, P4, S3, S4, S5, S9).

use super::{failed, installed, on, optionally_on, running, stopped};
use crate::machine::Command;
use crate::machine::tests::world::{Arrow, Checked, Event};

/// Returns a chain in which each worker requires the one before it.
fn chain(depth: usize) -> Vec<Vec<Arrow>> {
    (0..depth).map(|place| place.checked_sub(1).map(on).into_iter().collect()).collect()
}

fn slices(inputs: &[Vec<Arrow>]) -> Vec<&[Arrow]> {
    inputs.iter().map(Vec::as_slice).collect()
}

#[test]
fn p4_a_chain_of_fifty_waits_for_one_bounce_delay() -> Checked {
    let mut world = running(&slices(&chain(50)))?;

    world.apply(&Event::Bounce(0))?;
    world.rest()?;

    let delay = world.policy.bounce_delay;
    assert_eq!(world.waits().into_iter().filter(|wait| *wait == delay).count(), 1);
    assert!((0..50).all(|place| world.starts(place) == 2));
    Ok(())
}

#[test]
fn p3_a_bounced_chain_stops_from_its_end() -> Checked {
    let mut world = running(&slices(&chain(5)))?;

    world.apply(&Event::Bounce(1))?;
    world.rest()?;

    assert_eq!(world.stops(), [4, 3, 2, 1]);
    Ok(())
}

#[test]
fn p4_a_diamond_starts_its_foot_once() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[optionally_on(0)], &[on(1), optionally_on(2)]])?;

    world.apply(&Event::Bounce(0))?;
    world.rest()?;

    assert_eq!([0, 1, 2, 3].map(|place| world.starts(place)), [2; 4]);
    Ok(())
}

#[test]
fn s3_a_second_bounce_during_a_wave_causes_no_second_start() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Bounce(0), Event::Bounce(0), Event::Bounce(1), stopped(1)])?;
    world.rest()?;

    assert_eq!((world.starts(0), world.starts(1)), (2, 2));
    Ok(())
}

#[test]
fn s4_users_of_a_dead_worker_are_told_at_once_and_stop_from_the_end() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[on(1)]])?;

    world.apply(&failed(0))?;
    assert_eq!(world.traced(|command| matches!(command, Command::Lose(..))).len(), 1);
    world.rest()?;

    assert_eq!(world.stops(), [2, 1]);
    Ok(())
}

#[test]
fn s4_a_dead_worker_restarts_without_waiting_for_its_users() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[failed(0), Event::Fire(0), Event::Started(0)])?;

    assert!(world.is_running(0) && world.is_told(1));
    Ok(())
}

#[test]
fn s4_a_replaced_worker_is_told_when_an_old_input_of_its_dies() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[on(1)]])?;
    world.apply(&Event::Install(1, [].into()))?;

    world.apply(&failed(0))?;

    assert_eq!(world.traced(|command| matches!(command, Command::Lose(..))).len(), 1);
    Ok(())
}

#[test]
fn s2_unrelated_workers_do_not_wait_for_a_wave() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[], &[on(2)]])?;

    world.apply_all(&[Event::Bounce(0), Event::Bounce(2), stopped(3), stopped(2)])?;
    world.apply_all(&[Event::Fire(2), Event::Started(2), Event::Started(3)])?;

    assert!(world.is_running(3) && world.is_told(1));
    Ok(())
}

#[test]
fn s9_a_bounce_does_not_shorten_a_bounce_delay() -> Checked {
    let mut world = running(&[&[]])?;
    world.apply_all(&[Event::Bounce(0), stopped(0)])?;

    world.apply(&Event::Bounce(0))?;

    assert!(!world.is_live(0));
    Ok(())
}

#[test]
fn s9_an_input_change_ends_a_backoff_and_keeps_the_failures() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;
    world.apply_all(&[failed(1), Event::Fire(1), failed(1), Event::Bounce(0)])?;
    world.rest()?;
    assert!(world.is_running(1));

    world.apply(&failed(1))?;

    assert_eq!(world.waits().last(), Some(&(world.policy.backoff.initial * 9)));
    Ok(())
}

#[test]
fn p7_a_group_is_one_wave() -> Checked {
    let mut world = running(&[&[], &[], &[on(0), on(1)]])?;

    world.apply_all(&[Event::BeginGroup, Event::Bounce(0), Event::Install(1, [].into())])?;
    assert!(world.stops().is_empty());
    world.apply(&Event::EndGroup)?;
    world.rest()?;

    assert_eq!(world.starts(2), 2);
    Ok(())
}

#[test]
fn p7_a_preview_leaves_out_what_another_worker_bounces_when_it_has_started() -> Checked {
    let mut world = running(&[&[], &[optionally_on(0)], &[optionally_on(0)]])?;
    world.apply(&failed(0))?;
    world.rest()?;
    world.apply(&Event::Fire(0))?;

    let bounced = world.id(1);
    let trial = world.machine.try_out(|machine| machine.bounce(bounced));

    assert_eq!((trial.bounced, trial.stopped.len()), ([bounced].into(), 0), "P7: of one of two");
    Ok(())
}

#[test]
fn p7_a_preview_leaves_out_what_cannot_be_stopped() -> Checked {
    let mut world = installed(&[&[], &[optionally_on(0)]])?;
    world.apply_all(&[Event::Fire(0), Event::Fire(0), Event::Started(1)])?;

    let stuck = world.id(0);

    let trial = world.machine.try_out(|machine| machine.bounce(stuck));
    assert!(trial.bounced.is_empty() && trial.stopped.is_empty());
    Ok(())
}
