//! Writes a picture as a flowchart of Mermaid.

use std::fmt::{self, Write};

use crankcase_workers::one_line;

use super::graph::{Look, Picture, Stroke};

/// The class of each look.
const CLASSES: [(Look, &str, &str); 4] = [
    (Look::Well, "well", "stroke:#2e7d32,fill:#eef7ee"),
    (Look::OnItsWay, "way", "stroke:#8a6d00,fill:#fff8e1,stroke-dasharray:6 3"),
    (Look::Off, "off", "stroke:#757575,fill:#f2f2f2,stroke-dasharray:2 3"),
    (Look::Trouble, "trouble", "stroke:#b3261e,fill:#fdeceb,stroke-width:3px"),
];

impl Picture {
    /// Returns the picture as a flowchart of Mermaid. An arrow leads from a user to its input; its line is broken if
    /// the input is not required.
    #[expect(clippy::missing_panics_doc, reason = "writing to a string cannot fail")]
    pub fn to_mermaid(&self) -> String {
        let mut chart = "flowchart RL\n".to_owned();
        for (_, class, style) in CLASSES {
            writeln!(chart, "  classDef {class} {style}").expect("a string takes everything");
        }
        self.write_mermaid(1, &mut 0, &mut chart).expect("a string takes everything");
        chart
    }

    fn write_mermaid(&self, level: usize, next: &mut usize, chart: &mut String) -> fmt::Result {
        let indent = "  ".repeat(level);
        let first = *next;
        *next += self.nodes.len();
        for (number, node) in (first..).zip(&self.nodes) {
            let class = CLASSES.iter().find(|(look, ..)| *look == node.look);
            let class = class.map(|(_, class, _)| format!(":::{class}")).unwrap_or_default();
            let (sign, caption) = (node.look.sign(), node.caption());
            let words = [sign, &node.name].map(quoted).join(" ");
            let label = format!("{}<br>{}", words.trim_start(), quoted(&caption));
            let label = label.trim_end_matches("<br>");
            match node.inner.as_ref().filter(|inner| !inner.nodes.is_empty()) {
                Some(inner) => {
                    writeln!(chart, "{indent}subgraph n{number}[\"{label}\"]")?;
                    inner.write_mermaid(level + 1, next, chart)?;
                    writeln!(chart, "{indent}end")?;
                }
                None => writeln!(chart, "{indent}n{number}[\"{label}\"]{class}")?,
            }
        }
        for edge in &self.edges {
            let arrow = match edge.stroke {
                _ if edge.is_left_out => "-. left out .->",
                Stroke::Solid => "-->",
                Stroke::Dashed | Stroke::Dotted => "-.->",
            };
            writeln!(chart, "{indent}n{} {arrow} n{}", first + edge.user, first + edge.input)?;
        }
        Ok(())
    }
}

/// Returns a text for a label: all that has a meaning there is written as the number of the character.
fn quoted(text: &str) -> String {
    let text = one_line(text);
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | '[' | ']' | '{' | '}' | '|' | ';' | '%' => {
                quoted.push_str(&format!("#{};", character as u32));
            }
            other => quoted.push(other),
        }
    }
    quoted
}
