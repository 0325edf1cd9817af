//! Registers the schemas of the facts that the agent and its kinds use.

use std::error::Error;
use std::time::SystemTime;

use crankcase_facts::{Change, Facts, FactsError, Pointer, Schema, StoreError, Submission};
use crankcase_resources::Kinds;
use crankcase_resources::dynamic::FactSchema;
use crankcase_resources::front::Tunings;
use crankcase_resources::rules::RuleParameters;

/// The owner of the schemas of an agent's own parameters.
const AGENT: &str = "crankcase";

/// Registers the schemas of facts that the agent itself uses, and those that kinds own. In an empty store they are
/// stored with the first other change. Blocks.
///
/// A schema of another owner stays, and so does the old schema when the stored facts do not fit the new one, or when
/// the store cannot be written now. These cases are logged as warnings.
///
/// # Errors
///
/// When the store is damaged.
pub fn register(facts: &Facts, kinds: &Kinds, now: SystemTime) -> Result<(), StoreError> {
    let of_agent = |path: &str, schema| FactSchema { path: path.to_owned(), schema };
    let own = [("/agent/resources", Tunings::schema()), ("/rules", RuleParameters::schema())];
    let own = own.map(|(path, schema)| (AGENT.to_owned(), of_agent(path, schema)));
    let of_kinds = kinds.iter().flat_map(|(name, kind)| {
        let owner = format!("kind {name}");
        kind.fact_schemas().into_iter().map(move |schema| (owner.clone(), schema))
    });
    let all = own.into_iter().chain(of_kinds).filter_map(|(owner, schema)| read(&owner, schema));
    if facts.current().revision() == 0 {
        let submissions: Vec<_> = all.map(|(path, schema)| submission(path, schema)).collect();
        return facts.before_first(&submissions, now);
    }
    for (path, schema) in all {
        register_one(facts, (path, schema), now)?;
    }
    Ok(())
}

/// Reads a schema with its path; none if one of them is wrong.
fn read(owner: &str, FactSchema { path, schema }: FactSchema) -> Option<(Pointer, Schema)> {
    let read = || -> Result<(Pointer, Schema), Box<dyn Error>> {
        Ok((path.parse()?, Schema::read(owner, schema)?))
    };
    read()
        .inspect_err(|error| tracing::warn!(path, owner, %error, "a schema of facts is wrong"))
        .ok()
}

fn submission(path: Pointer, schema: Schema) -> Submission {
    let owner = schema.owner.clone();
    Submission::new(Change::Register(path, Some(schema)), &owner)
}

fn register_one(
    facts: &Facts,
    (at, schema): (Pointer, Schema),
    now: SystemTime,
) -> Result<(), StoreError> {
    let (path, owner) = (at.to_string(), schema.owner.clone());
    let current = facts.current();
    match current.schemas().iter().find(|(known, _)| **known == at) {
        Some((_, known)) if *known == schema => return Ok(()),
        Some((_, known)) if known.owner != owner => {
            tracing::warn!(path, owner, by = known.owner, "facts have the schema of another owner");
            return Ok(());
        }
        _ => {}
    }
    match facts.submit(&submission(at, schema), now) {
        Err(FactsError::Store(error @ (StoreError::Use { .. } | StoreError::Make { .. }))) => {
            tracing::warn!(path, owner, %error, "a new schema of facts cannot be stored now");
            Ok(())
        }
        Err(FactsError::Store(error)) => Err(error),
        Err(error) => {
            tracing::warn!(path, owner, %error, "the stored facts do not fit a new schema");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
