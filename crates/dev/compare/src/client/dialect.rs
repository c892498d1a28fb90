//! How subscribers and publishers talk to a server: everything else of the client is the same for
//! all.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use throng_client::{ExchangeError, IncomingResponse};
use throng_http1::encode_request;
use throng_pusher::AppKeys;
use throng_pusher::api::signed_query;

/// Longest wait for a server to answer whether it is ready.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `GET /ws?channel=…` is a WebSocket, and `POST /pub?channel=…` publishes its body.
    WebSocket,
    /// As [`Self::WebSocket`], with TLS for subscribers. Publishers use a plain port of their own.
    Secure,
    /// `GET /events?channel=…` is answered by the origin behind the server, which has it held as an
    /// event stream; `POST /publish/` takes GRIP items.
    Grip,
    /// `GET /app/KEY` is a WebSocket that subscribes by a frame of Pusher's protocol, and a signed
    /// `POST /apps/ID/events` publishes.
    Pusher,
}

/// App that every server of Pusher's protocol is configured with: soketi's own default.
const APP_EVENTS: &str = "/apps/app-id/events";
const APP_KEY: &str = "app-key";
const APP_SECRET: &str = "app-secret";

impl Dialect {
    pub(super) fn handshakes_max(self) -> usize {
        match self {
            // What a listener that asks for the customary backlog of 512 can hold while the server
            // is busy, so that a burst is as fast as the server and no faster than the kernel.
            Self::WebSocket | Self::Secure | Self::Pusher => 500,
            // To some of hundreds Pushpin answers 500 or 502, and of fifty it loses some at their
            // first publication, if a keep-alive between its processes meets a stream that is just
            // handed from one to the other.
            Self::Grip => 8,
        }
    }

    /// Request target that subscribes to a channel.
    pub(crate) fn target(self, channel: &str) -> String {
        match self {
            Self::WebSocket | Self::Secure => format!("/ws?channel={channel}"),
            Self::Grip => format!("/events?channel={channel}"),
            // Its names have no colons. The subscriber reads the channel here; servers do not.
            Self::Pusher => {
                let channel = channel.replace(':', "-");
                format!("/app/{APP_KEY}?protocol=7&channel={channel}")
            }
        }
    }

    /// Whether a server that listens does its work too.
    pub(crate) fn is_ready(self, address: SocketAddr) -> bool {
        match self {
            Self::WebSocket | Self::Secure | Self::Pusher => true,
            Self::Grip => is_held(address).unwrap_or(false),
        }
    }

    /// A request that publishes. The payload is plain ASCII without quotes.
    pub(super) fn encode_publication(
        self,
        channel: &str,
        payload: &[u8],
        host: &str,
        out: &mut Vec<u8>,
    ) {
        let mut post = |target: &str, kind, body: &[u8]| {
            let headers = [("Content-Type", kind)];
            encode_request("POST", target, host, &headers, Some(body), out);
        };
        match self {
            Self::WebSocket | Self::Secure => {
                let target = format!("/pub?channel={channel}");
                post(&target, "text/plain", payload);
            }
            Self::Grip => {
                let content = format!("data: {}\n\n", String::from_utf8_lossy(payload));
                let body = serde_json::json!({"items": [{
                    "channel": channel,
                    "formats": {"http-stream": {"content": content}},
                }]});
                post("/publish/", "application/json", body.to_string().as_bytes());
            }
            Self::Pusher => {
                let data = String::from_utf8_lossy(payload);
                let body = format!(r#"{{"name":"e","channel":"{channel}","data":"{data}"}}"#);
                let keys = AppKeys::new(APP_KEY, [APP_SECRET]);
                let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
                let (body, now_s) = (body.as_bytes(), now.as_secs());
                let query = signed_query(&keys, "POST", APP_EVENTS, body, now_s);
                post(&format!("{APP_EVENTS}?{query}"), "application/json", body);
            }
        }
    }
}

/// Whether a stream is held to which nothing is published.
fn is_held(address: SocketAddr) -> Result<bool, ExchangeError> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    let mut request = Vec::new();
    let (target, host) = (Dialect::Grip.target("probe"), address.to_string());
    encode_request("GET", &target, &host, &[], None, &mut request);
    Ok(IncomingResponse::send(stream, &request)?.status == 200)
}
