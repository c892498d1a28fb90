//! Every figure once: its column, its unit, its form.

use serde::Serialize;

use crate::scenario::Scale;
use crate::suite::Suite;

/// Figures found by one measurement.
pub(crate) type Samples = Vec<(Metric, f64)>;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    IdleBytes,
    IdleOwnBytes,
    StartBytes,
    LeftBytes,
    AcceptUs,
    SmallOne,
    SmallFour,
    LargeOne,
    LargeFour,
    Wide,
    Pipelined,
    PipelinedRate,
    PipelinedP99Ms,
    Socket,
    SocketRate,
    SocketP99Ms,
    Rooms,
    RoomsP50Ms,
    RoomsP99Ms,
    LinksPunctual,
    LinksCpu,
    OneCpu,
    OneSwitches,
    OneMail,
    OneWakes,
    OneWrites,
    SkewCpu,
    SkewSwitches,
    SkewMail,
    SkewWakes,
    SkewWrites,
    RoomsCpu,
    RoomsSwitches,
    RoomsMail,
    RoomsWakes,
    RoomsWrites,
    FanOutCpu,
    FanOutSwitches,
    FanOutMail,
    FanOutWakes,
    FanOutWrites,
}

impl Metric {
    /// In the order of the table.
    pub(crate) const ALL: [Self; 41] = [
        Self::IdleBytes,
        Self::IdleOwnBytes,
        Self::StartBytes,
        Self::LeftBytes,
        Self::AcceptUs,
        Self::SmallOne,
        Self::SmallFour,
        Self::LargeOne,
        Self::LargeFour,
        Self::Wide,
        Self::Pipelined,
        Self::PipelinedRate,
        Self::PipelinedP99Ms,
        Self::Socket,
        Self::SocketRate,
        Self::SocketP99Ms,
        Self::Rooms,
        Self::RoomsP50Ms,
        Self::RoomsP99Ms,
        Self::LinksPunctual,
        Self::LinksCpu,
        Self::OneCpu,
        Self::OneSwitches,
        Self::OneMail,
        Self::OneWakes,
        Self::OneWrites,
        Self::SkewCpu,
        Self::SkewSwitches,
        Self::SkewMail,
        Self::SkewWakes,
        Self::SkewWrites,
        Self::RoomsCpu,
        Self::RoomsSwitches,
        Self::RoomsMail,
        Self::RoomsWakes,
        Self::RoomsWrites,
        Self::FanOutCpu,
        Self::FanOutSwitches,
        Self::FanOutMail,
        Self::FanOutWakes,
        Self::FanOutWrites,
    ];

    pub(super) fn heading(self, suite: Suite, scale: &Scale) -> String {
        let (few, many) = (grouped(scale.idle_few), grouped(scale.idle_many));
        let (small, large) = (grouped(scale.fan_out_small), grouped(scale.fan_out_large));
        let costs = |what: String| format!("{what}: CPU µs a delivery");
        let deliveries = |what: String| format!("deliveries per CPU-second, {what}");
        match self {
            Self::IdleBytes => {
                let what = suite.connections();
                format!("idle B per connection ({many} {what}, {few} channels)")
            }
            Self::IdleOwnBytes => String::from("idle B per connection, a channel each"),
            Self::StartBytes => String::from("MB before the first connection"),
            Self::LeftBytes => String::from("MB after all have left"),
            Self::AcceptUs => format!("CPU µs per accepted connection ({many} in a burst)"),
            Self::SmallOne => deliveries(format!("1 channel × {small}, 1 in flight")),
            Self::LargeOne => deliveries(format!("1 channel × {large}, 1 in flight")),
            Self::SmallFour | Self::LargeFour => String::from("the same, 4 in flight"),
            Self::Wide => deliveries(format!(
                "{} channels × 1 at {}/s",
                grouped(scale.wide_channels),
                grouped(scale.wide_rate_per_s as usize)
            )),
            Self::Pipelined => deliveries(format!(
                "{} channels × 1, {} in flight, pipelined",
                grouped(scale.wide_channels),
                scale.pipelined
            )),
            Self::Socket => deliveries(String::from("the same, by a publisher's WebSocket")),
            Self::PipelinedRate | Self::SocketRate => String::from("deliveries per second there"),
            Self::PipelinedP99Ms | Self::SocketP99Ms => String::from("p99 there"),
            Self::Rooms => deliveries(format!(
                "{} channels × {} at {}/s",
                grouped(scale.room_channels),
                grouped(scale.room_subscribers),
                grouped(scale.room_rate_per_s as usize)
            )),
            Self::RoomsP50Ms => String::from("p50 there"),
            Self::RoomsP99Ms => String::from("p99 there"),
            Self::LinksPunctual => format!(
                "of {} streams, those that followed their own link each {} s",
                grouped(scale.links),
                scale.link_timeout.as_secs()
            ),
            Self::LinksCpu => String::from("CPUs busy with that"),
            Self::OneCpu => costs(format!(
                "{} channels × 1, {} in flight",
                grouped(scale.wide_channels),
                scale.pipelined
            )),
            Self::SkewCpu => costs(String::from("the same, all at home on one shard")),
            Self::RoomsCpu => costs(format!(
                "{} channels × {}, {} in flight",
                grouped(scale.room_channels),
                grouped(scale.room_subscribers),
                scale.pipelined / 8
            )),
            Self::FanOutCpu => costs(format!("1 channel × {small}, 4 in flight")),
            Self::OneSwitches | Self::SkewSwitches | Self::RoomsSwitches | Self::FanOutSwitches => {
                String::from("switches")
            }
            Self::OneMail | Self::SkewMail | Self::RoomsMail | Self::FanOutMail => {
                String::from("messages")
            }
            Self::OneWakes | Self::SkewWakes | Self::RoomsWakes | Self::FanOutWakes => {
                String::from("wake-ups")
            }
            Self::OneWrites | Self::SkewWrites | Self::RoomsWrites | Self::FanOutWrites => {
                String::from("writes")
            }
        }
    }

