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
mod scale;
mod traffic;

use anyhow::Result;

pub(crate) use scale::Scale;

use crate::client::{Names, Pace};
use crate::origin::Origin;
use crate::results::{Metric, Samples};
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
        Scenario::FanOut => {
            let metrics = [Metric::SmallOne, Metric::SmallFour];
            traffic::fan_out(server, scale, scale.fan_out_small, metrics)
        }
        Scenario::FanOutLarge => {
            let metrics = [Metric::LargeOne, Metric::LargeFour];
            traffic::fan_out(server, scale, scale.fan_out_large, metrics)
        }
        Scenario::Wide => traffic::wide(server, scale),
        Scenario::Pipelined => {
            use Metric::{Pipelined, PipelinedP99Ms, PipelinedRate};
            let metrics = [Pipelined, PipelinedRate, PipelinedP99Ms];
            traffic::as_fast_as_it_goes(server, scale, Pace::Pipelined(scale.pipelined), metrics)
        }
        Scenario::Socket => {
            let metrics = [Metric::Socket, Metric::SocketRate, Metric::SocketP99Ms];
            traffic::as_fast_as_it_goes(server, scale, Pace::Socket(scale.pipelined), metrics)
        }
        Scenario::Rooms => traffic::rooms(server, scale),
        Scenario::Links => connections::links(server, scale, origin),
        Scenario::CostsOne => {
            use Metric::{OneCpu, OneMail, OneSwitches, OneWakes, OneWrites};
            let columns = [OneCpu, OneSwitches, OneMail, OneWakes, OneWrites];
            traffic::costs_one_to_one(server, scale, Names::Any, columns)
        }
        Scenario::CostsSkew => {
            use Metric::{SkewCpu, SkewMail, SkewSwitches, SkewWakes, SkewWrites};
            let columns = [SkewCpu, SkewSwitches, SkewMail, SkewWakes, SkewWrites];
            traffic::costs_one_to_one(server, scale, Names::OneHome, columns)
        }
        Scenario::CostsRooms => traffic::costs_rooms(server, scale),
        Scenario::CostsFanOut => traffic::costs_fan_out(server, scale),
    }
}
