//! The page that tells the course of examples.

use std::fs;
use std::path::{Path, PathBuf};

use crate::TestResult;

/// The folder of the whole workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of code or output in the page.
struct Quote<'a> {
    /// The example that the text before it links to.
    example: &'a str,
    language: &'a str,
    lines: Vec<&'a str>,
}

fn quotes(page: &str) -> Vec<Quote<'_>> {
    let (mut example, mut quotes, mut open) = ("", Vec::new(), None);
    for line in page.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some(Quote { example, language, lines: vec![] }),
            (Some(_), Some(quote)) => quotes.push(quote),
            (None, Some(mut quote)) => {
                quote.lines.push(line.trim());
                open = Some(quote);
            }
            (None, None) => {
                let links = line.split("](../").skip(1).filter_map(|link| link.split_once(')'));
                let examples = links.map(|(path, _)| path).filter(|path| path.ends_with(".rs"));
                example = examples.last().unwrap_or(example);
            }
        }
    }
    quotes
}

#[test]
fn what_the_page_quotes_stands_in_the_examples() -> TestResult {
    let page = fs::read_to_string(workspace().join("docs/course.md"))?;
    let quotes = quotes(&page);

    for Quote { example, language, lines } in &quotes {
        let source = workspace().join(example);
        let source = match *language {
            "rust" => source,
            "text" => source.with_extension("txt"),
            // Commands.
            _ => continue,
        };
        let text = fs::read_to_string(&source).map_err(|error| format!("{source:?}: {error}"))?;
        let text: Vec<_> = text.lines().map(str::trim).collect();
        let stands = text.windows(lines.len()).any(|window| window == lines);
        assert!(stands, "{source:?} does not have:\n{}", lines.join("\n"));
    }

    assert!(quotes.iter().any(|quote| quote.language == "rust"), "the page quotes nothing");
    Ok(())
}

#[test]
fn the_page_tells_of_each_example_with_an_output() -> TestResult {
    let page = fs::read_to_string(workspace().join("docs/course.md"))?;
    for folder in ["engine/examples", "testing/examples", "manifolds/examples"] {
        for entry in fs::read_dir(workspace().join(folder))? {
            let name = entry?.file_name().into_string().map_err(|name| format!("{name:?}"))?;
            if let Some(stem) = name.strip_suffix(".txt") {
                let link = format!("](../{folder}/{stem}.rs)");
                assert!(page.contains(&link), "nothing on {folder}/{stem}.rs");
            }
        }
    }
    Ok(())
}
