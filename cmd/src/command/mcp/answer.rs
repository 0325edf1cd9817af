//! What a tool answers.

use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

use crate::{exit, failure, print};

/// The longest data of an answer, in bytes of JSON. The protocol sends them twice, once as a text.
const LONGEST: usize = 24 * 1024;

/// The longest text in an answer, in characters.
const TEXT: usize = 2_000;

/// A map with this many fields or fewer is a record, and keeps all of them.
const FIELDS: usize = 32;

/// Returns an answer of bounded size. An error is an answer too, with its exit code and what that means.
pub(super) fn answer(answered: anyhow::Result<Value>) -> CallToolResult {
    match answered {
        Ok(data) => CallToolResult::structured(bounded(data)),
        Err(error) => {
            let code = failure::code_of(&error);
            let refused = match code {
                exit::USAGE => "wrong usage",
                exit::NO_AGENT => "no agent is reachable",
                exit::CONFLICT => "conflict",
                _ => "failed",
            };
            let message = format!("{error:#}");
            let message: String = print::one_line(&message).chars().take(TEXT).collect();
            CallToolResult::structured_error(
                json!({"refused": refused, "code": code, "data": {"message": message}}),
            )
        }
    }
}

/// Puts what comes from the machine under `data`, and cuts it until it is short enough.
fn bounded(mut data: Value) -> Value {
    let mut cut = 0;
    let (mut text, mut most) = (TEXT, 200);
    shorten(&mut data, text, &mut cut);
    while data.to_string().len() > LONGEST && most > 0 {
        (text, most) = (text / 2, most / 2);
        shorten(&mut data, text, &mut cut);
        thin(&mut data, most, &mut cut);
    }
    // Names are not cut.
    if data.to_string().len() > LONGEST {
        data = Value::Null;
        cut += 1;
    }
    match cut {
        0 => json!({"data": data}),
        cut => {
            json!({"data": data, "left_out": format!("{cut} values or parts of texts; ask for less")})
        }
    }
}

/// Cuts long texts.
fn shorten(value: &mut Value, most: usize, cut: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(most) {
                text.truncate(end);
                text.push('…');
                *cut += 1;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|it| shorten(it, most, cut)),
        Value::Object(fields) => fields.values_mut().for_each(|it| shorten(it, most, cut)),
        _ => {}
    }
}

/// Leaves out the end of long lists and maps.
fn thin(value: &mut Value, most: usize, cut: &mut usize) {
    match value {
        Value::Array(values) => {
            *cut += values.len().saturating_sub(most);
            values.truncate(most);
            values.iter_mut().for_each(|it| thin(it, most, cut));
        }
        Value::Object(fields) => {
            // A record has few fields, and a map of many workers has more.
            let most = most.max(FIELDS);
            if fields.len() > most {
                *cut += fields.len() - most;
                let kept = std::mem::take(fields).into_iter().take(most);
                *fields = kept.collect::<Map<_, _>>();
            }
            fields.values_mut().for_each(|it| thin(it, most, cut));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::{LONGEST, bounded};

    #[test]
    fn an_answer_is_bounded_and_says_what_it_left_out() {
        let row = json!({"path": "x".repeat(100), "error": "y".repeat(3_000)});

        let answer = bounded(json!({"workers": vec![row; 1_000]}));

        assert!(answer.to_string().len() <= LONGEST + 200, "{}", answer.to_string().len());
        let escapes = "\u{1b}".repeat(3_000);
        let inner: Map<_, _> =
            (0..100).map(|at| (format!("w{at}"), json!({"error": escapes}))).collect();
        let outer: Map<_, _> = (0..100).map(|at| (format!("e{at}"), json!(inner))).collect();
        let long = json!({"x".repeat(1 << 20): 1});
        for hostile in [json!(outer), long] {
            let answer = bounded(hostile);
            assert!(answer.to_string().len() <= LONGEST + 200 && answer["left_out"].is_string());
        }
        assert!(answer["left_out"].as_str().is_some_and(|it| it.contains("ask for less")));
        assert_eq!(bounded(json!({"a": 1})), json!({"data": {"a": 1}}));
    }
}
