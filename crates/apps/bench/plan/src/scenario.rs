//! Model of a run. Times are in µs, sizes in bytes, rates per second; texts with holes are
//! templates (see [`crate::template`]), kept as written so that a scenario can be shown and sent to
//! other machines.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::schedule::{Growth, Schedule, Spread};
use crate::{Data, Target};

/// Complete description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub kind: Workload,
    pub targets: Vec<Target>,
    #[serde(default)]
    pub tls: TlsTrust,
    /// Source addresses of connections, in turn; empty leaves address and port to the kernel.
    pub sources: Vec<IpAddr>,
    pub transport: ClientTransport,
    pub clients: u64,
    /// Streams of HTTP/2 on each connection: clients share connections then. None speaks HTTP/1.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<u32>,
    pub arrivals: Schedule,
    /// Spread of arrivals around their rate.
    pub spread: Spread,
    pub connect_timeout_us: u64,
    /// True if a lost connection is replaced, so that `clients` is kept up (TCPKali's `-c`).
    pub replace_lost: bool,
    /// Templates of channel names: each connection subscribes to one of each.
    pub channels: Vec<String>,
    pub say: Option<PeriodicMessage>,
    pub publish: Option<Publish>,
    pub warm_up_us: u64,
    /// Time in which figures are taken, after the warm-up.
    pub hold_us: u64,
    /// Time at the end in which deliveries may still come, once nothing is published any more. A
    /// delivery that has not come then is missing.
    #[serde(default = "grace_us")]
    pub grace_us: u64,
    /// Life of each connection; none keeps it to the end.
    pub lifetime_us: Option<u64>,
    pub marker: Marker,
    pub checks: Vec<Check>,
    pub statsd: Option<StatsdExport>,
    pub seed: u64,
    /// Rows of `{data.NAME}` in templates, one for each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

/// Certificates that connections by TLS accept: by default those of this machine's authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTrust {
    pub insecure: bool,
    /// Authorities to accept instead, as PEM text.
    pub authorities: Option<String>,
}

impl Default for StatsdExport {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 8125,
            namespace: "throng".into(),
            latency_window_us: None,
        }
    }
}

impl Scenario {
    /// Makes a scenario with defaults: 100 connections at 100 a second, held for 10 s.
    pub fn new(kind: Workload, targets: Vec<Target>, transport: ClientTransport) -> Self {
        let mut scenario = Self {
            name: kind.as_str().to_owned(),
            kind,
            targets,
            tls: TlsTrust::default(),
            sources: Vec::new(),
            transport,
            clients: 0,
            http2: None,
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

    pub fn set_clients(&mut self, clients: u64, per_s: f64) {
        self.clients = clients;
        self.arrivals = Schedule::of_count(clients, per_s);
    }

    /// Length of the run without the drain: arrivals, warm-up and hold, in µs.
    pub fn duration_us(&self) -> u64 {
        self.arrivals.duration_us() + self.warm_up_us + self.hold_us
    }

    pub fn scale(&mut self, factor: f64) {
        self.arrivals = self.arrivals.scaled(factor);
        self.clients = ((self.clients as f64 * factor).round() as u64).max(1);
        if let Some(publish) = &mut self.publish {
            publish.per_s *= factor;
        }
    }

    /// Cuts the run so that arrivals, warm-up and hold end within `bound_us`.
    ///
    /// Arrivals take at most four fifths of the bound, so that a hold remains; a storm comes in its
    /// first third.
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
        if let Workload::ReconnectStorm { at_us, .. } = &mut self.kind {
            *at_us = (*at_us).min(self.hold_us / 3);
        }
    }
}

const fn grace_us() -> u64 {
    10_000_000
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Connections are opened and kept, answering pings.
    Hold,
    /// Few publications are made, each to many.
    FanOut,
    /// Every connection has a channel of its own.
    OneToOne,
    /// Groups in which members publish to each other.
    Chat { group_size: u64 },
    /// Each connection sends and waits for its own message to come back.
    Echo,
    /// Connections come and go.
    Churn,
    /// All connections drop at once and come back.
    ReconnectStorm {
        /// Time from the start of the hold, in µs.
        at_us: u64,
        /// Share that drops, 0 to 1.
        share: f64,
        /// Least and greatest wait before a reconnect in µs, drawn evenly.
        backoff_us: (u64, u64),
        /// Share that must be back and caught up for the storm to be over.
        back_share: f64,
    },
    /// A share of the connections reads slowly; the latency of the others counts.
    SlowReaders {
        /// Share that reads slowly, 0 to 1.
        share: f64,
        /// Bytes a second that each still reads; 0 stops them.
        bytes_per_s: u64,
    },
    /// Connections leave for a while and resume at their position.
    Resume {
        away_us: u64,
        /// Interval between absences of a connection, in µs.
        every_us: u64,
    },
}

impl Workload {
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ClientTransport {
    WebSocket {
        dialect: Dialect,
        /// Frames sent in order once it is open, templates.
        first_frames: Vec<String>,
        /// Header lines of the handshake, values are templates.
        headers: Vec<(String, String)>,
        subprotocol: Option<String>,
        /// Interval of pings in µs; pings that arrive are always answered.
        ping_interval_us: Option<u64>,
    },
    /// An event stream (`text/event-stream`).
    Sse {
        /// Header lines of the request, values are templates.
        headers: Vec<(String, String)>,
    },
    /// A chunked response that never ends.
    HttpStream {
        /// Header lines of the request, values are templates.
        headers: Vec<(String, String)>,
        /// Media type that the answer must have; none accepts any.
        content_type: Option<String>,
    },
    /// Bytes without a protocol: templates sent in order once connected.
    Raw {
        first: Vec<String>,
        /// True if the answer begins with an HTTP head, whose status must be 2xx or 101.
        expect_http: bool,
    },
}

impl ClientTransport {
    pub const fn websocket(dialect: Dialect) -> Self {
        Self::WebSocket {
            dialect,
            first_frames: Vec::new(),
            headers: Vec::new(),
            subprotocol: None,
            ping_interval_us: None,
        }
    }

