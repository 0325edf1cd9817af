/// How many lines of what the actions of one round said are logged: a command that fails for ever
/// must not fill the disk with its output.
const LOGGED: usize = 100;

/// Logs what actions said: all of it, or its beginning and its end.
pub(super) fn log(resource: &str, lines: &[String]) {
    let each = |lines: &[String]| {
        for line in lines {
            tracing::info!(resource, line, "an action said");
        }
    };
    let (head, left_out, tail) = excerpt(lines);
    each(head);
    if left_out > 0 {
        tracing::info!(resource, lines = left_out, "an action said more");
    }
    each(tail);
}

/// Returns the beginning and the end of what is too long, and how many lines are between them.
fn excerpt(lines: &[String]) -> (&[String], usize, &[String]) {
    let left_out = lines.len().saturating_sub(LOGGED);
    if left_out == 0 {
        return (lines, 0, &[]);
    }
    let (head, rest) = lines.split_at(LOGGED / 2);
    (head, left_out, &rest[left_out..])
}
