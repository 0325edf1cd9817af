//! The trial of a new site: which resources were as declared before it, and which of them has failed because of it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crankcase_resources::front::worker_name;
use crankcase_resources::report::{Accounted, EventKind};
use crankcase_resources::{Declaration, Event, Observer, Site};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The length of the longest error of a failure, in characters.
const LONGEST_ERROR: usize = 300;

/// The trial of the site that is kept: the time since when the site is in force, and whether a
/// resource has failed because of it. Cheap to clone; clones are the same.
///
/// The [keeper](super::manifold) of the site writes to it, and so does the [observer](Self::observing) of the resources.
#[derive(Clone)]
pub struct SiteTrial(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Whether a trial is on. It changes under the lock of the state.
    is_on: watch::Sender<bool>,
    /// How many sites have come into force.
    changes: watch::Sender<u64>,
    failure: watch::Sender<Option<Failure>>,
}

#[derive(Default)]
struct State {
    /// The site that is in force, or is being applied.
    site: Option<Arc<Site>>,
    /// The time since when it is in force.
    since: Option<Instant>,
    /// The workers of the resources that were as declared when they were looked at last before the trial.
    well: HashSet<String>,
    /// The workers of the resources that are otherwise than before the trial, as the sites say that were on it.
    moved: HashSet<String>,
}

/// A failure of a resource that was as declared before the trial. The site declares it otherwise, or one before it.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The name of the resource.
    pub resource: String,
    /// Why it has failed: one line without secrets.
    pub error: String,
}

impl Default for SiteTrial {
    fn default() -> Self {
        let (is_on, changes) = (watch::Sender::new(false), watch::Sender::new(0));
        let (state, failure) = (Mutex::default(), watch::Sender::new(None));
        Self(Arc::new(Shared { state, is_on, changes, failure }))
    }
}

impl fmt::Debug for SiteTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteTrial").field("is_on", &*self.0.is_on.borrow()).finish_non_exhaustive()
    }
}

impl SiteTrial {
    /// Returns an observer that also tells `inner` all that it sees.
    pub fn observing(&self, inner: Arc<dyn Observer>) -> Arc<dyn Observer> {
        Arc::new(Observing { inner, trial: self.clone() })
    }

    /// Returns the site that is in force, and since when; none while another one is being applied.
    pub fn in_force(&self) -> Option<(Arc<Site>, Instant)> {
        let state = self.0.state.lock();
        state.site.clone().zip(state.since)
    }

    /// Returns the site that is in force or is being applied.
    pub fn latest(&self) -> Option<Arc<Site>> {
        self.0.state.lock().site.clone()
    }

    /// Returns a count of the sites that have come into force.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Waits until a resource has failed that was as declared before the trial, and that a site of the trial declares
    /// otherwise. Cancel safe.
    pub async fn failure(&self) -> Failure {
        let mut failures = self.0.failure.subscribe();
        let failure = failures.wait_for(Option::is_some).await.ok().and_then(|it| it.clone());
        match failure {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Ends the trial of a site, unless another one has begun. From then on the next one is prepared: `well` are the
    /// workers of the resources that are as declared.
    pub fn end(&self, site: &Arc<Site>, well: HashSet<String>) {
        let mut state = self.0.state.lock();
        let is_same = state.site.as_ref().is_some_and(|it| Arc::ptr_eq(it, site));
        if is_same && state.since.is_some() {
            state.well = well;
            self.0.is_on.send_replace(false);
        }
    }

    /// Forgets a failure. The resource does not count any more.
    pub fn forget(&self, failure: &Failure) {
        self.0.state.lock().well.remove(&worker_name(&failure.resource));
        self.0.failure.send_replace(None);
    }

    /// Begins a trial: another site is about to be applied.
    pub(super) fn begin(&self, site: &Arc<Site>) {
        let moved = self.latest().map(|before| moved(&before, site)).unwrap_or_default();
        let mut state = self.0.state.lock();
        // What another site has moved may fail only now, if the trial of that one is not over.
        if !*self.0.is_on.borrow() {
            state.moved.clear();
        }
        state.moved.extend(moved);
        (state.site, state.since) = (Some(Arc::clone(site)), None);
        self.0.is_on.send_replace(true);
        drop(state);
        self.0.failure.send_replace(None);
    }

    /// Says that a site is in force. A site that was renewed since it was in force last goes on
    /// with its trial.
    pub(super) fn put_in_force(&self, site: &Arc<Site>) {
        let mut state = self.0.state.lock();
        state.site = Some(Arc::clone(site));
        state.since.get_or_insert_with(Instant::now);
        drop(state);
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Waits until no trial is on. Cancel safe.
    pub(super) async fn over(&self) {
        let mut is_on = self.0.is_on.subscribe();
        // It cannot fail, because the sender is in this trial.
        drop(is_on.wait_for(|is_on| !*is_on).await);
    }

    fn note(&self, event: &Event) {
        if event.event != EventKind::Failed {
            return;
        }
        let mut state = self.0.state.lock();
        let worker = worker_name(&event.resource);
        let counts = *self.0.is_on.borrow() && state.moved.contains(&worker);
        let was_well =
            if counts { state.well.contains(&worker) } else { state.well.remove(&worker) };
        if !counts || !was_well {
            return;
        }
        drop(state);
        let error = event.error.as_deref().unwrap_or_default().lines().next().unwrap_or_default();
        let (resource, error) =
            (event.resource.clone(), error.chars().take(LONGEST_ERROR).collect());
        self.0.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(Failure { resource, error });
            is_first
        });
    }
}

/// Returns the workers of the resources that a site declares otherwise than the one before it, also by a template, and
/// of those that depend on such a resource or are notified by it, at any distance.
fn moved(before: &Site, site: &Site) -> HashSet<String> {
    let before: HashMap<&str, &Declaration> =
        before.declarations().iter().map(|declared| (declared.name.as_str(), declared)).collect();
    let (declarations, order) = (site.declarations(), site.order());
    let is_same = |declared: &Declaration| {
        before.get(declared.name.as_str()).is_some_and(|before| {
            before.is_equal(declared) && before.templates == declared.templates
        })
    };
    let mut is_moved = vec![false; declarations.len()];
    for node in order.nodes() {
        let is_input_moved = order.inputs(*node).iter().any(|input| is_moved[*input]);
        is_moved[*node] = is_input_moved || !is_same(&declarations[*node]);
    }
    let moved = declarations.iter().zip(is_moved).filter(|(_, is_moved)| *is_moved);
    moved.map(|(declared, _)| worker_name(&declared.name)).collect()
}

/// An observer that reports failing resources to a trial.
#[derive(Debug)]
struct Observing {
    inner: Arc<dyn Observer>,
    trial: SiteTrial,
}

impl Observer for Observing {
    fn said(&self, resource: &str, line: &str) {
        self.inner.said(resource, line);
    }

