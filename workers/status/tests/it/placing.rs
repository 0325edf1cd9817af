//! Where the control socket is, and how a client finds it.

use std::error::Error as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use crankcase_engine::Engine;
use crankcase_status::{Client, ClientError, Control, ControlConfig, SocketError, StateDir};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::world::{Error, TestResult, World, guarded};

/// Returns a folder as an earlier agent has left it.
fn used() -> Result<tempfile::TempDir, Error> {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700))?;
    Ok(folder)
}

fn listen(state_dir: &StateDir) -> Result<Result<Control, SocketError>, Error> {
    let engine = Engine::builder().seed(0).build()?;
    let lock = Arc::new(state_dir.lock()?);
    Ok(Control::listen(&lock, engine, ControlConfig::default()))
}

#[tokio::test]
async fn the_socket_is_for_its_owner_only_and_goes_with_the_worker() -> TestResult {
    let world = World::start().await?;
    let socket = world.socket();

    let mode = fs::symlink_metadata(&socket)?.permissions().mode() & 0o777;
    let folder = world.into_folder().await?;

    assert_eq!(mode, 0o600);
    assert!(folder.path().exists() && !socket.exists());
    Ok(())
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_taken_over() -> TestResult {
    let folder = used()?;
    drop(UnixListener::bind(folder.path().join("control.sock"))?);

    let world = World::start_in(folder, "", ControlConfig::default()).await?;

    world.client().await?.report(None).await?;
    world.clean_kill().await
}

#[tokio::test]
async fn anything_but_a_socket_in_its_place_is_refused_and_left_alone() -> TestResult {
    let folder = used()?;
    let state_dir = StateDir::new(folder.path().to_owned());
    let socket = folder.path().join("control.sock");
    let target = folder.path().join("target");
    fs::write(&target, "precious")?;
    symlink(&target, &socket)?;

    let refused = listen(&state_dir)?.unwrap_err();

    assert!(matches!(refused, SocketError::NotASocket { .. }), "{refused}");
    assert!(fs::symlink_metadata(&socket)?.is_symlink());
    fs::remove_file(&socket)?;
    fs::write(&socket, "precious too")?;
    assert!(matches!(listen(&state_dir)?, Err(SocketError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&socket)?, "precious too");
    assert_eq!(fs::read_to_string(&target)?, "precious");
    Ok(())
}

#[tokio::test]
async fn the_socket_is_in_the_folder_that_is_held_when_another_one_has_got_its_path() -> TestResult
{
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let lock = Arc::new(StateDir::new(path.clone()).lock()?);
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;
    let engine = Engine::builder().seed(0).build()?;

    let control = Control::listen(&lock, engine, ControlConfig::default())?;

    assert!(fs::exists(moved.join("control.sock"))?);
    drop((control, lock));
    assert!(!fs::exists(moved.join("control.sock"))?);
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    Ok(())
}

#[tokio::test]
async fn a_path_that_is_too_long_gets_a_short_one() -> TestResult {
    let folder = tempfile::tempdir()?;
    let below = "d".repeat(120);
    let world = World::start_in(folder, &below, ControlConfig::default()).await?;
    let state_dir = world.folder.path().join(&below);

    let client = Client::connect(&state_dir).await?;

    client.report(None).await?;
    let short = fs::read_to_string(state_dir.join("control.path"))?;
    assert_eq!(fs::symlink_metadata(&short)?.permissions().mode() & 0o777, 0o600);
    let runtime = std::path::Path::new(&short).parent().ok_or("no folder")?;
    assert_eq!(fs::metadata(runtime)?.mode() & 0o077, 0);
    let _folder = world.into_folder().await?;
    assert!(!fs::exists(short)? && !state_dir.join("control.path").exists());
    Ok(())
}

#[tokio::test]
async fn no_agent_is_told_apart_from_every_other_fault() -> TestResult {
    let folder = tempfile::tempdir()?;
    let missing = Client::connect(&folder.path().join("nowhere")).await.unwrap_err();
    drop(UnixListener::bind(folder.path().join("control.sock"))?);

    let stale = Client::connect(folder.path()).await.unwrap_err();

    assert!(matches!(missing, ClientError::NoAgent { .. }), "{missing}");
    assert!(matches!(stale, ClientError::NoAgent { .. }), "{stale}");
    Ok(())
}

#[tokio::test]
async fn why_no_agent_is_reachable_is_told_in_words() -> TestResult {
    let folder = tempfile::tempdir()?;
    let (empty, file) = (folder.path().join("empty"), folder.path().join("file"));
    fs::create_dir(&empty)?;
    fs::write(&file, "")?;
    let stale = folder.path();
    drop(UnixListener::bind(stale.join("control.sock"))?);

    let none = "no agent runs with this state folder";
    let missing = folder.path().join("missing");
    for (path, expected) in [
        (&*missing, "there is no such folder"),
        (&empty, none),
        (stale, none),
        (&file, "it is not a folder"),
    ] {
        let error = Client::connect(path).await.unwrap_err();

        let source = error.source().ok_or("no source")?;
        assert_eq!(source.to_string(), expected, "{path:?}");
        // So it is printed by a `main` that returns it.
        assert_eq!(format!("{error:?}"), format!("{error}: {expected}"));
    }
    Ok(())
}

#[tokio::test]
async fn a_pointer_that_is_not_a_small_regular_file_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    // Too long for the address of a socket, so that the pointer is read.
    let state_dir = folder.path().join("d".repeat(120));
    fs::create_dir(&state_dir)?;
    let pointer = state_dir.join("control.path");
    let target = folder.path().join("target");
    fs::write(&target, "/nowhere")?;
    type Place<'a> = &'a dyn Fn() -> std::io::Result<()>;
    let cases: [(Place<'_>, &str); 4] = [
        (&|| symlink(&target, &pointer), "is not a regular file"),
        (&|| Ok(mknodat(CWD, &pointer, FileType::Fifo, Mode::RUSR, 0)?), "is not a regular file"),
        (&|| fs::write(&pointer, "/x".repeat(54)), "is longer than the address of a socket"),
        (&|| fs::write(&pointer, "/nowhere"), "no agent runs with this state folder"),
    ];
    for (place, expected) in cases {
        place()?;

        let error = guarded(Client::connect(&state_dir)).await.unwrap_err();

        let source = error.source().ok_or("no source")?.to_string();
        assert!(source.ends_with(expected), "{source}, expected {expected}");
        fs::remove_file(&pointer)?;
    }
    Ok(())
}
