//! A kind whose resources are made of files.

use std::convert::Infallible;

use crankcase_resources::dynamic::Part;
use crankcase_resources::front::DependencyState;
use crankcase_resources::{
    AbsPath, BoxError, Check, Claimed, Context, Params, Resource, Unfinished,
};

/// keeps a website: a folder with a page
#[derive(Debug, Clone, PartialEq, Params)]
pub(crate) struct Website {
    /// the folder
    root: AbsPath,
    /// the page's text
    text: String,
}

/// The state of a website.
#[derive(Debug, Clone, PartialEq, Params)]
pub(crate) struct WebsiteState {
    /// where the page is
    page: String,
}

impl Resource for Website {
    const NAME: &'static str = "website";
    type State = WebsiteState;
    type Action = Infallible;

    fn claims(_: &WebsitePartial) -> Claimed {
        Claimed::default()
    }

    fn parts(partial: &WebsitePartial) -> Vec<Part> {
        let root = partial.root.as_ref().map(|root| root.as_ref().display().to_string());
        let page = root.as_ref().map(|root| format!("{root}/index.html"));
        let folder = root.as_ref().map(|root| format!("{root}/"));
        vec![
            Part::new("page", "file")
                .with_partial("path", page)
                .with_partial("content", partial.text.as_ref().map(String::as_str))
                .after("folder"),
            Part::new("folder", "file").with_partial("path", folder),
        ]
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let page = context.dependencies().iter().find(|used| used.alias == "part page");
        let state = &page.ok_or("it has no page")?.state;
        let DependencyState::Known(state) = state else { return Ok(Check::Unknown(Vec::new())) };
        let page = state["path"].as_str().ok_or("its page is nowhere")?.to_owned();
        Ok(Check::valid(WebsiteState { page }))
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}
