//! The seeds that are run, by the test and by the environment.

use std::ops::Range;

/// The variable with the seed that is run first, and alone unless it is asked for more.
pub(super) const SEED: &str = "CRANKCASE_SIM_SEED";

/// The variable with the number of seeds.
const RUNS: &str = "CRANKCASE_SIM_RUNS";

/// The variable with the number of lines of a trace that a failure shows.
const LINES: &str = "CRANKCASE_SIM_LINES";

/// The seeds that are run: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seeds {
    pub(super) first: u64,
    /// The last seed, which is run too.
    pub(super) last: u64,
    /// Set if the environment asks for this seed alone.
    pub(super) is_one: bool,
}

impl Seeds {
    /// Returns these seeds, or those that the environment asks for in their place.
    pub(super) fn read(seeds: Range<u64>) -> Result<Self, String> {
        lines_from(variable(LINES))?;
        Self::chosen(seeds, variable(SEED), variable(RUNS))
    }

    fn chosen(
        seeds: Range<u64>,
        seed: Option<String>,
        runs: Option<String>,
    ) -> Result<Self, String> {
        if seeds.is_empty() {
            return Err(format!("there are no seeds in {seeds:?}, so nothing would be judged"));
        }
        let (seed, runs) = (number(SEED, seed)?, number(RUNS, runs)?);
        let (first, runs) = match (seed, runs) {
            (_, Some(0)) => return Err(format!("{RUNS} is 0; expected a number from 1")),
            (None, None) => (seeds.start, seeds.end - seeds.start),
            (None, Some(runs)) => (seeds.start, runs),
            (Some(seed), runs) => (seed, runs.unwrap_or(1)),
        };
        let Some(last) = first.checked_add(runs - 1) else {
            return Err(format!("{RUNS} is {runs}; there are fewer seeds from {first} on"));
        };
        Ok(Self { first, last, is_one: seed.is_some() && first == last })
    }
}

/// Returns how many lines of a trace a failure shows, if the environment sets that.
pub(super) fn lines() -> Option<usize> {
    lines_from(variable(LINES)).ok().flatten()
}

fn lines_from(lines: Option<String>) -> Result<Option<usize>, String> {
    let lines = number(LINES, lines)?;
    Ok(lines.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX)))
}

/// Returns a variable of the environment; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

fn number(name: &str, value: Option<String>) -> Result<Option<u64>, String> {
    let parse = |value: String| {
        value.parse().map_err(|_| format!("{name} is {value:?}; expected a whole number"))
    };
    value.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::{Seeds, lines_from};

    fn chosen(seed: &str, runs: &str) -> Result<Seeds, String> {
        let variable = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        Seeds::chosen(5..20, variable(seed), variable(runs))
    }

    #[test]
    fn the_environment_asks_for_other_seeds() {
        let seeds = |first, last, is_one| Ok(Seeds { first, last, is_one });

        assert_eq!(chosen("", ""), seeds(5, 19, false));
        assert_eq!(chosen("", "1"), seeds(5, 5, false));
        assert_eq!(chosen("", "100"), seeds(5, 104, false));
        assert_eq!(chosen("7", ""), seeds(7, 7, true));
        assert_eq!(chosen("7", "1"), seeds(7, 7, true));
        assert_eq!(chosen("7", "100"), seeds(7, 106, false));
        assert_eq!(chosen("18446744073709551615", ""), seeds(u64::MAX, u64::MAX, true));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (seed, runs, expected) in [
            ("abc", "", "CRANKCASE_SIM_SEED is \"abc\"; expected a whole number"),
            ("", "1e5", "CRANKCASE_SIM_RUNS is \"1e5\"; expected a whole number"),
            ("", "0", "CRANKCASE_SIM_RUNS is 0; expected a number from 1"),
            (
                "",
                "18446744073709551615",
                "CRANKCASE_SIM_RUNS is 18446744073709551615; there are fewer seeds from 5 on",
            ),
        ] {
            assert_eq!(chosen(seed, runs), Err(expected.to_owned()));
        }
        let expected = "CRANKCASE_SIM_LINES is \"all\"; expected a whole number";
        assert_eq!(lines_from(Some("all".to_owned())), Err(expected.to_owned()));
    }
}
