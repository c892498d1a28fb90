//! The broker on Redis: several nodes that share channels, history, positions and presence.
//!
//! One peer of each node holds one connection (RESP3) and speaks for all its shards. A channel
//! is subscribed to once a node, however many of its shards want it.
//!
//! # Why nothing is lost or doubled
//!
//! *One step.* A publication is one script (`lua/publish.lua`): its idempotency key is looked up,
//! it gets its offset, goes into the history and is sent to subscribers, and nothing comes between.
//! So the order of offsets is the order of history and the order in which every node is sent them.
//!
//! *One road.* Commands, answers and deliveries of a node share one connection. Redis carries out
//! its commands in their order, and writes answers and deliveries in the order in which they come
//! about. A node that wants a channel sends `SUBSCRIBE` and behind it the script that looks where
//! the stream stands (`lua/look.lua`). The rest of the argument, and what is done about gaps, is at
//! the head of `channels.rs` in `throng-remote`.
//!
//! *No offset twice.* A server that starts anew, or was promoted, may lack the newest writes of the
//! one before. Each stream has the name of its last writer: the server process (`run_id`) and its
//! line of replication (`master_replid`, another one after each promotion, also of a process that
//! was the primary before). Where it is another one, the stream gets another epoch, and keeps the
//! old one with its newest offset *b*: up to *b* both have the same publications. A position of the
//! old epoch up to *b* is good; one above *b* has seen what no longer exists, and recovers nothing.
//! So it is with the eight newest epochs before: offsets rise from each to the next.
//! Nodes learn of a new line at different times; a node that differs from the stream makes the
//! script ask Redis itself, so that two nodes do not take turns with epochs.
//!
//! *No doubt unsaid.* When the connection breaks, a publication without an answer may have
//! happened. It is answered with [`throng_broker::Refusal::Unknown`] and never sent again by the
//! driver; a publisher that repeats it with its idempotency key has it once.
//!
//! *A proof, not a belief.* A connection counts as alive while messages that the node publishes to
//! itself come back to it. And every channel is compared with its stream now and then, which finds
//! a loss that no later publication would show.
//!
//! *In a cluster* all of this holds for each part of the channels, which is in one slot (see
//! `cluster.rs`). A slot that moves takes its server along: the connection ends, and the stream has
//! another writer, hence another epoch, in which every position is good. While its keys are on
//! two servers, Redis refuses scripts that name one on each, before they do anything, and
//! publishers get a refusal: nothing was done.
//!
//! Never: subscribers, wire formats.

mod answer;
mod cluster;
mod command;
mod keys;
mod link;
mod node;
mod options;
mod presence;
mod verbs;

pub use node::Redis;
pub use options::{BrokerUrlError, RedisOptions, servers};
use throng_remote::{NodeIo, RemoteOptions};

/// Makes a node for each Redis, for [`throng_remote::start`]. A channel belongs to one of them by
/// its name, so all nodes of a cluster have them in the same order.
///
/// # Errors
/// A URL that is not good.
pub fn nodes(
    servers: Vec<RedisOptions>,
) -> Result<Vec<(RemoteOptions, impl FnOnce(NodeIo) -> Redis)>, BrokerUrlError> {
    let nodes = servers.into_iter().map(|options| {
        let target = options::Target::new(&options.url)?;
        Ok((options.remote, |io: NodeIo| Redis::new(io, target)))
    });
    nodes.collect()
}