    fn begins(&self, event: &Event) {
        self.inner.begins(event);
    }

    fn failed_again(&self, resource: &str) {
        self.inner.failed_again(resource);
    }

    fn happened(&self, event: &Event) {
        self.inner.happened(event);
        self.trial.note(event);
    }

    fn accounted(&self, accounted: &Accounted) {
        self.inner.accounted(accounted);
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use crankcase_kinds::builtin;
    use crankcase_manifest::{ManifestError, SiteFiles};
    use crankcase_resources::{Event, Observer, Site};
    use serde_json::json;

    use super::{SiteTrial, moved};

    const SITE: &str = r#"resources:
  page: {type: exec, config: {command: ["true"]}}
  user: {type: exec, dependencies: [page], config: {command: ["true"]}}
  other: {type: exec, config: {command: ["true"]}}
  late: {type: exec, config: {command: ["true"]}}
"#;

    #[derive(Debug)]
    struct Nobody;

    impl Observer for Nobody {}

    /// Tells that something has happened to a resource.
    fn tell(observer: &dyn Observer, event: &str, resource: &str) -> serde_json::Result<()> {
        let error = format!("no luck with {resource}\nat all");
        let told = json!({"event": event, "resource": resource, "type": "exec", "error": error,
            "why": "apply", "took_ms": 1});
        let event: Event = serde_json::from_value(told)?;
        observer.happened(&event);
        Ok(())
    }

    /// Loads a site from a manifest in a folder.
    fn load(folder: &Path, manifest: &str) -> Result<Arc<Site>, Box<dyn Error>> {
        let path = folder.join("site.yaml");
        fs::write(&path, manifest)?;
        let loaded: Result<_, ManifestError> = SiteFiles::new(vec![path], builtin()).load();
        Ok(Arc::new(loaded?))
    }

    #[tokio::test]
    async fn only_the_failure_of_what_was_as_declared_and_has_moved_counts()
    -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let first = load(folder.path(), SITE)?;
        let change = |resource: &str| {
            let line = format!("  {resource}: {{type: exec, config: {{command: [\"true\"");
            SITE.replace(&line, &line.replace("true", "false"))
        };
        let second = load(folder.path(), &change("page"))?;
        let third = load(folder.path(), &(change("page") + "  new: {type: noop}\n"))?;
        let trial = SiteTrial::default();
        let observer = trial.observing(Arc::new(Nobody));
        trial.begin(&first);
        trial.put_in_force(&first);
        trial.end(&first, ["page", "user", "other", "late"].map(str::to_owned).into());
        // Before the trial it is not as declared any more.
        tell(&*observer, "failed", "late")?;

        trial.begin(&second);
        for resource in ["late", "new", "other"] {
            tell(&*observer, "failed", resource)?;
        }
        tell(&*observer, "repaired", "page")?;
        assert!(trial.0.failure.borrow().is_none());
        tell(&*observer, "failed", "user")?;
        tell(&*observer, "failed", "page")?;

        let failure = trial.failure().await;
        assert_eq!((&*failure.resource, &*failure.error), ("user", "no luck with user"));
        trial.forget(&failure);
        tell(&*observer, "failed", "user")?;
        assert!(trial.0.failure.borrow().is_none());
        // The trial of the second one is not over.
        trial.begin(&third);
        tell(&*observer, "failed", "page")?;
        assert_eq!(trial.failure().await.resource, "page");
        Ok(())
    }

    #[test]
    fn a_resource_whose_template_has_another_text_has_moved() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let template = folder.path().join("page.j2");
        let site = "resources:\n  other: {type: noop}\n  page: {type: file, config: {path: /tmp/page, \
                    template: page.j2}}\n";
        fs::write(&template, "one")?;
        let first = load(folder.path(), site)?;
        let same = load(folder.path(), site)?;
        fs::write(&template, "two")?;
        let other = load(folder.path(), site)?;

        assert!(moved(&first, &same).is_empty());
        assert_eq!(moved(&first, &other).into_iter().collect::<Vec<_>>(), ["page"]);
        Ok(())
    }
}
