//! The ports of a server, bound once for each shard.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use throng_config::Config;
use throng_sys::socket;

use crate::gateways::OwnPort;
use crate::handover::Group;
use crate::options::StartError;

/// Seconds for which the kernel keeps a client that connects and sends nothing.
const SILENCE_S: u16 = 1;

/// Descriptors, and the addresses that they have. Each shard's are in the order clients, API,
/// gateways' own.
pub(crate) struct Listeners {
    pub(crate) per_shard: Vec<Vec<OwnedFd>>,
    /// Duplicates of the listeners, for a successor.
    pub(crate) kept: Vec<Group>,
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) api: SocketAddr,
    /// The gateways' own, in their order.
    pub(crate) own: Vec<SocketAddr>,
}

impl Listeners {
    /// Takes the listeners that another process had at the addresses that are configured, and
    /// binds the others. The rest is closed.
    pub(crate) fn bind(
        config: &Config,
        own_ports: &[OwnPort],
        shards: usize,
        mut inherited: Vec<Group>,
    ) -> Result<Self, StartError> {
        let backlog = i32::try_from(config.engine.backlog).unwrap_or(i32::MAX);
        let mut per_shard: Vec<Vec<OwnedFd>> = (0..shards).map(|_| Vec::new()).collect();
        let (mut bound, mut kept) = (Vec::new(), Vec::new());
        let own = own_ports.iter().map(|port| port.address);
        let wanted = config.listeners().map(|listener| listener.address);
        for wanted in wanted.chain(own) {
            let fail = |error| StartError::Listen {
                address: wanted,
                error,
            };
            let known = inherited.iter().position(|group| group.wanted == wanted);
            let group = match known {
                Some(at) => inherited.remove(at),
                None => bind(wanted, backlog, shards).map_err(fail)?,
            };
            for (listeners, fd) in per_shard.iter_mut().zip(&group.listeners) {
                listeners.push(fd.try_clone().map_err(fail)?);
            }
            bound.push(group.bound);
            kept.push(group);
        }
        let own = bound.split_off(config.listen.client.len() + 1);
        let api = bound.pop().unwrap_or(config.listen.api.address);
        Ok(Self {
            per_shard,
            kept,
            clients: bound,
            api,
            own,
        })
    }
}

/// Binds an address once for each shard.
fn bind(wanted: SocketAddr, backlog: i32, shards: usize) -> io::Result<Group> {
    free_to_take(wanted)?;
    let mut bound = wanted;
    let mut listeners = Vec::new();
    for _ in 0..shards {
        let fd = socket::listen(bound, backlog)?;
        // Port 0 becomes a real one with the first shard; the others share it.
        bound = socket::local_addr(fd.as_fd())?;
        socket::defer_accept(fd.as_fd(), SILENCE_S)?;
        listeners.push(fd);
    }
    Ok(Group {
        wanted,
        bound,
        listeners,
    })
}

/// Whether nobody listens there yet. Sharing a port is how shards divide connections, so
/// without this a second server would silently take half of the first one's.
fn free_to_take(address: SocketAddr) -> io::Result<()> {
    std::net::TcpListener::bind(address).map(drop)
}
