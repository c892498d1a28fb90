//! Every figure once: its column, its unit, its form.

use serde::Serialize;

use crate::scenario::Scale;
use crate::suite::Suite;

pub(crate) type Samples = Vec<(Metric, f64)>;

macro_rules! metrics {
    ($($form:ident: $($name:ident)+;)+) => {
        /// Column of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Metric { $($($name,)+)+ }

        impl Metric {
            pub(super) const ALL: &[Self] = &[$($(Self::$name,)+)+];

            const fn form(self) -> Form {
                match self { $($(Self::$name)|+ => Form::$form,)+ }
            }
        }
    };
}

// In the order of the table.
metrics! {
    Bytes: IdleBytes IdleOwnBytes;
    Megabytes: StartBytes LeftBytes;
    Tenths: AcceptUs;
    Thousands: SmallOne SmallFour LargeOne LargeFour Wide Pipelined PipelinedRate;
    Ms: PipelinedP99Ms;
    Thousands: Socket SocketRate;
    Ms: SocketP99Ms;
    Thousands: Rooms;
    Ms: RoomsP50Ms RoomsP99Ms;
    Percent: LinksPunctual;
    Hundredths: LinksCpu;
    Tenths: OneCpu;
    Thousandths: OneSwitches OneMail OneWakes OneWrites;
    Tenths: SkewCpu;
    Thousandths: SkewSwitches SkewMail SkewWakes SkewWrites;
    Tenths: RoomsCpu;
    Thousandths: RoomsSwitches RoomsMail RoomsWakes RoomsWrites;
    Tenths: FanOutCpu;
    Thousandths: FanOutSwitches FanOutMail FanOutWakes FanOutWrites;
}

/// Form of a figure in the table: the digits that mean something.
enum Form {
    Bytes,
    Megabytes,
    Ms,
    Percent,
    /// Number that is rounded to thousands.
    Thousands,
    Tenths,
    Hundredths,
    Thousandths,
}

impl Metric {
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

    pub(super) fn format(self, value: f64) -> String {
        match self.form() {
            Form::Bytes => grouped(value.max(0.0).round() as usize),
            Form::Megabytes => format!("{:.1}", value / 1e6),
            Form::Ms => format!("{value:.1} ms"),
            // Streams not counted may have missed something: not to be rounded up.
            Form::Percent => format!("{:.1} %", (value * 1000.0).floor() / 10.0),
            Form::Thousands => grouped((value / 1000.0).round() as usize * 1000),
            Form::Tenths => format!("{value:.1}"),
            Form::Hundredths => format!("{value:.2}"),
            Form::Thousandths => format!("{value:.3}"),
        }
    }
}

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
