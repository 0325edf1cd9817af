//! The valid declarations of a machine with their kinds: what plan, apply and run begin with.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_workers::{Leftover, Secrets};

use crate::base::naming::owners_of;
use crate::base::text::did_you_mean;
use crate::declare::declaration::Declaration;
use crate::declare::order::{Order, OrderError};
use crate::kind::kinds::Kinds;
use crate::modes::apply::{self, ApplyOptions};
use crate::modes::plan::{self, PlanOptions};
use crate::report::account::Account;
use crate::report::observer::Event;
use crate::report::planned::Plan;
use crate::rules::rule::Rule;
use crate::state::Records;

pub use self::release::Leaving;
pub use self::select::{Selection, SelectionError};

mod heirs;
mod release;
mod select;
mod strays;

/// What a machine is to be kept as: declarations that were found valid, and their kinds.
///
/// It is what check makes and plan, apply and run use, so that all refuse the same manifests.
#[derive(Debug)]
pub struct Site {
    declarations: Vec<Declaration>,
    /// Whether these are only some of the resources that are declared.
    is_cut: bool,
    order: Arc<Order>,
    kinds: Kinds,
    digest: String,
    is_piped: bool,
    secrets: Secrets,
    secret_inputs: BTreeSet<String>,
    rules: Vec<Arc<Rule>>,
    warnings: Vec<String>,
}

impl Site {
    /// Returns the site of some declarations. `digest` differs when they are declared otherwise.
    ///
    /// # Errors
    ///
    /// When a name is there twice or not at all, or there is a cycle.
    pub fn new(
        declarations: Vec<Declaration>,
        kinds: Kinds,
        digest: String,
    ) -> Result<Self, OrderError> {
        let order = Arc::new(Order::new(&declarations)?);
        let (is_cut, is_piped, secrets) = (false, false, Secrets::default());
        let secret_inputs = BTreeSet::new();
        let (rules, warnings) = (Vec::new(), Vec::new());
        Ok(Self {
            declarations,
            is_cut,
            order,
            kinds,
            digest,
            is_piped,
            secrets,
            secret_inputs,
            rules,
            warnings,
        })
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the site with these resources in place of its own.
    pub(crate) fn with(&self, declarations: Vec<Declaration>) -> Result<Self, OrderError> {
        let site = Self::new(declarations, self.kinds.clone(), self.digest.clone())?;
        let (is_piped, secrets) = (self.is_piped, self.secrets.clone());
        let (secret_inputs, rules) = (self.secret_inputs.clone(), self.rules.clone());
        Ok(Self { is_piped, secrets, secret_inputs, rules, ..site })
    }

    /// Returns the site with these declarations in the place of those at the same positions. Each
    /// has the name, the dependencies and the claims of the one that it takes the place of.
    #[must_use]
    pub fn renewed(&self, declarations: Vec<(usize, Declaration)>, digest: String) -> Self {
        let mut renewed = Self {
            declarations: self.declarations.clone(),
            order: Arc::clone(&self.order),
            kinds: self.kinds.clone(),
            digest,
            secrets: self.secrets.clone(),
            secret_inputs: self.secret_inputs.clone(),
            rules: self.rules.clone(),
            warnings: self.warnings.clone(),
            ..*self
        };
        for (position, declaration) in declarations {
            renewed.declarations[position] = declaration;
        }
        renewed
    }

    /// Returns the declarations that differ from those of the site that this one
    /// [was renewed](Self::renewed) from, maybe by way of others; none if it was not.
    pub fn renewed_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> Option<impl Iterator<Item = &'a Declaration>> {
        let pairs = self.declarations.iter().zip(&before.declarations);
        let differ =
            |(one, other): &(&Declaration, &Declaration)| !Arc::ptr_eq(&one.config, &other.config);
        Arc::ptr_eq(&self.order, &before.order).then(|| pairs.filter(differ).map(|(one, _)| one))
    }

    /// Returns the site with other kinds.
    pub(crate) fn of_kinds(self, kinds: Kinds) -> Self {
        Self { kinds, ..self }
    }

    /// Says that it came from a pipe, and cannot be loaded again.
    #[must_use]
    pub fn piped(self) -> Self {
        Self { is_piped: true, ..self }
    }

    /// Sets the rules that hold under `run`; `plan` and `apply` do nothing with them. Default none.
    #[must_use]
    pub fn ruled(self, rules: Vec<Rule>) -> Self {
        Self { rules: rules.into_iter().map(Arc::new).collect(), ..self }
    }

