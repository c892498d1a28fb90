//! What all exchanges of an [`Origin`](crate::Origin) share: bounds, kept connections, TLS, and the
//! way back to the shards.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use throng_grip::exchange::OriginEvent;
use throng_types::ConnId;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;

use crate::connect::Stream;
use crate::pool::Pool;
use crate::tls::Connectors;

/// Between two tries to hand an event to a shard whose mailbox is full, in milliseconds.
pub(crate) const DELIVER_AGAIN_MS: u64 = 1;

/// Hands an event to whoever asked: the connection, and the number that its request carried.
/// Gives it back if there is no room at the moment.
pub type Deliver = Arc<dyn Fn(ConnId, u32, OriginEvent) -> Result<(), OriginEvent> + Send + Sync>;

/// Bounds of the client.
#[derive(Clone, Copy, Debug)]
pub struct OriginOptions {
    /// Threads that carry the bytes; at least one runs.
    pub threads: usize,
    /// Requests that wait or run at once, over all origins.
    pub requests_max: usize,
    /// Connections that were upgraded, or are to be; they do not count as requests.
    pub tunnels_max: usize,
    /// Bytes of an answer's head.
    pub head_bytes_max: usize,
    /// How long an origin may take nothing of what is being sent to it, in milliseconds. For a
    /// request the timeout of its route holds instead, if it has one.
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

/// One for all threads.
pub(crate) struct Shared {
    pub(crate) options: OriginOptions,
    pub(crate) pool: Pool<Stream>,
    pub(crate) tls: Connectors,
    pub(crate) deliver: Deliver,
    /// Places of requests, and of tunnels.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) tunnel_room: Arc<Semaphore>,
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

/// Writes bytes, of which the other side has to take some within this time, again and again.
pub(crate) async fn take_all(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    within: Duration,
) -> io::Result<()> {
    let late = |_| {
        let text = format!(
            "it took nothing of the request for {} ms",
            within.as_millis()
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    };
    while !bytes.is_empty() {
        let written = tokio::time::timeout(within, to.write(bytes)).await;
        let count = written.map_err(late)??;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(count..).unwrap_or_default();
    }
    tokio::time::timeout(within, to.flush())
        .await
        .map_err(late)?
}
