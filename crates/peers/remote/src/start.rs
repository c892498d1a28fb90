//! Lanes between shards and the peers of a broker.

use std::sync::Arc;

use crate::core::RemoteOptions;
use crate::desk::Desk;
use crate::lane::{Lane, Ring, Wake};
use crate::node::Node;
use crate::part::{End, RemoteBroker};
use crate::status::{Health, Status};

/// Makes a node for each server, of which there is one at least, and lanes to it for so many shards
/// as there are rings. `host` serves a node's [`crate::BrokerPeer`]; all peers end when all parts
/// are dropped.
///
/// # Errors
/// Those of `host`.
pub fn start<N: Node, E>(
    servers: Vec<(RemoteOptions, impl FnOnce(Desk) -> N)>,
    rings: Vec<Ring>,
    mut host: impl FnMut(N) -> Result<Wake, E>,
) -> Result<(Vec<RemoteBroker>, Health), E> {
    let rings: Vec<Arc<dyn Fn() + Send + Sync>> = rings.into_iter().map(Arc::from).collect();
    let mut ends: Vec<Vec<End>> = rings.iter().map(|_| Vec::new()).collect();
    let mut health = Vec::new();
    for (options, node) in servers {
        let status = Arc::new(Status::default());
        let lanes: Vec<Arc<Lane>> = { rings.iter() }
            .map(|ring| Arc::new(Lane::new(ring.clone())))
            .collect();
        let wake = host(node(Desk::new(options, lanes.clone(), status.clone())))?;
        wake();
        for (ends, lane) in ends.iter_mut().zip(lanes) {
            ends.push(End::new(lane, wake.clone(), status.clone()));
        }
        health.push(status);
    }
    let parts = ends.into_iter().map(RemoteBroker::new).collect();
    Ok((parts, Health(health)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use throng_broker::{Remote as _, Request};

    use super::*;
    use crate::node::tests::{Played, channel};

    #[test]
    fn a_shard_wakes_its_peer_once_until_it_looks_and_ends_it_at_last() {
        let calls = Arc::new(AtomicUsize::new(0));
        let mut peers = Vec::new();
        let host = |node: Played<true>| {
            peers.push(crate::BrokerPeer::new(node));
            let calls = calls.clone();
            let wake: Wake = Arc::new(move || {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            Ok::<_, ()>(wake)
        };
        let servers = vec![(RemoteOptions::for_tests(), |_| Played::new(true))];
        let rings = [(); 2].map(|()| Box::new(|| {}) as Ring).into();
        let (mut parts, health) = start(servers, rings, host).expect("a peer");
        let called = || calls.load(Ordering::Relaxed);
        assert_eq!((called(), health.servers_up()), (1, (0, 1)));
        let mut leave = |part: usize| {
            let channel = channel();
            assert!(parts[part].request(Request::Leave { channel }).is_none());
        };
        leave(0);
        leave(1);
        assert_eq!(called(), 2, "it has not looked yet");
        health.0[0].has_heard();
        leave(1);
        assert_eq!(called(), 3);
        let nodes = parts[0].nodes();
        drop(parts);
        assert_eq!(
            Arc::strong_count(&calls),
            2,
            "the way to other nodes keeps it"
        );
        drop(nodes);
        assert_eq!(Arc::strong_count(&calls), 1);
    }
}
