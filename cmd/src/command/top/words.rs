//! Workers and their events, in a few words.

use std::time::{Duration, SystemTime};

use crankcase_resources::front::resource_name;
use crankcase_status::wire::{Event, Why, WhyStep, WorkerState};

use super::row::shown;

/// Returns how long ago something was, in at most four characters.
pub(super) fn age(since: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(since).unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns an event on one line, with its day if that is not today.
pub(super) fn event(event: &Event, now: SystemTime) -> String {
    let Event { at, path, text, origin, .. } = event;
    let today = humantime::format_rfc3339_seconds(now).to_string();
    let time = match (at.get(..10), at.get(5..10), at.get(11..19)) {
        (Some(date), Some(day), Some(time)) if !today.starts_with(date) => format!("{day} {time}"),
        (_, _, Some(time)) => time.to_owned(),
        _ => at.clone(),
    };
    let by = origin.as_ref().map(|origin| format!(" ({}: {})", origin.who, origin.why));
    format!("{time} {} {text}{}", shown(path), by.unwrap_or_default())
}

/// Returns the chain from a worker to its root cause, without the cause itself. `None` if the worker is that cause.
pub(super) fn chain(why: &Why) -> Option<String> {
    let (cause, steps) = why.steps.split_last()?;
    let first = steps.first()?;
    let name = |step: &WhyStep| resource_name(step.path.rsplit('/').next().unwrap_or(&step.path));
    let verb = match first.state {
        WorkerState::Closing => "closes after",
        WorkerState::HeldBack => "is held back by",
        _ => "waits for",
    };
    let between = match steps.len() - 1 {
        0 => String::new(),
        between if between <= 2 => {
            steps[1..].iter().map(|step| format!("{}, that for ", name(step))).collect()
        }
        between => format!("{} and {} more, they for ", name(&steps[1]), between - 1),
    };
    Some(format!("{} {verb} {between}{}", name(first), shown(&cause.path)))
}

/// Returns what the root cause is. `age` is how long ago the agent has said it.
pub(super) fn cause(why: &Why, age: Duration) -> String {
    let Some(step) = why.steps.last() else { return String::new() };
    let mut text = format!("{} {}", shown(&step.path), doing(step));
    if let Some(seconds) = step.blocks_for {
        text += &format!(" and blocks its thread for {seconds:.0} s");
    }
    if let Some(error) = &step.error {
        text += &format!(": {error}");
    }
    if let Some(awaits) = &step.awaits {
        text += &format!(", and waits for {awaits}");
    }
    if let Some(origin) = &step.parked_by {
        text += &format!(" ({}: {})", origin.who, origin.why);
    }
    if let Some(nearest) = &step.nearest {
        text += &format!("; did you mean {nearest:?}?");
    }
    if let Some(seconds) = step.next_try_in {
        let left = (seconds - age.as_secs_f64()).max(0.0);
        text += &format!("; next try in {left:.0} s");
    }
    text
}

fn doing(step: &WhyStep) -> String {
    match (&step.state, step.failures) {
        (WorkerState::BackingOff | WorkerState::Spent, 1) => "failed once".to_owned(),
        (WorkerState::BackingOff | WorkerState::Spent, times) => format!("failed {times} times"),
        (WorkerState::Absent, _) => "is not installed".to_owned(),
        (WorkerState::Missing, _) => "misses something".to_owned(),
        (WorkerState::Running, _) if step.error.is_some() => "is degraded".to_owned(),
        (WorkerState::Starting, _) if step.error.is_some() => "is not up yet".to_owned(),
        (state, _) => format!("is {}", state.to_string().replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use crankcase_status::wire::Why;
    use serde_json::json;

    use super::{age, cause, chain, event};

    #[test]
    fn an_age_has_four_characters() {
        let ages = [0, 59, 60, 3_599, 3_600, 172_799, 172_800, 86_400 * 999];
        let then = SystemTime::UNIX_EPOCH;
        let shown = ages.map(|seconds| age(then, then + Duration::from_secs(seconds)));

        assert_eq!(shown, ["0s", "59s", "1m", "59m", "1h", "47h", "2d", "999d"]);
        assert_eq!(age(then + Duration::from_secs(5), then), "0s");
    }

    #[test]
    fn an_event_of_another_day_has_its_day() -> Result<(), Box<dyn std::error::Error>> {
        let told = serde_json::from_value(json!({"sequence": 1, "at": "2026-01-02T03:04:05.678Z",
            "path": "/agent/disk", "event": {}, "text": "parked",
            "origin": {"who": "ada", "why": "loud"}}))?;
        let at = humantime::parse_rfc3339("2026-01-02T23:00:00Z")?;

        assert_eq!(event(&told, at), "03:04:05 disk parked (ada: loud)");
        let later = at + Duration::from_hours(2);
        assert_eq!(event(&told, later), "01-02 03:04:05 disk parked (ada: loud)");
        Ok(())
    }

    #[test]
    fn a_chain_ends_with_its_root_cause() -> Result<(), Box<dyn std::error::Error>> {
        let step = |name: &str, state: &str| {
            json!({"path": format!("/agent/resources/{name}"), "state": state, "failures": 2,
                   "error": "no luck", "next_try_in": 4.0})
        };
        let names = ["a", "b", "c", "d", "e"];
        let of = |count: usize| -> Result<Why, serde_json::Error> {
            let waiting = names[..count - 1].iter().map(|name| step(name, "waiting"));
            let steps: Vec<_> = waiting.chain([step("root", "backing_off")]).collect();
            serde_json::from_value(json!({ "steps": steps }))
        };

        assert_eq!(chain(&of(1)?), None);
        assert_eq!(chain(&of(2)?).as_deref(), Some("a waits for resources/root"));
        assert_eq!(chain(&of(3)?).as_deref(), Some("a waits for b, that for resources/root"));
        let long = "a waits for b and 3 more, they for resources/root";
        assert_eq!(chain(&of(6)?).as_deref(), Some(long));
        let told = "resources/root failed 2 times: no luck; next try in 1 s";
        assert_eq!(cause(&of(2)?, Duration::from_secs(3)), told);
        Ok(())
    }
}
