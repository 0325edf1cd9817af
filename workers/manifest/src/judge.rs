//! The effect of other facts on the site that an agent keeps.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crankcase_resources::Site;
use crankcase_resources::derived::Value;
use parking_lot::Mutex;

use crate::facts::SeenFacts;
use crate::last_good::LastGood;
use crate::manifest::{IfFactsAreWrong, ManifestError, SiteInputs, WrongFacts};
use crate::site_files::{LoadedSite, SiteFiles};

/// Judges facts for the site that an agent keeps: the one that was loaded last, here or by a
/// [`SiteSource`](crate::SiteSource). Cheap to clone; clones judge for the same site.
#[derive(Clone, Default)]
pub struct SiteJudge(Arc<Mutex<Option<Arc<Judged>>>>);

/// Shows no site, as that is made of facts.
impl fmt::Debug for SiteJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiteJudge").finish_non_exhaustive()
    }
}

/// Why a site is not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Something is wrong with its manifest.
    #[error(transparent)]
    Invalid(#[from] ManifestError),
    /// An agent has gone back from its manifest to the last good one, for this reason.
    #[error("the manifest was rejected before: {0}")]
    Rejected(String),
}

/// A site as it was loaded, with the inputs of the load.
pub(crate) struct Judged {
    pub(crate) files: SiteFiles,
    pub(crate) host: Arc<Value>,
    pub(crate) inputs: SiteInputs,
    pub(crate) site: Arc<Site>,
}

impl SiteJudge {
    /// Loads a site to keep it, and judges facts for it from then on. A resource stays in the site
    /// if its config is wrong because of facts. The fault is found again when the resource is kept,
    /// which is degraded until the facts are right. Blocks.
    ///
    /// # Errors
    ///
    /// When anything else is wrong, as [`SiteFiles::load`].
    pub fn load(&self, files: &SiteFiles) -> Result<Arc<Site>, ManifestError> {
        self.load_if(IfFactsAreWrong::Keep(None), files)
    }

    /// Loads a site like [`load`](Self::load), unless an agent has gone back from its manifest to the last good one.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// As `load`, and when the manifest was rejected.
    pub fn load_unless_rejected(
        &self,
        files: &SiteFiles,
        last_good: &LastGood,
    ) -> Result<Arc<Site>, LoadError> {
        let (host, facts) = (files.host.read(), files.facts.current());
        let if_wrong = IfFactsAreWrong::Keep(None);
        let loaded = files.load_on(Arc::clone(&host), &facts, if_wrong)?;
        let LoadedSite { site, inputs, files: read, .. } = loaded;
        if let Some(why) = read.and_then(|read| last_good.rejection(&read)) {
            return Err(LoadError::Rejected(why));
        }
        let site = Arc::new(site);
        self.take(Judged { files: files.clone(), host, inputs, site: Arc::clone(&site) });
        Ok(site)
    }

    /// Loads a site like [`load`](Self::load), unless the facts are wrong for a resource. Blocks.
    ///
    /// # Errors
    ///
    /// When anything is wrong, as [`SiteFiles::load`].
    pub fn load_strictly(&self, files: &SiteFiles) -> Result<Arc<Site>, ManifestError> {
        self.load_if(IfFactsAreWrong::Refuse, files)
    }

    fn load_if(
        &self,
        if_wrong: IfFactsAreWrong<'_>,
        files: &SiteFiles,
    ) -> Result<Arc<Site>, ManifestError> {
        let (host, facts) = (files.host.read(), files.facts.current());
        let LoadedSite { site, inputs, .. } = files.load_on(Arc::clone(&host), &facts, if_wrong)?;
        let site = Arc::new(site);
        self.take(Judged { files: files.clone(), host, inputs, site: Arc::clone(&site) });
        Ok(site)
    }

