//! Draws a picture with the characters of a terminal.

use crankcase_workers::one_line;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::graph::{Edge, Look, Node, Picture, shortened};
use super::layout::{Measures, lay_out};
use super::wires::{Wires, Wiring, channels};

/// One line of a picture in characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    /// Its parts from left to right.
    pub spans: Vec<Span>,
}

/// A part of a line that looks the same all through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The characters.
    pub text: String,
    /// How what they show is.
    pub look: Look,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.spans.iter().try_for_each(|span| f.write_str(&span.text))
    }
}

impl Picture {
    /// Draws the picture as lines of text. An arrow leads from a user to its input. A line is broken for an optional
    /// input and dotted for a live one.
    pub fn to_text(&self) -> Vec<Line> {
        let mut canvas = draw(self);
        self.add_notes(&mut canvas);
        canvas.rows.into_iter().map(line).collect()
    }

    /// Writes below the canvas what is not drawn: how much was left out, and which edges.
    fn add_notes(&self, canvas: &mut Canvas) {
        let mut row = canvas.rows.len();
        let mut note = |text: &str| {
            canvas.write((row, 0), text, Look::Plain);
            row += 1;
        };
        self.notes().for_each(|text| note(&text));
        for edge in self.edges.iter().filter(|edge| edge.is_left_out) {
            let because = edge.because.as_ref().map(|because| format!(" ({because})"));
            let (user, input) = (&self.nodes[edge.user].name, &self.nodes[edge.input].name);
            let text = format!("left out: {user} -> {input}{}", because.unwrap_or_default());
            note(&one_line(&text));
        }
    }
}

/// Returns the characters of a row without the blanks at its end.
fn line(row: Vec<Cell>) -> Line {
    let mut line = Line::default();
    let end = row.iter().rposition(|cell| cell.character != ' ').map_or(0, |last| last + 1);
    for Cell { character, look } in row.into_iter().take(end).filter(|it| it.character != COVERED) {
        match line.spans.last_mut() {
            Some(span) if span.look == look => span.text.push(character),
            _ => line.spans.push(Span { text: character.to_string(), look }),
        }
    }
    line
}

/// The second column of a wide character.
const COVERED: char = '\0';

#[derive(Debug, Clone, Copy)]
struct Cell {
    character: char,
    look: Look,
}

/// Characters in rows and columns. It is as large as what was written.
#[derive(Debug, Default)]
struct Canvas {
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    fn width(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }

    fn put(&mut self, (row, column): (usize, usize), cell: Cell) {
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Vec::new);
        }
        let row = &mut self.rows[row];
        if row.len() <= column {
            row.resize(column + 1, Cell { character: ' ', look: Look::Plain });
        }
        row[column] = cell;
    }

    fn write(&mut self, (row, mut column): (usize, usize), text: &str, look: Look) {
        for character in text.chars() {
            self.put((row, column), Cell { character, look });
            let width = character.width().unwrap_or(0);
            for covered in 1..width {
                self.put((row, column + covered), Cell { character: COVERED, look });
            }
            column += width.max(1);
        }
    }

    fn place(&mut self, (row, column): (usize, usize), other: &Self) {
        for (down, cells) in other.rows.iter().enumerate() {
            for (right, cell) in cells.iter().enumerate() {
                self.put((row + down, column + right), *cell);
            }
        }
    }

    fn is_blank(&self, (row, column): (usize, usize)) -> bool {
        let cell = self.rows.get(row).and_then(|cells| cells.get(column));
        cell.is_none_or(|cell| cell.character == ' ')
    }
}

fn draw(picture: &Picture) -> Canvas {
    let boxes: Vec<Canvas> = picture.nodes.iter().map(draw_node).collect();
    let heights: Vec<i32> = boxes.iter().map(|it| it.rows.len() as i32).collect();
    let edges: Vec<&Edge> = picture.edges.iter().filter(|edge| !edge.is_left_out).collect();
    let layout = lay_out(Measures { heights: &heights, pass: 1, gap: 0 }, &picture.ordering());
    let wiring = Wiring { layout: &layout, heights: &heights, edges: &edges };
    let count = layout.layers.iter().max().map_or(0, |last| last + 1);
    let mut widths = vec![0; count];
    for (layer, drawn) in layout.layers.iter().zip(&boxes) {
        widths[*layer] = drawn.width().max(widths[*layer]);
    }
    let mut canvas = Canvas::default();
    let mut wires = Wires::default();
    let mut left = 0;
    for (layer, width) in widths.into_iter().enumerate() {
        let all = boxes.iter().enumerate().filter(|(node, _)| layout.layers[*node] == layer);
        for (node, drawn) in all {
            canvas.place((layout.tops[node] as usize, left), drawn);
        }
        let right = left + width;
        let nets = wiring.nets(layer);
        let channels = channels(&nets);
        let next = right + channels.iter().max().map_or(1, |last| last + 1) + 4;
        for (net, channel) in nets.iter().zip(channels) {
            let begin = if net.passes { left } else { left + boxes[net.input].width() };
            wires.add(net, (begin, right + 2 + channel, next));
            if !net.passes {
                canvas.write((net.from, begin), "◄", Look::Plain);
            }
        }
        left = next;
    }
    for (place, character) in wires.characters() {
        if canvas.is_blank(place) {
            canvas.put(place, Cell { character, look: Look::Plain });
        }
    }
    canvas.rows.retain(|row| row.iter().any(|cell| cell.character != ' '));
    canvas
}

