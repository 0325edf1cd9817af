//! The kill (P6).

use std::time::Duration;

use super::{failed, installed, live_on, on, optionally_on, running, stopped};
use crate::machine::tests::world::{Checked, Event};
use crate::machine::{Command, EndKind, Scope};

#[test]
fn b9_a_kill_stops_users_before_what_they_use_live_ones_too() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[live_on(1)], &[optionally_on(2)]])?;

    world.apply(&Event::Kill)?;
    world.rest()?;

    assert_eq!(world.stops(), [3, 2, 1, 0]);
    assert!(world.is_finished);
    Ok(())
}

#[test]
fn p6_a_stuck_worker_does_not_hold_up_a_kill() -> Checked {
    let mut world = running(&[&[], &[live_on(0)]])?;

    world.apply_all(&[Event::Kill, Event::Fire(1), Event::Fire(1)])?;
    assert!(world.is_told(0) && !world.is_finished);
    world.apply(&stopped(0))?;

    assert!(world.is_finished && world.is_live(1));
    Ok(())
}

#[test]
fn p6_an_engine_without_workers_is_finished_at_once() -> Checked {
    let mut world = installed(&[])?;

    world.apply(&Event::Kill)?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn p6_a_kill_ends_waits_and_opens_groups() -> Checked {
    let mut world = running(&[&[], &[]])?;

    world.apply_all(&[failed(0), Event::BeginGroup, Event::Kill, stopped(1)])?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn p4_a_worker_that_must_stop_after_a_kill_has_no_bounce_delay() -> Checked {
    let mut world = installed(&[&[], &[on(0)]])?;
    world.apply_all(&[Event::Started(0), Event::Changed(0, 0)])?;
    // The kill has not reached the worker yet when its start is over.
    world.apply_to(Scope::Marks, &Event::Kill)?;

    world.apply_all(&[Event::Started(1), stopped(1), stopped(0)])?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn s10_a_worker_that_is_gone_after_a_kill_has_no_backoff() -> Checked {
    let mut world = running(&[&[]])?;
    let lingers = Event::Lingers(0, EndKind::Failed, Duration::ZERO, None);
    world.apply_all(&[lingers, Event::Kill])?;

    world.apply(&Event::Gone(0))?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn p6_a_replaced_live_edge_does_not_make_a_kill_wait_for_ever() -> Checked {
    // 0 follows 1 and is held by 2; then 1 is to follow 0 instead.
    let mut world = running(&[&[live_on(1)], &[], &[on(0)]])?;
    world.apply_all(&[Event::BeginGroup, Event::Install(0, [].into())])?;
    world.apply_all(&[Event::Install(1, [live_on(0)].into()), Event::EndGroup])?;
    world.apply_all(&[stopped(1), Event::Fire(1), Event::Started(1)])?;
    assert!(world.is_running(1) && !world.is_told(0));

    world.apply(&Event::Kill)?;
    world.rest()?;

    assert!(world.is_finished);
    Ok(())
}

#[test]
fn p3_an_input_that_dies_during_a_kill_is_told_as_lost() -> Checked {
    let mut world = running(&[&[], &[on(0)], &[on(1)]])?;

    world.apply_all(&[Event::Kill, failed(0)])?;

    assert_eq!(world.traced(|command| matches!(command, Command::Lose(..))).len(), 1);
    Ok(())
}
