//! A request on its way to a gateway.

use std::net::IpAddr;

use throng_http1::Request;
use throng_ws::handshake::{self, Accept};

use crate::Allowance;
use crate::route::Port;

/// A request and where it came from.
pub struct Incoming<'r, 'b> {
    /// The port.
    pub port: Port,
    /// The peer's address.
    pub peer: IpAddr,
    /// What the connection has spent, with this request; nothing where that is not counted.
    pub allowance: Option<Allowance>,
    /// The head.
    pub request: &'r Request<'b>,
    /// The body; while a gateway is asked for its claim it is not there yet.
    pub body: &'r [u8],
    /// More of the body follows; only for a claim that streams it.
    pub is_open: bool,
}

/// A status and a sentence for a request that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject(pub u16, pub String);

impl Reject {
    /// A status and a sentence.
    #[must_use]
    pub fn new(status: u16, sentence: impl Into<String>) -> Self {
        Self(status, sentence.into())
    }
}

impl<'b> Incoming<'_, 'b> {
    /// Checks the handshake of a WebSocket.
    ///
    /// # Errors
    /// The status that RFC 6455 names for what is wrong.
    pub fn accept_websocket(&self) -> Result<Accept<'b>, Reject> {
        let request = self.request;
        if request.minor_version == 0 {
            return Err(Reject::new(426, "a WebSocket needs HTTP/1.1"));
        }
        handshake::accept(request.method, |name| request.header(name))
            .map_err(|refusal| Reject::new(refusal.status(), refusal.reason()))
    }
}
