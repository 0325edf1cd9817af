//! Draws a picture as SVG.

use std::fmt::Write as _;

use crankcase_workers::{name_first, one_line};
use unicode_width::UnicodeWidthStr;

use super::graph::{Edge, Look, Node, Picture, Stroke, shortened};
use super::layout::{Layout, Measures, lay_out};

/// The distance between two layers.
const BETWEEN: i32 = 48;

/// The least distance between two boxes of one layer.
const GAP: i32 = 12;

/// The distance from a frame to what is in it, and its title above that.
const MARGIN: i32 = 12;
const TITLE: i32 = 40;

impl Picture {
    /// Draws the picture as an SVG document. It needs no script and no stylesheet; the classes of its elements are
    /// there for one. An arrow leads from a user to its input. A line is dashed for an optional input and dotted for a
    /// live one.
    ///
    /// Each node has its number in `data-node` and its path in `data-path`, each edge the numbers of its input and its
    /// user in `data-input` and `data-user`. `data-folded` is how many equal nodes a node stands for, and `data-closed`
    /// how many nodes in it are left out. Names that are longer than 40 characters are shortened; the titles have
    /// all of them.
    pub fn to_svg(&self) -> String {
        let placed = Placed::new(self);
        let mut body = format!("<g transform=\"translate({MARGIN} {MARGIN})\">\n");
        placed.write(&mut 0, &mut body);
        body.push_str("</g>\n");
        let mut height = placed.height + 2 * MARGIN;
        for note in self.notes() {
            body.push_str(&text((MARGIN, height), "", &note));
            height += MARGIN;
        }
        document("what needs what", (placed.width + 2 * MARGIN, height), &body)
    }
}

/// Returns an SVG document of this size.
pub(super) fn document(title: &str, (width, height): (i32, i32), body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, monospace\" font-size=\"12\" fill=\"#1b1b1b\">\n\
         <title>{}</title>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{body}</svg>\n",
        escaped(title)
    )
}

/// Returns an element with a text. `attributes` begin with a space.
pub(super) fn text((x, y): (i32, i32), attributes: &str, text: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\"{attributes}>{}</text>\n", escaped(text))
}

/// Returns a text on one line, as it is written in XML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    escaped
}

/// Writes a text on one line, as it is written in XML.
fn escape(text: &str, svg: &mut String) {
    let text = one_line(text);
    let mut rest = &*text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\u{fffe}', '\u{ffff}']) {
        svg.push_str(&rest[..at]);
        let mut characters = rest[at..].chars();
        svg.push_str(match characters.next() {
            Some('&') => "&amp;",
            Some('<') => "&lt;",
            Some('>') => "&gt;",
            Some('"') => "&quot;",
            Some('\'') => "&#39;",
            // XML has no way to write the others.
            _ => "\u{fffd}",
        });
        rest = characters.as_str();
    }
    svg.push_str(rest);
}

/// Returns the width of a text of this size.
pub(super) fn width(text: &str, size: i32) -> i32 {
    // A character of a monospaced font is about 0.6 times as wide as high.
    let columns = if text.is_ascii() { text.len() } else { text.width() };
    let columns = i32::try_from(columns).unwrap_or(i32::MAX / 100);
    (columns * size * 61 + 99) / 100
}

/// Returns the class of a node or a bar, and its line and colour.
pub(super) fn style(look: Look) -> &'static str {
    match look {
        Look::Plain => "class=\"plain\" stroke=\"#444444\" fill=\"#ffffff\"",
        Look::Well => "class=\"well\" stroke=\"#2e7d32\" fill=\"#eef7ee\"",
        Look::OnItsWay => {
            "class=\"way\" stroke=\"#8a6d00\" fill=\"#fff8e1\" stroke-dasharray=\"6 3\""
        }
        Look::Off => "class=\"off\" stroke=\"#757575\" fill=\"#f2f2f2\" stroke-dasharray=\"2 3\"",
        Look::Trouble => {
            "class=\"trouble\" stroke=\"#b3261e\" fill=\"#fdeceb\" stroke-width=\"2.5\""
        }
    }
}

