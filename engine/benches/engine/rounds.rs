//! Rounds in which two things are measured by turns, and what is printed of them. The benchmarks of
//! other crates use it too.

/// How often each of both is measured.
pub(crate) const ROUNDS: usize = 5;

/// What was measured: the floor and what is compared with it, round by round.
pub(crate) struct Rounds(Vec<(f64, f64)>);

impl Rounds {
    pub(crate) fn new(rounds: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self(rounds.into_iter().collect())
    }

    /// Prints the medians and their ratio, and whether that is within its bound.
    pub(crate) fn print(&self, name: &str, bound: f64, show: impl Fn(f64) -> String) {
        let ratio = median(self.ratios());
        println!("| {name} | {} | {bound} | {} |", self.columns(show), verdict(ratio <= bound));
    }

    /// Returns the columns of the medians and of their ratio.
    pub(crate) fn columns(&self, show: impl Fn(f64) -> String) -> String {
        let ratio = median(self.ratios());
        let lowest = self.ratios().fold(f64::INFINITY, f64::min);
        let highest = self.ratios().fold(0.0, f64::max);
        let floor = show(median(self.0.iter().map(|round| round.0)));
        let other = show(median(self.0.iter().map(|round| round.1)));
        format!("{floor} | {other} | {ratio:.2} ({lowest:.2} to {highest:.2})")
    }

    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(floor, other)| other / floor)
    }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "met" } else { "MISSED" }
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.2} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}
