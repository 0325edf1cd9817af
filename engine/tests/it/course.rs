//! The course: its examples, run as processes, and the page that tells it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestResult;

/// The folder of the whole workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo builds examples beside the tests, but tells no path.
fn built(example: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target folder")?;
    let built = folder.join("examples").join(example.file_stem().ok_or("no name")?);
    if built.exists() { Ok(built) } else { Err(format!("{built:?} is not built").into()) }
}

#[test]
fn each_example_prints_what_stands_beside_it() -> TestResult {
    let mut wrong = Vec::new();
    let mut ran = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))? {
        let example = entry?.path();
        if example.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }

        let output = Command::new(built(&example)?).output()?;

        ran += 1;
        let printed = String::from_utf8(output.stdout)?;
        let expected = fs::read_to_string(example.with_extension("txt"))?;
        if printed != expected || !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{example:?}: {}\n{printed}\n{errors}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 0, "there are no examples");
    Ok(())
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
fn the_page_tells_of_each_example_of_the_engine() -> TestResult {
    let page = fs::read_to_string(workspace().join("docs/course.md"))?;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))? {
        let name = entry?.file_name().into_string().map_err(|name| format!("{name:?}"))?;
        if name.ends_with(".rs") {
            assert!(page.contains(&format!("](../engine/examples/{name})")), "nothing on {name}");
        }
    }
    Ok(())
}
