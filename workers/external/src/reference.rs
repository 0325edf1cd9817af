//! References of images.

use std::sync::LazyLock;

use regex::Regex;

/// A reference as the Open Container Initiative's distribution has it: a domain with a port, a path, a tag
/// and a digest, of which the path is required.
///
/// Source: the grammar in <https://pkg.go.dev/github.com/distribution/reference>.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let ip = r"\[[a-fA-F0-9:]+\]";
    let domain = format!(r"(?:{label}(?:\.{label})*|{ip})(?::[0-9]+)?");
    let part = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    let tag = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let whole = format!("^(?:{domain}/)?{part}(?:/{part})*(?::{tag})?(?:@{digest})?$");
    Regex::new(&whole).expect("the grammar is a regular expression")
});

/// The longest reference, in bytes.
const LONGEST: usize = 1024;

/// Returns the message about a wrong reference of an image; none for a right one.
pub(crate) fn amiss(reference: &str) -> Option<String> {
    let is_right = reference.len() <= LONGEST && REFERENCE.is_match(reference);
    (!is_right).then(|| {
        "it is no reference of an image; write it as [HOST[:PORT]/]NAME[:TAG][@DIGEST]".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::amiss;

    #[test]
    fn full_references_are_taken() {
        let digest = format!("a/b@sha256:{}", "0".repeat(64));
        for right in [
            "acme/gcp-disk:2.1",
            "busybox:1",
            "localhost:5000/x/y:tag",
            "[::1]:5000/x",
            "registry.example.com/team__a/x-y.z:V_1.2-3",
            &digest,
            &format!("reg:5000/x:1@sha256:{}", "a".repeat(64)),
        ] {
            assert_eq!(amiss(right), None, "{right}");
        }
    }

    #[test]
    fn what_could_be_an_option_or_a_path_is_refused() {
        for wrong in [
            "",
            "-v",
            "--privileged",
            "/x",
            "x/",
            "A/B",
            "x:",
            "x@sha256:1",
            "a b",
            "a\n",
            "../x",
            "./x",
        ] {
            assert!(amiss(wrong).is_some(), "{wrong:?}");
        }
    }
}
