//! The engine: shards of connections, each on its own thread, with nothing locked or shared.
//!
//! A [`Shard`] owns a reactor, listeners, a connection table ([`Conns`]), a timer
//! wheel and its ends of the mailboxes. What bytes mean is the business of an
//! [`App`]; the engine knows neither protocols nor channels. It serves the server
//! (accepted connections) and the load generator (outgoing ones) alike.
//!
//! An idle connection costs a slot and a wheel entry: no task, no buffer, no timer
//! object. Every queue has a bound and a rule for "full"; see [`Overflow`] and [`Door`].

mod app;
mod conns;
mod mailbox;
mod outbound;
mod seat;
mod shard;
mod wheel;

use std::io;

use throng_types::ShardId;
pub use throng_types::{End as Ending, Overflow};

pub use app::{Accepted, App, Closed, Effects};
pub use conns::{ConnLimits, ConnStats, Conns, Delivery};
pub use mailbox::Door;
pub use seat::{Seat, Shard, ShardOptions};
pub use shard::LoopStats;
pub use wheel::{TICK_MS, Wheel};

/// Shards ready to run, and the doors into them, in the same order.
pub type Made<A> = (Vec<Shard<A>>, Vec<Door<<A as App>::Mail>>);

/// Makes shards that can send each other mail, and the doors into them from outside.
///
/// `app` is called once for each shard, in order. Apps that cannot move between threads
/// are made where they run: see [`seats`].
///
/// # Errors
/// If the kernel gives no reactor (descriptors) or a listener cannot be watched.
pub fn shards<A: App>(
    options: Vec<ShardOptions>,
    mut app: impl FnMut(ShardId) -> A,
) -> io::Result<Made<A>> {
    let (seats, doors) = seats(options)?;
    let shards = seats.into_iter().map(|seat| {
        let app = app(seat.shard());
        seat.with(app)
    });
    Ok((shards.collect(), doors))
}

/// Seats to put apps on, and the doors into them, in the same order.
pub type Seats<M> = (Vec<Seat<M>>, Vec<Door<M>>);

/// Makes shards without their apps, and the doors into them, in the same order.
///
/// A [`Seat`] can be sent to its thread, where [`Seat::with`] puts an app on it.
///
/// # Errors
/// If the kernel gives no reactor (descriptors) or a listener cannot be watched;
/// `InvalidInput` for more than 16 listeners.
pub fn seats<M: Send + 'static>(options: Vec<ShardOptions>) -> io::Result<Seats<M>> {
    let cores: Vec<seat::Core> = options
        .iter()
        .map(|_| seat::Core::new())
        .collect::<io::Result<_>>()?;
    let bells: Vec<_> = cores.iter().map(seat::Core::bell).collect();
    let (mailboxes, doors) = mailbox::connect(&bells);
    let seats = cores
        .into_iter()
        .zip(options)
        .zip(mailboxes)
        .map(|((core, options), mail)| Seat::new(core, options, mail))
        .collect::<io::Result<_>>()?;
    Ok((seats, doors))
}
