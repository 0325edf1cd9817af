//! Draws the boot.

use std::collections::BTreeSet;

use super::svg::{document, escaped, text, width};
use crate::boot::{Boot, BootStep, NotUp, seconds};
use crate::wire::WaitedFor;

/// How many workers are drawn, the critical path included, and how many of those that are not up.
const ROWS: usize = 50;
const NOT_UP: usize = 20;

/// The height of a row, the width of the times, and the widest label.
const ROW: i32 = 20;
const CHART: i32 = 640;
const LABEL: i32 = 320;

/// Where the rows begin.
const TOP: i32 = 64;

const LEFT: i32 = 12;

/// At most so many ticks are on the axis of time.
const TICKS: f64 = 8.0;

impl Boot {
    /// Draws the boot as an SVG document, a row for each worker: when it waited, and when its start ran. The critical
    /// path is dark. It needs no script and no stylesheet.
    ///
    /// At most 50 workers are drawn: the critical path, and those that took the longest. Below them are at most 20 of
    /// those that are not up. `name` returns what is shown for the path of a worker.
    pub fn to_svg(&self, name: impl Fn(&str) -> String) -> String {
        let critical: BTreeSet<&str> =
            self.critical.iter().map(|step| step.path.as_str()).collect();
        let is_critical = |step: &BootStep| critical.contains(step.path.as_str());
        let mut drawn: Vec<&BootStep> = self.workers.iter().collect();
        drawn.sort_by_key(|step| (!is_critical(step), std::cmp::Reverse(step.took())));
        let mut omitted = drawn.len().saturating_sub(ROWS);
        drawn.truncate(ROWS);
        drawn.sort_by(|a, b| a.begun.total_cmp(&b.begun).then_with(|| a.path.cmp(&b.path)));
        let not_up = &self.not_up[..self.not_up.len().min(NOT_UP)];
        omitted += self.not_up.len() - not_up.len();

        let paths = drawn.iter().map(|step| &step.path).chain(not_up.iter().map(|it| &it.path));
        let label = paths.map(|path| width(&name(path), 12)).max().unwrap_or(0).min(LABEL);
        let end = drawn.iter().map(|step| step.up).fold(0.001, f64::max);
        let axis = Axis { left: LEFT + label + 16, end };
        let height =
            TOP + ROW * i32::try_from(drawn.len() + not_up.len()).unwrap_or(i32::MAX / ROW);

        let mut body = text((LEFT, 20), " font-weight=\"bold\"", &self.summary());
        body += &text((LEFT, 36), " class=\"words\" fill=\"#444444\" font-size=\"10\"", LEGEND);
        body += &axis.ticks(height);
        for (row, step) in drawn.iter().enumerate() {
            let y = TOP + ROW * row as i32;
            let before = step.after.as_ref().filter(|_| is_critical(step));
            let before = before.and_then(|after| drawn.iter().position(|it| it.path == *after));
            body += &axis.row(
                (step, &name(&step.path)),
                (y, is_critical(step)),
                before.map(|row| TOP + ROW * row as i32),
            );
        }
        for (row, worker) in (drawn.len()..).zip(not_up) {
            body += &axis.not_up((worker, &name(&worker.path)), TOP + ROW * row as i32);
        }
        if omitted > 0 {
            body += &text((LEFT, height + 14), "", &format!("... {omitted} more"));
        }
        let size = (axis.left + CHART + 100, height + if omitted > 0 { 24 } else { 10 });
        document("where the time of the boot went", size, &body)
    }
}

const LEGEND: &str = "line: it waited; bar: its start; dark bar: the critical path; ✗: not up. All times are measured by the agent.";

/// Where times are drawn.
struct Axis {
    left: i32,
    /// The last time, in seconds.
    end: f64,
}

impl Axis {
    fn x(&self, at: f64) -> i32 {
        self.left + (at / self.end * f64::from(CHART)).round() as i32
    }

