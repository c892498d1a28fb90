//! Numbers of GRIP under Pushpin's names, and two that its users miss.

use crate::{Counter, Exposition, Gauge, Totals};

/// Source of a metric's numbers.
#[derive(Clone, Copy)]
enum Source {
    Now(Gauge),
    Count(Counter),
    /// All series of a counter, with their labels.
    Series(Counter),
}

macro_rules! rows {
    ($($name:literal $help:literal $source:ident($of:expr);)+) => {
        &[$(($name, $help, Source::$source($of)),)+]
    };
}

/// Name, meaning and source of each metric, in the order of the output; the first five are
/// Pushpin's.
const METRICS: &[(&str, &str, Source)] = rows! {
    "request_received" "Requests received from clients." Count(Counter::GripClientRequests);
    "connection_connected" "Clients that are connected now." Now(Gauge::GripConnections);
    "connection_minute" "Minutes that clients were connected."
        Count(Counter::GripConnectionMinutes);
    "message_received" "Messages received from publishers." Count(Counter::PublicationsGrip);
    "message_sent" "Messages sent to clients." Count(Counter::GripDeliveries);
    "message_dropped" "Messages dropped because a client's queue was full, of all protocols."
        Series(Counter::DroppedClose);
    "connection_closed" "Connections that ended, of all protocols, by reason."
        Series(Counter::ClosedClient);
};

/// Appends them, each name behind `prefix`.
pub fn write_pushpin(totals: &Totals, prefix: &str, out: &mut Exposition<'_>) {
    for &(name, help, source) in METRICS {
        let name = format!("{prefix}{name}");
        let kind = if matches!(source, Source::Now(_)) {
            "gauge"
        } else {
            "counter"
        };
        out.head(&name, help, kind);
        match source {
            Source::Now(gauge) => out.series(&name, None, totals.gauge(gauge)),
            Source::Count(counter) => out.series(&name, None, totals.counter(counter)),
            Source::Series(any) => {
                for sample in totals.samples().filter(|it| it.name == any.name()) {
                    out.series(&name, sample.label, sample.value);
                }
            }
        }
    }
}

/// Rows for the reference: name, label and meaning.
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    METRICS.iter().map(|&(name, help, source)| {
        let label = match source {
            Source::Series(any) => any.label().map_or("", |label| label.key),
            Source::Count(_) | Source::Now(_) => "",
        };
        (name, label, help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counters;

    #[test]
    fn names_and_values() {
        let counters = Counters::new();
        counters.add(Counter::GripClientRequests, 1);
        counters.rise(Gauge::GripConnections, 2);
        counters.add(Counter::GripConnectionMinutes, 3);
        counters.add(Counter::PublicationsGrip, 4);
        counters.add(Counter::GripDeliveries, 5);
        counters.add(Counter::DroppedOldest, 6);
        counters.add(Counter::ClosedSlow, 7);
        let mut text = Exposition::default();
        write_pushpin(&Totals::sum([&counters]), "p_", &mut text);
        let out = text.finish().1;
        for line in [
            "# TYPE p_request_received counter",
            "p_request_received 1",
            "# TYPE p_connection_connected gauge",
            "p_connection_connected 2",
            "p_connection_minute 3",
            "p_message_received 4",
            "p_message_sent 5",
            "p_message_dropped{policy=\"drop-oldest\"} 6",
            "p_connection_closed{reason=\"slow\"} 7",
        ] {
            assert!(
                out.lines().any(|found| found == line),
                "{line} is not in\n{out}"
            );
        }
        let mut text = Exposition::default();
        write_pushpin(&Totals::new(), "", &mut text);
        let bare = text.finish().1;
        assert!(bare.contains("\nmessage_sent 0\n"), "{bare}");
    }
}
