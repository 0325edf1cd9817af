//! How soon a file that was harmed is as declared again.

use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::inotify::WatchFlags;
use tokio::time::Instant;

use crate::bare::{is_right, write};
use crate::files::{Files, MODE, content};
use crate::running::Running;
use crate::table::{Bound, Table};
use crate::watch::Watch;

/// How many files each harm is done to, one after another; there are at least three times as many.
const TIMES: usize = 50;

/// A name that no file has: when it appears, the bare program ends.
const END: &CStr = c"end";

type Harm = fn(&Path);

const HARMS: [(&str, Harm); 3] = [
    ("written", |path| fs::write(path, "wrong").unwrap()),
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("chmodded", |path| fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap()),
];

/// Measures repairs of files that an agent keeps, and of others that a bare program keeps.
pub(crate) fn measure(table: &Table, count: usize) {
    let name = format!("repair of one of {count} files");
    if !table.wants(&name) {
        return;
    }
    let (bare, files) = (Files::make(count), Files::make(count));
    let agent = Running::start(files.root());
    agent.check();
    let watch = Watch::new();
    let folders: Vec<PathBuf> = bare.folders().collect();
    let events = WatchFlags::CLOSE_WRITE | WatchFlags::DELETE | WatchFlags::ATTRIB;
    let numbers: Vec<i32> = folders.iter().map(|folder| watch.add(folder, events)).collect();
    thread::scope(|scope| {
        scope.spawn(|| keep(&watch, |number| &*folders[place(&numbers, number)]));
        for (place, (verb, harm)) in HARMS.into_iter().enumerate() {
            let turn = |turn| {
                // Another file each time: those that are repaired often are held back.
                let number = (place * TIMES + turn) * count / (HARMS.len() * TIMES);
                (repaired(&bare, number, harm), repaired(&files, number, harm))
            };
            let pairs: Vec<(f64, f64)> = (0..TIMES).map(turn).collect();
            table.running(&format!("{name}, {verb}"), Bound::None, &pairs);
        }
        fs::write(folders[0].join("end"), "").unwrap();
    });
    agent.check();
}

fn place(numbers: &[i32], number: i32) -> usize {
    numbers.iter().position(|found| *found == number).unwrap()
}

/// Repairs files as the agent does, but without anything else.
fn keep<'a>(watch: &Watch, folder: impl Fn(i32) -> &'a Path) {
    let mut is_over = false;
    while !is_over {
        watch.wait(|number, name| {
            is_over |= name == END;
            let name = name.to_str().unwrap();
            let Some(file) = name.strip_prefix("file-").and_then(|file| file.parse().ok()) else {
                return;
            };
            let path = folder(number).join(name);
            if fs::read(&path).is_ok_and(|found| found == content(file).as_bytes()) {
                if !is_right(&path, file) {
                    fs::set_permissions(&path, Permissions::from_mode(MODE)).unwrap();
                }
            } else {
                write(&path, content(file).as_bytes());
            }
        });
    }
}

/// Does a harm to a file; returns the seconds until it is as declared again.
fn repaired(files: &Files, number: usize, harm: Harm) -> f64 {
    let path = files.path(number);
    assert!(is_right(&path, number), "{path:?} is wrong already");
    let watch = Watch::new();
    watch.add(path.parent().unwrap(), WatchFlags::MOVED_TO | WatchFlags::ATTRIB);
    let began = Instant::now();
    harm(&path);
    while !is_right(&path, number) {
        watch.wait(|_, _| {});
    }
    began.elapsed().as_secs_f64()
}
