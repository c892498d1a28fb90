//! The broker on NATS JetStream: several nodes that share channels, history, positions and
//! presence.
//!
//! A node holds one connection, which speaks for all its shards. A channel is subscribed to once a
//! node, however many of its shards want it.
//!
//! # Why nothing is lost or doubled
//!
//! *One step.* A channel that keeps history is a subject of a stream. Each of its messages carries
//! publications and says where the stream stands after them: epoch, newest offset, newest version.
//! A message is stored only if the one that its writer has read is still the newest
//! (`Nats-Expected-Last-Subject-Sequence`), else the writer reads again. So each message continues
//! the one before it: offsets follow each other without a gap, whoever publishes, and what is
//! compared with the newest (versions, an epoch's end) is compared with what really comes before.
//! What NATS has stored, and nothing else, it sends on to those who hear the channel (`republish`),
//! in the order in which it is stored. Its idempotency key has a row of its own (`writing.rs`). A
//! server that does not keep this with so many copies as are wanted is refused (`link.rs`).
//!
//! *Two roads.* Deliveries and answers do not wait for each other in NATS: a delivery that comes
//! before the answer that it follows is kept aside for it. In a cluster of servers a subscription
//! may take effect late; the channel is compared with its stream soon after, and then now and then.
//! The rest of the argument, and what is done about gaps, is at the head of `channels.rs` in
//! `throng-remote`.
//!
//! *History is whole or refused.* Each message knows the sequences of those before it. A history
//! is read from the newest back (`walk.rs`), and ends where an offset is missing, where a message
//! is too old, or where the channel has as many publications as it keeps.
//!
//! *No offset twice.* A server that starts anew may lack the newest writes of the one before. Each
//! message has the name of the server process that it was written to. Where it is another one, the
//! stream gets another epoch, and keeps the old one with its newest offset *b*: up to *b* both
//! have the same publications. A position of the old epoch up to *b* is good; one above *b* has
//! seen what no longer exists, and recovers nothing. So it is with the eight newest epochs before:
//! offsets rise from each to the next. In a cluster of servers, whose majority keeps
//! what it has acknowledged, one name stands for all of them; a node whose subscribers have seen
//! more than the newest message says begins another epoch there too. A channel without a message
//! has an epoch too, which all nodes make of one number (`seeds.rs`).
//!
//! *No doubt unsaid.* When the connection breaks, a publication without an answer may have
//! happened. It is answered with [`throng_broker::Refusal::Unknown`] and never sent again by the
//! driver; a publisher that repeats it with its idempotency key has it once.
//!
//! *A proof, not a belief.* A connection counts as alive while messages that the node publishes to
//! itself come back to it, and while JetStream answers.
//!
//! Never: subscribers, wire formats.

mod api;
mod batch;
mod link;
mod names;
mod node;
mod nodes;
mod presence;
mod record;
mod seeds;
mod turns;
mod verbs;
mod walk;
mod writing;

pub use node::{Nats, NatsOptions};
pub use throng_nats_link::{CredentialsFile, NatsUrlError};
use throng_remote::{NodeIo, RemoteOptions};

/// Makes a node, for [`throng_remote::start`].
///
/// # Errors
/// A URL that is not good.
pub fn node(
    options: NatsOptions,
) -> Result<(RemoteOptions, impl FnOnce(NodeIo) -> Nats), NatsUrlError> {
    let targets = throng_nats_link::targets(&options.url)?;
    let (credentials, replicas) = (options.credentials, options.replicas);
    let node = move |io| Nats::new(io, targets, credentials, replicas);
    Ok((options.remote, node))
}
