//! The way in: requests, tickets, and the threads behind them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use throng_grip::exchange::{OriginEvent, OriginFailure, OriginFault, OriginRequest, Rest};
use throng_types::ConnId;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use crate::exchange::{Errand, Exchange, run};
use crate::pool::{Pool, PoolLimits};
use crate::uplink::Uplink;

/// Bytes of an answer that an origin may be ahead of the client.
const WINDOW_BYTES: i64 = 64 << 10;
/// Pieces of what follows a request that the origin has not taken. Whoever sends stops at 64 KiB
/// and what one turn reads, so that even pieces of one byte fit; one that does not stop has its
/// exchange fail. Queue: `uplink`.
pub(crate) const UPLINK_PIECES_MAX: usize = 1 << 17;
/// Between two tries to hand an event to a shard whose mailbox is full, in milliseconds.
const DELIVER_AGAIN_MS: u64 = 1;

/// Hands an event to whoever asked: the connection, and the number that its request carried.
/// Gives it back if there is no room at the moment.
pub type Deliver = Arc<dyn Fn(ConnId, u32, OriginEvent) -> Result<(), OriginEvent> + Send + Sync>;

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct OriginOptions {
    /// Threads.
    pub threads: usize,
    /// Requests that wait or run at once, over all origins.
    pub requests_max: usize,
    /// Connections that were upgraded, or are to be; they do not count as requests.
    pub tunnels_max: usize,
    /// Bytes of an answer's head.
    pub head_bytes_max: usize,
    /// How long an origin may take nothing of a request that is being sent to it, in milliseconds.
    pub stall_timeout_ms: u64,
    /// Connections kept for later, for each origin.
    pub idle_max: usize,
    /// The same for all origins together.
    pub idle_all_max: usize,
    /// How long one is kept, in milliseconds.
    pub idle_timeout_ms: u64,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            requests_max: 20_000,
            tunnels_max: 100_000,
            head_bytes_max: 64 << 10,
            stall_timeout_ms: 60_000,
            idle_max: 256,
            idle_all_max: 1024,
            idle_timeout_ms: 15_000,
        }
    }
}

/// The running client. Dropping it ends all exchanges without a word.
pub struct Origin {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) options: OriginOptions,
    pub(crate) pool: Pool,
    pub(crate) tls: crate::tls::Connectors,
    deliver: Deliver,
    room: Arc<Semaphore>,
    tunnel_room: Arc<Semaphore>,
}

/// Between two looks at kept connections.
const REAP_EVERY: Duration = Duration::from_secs(5);