fn draw_node(node: &Node) -> Canvas {
    let mut canvas = Canvas::default();
    let sign = node.look.sign();
    let space = if sign.is_empty() { "" } else { " " };
    let name = shortened(&node.name);
    let caption = node.caption();
    let caption = match &*caption {
        "" | "running" => String::new(),
        caption => format!(" ({})", one_line(caption)),
    };
    let title = format!("{sign}{space}{name}{caption}");
    let Some(inner) = node.inner.as_ref().filter(|inner| !inner.nodes.is_empty()) else {
        canvas.write((0, 0), &format!("[{title}]"), node.look);
        return canvas;
    };
    let inner = draw(inner);
    let width = (inner.width() + 2).max(title.width() + 1);
    canvas.write((0, 0), &format!("┌{}┐", "─".repeat(width)), Look::Plain);
    canvas.write((0, 1), &title, node.look);
    for row in 0..inner.rows.len() {
        canvas.write((row + 1, 0), "│", Look::Plain);
        canvas.write((row + 1, width + 1), "│", Look::Plain);
    }
    canvas.write((inner.rows.len() + 1, 0), &format!("└{}┘", "─".repeat(width)), Look::Plain);
    canvas.place((1, 2), &inner);
    canvas
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::picture::{Edge, Look, Node, Picture, Stroke};

    /// Returns a picture of nodes and of edges from users to inputs.
    fn picture(nodes: &[(&str, Look)], edges: &[(&str, &str, Stroke)]) -> Picture {
        let node = |(name, look): &(&str, Look)| Node {
            path: (*name).to_owned(),
            name: (*name).to_owned(),
            words: if *look == Look::Trouble { "backing off".to_owned() } else { String::new() },
            look: *look,
            ..Node::default()
        };
        let at = |name: &str| nodes.iter().position(|(it, _)| *it == name).unwrap_or_default();
        let edge = |(user, input, stroke): &(&str, &str, Stroke)| Edge {
            user: at(user),
            input: at(input),
            stroke: *stroke,
            because: None,
            is_left_out: false,
        };
        Picture {
            nodes: nodes.iter().map(node).collect(),
            edges: edges.iter().map(edge).collect(),
            ..Picture::default()
        }
    }

    fn drawn(picture: &Picture) -> String {
        picture.to_text().iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn lines_lead_from_inputs_to_their_users() {
        let picture = picture(
            &[
                ("root", Look::Well),
                ("disk", Look::Trouble),
                ("app", Look::OnItsWay),
                ("log", Look::Well),
                ("web", Look::OnItsWay),
                ("alone", Look::Off),
            ],
            &[
                ("app", "root", Stroke::Solid),
                ("app", "disk", Stroke::Solid),
                ("log", "root", Stroke::Dashed),
                ("web", "app", Stroke::Solid),
                ("web", "log", Stroke::Dotted),
                ("web", "root", Stroke::Solid),
            ],
        );

        let expected = "
                        ┌╌╌[✓ log]◄──┐
[✓ root]◄───────────────┼───────────┬┴┈┈[… web]
[✗ disk (backing off)]◄─┴──[… app]◄─┘
[‖ alone]
";
        assert_eq!(drawn(&picture), expected.trim_start_matches('\n'));
    }

    #[test]
    fn an_engine_is_a_frame() {
        let mut outer = picture(
            &[("config", Look::Well), ("site", Look::Trouble), ("page", Look::OnItsWay)],
            &[("site", "config", Stroke::Solid), ("page", "site", Stroke::Solid)],
        );
        outer.nodes[1].inner =
            Some(picture(&[("a", Look::Well), ("b", Look::Trouble)], &[("b", "a", Stroke::Solid)]));

        let expected = "
               ┌✗ site (backing off)───────────┐
[✓ config]◄────│ [✓ a]◄────[✗ b (backing off)] │◄────[… page]
               └───────────────────────────────┘
";
        assert_eq!(drawn(&outer), expected.trim_start_matches('\n'));
    }

    #[test]
    fn equal_siblings_are_one_box_unless_they_are_opened() {
        let names: Vec<String> = (0..5).map(|number| format!("home{number}")).collect();
        let mut nodes: Vec<_> = names.iter().map(|name| (name.as_str(), Look::Well)).collect();
        nodes.extend([("root", Look::Well), ("bad", Look::Trouble)]);
        let edges: Vec<_> =
            names.iter().map(|name| (name.as_str(), "root", Stroke::Solid)).collect();
        let picture = picture(&nodes, &edges);

        let folded = picture.clone().readable(&BTreeSet::new());
        let open = picture.readable(&BTreeSet::from(["home3".to_owned()]));

        let expected = "
[✓ root]◄─────────────────[✓ home… ×5]
[✗ bad (backing off)]
";
        assert_eq!(drawn(&folded), expected.trim_start_matches('\n'));
        assert_eq!(open.nodes.len(), 7);
    }

    #[test]
    fn names_reach_no_terminal_unescaped() {
        let long = "x".repeat(1 << 20);
        let picture = picture(
            &[("a\u{1b}[2J\n\u{202e}b", Look::Trouble), ("日本", Look::Well), (&long, Look::Well)],
            &[],
        );

        let lines = picture.to_text();

        let text: String = lines.iter().map(ToString::to_string).collect();
        assert!(!text.contains(crankcase_workers::is_unprintable), "{text:?}");
        assert!(text.chars().count() < 200, "{text}");
    }
}
