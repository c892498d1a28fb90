//! Every figure once: its column, its unit, its form.

use serde::Serialize;

use crate::scenario::Scale;
use crate::suite::Suite;

pub(crate) type Samples = Vec<(Metric, f64)>;

macro_rules! metrics {
    ($($name:ident $form:ident $heading:literal;)+) => {
        /// Column of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Metric { $($name,)+ }

        impl Metric {
            pub(super) const ALL: &[Self] = &[$(Self::$name,)+];

            const fn row(self) -> (Form, &'static str) {
                match self { $(Self::$name => (Form::$form, $heading),)+ }
            }
        }
    };
}

// In the order of the table.
metrics! {
    IdleBytes Bytes "idle B per connection ({many} {connections}, {few} channels)";
    IdleOwnBytes Bytes "idle B per connection, a channel each";
    StartBytes Megabytes "MB before the first connection";
    LeftBytes Megabytes "MB after all have left";
    AcceptUs Tenths "CPU µs per accepted connection ({many} in a burst)";
    SmallOne Thousands "deliveries per CPU-second, 1 channel × {small}, 1 in flight";
    SmallFour Thousands "the same, 4 in flight";
    LargeOne Thousands "deliveries per CPU-second, 1 channel × {large}, 1 in flight";
    LargeFour Thousands "the same, 4 in flight";
    Wide Thousands "deliveries per CPU-second, {wide} channels × 1 at {wide-rate}/s";
    Pipelined Thousands
        "deliveries per CPU-second, {wide} channels × 1, {pipelined} in flight, pipelined";
    PipelinedRate Thousands "deliveries per second there";
    PipelinedP99Ms Ms "p99 there";
    Socket Thousands "deliveries per CPU-second, the same, by a publisher's WebSocket";
    SocketRate Thousands "deliveries per second there";
    SocketP99Ms Ms "p99 there";
    Rooms Thousands "deliveries per CPU-second, {rooms} channels × {room} at {room-rate}/s";
    RoomsP50Ms Ms "p50 there";
    RoomsP99Ms Ms "p99 there";
    LinksPunctual Percent "of {links} streams, those that followed their own link each {timeout} s";
    LinksCpu Hundredths "CPUs busy with that";
    OneCpu Tenths "{wide} channels × 1, {pipelined} in flight: CPU µs a delivery";
    OneSwitches Thousandths "switches";
    OneMail Thousandths "messages";
    OneWakes Thousandths "wake-ups";
    OneWrites Thousandths "writes";
    SkewCpu Tenths "the same, all at home on one shard: CPU µs a delivery";
    SkewSwitches Thousandths "switches";
    SkewMail Thousandths "messages";
    SkewWakes Thousandths "wake-ups";
    SkewWrites Thousandths "writes";
    RoomsCpu Tenths "{rooms} channels × {room}, {eighth} in flight: CPU µs a delivery";
    RoomsSwitches Thousandths "switches";
    RoomsMail Thousandths "messages";
    RoomsWakes Thousandths "wake-ups";
    RoomsWrites Thousandths "writes";
    FanOutCpu Tenths "1 channel × {small}, 4 in flight: CPU µs a delivery";
    FanOutSwitches Thousandths "switches";
    FanOutMail Thousandths "messages";
    FanOutWakes Thousandths "wake-ups";
    FanOutWrites Thousandths "writes";
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
    /// Heading of its column, with the numbers of this scale.
    pub(super) fn heading(self, suite: Suite, scale: &Scale) -> String {
        let values = [
            ("{connections}", suite.connections().to_owned()),
            ("{few}", grouped(scale.idle_few)),
            ("{many}", grouped(scale.idle_many)),
            ("{small}", grouped(scale.fan_out_small)),
            ("{large}", grouped(scale.fan_out_large)),
            ("{wide}", grouped(scale.wide_channels)),
            ("{wide-rate}", grouped(scale.wide_rate_per_s as usize)),
            ("{pipelined}", scale.pipelined.to_string()),
            ("{eighth}", (scale.pipelined / 8).to_string()),
            ("{rooms}", grouped(scale.room_channels)),
            ("{room}", grouped(scale.room_subscribers)),
            ("{room-rate}", grouped(scale.room_rate_per_s as usize)),
            ("{links}", grouped(scale.links)),
            ("{timeout}", scale.link_timeout.as_secs().to_string()),
        ];
        let heading = self.row().1.to_owned();
        let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
        values.iter().fold(heading, fill)
    }

    pub(super) fn format(self, value: f64) -> String {
        match self.row().0 {
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