/// A picture whose boxes have their sizes and places.
struct Placed<'a> {
    picture: &'a Picture,
    layout: Layout,
    boxes: Vec<Sized<'a>>,
    /// Where each layer begins and ends.
    columns: Vec<(i32, i32)>,
    width: i32,
    height: i32,
}

/// A node with its size.
struct Sized<'a> {
    node: &'a Node,
    name: String,
    caption: String,
    inner: Option<Placed<'a>>,
    width: i32,
    height: i32,
}

impl<'a> Sized<'a> {
    fn new(node: &'a Node) -> Self {
        let sign = node.look.sign();
        let space = if sign.is_empty() { "" } else { " " };
        let name = format!("{sign}{space}{}", shortened(&node.name));
        let caption = node.caption();
        let texts = width(&name, 12).max(width(&caption, 10)) + 20;
        let inner = node.inner.as_ref().filter(|inner| !inner.nodes.is_empty()).map(Placed::new);
        let (width, height) = match &inner {
            Some(inner) => (texts.max(inner.width + 2 * MARGIN), inner.height + TITLE + MARGIN),
            None => (texts, if caption.is_empty() { 26 } else { 38 }),
        };
        Self { node, name, caption, inner, width, height }
    }

    /// Writes the box with its upper left corner at a place.
    fn write(&self, (x, y): (i32, i32), number: usize, next: &mut usize, svg: &mut String) {
        let Self { node, name, caption, inner, width, height } = self;
        let style = style(node.look);
        append(
            svg,
            format_args!("<g transform=\"translate({x} {y})\" data-node=\"{number}\" data-path=\""),
        );
        escape(&node.path, svg);
        svg.push('"');
        let omitted = node.inner.as_ref().map_or(0, |inner| inner.omitted);
        match (node.folded.len(), omitted) {
            (0, 0) => {}
            (0, omitted) => append(svg, format_args!(" data-closed=\"{omitted}\"")),
            (folded, _) => append(svg, format_args!(" data-folded=\"{folded}\"")),
        }
        append(svg, format_args!(" {style}><title>"));
        escape(&title(node), svg);
        svg.push_str("</title>");
        if !node.folded.is_empty() {
            append(
                svg,
                format_args!(
                    "<rect x=\"4\" y=\"4\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>"
                ),
            );
        }
        let frame = if inner.is_some() { " class=\"frame\" fill-opacity=\"0.3\"" } else { "" };
        append(svg, format_args!("<rect width=\"{width}\" height=\"{height}\" rx=\"5\"{frame}/>"));
        svg.push_str("<text x=\"10\" y=\"17\" class=\"name\" fill=\"#1b1b1b\" stroke=\"none\">");
        escape(name, svg);
        svg.push_str("</text>");
        if !caption.is_empty() {
            svg.push_str("<text x=\"10\" y=\"31\" class=\"words\" fill=\"#444444\" stroke=\"none\" font-size=\"10\">");
            escape(caption, svg);
            svg.push_str("</text>");
        }
        svg.push_str("</g>\n");
        if let Some(inner) = inner {
            append(
                svg,
                format_args!("<g transform=\"translate({} {})\">\n", x + MARGIN, y + TITLE),
            );
            inner.write(next, svg);
            svg.push_str("</g>\n");
        }
    }
}

impl<'a> Placed<'a> {
    fn new(picture: &'a Picture) -> Self {
        let boxes: Vec<Sized<'_>> = picture.nodes.iter().map(Sized::new).collect();
        let heights: Vec<i32> = boxes.iter().map(|it| it.height).collect();
        let measures = Measures { heights: &heights, pass: 0, gap: GAP };
        let layout = lay_out(measures, &picture.ordering());
        let mut widths = vec![0; layout.layers.iter().max().map_or(0, |last| last + 1)];
        for (layer, sized) in layout.layers.iter().zip(&boxes) {
            widths[*layer] = sized.width.max(widths[*layer]);
        }
        let mut end = 0;
        let columns = widths.into_iter().map(|width| {
            let begin = end;
            end += width + BETWEEN;
            (begin, begin + width)
        });
        let columns = columns.collect();
        let (width, height) = ((end - BETWEEN).max(0), layout.height);
        Self { picture, layout, boxes, columns, width, height }
    }

