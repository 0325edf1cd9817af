//! The reasons why a resource is looked at, and why it was changed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crankcase_engine::Origin;
use crankcase_workers::name_first;

use crate::declare::declaration::{Config, Declaration};
use crate::kind::context::Notice;
use crate::report::observer::{AskedBy, EventKind};
use crate::schedule::state::State;
use crate::state::facilities::FileStamp;

/// How many reasons of one look are shown, and how many names of each.
const SHOWN: usize = 3;

/// One reason to look at a resource. Those that come first say more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// This resource or rule notifies it.
    Notified(Arc<str>),
    /// It is declared in another way: these attributes of its config have changed.
    Declared(Vec<String>),
    /// Its watch has told of this path.
    Path(PathBuf),
    /// The fact at this path, which its config uses, has changed.
    UsedFact(String),
    /// The fact at this path, which it watches, has changed.
    Fact(String),
    /// Its watch has reported a change, and does not say which one.
    Signal,
    /// The watcher of its files has started.
    Watcher,
    /// This resource, which it needs, has a new state.
    NewState(Arc<str>),
    /// This resource, which it needs, was repaired.
    Repaired(Arc<str>),
    /// This resource, which needs it, could not be looked at.
    LookFailed(Arc<str>),
    /// This caller has bounced or unparked the worker that keeps it.
    Asked(AskedBy),
    /// It was paused, and is kept again.
    Resumed,
    /// The health of its program has changed.
    Health,
    /// A worker has started to keep it.
    Started,
    /// It has failed before.
    Retry,
    /// It was time to look.
    Poll,
}

impl Why {
    /// Returns whether the resource itself may have changed, as its watches say.
    fn is_seen(&self) -> bool {
        matches!(self, Self::Path(_) | Self::Fact(_) | Self::Signal | Self::Watcher)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notified(by) => write!(f, "\"{by}\" notifies it"),
            Self::Declared(attributes) if attributes.is_empty() => {
                f.write_str("its declaration has changed")
            }
            Self::Declared(attributes) => {
                write!(f, "its declaration has changed: {}", name_first(SHOWN, attributes.iter()))
            }
            Self::Path(path) => write!(f, "its watch has told of {path:?}"),
            Self::UsedFact(path) | Self::Fact(path) => write!(f, "the fact {path} has changed"),
            Self::Signal => f.write_str("its watch has told of a change"),
            Self::Watcher => f.write_str("its watch has started"),
            Self::NewState(by) => write!(f, "\"{by}\" has a new state"),
            Self::Repaired(by) => write!(f, "\"{by}\" was repaired"),
            Self::LookFailed(by) => write!(f, "\"{by}\" could not be looked at"),
            Self::Asked(AskedBy { who, why, .. }) => write!(f, "{who} asked for it: {why}"),
            Self::Resumed => f.write_str("it was resumed"),
            Self::Health => f.write_str("the health of its program has changed"),
            Self::Started => f.write_str("its worker has started"),
            Self::Retry => f.write_str("it is tried again"),
            Self::Poll => f.write_str("it was time to look"),
        }
    }
}

/// Returns the first of some reasons, and how many more there are.
fn some(whys: &[&Why]) -> String {
    let shown = whys.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    match whys.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// All reasons to look at a resource.
#[derive(Debug, Default)]
pub(crate) struct Whys(Vec<Why>);

impl Whys {
    /// Adds reasons, each once. They must not grow for ever while a resource waits.
    pub(crate) fn extend(&mut self, whys: impl IntoIterator<Item = Why>) {
        for why in whys {
            if self.0.len() <= 2 * SHOWN
                && let Err(place) = self.0.binary_search(&why)
            {
                self.0.insert(place, why);
            }
        }
    }

    /// Returns the caller that has bounced or unparked the worker, if that is one of the reasons.
    pub(crate) fn asked_by(&self) -> Option<&AskedBy> {
        self.0.iter().find_map(|why| match why {
            Why::Asked(asked_by) => Some(asked_by),
            _ => None,
        })
    }

    /// Returns whether the watches have told of a change.
    pub(crate) fn are_seen(&self) -> bool {
        self.0.iter().any(Why::is_seen)
    }
}

/// Leaves out the time if there is another reason, and the new state of a resource that notifies
/// this one.
impl fmt::Display for Whys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_implied = |why: &Why| match why {
            Why::NewState(by) => self.0.contains(&Why::Notified(Arc::clone(by))),
            Why::Started | Why::Retry | Why::Poll => self.0.first() != Some(why),
            _ => false,
        };
        let shown = self.0.iter().filter(|why| !is_implied(why)).collect::<Vec<_>>();
        f.write_str(&some(&shown))
    }
}

