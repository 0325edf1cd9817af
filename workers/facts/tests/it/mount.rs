//! A file system that a test fills up, or makes read-only. Only root can mount one.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::TestResult;

/// A small file system in memory, until it is dropped.
pub(crate) struct Mount(TempDir);

impl Mount {
    pub(crate) fn new(options: &str) -> TestResult<Self> {
        let folder = tempfile::tempdir()?;
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "crankcase-test"])
            .arg(folder.path())
            .output()?;
        if mount.status.success() { Ok(Self(folder)) } else { Err(format!("{mount:?}").into()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk to the last byte.
    pub(crate) fn fill(&self) -> TestResult {
        let mut file = File::create(self.path().join("fill"))?;
        while file.write(&[0; 512])? > 0 {}
        Ok(())
    }

    pub(crate) fn remount(&self, option: &str) -> TestResult {
        let mut mount = Command::new("mount");
        let mount = mount.args(["-o", &format!("remount,{option}")]).arg(self.path()).output()?;
        if mount.status.success() { Ok(()) } else { Err(format!("{mount:?}").into()) }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, because the store is dropped after the mount.
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it cannot be unmounted");
    }
}
