//! A first worker: it answers questions until it is told to stop.

use std::error::Error;

use crankcase_engine::{Engine, Manifold, Name, Outcome, Stop, Worker};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};

/// What a greeter is asked, and where the answer goes.
type Question = (String, oneshot::Sender<String>);

/// What the worker offers to others: a handle, cheap to clone.
#[derive(Clone)]
struct Greeter(mpsc::Sender<Question>);

impl Greeter {
    async fn greet(&self, name: &str) -> Result<String, Box<dyn Error>> {
        let (answer, answered) = oneshot::channel();
        self.0.send((name.to_owned(), answer)).await?;
        Ok(answered.await?)
    }
}

/// The worker itself: what one generation of it has.
struct GreeterWorker {
    generation: u32,
    asking: mpsc::Sender<Question>,
    asked: mpsc::Receiver<Question>,
}

impl Worker for GreeterWorker {
    async fn run(mut self, stop: Stop) -> Outcome {
        loop {
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                Some((name, answer)) = self.asked.recv() => {
                    // Who asked may have lost interest.
                    drop(answer.send(format!("hello, {name}, from generation {}", self.generation)));
                }
            }
        }
    }
}

/// The name that the manifold is installed under, and the type that is behind it.
const GREETER: Name<Greeter> = Name::new("greeter");

/// Says how to get a greeter: it has no inputs, a start, and one output.
fn greeter() -> Manifold {
    Manifold::builder()
        .start(|(), ctx| async move {
            let (asking, asked) = mpsc::channel(16);
            Ok(GreeterWorker { generation: ctx.generation(), asking, asked })
        })
        .output(|worker| Greeter(worker.asking.clone()))
        .build()
}

#[expect(clippy::print_stdout, reason = "what it prints is what it shows")]
async fn run(workers: Handle) -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder().workers_on(workers).build()?;
    engine.install(GREETER, greeter()).await?;

    let first = engine.output(GREETER).await?;
    println!("{}", first.greet("Ada").await?);

    // Each generation is a new worker, and offers a new handle.
    engine.bounce(GREETER).await?;
    let second = engine.output(GREETER).await?;
    println!("{}", second.greet("Ada").await?);
    println!("the first handle is of use: {}", first.greet("Ada").await.is_ok());
    print!("{}", engine.report().await);

    engine.stop().await?;
    println!("stopped: {}", second.greet("Ada").await.is_err());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // Workers have threads of their own: one that blocks its thread does not hold up the engine.
    let workers = Runtime::new()?;
    let driver = Builder::new_current_thread().enable_all().build()?;
    let ended = driver.block_on(run(workers.handle().clone()));
    workers.shutdown_background();
    ended
}
