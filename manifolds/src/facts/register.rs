use std::error::Error;
use std::time::SystemTime;

use crankcase_facts::{Change, Facts, FactsError, Pointer, Schema, StoreError, Submission};
use crankcase_resources::{FactSchema, Kinds, RuleParameters, Tunings};

/// The owner of the schemas of an agent's own parameters.
const AGENT: &str = "crankcase";

/// Registers the schemas of facts that the agent itself uses, and those that kinds own. Blocks.
///
/// A schema of another owner stays, and so does the old schema when the stored facts do not fit the new one. Both
/// are logged as warnings.
///
/// # Errors
///
/// When the store cannot be written.
pub fn register(facts: &Facts, kinds: &Kinds, now: SystemTime) -> Result<(), StoreError> {
    let of_agent = |path: &str, schema| FactSchema { path: path.to_owned(), schema };
    let own = [("/agent/resources", Tunings::schema()), ("/rules", RuleParameters::schema())];
    for (path, schema) in own {
        register_one(facts, AGENT, of_agent(path, schema), now)?;
    }
    for (name, kind) in kinds.iter() {
        for schema in kind.fact_schemas() {
            register_one(facts, &format!("kind {name}"), schema, now)?;
        }
    }
    Ok(())
}

fn register_one(
    facts: &Facts,
    owner: &str,
    FactSchema { path, schema }: FactSchema,
    now: SystemTime,
) -> Result<(), StoreError> {
    let read = || -> Result<(Pointer, Schema), Box<dyn Error>> {
        Ok((path.parse()?, Schema::read(owner, schema)?))
    };
    let (at, schema) = match read() {
        Ok(read) => read,
        Err(error) => {
            tracing::warn!(path, owner, %error, "a schema of facts is wrong");
            return Ok(());
        }
    };
    let current = facts.current();
    match current.schemas().iter().find(|(known, _)| **known == at) {
        Some((_, known)) if *known == schema => return Ok(()),
        Some((_, known)) if known.owner != owner => {
            tracing::warn!(path, owner, by = known.owner, "facts have the schema of another owner");
            return Ok(());
        }
        _ => {}
    }
    let submission = Submission::new(Change::Register(at, Some(schema)), owner);
    match facts.submit(&submission, now) {
        Err(FactsError::Store(error)) => Err(error),
        Err(error) => {
            tracing::warn!(path, owner, %error, "the stored facts do not fit a new schema");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