    /// Sets the warnings: problems with which the site is kept all the same. Default none.
    #[must_use]
    pub fn warned(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// Returns the warnings: problems with which the site is kept all the same.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Sets what is hidden in all that is said of its resources. Default: only the values of sensitive
    /// attributes.
    ///
    /// `inputs` are the names of the inputs, such as variables of a manifest, that hold secrets.
    #[must_use]
    pub fn hiding(self, secrets: Secrets, inputs: BTreeSet<String>) -> Self {
        Self { secrets, secret_inputs: inputs, ..self }
    }

    /// Returns the names of the inputs that hold secrets.
    pub fn secret_inputs(&self) -> &BTreeSet<String> {
        &self.secret_inputs
    }

    /// Returns what is hidden in all that is said of its resources.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the digest, which differs from that of a site that is declared otherwise.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether it came from a pipe, and cannot be loaded again.
    pub fn is_piped(&self) -> bool {
        self.is_piped
    }

    /// Returns the resources in the order in which they were written.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns the resources that may be there or not.
    pub(crate) fn unsure(&self) -> Unsure<'_> {
        let unsure = self.declarations.iter().filter(|declared| declared.is_unsure);
        Unsure(unsure.map(|declared| declared.name.as_str()).collect())
    }

    /// Returns the resource with this name.
    ///
    /// # Errors
    ///
    /// When there is none, with the nearest name.
    pub fn resource(&self, name: &str) -> Result<&Declaration, UnknownResourceError> {
        let mut declarations = self.declarations.iter();
        declarations.find(|declaration| declaration.name == name).ok_or_else(|| {
            let names = self.declarations.iter().map(|declaration| declaration.name.as_str());
            UnknownResourceError { name: name.to_owned(), hint: did_you_mean(name, names) }
        })
    }

    /// Returns the event of a program that an earlier agent has left behind and that has ended, if
    /// it is the program of a resource of the site, or of one that was kept before it.
    pub fn left_behind(&self, leftover: &Leftover, records: &Records) -> Option<Event> {
        let name = leftover.name.as_str();
        let declared = self.declarations.iter().find(|it| it.name == name);
        let kind = match declared {
            Some(declared) => declared.kind.clone(),
            None => records.look(|loaded| loaded.kind_of(name))?,
        };
        let kind = self.kinds.get(&kind).ok().filter(|kind| kind.is_supervised())?;
        Event::left_behind((name, kind.name()), leftover)
    }

    /// Returns the order and the dependencies of the resources, by their positions in the
    /// declarations.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns the kinds that the resources may have.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Looks at every resource and says what apply would do; see [`plan`](crate::run::plan()). What has left
    /// the site and is to be put back as it was is planned too, and what is not kept any more is named.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn plan(&self, options: &PlanOptions) -> Plan {
        let whole = self.removed(&options.facilities).await.join(self);
        let Self { order, declarations, kinds, .. } = whole.as_ref().unwrap_or(self);
        let facilities = options.facilities.hiding(&self.secrets);
        let options = PlanOptions { facilities, ..options.clone() };
        let leaving = whole.as_ref().unwrap_or(self).leaving(&options.facilities);
        let released = leaving.released().to_vec();
        let plan = plan::plan_in_order(order, declarations, kinds, &options).await;
        Plan { released, ..plan }
    }

    /// Makes every resource as declared, once; see [`apply`](crate::run::apply()). What has left the site and
    /// is to be put back as it was is put back, and all else that has left is [released](Leaving::release).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: tell `stop` instead.
    pub async fn apply(&self, options: &ApplyOptions, stop: Stop) -> Account {
        let whole = self.with_departed(&options.facilities).await;
        let Self { order, declarations, kinds, .. } = whole.as_ref().unwrap_or(self);
        let facilities = options.facilities.hiding(&self.secrets);
        let options = ApplyOptions { facilities, ..options.clone() };
        let leaving = whole.as_ref().unwrap_or(self).leaving(&options.facilities);
        let account = apply::apply_in_order(order, declarations, kinds, (&options, stop)).await;
        let released = leaving.release(&options.facilities).await;
        let records = options.facilities.records();
        // Nobody has waited for some records. They are written before the process ends. If that
        // fails, the next run knows fewer of the configs that were good last.
        drop(records.flush(records.push([])).await);
        Account { released, ..account }
    }
}

/// The resources of a site that are [unsure](crate::front::DeclarationFields::is_unsure), by their
/// names.
#[derive(Debug)]
pub(crate) struct Unsure<'a>(HashSet<&'a str>);

impl Unsure<'_> {
    /// Returns whether a name is that of one of them, or of an item or a part of one.
    pub(crate) fn has(&self, name: &str) -> bool {
        !self.0.is_empty()
            && (self.0.contains(name)
                || owners_of(name).iter().any(|owner| self.0.contains(owner.as_str())))
    }
}

/// A name that no resource of a site has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no resource \"{name}\"{hint}")]
pub struct UnknownResourceError {
    name: String,
    hint: String,
}

/// Two sites are equal when their resources are declared alike and at the same places, by kinds of
/// the same names.
impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.declarations.iter().zip(&other.declarations);
        self.declarations.len() == other.declarations.len()
            && self.kinds.names().eq(other.kinds.names())
            && self.rules == other.rules
            && pairs().all(|(one, other)| {
                (&one.place, &one.notify) == (&other.place, &other.notify) && one.is_equal(other)
            })
    }
}
