//! Tenants that come and go while the server that knows them all runs on.

use std::error::Error;

use crankcase_engine::{Change, Changing, Engine, Family, LiveSet, Manifold, Name, Nested};
use tokio::sync::{mpsc, oneshot, watch};

/// All names like this hold a tenant.
const TENANTS: Family<Tenant> = Family::new("tenant-*");
const SERVER: Name<Server> = Name::new("server");

/// In each tenant's own engine.
const QUEUE: Name<Tenant> = Name::new("queue");

/// What the server needs of a tenant.
#[derive(Clone)]
struct Tenant {
    plan: &'static str,
}

/// Asks the server for a page.
#[derive(Clone)]
struct Server(mpsc::Sender<(String, oneshot::Sender<String>)>);

impl Server {
    async fn page(&self, tenant: &str) -> Result<String, Box<dyn Error>> {
        let (reply, page) = oneshot::channel();
        self.0.send((tenant.to_owned(), reply)).await?;
        Ok(page.await?)
    }
}

/// Returns a server of all tenants. It looks each one up when it is asked for.
fn server() -> Manifold {
    Manifold::builder().inputs(TENANTS.live()).offers::<(Server,)>().run(
        |tenants: LiveSet<Tenant>, up| async move {
            let (sender, mut asked) = mpsc::channel::<(String, oneshot::Sender<String>)>(16);
            let stop = up.ready((Server(sender),));
            loop {
                tokio::select! {
                    biased;
                    () = stop.wait() => return Ok(()),
                    Some((name, reply)) = asked.recv() => {
                        let page = match tenants.get(&name) {
                            Some(tenant) => format!("200 {name} has the {} plan", tenant.plan),
                            None => format!("404 no {name} among {:?}", tenants.members()),
                        };
                        let _gone = reply.send(page);
                    }
                }
            }
        },
    )
}

/// Returns a tenant: a nested engine that exports what the server needs under a name of the family.
fn tenant(member: &str, plan: watch::Receiver<Tenant>) -> Result<Nested, Box<dyn Error>> {
    let contents = move || {
        let plan = plan.clone();
        let queue = Manifold::builder().offers::<(Changing<Tenant>,)>().run(move |(), up| {
            let plan = plan.clone();
            async move {
                up.ready((Changing::new(plan),)).wait().await;
                Ok(())
            }
        });
        Change::new().install(QUEUE, queue)
    };
    Ok(Nested::new(contents).export(QUEUE, TENANTS.name(member)?))
}

impl PartialEq for Tenant {
    fn eq(&self, other: &Self) -> bool {
        self.plan == other.plan
    }
}

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().build()?;
    engine.install(SERVER, server()).await?;
    let server = engine.output(SERVER).await?;
    println!("{}", server.page("acme").await?);

    // A tenant comes, and the server is not restarted.
    let acme = Name::<Engine>::new("acme");
    let plan = watch::Sender::new(Tenant { plan: "small" });
    engine.install_nested(acme.clone(), tenant("acme", plan.subscribe())?).await?;
    engine.running(TENANTS.name("acme")?).await?;
    println!("{}", server.page("acme").await?);

    // A new value of its output passes the border like any other.
    let mut seen = engine.output(TENANTS.name("acme")?).follow().await?;
    seen.value().await?;
    plan.send_replace(Tenant { plan: "large" });
    seen.changed().await?;
    println!("{}", server.page("acme").await?);

    // The graph knows that the server depends on the tenant.
    let graph = engine.graph().await.ok_or("the engine has ended")?;
    for edge in &graph.edges {
        println!("{} -> {} ({})", edge.user, edge.input, edge.need);
    }

    // What does not fit is refused, and so is a circle.
    let wrong = engine.provide(Name::new("tenant-x"), 7).await;
    println!("refused: {}", wrong.err().ok_or("it was not refused")?);
    let client = Manifold::builder().inputs(SERVER).offers::<(Tenant,)>().run(|_, up| async move {
        up.ready((Tenant { plan: "none" },)).wait().await;
        Ok(())
    });
    let circle = engine.install(TENANTS.name("client")?, client).await;
    println!("refused: {}", circle.err().ok_or("it was not refused")?);

    engine.uninstall(acme.clone()).await?;
    println!("{}", server.page("acme").await?);
    println!("the server was started {} time", engine.report().await.workers["server"].starts);
    engine.stop().await?;
    Ok(())
}
