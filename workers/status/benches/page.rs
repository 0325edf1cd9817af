//! What open pages cost an agent, against none, in one run.
//!
//! usage: cargo bench -p crankcase-status --bench page

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, Engine, Manifold, Name, Stop, Worker};
use crankcase_status::{Control, ControlConfig, Page, PageAddress, PageConfig, StateDir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

const ROOT: Name<()> = Name::new("root");
const DEPENDENTS: usize = 1_000;
const PAGES: usize = 10;
const ROUNDS: usize = 31;

/// Returns a manifold that is up until it is stopped.
fn root() -> Manifold {
    Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

/// Returns a manifold that is bounced with the root.
fn dependent() -> Manifold {
    Manifold::builder().inputs(ROOT).run(|_, up| async move {
        up.ready(()).wait().await;
        Ok(())
    })
}

#[tokio::main(worker_threads = 2)]
async fn main() -> BenchResult {
    let folder = tempfile::tempdir()?;
    let engine = Engine::builder().name(Name::new("agent")).build()?;
    let mut change = Change::new().install(ROOT, root());
    for at in 0..DEPENDENTS {
        change = change.install(Name::<()>::parse(&format!("worker-{at}"))?, dependent());
    }
    engine.apply(change).await?;
    engine.settled().await?;
    let lock = Arc::new(StateDir::new(folder.path().join("state")).lock()?);
    let control = Control::listen(&lock, engine.clone(), ControlConfig::default())?;
    let (_stopper, stop) = Stop::pair();
    let mut serving = JoinSet::new();
    serving.spawn(control.run(stop.clone()));
    let address = PageAddress::Tcp(([127, 0, 0, 1], 0).into());
    let page = Page::listen(address, PageConfig::new(folder.path().join("state"))).await?;
    let url = page.url().to_owned();
    serving.spawn(page.run(stop));

    // By turns: without pages, and with them.
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(bounce(&engine).await?);
        let pages = open(&url).await?;
        with.push(bounce(&engine).await?);
        drop(pages);
    }
    println!("| work | here | against | ratio, of at most |");
    println!("| --- | --- | --- | --- |");
    let (with, without) = (median(with), median(without));
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!(
        "| bounce {DEPENDENTS} dependents with {PAGES} pages open | {with:.1?} | without a page: {without:.1?} | {ratio:.2}, of 1.1 |"
    );
    engine.stop().await?;
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn bounce(engine: &Engine) -> BenchResult<Duration> {
    let began = Instant::now();
    engine.apply(Change::new().bounce(ROOT)).await?;
    engine.settled().await?;
    Ok(began.elapsed())
}

/// Opens pages; each has got the whole.
async fn open(url: &str) -> BenchResult<JoinSet<()>> {
    let (host, token) =
        url.trim_start_matches("http://").split_once("/#token=").ok_or("no token")?;
    let mut pages = JoinSet::new();
    for _ in 0..PAGES {
        let mut stream = TcpStream::connect(host).await?;
        let head = format!(
            "GET /api/stream HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        let mut seen = Vec::new();
        while !seen.ends_with(b"}}\n\r\n") {
            let mut part = vec![0; 65536];
            let length = stream.read(&mut part).await?;
            if length == 0 {
                return Err("the page has ended".into());
            }
            seen.extend_from_slice(&part[..length]);
        }
        pages.spawn(async move {
            let mut part = vec![0; 65536];
            while let Ok(1..) = stream.read(&mut part).await {}
        });
    }
    Ok(pages)
}