impl Origin {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the kernel gives none.
    pub fn start(options: OriginOptions, deliver: Deliver) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .max_blocking_threads(16)
            .thread_name("origin")
            .enable_io()
            .enable_time()
            .build()?;
        let shared = Shared {
            options,
            pool: Pool::new(PoolLimits {
                of_place_max: options.idle_max,
                all_max: options.idle_all_max,
                timeout: Duration::from_millis(options.idle_timeout_ms),
            }),
            tls: crate::tls::Connectors::default(),
            deliver,
            room: Arc::new(Semaphore::new(options.requests_max)),
            tunnel_room: Arc::new(Semaphore::new(options.tunnels_max)),
        };
        let shared = Arc::new(shared);
        let reaped = shared.clone();
        // It ends with the runtime.
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(REAP_EVERY).await;
                reaped.pool.reap(Instant::now());
            }
        });
        Ok(Self {
            runtime: Some(runtime),
            shared,
        })
    }

    /// The way in, one for each shard.
    ///
    /// # Panics
    /// Never: the runtime is there as long as this is.
    #[must_use]
    pub fn client(&self) -> Client {
        let runtime = self.runtime.as_ref().expect("taken only by drop");
        Client {
            handle: runtime.handle().clone(),
            shared: self.shared.clone(),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The way in.
#[derive(Clone)]
pub struct Client {
    handle: Handle,
    shared: Arc<Shared>,
}

/// Bytes that an origin may still send. It may go below zero, because what one read brings is
/// passed on whole.
pub(crate) struct Credit {
    left: AtomicI64,
    more: Notify,
    /// More followed the request than there is room for.
    pub(crate) overflowed: AtomicBool,
}

impl Credit {
    fn grant(&self, bytes: usize) {
        self.left.fetch_add(bytes as i64, Ordering::AcqRel);
        self.more.notify_one();
    }

    pub(crate) fn spend(&self, bytes: usize) {
        self.left.fetch_sub(bytes as i64, Ordering::AcqRel);
    }

    /// Waits until there is some. One task waits, and a grant that comes before it is remembered.
    pub(crate) async fn some(&self) {
        while self.left.load(Ordering::Acquire) <= 0 {
            self.more.notified().await;
        }
    }
}

/// The hand on a request that was taken.
pub struct Ticket {
    credit: Arc<Credit>,
    uplink: Option<Sender<Vec<u8>>>,
    /// Dropped with the ticket, which the exchange notices.
    _cancel: oneshot::Sender<()>,
}

impl Ticket {
    /// The client has taken this many bytes of the answer: as many more may come.
    pub fn grant(&self, bytes: usize) {
        self.credit.grant(bytes);
    }

    /// Sends more of what follows the request. [`OriginEvent::Taken`] tells when the origin has
    /// it; until then it is kept, so whoever sends is to stop while much is on its way.
    pub fn send(&mut self, bytes: Vec<u8>) {
        let sent = self.uplink.as_ref().map(|uplink| uplink.try_send(bytes));
        // An exchange that is over has told so.
        if let Some(Err(TrySendError::Full(_))) = sent {
            self.credit.overflowed.store(true, Ordering::Release);
            self.uplink = None;
        }
    }

    /// Nothing more follows.
    pub fn finish(&mut self) {
        self.uplink = None;
    }
}

impl Client {
    /// Takes a request. Its events go to `conn`, with `token`.
    ///
    /// # Errors
    /// [`OriginFault::Busy`] if there is no room; nothing follows then.
    pub fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Ticket, OriginFailure> {
        let permit = self.permit(request.rest)?;
        let credit = Arc::new(Credit {
            left: AtomicI64::new(WINDOW_BYTES),
            more: Notify::new(),
            overflowed: AtomicBool::new(false),
        });
        let (cancel, cancelled) = oneshot::channel();
        let (uplink, from) = match request.rest {
            Rest::Nothing => (None, None),
            rest => {
                let (uplink, from) = channel(UPLINK_PIECES_MAX);
                let is_chunked = rest == Rest::Body(None);
                let from = Uplink::new((conn, token), from, is_chunked, credit.clone());
                (Some(uplink), Some(from))
            }
        };
        let exchange = Exchange {
            conn,
            token,
            errand: Errand {
                request,
                shared: self.shared.clone(),
                uplink: from,
            },
            credit: credit.clone(),
        };
        self.handle.spawn(guarded(exchange, cancelled, permit));
        Ok(Ticket {
            credit,
            uplink,
            _cancel: cancel,
        })
    }
}

impl Client {
    /// Takes a request whose answer is of no interest; it goes on whatever happens to whoever
    /// asked.
    ///
    /// # Errors
    /// [`OriginFault::Busy`] if there is no room.
    pub fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        let permit = self.permit(request.rest)?;
        let shared = self.shared.clone();
        self.handle.spawn(async move {
            crate::exchange::tell(request, shared).await;
            drop(permit);
        });
        Ok(())
    }

    /// A place among the requests, or among the tunnels.
    fn permit(&self, rest: Rest) -> Result<OwnedSemaphorePermit, OriginFailure> {
        let options = &self.shared.options;
        let (room, what, most) = match rest {
            Rest::Upgrade => (&self.shared.tunnel_room, "tunnels", options.tunnels_max),
            Rest::Nothing | Rest::Body(_) => (&self.shared.room, "requests", options.requests_max),
        };
        room.clone().try_acquire_owned().map_err(|_| OriginFailure {
            fault: OriginFault::Busy,
            detail: format!("{most} {what} to backends are under way"),
        })
    }
}

async fn guarded(
    exchange: Exchange,
    cancelled: oneshot::Receiver<()>,
    permit: OwnedSemaphorePermit,
) {
    tokio::select! {
        biased;
        _ = cancelled => {}
        () = run(exchange) => {}
    }
    drop(permit);
}

impl Shared {
    /// Hands an event over, waiting for room.
    pub(crate) async fn deliver(&self, conn: ConnId, token: u32, mut event: OriginEvent) {
        while let Err(back) = (self.deliver)(conn, token, event) {
            event = back;
            tokio::time::sleep(Duration::from_millis(DELIVER_AGAIN_MS)).await;
        }
    }
}