    /// Returns the faults that a change of facts brings: those of the facts after it, without those
    /// of the facts before it. Returns nothing as long as no site was loaded. Reads the manifest
    /// again if the facts decide which resources there are, unless the manifest came from a pipe.
    /// Asks for the facts before the change only if the facts after it have a fault. Blocks.
    pub fn wrong_after(
        &self,
        before: impl FnOnce() -> SeenFacts,
        after: &SeenFacts,
    ) -> Vec<WrongFacts> {
        let Some(judged) = self.0.lock().clone() else { return Vec::new() };
        let renewed = judged.wrong_if_renewed(after);
        let is_loaded = renewed.is_none();
        let mut wrong = renewed.unwrap_or_else(|| judged.wrong_if_loaded(after));
        if !wrong.is_empty() {
            let before = before();
            // A load also finds faults of the files. If it has judged the facts after, it judges those before too, so
            // that the same faults are in both.
            let renewed = if is_loaded { None } else { judged.wrong_if_renewed(&before) };
            let before = renewed.unwrap_or_else(|| judged.wrong_if_loaded(&before));
            let before: HashSet<WrongFacts> = before.into_iter().collect();
            wrong.retain(|it| !before.contains(it));
        }
        wrong
    }

    /// Declares the resources that use changed facts again. If the manifest was refused with these
    /// facts, everything that needs a load stays as it is.
    pub(crate) fn renew(&self, facts: &SeenFacts, is_refused: bool) -> Renewed {
        let Some(judged) = self.0.lock().clone() else { return Renewed::Otherwise };
        let Judged { files, host, inputs, site } = &*judged;
        let Some(renewal) = inputs.renew(site, facts, is_refused) else {
            return Renewed::Otherwise;
        };
        let (renewed, inputs) = inputs.with(site, renewal);
        let renewed = renewed.map(Arc::new);
        let site = Arc::clone(renewed.as_ref().unwrap_or(site));
        let (files, host) = (files.clone(), Arc::clone(host));
        self.take(Judged { files, host, inputs, site });
        renewed.map_or(Renewed::Same, Renewed::Other)
    }

    /// Loads a site again. A resource that is wrong because of facts stays as it was.
    pub(crate) fn load_again(
        &self,
        files: &SiteFiles,
        host: Arc<Value>,
        facts: &SeenFacts,
    ) -> Result<LoadedSite, ManifestError> {
        let judged = self.0.lock().clone();
        let before = judged.as_deref().map(|judged| judged.inputs.before(&judged.site));
        files.load_on(host, facts, IfFactsAreWrong::Keep(before.as_ref()))
    }

    /// Returns whether the site was loaded from a kept manifest.
    pub(crate) fn is_of_kept(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|judged| judged.files.kept.is_some())
    }

    /// Forgets the site, so that no facts are judged for it: the site does not follow them.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn take(&self, judged: Judged) {
        *self.0.lock() = Some(Arc::new(judged));
    }
}

/// The result of a renewal of a site.
pub(crate) enum Renewed {
    Same,
    Other(Arc<Site>),
    /// It has to be loaded again.
    Otherwise,
}

impl Judged {
    /// Returns all faults of some facts; none if only a load can find them.
    fn wrong_if_renewed(&self, facts: &SeenFacts) -> Option<Vec<WrongFacts>> {
        let Self { inputs, site, .. } = self;
        let renewal = inputs.renew(site, facts, false)?;
        Some(inputs.wrong(site, Some(&renewal)))
    }

    /// Returns all faults of some facts, from a load; nothing if the manifest came from a pipe.
    fn wrong_if_loaded(&self, facts: &SeenFacts) -> Vec<WrongFacts> {
        let Self { files, host, inputs, site } = self;
        if site.is_piped() {
            return Vec::new();
        }
        let before = inputs.before(site);
        let if_wrong = IfFactsAreWrong::Keep(Some(&before));
        match files.load_of(site.kinds(), (host, facts), if_wrong) {
            Ok((site, inputs)) => inputs.wrong(&site, None),
            Err(error) => refused(&error),
        }
    }
}

