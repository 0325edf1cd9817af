//! The site that an agent keeps, loaded again when its manifest changes.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Health, Live, Outcome, Stop};
use crankcase_resources::Site;
use crankcase_resources::derived::Value;
use crankcase_resources::run::Watching;
use crankcase_workers::{QuietTime, Signal, SignalHandle, Watches};
use tokio::sync::watch::Sender;
use tokio::time::{Instant, sleep_until};

use crate::facts::SeenFacts;
use crate::judge::{Judged, Renewed, SiteJudge};
use crate::last_good::{GoingBack, LastGood};
use crate::manifest::{KeptManifest, Manifest};
use crate::site_files::{LoadedSite, SiteFiles};

/// How often the host is looked at.
const HOST_LOOKS: Duration = Duration::from_secs(60);

const LOADED: &str = "the manifest was loaded again";
const RENEWED: &str = "resources are declared again, as facts that they use have changed";
const LOADED_SAME: &str = "the manifest was loaded again; nothing has changed in it";

const PIPED: &str = "the manifest came from a pipe, which can be read only once; it stays as it is";

const PIPED_FACTS: &str = "the facts have changed; the manifest came from a pipe, and stays as it was with the facts before";

const REFUSED_SAME: &str = "the manifest was loaded again; it is rejected for the same reasons";

/// The result of another load of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    Same,
    Other,
    Refused,
}

/// A worker that loads a site again when something that the site is made of has changed:
/// - a manifest or a file of variables, once it was left alone for 500 ms, or goes on changing for 10 s;
/// - the host, which the worker looks at every minute;
/// - the facts.
///
/// It also loads the site at SIGHUP, and once at its start, as the site that it is given may be out of date by then.
///
/// A site that cannot be loaded is refused: the worker is degraded with what is wrong, and the site
/// before stays on offer. If files beside the manifest are at fault, they are watched as well.
///
/// A site that came from a pipe stays as it is, also at SIGHUP.
///
/// With a [`LastGood`] the worker notes each load there. On request it goes back to the last good
/// manifest. It then refuses the files that it has gone back from, until one of them changes or
/// SIGHUP comes.
#[derive(Debug)]
pub struct SiteSource {
    files: SiteFiles,
    signals: SignalHandle,
    watching: Watching,
    /// The host as it was found last.
    host: Arc<Value>,
    /// The facts that were last taken over or refused.
    facts: SeenFacts,
    /// The files beside the manifest that are watched because they caused a refusal.
    beside: Vec<PathBuf>,
    /// The files that secrets were read from.
    secret_files: Vec<PathBuf>,
    judge: SiteJudge,
    site: Sender<Arc<Site>>,
    health: Health,
    /// The problems of the manifest that was loaded last, if it was refused.
    refused: Option<String>,
    last_good: Option<LastGood>,
}

impl SiteSource {
    /// Returns the worker. `site` has the site that was loaded last. The judge gets each site that the worker loads.
    pub fn new(
        files: SiteFiles,
        (site, judge): (Sender<Arc<Site>>, SiteJudge),
        (signals, watches): (SignalHandle, Live<Watches>),
        health: Health,
    ) -> Self {
        let watching = Watching::new(watches);
        let (host, beside, secret_files) = (Arc::default(), Vec::new(), Vec::new());
        let (refused, facts) = (None, SeenFacts::default());
        Self {
            files,
            signals,
            watching,
            host,
            facts,
            beside,
            secret_files,
            judge,
            site,
            health,
            refused,
            last_good: None,
        }
    }

    /// Sets the last good manifest, to which the worker goes back on request. Default none.
    #[must_use]
    pub fn with_last_good(self, last_good: LastGood) -> Self {
        Self { last_good: Some(last_good), ..self }
    }

