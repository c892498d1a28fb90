//! A port that a gateway has for itself.

use std::net::SocketAddr;

/// A port of a gateway's own.
#[derive(Clone, Copy, Debug)]
pub struct OwnPort {
    /// The gateway's place in the list.
    pub gateway: u8,
    /// The gateway's number of the port.
    pub port: u8,
    /// Address on which it listens.
    pub address: SocketAddr,
    /// The option that names it.
    pub option: &'static str,
}
