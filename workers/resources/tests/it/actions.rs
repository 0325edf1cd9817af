//! Actions as data.

use crankcase_resources::dynamic::{ActionType, Stale};
use crankcase_resources::{Action, Actions};
use serde_json::{Value, json};

#[derive(Debug, PartialEq, Actions)]
enum Do {
    /// switches it on
    SwitchOn { watts: u16, colour: Option<String> },
    /// switches it off
    SwitchOff,
}

fn refused(action: &Action) -> String {
    Do::read(action).map_or_else(|wrong| wrong.to_string(), |action| format!("{action:?}"))
}

#[test]
fn an_action_survives_json() -> Result<(), Box<dyn std::error::Error>> {
    let action = Do::SwitchOn { watts: 40, colour: None };

    let data = serde_json::to_value(action.erase())?;

    let arguments = json!({"watts": 40, "colour": null});
    assert_eq!(data, json!({"name": "switch_on", "arguments": arguments, "changes": []}));
    assert_eq!(Do::read(&serde_json::from_value(data)?)?, action);
    assert_eq!(Do::read(&Do::SwitchOff.erase())?, Do::SwitchOff);
    Ok(())
}

#[test]
fn what_is_no_action_of_the_kind_is_refused() {
    let misspelt = Action::new("switch_of");
    let missing = Action::new("switch_on");
    let wrong = Action::new("switch_on").with("watts", "bright");

    assert_eq!(refused(&misspelt), r#"there is no action "switch_of"; did you mean "switch_off"?"#);
    assert_eq!(refused(&missing), r#"the action "switch_on" lacks "watts""#);
    assert_eq!(refused(&wrong), r#""bright" is not a whole number from 0 to 65535"#);
}

#[test]
fn the_actions_of_a_kind_are_listed_with_what_they_do() {
    let types = [
        ActionType::new("switch_on", "switches it on"),
        ActionType::new("switch_off", "switches it off"),
    ];

    assert_eq!(Do::types(), types);
}

#[test]
fn an_action_changes_what_was_found_since_the_one_before() {
    let amiss = Stale::new(None)
        .differs("power", Value::Null, 40)
        .differs("colour", Value::Null, "red")
        .action(Action::new("first"))
        .differs("place", Value::Null, "there")
        .action(Action::new("second").changing("colour"))
        .action(Action::new("third"));

    let changes: Vec<_> = amiss.actions.iter().map(|action| action.changes.join(" ")).collect();
    assert_eq!(changes, ["power colour", "colour", "place"]);
}
