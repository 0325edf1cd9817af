//! What each kind of input does to a start, and a change of it to a worker (S2, S6, S7, S8).

use super::{ended, failed, installed, live_on, on, optionally_on, running, stopped};
use crate::machine::tests::world::{Arrow, Checked, Event, arrow};
use crate::machine::{EndKind, Need};

#[test]
fn s6_an_optional_dependent_waits_while_its_input_is_coming() -> Checked {
    let mut world = installed(&[&[], &[optionally_on(0)]])?;
    assert!(world.is_live(0) && !world.is_live(1));

    world.apply(&Event::Started(0))?;

    assert!(world.is_live(1));
    Ok(())
}

#[test]
fn s6_an_optional_dependent_starts_without_an_input_that_failed() -> Checked {
    let mut world = installed(&[&[], &[optionally_on(0)]])?;

    world.apply(&failed(0))?;

    assert!(world.is_live(1));
    Ok(())
}

#[test]
fn s6_a_hung_optional_start_holds_its_dependents_for_its_timeout_only() -> Checked {
    let mut world = installed(&[&[], &[optionally_on(0)]])?;

    world.apply(&Event::Fire(0))?;

    assert!(world.is_live(0) && world.is_live(1));
    Ok(())
}

#[test]
fn s6_an_optional_input_that_comes_up_bounces_its_dependent_once() -> Checked {
    let mut world = installed(&[&[], &[optionally_on(0)]])?;
    world.apply_all(&[failed(0), Event::Started(1), Event::Fire(0), Event::Started(0)])?;
    assert!(world.is_told(1));

    world.rest()?;

    assert_eq!(world.starts(1), 2);
    Ok(())
}

#[test]
fn s7_a_live_input_neither_delays_a_start_nor_bounces() -> Checked {
    let mut world = installed(&[&[], &[live_on(0)]])?;
    assert!(world.is_live(0) && world.is_live(1));

    world.rest()?;
    world.apply(&Event::Bounce(0))?;
    world.rest()?;

    assert_eq!((world.starts(0), world.starts(1)), (2, 1));
    Ok(())
}

#[test]
fn s7_a_required_live_input_delays_the_start_and_nothing_else() -> Checked {
    let mut world = installed(&[&[], &[arrow(0, Need::LiveRequired)]])?;
    assert!(!world.is_live(1));

    world.rest()?;
    world.apply_all(&[Event::Uninstall(0), stopped(0)])?;

    assert!(world.is_running(1));
    Ok(())
}

#[test]
fn s7_a_bounced_worker_does_not_wait_for_its_live_users() -> Checked {
    let mut world = running(&[&[], &[live_on(0)]])?;

    world.apply(&Event::Bounce(0))?;

    assert!(world.is_told(0));
    Ok(())
}

#[test]
fn s8_a_new_value_bounces_the_users_of_that_output_only() -> Checked {
    let other = Arrow { port: 1, ..on(0) };
    let mut world = running(&[&[], &[on(0)], &[other], &[on(1)]])?;

    world.apply(&Event::Changed(0, 0))?;
    world.rest()?;

    assert_eq!([0, 1, 2, 3].map(|place| world.starts(place)), [1, 2, 1, 2]);
    Ok(())
}

#[test]
fn s8_a_starting_user_finishes_and_is_bounced_once_for_all_new_values() -> Checked {
    let mut world = installed(&[&[], &[on(0)]])?;
    world.apply_all(&[Event::Started(0), Event::Changed(0, 0), Event::Changed(0, 0)])?;
    assert!(!world.is_told(1));

    world.apply(&Event::Started(1))?;
    assert!(world.is_told(1));
    world.rest()?;

    assert_eq!(world.starts(1), 2);
    Ok(())
}

#[test]
fn s8_an_end_of_a_start_with_older_values_is_no_rest() -> Checked {
    for kind in [EndKind::Missing, EndKind::Done, EndKind::Failed] {
        let mut world = installed(&[&[], &[on(0)]])?;
        world.apply_all(&[Event::Started(0), Event::Changed(0, 0)])?;

        world.apply(&ended(1, kind))?;

        assert_eq!(world.starts(1), 2, "{kind:?}");
    }
    Ok(())
}

#[test]
fn s8_a_stuck_start_with_older_values_is_no_rest_either() -> Checked {
    for is_stuck in [false, true] {
        let mut world = installed(&[&[], &[on(0)]])?;
        world.apply_all(&[Event::Started(0), Event::Fire(1)])?;
        if is_stuck {
            world.apply(&Event::Fire(1))?;
        }

        world.apply_all(&[Event::Changed(0, 0), stopped(1)])?;

        assert_eq!(world.starts(1), 2, "stuck: {is_stuck}");
    }
    Ok(())
}

#[test]
fn s8_values_that_come_during_the_bounce_delay_cause_one_start() -> Checked {
    let mut world = running(&[&[], &[on(0)]])?;

    world.apply_all(&[Event::Changed(0, 0), stopped(1), Event::Changed(0, 0)])?;
    world.apply(&Event::Changed(0, 0))?;
    world.rest()?;

    assert_eq!(world.starts(1), 2);
    Ok(())
}

#[test]
fn s8_a_value_of_a_stopping_worker_is_none_to_those_started_without_it() -> Checked {
    let mut world = installed(&[&[], &[on(0)], &[optionally_on(0), optionally_on(1)]])?;
    world.apply_all(&[Event::Started(0), Event::Park(0), Event::Changed(0, 0)])?;
    assert!(world.is_live(2) && !world.is_told(0));

    world.apply(&Event::Started(2))?;

    assert!(!world.is_told(2));
    Ok(())
}

#[test]
fn b10_a_worker_that_takes_an_input_twice_is_started_and_stopped_once() -> Checked {
    let mut world = running(&[&[], &[on(0), on(0), optionally_on(0)]])?;

    world.apply(&Event::Bounce(0))?;
    world.rest()?;

    assert_eq!((world.starts(1), world.stops()), (2, vec![1, 0]));
    Ok(())
}