    /// A value as the table has it: to the digits that mean something.
    pub(super) fn format(self, value: f64) -> String {
        match self {
            Self::IdleBytes | Self::IdleOwnBytes => grouped(value.max(0.0).round() as usize),
            Self::StartBytes | Self::LeftBytes => format!("{:.1}", value / 1e6),
            Self::AcceptUs => format!("{value:.1}"),
            Self::PipelinedP99Ms | Self::SocketP99Ms | Self::RoomsP50Ms | Self::RoomsP99Ms => {
                format!("{value:.1} ms")
            }
            // Streams not counted may have missed something: not to be rounded up.
            Self::LinksPunctual => format!("{:.1} %", (value * 1000.0).floor() / 10.0),
            Self::LinksCpu => format!("{value:.2}"),
            Self::OneCpu | Self::SkewCpu | Self::RoomsCpu | Self::FanOutCpu => {
                format!("{value:.1}")
            }
            Self::OneSwitches
            | Self::SkewSwitches
            | Self::RoomsSwitches
            | Self::FanOutSwitches
            | Self::OneMail
            | Self::SkewMail
            | Self::RoomsMail
            | Self::FanOutMail
            | Self::OneWakes
            | Self::SkewWakes
            | Self::RoomsWakes
            | Self::FanOutWakes
            | Self::OneWrites
            | Self::SkewWrites
            | Self::RoomsWrites
            | Self::FanOutWrites => format!("{value:.3}"),
            Self::SmallOne
            | Self::SmallFour
            | Self::LargeOne
            | Self::LargeFour
            | Self::Wide
            | Self::Pipelined
            | Self::PipelinedRate
            | Self::Socket
            | Self::SocketRate
            | Self::Rooms => grouped((value / 1000.0).round() as usize * 1000),
        }
    }
}

/// Digits in groups of three.
fn grouped(value: usize) -> String {
    throng_types::units::grouped(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        for (metric, value, text) in [
            (Metric::IdleBytes, 10_470.4, "10,470"),
            (Metric::IdleBytes, -3.0, "0"),
            (Metric::StartBytes, 8_340_000.0, "8.3"),
            (Metric::AcceptUs, 25.96, "26.0"),
            (Metric::SmallOne, 142_700.0, "143,000"),
            (Metric::RoomsP99Ms, 8.44, "8.4 ms"),
            (Metric::LinksPunctual, 0.9999, "99.9 %"),
            (Metric::LinksPunctual, 1.0, "100.0 %"),
            (Metric::LinksCpu, 0.114, "0.11"),
        ] {
            assert_eq!(metric.format(value), text);
        }
    }
}
