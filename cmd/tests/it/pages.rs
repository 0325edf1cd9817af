//! What a page has its reader do.

/// A step of a page.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    /// Writes a file: the block after "Write this to `NAME`".
    Write(&'a str, String),
    /// Runs a command of a console, which prints this.
    Run(&'a str, String),
}

/// Returns the steps of a page.
pub(crate) fn steps(page: &str) -> Vec<Step<'_>> {
    let (mut steps, mut file, mut block) = (Vec::new(), None, None);
    for line in page.lines() {
        match (block, line.strip_prefix("```")) {
            (None, Some(language)) => {
                block = Some(language);
                if let Some(name) = file.filter(|_| language != "console") {
                    steps.push(Step::Write(name, String::new()));
                }
            }
            (Some(_), Some(_)) => (block, file) = (None, None),
            (None, None) => {
                let name = line.split("Write this to `").nth(1);
                file = name.and_then(|rest| rest.split('`').next()).or(file);
            }
            (Some("console"), None) if line.starts_with("$ ") => {
                steps.push(Step::Run(&line["$ ".len()..], String::new()));
            }
            (Some(language), None) if language == "console" || file.is_some() => {
                if let Some(Step::Write(_, text) | Step::Run(_, text)) = steps.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
            (Some(_), None) => {}
        }
    }
    steps
}