    pub const fn sends(&self) -> bool {
        matches!(self, Self::WebSocket { .. } | Self::Raw { .. })
    }

    /// Returns the template of a message that a connection publishes, unless a scenario has its
    /// own.
    pub const fn message(&self) -> &'static str {
        match self {
            Self::WebSocket {
                dialect: Dialect::Centrifugo { .. },
                ..
            } => {
                // An id above those of connect and subscribe; no answer is waited for.
                r#"{"id":1000000,"publish":{"channel":"{channel}","data":"{payload}"}}"#
            }
            _ => "{payload}",
        }
    }

    /// Returns the templates that open a connection: header lines, first messages, the token.
    pub fn opening(&self) -> (&[(String, String)], &[String], Option<&str>) {
        match self {
            Self::WebSocket {
                dialect,
                first_frames,
                headers,
                ..
            } => {
                let token = match dialect {
                    Dialect::Centrifugo { token } => token.as_deref(),
                    Dialect::Plain | Dialect::Appwrite => None,
                };
                (headers, first_frames, token)
            }
            Self::Sse { headers } | Self::HttpStream { headers, .. } => (headers, &[], None),
            Self::Raw { first, .. } => (&[], first, None),
        }
    }

    /// Returns true if connections can come back at their position in the stream.
    pub const fn resumes(&self) -> bool {
        let centrifugo = matches!(
            self,
            Self::WebSocket {
                dialect: Dialect::Centrifugo { .. },
                ..
            }
        );
        centrifugo || matches!(self, Self::Sse { .. })
    }

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

/// Way to subscribe on a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "dialect", rename_all = "kebab-case")]
pub enum Dialect {
    /// By the URL or the first frames; a 101 is all the acknowledgement there is.
    Plain,
    /// Centrifugo's client protocol in JSON: connect, then subscribe, both acknowledged.
    Centrifugo {
        /// Connection token, a template.
        token: Option<String>,
    },
    /// By the URL of Appwrite; the first message (`connected`) acknowledges.
    Appwrite,
}

/// Messages that each connection sends by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodicMessage {
    /// Frame, a template of a publish request.
    pub text: String,
    pub every_us: u64,
    /// Number of messages; none goes on to the end.
    pub count: Option<u64>,
    /// Size of the measured message where the template has `{payload}`.
    pub size_bytes: usize,
    pub binary: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    pub via: Via,
    /// Publications a second of all publishers together: an open loop.
    pub per_s: f64,
    /// Number of publishers. Each channel belongs to one, so its sequence has no gaps of ours.
    pub publishers: u32,
    pub size_bytes: usize,
    pub choose: ChannelChoice,
    /// Search for the highest rate that passes a check, instead of one rate.
    pub until: Option<RateSearch>,
}

/// Request or frame that carries a publication to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "via", rename_all = "kebab-case")]
pub enum Via {
    /// An HTTP request for each publication, pipelined on kept connections.
    Http {
        /// Server; its path is a template.
        target: Target,
        method: String,
        /// Header lines, values are templates.
        headers: Vec<(String, String)>,
        body: String,
    },
    /// A frame for each publication on kept WebSockets.
    WebSocket {
        /// Server; its path is a template.
        target: Target,
        /// Frames sent once it is open.
        first_frames: Vec<String>,
        /// Frame of a publication, a template.
        frame: String,
    },
}

impl Via {
    /// Makes `POST /pub?channel=…` with the bare message as the body.
    pub fn plain(api: &Target) -> Self {
        Self::Http {
            target: api.with_path("/pub?channel={channel:url}"),
            method: "POST".into(),
            headers: Vec::new(),
            body: "{payload}".into(),
        }
    }

    /// Makes `POST /api/publish` of Centrifugo's server API, with its key if there is one.
    pub fn centrifugo(api: &Target, key: Option<&str>) -> Self {
        let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        headers.extend(key.map(|key| ("X-API-Key".to_owned(), crate::template::escape(key))));
        Self::Http {
            target: api.with_path("/api/publish"),
            method: "POST".into(),
            headers,
            body: r#"{"channel":"{channel}","data":"{payload}"}"#.into(),
        }
    }

    /// Makes `POST /publish/` of GRIP: one item with a WebSocket message and a line of an event
    /// stream.
    pub fn grip(control: &Target) -> Self {
        Self::Http {
            target: control.with_path("/publish/"),
            method: "POST".into(),
            headers: vec![("Content-Type".into(), "application/json".into())],
            body: concat!(
                r#"{"items":[{"channel":"{channel}","formats":{"#,
                r#""ws-message":{"content":"{payload}"},"#,
                r#""http-stream":{"content":"data: {payload}\n\n"}}}]}"#
            )
            .into(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelChoice {
    RoundRobin,
    Random,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateSearch {
    pub check: Check,
    pub growth: Growth,
    pub per_s_max: f64,
    pub step_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marker {
    Throng,
    /// Markers of TCPKali too, stamped with the wall clock.
    Tcpkali,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsdExport {
    pub host: String,
    /// UDP port, by default 8125.
    pub port: u16,
    pub namespace: String,
    /// Time in µs after which latencies start anew; none gathers to the end.
    pub latency_window_us: Option<u64>,
}
