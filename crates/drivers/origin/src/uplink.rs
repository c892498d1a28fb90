//! What follows a request: the rest of a body, or all that a client says after an upgrade.
//!
//! Rule for "full": each piece is reported when the origin has taken it, and whoever sends stops
//! while too much is on its way. An exchange whose sender does not stop fails.
//!
//! On a connection that was kept, the beginning of a body stays here, so that it can be sent once
//! more on a new one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use throng_grip::exchange::OriginEvent;
use throng_http1::LAST_CHUNK;
use throng_types::ConnId;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;

use crate::credit::Credit;
use crate::shared::{Shared, take_all};
use crate::wire::put_chunk;

/// Bytes of a body that are kept to be sent once more.
const AGAIN_MAX: usize = 64 << 10;

/// What comes, and what was taken of it.
struct Feed {
    from: Receiver<Vec<u8>>,
    /// Bound: [`AGAIN_MAX`]. All that has come, while it can be sent again.
    sent: Vec<u8>,
    /// Bytes that have come and whose sender was not told.
    untold: usize,
}

/// The receiving end of what follows one request.
pub(crate) struct Uplink {
    pub(crate) conn: ConnId,
    pub(crate) token: u32,
    feed: Mutex<Feed>,
    is_chunked: bool,
    /// What comes is kept as far as it fits.
    keeps: AtomicBool,
    /// Something was written that cannot be had again.
    is_spent: AtomicBool,
    credit: Arc<Credit>,
}

impl Uplink {
    pub(crate) fn new(
        (conn, token): (ConnId, u32),
        from: Receiver<Vec<u8>>,
        is_chunked: bool,
        credit: Arc<Credit>,
    ) -> Self {
        Self {
            conn,
            token,
            feed: Mutex::new(Feed {
                from,
                sent: Vec::new(),
                untold: 0,
            }),
            is_chunked,
            keeps: AtomicBool::new(false),
            is_spent: AtomicBool::new(false),
            credit,
        }
    }

    /// Says whether what is written from now on may be wanted once more.
    pub(crate) fn keep(&self, keeps: bool) {
        self.keeps.store(keeps, Ordering::Relaxed);
    }

    /// Whether something was written that cannot be had again.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::Relaxed)
    }

    /// Writes all that comes, until whoever sends has ended it; on another connection first what
    /// was written before. The other side has to take some within `within` each time.
    pub(crate) async fn write(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        shared: &Shared,
        within: Duration,
    ) -> io::Result<()> {
        let mut feed = self.feed.lock().await;
        let mut bytes = feed.sent.clone();
        loop {
            if self.is_chunked {
                let mut chunk = Vec::with_capacity(bytes.len() + 16);
                put_chunk(&bytes, &mut chunk);
                take_all(to, &chunk, within).await?;
            } else {
                take_all(to, &bytes, within).await?;
            }
            if feed.untold > 0 {
                let event = OriginEvent::Taken(feed.untold);
                shared.deliver(self.conn, self.token, event).await;
                feed.untold = 0;
            }
            match feed.from.recv().await {
                Some(next) => bytes = next,
                None => break,
            }
            feed.untold = bytes.len();
            if self.keeps.load(Ordering::Relaxed) && feed.sent.len() + bytes.len() <= AGAIN_MAX {
                feed.sent.extend_from_slice(&bytes);
            } else {
                self.is_spent.store(true, Ordering::Relaxed);
                feed.sent = Vec::new();
                self.keep(false);
            }
        }
        if self.credit.overflowed.load(Ordering::Acquire) {
            return Err(io::Error::other("more followed the request than fits"));
        }
        match self.is_chunked {
            true => take_all(to, LAST_CHUNK, within).await,
            false => to.flush().await,
        }
    }
}
