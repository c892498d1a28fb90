//! What is published, how it reaches the server, and what is told to other tools meanwhile.

use serde::{Deserialize, Serialize};

use crate::Target;
use crate::check::Check;
use crate::schedule::Growth;

/// What is published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    /// How a publication reaches the server.
    pub via: Via,
    /// Publications a second, all publishers together: an open loop.
    pub per_s: f64,
    /// How many publishers share them. Each channel belongs to one publisher, so its sequence has
    /// no gaps of ours.
    pub publishers: u32,
    /// The size of the measured message.
    pub size_bytes: usize,
    /// Which channel is next.
    pub choose: Choose,
    /// Search for the highest rate that keeps a promise, instead of one rate.
    pub until: Option<Until>,
}

/// How a publication reaches the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "via", rename_all = "kebab-case")]
pub enum Via {
    /// One HTTP request for each publication, pipelined on kept connections.
    Http {
        /// Where to; its path is a template.
        target: Target,
        /// The request method.
        method: String,
        /// Header lines, values are templates.
        headers: Vec<(String, String)>,
        /// The body, a template.
        body: String,
    },
    /// A frame for each publication on kept WebSockets.
    WebSocket {
        /// Where to; its path is a template.
        target: Target,
        /// Frames sent once open.
        first_frames: Vec<String>,
        /// The frame, a template.
        frame: String,
    },
}

impl Via {
    /// `POST /pub?channel=…` with the bare message as the body.
    #[must_use]
    pub fn plain(api: &Target) -> Self {
        Self::Http {
            target: api.with_path("/pub?channel={channel:url}"),
            method: "POST".into(),
            headers: Vec::new(),
            body: "{payload}".into(),
        }
    }

    /// `POST /api/publish` of Centrifugo's server API, with its key if there is one.
    #[must_use]
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

    /// `POST /publish/` of GRIP: one item with a WebSocket message and a line of an event stream.
    #[must_use]
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

/// Which channel the next publication goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choose {
    /// One after another.
    RoundRobin,
    /// At random, evenly.
    Random,
}

/// The search for the highest rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The promise that ends it when it breaks.
    pub check: Check,
    /// How the rate grows.
    pub growth: Growth,
    /// No rate above this, per second.
    pub per_s_max: f64,
    /// How long each step is measured.
    pub step_us: u64,
}

/// What is looked for in what arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Marker {
    /// Our measured messages.
    Throng,
    /// TCPKali's markers too, stamped with the wall clock.
    Tcpkali,
}

/// Where running figures go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsdExport {
    /// Host of the statsd server.
    pub host: String,
    /// Its UDP port.
    pub port: u16,
    /// What stands before each name.
    pub namespace: String,
    /// How long latencies gather before they start anew; none gathers to the end.
    pub latency_window_us: Option<u64>,
}
