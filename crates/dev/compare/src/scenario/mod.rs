//! What is measured, each time with a fresh server.
//!
//! - `idle`: subscribers connect and do nothing. Memory is the slope between few and many of them,
//!   so what a server costs by itself is not in it; the latter is measured before the first and
//!   after the last.
//! - `own`: the same slope, with a channel for each subscriber.
//! - `burst`: subscribers come as fast as the server takes them.
//! - `fan-out`: one channel, and a publication follows as soon as all subscribers have read the one
//!   before (1 in flight), or the fourth before (4 in flight). `fan-out-large` has more
//!   subscribers.
//! - `wide`: many channels with one subscriber each, at a rate.
//! - `pipelined`: the same channels, so many publications in flight on one connection that waits
//!   for no answer.
//! - `socket`: the same by messages of Throng's WebSocket for publishers.
//! - `rooms`: some channels with some subscribers each, at a rate, with latency.
//! - `costs-…`: what shards cost each other under such loads: messages, wake-ups, context switches
//!   and write calls of each delivery.
//! - `links`: streams of which each has a link of its own, to be followed within a timeout.
//!
//! CPU time is that of all of the server's processes, in the kernel and outside. On loopback
//! whoever sends pays for the receiver's TCP work too, so compare rows, not machines.

mod connections;
mod links;
mod scale;
mod traffic;

use anyhow::Result;

pub(crate) use scale::Scale;

use crate::origin::Origin;
use crate::results::Samples;
use crate::server::Server;
use crate::suite::Scenario;

/// Measures a server that has had no clients.
pub(crate) fn measure(
    scenario: Scenario,
    server: &Server,
    scale: &Scale,
    origin: Option<&Origin>,
) -> Result<Samples> {
    match scenario {
        Scenario::Idle => connections::idle(server, scale),
        Scenario::Own => connections::idle_own_channels(server, scale),
        Scenario::Burst => connections::burst(server, scale),
        Scenario::FanOut => traffic::fan_out_small(server, scale),
        Scenario::FanOutLarge => traffic::fan_out_large(server, scale),
        Scenario::Wide => traffic::wide(server, scale),
        Scenario::Pipelined => traffic::pipelined(server, scale),
        Scenario::Socket => traffic::socket(server, scale),
        Scenario::Rooms => traffic::rooms(server, scale),
        Scenario::Links => links::links(server, scale, origin),
        Scenario::CostsOne => traffic::costs_one_to_one(server, scale),
        Scenario::CostsSkew => traffic::costs_one_home(server, scale),
        Scenario::CostsRooms => traffic::costs_rooms(server, scale),
        Scenario::CostsFanOut => traffic::costs_fan_out(server, scale),
    }
}
