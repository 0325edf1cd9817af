//! Clients that follow events: order, gaps, and how many there may be.

use std::time::Duration;

use crankcase_engine::Engine;
use crankcase_status::wire::{EventLine, FailureCode};
use crankcase_status::{ClientError, ControlConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::world::{STORE, TestResult, World, guarded};

#[tokio::test]
async fn events_come_in_order_and_without_gaps() -> TestResult {
    let world = World::start().await?;
    let mut events = world.client().await?.events().await?;

    world.engine.bounce(STORE).await?;
    world.engine.running(STORE).await?;

    let mut sequence = None;
    loop {
        let line = guarded(events.next()).await?.ok_or("the stream ended")?;
        let EventLine::Event(event) = line else { return Err("missed".into()) };
        assert!(sequence.is_none_or(|before| event.sequence == before + 1));
        sequence = Some(event.sequence);
        if event.path == "/agent/store" && event.event["type"] == "started" {
            break;
        }
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_slow_follower_is_told_how_many_it_missed() -> TestResult {
    let world = World::start().await?;
    let mut events = world.client().await?.events().await?;

    // Nobody reads meanwhile, and it is far more than the sockets hold and the engine keeps.
    flood(&world.engine).await?;

    let mut next = None;
    let mut missed_any = false;
    loop {
        match guarded(events.next()).await?.ok_or("the stream ended")? {
            EventLine::Event(event) => {
                assert!(next.is_none_or(|next| event.sequence == next), "{event:?}");
                next = Some(event.sequence + 1);
                if event.event["type"] == "installed" && event.path.ends_with("/last") {
                    break;
                }
            }
            EventLine::Missed { missed } => {
                missed_any = true;
                next = next.map(|next| next + missed);
            }
        }
    }
    assert!(missed_any);
    world.clean_kill().await
}

/// Installs very many workers, and then one more.
async fn flood(engine: &Engine) -> TestResult {
    use crankcase_engine::{Change, Manifold, Name};
    let manifold = Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    let mut change = Change::new();
    for index in 0..20_000 {
        let name = Name::<()>::parse(&format!("w{index}"))?;
        change = change.install(name, manifold.clone());
    }
    engine.apply(change).await?;
    engine.settled().await?;
    let last: Name<()> = Name::new("last");
    engine.apply(Change::new().install(last, manifold)).await?;
    Ok(())
}

#[tokio::test]
async fn followers_get_what_happened_before_the_end() -> TestResult {
    let config = ControlConfig::default().drain(Duration::from_secs(60));
    let world = World::start_with(config).await?;
    let mut events = world.client().await?.events().await?;
    // Nobody reads meanwhile, so that much is still to be told when the stop comes.
    flood(&world.engine).await?;
    world.engine.stop().await?;
    world.stop();

    let mut last = None;
    while let Some(line) = guarded(events.next()).await? {
        last = Some(line);
    }

    let Some(EventLine::Event(event)) = last else { return Err("no event".into()) };
    assert_eq!((&*event.path, &*event.text), ("/agent", "finished"));
    world.clean_kill().await
}

#[tokio::test]
async fn more_clients_than_allowed_wait_for_a_place() -> TestResult {
    let config = ControlConfig::default().max_connections(1);
    let world = World::start_with(config).await?;
    let client = world.client().await?;
    let mut events = client.events().await?;
    let mut report = std::pin::pin!(client.report(None));

    // While the one place is taken, events come and the answer does not.
    for _ in 0..100 {
        world.engine.bounce(STORE).await?;
        let bounced = async {
            while let Some(EventLine::Event(event)) = guarded(events.next()).await? {
                if event.event["type"] == "started" {
                    break;
                }
            }
            Ok::<(), ClientError>(())
        };
        tokio::select! {
            biased;
            _ = &mut report => return Err("there was another place".into()),
            bounced = bounced => bounced?,
        }
    }
    drop(events);

    assert!(guarded(report).await.is_ok());
    world.clean_kill().await
}

#[tokio::test]
async fn more_followers_than_allowed_are_refused() -> TestResult {
    let config = ControlConfig::default().max_followers(1);
    let world = World::start_with(config).await?;
    let client = world.client().await?;
    let _first = client.events().await?;

    let refused = client.events().await.unwrap_err();

    assert!(matches!(refused, ClientError::Refused { code: FailureCode::Busy, .. }), "{refused}");
    world.clean_kill().await
}

#[tokio::test]
async fn a_follower_that_leaves_gives_up_its_place() -> TestResult {
    let config = ControlConfig::default().max_connections(1).max_followers(1);
    let world = World::start_with(config).await?;
    let client = world.client().await?;
    drop(client.events().await?);

    // There is one place only, so this one waits until the first is seen to be gone.
    let second = guarded(client.events()).await;

    assert!(second.is_ok());
    world.clean_kill().await
}

#[tokio::test]
async fn followers_that_leave_bytes_unread_give_up_their_places() -> TestResult {
    const PLACES: usize = 32;
    let head = "GET /v1/events HTTP/1.1\r\nhost: agent\r\n";
    for rest in ["\r\nxx", "content-length: 5\r\n\r\nx"] {
        let config = ControlConfig::default().max_connections(PLACES).max_followers(PLACES);
        let world = World::start_with(config).await?;
        let client = world.client().await?;
        let mut followers = Vec::new();
        for _ in 0..PLACES {
            let mut follower = UnixStream::connect(world.socket()).await?;
            follower.write_all([head, rest].concat().as_bytes()).await?;
            let mut answer = [0; 12];
            guarded(follower.read_exact(&mut answer)).await?;
            assert_eq!(&answer, b"HTTP/1.1 200");
            followers.push(follower);
        }
        drop(followers);

        // Nothing happens meanwhile, and all places were taken.
        let another = guarded(client.events()).await;

        assert!(another.is_ok(), "{rest:?}: {another:?}");
        world.clean_kill().await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_has_happened_before_can_be_followed_too() -> TestResult {
    let world = World::start().await?;
    let client = world.client().await?;
    world.engine.bounce(STORE).await?;
    world.engine.running(STORE).await?;

    let mut events = client.events_since(0, None).await?;
    world.engine.bounce(STORE).await?;

    let mut next = 0;
    let mut starts = Vec::new();
    while starts.len() < 2 {
        let line = guarded(events.next()).await?.ok_or("the stream ended")?;
        let EventLine::Event(event) = line else { return Err("missed".into()) };
        assert_eq!(event.sequence, next);
        next += 1;
        if event.path == "/agent/store" && event.event["type"] == "starting" {
            starts.push(event.cause);
        }
    }
    assert!(starts.iter().all(Option::is_some), "{starts:?}");
    let life = events.life().to_owned();
    let mut again = client.events_since(next - 1, Some(&life)).await?;
    let line = guarded(again.next()).await?.ok_or("the stream ended")?;
    assert!(matches!(line, EventLine::Event(event) if event.sequence == next - 1));
    let other = client.events_since(0, Some("another")).await.err().ok_or("it was taken")?;
    let ClientError::Refused { code: FailureCode::Conflict, message } = other else {
        return Err(other.into());
    };
    assert!(message.contains(&life) && message.contains("\"another\""), "{message}");
    world.clean_kill().await
}
