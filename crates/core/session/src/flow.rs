//! State of a connection after an event.

use std::net::IpAddr;

use crate::Allowance;
use crate::port::Port;

/// State of a connection after an event.
#[must_use]
pub enum Flow {
    /// The session continues as it is.
    Stay,
    /// Its exchange is over: the connection takes HTTP requests again.
    Http(Resume),
}

/// A connection that takes HTTP requests again, and the bytes that it has already.
pub struct Resume {
    pub(crate) port: Port,
    pub(crate) peer: IpAddr,
    pub(crate) allowance: Option<Allowance>,
    /// To be fed to the connection at once.
    pub raw: Vec<u8>,
}
