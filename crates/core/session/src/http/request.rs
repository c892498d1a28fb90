//! A request on its way to a gateway.

use std::borrow::Cow;
use std::net::IpAddr;

use throng_auth::Caller;
use throng_http1::{Request, query};
use throng_types::SpanContext;
use throng_ws::handshake::{self, Accept};

use super::{allow_origin, answer_text};
use crate::close::Port;
use crate::{Allowance, Context, Overspent, TracedCall};

/// A request and where it came from.
pub struct Incoming<'r, 'b> {
    pub port: Port,
    /// The peer's address: perhaps a proxy's.
    pub peer: IpAddr,
    /// Whether TLS is spoken with the peer: by us, not by a proxy in front.
    pub is_tls: bool,
    /// Address of the client, as far as trusted proxies name it.
    pub client: IpAddr,
    /// Caller of the server API, where the front door asks for a key.
    pub caller: &'r Caller,
    /// Allowance of the connection after this request; `None` where work is not counted.
    pub allowance: Option<Allowance>,
    pub request: &'r Request<'b>,
    /// Body of the request; empty while a gateway is asked for its claim.
    pub body: &'r [u8],
    /// More of the body follows; only for a claim that streams it.
    pub is_open: bool,
    /// The token of the first order whose answer [`super::Later`] awaits.
    pub first_token: u32,
}

impl Incoming<'_, '_> {
    /// Begins a span for a call whose caller traces it, if there is a collector.
    pub fn traced<S, O>(&self, cx: &Context<'_, S, O>) -> Option<Box<TracedCall>> {
        let tracer = cx.shared.tracer.as_ref()?;
        tracer.begin(self.request.header(SpanContext::FIELD), cx.now)
    }
}

/// A status and a sentence for a request that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: u16,
    pub sentence: String,
    /// Fields that belong to the status. Bound: a few, which the code names.
    pub headers: Vec<(&'static str, &'static str)>,
}

impl Reject {
    pub fn new(status: u16, sentence: impl Into<String>) -> Self {
        Self {
            status,
            sentence: sentence.into(),
            headers: Vec::new(),
        }
    }

    /// Writes it as an answer that pages of one origin may read, with fields that the port adds.
    pub fn write<S, O>(
        self,
        (reader, fields): (Option<&str>, &[(&str, &str)]),
        keep_alive: bool,
        cx: &mut Context<'_, S, O>,
    ) {
        let mut headers: Vec<(&str, &str)> = self.headers;
        match self.status {
            401 => headers.push(("WWW-Authenticate", "Bearer")),
            429 => headers.push(("Retry-After", "2")),
            503 => headers.push(("Retry-After", "5")),
            _ => {}
        }
        allow_origin(reader, &mut headers);
        headers.extend(fields);
        answer_text(self.status, &self.sentence, &headers, keep_alive, cx);
    }

    pub fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl From<Overspent> for Reject {
    fn from(over: Overspent) -> Self {
        let (status, sentence) = over.status();
        Self::new(status, sentence)
    }
}

impl From<handshake::HandshakeError> for Reject {
    fn from(refusal: handshake::HandshakeError) -> Self {
        Self {
            headers: refusal.headers().to_vec(),
            ..Self::new(refusal.status(), refusal.reason())
        }
    }
}

impl<'b> Incoming<'_, 'b> {
    /// Checks the handshake of a WebSocket. Error: the status that RFC 6455 names for what is
    /// wrong.
    pub fn accept_websocket(&self) -> Result<Accept<'b>, Reject> {
        let request = self.request;
        if request.minor_version == 0 {
            let reject = Reject::new(426, "a WebSocket needs HTTP/1.1");
            return Err(reject.with("Upgrade", "HTTP/1.1, websocket"));
        }
        handshake::accept(request.method, request.headers()).map_err(Reject::from)
    }

    /// Iterates over the names and values of the query. Error: 400 if one of them is not UTF-8: two
    /// such names would else become the same.
    pub fn parameters(
        &self,
    ) -> impl Iterator<Item = Result<(Cow<'b, str>, Cow<'b, str>), Reject>> + use<'b> {
        let pairs = query::utf8_pairs(self.request.query());
        pairs.map(|pair| pair.map_err(|fault| Reject::new(400, fault.to_string())))
    }
}
