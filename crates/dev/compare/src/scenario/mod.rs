//! What is measured, each time with a fresh server.
//!
//! - `idle`: subscribers connect and do nothing. Memory is the slope between few and many of them, so
//!   what a server costs by itself is not in it; the latter is measured before the first and after the last.
//!   Once with many subscribers on a channel, once with a channel for each.
//! - `burst`: subscribers come as fast as the server takes them.
//! - `fan_out`: one channel, and a publication follows as soon as all subscribers have read the one before
//!   (1 in flight), or the fourth before (4 in flight).
//! - `wide`: many channels with one subscriber each, at a rate.
//! - `rooms`: some channels with some subscribers each, at a rate, with latency.
//!
//! CPU time is that of all of the server's processes, in the kernel and outside. On loopback whoever sends pays
//! for the receiver's TCP work too, so compare rows, not machines.

mod connections;
mod scale;
mod traffic;

use std::time::Duration;

use anyhow::Result;

pub(crate) use scale::Scale;

use crate::results::Samples;
use crate::server::Server;

/// What a server does this soon after the last byte, such as collecting garbage, counts as well.
const AFTERMATH: Duration = Duration::from_millis(500);

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Idle,
    IdleOwnChannels,
    Burst,
    FanOutSmall,
    FanOutLarge,
    Wide,
    Rooms,
}

impl Scenario {
    /// In the order of the table.
    pub(crate) const ALL: [Self; 7] = [
        Self::Idle,
        Self::IdleOwnChannels,
        Self::Burst,
        Self::FanOutSmall,
        Self::FanOutLarge,
        Self::Wide,
        Self::Rooms,
    ];

    /// For whoever watches.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::IdleOwnChannels => "idle, own channels",
            Self::Burst => "burst",
            Self::FanOutSmall => "fan-out, small",
            Self::FanOutLarge => "fan-out, large",
            Self::Wide => "wide",
            Self::Rooms => "rooms",
        }
    }

    /// Measures a server that nobody has used.
    pub(crate) fn measure(self, server: &Server, scale: &Scale) -> Result<Samples> {
        match self {
            Self::Idle => connections::idle(server, scale),
            Self::IdleOwnChannels => connections::idle_own_channels(server, scale),
            Self::Burst => connections::burst(server, scale),
            Self::FanOutSmall => traffic::fan_out_small(server, scale),
            Self::FanOutLarge => traffic::fan_out_large(server, scale),
            Self::Wide => traffic::wide(server, scale),
            Self::Rooms => traffic::rooms(server, scale),
        }
    }
}
