//! What checks can look at, by name, and the units of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use throng_types::nearest;

/// What a figure is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// µs; written with a unit of time.
    Time,
    /// A plain number.
    Count,
    /// 0 to 1; written `99.9%` or `0.999`.
    Share,
    /// A size in bytes.
    Bytes,
    /// Per second.
    Rate,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $unit:ident;)*) => {
        /// A figure that a run can have, latencies apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Figure { $($(#[$doc])* $variant,)* }

        impl Figure {
            /// Every figure.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in a check.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is measured in.
            #[must_use]
            pub const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* }
            }
        }
    };
}

figures! {
    /// Connects begun.
    Attempted = "attempted", Count;
    /// TCP handshakes.
    TcpConnected = "connected", Count;
    /// Handshakes accepted.
    Upgraded = "upgraded", Count;
    /// Subscriptions acknowledged.
    Subscribed = "subscribed", Count;
    /// Usable connections at the end of the hold.
    Alive = "alive", Count;
    /// Connects failed.
    Failed = "failed", Count;
    /// Connections lost.
    Lost = "lost", Count;
    /// Publications begun.
    Published = "published", Count;
    /// Publications failed.
    PublishFailed = "publish_failed", Count;
    /// Deliveries that were due.
    Expected = "expected", Count;
    /// Deliveries that came.
    Received = "received", Count;
    /// Deliveries that never came.
    Missing = "missing", Count;
    /// Deliveries that came twice.
    Duplicates = "duplicates", Count;
    /// Deliveries that came after a later one.
    OutOfOrder = "out_of_order", Count;
    /// Distinct deliveries over expected ones.
    Reach = "reach", Share;
    /// Deliveries a second over the measured time.
    DeliveryRate = "delivery_rate", Rate;
    /// The reconnect storm's end: time until 99.9 % were back and caught up.
    BackTime = "back_time", Time;
    /// Server memory for each connection.
    ServerMemory = "server_memory_per_connection", Bytes;
    /// Server CPU as a share of one CPU, mean over the measured time.
    ServerCpu = "server_cpu", Count;
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// A percentile of one kind of latency.
    Percentile(Kind, f64),
    /// The least latency.
    Min(Kind),
    /// The mean latency.
    Mean(Kind),
    /// The greatest latency.
    Max(Kind),
    /// Anything else.
    Figure(Figure),
}

/// Which latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// From the intended publication to the delivery.
    Delivery,
    /// From the intended connect to being usable.
    Connect,
    /// The generator's own lag.
    Lag,
}

impl Kind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Delivery => "",
            Self::Connect => "connect_",
            Self::Lag => "lag_",
        }
    }
}

impl Metric {
    /// What it is measured in.
    #[must_use]
    pub const fn unit(self) -> Unit {
        match self {
            Self::Figure(figure) => figure.unit(),
            _ => Unit::Time,
        }
    }

    /// Every name, with one percentile as an example of all.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let mut names = vec![
            "p50",
            "p90",
            "p95",
            "p99",
            "p99.9",
            "p99.99",
            "min",
            "mean",
            "max",
            "connect_p99",
            "connect_max",
            "lag_p99",
            "lag_max",
        ];
        names.extend(Figure::ALL.iter().map(|figure| figure.as_str()));
        names
    }

    /// Everything that has a name of its own in [`Metric::names`].
    pub fn all() -> impl Iterator<Item = Self> {
        // Each name is one that can be read, which a test checks.
        let names = Self::names().into_iter();
        names.filter_map(|name| Self::parse(name).ok())
    }

    /// # Errors
    /// A sentence that says what to write instead.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        if let Some(figure) = Figure::ALL.iter().find(|figure| figure.as_str() == name) {
            return Ok(Self::Figure(*figure));
        }
        let (kind, rest) = [Kind::Connect, Kind::Lag]
            .into_iter()
            .find_map(|kind| Some((kind, name.strip_prefix(kind.prefix())?)))
            .unwrap_or((Kind::Delivery, name));
        match rest {
            "min" => return Ok(Self::Min(kind)),
            "mean" => return Ok(Self::Mean(kind)),
            "max" => return Ok(Self::Max(kind)),
            _ => {}
        }
        if let Some(digits) = rest.strip_prefix('p')
            && digits.starts_with(|c: char| c.is_ascii_digit())
        {
            return match digits.parse::<f64>() {
                Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => {
                    Ok(Self::Percentile(kind, percentile))
                }
                _ => Err(format!("`{name}` is not a percentile")),
            };
        }
        let help = nearest(name, Self::names()).map_or_else(
            || format!("known are {}", Self::names().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        Err(format!("`{name}` is not a metric; {help}"))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(kind, percentile) => write!(f, "{}p{percentile}", kind.prefix()),
            Self::Min(kind) => write!(f, "{}min", kind.prefix()),
            Self::Mean(kind) => write!(f, "{}mean", kind.prefix()),
            Self::Max(kind) => write!(f, "{}max", kind.prefix()),
            Self::Figure(figure) => f.write_str(figure.as_str()),
        }
    }
}