    /// Draws a line down for each round time.
    fn ticks(&self, height: i32) -> String {
        let least = self.end / TICKS;
        let power = 10_f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|it| *it >= least);
        let step = step.unwrap_or(self.end);
        let mut ticks = String::new();
        for tick in 0..=(self.end / step) as i32 {
            let at = f64::from(tick) * step;
            let x = self.x(at);
            ticks += &format!(
                "<path class=\"tick\" d=\"M{x} {}V{height}\" stroke=\"#dddddd\"/>\n",
                TOP - 8
            );
            let small = " class=\"words\" fill=\"#444444\" font-size=\"10\" text-anchor=\"middle\"";
            ticks += &text((x, TOP - 12), small, &seconds(at));
        }
        ticks
    }

    fn label(path: &str, y: i32) -> String {
        let mut shown = path.to_owned();
        // The end of a path tells more than its beginning.
        while width(&shown, 12) > LABEL {
            shown = format!("…{}", shown.chars().skip(5).collect::<String>());
        }
        text((LEFT, y + 12), "", &shown)
    }

    fn row(
        &self,
        (step, name): (&BootStep, &str),
        (y, is_critical): (i32, bool),
        before: Option<i32>,
    ) -> String {
        let [installed, ready, begun, up] =
            [step.installed, step.ready, step.begun, step.up].map(|at| self.x(at));
        let middle = y + 8;
        let (waited, took) = (seconds(step.ready - step.installed), step.took().as_secs_f64());
        let took = seconds(took);
        let waited = match &step.waited_for {
            WaitedFor::Input(name) => format!(", waited {waited} for {name}"),
            _ => String::new(),
        };
        let title = format!("{}: up @{}, +{took}{waited}", step.path, seconds(step.up));
        let mut row = format!(
            "<g data-path=\"{}\"><title>{}</title>\n",
            escaped(&step.path),
            escaped(&title)
        );
        row += &Self::label(name, y);
        if let Some(from) = before {
            row += &format!(
                "<path class=\"chain\" d=\"M{ready} {}V{middle}\" stroke=\"#1b1b1b\" stroke-width=\"1.5\"/>\n",
                from + 8
            );
        }
        if ready > installed {
            row += &format!(
                "<path class=\"waiting\" d=\"M{installed} {middle}H{ready}\" stroke=\"#999999\"/>\n"
            );
        }
        if begun > ready {
            row += &format!(
                "<path class=\"queued\" d=\"M{ready} {middle}H{begun}\" stroke=\"#999999\" stroke-dasharray=\"2 3\"/>\n"
            );
        }
        let style = match is_critical {
            true => "class=\"bar critical\" fill=\"#0b3d91\" stroke=\"#0b3d91\"",
            false => "class=\"bar\" fill=\"#cfe2ff\" stroke=\"#0b3d91\"",
        };
        let wide = (up - begun).max(2);
        row += &format!(
            "<rect x=\"{begun}\" y=\"{}\" width=\"{wide}\" height=\"12\" {style}/>\n",
            y + 2
        );
        let small = " class=\"words\" fill=\"#444444\" font-size=\"10\"";
        row += &text((begun + wide + 6, y + 12), small, &format!("+{took}"));
        row + "</g>\n"
    }

    fn not_up(&self, (worker, name): (&NotUp, &str), y: i32) -> String {
        const LONGEST: usize = 90;
        let words = worker.state.replace('_', " ");
        let why = worker.why.as_ref().or(worker.error.as_ref());
        let why = why.and_then(|why| why.lines().next()).unwrap_or(&words);
        let short: String = why.chars().take(LONGEST).collect();
        let mut row =
            format!("<g data-path=\"{}\"><title>{}</title>\n", escaped(&worker.path), escaped(why));
        row += &Self::label(name, y);
        row += &text(
            (self.left, y + 12),
            " class=\"trouble\" fill=\"#b3261e\"",
            &format!("✗ {short}"),
        );
        row + "</g>\n"
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crate::boot::{Boot, BootStep, NotUp};
    use crate::wire::WaitedFor;

    fn step(path: &str, [ready, begun, up]: [f64; 3], after: Option<&str>) -> BootStep {
        BootStep {
            path: path.to_owned(),
            is_essential: true,
            generation: 1,
            installed: 0.0,
            ready,
            begun,
            up,
            failed_attempts: 0,
            waited_for: after.map_or(WaitedFor::Call, |it| WaitedFor::Input(it.to_owned())),
            after: after.map(str::to_owned),
        }
    }

    #[test]
    fn bars_are_as_long_as_the_starts() -> Result<(), Box<dyn Error>> {
        let hostile = "/a/<b>\u{1b}";
        let workers = vec![
            step("/a/slow", [0.0, 0.0, 3.0], None),
            step(hostile, [0.0, 1.0, 2.0], None),
            step("/a/last", [3.0, 3.0, 4.0], Some("/a/slow")),
        ];
        let critical = vec![workers[2].clone(), workers[0].clone()];
        let not_up = NotUp {
            why: None,
            path: "/a/down".to_owned(),
            state: "backing_off".to_owned(),
            is_essential: false,
            error: Some("no & disk".to_owned()),
        };
        let path = "/a".to_owned();
        let boot = Boot { path, up_after: Some(4.0), critical, workers, not_up: vec![not_up] };

        let svg = boot.to_svg(str::to_owned);

        let document = roxmltree::Document::parse(&svg)?;
        let bars = document
            .descendants()
            .filter(|it| it.attribute("class").is_some_and(|class| class.starts_with("bar")));
        let bars: Vec<_> = bars
            .filter_map(|bar| Some((bar.attribute("class")?, bar.attribute("width")?)))
            .collect();
        assert_eq!(bars, [("bar critical", "480"), ("bar", "160"), ("bar critical", "160")]);
        let texts: Vec<_> = document.descendants().filter_map(|it| it.text()).collect();
        assert!(texts.contains(&"✗ no & disk"), "{texts:?}");
        assert!(
            texts.contains(&"all that is essential was up after 4.000s: 3 workers"),
            "{texts:?}"
        );
        Ok(())
    }

    #[test]
    fn a_boot_of_nothing_and_one_of_thousands_are_drawn() -> Result<(), Box<dyn Error>> {
        let path = "/a".to_owned();
        let none = Boot { path, up_after: None, critical: vec![], workers: vec![], not_up: vec![] };
        roxmltree::Document::parse(&none.to_svg(str::to_owned))?;
        let workers: Vec<_> = (0..2000)
            .map(|at| step(&format!("/a/{at}"), [0.0, 0.0, f64::from(at) / 1000.0], None))
            .collect();

        let svg = Boot { workers, ..none }.to_svg(str::to_owned);

        let document = roxmltree::Document::parse(&svg)?;
        let rows = document.descendants().filter(|it| it.has_attribute("data-path")).count();
        assert_eq!(rows, 50);
        assert!(svg.contains("... 1950 more"), "{svg}");
        Ok(())
    }
}
