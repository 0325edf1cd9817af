//! Nested engines: one for each tenant, with what they import and export.

use std::error::Error;

use crankcase_engine::{Change, Engine, Live, Manifold, Name, Nested};

/// In the outer engine.
const DOMAIN: Name<String> = Name::new("domain");
const MOTTO: Name<String> = Name::new("motto");
const ACME: Name<Engine> = Name::new("acme");
const ACME_PAGE: Name<String> = Name::new("acme-page");

/// In each tenant's engine, under the same names for all.
const TITLE: Name<String> = Name::new("title");
const PAGE: Name<String> = Name::new("page");

/// Returns a manifold that offers a text, made of its inputs' texts.
fn joined(inputs: Vec<Name<String>>) -> Manifold {
    Manifold::builder().inputs(inputs).offers::<(String,)>().run(|texts, up| async move {
        let text = format!("{}#{}", texts.join(" "), up.context().generation());
        up.ready((text,)).wait().await;
        Ok(())
    })
}

/// Returns a tenant: an engine of two workers.
fn tenant(page: Name<String>) -> Nested {
    Nested::new(|| {
        Change::new().install(TITLE, joined(vec![DOMAIN])).install(PAGE, joined(vec![TITLE, MOTTO]))
    })
    // An input of the whole: without it the tenant does not run.
    .require(DOMAIN, DOMAIN)
    // For the workers that use it alone.
    .import(MOTTO, MOTTO)
    .export(PAGE, page)
}

/// Waits until the text has such a part, and returns it.
async fn text_with(page: &mut Live<String>, part: &str) -> Result<String, Box<dyn Error>> {
    loop {
        match page.get() {
            Some(text) if text.contains(part) => return Ok(text),
            _ => page.changed().await?,
        };
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().build()?;
    engine.provide(DOMAIN, "acme.org".to_owned()).await?;
    engine.provide(MOTTO, "works".to_owned()).await?;

    // It is previewed and installed as one.
    let install = || Change::new().install_nested(ACME, tenant(ACME_PAGE));
    print!("{}", engine.preview(install()).await?);
    engine.apply(install()).await?;
    let mut page = engine.output(ACME_PAGE).follow().await?;
    println!("{}", text_with(&mut page, "works").await?);
    for each in engine.engines() {
        for worker in each.report().await.workers.values() {
            println!("  {} is {}", worker.path, worker.state);
        }
    }

    // A live import bounces the worker that uses it: the second page, with the first title.
    engine.provide(MOTTO, "moves".to_owned()).await?;
    println!("{}", text_with(&mut page, "moves").await?);

    // A whole import bounces the whole: all begin with generation 1 again.
    engine.provide(DOMAIN, "acme.net".to_owned()).await?;
    println!("{}", text_with(&mut page, "acme.net").await?);

    // A cycle that leads out of an engine and back in is refused like any other.
    let echo = Name::<String>::new("echo");
    let circle = tenant(echo.clone()).require(echo, Name::new("text"));
    let circle = engine.install_nested(Name::<Engine>::new("site"), circle).await;
    println!("refused: {}", circle.err().ok_or("it was not refused")?);

    // It goes as one, too.
    print!("{}", engine.preview(Change::new().uninstall(ACME)).await?);
    engine.uninstall(ACME).await?;
    println!("{:?}", engine.report().await.workers.keys().collect::<Vec<_>>());
    engine.stop().await?;
    Ok(())
}
