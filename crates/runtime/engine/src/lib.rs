//! The engine: shards of connections, each on its own thread, with nothing locked or shared.
//!
//! A [`Shard`] owns a reactor, listeners, a connection table ([`Conns`]), a timer
//! wheel and its ends of the mailboxes. What bytes mean is the business of an
//! [`App`]; the engine knows neither protocols nor channels. It serves the server
//! (accepted connections) and the load generator (outgoing ones) alike.
//!
//! An idle connection costs a slot and a wheel entry: no task, no buffer, no timer
//! object. Every queue has a bound and a rule for "full"; see [`outbound`] and [`mailbox`].

mod app;
mod conns;
mod mailbox;
mod outbound;
mod shard;
mod wheel;

use std::io;

pub use app::{Accepted, App, Closed, Effects, Ending};
pub use conns::{ConnLimits, ConnStats, Conns, Delivery};
pub use mailbox::Door;
pub use outbound::Overflow;
pub use shard::{LoopStats, Shard, ShardOptions};
pub use wheel::{TICK_MS, Wheel};

/// Shards ready to run, and the doors into them, in the same order.
pub type Made<A> = (Vec<Shard<A>>, Vec<Door<<A as App>::Mail>>);

/// Makes shards that can send each other mail, and the doors into them from outside.
///
/// `app` is called once for each shard, in order.
///
/// # Errors
/// If the kernel gives no reactor (descriptors) or a listener cannot be watched.
pub fn shards<A: App>(
    options: Vec<ShardOptions>,
    mut app: impl FnMut(throng_types::ShardId) -> A,
) -> io::Result<Made<A>> {
    let cores: Vec<shard::Core> = options
        .iter()
        .map(|_| shard::Core::new())
        .collect::<io::Result<_>>()?;
    let bells: Vec<_> = cores.iter().map(shard::Core::bell).collect();
    let (mailboxes, doors) = mailbox::connect(&bells);
    let mut shards = Vec::new();
    for ((core, options), mail) in cores.into_iter().zip(options).zip(mailboxes) {
        let app = app(options.shard);
        shards.push(Shard::new(core, options, mail, app)?);
    }
    Ok((shards, doors))
}
