//! What is measured, each time with a fresh server.
//!
//! - `idle`: subscribers connect and do nothing. Their memory is the slope between few and many of
//!   them, so the server's own is not in it; that is measured before the first connects and after
//!   the last has left.
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

use self::traffic::Figure::{self, P50Ms, P99Ms, PerCpuSecond, PerSecond};
use crate::client::{Load, Names, Pace};
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
    use Metric::*;
    let load = |channels, subscribers, pace| Load {
        channels,
        subscribers,
        pace,
        names: Names::Any,
        window: scale.window,
    };
    let fan_out = |subscribers, in_flight| load(1, subscribers, Pace::InFlight(in_flight));
    let wide = |pace| load(scale.wide_channels, 1, pace);
    let rooms = |pace| load(scale.room_channels, scale.room_subscribers, pace);
    let pipelined = Pace::Pipelined(scale.pipelined);
    let flows = |loads: &[(Load, &[(Metric, Figure)])]| traffic::flows(server, scale, loads);
    let costs = |load, columns| traffic::costs(server, scale, &load, columns);
    match scenario {
        Scenario::Idle => connections::idle(server, scale),
        Scenario::Own => connections::idle_own_channels(server, scale),
        Scenario::Burst => connections::burst(server, scale),
        Scenario::Links => connections::links(server, scale, origin),
        Scenario::FanOut => flows(&[
            (fan_out(scale.fan_out_small, 1), &[(SmallOne, PerCpuSecond)]),
            (
                fan_out(scale.fan_out_small, 4),
                &[(SmallFour, PerCpuSecond)],
            ),
        ]),
        Scenario::FanOutLarge => flows(&[
            (fan_out(scale.fan_out_large, 1), &[(LargeOne, PerCpuSecond)]),
            (
                fan_out(scale.fan_out_large, 4),
                &[(LargeFour, PerCpuSecond)],
            ),
        ]),
        Scenario::Wide => {
            let load = wide(Pace::PerSecond(scale.wide_rate_per_s));
            flows(&[(load, &[(Wide, PerCpuSecond)])])
        }
        Scenario::Pipelined => flows(&[(
            wide(pipelined),
            &[
                (Pipelined, PerCpuSecond),
                (PipelinedRate, PerSecond),
                (PipelinedP99Ms, P99Ms),
            ],
        )]),
        Scenario::Socket => flows(&[(
            wide(Pace::Socket(scale.pipelined)),
            &[
                (Socket, PerCpuSecond),
                (SocketRate, PerSecond),
                (SocketP99Ms, P99Ms),
            ],
        )]),
        Scenario::Rooms => flows(&[(
            rooms(Pace::PerSecond(scale.room_rate_per_s)),
            &[
                (Rooms, PerCpuSecond),
                (RoomsP50Ms, P50Ms),
                (RoomsP99Ms, P99Ms),
            ],
        )]),
        // Counts of what shards cost each other do not depend on how busy a machine is.
        Scenario::CostsOne => costs(
            wide(pipelined),
            [OneCpu, OneSwitches, OneMail, OneWakes, OneWrites],
        ),
        Scenario::CostsSkew => costs(
            Load {
                names: Names::OneHome,
                ..wide(pipelined)
            },
            [SkewCpu, SkewSwitches, SkewMail, SkewWakes, SkewWrites],
        ),
        Scenario::CostsRooms => costs(
            rooms(Pace::Pipelined(scale.pipelined / 8)),
            [RoomsCpu, RoomsSwitches, RoomsMail, RoomsWakes, RoomsWrites],
        ),
        Scenario::CostsFanOut => costs(
            fan_out(scale.fan_out_small, 4),
            [
                FanOutCpu,
                FanOutSwitches,
                FanOutMail,
                FanOutWakes,
                FanOutWrites,
            ],
        ),
    }
}
