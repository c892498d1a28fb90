//! Requests that subscribe: the parameters that several gateways share, and their checks.

use std::borrow::Cow;

use throng_auth::{Claims, SubscriptionOptions};
use throng_http1::encode_stream_head;
use throng_metrics::Counter;
use throng_types::ChannelName;
use throng_ws::handshake::Accept;

use super::{Incoming, Reject, allow_origin, respond};
use crate::close::Port;
use crate::entry::{EntryFault, Holder, InitialSubscription, Named, all_channels, note_ends};
use crate::follow::FEED;
use crate::permit::RESERVED;
use crate::{AuthError, Context, Identity, Shared, authenticate};

/// The parameters that subscribers bring in their URL.
#[derive(Clone, Default)]
pub struct Params<'a> {
    /// `channel`, as often as it stands there. Bound: the request's head.
    pub channels: Vec<Cow<'a, str>>,
    /// `Authorization: Bearer`, or `token`.
    pub token: Option<Cow<'a, str>>,
    /// `sub_token`, as often as it stands there: subscription tokens. Bound: the request's head.
    pub sub_tokens: Vec<Cow<'a, str>>,
    /// The header `Last-Event-ID`, or a parameter of that name.
    pub last_event_id: Option<Cow<'a, str>>,
    /// Query parameter `cf_connect` of Centrifugo.
    pub connect: Option<Cow<'a, str>>,
    /// The client wants Centrifugo's Protobuf form.
    pub protobuf: bool,
}

impl<'a> Params<'a> {
    /// Reads the query and the headers. Error: 400 if the query is not UTF-8.
    pub fn read(incoming: &Incoming<'_, 'a>) -> Result<Self, Reject> {
        let mut params = Self::default();
        for pair in incoming.parameters() {
            let (name, value) = pair?;
            match &*name {
                "channel" => params.channels.push(value),
                "token" => params.token = Some(value),
                "sub_token" => params.sub_tokens.push(value),
                "last_event_id" | "lastEventId" | "Last-Event-ID" => {
                    params.last_event_id = Some(value)
                }
                "cf_connect" => params.connect = Some(value),
                "format" | "cf_protocol" => params.protobuf |= value == "protobuf",
                _ => {}
            }
        }
        // The browser's own header is newer than the id in the URL.
        if let Some(id) = incoming.request.header("last-event-id") {
            params.last_event_id = Some(Cow::Borrowed(id));
        }
        if let Some(token) = incoming.request.header("authorization").and_then(bearer) {
            params.token = Some(Cow::Borrowed(token));
        }
        Ok(params)
    }

    /// Copies the texts, so that they outlive the request.
    pub fn into_owned(self) -> Params<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Params {
            channels: self.channels.into_iter().map(owned).collect(),
            token: self.token.map(owned),
            sub_tokens: self.sub_tokens.into_iter().map(owned).collect(),
            last_event_id: self.last_event_id.map(owned),
            connect: self.connect.map(owned),
            protobuf: self.protobuf,
        }
    }

    /// Refuses clients that ask for Centrifugo's Protobuf form.
    pub fn refuse_protobuf(&self, accept: &Accept<'_>) -> Result<(), Reject> {
        if self.protobuf || accept.protocols.contains("centrifuge-protobuf") {
            let sentence = "this path does not support Protobuf; use the JSON protocol";
            return Err(Reject::new(400, sentence));
        }
        Ok(())
    }

    /// Checks the connection token. Error: 401, if it is not good, or is missing where one is
    /// needed; 503, if its key is not known yet.
    fn claims<S, O>(&self, cx: &Context<'_, S, O>) -> Result<Option<Claims>, Reject> {
        authenticate(self.token.as_deref(), cx.shared, cx.now)
            .map_err(|error| Reject::new(error.status(), error.message()))
    }

    /// The channels that it names. Those of tokens come first, so that a channel that is named
    /// beside its token is open by then.
    fn named(&self) -> impl Iterator<Item = Named<'_>> + Clone {
        let by_tokens = self.sub_tokens.iter().map(|token| Named {
            channel: None,
            token,
            since: None,
        });
        let by_names = self.channels.iter().map(|channel| Named {
            channel: Some(channel),
            token: "",
            since: None,
        });
        by_tokens.chain(by_names)
    }
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750 section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The holder of a connection, and the subscriptions that it begins with.
#[derive(Default)]
pub struct Entry {
    /// Identity from the token; `None` without one.
    pub identity: Option<Box<Identity>>,
    /// Subscriptions of the connection. Bound: `limits.channels_max`.
    pub channels: Vec<InitialSubscription>,
}

