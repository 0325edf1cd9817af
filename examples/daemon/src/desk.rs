//! Where the notes of a tenant are handed in.

use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::{BoxError, Cache, Note};

/// How many notes may wait for the writer; further callers wait.
const WAITING: usize = 16;

/// How many desks this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// Takes notes of one tenant.
#[derive(Debug, Clone)]
pub struct Desk {
    tenant: String,
    started: u64,
    cache: Cache,
    orders: mpsc::Sender<Order>,
}

/// Writes what is handed in at a desk, in order.
#[derive(Debug)]
pub struct Writer {
    tenant: String,
    cache: Cache,
    orders: mpsc::Receiver<Order>,
}

/// The writer of a desk has ended.
#[derive(Debug, Error)]
#[error("the tenant has gone")]
pub struct DeskClosed;

#[derive(Debug)]
struct Order {
    text: String,
    written: oneshot::Sender<()>,
}

impl Desk {
    /// Opens the desk of a tenant; notes are taken when the writer runs.
    pub fn open(tenant: &str, cache: Cache) -> (Self, Writer) {
        let started = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::info!(%tenant, started, "opened the desk");
        let (sender, orders) = mpsc::channel(WAITING);
        let writer = Writer { tenant: tenant.to_owned(), cache: cache.clone(), orders };
        (Self { tenant: tenant.to_owned(), started, cache, orders: sender }, writer)
    }

    /// Returns a number that is higher for each desk that this process opens.
    pub fn started(&self) -> u64 {
        self.started
    }

    /// Returns the notes of the tenant, the oldest first.
    ///
    /// # Errors
    ///
    /// When the writer has ended.
    pub fn notes(&self) -> Result<Vec<String>, DeskClosed> {
        if self.orders.is_closed() { Err(DeskClosed) } else { Ok(self.cache.notes(&self.tenant)) }
    }

    /// Hands in a note; it is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// When the writer ends before that.
    pub async fn add(&self, text: String) -> Result<(), DeskClosed> {
        let (written, answer) = oneshot::channel();
        self.orders.send(Order { text, written }).await.map_err(|_| DeskClosed)?;
        answer.await.map_err(|_| DeskClosed)
    }
}

impl Writer {
    /// Writes until `stop` is there, and then what was handed in before.
    ///
    /// # Errors
    ///
    /// When the store cannot be written.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), BoxError> {
        let mut stop = std::pin::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(order) = self.orders.recv() => self.write(order).await?,
            }
        }
        self.orders.close();
        while let Some(order) = self.orders.recv().await {
            self.write(order).await?;
        }
        tracing::info!(tenant = %self.tenant, "closed the desk");
        Ok(())
    }
    async fn write(&self, Order { text, written }: Order) -> Result<(), BoxError> {
        self.cache.add(Note { tenant: self.tenant.clone(), text }).await?;
        // The client may have left.
        let _gone = written.send(());
        Ok(())
    }
}
