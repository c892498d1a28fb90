//! The way in: requests, tickets, and the threads behind them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use throng_grip::exchange::{OriginFailure, OriginFault, OriginRequest, Rest};
use throng_types::ConnId;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Sender, channel, error::TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::credit::Credit;
use crate::exchange::{Errand, Exchange, run};
use crate::pool::{Pool, PoolLimits};
use crate::shared::{Deliver, OriginOptions, Shared};
use crate::tls::Connectors;
use crate::uplink::Uplink;

/// Pieces of what follows a request that the origin has not taken. Whoever sends stops at 64 KiB
/// and what one turn reads, so that even pieces of one byte fit; one that does not stop has its
/// exchange fail. Queue: `uplink`.
pub(crate) const UPLINK_PIECES_MAX: usize = 1 << 17;
/// Between two looks at kept connections.
const REAP_EVERY: Duration = Duration::from_secs(5);

/// The running client. Dropping it ends all exchanges without a word.
pub struct Origin {
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
}

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
            tls: Connectors::default(),
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

    /// Sends more of what follows the request. [`Taken`] tells when the origin has it; until then
    /// it is kept, so whoever sends is to stop while much is on its way.
    ///
    /// [`Taken`]: throng_grip::exchange::OriginEvent::Taken
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
        let credit = Arc::new(Credit::default());
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

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// A place among the requests, or among the tunnels.
    pub(crate) fn permit(&self, rest: Rest) -> Result<OwnedSemaphorePermit, OriginFailure> {
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
