//! What follows a request: the rest of a body, or all that a client says after an upgrade.
//!
//! Rule for "full": each piece is reported when the origin has taken it, and whoever sends stops
//! while too much is on its way. An exchange whose sender does not stop fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use throng_grip::exchange::OriginEvent;
use throng_http1::LAST_CHUNK;
use throng_types::ConnId;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;

use crate::credit::Credit;
use crate::shared::Shared;
use crate::wire::put_chunk;

/// The receiving end of what follows one request.
pub(crate) struct Uplink {
    pub(crate) conn: ConnId,
    pub(crate) token: u32,
    pub(crate) from: Mutex<Receiver<Vec<u8>>>,
    pub(crate) is_chunked: bool,
    begun: AtomicBool,
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
            from: Mutex::new(from),
            is_chunked,
            begun: AtomicBool::new(false),
            credit,
        }
    }

    /// Whether something of it was written, which cannot be had again.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Writes all that comes, until whoever sends has ended it.
    pub(crate) async fn write(
        &self,
        to: &mut (impl AsyncWrite + Unpin),
        shared: &Shared,
    ) -> io::Result<()> {
        let mut from = self.from.lock().await;
        while let Some(bytes) = from.recv().await {
            self.begun.store(true, Ordering::Relaxed);
            if self.is_chunked {
                let mut chunk = Vec::with_capacity(bytes.len() + 16);
                put_chunk(&bytes, &mut chunk);
                shared.take_all(to, &chunk).await?;
            } else {
                shared.take_all(to, &bytes).await?;
            }
            let event = OriginEvent::Taken(bytes.len());
            shared.deliver(self.conn, self.token, event).await;
        }
        if self.credit.overflowed.load(Ordering::Acquire) {
            return Err(io::Error::other("more followed the request than fits"));
        }
        match self.is_chunked {
            true => shared.take_all(to, LAST_CHUNK).await,
            false => to.flush().await,
        }
    }
}
