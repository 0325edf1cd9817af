//! The lock of the state folder, and which folders are refused.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use crankcase_status::{StateDir, StateError};

use crate::world::TestResult;

#[test]
fn the_folder_is_made_for_its_owner_only() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("var/state");

    let lock = StateDir::new(path.clone()).lock()?;

    assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o700);
    assert_eq!(lock.state_dir().path(), path);
    Ok(())
}

#[test]
fn a_second_holder_is_told_who_the_first_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state_dir = StateDir::new(folder.path().to_owned());
    let lock = state_dir.lock()?;

    let refused = state_dir.lock().unwrap_err();

    assert!(refused.to_string().ends_with(&format!("is held by process {}", std::process::id())));
    drop(lock);
    drop(state_dir.lock()?);
    Ok(())
}

#[test]
fn a_folder_is_held_also_when_the_files_in_it_are_deleted() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state_dir = StateDir::new(folder.path().to_owned());
    let lock = state_dir.lock()?;
    fs::remove_file(folder.path().join("lock"))?;

    let refused = state_dir.lock().unwrap_err();

    assert!(matches!(refused, StateError::Held { pid: None, .. }), "{refused}");
    drop(lock);
    drop(state_dir.lock()?);
    Ok(())
}

#[test]
fn a_folder_is_held_also_when_it_is_deleted() -> TestResult {
    let outer = tempfile::tempdir()?;
    let path = outer.path().join("state");
    let state_dir = StateDir::new(path.clone());
    let lock = state_dir.lock()?;
    assert!(lock.is_in_place());
    fs::remove_dir_all(&path)?;

    let while_absent = state_dir.lock().unwrap_err();
    fs::create_dir(&path)?;
    let in_another = state_dir.lock().unwrap_err();

    let own = std::process::id();
    for refused in [while_absent, in_another] {
        let is_held = matches!(refused, StateError::Held { pid: Some(pid), .. } if pid == own);
        assert!(is_held, "{refused}");
    }
    assert!(!lock.is_in_place());
    drop(lock);
    drop(state_dir.lock()?);
    Ok(())
}

#[test]
fn a_lock_that_a_dead_process_has_left_holds_nobody_up() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("lock"), "4194304999 garbage")?;

    let lock = StateDir::new(folder.path().to_owned()).lock()?;

    let text = fs::read_to_string(folder.path().join("lock"))?;
    assert_eq!(text, format!("{}\n", std::process::id()));
    drop(lock);
    Ok(())
}

#[test]
fn a_folder_that_others_can_change_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;

    let refused = StateDir::new(folder.path().to_owned()).lock().unwrap_err();

    assert!(matches!(&refused, StateError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("mode 0777"), "{refused}");
    Ok(())
}

#[test]
fn a_file_in_the_place_of_the_folder_is_said_to_be_none() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("state");
    fs::write(&path, "")?;

    let refused = StateDir::new(path.clone()).lock().unwrap_err();

    assert_eq!(refused.to_string(), format!("cannot use the folder {path:?}: it is not a folder"));
    Ok(())
}

#[test]
fn a_lock_that_is_a_symlink_is_refused() -> TestResult {
    let folder = tempfile::tempdir()?;
    symlink(folder.path().join("elsewhere"), folder.path().join("lock"))?;

    let refused = StateDir::new(folder.path().to_owned()).lock().unwrap_err();

    assert!(matches!(refused, StateError::Folder { .. }), "{refused}");
    assert!(!folder.path().join("elsewhere").exists());
    Ok(())
}

#[test]
fn a_lock_with_another_hard_link_is_refused() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, other) = (outer.path().join("state"), outer.path().join("other"));
    fs::create_dir(&path)?;
    fs::write(&other, "precious")?;
    fs::set_permissions(&other, Permissions::from_mode(0o644))?;
    fs::hard_link(&other, path.join("lock"))?;

    let refused = StateDir::new(path.clone()).lock().unwrap_err();

    assert!(matches!(&refused, StateError::Folder { .. }), "{refused}");
    let text = format!("{refused:?}");
    assert!(text.contains(&format!("{:?} has 2 hard links", path.join("lock"))), "{text}");
    assert_eq!(fs::read_to_string(&other)?, "precious");
    assert_eq!(fs::metadata(&other)?.permissions().mode() & 0o7777, 0o644);
    Ok(())
}

#[test]
fn a_folder_that_others_can_look_into_becomes_private() -> TestResult {
    let mode = |path: &Path| Ok::<_, io::Error>(fs::metadata(path)?.permissions().mode() & 0o7777);
    let outer = tempfile::tempdir()?;
    let (path, lock) = (outer.path().join("state"), outer.path().join("state/lock"));
    fs::create_dir(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o755))?;

    drop(StateDir::new(path.clone()).lock()?);
    assert_eq!((mode(&path)?, mode(&lock)?), (0o700, 0o600));

    fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    fs::set_permissions(&lock, Permissions::from_mode(0o644))?;
    drop(StateDir::new(path.clone()).lock()?);
    assert_eq!((mode(&path)?, mode(&lock)?), (0o700, 0o600));
    Ok(())
}

#[test]
fn a_folder_that_holds_other_things_keeps_its_mode() -> TestResult {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("other"), "")?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;

    let refused = StateDir::new(folder.path().to_owned()).lock().unwrap_err();

    assert!(matches!(&refused, StateError::Unsafe { .. }), "{refused}");
    assert!(refused.to_string().contains("it holds other things"), "{refused}");
    assert_eq!(fs::metadata(folder.path())?.permissions().mode() & 0o7777, 0o755);
    Ok(())
}

mod needs_root {
    use super::{
        Permissions, PermissionsExt, StateDir, StateError, TestResult, fs, lchown, symlink,
    };

    #[test]
    fn a_symlink_that_another_user_made_in_a_sticky_folder_is_not_followed() -> TestResult {
        let (sticky, own) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let link = sticky.path().join("link");
        symlink(own.path(), &link)?;
        fs::set_permissions(sticky.path(), Permissions::from_mode(0o1777))?;
        drop(StateDir::new(link.join("followed")).lock()?);

        lchown(&link, Some(12_345), None)?;

        for path in [link.join("below"), link] {
            let refused = StateDir::new(path).lock().unwrap_err();
            assert!(matches!(&refused, StateError::Unsafe { .. }), "{refused}");
        }
        assert!(!own.path().join("below").exists());
        Ok(())
    }
}
