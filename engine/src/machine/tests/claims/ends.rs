//! What the end of a worker leads to (S9, S10, S11, S12), and the waits after it.

use std::time::Duration;

use super::{ended, failed, installed, on, optionally_on, running, stopped};
use crate::machine::tests::world::{Checked, Event, World, strict_policy};
use crate::machine::{EndKind, Rest};

#[test]
fn b2_a_worker_that_asks_for_a_bounce_is_never_penalised() -> Checked {
    let mut world = running(&[&[]])?;

    for _ in 0..20 {
        world.apply(&ended(0, EndKind::Bounce))?;
        world.rest()?;
    }

    let delay = world.policy.bounce_delay;
    let timeout = world.policy.start_timeout;
    assert!(world.waits().iter().all(|wait| [delay, timeout].contains(wait)));
    Ok(())
}

#[test]
fn b1_the_first_bounce_and_the_first_failure_wait_in_full() -> Checked {
    let mut world = running(&[&[], &[]])?;

    world.apply_all(&[failed(1), Event::Bounce(0), stopped(0)])?;

    let (backoff, delay) = (world.policy.backoff.initial, world.policy.bounce_delay);
    assert_eq!(world.waits(), [backoff, world.policy.grace, delay]);
    Ok(())
}

#[test]
fn b1_no_number_of_failures_overflows_the_backoff() -> Checked {
    let mut world = installed(&[&[]])?;

    for _ in 0..5_000 {
        world.apply_all(&[failed(0), Event::Fire(0)])?;
    }

    assert!(world.waits().iter().all(|wait| *wait <= world.policy.start_timeout));
    Ok(())
}

#[test]
fn s9_a_minute_of_good_running_clears_the_failures() -> Checked {
    let mut world = running(&[&[]])?;
    world.apply_all(&[failed(0), Event::Fire(0), Event::Started(0)])?;

    let long = Duration::from_secs(60);
    world.apply(&Event::Ended(0, EndKind::Failed, long))?;

    assert_eq!(world.waits().last(), Some(&world.policy.backoff.initial));
    Ok(())
}

#[test]
fn done_and_missing_last_until_an_input_changes() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[on(0)], &[]])?;
    world.apply_all(&[ended(1, EndKind::Done), ended(2, EndKind::Missing), Event::Bounce(3)])?;
    world.rest()?;
    assert!(!world.is_live(1) && !world.is_live(2));

    world.apply(&Event::Changed(0, 0))?;

    assert!(world.is_live(1) && world.is_live(2));
    Ok(())
}

#[test]
fn s10_the_failure_of_a_marked_worker_is_none() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Bounce(0), failed(1), failed(0)])?;

    assert_eq!(world.seats[0].rest, Rest::Delay);
    assert_eq!(world.seats[1].rest, Rest::Ready);
    Ok(())
}

#[test]
fn b4_an_uninstall_is_obeyed_though_the_worker_was_being_bounced() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Bounce(0), ended(1, EndKind::Uninstall)])?;
    world.rest()?;

    assert!(world.is_running(0) && world.seats[1].arrows.is_none());
    Ok(())
}

#[test]
fn s10_a_fatal_end_stops_the_engine_whatever_was_asked() -> Checked {
    let mut world = running(&[&[], &[]])?;

    world.apply_all(&[Event::Install(0, [].into()), ended(0, EndKind::Fatal)])?;

    assert!(world.machine.is_killed() && world.is_told(1));
    Ok(())
}

#[test]
fn s18_a_task_dropped_unasked_stops_the_engine() -> Checked {
    let mut world = running(&[&[], &[]])?;

    world.apply_all(&[ended(0, EndKind::Dropped), stopped(1)])?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn s10_how_a_replaced_worker_ends_does_not_matter_to_its_successor() -> Checked {
    let mut world = running(&[&[]])?;

    world.apply_all(&[Event::Install(0, [].into()), ended(0, EndKind::Uninstall)])?;
    world.rest()?;

    assert!(world.is_running(0));
    Ok(())
}

#[test]
fn s10_a_parked_worker_stays_parked_however_it_ends() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Park(1), ended(1, EndKind::Bounce), Event::Bounce(0)])?;
    world.rest()?;
    assert!(!world.is_live(1));

    world.apply(&Event::Unpark(1))?;
    assert!(world.is_live(1));
    Ok(())
}