    fn write(&self, next: &mut usize, svg: &mut String) {
        let first = *next;
        *next += self.boxes.len();
        let mut passes = self.layout.passes.iter();
        let mut is_used = vec![false; self.boxes.len()];
        for edge in &self.picture.edges {
            let passes = if edge.is_left_out { None } else { passes.next() };
            self.edge(edge, (passes.map(Vec::as_slice), first), svg);
            is_used[edge.input] = true;
        }
        for (at, sized) in self.boxes.iter().enumerate() {
            let (x, y) = self.corner(at);
            sized.write((x, y), first + at, next, svg);
            if is_used[at] {
                let (x, y) = (x + sized.width, y + sized.height / 2);
                append(
                    svg,
                    format_args!(
                        "<path class=\"arrow\" d=\"M{x} {y}l8 -4v8z\" fill=\"#666666\"/>\n"
                    ),
                );
            }
        }
    }

    fn corner(&self, node: usize) -> (i32, i32) {
        (self.columns[self.layout.layers[node]].0, self.layout.tops[node])
    }

    fn middle(&self, node: usize) -> i32 {
        self.layout.tops[node] + self.boxes[node].height / 2
    }

    fn edge(&self, edge: &Edge, (passes, first): (Option<&[i32]>, usize), svg: &mut String) {
        let [input, user] = [edge.input, edge.user].map(|at| &self.picture.nodes[at]);
        let is_cause = input.look == Look::Trouble && user.look != Look::Well;
        let (class, color) = match () {
            () if edge.is_left_out => ("edge out", "#b3261e\" stroke-dasharray=\"1 4"),
            () if is_cause => ("edge cause", "#b3261e\" stroke-width=\"2"),
            () if edge.because.is_some() => ("edge auto", "#aaaaaa"),
            () => ("edge", "#666666"),
        };
        let dashes = match edge.stroke {
            _ if edge.is_left_out => "",
            Stroke::Solid => "",
            Stroke::Dashed => " stroke-dasharray=\"7 4\"",
            Stroke::Dotted => " stroke-dasharray=\"2 3\"",
        };
        let numbers = (first + edge.input, first + edge.user);
        append(
            svg,
            format_args!(
                "<path class=\"{class}\" data-input=\"{}\" data-user=\"{}\" fill=\"none\" \
                 stroke=\"{color}\"{dashes} d=\"",
                numbers.0, numbers.1,
            ),
        );
        self.route(edge, passes, svg);
        svg.push_str("\"><title>");
        escape(&user.name, svg);
        svg.push_str(" uses ");
        escape(&input.name, svg);
        svg.push_str(if edge.is_left_out { " (left out)" } else { "" });
        if let Some(because) = &edge.because {
            svg.push_str(": ");
            escape(because, svg);
        }
        svg.push_str("</title></path>\n");
    }

    /// Writes the way of an edge from its input to its user.
    fn route(&self, edge: &Edge, passes: Option<&[i32]>, svg: &mut String) {
        let from = self.layout.layers[edge.input];
        let begin = self.corner(edge.input).0 + self.boxes[edge.input].width;
        // The box may end before its layer does.
        let mut at = (self.columns[from].1, self.middle(edge.input));
        append(svg, format_args!("M{begin} {}H{}", at.1, at.0));
        let passes = (from + 1..).zip(passes.unwrap_or_default());
        let passes = passes.map(|(layer, y)| (self.columns[layer], *y));
        let end = self.corner(edge.user).0;
        for ((begin, end), y) in passes.chain([((end, end), self.middle(edge.user))]) {
            let half = BETWEEN / 2;
            append(
                svg,
                format_args!("C{} {} {} {y} {begin} {y}H{end}", at.0 + half, at.1, begin - half),
            );
            at = (end, y);
        }
    }
}

