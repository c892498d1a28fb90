//! The one model of a run. Times are in µs, sizes in bytes, rates per second; texts with holes are
//! templates (see [`crate::template`]), kept as written so that a scenario can be shown and sent to
//! other machines.

mod publish;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Data, Target};
use crate::check::Check;
use crate::schedule::{Schedule, Spread};

pub use publish::{Choose, Marker, Publish, StatsdExport, Until, Via};

/// Everything that a run needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For reports.
    pub name: String,
    /// What happens.
    pub kind: Kind,
    /// Where connections go, in turn.
    pub targets: Vec<Target>,
    /// Whom connections by TLS believe.
    #[serde(default)]
    pub tls: TlsTrust,
    /// Addresses that connections come from, in turn; empty leaves address and port to the kernel.
    pub sources: Vec<IpAddr>,
    /// What is spoken.
    pub transport: Transport,
    /// How many connections.
    pub clients: u64,
    /// When they are opened.
    pub arrivals: Schedule,
    /// How arrivals spread around their rate.
    pub spread: Spread,
    /// How long a connection may take to become usable.
    pub connect_timeout_us: u64,
    /// Whether a lost connection is replaced, so that `clients` is kept up (TCPKali's `-c`).
    pub replace_lost: bool,
    /// Templates of channel names: each connection subscribes to one of each.
    pub channels: Vec<String>,
    /// What each connection sends by itself once it is usable.
    pub say: Option<Say>,
    /// What is published, if anything is.
    pub publish: Option<Publish>,
    /// From the last arrival until figures count.
    pub warm_up_us: u64,
    /// How long figures are taken, after the warm-up.
    pub hold_us: u64,
    /// How long deliveries on their way are waited for at the end, once nothing is published any
    /// more. What has not come then is missing.
    #[serde(default = "grace_us")]
    pub grace_us: u64,
    /// How long each connection lives; none keeps it to the end.
    pub lifetime_us: Option<u64>,
    /// What is looked for in what arrives.
    pub marker: Marker,
    /// What the results must be for the run to count as good.
    pub checks: Vec<Check>,
    /// Where running figures go, besides the results folder.
    pub statsd: Option<StatsdExport>,
    /// Where every random choice comes from.
    pub seed: u64,
    /// What `{data.NAME}` in templates stands for: a row for each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

/// Whom connections by TLS believe: this machine's list of authorities unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTrust {
    /// Whoever answers.
    pub insecure: bool,
    /// Servers with a certificate of these authorities, as PEM text.
    pub authorities: Option<String>,
}

impl Scenario {
    /// A scenario with this crate's defaults: 100 connections at 100 a second, held for 10 s.
    #[must_use]
    pub fn new(kind: Kind, targets: Vec<Target>, transport: Transport) -> Self {
        let mut scenario = Self {
            name: kind.as_str().to_owned(),
            kind,
            targets,
            tls: TlsTrust::default(),
            sources: Vec::new(),
            transport,
            clients: 0,
            arrivals: Schedule::default(),
            spread: Spread::Even,
            connect_timeout_us: 10_000_000,
            replace_lost: false,
            channels: Vec::new(),
            say: None,
            publish: None,
            warm_up_us: 0,
            hold_us: 10_000_000,
            grace_us: grace_us(),
            lifetime_us: None,
            marker: Marker::Throng,
            checks: Vec::new(),
            statsd: None,
            seed: 1,
            data: None,
        };
        scenario.set_clients(100, 100.0);
        scenario
    }

    /// So many connections at a constant rate.
    pub fn set_clients(&mut self, clients: u64, per_s: f64) {
        self.clients = clients;
        self.arrivals = Schedule::of_count(clients, per_s);
    }

    /// The whole run without the drain: arrivals, warm-up and hold, in µs.
    #[must_use]
    pub fn duration_us(&self) -> u64 {
        self.arrivals.duration_us() + self.warm_up_us + self.hold_us
    }

    /// Fewer users at a lower rate, in the same shape: connections, arrivals and publishing
    /// multiplied.
    pub fn scale(&mut self, factor: f64) {
        self.arrivals = self.arrivals.scaled(factor);
        self.clients = ((self.clients as f64 * factor).round() as u64).max(1);
        if let Some(publish) = &mut self.publish {
            publish.per_s *= factor;
        }
    }

    /// Cuts the run so that arrivals, warm-up and hold end within `bound_us`.
    ///
    /// Arrivals may take at most four fifths of the bound, so that there is a hold in which figures
    /// count.
    pub fn bound_duration(&mut self, bound_us: u64) {
        if self.duration_us() <= bound_us {
            return;
        }
        let hold_least_us = self.hold_us.min(bound_us / 5);
        self.arrivals = self.arrivals.truncated(bound_us - hold_least_us);
        self.clients = self.clients.min(self.arrivals.count());
        let left_us = bound_us - self.arrivals.duration_us().min(bound_us);
        self.warm_up_us = self.warm_up_us.min(left_us - hold_least_us);
        self.hold_us = self.hold_us.min(left_us - self.warm_up_us);
    }
}

