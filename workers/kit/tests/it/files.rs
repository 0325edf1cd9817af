//! Files and folders where others may be at work too.
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crankcase_workers::{
    EntryKind, EntryPath, FileError, Folder, Temporary, forget_file, open_file, read_file,
    replace_file,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::tempdir;

use crate::running::TestResult;

fn mode(path: &Path) -> std::io::Result<u32> {
    Ok(fs::symlink_metadata(path)?.mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn names(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into())).collect()
}

#[test]
fn a_folder_of_our_own_is_reached_through_no_symlink() -> TestResult {
    let outer = tempdir()?;
    let (other, link) = (outer.path().join("other"), outer.path().join("link"));
    fs::create_dir(&other)?;
    set_mode(&other, 0o755)?;
    symlink("other", &link)?;

    for opened in [Folder::make_own(&link), Folder::open_own(&link)] {
        assert!(matches!(opened, Err(FileError::WrongKind { .. })), "{opened:?}");
    }
    assert_eq!(mode(&other)?, 0o755);
    let inner = outer.path().join("made/when/needed");
    assert!(Folder::open_own(&inner).is_err_and(|error| error.is_missing()));
    assert_eq!(Folder::make_own(&inner)?.path(), inner);
    assert_eq!(mode(&inner)?, 0o700);
    Ok(())
}

#[test]
fn what_is_appended_goes_to_a_file_and_through_no_symlink() -> TestResult {
    let outer = tempdir()?;
    let folder = Folder::open(outer.path())?;
    symlink("other", outer.path().join("link"))?;

    for text in ["one ", "two"] {
        folder.append("log")?.write_all(text.as_bytes())?;
    }

    assert_eq!(folder.read("log", 64)?, b"one two");
    assert_eq!(mode(&outer.path().join("log"))?, 0o600);
    assert!(folder.append("link").is_err());
    assert!(!outer.path().join("other").exists());
    Ok(())
}

#[test]
fn a_file_with_other_hard_links_is_not_opened_to_be_written_in_place() -> TestResult {
    let outer = tempdir()?;
    let (path, other) = (outer.path().join("state"), outer.path().join("other"));
    fs::write(&other, "precious")?;
    set_mode(&other, 0o644)?;
    let folder = Folder::make(&path)?;
    for name in ["log", "base-index"] {
        fs::hard_link(&other, path.join(name))?;
    }

    let appended = folder.append("log").map(drop);
    let opened = folder.open_by_path("log", &[], |_| ());
    let beside = folder.open_by_path("base", &["-index"], |_| ());

    for (name, refused) in [("log", appended), ("log", opened), ("base-index", beside)] {
        let expected = format!(
            "{:?} has 3 hard links, and a write to it would change it under all of them; put a copy in its \
             place, or remove the other links",
            path.join(name)
        );
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
    assert_eq!((fs::read_to_string(&other)?, mode(&other)?), ("precious".to_owned(), 0o644));
    fs::remove_file(path.join("base-index"))?;
    fs::remove_file(&other)?;
    assert!(folder.append("log").is_ok());
    Ok(())
}

#[test]
fn the_path_of_a_held_folder_leads_to_it_also_when_another_one_has_got_the_path() -> TestResult {
    let outer = tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let held = Folder::make(&path)?.hold_path()?;
    fs::rename(&path, &moved)?;
    fs::create_dir_all(path.join("records"))?;
    set_mode(&path.join("records"), 0o755)?;

    Folder::make(&path)?.replace("kept", b"one", 0o600)?;
    Folder::make_own(&path.join("records"))?.append("log")?.write_all(b"two")?;
    replace_file(&path.join("records/other"), b"three", 0o600)?;
    replace_file(&path.join("gone"), b"four", 0o600)?;
    for name in ["records/other", "gone"] {
        forget_file(&path.join(name))?;
    }
    let place = Folder::open(&path)?.open_by_path("kept", &[], Path::to_owned)?;

    assert_eq!(fs::read_to_string(moved.join("kept"))?, "one");
    assert_eq!(fs::read_to_string(moved.join("records/log"))?, "two");
    assert_eq!(names(&moved.join("records"))?, [Path::new("log")]);
    assert!(!moved.join("gone").exists());
    assert_eq!(place, moved.canonicalize()?.join("kept"));
    assert_eq!(Folder::open(&path)?.current_path()?, moved.canonicalize()?);
    assert_eq!((names(&path)?, names(&path.join("records"))?), (vec!["records".into()], vec![]));
    assert_eq!(mode(&path.join("records"))?, 0o755);
    drop(held);
    assert!(Folder::open(&path)?.look("kept")?.is_none());
    assert_eq!(Folder::open(&path)?.current_path()?, path);
    Ok(())
}

#[test]
fn of_two_folders_that_are_held_under_one_path_the_last_one_counts() -> TestResult {
    let outer = tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let one = Folder::make(&path)?;
    fs::rename(&path, &moved)?;
    let other = Folder::make(&path)?;

    let (first, last) = (one.hold_path()?, other.hold_path()?);
    Folder::open(&path)?.replace("both", b"", 0o600)?;
    drop(last);
    Folder::open(&path)?.replace("first", b"", 0o600)?;
    drop(first);
    Folder::open(&path)?.replace("none", b"", 0o600)?;

    let mut there = names(&path)?;
    there.sort();
    assert_eq!(there, [Path::new("both"), Path::new("none")]);
    assert_eq!(names(&moved)?, [Path::new("first")]);
    Ok(())
}

#[test]
fn no_symlink_is_followed_below_a_held_folder() -> TestResult {
    let outer = tempdir()?;
    let (path, other) = (outer.path().join("state"), outer.path().join("other"));
    fs::create_dir_all(other.join("inner"))?;
    fs::write(other.join("inner/file"), "precious")?;
    let held = Folder::make(&path)?.hold_path()?;
    symlink(&other, path.join("link"))?;

    let inner = path.join("link/inner");
    for opened in [Folder::open(&inner), Folder::make(&inner), Folder::make_own(&inner)] {
        assert!(matches!(opened, Err(FileError::WrongKind { .. })), "{opened:?}");
    }
    let written = replace_file(&path.join("link/inner/file"), b"new", 0o600);
    assert!(matches!(written, Err(FileError::WrongKind { .. })), "{written:?}");
    assert!(forget_file(&path.join("link/inner/file")).is_err());

    assert_eq!(fs::read_to_string(other.join("inner/file"))?, "precious");
    drop(held);
    Ok(())
}

#[test]
fn a_file_is_opened_by_its_path_only_while_that_leads_to_it() -> TestResult {
    let outer = tempdir()?;
    let (path, moved) = (outer.path().join("folder"), outer.path().join("moved"));
    let folder = Folder::make(&path)?;
    symlink("nowhere", path.join("link"))?;
    symlink("nowhere", path.join("file-log"))?;

    let open = |name: &str, endings: &[&str]| folder.open_by_path(name, endings, |_| ());
    assert!(open("file", &["-index"]).is_ok());
    let cases: [(&str, &[&str]); 2] = [("link", &[]), ("file", &["-index", "-log"])];
    for (name, endings) in cases {
        let error = open(name, endings).unwrap_err();
        assert!(matches!(error, FileError::WrongKind { .. }), "{error}");
    }
    let swapped = folder.open_by_path("file", &[], |_| fs::rename(&path, &moved));
    let error = swapped.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot open {:?}", path.join("file")));
    fs::remove_dir_all(&moved)?;
    fs::create_dir(&moved)?;
    let error = open("file", &[]).unwrap_err();
    assert!(matches!(error, FileError::MissingFolder { .. }), "{error}");
    Ok(())
}

#[test]
fn what_is_removed_with_all_that_is_in_it_is_reached_through_no_symlink() -> TestResult {
    let outer = tempdir()?;
    let (kept, inner) = (outer.path().join("kept"), outer.path().join("all/a/b"));
    fs::write(&kept, "kept")?;
    fs::create_dir_all(&inner)?;
    symlink(outer.path(), inner.join("link"))?;
    symlink(outer.path(), outer.path().join("link"))?;
    let folder = Folder::open(outer.path())?;

    for name in ["all", "link", "nothing"] {
        folder.remove_all(name)?;
    }

    assert_eq!(names(outer.path())?, [Path::new("kept")]);
    Ok(())
}

#[test]
fn a_pipe_is_refused_before_it_is_opened() -> TestResult {
    let outer = tempdir()?;
    let pipe = outer.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;

    let by_path = open_file(&pipe).unwrap_err();
    let by_name = Folder::open(outer.path())?.read("pipe", 10).unwrap_err();

    for error in [by_path, by_name] {
        assert!(matches!(error, FileError::WrongKind { found: EntryKind::Fifo, .. }), "{error}");
    }
    Ok(())
}

#[test]
fn a_file_that_is_larger_than_its_bound_is_refused_with_the_bound() -> TestResult {
    let outer = tempdir()?;
    let path = outer.path().join("file");
    fs::write(&path, "four")?;
    // It says that it is empty, and has more.
    let made_up = Path::new("/proc/self/stat");

    assert_eq!(read_file(&path, 4)?, b"four");
    for (path, limit) in [(path.as_path(), 3), (made_up, 3)] {
        let error = read_file(path, limit).unwrap_err();
        assert_eq!(error.to_string(), format!("{path:?} is larger than 3 bytes"));
    }
    Ok(())
}

#[test]
fn a_name_in_a_folder_is_not_followed() -> TestResult {
    let outer = tempdir()?;
    fs::write(outer.path().join("victim"), "old")?;
    symlink("victim", outer.path().join("link"))?;
    let folder = Folder::open(outer.path())?;

    let found = folder.look("link")?.ok_or("nothing there")?;

    assert_eq!(found.kind, EntryKind::Symlink);
    assert!(folder.read("link", 10).is_err());
    assert!(folder.replace("link", b"new", 0o600).is_err());
    assert!(folder.child("link").is_err());
    folder.remove("link", EntryKind::File)?;
    assert_eq!(fs::read_to_string(outer.path().join("victim"))?, "old");
    Ok(())
}

#[test]
fn a_symlink_on_the_way_is_followed_only_where_others_cannot_have_put_it() -> TestResult {
    let outer = tempdir()?;
    fs::create_dir(outer.path().join("real"))?;
    symlink("real", outer.path().join("way"))?;

    fs::write(outer.path().join("real/file"), "")?;
    assert!(Folder::open(&outer.path().join("way"))?.look("file")?.is_some());

    set_mode(outer.path(), 0o777)?;
    let error = Folder::open(&outer.path().join("way")).unwrap_err();
    assert!(matches!(error, FileError::ForeignLink { .. }), "{error}");
    let error = Folder::make(&outer.path().join("way/new")).unwrap_err();
    assert!(matches!(error, FileError::ForeignLink { .. }), "{error}");
    assert!(!outer.path().join("real/new").exists());
    Ok(())
}

#[test]
fn folders_that_are_made_are_for_their_owner_alone() -> TestResult {
    let outer = tempdir()?;

    let folder = Folder::make(&outer.path().join("a/b"))?;

    assert_eq!((mode(&outer.path().join("a"))?, mode(folder.path())?), (0o700, 0o700));
    Ok(())
}

#[test]
fn a_folder_becomes_private_unless_others_may_have_changed_it() -> TestResult {
    let outer = tempdir()?;
    let folder = Folder::open(outer.path())?;

    for (before, is_done) in [(0o755, true), (0o2500, true), (0o775, false), (0o1777, false)] {
        set_mode(outer.path(), before)?;
        assert_eq!(folder.make_private().is_ok(), is_done, "{before:o}");
        assert_eq!(mode(outer.path())?, if is_done { 0o700 } else { before });
    }
    Ok(())
}

#[test]
fn a_file_is_replaced_as_a_whole_with_its_mode() -> TestResult {
    let outer = tempdir()?;
    let path = outer.path().join("file");
    fs::write(&path, "old")?;
    let old = fs::File::open(&path)?;

    replace_file(&path, b"new", 0o640)?;

    assert_eq!((fs::read_to_string(&path)?.as_str(), mode(&path)?), ("new", 0o640));
    assert_ne!(old.metadata()?.ino(), path.metadata()?.ino());
    assert_eq!(names(outer.path())?, [Path::new("file")]);
    Ok(())
}

#[test]
fn nothing_but_a_file_is_replaced() -> TestResult {
    let outer = tempdir()?;
    fs::create_dir(outer.path().join("folder"))?;

    for path in [outer.path().join("folder"), outer.path().join(".."), "/".into(), ".".into()] {
        let error = replace_file(&path, b"new", 0o600).unwrap_err();
        let expected = format!("{path:?} is a folder and not a file; it is left as it is");
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(names(outer.path())?, [Path::new("folder")]);
    Ok(())
}

/// Where a writer dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Created,
    Written,
    Permitted,
    Placed,
}

/// Writes a file up to a step, and leaves all as the kernel leaves it when a process is killed.
fn die_at(last: Step, folder: &Folder) -> TestResult {
    let mut temporary = Temporary::create(folder, "file")?;
    if last >= Step::Written {
        temporary.file().write_all(b"new")?;
    }
    if last >= Step::Permitted {
        temporary.set_mode(0o600)?;
    }
    temporary.file().unlock()?;
    if last == Step::Placed {
        temporary.place()?;
    } else {
        std::mem::forget(temporary);
    }
    Ok(())
}

#[test]
fn a_writer_that_dies_at_any_step_leaves_the_old_file_or_the_new() -> TestResult {
    for step in [Step::Created, Step::Written, Step::Permitted, Step::Placed] {
        let outer = tempdir()?;
        let path = outer.path().join("file");
        fs::write(&path, "old")?;
        let folder = Folder::open(outer.path())?;

        die_at(step, &folder)?;

        let expected = if step == Step::Placed { "new" } else { "old" };
        assert_eq!(fs::read_to_string(&path)?, expected, "{step:?}");
        let left = folder.leftover("file", None)?;
        assert_eq!(left.is_some(), step != Step::Placed, "{step:?}");
        folder.replace("file", b"next", 0o600)?;
        assert_eq!(names(outer.path())?, [Path::new("file")], "{step:?}");
    }
    Ok(())
}

#[test]
fn a_leftover_is_removed_only_when_nobody_writes_it() -> TestResult {
    let outer = tempdir()?;
    let folder = Folder::open(outer.path())?;
    for target in ["file".to_owned(), "x".repeat(200), "x".repeat(255)] {
        let temporary = Temporary::create(&folder, &target)?;
        let name = folder.leftover(&target, None)?.ok_or("not found")?;

        let error = folder.remove_leftover(&name).unwrap_err();
        assert!(matches!(error, FileError::Busy { .. }), "{error}");

        drop(temporary);
        fs::write(outer.path().join(&name), "left")?;
        folder.remove_leftover(&name)?;
        assert_eq!(folder.leftover(&target, None)?, None);
    }
    Ok(())
}

#[test]
fn a_path_is_absolute_and_plain() -> TestResult {
    let path = EntryPath::parse("/a//b/")?;
    assert_eq!((path.full(), path.declared().as_str()), (PathBuf::from("/a/b"), "/a/b/"));
    assert!(path.is_folder);
    for wrong in ["", "a", "/", "/a/./b", "/a/../b", "/a\0b"] {
        assert!(EntryPath::parse(wrong).is_err(), "{wrong:?}");
    }
    Ok(())
}