/// Returns the problems of a site that cannot be loaded. They do not name their resources.
fn refused(error: &ManifestError) -> Vec<WrongFacts> {
    let problems = error.problems().iter();
    problems.map(|it| WrongFacts { resource: None, problem: it.brief() }).collect()
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;
    use std::sync::Arc;

    use crankcase_resources::{Declaration, Site};
    use serde_json::json;

    use super::{Judged, Renewed, SiteJudge};
    use crate::facts::SeenFacts;
    use crate::manifest::ManifestError;
    use crate::site_files::{LoadedSite, SiteFiles};

    fn seen(mode: &str) -> SeenFacts {
        SeenFacts { value: Arc::new(json!({"mode": mode})), ..SeenFacts::default() }
    }

    /// Loads a site again, and keeps it.
    fn load(
        judge: &SiteJudge,
        files: &SiteFiles,
        facts: &SeenFacts,
    ) -> Result<Arc<Site>, ManifestError> {
        let host = Arc::default();
        let LoadedSite { site, inputs, .. } = judge.load_again(files, Arc::clone(&host), facts)?;
        let site = Arc::new(site);
        judge.take(Judged { files: files.clone(), host, inputs, site: Arc::clone(&site) });
        Ok(site)
    }

    #[test]
    fn what_stays_as_it_was_claims_the_same_however_often_it_is_loaded()
    -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("key"), "s3cret")?;
        let manifest = folder.path().join("site.yaml");
        let text = "vars: {key: {secret: {file: key}}}\nresources:\n  r: {type: file, config: {path: \
                    /tmp/f, content: '{{ key }}', mode: '{{ facts.mode }}'}}\n";
        fs::write(&manifest, text)?;
        let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        let judge = SiteJudge::default();

        let right = load(&judge, &files, &seen("0600"))?;

        let claims = &right.declarations()[0].claims;
        assert!(claims.iter().any(|claim| claim.name.ends_with("/key")), "{claims:?}");
        for _ in 0..2 {
            let wrong = load(&judge, &files, &seen("banana"))?;
            assert_eq!(&wrong.declarations()[0].claims, claims);
        }
        Ok(())
    }

    /// Returns each resource of a site with the facts that are named for it.
    fn named(site: &Site) -> Vec<String> {
        let declarations = site.declarations().iter();
        let named = |it: &Declaration| format!("{}: {}", it.name, it.changed_facts.join(" "));
        declarations.map(named).collect()
    }

    #[test]
    fn a_load_names_the_changed_facts_that_decide_about_each_resource() -> Result<(), Box<dyn Error>>
    {
        let folder = tempfile::tempdir()?;
        let manifest = folder.path().join("site.yaml");
        let text = r#"vars: {port: '{{ facts.port }}'}
resources:
  page: {type: file, config: {path: '/tmp/{{ facts.page.name }}', content: '{{ facts.same }}'}}
  user:
    type: file
    for_each: '{{ facts.users }}'
    config: {path: '/tmp/u-{{ item.key }}', content: '{{ item.value }}'}
  all: {type: noop, dependencies: [user]}
  opt: {type: noop, when: '{{ facts.opt }}'}
  late: {type: noop, when: '{{ port > 80 }}'}
  kept: {type: noop, meta: {poll: '{{ facts.poll }}'}}
  other: {type: noop}
"#;
        fs::write(&manifest, text)?;
        let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        let judge = SiteJudge::default();
        let facts = |name: &str, users: serde_json::Value, opt: bool, (port, poll): (u32, &str)| {
            let page = json!({"name": name});
            let value = json!({"page": page, "same": "x", "users": users, "opt": opt, "port": port,
                "poll": poll, "unused": name});
            SeenFacts { value: Arc::new(value), ..SeenFacts::default() }
        };

        let first = load(&judge, &files, &facts("a", json!({"ada": "1"}), false, (80, "1h")))?;
        let users = json!({"ada": "2", "bob": "3"});
        let second = load(&judge, &files, &facts("b", users, true, (81, "2h")))?;

        assert!(first.declarations().iter().all(|it| it.changed_facts.is_empty()));
        let expected = [
            "page: /page/name",
            r#"user["ada"]: /users/ada"#,
            r#"user["bob"]: /users/bob"#,
            "all: /users/bob",
            "opt: /opt",
            "late: /port",
            "kept: /poll",
            "other: ",
        ];
        assert_eq!(named(&second), expected);
        Ok(())
    }

    #[test]
    fn a_load_names_no_fact_for_what_an_edit_of_the_manifest_adds() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let manifest = folder.path().join("site.yaml");
        let files = SiteFiles::new(vec![manifest.clone()], crankcase_kinds::builtin());
        let judge = SiteJudge::default();
        fs::write(&manifest, "resources:\n  page: {type: noop}\n")?;
        load(&judge, &files, &seen("0600"))?;

        let added = "  new: {type: noop, when: '{{ facts.mode == \"0644\" }}'}\n";
        fs::write(&manifest, format!("resources:\n  page: {{type: noop}}\n{added}"))?;
        let site = load(&judge, &files, &seen("0644"))?;

        assert_eq!(named(&site), ["page: ", "new: "]);
        Ok(())
    }

    #[test]
    fn a_resource_that_renders_a_file_names_the_facts_that_have_changed()
    -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("page.j2"), "{{ facts.mode }}")?;
        let manifest = folder.path().join("site.yaml");
        let text = "resources:\n  page: {type: file, config: {path: /tmp/f, template: page.j2}}\n";
        fs::write(&manifest, text)?;
        let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        let judge = SiteJudge::default();
        load(&judge, &files, &seen("0600"))?;

        let Renewed::Other(renewed) = judge.renew(&seen("0644"), false) else {
            return Err("it needs a load".into());
        };
        let loaded = load(&judge, &files, &seen("0640"))?;

        assert_eq!([named(&renewed), named(&loaded)], [["page: /mode"], ["page: /mode"]]);
        Ok(())
    }

    #[test]
    fn what_was_never_right_is_unsure_until_a_load_finds_it_right() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let manifest = folder.path().join("site.yaml");
        let text = "resources:\n  r: {type: file, config: {path: /tmp/f, content: x, mode: \
                    '{{ facts.mode }}'}}\n";
        fs::write(&manifest, text)?;
        let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        let judge = SiteJudge::default();

        for _ in 0..2 {
            assert!(load(&judge, &files, &seen("banana"))?.declarations()[0].is_unsure);
        }
        assert!(matches!(judge.renew(&seen("0600"), false), Renewed::Otherwise));
        for mode in ["0600", "banana"] {
            assert!(!load(&judge, &files, &seen(mode))?.declarations()[0].is_unsure, "{mode}");
        }
        Ok(())
    }

    #[test]
    fn no_debug_text_of_a_site_shows_what_its_expressions_see() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("key"), "s3cret")?;
        let manifest = folder.path().join("site.yaml");
        let text = "vars: {key: {secret: {file: key}}, pin: {sensitive: wr1tten}}\nresources:\n  r: \
                    {type: file, config: {path: /tmp/f, content: '{{ key }} {{ facts.mode }}'}}\n\
                    rules:\n  copy: {on: {fact: /mode}, do: [set: {path: /seen, value: '{{ key }} \
                    {{ pin }} {{ facts.mode }}'}]}\n";
        fs::write(&manifest, text)?;
        let mut files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        files.overrides.vars = vec![("pin".to_owned(), "overr1dden".to_owned())];
        let (host, facts) = (Arc::default(), seen("hunter2"));

        let LoadedSite { site, inputs, .. } =
            SiteJudge::default().load_again(&files, host, &facts)?;

        assert_eq!(site.rules().len(), 1);
        let debug = format!("{files:?} {site:?} {inputs:?}");
        for secret in ["s3cret", "wr1tten", "overr1dden", "hunter2"] {
            assert!(!debug.contains(secret), "{secret}: {debug}");
        }
        Ok(())
    }

    #[test]
    fn no_warning_and_no_debug_text_shows_a_secret() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let manifest = folder.path().join("site.yaml");
        let text = "resources:\n  r: {type: print, for_each: '{{ facts.users }}', config: {message: \
                    x}}\n";
        fs::write(&manifest, text)?;
        let files = SiteFiles::new(vec![manifest], crankcase_kinds::builtin());
        let judge = SiteJudge::default();
        let pin = "hunter2hunter2";
        let facts = |users: &[&str]| SeenFacts {
            value: Arc::new(json!({"pin": pin, "users": users})),
            secrets: vec![vec!["pin".to_owned()]],
            ..SeenFacts::default()
        };
        load(&judge, &files, &facts(&[]))?;

        let wrong = facts(&[pin, pin]);
        let site = load(&judge, &files, &wrong)?;

        let warnings = site.warnings().join("; ");
        assert!(warnings.contains("is there twice"), "{warnings}");
        let debug = format!("{judge:?} {wrong:?}");
        assert!(!warnings.contains(pin) && !debug.contains(pin), "{warnings} {debug}");
        Ok(())
    }
}
