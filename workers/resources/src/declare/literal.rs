//! Declarations without a manifest: configs of plain values and of attributes of other states.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::base::shape::Shape;
use crate::declare::declaration::{
    Config, Declaration, Dependency, DependencyState, Inputs, OnChange, Place, Render, RenderError,
    Rendered, RenderedText, Scope, UNUSABLE,
};

/// A config without a manifest: values, and attributes of the states of dependencies.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use crankcase_resources::Literal;
/// let config = [("mode".to_owned(), "0644".into())].into_iter().collect();
/// let page = Literal::new(config).using("path", "folder", "path");
/// let page = page.declare(Path::new("/srv"), "page", "file");
/// assert_eq!(page.dependencies[0].resource, "folder");
/// ```
#[derive(Clone)]
pub struct Literal {
    config: Config,
    /// The config's attribute, the dependency, and the state's attribute that it is made of.
    used: Vec<(String, String, String)>,
    scope: Arc<dyn Scope>,
    place: Place,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, used, place, .. } = self;
        let mut shown = f.debug_struct("Literal");
        shown.field("config", &Shape::of_map(config)).field("used", used).field("place", place);
        shown.finish_non_exhaustive()
    }
}

impl Literal {
    /// Returns a config of values.
    pub fn new(config: Config) -> Self {
        Self { config, used: Vec::new(), scope: as_written(), place: place(Path::new("")) }
    }

    /// Takes an attribute from the state of a dependency, as `{{ deps.DEPENDENCY.state.OF }}` would.
    #[must_use]
    pub fn using(mut self, attribute: &str, dependency: &str, of: &str) -> Self {
        let used = [attribute, dependency, of].map(str::to_owned);
        self.config.remove(attribute);
        self.used.push(used.into());
        self
    }

    /// Sets what renders template files. By default they are left as they are written.
    #[must_use]
    pub fn scope(mut self, scope: impl Scope + 'static) -> Self {
        self.scope = Arc::new(scope);
        self
    }

    pub(crate) fn scoped(self, scope: &Arc<dyn Scope>) -> Self {
        Self { scope: Arc::clone(scope), ..self }
    }

    /// Declares a resource with this config, in the `site.yaml` of a folder.
    pub fn declare(self, folder: &Path, name: &str, kind: &str) -> Declaration {
        self.declare_at(place(folder), folder, name, kind)
    }

    /// Declares a resource with this config at a place.
    pub(crate) fn declare_at(
        mut self,
        place: Place,
        folder: &Path,
        name: &str,
        kind: &str,
    ) -> Declaration {
        self.place.clone_from(&place);
        let dependencies = self.used.iter().map(|(_, used, _)| Dependency {
            alias: used.clone(),
            resource: used.clone(),
            on_change: OnChange::Check,
        });
        let dependencies = dependencies.collect();
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let mut declaration =
            Declaration::new(name, kind, folder.to_owned(), place, Arc::new(self));
        declaration.dependencies = dependencies;
        declaration
    }
}

fn place(folder: &Path) -> Place {
    Place { file: folder.join("site.yaml"), line: 1, column: 1 }
}

impl Render for Literal {
    fn render(&self, inputs: &Inputs) -> Result<Rendered, RenderError> {
        let mut config = self.config.clone();
        let mut because = Vec::new();
        for (attribute, used, of) in &self.used {
            match inputs.deps.get(used) {
                Some(DependencyState::Known(state)) => {
                    if let Some(why) =
                        state[UNUSABLE][of].as_str().filter(|_| state.get(of).is_none())
                    {
                        let message = format!("{attribute}: {used}.{of} cannot be used: {why}");
                        return Err(RenderError { place: self.place.clone(), message });
                    }
                    config.insert(attribute.clone(), state[of].clone());
                }
                Some(DependencyState::Foreseen(state)) if state.get(of).is_some() => {
                    config.insert(attribute.clone(), state[of].clone());
                }
                _ => because.push(used.clone()),
            }
        }
        if because.is_empty() {
            return Ok(Rendered::Known { config, scope: Arc::clone(&self.scope) });
        }
        Ok(Rendered::Unknown { because })
    }

    fn is_equal(&self, other: &dyn Render) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            (&self.config, &self.used) == (&other.config, &other.used)
                && Arc::ptr_eq(&self.scope, &other.scope)
        })
    }
}

/// Returns what leaves template files as they are written.
pub(crate) fn as_written() -> Arc<dyn Scope> {
    AS_WRITTEN.clone()
}

static AS_WRITTEN: LazyLock<Arc<dyn Scope>> = LazyLock::new(|| Arc::new(AsWritten));

/// Renders nothing.
#[derive(Debug)]
struct AsWritten;

impl Scope for AsWritten {
    fn render_text(&self, _: &Path, text: &str) -> Result<RenderedText, RenderError> {
        Ok(RenderedText::Known(text.to_owned()))
    }
}
