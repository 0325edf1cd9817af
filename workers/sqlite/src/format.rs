//! What files of a kind hold.

/// What is in the files of a kind.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// The content, as a noun that errors name, such as `facts`.
    pub content: &'static str,
    /// The application id, which tells these files from other SQLite files; 0 for files that were
    /// made without one.
    pub application: i32,
    /// The SQL from each version of the tables to the next one, at least one. Their number is the
    /// newest version.
    pub steps: &'static [&'static str],
}

impl Format {
    /// Returns the newest version.
    pub(crate) fn newest(&self) -> i64 {
        self.steps.len() as i64
    }
}
