//! How many lines the wirings take.

/// Returns how many lines are neither empty nor comments.
fn lines(code: &str) -> usize {
    let lines = code.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn crankcase_takes_at_most_two_thirds_of_the_lines() {
    let crankcase = lines(include_str!("../../src/bin/daemon.rs"));
    let plain = lines(include_str!("../../src/bin/plain.rs"));

    assert!(crankcase * 3 <= plain * 2, "Crankcase takes {crankcase} lines, and plain {plain}");
    let page = include_str!("../../../../docs/coming-from-tokio.md");
    for row in [format!("| Crankcase | {crankcase} |"), format!("| plain tokio | {plain} |")] {
        assert!(page.contains(&row), "the page does not have this row: {row}");
    }
}
