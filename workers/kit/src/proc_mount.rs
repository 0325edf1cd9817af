//! Says in an error that `/proc` is not mounted, if that is its cause.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Where the kernel tells of processes.
const PROC: &str = "/proc";

/// Returns an error that reading or using a file in `/proc` gave; one that says so if the cause is
/// that `/proc` is not mounted. That one is not of the kind `NotFound`: nothing is said of the file.
pub fn explain_proc(error: io::Error) -> io::Error {
    explain(Path::new(PROC), error)
}

fn explain(proc: &Path, error: io::Error) -> io::Error {
    let is_missing = error.kind() == ErrorKind::NotFound;
    // Where it is mounted, every process finds itself there.
    if is_missing && proc.join("self").symlink_metadata().is_err() {
        return io::Error::other(format!("{} is not mounted", proc.display()));
    }
    error
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::path::Path;

    use super::{PROC, explain};

    #[test]
    fn a_missing_proc_is_said_and_no_other_error_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (mounted, not_mounted) = (Path::new(PROC), folder.path());
        let explained = |proc, kind: ErrorKind| explain(proc, io::Error::from(kind));

        let error = explained(not_mounted, ErrorKind::NotFound);

        assert_eq!(error.to_string(), format!("{} is not mounted", not_mounted.display()));
        assert_ne!(error.kind(), ErrorKind::NotFound);
        assert_eq!(explained(mounted, ErrorKind::NotFound).kind(), ErrorKind::NotFound);
        let denied = explained(not_mounted, ErrorKind::PermissionDenied);
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    }
}
