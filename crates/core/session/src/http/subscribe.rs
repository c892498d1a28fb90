//! Requests that subscribe: what several gateways read from them and check.

use std::borrow::Cow;

use throng_http1::encode_stream_head;
use throng_metrics::Counter;
use throng_types::ChannelName;
use throng_ws::handshake::Accept;

use super::{Incoming, Reject, respond};
use crate::permit::{RESERVED, Verdict, may_subscribe};
use crate::port::Port;
use crate::{Context, Identity, Shared, authenticate};

/// The parameters that subscribers bring in their URL.
#[derive(Default)]
pub struct Params<'a> {
    /// `channel`, as often as it stands there.
    pub channels: Vec<Cow<'a, str>>,
    /// `Authorization: Bearer`, or `token`.
    pub token: Option<Cow<'a, str>>,
    /// The header `Last-Event-ID`, or a parameter of that name.
    pub last_event_id: Option<Cow<'a, str>>,
    /// `cf_connect`.
    pub connect: Option<Cow<'a, str>>,
    /// The client wants Centrifugo's Protobuf form.
    pub protobuf: bool,
}

impl<'a> Params<'a> {
    /// Reads the query and the headers.
    ///
    /// # Errors
    /// 400 if the query is not UTF-8.
    pub fn read(incoming: &Incoming<'_, 'a>) -> Result<Self, Reject> {
        let mut params = Self::default();
        for pair in incoming.parameters() {
            let (name, value) = pair?;
            match &*name {
                "channel" => params.channels.push(value),
                "token" => params.token = Some(value),
                "last_event_id" | "lastEventId" | "Last-Event-ID" => {
                    params.last_event_id = Some(value)
                }
                "cf_connect" => params.connect = Some(value),
                "format" | "cf_protocol" => params.protobuf |= value == "protobuf",
                _ => {}
            }
        }
        // What the browser says itself is newer than what stood in the URL.
        if let Some(id) = incoming.request.header("last-event-id") {
            params.last_event_id = Some(Cow::Borrowed(id));
        }
        if let Some(token) = incoming.request.header("authorization").and_then(bearer) {
            params.token = Some(Cow::Borrowed(token));
        }
        Ok(params)
    }

    /// Refuses clients that want Centrifugo's Protobuf form.
    ///
    /// # Errors
    /// 400, then.
    pub fn refuse_protobuf(&self, accept: &Accept<'_>) -> Result<(), Reject> {
        if self.protobuf || accept.protocols.contains("centrifuge-protobuf") {
            let sentence = "Protobuf is not spoken here; use the JSON protocol";
            return Err(Reject::new(400, sentence));
        }
        Ok(())
    }

