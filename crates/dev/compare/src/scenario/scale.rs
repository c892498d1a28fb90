//! How many, how fast and for how long.

use std::time::Duration;

use serde::Serialize;

/// Time after the last byte whose work, such as collecting garbage, still counts.
pub(super) const AFTERMATH: Duration = Duration::from_millis(500);

/// The numbers of a run; the table's headings have them too.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Scale {
    /// Connections at the lower end of the slope; also the channels that they are on.
    pub(crate) idle_few: usize,
    /// Connections at the upper end of the slope, and in a burst.
    pub(crate) idle_many: usize,
    pub(crate) fan_out_small: usize,
    pub(crate) fan_out_large: usize,
    pub(crate) wide_channels: usize,
    /// Publications a second over all of them.
    pub(crate) wide_rate_per_s: u32,
    /// Publications in flight over the same channels, on one connection.
    pub(crate) pipelined: usize,
    pub(crate) room_channels: usize,
    pub(crate) room_subscribers: usize,
    /// Publications a second over all of them.
    pub(crate) room_rate_per_s: u32,
    pub(crate) links: usize,
    /// After so long without anything they follow it.
    pub(crate) link_timeout: Duration,
    /// Time of publishing before figures count: servers compile, allocate and grow first.
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
}

impl Scale {
    /// Scale that one process can play with 20,000 descriptors, a customary limit.
    pub(crate) const FULL: Self = Self {
        idle_few: 1_000,
        idle_many: 15_000,
        fan_out_small: 1_000,
        fan_out_large: 10_000,
        wide_channels: 5_000,
        wide_rate_per_s: 1_000,
        pipelined: 128,
        room_channels: 100,
        room_subscribers: 100,
        room_rate_per_s: 200,
        links: 10_000,
        link_timeout: Duration::from_secs(20),
        warm_up: Duration::from_secs(1),
        window: Duration::from_secs(6),
    };

    /// Seconds for each server.
    pub(crate) const QUICK: Self = Self {
        idle_few: 500,
        idle_many: 3_000,
        fan_out_small: 200,
        fan_out_large: 2_000,
        wide_channels: 1_000,
        wide_rate_per_s: 500,
        pipelined: 128,
        room_channels: 20,
        room_subscribers: 50,
        room_rate_per_s: 100,
        links: 1_000,
        link_timeout: Duration::from_secs(5),
        warm_up: Duration::from_millis(200),
        window: Duration::from_millis(800),
    };

    /// The most that are open at once.
    pub(crate) fn connections_max(&self) -> usize {
        [
            self.idle_many,
            self.fan_out_large,
            self.wide_channels,
            self.room_channels * self.room_subscribers,
            self.links,
        ]
        .into_iter()
        .fold(0, usize::max)
    }
}