    /// Runs until it is told to stop.
    ///
    /// # Errors
    ///
    /// None: what is wrong with a manifest is reported, and the worker runs on.
    pub async fn run(mut self, stop: Stop) -> Outcome {
        let mut hangups = self.signals.counts().of(Signal::Hangup);
        if self.site.borrow().is_piped() {
            self.judge.forget();
            return self.keep(stop, hangups).await;
        }
        self.look_at_host(&stop).await;
        // No watch has reported the changes since the last load.
        if self.load(&stop).await == Loaded::Other {
            tracing::info!("{LOADED}");
        }
        let mut next_look = Instant::now() + HOST_LOOKS;
        loop {
            // Watched first, then looked at: a change from here on is reported.
            self.watching.renew(&stop).await;
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                hangup = next_hangup(&self.signals, hangups) => {
                    hangups = hangup;
                    self.last_good.iter().for_each(LastGood::forgive);
                }
                asked = asked_back(self.last_good.as_ref()) => {
                    let has_gone_back = self.go_back(&asked, &stop).await;
                    self.last_good.iter().for_each(LastGood::answered);
                    // The load finds the files that have changed since, and those to watch.
                    if has_gone_back && self.load(&stop).await == Loaded::Other {
                        tracing::info!("{LOADED}");
                    }
                    continue;
                }
                () = sleep_until(next_look) => {
                    next_look = Instant::now() + HOST_LOOKS;
                    if !self.look_at_host(&stop).await {
                        continue;
                    }
                    tracing::info!("the host has changed");
                }
                () = self.files.facts.changed(self.facts.revision) => {
                    self.follow_facts(&stop).await;
                    continue;
                }
                () = self.watching.changed() => {
                    if !self.is_left_alone(&stop, &mut hangups).await {
                        return Ok(());
                    }
                }
            }
            let before = self.refused.clone();
            match self.load(&stop).await {
                Loaded::Other => tracing::info!("{LOADED}"),
                Loaded::Same => tracing::info!("{LOADED_SAME}"),
                Loaded::Refused if self.refused == before => tracing::info!("{REFUSED_SAME}"),
                Loaded::Refused => {}
            }
        }
    }

    /// Keeps the site as it is, and logs that at SIGHUP and when the facts change.
    async fn keep(mut self, stop: Stop, mut hangups: u64) -> Outcome {
        self.facts = self.files.facts.current();
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                hangup = next_hangup(&self.signals, hangups) => {
                    hangups = hangup;
                    tracing::info!("{PIPED}");
                }
                () = self.files.facts.changed(self.facts.revision) => {
                    self.facts = self.files.facts.current();
                    tracing::info!("{PIPED_FACTS}");
                }
            }
        }
    }

    /// Takes over facts that have changed.
    async fn follow_facts(&mut self, stop: &Stop) {
        // A refused manifest may be valid with these facts.
        if self.refused.is_none() {
            self.look_at_facts(stop).await;
            if self.renew(stop, false).await {
                return;
            }
        }
        if self.load(stop).await == Loaded::Other {
            tracing::info!("{LOADED}");
        }
    }

    async fn look_at_facts(&mut self, stop: &Stop) {
        let facts = Arc::clone(&self.files.facts);
        self.facts = stop.blocking(move || facts.current()).await.unwrap_or_default();
    }

    /// Declares the resources that use changed facts again. Returns whether that was enough; if
    /// not, the site has to be loaded again. If the manifest is refused, everything that needs a
    /// load stays as it is.
    async fn renew(&mut self, stop: &Stop, is_refused: bool) -> bool {
        let (facts, judge) = (self.facts.clone(), self.judge.clone());
        match stop.blocking(move || judge.renew(&facts, is_refused)).await {
            Ok(Renewed::Otherwise) | Err(_) => return false,
            Ok(Renewed::Same) => {}
            Ok(Renewed::Other(site)) => {
                self.site.send_replace(site);
                tracing::info!("{RENEWED}");
            }
        }
        true
    }

    /// Waits until nothing has changed for a while, or until the longest wait is over. SIGHUP ends
    /// the wait. Returns whether the worker may go on.
    async fn is_left_alone(&mut self, stop: &Stop, hangups: &mut u64) -> bool {
        let mut quiet_time = QuietTime::new(self.files.quiet);
        loop {
            quiet_time.note(self.watching.writing());
            self.watching.renew(stop).await;
            // Changes come last: in a folder that is always busy they must not hide the other
            // events.
            tokio::select! {
                biased;
                () = stop.wait() => return false,
                hangup = next_hangup(&self.signals, *hangups) => {
                    *hangups = hangup;
                    return true;
                }
                () = quiet_time.over() => return true,
                () = self.watching.changed() => {}
            }
        }
    }

    /// Reads the host; returns whether it has changed.
    async fn look_at_host(&mut self, stop: &Stop) -> bool {
        let host = self.files.host.clone();
        let Ok(found) = stop.blocking(move || host.read()).await else { return false };
        std::mem::replace(&mut self.host, Arc::clone(&found)) != found
    }

    /// Loads the site, and watches the files that are at fault if the manifest is refused. In that
    /// case the facts of this load still reach everything that needs no load.
    async fn load(&mut self, stop: &Stop) -> Loaded {
        // Watched first, because the content of a folder may have changed.
        self.watch(stop).await;
        loop {
            let before = self.secret_files.clone();
            let (loaded, beside) = self.load_once(stop).await;
            let is_watched = beside.iter().all(|path| self.beside.contains(path))
                && self.secret_files.iter().all(|path| before.contains(path));
            self.beside = beside;
            self.watch(stop).await;
            if is_watched || stop.is_stopped() {
                if loaded == Loaded::Refused {
                    self.renew(stop, true).await;
                }
                return loaded;
            }
            // Some of these files were not watched during the load, and may have changed: it loads again.
        }
    }

    /// Watches the files that the site is made of, and the files for which it is refused.
    async fn watch(&mut self, stop: &Stop) {
        let paths = self.files.paths.clone();
        // A folder does not report changes behind a symlink in it, so its files are watched as
        // well.
        let listed = stop.blocking(move || Manifest::list(&paths)).await.unwrap_or_default();
        let named = self.files.paths.iter().chain(&self.files.overrides.files);
        let paths = named.chain(&self.beside).chain(&self.secret_files).cloned().chain(listed);
        self.watching.exchange(paths.collect());
        self.watching.renew(stop).await;
    }

    /// Loads the site once. Also returns the files beside the manifest that are at fault.
    async fn load_once(&mut self, stop: &Stop) -> (Loaded, Vec<PathBuf>) {
        self.look_at_facts(stop).await;
        let (files, host) = (self.files.clone(), Arc::clone(&self.host));
        let (facts, judge) = (self.facts.clone(), self.judge.clone());
        match stop.blocking(move || judge.load_again(&files, host, &facts)).await {
            Ok(Ok(LoadedSite { site, inputs, secret_files, files })) => {
                if let Some((why, templates)) = self.rejection(files.as_ref()) {
                    return (self.refuse(why), templates);
                }
                self.secret_files = secret_files;
                self.refused = None;
                match site.warnings() {
                    [] => self.health.good(),
                    warnings => self.health.degraded(warnings.join("; ")),
                }
                let (site, is_other) = self.offered(site);
                if let Some(last_good) = &self.last_good {
                    // Noted before the site is offered: from then on, other workers may ask for it.
                    last_good.note(&site, files);
                }
                if is_other {
                    self.site.send_replace(Arc::clone(&site));
                }
                let (files, host) = (self.files.clone(), Arc::clone(&self.host));
                self.judge.take(Judged { files, host, inputs, site });
                (if is_other { Loaded::Other } else { Loaded::Same }, Vec::new())
            }
            Ok(Err(error)) => (self.refuse(error.brief()), error.beside().to_vec()),
            Err(panicked) => (self.refuse(panicked.to_string()), Vec::new()),
        }
    }

    /// Returns the site to offer after a load, and whether it differs from the site on offer.
    fn offered(&self, loaded: Site) -> (Arc<Site>, bool) {
        let before = Arc::clone(&self.site.borrow());
        if *before == loaded { (before, false) } else { (Arc::new(loaded), true) }
    }

    /// Returns the reason for which a manifest that can be loaded is refused, and the templates
    /// that may be at fault.
    fn rejection(&self, files: Option<&KeptManifest>) -> Option<(String, Vec<PathBuf>)> {
        let why = self.last_good.as_ref()?.rejection(files?)?;
        Some((why, files?.templates()))
    }

    /// Goes back to the last good manifest, unless another one was loaded meanwhile. Returns whether it has.
    async fn go_back(&mut self, asked: &GoingBack, stop: &Stop) -> bool {
        let last_good = self.last_good.clone().filter(|last_good| last_good.is_loaded(asked));
        let (Some(last_good), why) = (last_good, &asked.why) else { return false };
        self.look_at_facts(stop).await;
        let (files, host) = (self.files.clone(), Arc::clone(&self.host));
        let (facts, judge, reason) = (self.facts.clone(), self.judge.clone(), why.clone());
        let load = move || -> Result<Judged, String> {
            let kept = last_good.read().ok_or("there is none")?;
            let files = SiteFiles { kept: Some(kept), ..files };
            let loaded = judge.load_again(&files, Arc::clone(&host), &facts);
            let LoadedSite { site, inputs, .. } = loaded.map_err(|error| error.brief())?;
            last_good.reject(&reason);
            Ok(Judged { files, host, inputs, site: Arc::new(site) })
        };
        let loaded = match stop.blocking(load).await {
            Ok(loaded) => loaded,
            Err(panicked) => Err(panicked.to_string()),
        };
        match loaded {
            Ok(judged) => {
                self.site.send_replace(Arc::clone(&judged.site));
                self.judge.take(judged);
                self.refuse(why.clone());
                true
            }
            Err(error) => {
                let text = format!("{why}; cannot go back to the last good manifest: {error}");
                self.health.degraded(text);
                false
            }
        }
    }

    /// Refuses the manifest. It logs nothing: the agent logs the health of a worker when it changes.
    fn refuse(&mut self, error: String) -> Loaded {
        let old =
            if self.judge.is_of_kept() { "the last good one runs" } else { "the old one runs on" };
        self.health.degraded(format!("the new manifest is rejected, {old}: {error}"));
        self.refused = Some(error);
        Loaded::Refused
    }
}

/// Waits until somebody asks to go back to the last good manifest.
async fn asked_back(last_good: Option<&LastGood>) -> GoingBack {
    match last_good {
        Some(last_good) => last_good.asked().await,
        None => pending().await,
    }
}

/// Waits for the next SIGHUP. Without a worker that listens none will ever come.
async fn next_hangup(signals: &SignalHandle, seen: u64) -> u64 {
    match signals.next(Signal::Hangup, seen).await {
        Ok(count) => count,
        Err(_) => pending().await,
    }
}
