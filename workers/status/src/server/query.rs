//! The parameters of a request.

use std::collections::BTreeMap;

use super::answer::Refusal;
use crate::wire::{Only, Selection};

/// The parameters of a request that were not taken yet.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the query of a request. Refuses a parameter that is there twice.
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let mut read = BTreeMap::new();
        for (key, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if read.insert(key.to_string(), value.into_owned()).is_some() {
                return Err(Refusal::malformed(format!("the parameter {key:?} is there twice")));
            }
        }
        Ok(Self(read))
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    /// Takes a number from 0 to 2^63 - 1.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| i64::try_from(*number).is_ok());
        number.map(Some).ok_or_else(|| {
            Refusal::malformed(format!("{key:?} is a whole number below 2^63, not {text:?}"))
        })
    }

    /// Takes the parameters that choose a part of a report.
    pub(super) fn selection(&mut self) -> Result<Selection, Refusal> {
        let (depth, since) = (self.number("depth")?, self.number("since")?);
        let read = |text: String| {
            Only::read(&text).ok_or_else(|| {
                Refusal::malformed(format!("\"only\" is trouble or a state, not {text:?}"))
            })
        };
        let only = self.text("only").map(read).transpose()?;
        let (without_inputs, without_details) =
            (self.is_left_out("inputs")?, self.is_left_out("details")?);
        Ok(Selection { depth, only, since, without_inputs, without_details })
    }

    /// Takes whether something is to be done although it does harm.
    pub(super) fn is_forced(&mut self) -> Result<bool, Refusal> {
        Ok(self.truth("force")? == Some(true))
    }

    fn is_left_out(&mut self, key: &str) -> Result<bool, Refusal> {
        Ok(self.truth(key)? == Some(false))
    }

    fn truth(&mut self, key: &str) -> Result<Option<bool>, Refusal> {
        match self.text(key).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => {
                Err(Refusal::malformed(format!("{key:?} is true or false, not {other:?}")))
            }
        }
    }

    /// Refuses the parameters that nothing has taken.
    pub(super) fn finish(self) -> Result<(), Refusal> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(Refusal::malformed(format!("unknown parameter {key:?}"))),
        }
    }
}
