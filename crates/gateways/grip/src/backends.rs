//! The way to backends, which is a driver's; the gateway only asks.

use throng_grip::exchange::{OriginFailure, OriginRequest};
use throng_types::ConnId;

/// Sends requests to backends. Calls return at once; events come as [`crate::Mail::Origin`].
pub trait Backends {
    /// Takes a request. Its events go to `conn`, with `token`.
    ///
    /// # Errors
    /// If there is no room; nothing follows then.
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn Ticket>, OriginFailure>;

    /// Takes a request whose answer is not awaited.
    ///
    /// # Errors
    /// If there is no room.
    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure>;
}

/// The hand on a request that was taken. Dropping it ends the exchange.
pub trait Ticket {
    /// The client has taken this many bytes of the answer: as many more may come.
    fn grant(&self, bytes: usize);
    /// Sends more bytes behind the request. An event confirms them; until then they are kept, so
    /// stop while much is on its way.
    fn send(&mut self, bytes: Vec<u8>);
    /// Marks the end of the bytes that follow the request.
    fn finish(&mut self);
}