    /// Checks the token.
    ///
    /// # Errors
    /// 401, if it is not good, or is missing where one is needed; 503, if its key is not known yet.
    pub fn identify<S, O>(&self, cx: &Context<'_, S, O>) -> Result<Option<Box<Identity>>, Reject> {
        let claims = authenticate(self.token.as_deref(), cx.shared, cx.now)
            .map_err(|error| Reject::new(error.status(), error.message()))?;
        Ok(claims.as_ref().map(Identity::from_claims).map(Box::new))
    }
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The channels of the URL, if the connection may have all of them.
///
/// # Errors
/// 400, 403 or 404 for the first channel that it may not have.
pub fn permitted_channels(
    params: &Params<'_>,
    port: Port,
    identity: Option<&Identity>,
    shared: &Shared,
) -> Result<Vec<ChannelName>, Reject> {
    let mut channels: Vec<ChannelName> = Vec::new();
    for name in &params.channels {
        let channel = ChannelName::new(name);
        let channel = channel.map_err(|error| Reject::new(400, error.to_string()))?;
        let verdict = match port {
            Port::Client => may_subscribe(identity, &channel, false, shared),
            // Whoever reaches the API port may watch the server itself, and nothing else.
            Port::Api if channel.namespace() == Some(RESERVED) => Verdict::Yes,
            Port::Api | Port::Own { .. } => Verdict::No,
        };
        match verdict {
            Verdict::Yes => {}
            Verdict::No => {
                let sentence = format!("no permission to subscribe to {channel}");
                return Err(Reject::new(403, sentence));
            }
            Verdict::UnknownChannel => {
                let sentence = format!("the namespace of {channel} is not configured");
                return Err(Reject::new(404, sentence));
            }
        }
        if !channels.contains(&channel) {
            channels.push(channel);
        }
    }
    if channels.is_empty() {
        return Err(Reject::new(400, "no channel given: add ?channel=NAME"));
    }
    let channels_max = shared.limits.channels_max;
    if channels.len() > channels_max {
        let sentence = format!("more than {channels_max} channels in one connection");
        return Err(Reject::new(400, sentence));
    }
    Ok(channels)
}

/// Sends new subscribers away while the server is going down.
///
/// # Errors
/// 503, then.
pub fn check_draining(shared: &Shared) -> Result<(), Reject> {
    if shared.draining {
        shared.counters.count(Counter::RefusedDraining);
        let sentence = "the server is going down; connect again in a moment";
        return Err(Reject::new(503, sentence));
    }
    Ok(())
}

/// What the head of a stream says of it.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead<'a> {
    /// The media type.
    pub content_type: &'a str,
    /// Sent in chunks, or until the connection ends.
    pub in_chunks: bool,
    /// Sent with the content coding gzip.
    pub is_gzip: bool,
}

impl StreamHead<'_> {
    /// Of lines in chunks, or of events.
    #[must_use]
    pub const fn of(is_lines: bool) -> Self {
        Self {
            content_type: match is_lines {
                true => "application/x-ndjson",
                false => "text/event-stream",
            },
            in_chunks: is_lines,
            is_gzip: false,
        }
    }
}

/// Writes the head of a stream.
///
/// # Errors
/// 426, if chunks are wanted by HTTP/1.0, which has none.
pub fn write_stream_head<S, O>(
    incoming: &Incoming<'_, '_>,
    head: StreamHead<'_>,
    cx: &mut Context<'_, S, O>,
) -> Result<(), Reject> {
    let request = incoming.request;
    if head.in_chunks && request.minor_version == 0 {
        let sentence = "this stream is sent in chunks, which needs HTTP/1.1";
        return Err(Reject::new(426, sentence).with("Upgrade", "HTTP/1.1"));
    }
    let mut headers = vec![
        ("Content-Type", head.content_type),
        ("Cache-Control", "no-cache"),
        // Proxies such as nginx would otherwise keep events back.
        ("X-Accel-Buffering", "no"),
    ];
    if head.is_gzip {
        headers.extend([("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]);
    }
    allow_origin(request.header("origin"), &mut headers);
    let date = cx.shared.dates.at(cx.now);
    encode_stream_head(200, date.as_str(), &headers, head.in_chunks, cx.out);
    Ok(())
}

/// Adds the headers of CORS that let a page read the answer.
pub fn allow_origin<'a>(origin: Option<&'a str>, headers: &mut Vec<(&'a str, &'a str)>) {
    if let Some(origin) = origin {
        headers.push(("Access-Control-Allow-Origin", origin));
        headers.push(("Access-Control-Allow-Credentials", "true"));
        headers.push(("Vary", "Origin"));
    }
}

/// What a browser asks before it sends a token or an id to another origin (Fetch, section 4.8).
pub(super) fn preflight<S, O>(incoming: &Incoming<'_, '_>, cx: &mut Context<'_, S, O>) -> bool {
    let mut headers = vec![
        ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
        (
            "Access-Control-Allow-Headers",
            "authorization, content-type, last-event-id",
        ),
        ("Access-Control-Max-Age", "86400"),
    ];
    allow_origin(incoming.request.header("origin"), &mut headers);
    let keep_alive = incoming.request.keep_alive();
    respond(204, &headers, b"", keep_alive, cx);
    keep_alive
}