/// The basis of a visit of a resource.
pub(crate) struct VisitBasis {
    pub(crate) declaration: Declaration,
    pub(crate) states: BTreeMap<String, State>,
    /// The files that the resource reads, as they were.
    pub(crate) sources: Vec<FileStamp>,
}

impl PartialEq for VisitBasis {
    fn eq(&self, other: &Self) -> bool {
        self.declaration.is_clone_of(&other.declaration)
            && self.states == other.states
            && self.sources == other.sources
    }
}

/// Returns why a program is started. If none was started before, these are the reasons of the
/// visit. Otherwise they are the end of the program before, the attributes that differ from the
/// config `before`, and the sources of notifications; if there is none of these, the reasons of the
/// visit.
pub(crate) fn started(
    (before, config): (Option<&Config>, &Config),
    last_end: Option<String>,
    (notices, visit): (&[Notice], &str),
) -> String {
    let mut whys: Vec<_> = last_end.into_iter().collect();
    let changed = before.map_or_else(Vec::new, |before| others(before, config));
    if !changed.is_empty() {
        let changed = name_first(SHOWN, changed.iter());
        whys.push(format!("its config has changed: {changed}"));
    }
    let notices = notices.iter().filter(|_| before.is_some());
    let notified = notices.map(|notice| Why::Notified(notice.by.as_str().into()));
    let notified = notified.collect::<Vec<_>>();
    if !notified.is_empty() {
        whys.push(some(&notified.iter().collect::<Vec<_>>()));
    }
    if whys.is_empty() { visit.to_owned() } else { whys.join("; ") }
}

/// Returns the attributes of a config that differ from those before.
pub(crate) fn others(before: &Config, now: &Config) -> Vec<String> {
    let names = now.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    names.chain(gone).map(|(name, _)| name.clone()).collect()
}

/// Returns the event of a change of a resource, and its origin.
pub(crate) fn noted(
    differing: &[String],
    is_drift: bool,
    notices: &[Notice],
) -> (EventKind, Origin) {
    if !notices.is_empty() && differing.is_empty() {
        return (EventKind::Refreshed, by_notices(notices));
    }
    let differing = differing.join(", ");
    match is_drift {
        true => (EventKind::Repaired, by_agent(&format!("not as declared any more: {differing}"))),
        false => (EventKind::Changed, by_agent(&format!("not as declared: {differing}"))),
    }
}

/// Returns the origin of a change that a resource makes because it is notified.
pub(crate) fn by_notices(notices: &[Notice]) -> Origin {
    let by: Vec<_> = notices.iter().map(|notice| notice.by.as_str()).collect();
    Origin::new(by.join(", "), "a change notifies it")
}

/// Returns the origin of a change that the agent makes by itself.
pub(crate) fn by_agent(why: &str) -> Origin {
    Origin::new("agent", why)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Why, Whys, started};
    use crate::declare::declaration::Config;
    use crate::kind::context::Notice;

    fn text(whys: impl IntoIterator<Item = Why>) -> String {
        let mut all = Whys::default();
        all.extend(whys);
        all.to_string()
    }

    #[test]
    fn a_reason_that_another_one_implies_is_not_shown() {
        let notified = || Why::Notified("conf".into());

        assert_eq!(
            text([Why::Poll, Why::NewState("conf".into()), notified()]),
            r#""conf" notifies it"#
        );
        assert_eq!(text([Why::Poll]), "it was time to look");
        assert_eq!(
            text([Why::NewState("other".into()), notified()]),
            r#""conf" notifies it; "other" has a new state"#
        );
    }

    #[test]
    fn a_start_of_a_program_has_all_of_its_reasons_else_that_of_the_visit() {
        let config = |word: &str| Config::from_iter([("command".to_owned(), word.into())]);
        let (before, now) = (config("one"), config("two"));
        let (end, notices) = ("it ended", [Notice::new("conf", Vec::new(), Arc::default())]);

        let all = started((Some(&before), &now), Some(end.to_owned()), (&notices, "poll"));
        let none = started((Some(&now), &now), None, (&[], "poll"));

        let expected = "it ended; its config has changed: command; \"conf\" notifies it";
        assert_eq!((&*all, &*none), (expected, "poll"));
    }

    #[test]
    fn of_many_reasons_the_first_are_shown_and_the_others_counted() {
        let paths = (0..9).map(|number| Why::Path(format!("/{number}").into()));

        assert_eq!(
            text(paths),
            "its watch has told of \"/0\"; its watch has told of \"/1\"; its watch has told of \
             \"/2\" and 4 more"
        );
    }
}