fn append(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a string takes everything");
}

/// Returns what is shown of a node when it is pointed at.
fn title(node: &Node) -> String {
    const NAMED: usize = 5;
    let caption = node.caption();
    let mut title =
        if caption.is_empty() { node.path.clone() } else { format!("{}: {caption}", node.path) };
    if !node.folded.is_empty() {
        let named = name_first(NAMED, node.folded.iter());
        title = format!("{} equal ones: {named}", node.folded.len());
    }
    title
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::error::Error;

    use crate::picture::{Edge, Look, Node, Picture, Stroke};

    const HOSTILE: [&str; 5] =
        ["</text><script>alert(1)</script>", "a\u{1b}[2J\0b", "\u{202e}x", "\"'&amp;", "\u{ffff}"];

    fn hub(users: usize) -> Picture {
        let node = |at: usize| Node {
            path: format!("/agent/n{at}"),
            name: format!("n{at}"),
            look: Look::Well,
            ..Node::default()
        };
        let edge = |user| Edge {
            user,
            input: 0,
            stroke: Stroke::Dotted,
            because: None,
            is_left_out: false,
        };
        Picture {
            nodes: (0..=users).map(node).collect(),
            edges: (1..=users).map(edge).collect(),
            ..Picture::default()
        }
    }

    #[test]
    fn what_comes_from_elsewhere_is_no_markup() -> Result<(), Box<dyn Error>> {
        let mut picture = hub(4);
        for (node, text) in picture.nodes.iter_mut().zip(HOSTILE) {
            (node.path, node.name, node.words) =
                (text.to_owned(), text.to_owned(), text.to_owned());
        }
        picture.edges[0].because = Some(HOSTILE[0].to_owned());

        let svg = picture.to_svg();

        let document = roxmltree::Document::parse(&svg)?;
        let known = ["svg", "title", "rect", "g", "text", "path"];
        let mut elements = document.descendants().filter(roxmltree::Node::is_element);
        assert!(elements.all(|it| known.contains(&it.tag_name().name())), "{svg}");
        let titles = document.descendants().filter(|it| it.has_tag_name("title"));
        let titles: Vec<_> = titles.filter_map(|title| title.text()).collect();
        assert!(titles.contains(&&*format!("{0}: {0}", HOSTILE[0])), "{titles:?}");
        assert!(!svg.contains(|it| crankcase_workers::is_unprintable(it) && it != '\n'));
        Ok(())
    }

    #[test]
    fn numbers_join_edges_to_nodes_at_any_depth() -> Result<(), Box<dyn Error>> {
        let mut outer = hub(2);
        outer.nodes[1].inner = Some(hub(3));

        let svg = outer.to_svg();

        let document = roxmltree::Document::parse(&svg)?;
        let find =
            |name: &'static str| document.descendants().filter_map(move |it| it.attribute(name));
        let mut nodes: Vec<usize> = find("data-node").map(str::parse).collect::<Result<_, _>>()?;
        nodes.sort_unstable();
        assert_eq!(nodes, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(find("data-user").collect::<Vec<_>>(), ["1", "2", "4", "5", "6"]);
        Ok(())
    }

    #[test]
    fn the_picture_of_thousands_is_small() {
        let mut picture = hub(10_000);
        picture.nodes[77].look = Look::Trouble;

        let readable = picture.readable(&BTreeSet::new());

        assert_eq!(readable.count(), 3);
        assert!(readable.to_svg().matches('<').count() < 1500);
    }

    #[test]
    fn circles_are_drawn() {
        let mut picture = hub(1);
        picture.edges.push(Edge { user: 0, input: 1, ..picture.edges[0].clone() });
        picture.edges.push(Edge { is_left_out: true, ..picture.edges[0].clone() });

        assert_eq!(picture.to_svg().matches("data-user").count(), 3);
        assert_eq!(picture.to_text().len(), 2);
    }
}
