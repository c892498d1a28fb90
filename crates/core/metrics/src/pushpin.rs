//! Numbers of GRIP under Pushpin's names, and two that its users miss.

use crate::text::{head, series};
use crate::{Counter, Gauge, Label, Totals};

/// One metric with its source.
struct Metric {
    name: &'static str,
    help: &'static str,
    source: Source,
}

enum Source {
    Counter(Counter),
    Gauge(Gauge),
    /// All series of a counter, with their labels.
    Series(Counter),
}

/// Metrics in the order of the output; the first five are Pushpin's.
const METRICS: [Metric; 7] = [
    Metric {
        name: "request_received",
        help: "Requests received from clients.",
        source: Source::Counter(Counter::GripClientRequests),
    },
    Metric {
        name: "connection_connected",
        help: "Clients that are connected now.",
        source: Source::Gauge(Gauge::GripConnections),
    },
    Metric {
        name: "connection_minute",
        help: "Minutes that clients were connected.",
        source: Source::Counter(Counter::GripConnectionMinutes),
    },
    Metric {
        name: "message_received",
        help: "Messages received from publishers.",
        source: Source::Counter(Counter::PublicationsGrip),
    },
    Metric {
        name: "message_sent",
        help: "Messages sent to clients.",
        source: Source::Counter(Counter::GripDeliveries),
    },
    Metric {
        name: "message_dropped",
        help: "Messages dropped because a client's queue was full, of all protocols.",
        source: Source::Series(Counter::DroppedClose),
    },
    Metric {
        name: "connection_closed",
        help: "Connections that ended, of all protocols, by reason.",
        source: Source::Series(Counter::ClosedClient),
    },
];

/// Appends them in Prometheus's text format, each name behind `prefix`.
pub fn write_pushpin(totals: &Totals, prefix: &str, out: &mut String) {
    for metric in &METRICS {
        let name = format!("{prefix}{}", metric.name);
        match metric.source {
            Source::Gauge(gauge) => {
                head(out, &name, metric.help, "gauge");
                series(out, &name, None, totals.gauge(gauge));
            }
            Source::Counter(counter) => {
                head(out, &name, metric.help, "counter");
                series(out, &name, None, totals.counter(counter));
            }
            Source::Series(any) => {
                head(out, &name, metric.help, "counter");
                for (label, value) in all(totals, any) {
                    series(out, &name, label, value);
                }
            }
        }
    }
}

fn all(totals: &Totals, any: Counter) -> impl Iterator<Item = (Option<Label>, u64)> {
    let series = Counter::ALL.iter();
    let series = series.filter(move |counter| counter.name() == any.name());
    series.map(|&counter| (counter.label(), totals.counter(counter)))
}

/// Rows for the reference: name, label and meaning.
pub(crate) fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    METRICS.iter().map(|metric| {
        let label = match metric.source {
            Source::Series(any) => any.label().map_or("", |label| label.key),
            Source::Counter(_) | Source::Gauge(_) => "",
        };
        (metric.name, label, metric.help)
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
        let mut out = String::new();
        write_pushpin(&Totals::sum([&counters]), "p_", &mut out);
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
        let mut bare = String::new();
        write_pushpin(&Totals::new(), "", &mut bare);
        assert!(bare.contains("\nmessage_sent 0\n"), "{bare}");
    }
}
