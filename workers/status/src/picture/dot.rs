//! Writes a picture in the DOT language.

use std::fmt::{self, Write};

use crankcase_workers::one_line;

use super::graph::{Edge, Look, Node, Picture, Stroke};

impl Picture {
    /// Returns the picture in the DOT language, for Graphviz. Each engine has a frame of its own. An arrow leads from a
    /// user to its input. It is dashed for an optional input and dotted for a live one, and grey with its reason as its
    /// tooltip if nobody has declared it. A red one is left out and orders nothing.
    #[expect(clippy::missing_panics_doc, reason = "writing to a string cannot fail")]
    pub fn to_dot(&self) -> String {
        let mut dot =
            "digraph crankcase {\n  node [shape=box style=filled fillcolor=white]\n".to_owned();
        self.write_dot(1, &mut dot).expect("a string takes everything");
        dot + "}\n"
    }

    fn write_dot(&self, level: usize, dot: &mut String) -> fmt::Result {
        let indent = "  ".repeat(level);
        for node in &self.nodes {
            let label = [&node.name, &node.caption()].map(|it| one_line(it).into_owned());
            let label = quoted(label.join("\n").trim_end());
            write!(dot, "{indent}{} [label={label}", quoted(&node.path))?;
            match color(node.look) {
                "white" => writeln!(dot, "]")?,
                color => writeln!(dot, " fillcolor={color}]")?,
            }
        }
        for edge in &self.edges {
            let [user, input] = [edge.user, edge.input].map(|at| quoted(&self.nodes[at].path));
            writeln!(dot, "{indent}{user} -> {input} [{}]", style(edge))?;
        }
        for (node, inner) in self.nodes.iter().filter_map(|node| Some((node, node.inner.as_ref()?)))
        {
            let Node { path, .. } = node;
            writeln!(dot, "{indent}subgraph {} {{", quoted(&format!("cluster {path}")))?;
            writeln!(dot, "{indent}  label={}", quoted(path))?;
            inner.write_dot(level + 1, dot)?;
            writeln!(dot, "{indent}}}")?;
        }
        Ok(())
    }
}

fn style(edge: &Edge) -> String {
    let style = match edge.stroke {
        Stroke::Solid => "style=solid",
        Stroke::Dashed => "style=dashed",
        Stroke::Dotted => "style=dotted",
    };
    let color = match &edge.because {
        _ if edge.is_left_out => " color=red constraint=false label=\"left out\"",
        Some(_) => " color=grey",
        None => "",
    };
    let because = edge.because.as_ref().map(|because| format!(" tooltip={}", quoted(because)));
    format!("{style}{color}{}", because.unwrap_or_default())
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", one_line(&text))
}

fn color(look: Look) -> &'static str {
    match look {
        Look::Plain => "white",
        Look::Well => "palegreen",
        Look::OnItsWay => "khaki",
        Look::Off => "lightgrey",
        Look::Trouble => "salmon",
    }
}
