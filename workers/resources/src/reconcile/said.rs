use crate::text::excerpt;

/// Logs what actions said, all of it or its beginning and its end: a command that fails for ever must
/// not fill the disk with its output.
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

/// Says in what a resource with `noop` is not as declared.
pub(super) fn left_alone(amiss: &str) -> String {
    format!("it is left alone (noop): {amiss}")
}