const fn grace_us() -> u64 {
    10_000_000
}

/// What happens in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Kind {
    /// Connections are opened and kept, answering pings.
    Hold,
    /// Few publications, each to many.
    FanOut,
    /// Every connection has a channel of its own.
    OneToOne,
    /// Groups in which members publish to each other.
    Chat {
        /// Members of a group.
        group_size: u64,
    },
    /// Each connection sends and waits for its own message to come back.
    Echo,
    /// Connections come and go.
    Churn,
    /// All connections drop at once and come back.
    ReconnectStorm {
        /// When, from the start of the hold.
        at_us: u64,
        /// Which share drops.
        share: f64,
        /// The least and the greatest wait before a connection comes back, drawn evenly.
        backoff_us: (u64, u64),
        /// The share that must be back and caught up for the storm to be over.
        back_share: f64,
    },
    /// A share of the connections stops reading; the others' latency is what counts.
    SlowReaders {
        /// Which share.
        share: f64,
        /// How fast they still read, in bytes a second each; 0 stops them.
        bytes_per_s: u64,
    },
    /// Connections leave for a while and resume where they were.
    Resume {
        /// How long they are away.
        away_us: u64,
        /// How often, for each connection.
        every_us: u64,
    },
}

impl Kind {
    /// Its name in a scenario.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::FanOut => "fan-out",
            Self::OneToOne => "one-to-one",
            Self::Chat { .. } => "chat",
            Self::Echo => "echo",
            Self::Churn => "churn",
            Self::ReconnectStorm { .. } => "reconnect-storm",
            Self::SlowReaders { .. } => "slow-readers",
            Self::Resume { .. } => "resume",
        }
    }

    /// Every name.
    pub const NAMES: [&'static str; 9] = [
        "hold",
        "fan-out",
        "one-to-one",
        "chat",
        "echo",
        "churn",
        "reconnect-storm",
        "slow-readers",
        "resume",
    ];
}

/// What a connection speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Transport {
    /// A WebSocket (RFC 6455).
    WebSocket {
        /// What is said on it.
        dialect: Dialect,
        /// Frames sent in order once it is open, templates.
        first_frames: Vec<String>,
        /// Header lines of the handshake, values are templates.
        headers: Vec<(String, String)>,
        /// `Sec-WebSocket-Protocol`.
        subprotocol: Option<String>,
        /// How often a ping is sent; pings that arrive are always answered.
        ping_interval_us: Option<u64>,
    },
    /// An event stream.
    Sse {
        /// Header lines of the request, values are templates.
        headers: Vec<(String, String)>,
    },
    /// A chunked response that never ends.
    HttpStream {
        /// Header lines of the request, values are templates.
        headers: Vec<(String, String)>,
        /// The media type that the answer must have; none accepts any.
        content_type: Option<String>,
    },
    /// Bytes as they are: templates sent in order once connected.
    Raw {
        /// What is sent.
        first: Vec<String>,
        /// Whether the answer begins with an HTTP head, whose status must be 2xx or 101.
        expect_http: bool,
    },
}

impl Transport {
    /// A plain WebSocket without extras.
    #[must_use]
    pub const fn websocket(dialect: Dialect) -> Self {
        Self::WebSocket {
            dialect,
            first_frames: Vec::new(),
            headers: Vec::new(),
            subprotocol: None,
            ping_interval_us: None,
        }
    }

    /// Its name in a scenario.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::WebSocket { dialect, .. } => match dialect {
                Dialect::Plain => "websocket",
                Dialect::Centrifugo { .. } => "centrifugo",
                Dialect::Appwrite => "appwrite",
            },
            Self::Sse { .. } => "sse",
            Self::HttpStream { .. } => "http-stream",
            Self::Raw { .. } => "raw",
        }
    }
}

/// How subscribing is said on a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "dialect", rename_all = "kebab-case")]
pub enum Dialect {
    /// The URL or the first frames say it; a 101 is all the acknowledgement there is.
    Plain,
    /// Centrifugo's client protocol in JSON: connect, then subscribe, both acknowledged.
    Centrifugo {
        /// The connection token, a template.
        token: Option<String>,
    },
    /// Appwrite's URL says it; the first message (`connected`) acknowledges.
    Appwrite,
}

/// What each connection sends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Say {
    /// The frame, a template of a publish request.
    pub text: String,
    /// How often.
    pub every_us: u64,
    /// How many times; none goes on to the end.
    pub count: Option<u64>,
    /// The size of the measured message where the template has `{payload}`.
    pub size_bytes: usize,
    /// Whether it goes out as a binary frame.
    pub binary: bool,
}