impl Entry {
    /// Checks the tokens of a request, and its channels. Error: the status that says what is wrong
    /// with the first of them that is not good.
    pub fn new<S, O>(
        params: &Params<'_>,
        port: Port,
        cx: &Context<'_, S, O>,
    ) -> Result<Self, Reject> {
        match port {
            Port::Client => Self::of_claims(params, params.claims(cx)?.as_ref(), cx),
            Port::Api | Port::Own { .. } => Self::of_watcher(params)?.named(),
        }
    }

    fn named(self) -> Result<Self, Reject> {
        match self.channels.is_empty() {
            true => Err(Reject::new(400, "no channel given: add ?channel=NAME")),
            false => Ok(self),
        }
    }

    /// Checks the parameters of a client whose claims come from its token or from a backend. Error:
    /// status for the first channel that the client may not subscribe to.
    pub fn of_claims<S, O>(
        params: &Params<'_>,
        claims: Option<&Claims>,
        cx: &Context<'_, S, O>,
    ) -> Result<Self, Reject> {
        let mut identity = claims.map(Identity::from_claims).map(Box::new);
        let holder = Holder {
            identity: identity.as_deref(),
            conn: cx.id,
        };
        let named = params.named();
        let channels = all_channels(claims, named, &holder, cx.shared, cx.now)?;
        note_ends(&mut identity, &channels);
        Self { identity, channels }.named()
    }

    /// The API port shows the server itself, and nothing else.
    fn of_watcher(params: &Params<'_>) -> Result<Self, Reject> {
        let mut channels: Vec<InitialSubscription> = Vec::new();
        for name in &params.channels {
            let channel = ChannelName::new(name).map_err(EntryFault::Name)?;
            // What one follower is told is none of another's business.
            let is_feed = channel.as_str().starts_with(FEED);
            if channel.namespace() != Some(RESERVED) || is_feed {
                return Err(EntryFault::Closed(channel).into());
            }
            if !channels.iter().any(|known| known.channel == channel) {
                let options = SubscriptionOptions::default();
                channels.push(InitialSubscription::new(channel, options));
            }
        }
        Ok(Self {
            identity: None,
            channels,
        })
    }
}

impl From<EntryFault> for Reject {
    fn from(fault: EntryFault) -> Self {
        match fault {
            EntryFault::Name(fault) => Self::new(400, fault.to_string()),
            EntryFault::TooMany(most) => {
                Self::new(400, format!("more than {most} channels in one connection"))
            }
            EntryFault::Closed(channel) => {
                Self::new(403, format!("no permission to subscribe to {channel}"))
            }
            EntryFault::Unknown(channel) => {
                Self::new(404, format!("the namespace of {channel} is not configured"))
            }
            EntryFault::Token(fault) => {
                let error = AuthError::Token(fault);
                Self::new(
                    error.status(),
                    format!("subscription token: {}", error.message()),
                )
            }
        }
    }
}

/// Sends new subscribers away while the server is going down, with 503.
pub fn check_draining(shared: &Shared) -> Result<(), Reject> {
    if shared.draining {
        shared.counters.count(Counter::RefusedDraining);
        let sentence = "the server is shutting down; connect again in a moment";
        return Err(Reject::new(503, sentence));
    }
    Ok(())
}

/// Headers of a stream's response.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead<'a> {
    pub content_type: &'a str,
    /// Sent in chunks, or until the connection ends.
    pub in_chunks: bool,
    /// Sent with the content coding gzip.
    pub is_gzip: bool,
}

impl StreamHead<'_> {
    /// Chooses the head for lines in chunks, or for events.
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

/// Refuses a stream in chunks by HTTP/1.0, which has none, with 426.
pub fn check_chunks(incoming: &Incoming<'_, '_>, in_chunks: bool) -> Result<(), Reject> {
    if in_chunks && incoming.request.minor_version == 0 {
        let sentence = "this stream is sent in chunks, which needs HTTP/1.1";
        return Err(Reject::new(426, sentence).with("Upgrade", "HTTP/1.1"));
    }
    Ok(())
}

/// Writes the head of a stream; pages of this origin may read it.
pub fn write_stream_head<S, O>(
    origin: Option<&str>,
    head: StreamHead<'_>,
    cx: &mut Context<'_, S, O>,
) {
    let mut headers = vec![
        ("Content-Type", head.content_type),
        ("Cache-Control", "no-cache"),
        // Proxies such as nginx would otherwise keep events back.
        ("X-Accel-Buffering", "no"),
    ];
    if head.is_gzip {
        headers.extend([("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]);
    }
    allow_origin(origin, &mut headers);
    let date = cx.shared.dates.at(cx.now);
    encode_stream_head(200, date.as_str(), &headers, head.in_chunks, cx.out);
}

/// Answers a CORS preflight, which a browser sends before a token or an id goes to another origin
/// (Fetch, section 4.8).
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
