//! Whether a command could be started, and from which file.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::account::Account;
use super::config::ProcessConfig;
use super::error::ProcessError;

const PATH: &str = "PATH";

/// The variables that every command has, and their values where the agent has none itself.
const ENVIRONMENT: [(&str, &str); 3] = [
    (PATH, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("LANG", "C.UTF-8"),
];

/// How much of a program the kernel reads to find its interpreter, in bytes.
const FIRST_LINE: u64 = 256;

/// Returns the variables that every command has, unless its config has them.
pub(super) fn environment() -> [(&'static str, OsString); 3] {
    ENVIRONMENT.map(|(name, default)| (name, env::var_os(name).unwrap_or_else(|| default.into())))
}

impl ProcessConfig {
    /// Returns where the program is looked for, in this order. A program with a slash is in one place,
    /// relative to the [`folder`](Self::folder); any other is in one of the folders of the PATH that the
    /// process has.
    pub fn programs(&self) -> Vec<PathBuf> {
        let program = self.program();
        if program.as_bytes().contains(&b'/') {
            return vec![self.folder.join(program)];
        }
        let given = self.environment.get(OsStr::new(PATH)).cloned();
        let path = given.unwrap_or_else(|| {
            let [(_, path), ..] = environment();
            path
        });
        env::split_paths(&path).map(|folder| self.folder.join(folder).join(program)).collect()
    }

    /// Looks whether the command could be started now, and returns the file of its program. Starts
    /// nothing. Blocks for the disk, and for what knows the users.
    ///
    /// # Errors
    ///
    /// When the folder, the user, the group, the program or its interpreter is missing, or the program
    /// is not executable.
    pub fn look(&self) -> Result<PathBuf, ProcessError> {
        let folder = |source| {
            let (name, folder) = (self.name.clone(), self.folder.clone());
            ProcessError::Folder { name, folder, source }
        };
        if !fs::metadata(&self.folder).map_err(folder)?.is_dir() {
            return Err(folder(Errno::NOTDIR.into()));
        }
        if self.user.is_some() || self.group.is_some() {
            Account::of(self)?;
        }
        self.find_program().map_err(|source| {
            let program = self.program().to_string_lossy().into_owned();
            ProcessError::Execute { name: self.name.clone(), program, source }
        })
    }

    fn find_program(&self) -> io::Result<PathBuf> {
        let mut amiss = io::Error::from(Errno::NOENT);
        for path in self.programs() {
            match fs::metadata(&path) {
                Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                    require_interpreter(&path)?;
                    return Ok(path);
                }
                Ok(_) => amiss = Errno::ACCESS.into(),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => amiss = error,
                Err(_) => {}
            }
        }
        Err(amiss)
    }
}

/// Refuses a script whose interpreter is missing. The system only says that there is no such file, as if the script
/// were missing.
fn require_interpreter(program: &Path) -> io::Result<()> {
    let mut line = Vec::new();
    // A user who may execute a program may not always read it.
    let Ok(file) = File::open(program) else { return Ok(()) };
    if file.take(FIRST_LINE).read_to_end(&mut line).is_err() {
        return Ok(());
    }
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_start();
    let word = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    let interpreter = Path::new(OsStr::from_bytes(word));
    match fs::metadata(interpreter) {
        Err(error) if interpreter.is_absolute() && error.kind() == io::ErrorKind::NotFound => {
            let message = format!("its interpreter {interpreter:?} does not exist");
            Err(io::Error::new(error.kind(), message))
        }
        _ => Ok(()),
    }
}