#[test]
fn s11_a_stop_during_start_is_no_failure() -> Checked {
    let mut world = installed(&[&[]])?;

    world.apply_all(&[Event::Bounce(0), failed(0)])?;

    assert_eq!(world.seats[0].rest, Rest::Delay);
    Ok(())
}

#[test]
fn a_start_that_takes_too_long_has_failed() -> Checked {
    let mut world = installed(&[&[]])?;

    world.apply_all(&[Event::Fire(0), Event::Started(0), stopped(0)])?;

    assert_eq!(world.seats[0].rest, Rest::Backoff);
    Ok(())
}

#[test]
fn s12_a_stuck_worker_is_no_user_and_not_restarted_until_it_ends() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Bounce(0), Event::Fire(1), Event::Fire(1)])?;
    assert!(world.is_told(0));
    world.rest()?;
    assert!(world.is_running(0) && !world.is_running(1));

    world.apply(&stopped(1))?;
    assert!(world.is_live(1) && !world.is_told(1));
    Ok(())
}

#[test]
fn s12_a_stuck_optional_input_holds_nobody() -> Checked {
    let mut world = running(&[&[], &[optionally_on(0)]])?;

    world.apply_all(&[Event::Bounce(0), stopped(1), Event::Fire(0), Event::Fire(0)])?;
    world.rest()?;

    assert!(world.is_running(1));
    Ok(())
}

#[test]
fn an_intensity_parks_until_an_input_changes_or_by_hand() -> Checked {
    let mut world = World::new(1, strict_policy(), 0);
    world.apply(&Event::Install(0, [].into()))?;
    for _ in 0..3 {
        world.apply_all(&[failed(0), Event::Fire(0)])?;
    }
    world.apply(&failed(0))?;
    assert_eq!(world.seats[0].rest, Rest::Spent);

    world.apply(&Event::Bounce(0))?;

    assert!(world.is_live(0));
    Ok(())
}

#[test]
fn b14_a_worker_in_backoff_is_shown_so_with_its_failures() -> Checked {
    let mut world = running(&[&[]])?;
    world.apply_all(&[failed(0), Event::Fire(0), failed(0)])?;

    let id = world.id(0);
    let view = world.machine.view(id);

    assert_eq!((view.rest, view.failures), (Rest::Backoff, 2));
    Ok(())
}

/// A worker fails, and something of it is left.
fn lingers(place: usize) -> Event {
    Event::Lingers(place, EndKind::Failed, Duration::ZERO, None)
}

#[test]
fn s12_users_lose_a_worker_at_its_end_and_not_when_it_is_gone() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply(&lingers(0))?;

    assert!(world.is_told(1), "S12: its user is not told to stop");
    assert!(world.is_live(0), "S12: it is taken for gone");
    Ok(())
}

#[test]
fn s12_the_next_generation_waits_for_what_is_left_of_a_worker() -> Checked {
    let mut world = running(&[&[]])?;

    // The backoff, a second, is over before it is gone.
    world.apply_all(&[lingers(0), Event::Bounce(0)])?;
    assert_eq!(world.starts(0), 1, "P1: it is started beside what is left");
    world.apply(&Event::Gone(0))?;

    assert_eq!(world.starts(0), 2);
    Ok(())
}

#[test]
fn s12_what_is_left_of_a_worker_holds_its_inputs_until_it_is_stuck() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[lingers(1), Event::Bounce(0)])?;
    assert!(!world.is_told(0), "P3: what is left of a worker still uses its input");
    world.apply_all(&[Event::Fire(1), Event::Fire(1)])?;

    assert!(world.is_told(0));
    Ok(())
}

#[test]
fn s9_a_backoff_runs_from_the_end_of_a_worker() -> Checked {
    let mut world = running(&[&[]])?;
    for _ in 0..2 {
        world.apply_all(&[failed(0), Event::Fire(0), Event::Started(0)])?;
    }

    // The wait is nine seconds, and each event takes one.
    world.apply_all(&[lingers(0), Event::Fire(0), Event::Gone(0)])?;

    assert_eq!(world.waits().last(), Some(&Duration::from_secs(7)), "S9: it begins anew");
    Ok(())
}
