//! The ports of a server, bound once for each shard.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use throng_config::Config;
use throng_sys::socket;

use crate::options::StartError;
use crate::plan::OwnPort;

/// How long a client that connects and says nothing is left to the kernel, in seconds.
const SILENCE_S: u16 = 1;

/// Descriptors, and the addresses that they have. Each shard's are in the order clients, API,
/// gateways' own.
pub(crate) struct Listeners {
    pub(crate) per_shard: Vec<Vec<OwnedFd>>,
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) api: SocketAddr,
    /// The gateways' own, in their order.
    pub(crate) own: Vec<SocketAddr>,
}

impl Listeners {
    pub(crate) fn bind(
        config: &Config,
        own_ports: &[OwnPort],
        shards: usize,
    ) -> Result<Self, StartError> {
        let backlog = i32::try_from(config.engine.backlog).unwrap_or(i32::MAX);
        let mut per_shard: Vec<Vec<OwnedFd>> = (0..shards).map(|_| Vec::new()).collect();
        let mut bound = Vec::new();
        let own = own_ports.iter().map(|port| port.address);
        let wanted = config.listeners().map(|listener| listener.address);
        for wanted in wanted.chain(own) {
            let fail = |error| StartError::Listen {
                address: wanted,
                error,
            };
            let mut address = wanted;
            free_to_take(wanted).map_err(fail)?;
            for listeners in &mut per_shard {
                let fd = socket::listen(address, backlog).map_err(fail)?;
                // Port 0 becomes a real one with the first shard; the others share it.
                address = socket::local_addr(fd.as_fd()).map_err(fail)?;
                socket::defer_accept(fd.as_fd(), SILENCE_S).map_err(fail)?;
                listeners.push(fd);
            }
            bound.push(address);
        }
        let own = bound.split_off(config.listen.client.len() + 1);
        let api = bound.pop().unwrap_or(config.listen.api.address);
        Ok(Self {
            per_shard,
            clients: bound,
            api,
            own,
        })
    }
}

/// Whether nobody listens there yet. Sharing a port is how shards divide connections, so
/// without this a second server would silently take half of the first one's.
fn free_to_take(address: SocketAddr) -> io::Result<()> {
    std::net::TcpListener::bind(address).map(drop)
}
