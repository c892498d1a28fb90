//! Requests to backends on a client's behalf, and their answers: Centrifugo's proxies, by HTTP and
//! gRPC.
//!
//! Owns: the bodies of requests, and what an answer may be. Never: where backends are, which
//! headers go with a request, and what follows from an answer.
//!
//! Facts come from Centrifugo's page "Proxy events to the backend" and its schema `proxy.proto`. An
//! answer is `{"result": {..}}`, `{"error": {..}}` or `{"disconnect": {..}}`; of several the
//! disconnect counts first, then the error.

mod answers;

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use throng_types::{Payload, PayloadKind, coded_enum};

use crate::field::{Tags, fields};
use crate::form::Form;
use crate::json::{Object, payload_of};
use crate::protobuf::Protobuf;
use crate::{Codec, strict};

coded_enum! {
    /// Kind of a request to a backend.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProxyKind {
        /// Name of the call by gRPC, behind [`SERVICE`].
        fn call -> &'static str;
        fn name;
        /// Identity of a client that brings no token.
        Connect = "Connect", "connect";
        /// Continuation of a connection that has expired.
        Refresh = "Refresh", "refresh";
        /// Permission of a client to subscribe.
        Subscribe = "Subscribe", "subscribe";
        /// Permission of a client to publish, and the data.
        Publish = "Publish", "publish";
        /// Continuation of a subscription that has expired.
        SubRefresh = "SubRefresh", "sub_refresh";
        /// The client's own question.
        Rpc = "RPC", "rpc";
        /// Word that a client wants a channel's newest publication, and there is none.
        CacheEmpty = "NotifyCacheEmpty", "cache_empty";
    }
}

/// Begin of the paths of calls by gRPC.
pub const SERVICE: &str = "/centrifugal.centrifugo.proxy.CentrifugoProxy/";

/// Parameters of a request to a backend.
#[derive(Clone, Copy, Debug)]
pub enum ProxyCall<'a> {
    /// Parameters of [`ProxyKind::Connect`], all optional.
    Connect {
        data: Option<&'a [u8]>,
        /// Name that the client gave.
        name: &'a str,
        /// Version that the client gave.
        version: &'a str,
        /// Server-side subscriptions that the client wants.
        channels: &'a [&'a str],
    },
    /// Nothing but the client, for [`ProxyKind::Refresh`].
    Refresh,
    /// Parameters of [`ProxyKind::Subscribe`], the channel required.
    Subscribe {
        channel: &'a str,
        /// Token that the client brought.
        token: &'a str,
        data: Option<&'a [u8]>,
    },
    /// Parameters of [`ProxyKind::Publish`], both required.
    Publish {
        channel: &'a str,
        /// Data that the client wants to publish.
        data: &'a [u8],
    },
    /// Parameters of [`ProxyKind::SubRefresh`], the channel required.
    SubRefresh { channel: &'a str },
    /// Parameters of [`ProxyKind::Rpc`], both required.
    Rpc {
        /// The method that the client named.
        method: &'a str,
        data: &'a [u8],
    },
}

impl ProxyCall<'_> {
    #[must_use]
    pub const fn kind(&self) -> ProxyKind {
        match self {
            Self::Connect { .. } => ProxyKind::Connect,
            Self::Refresh => ProxyKind::Refresh,
            Self::Subscribe { .. } => ProxyKind::Subscribe,
            Self::Publish { .. } => ProxyKind::Publish,
            Self::SubRefresh { .. } => ProxyKind::SubRefresh,
            Self::Rpc { .. } => ProxyKind::Rpc,
        }
    }
}

/// Appends the body of [`ProxyKind::CacheEmpty`], which is asked on nobody's behalf.
pub fn encode_cache_empty(channel: &str, codec: Codec, out: &mut Vec<u8>) {
    let key = ("channel", 1);
    match codec {
        Codec::Json => Object::append(out, |form| Form::text(form, key, channel)),
        Codec::Protobuf => Protobuf::bare(out).text(key, channel),
    }
}

/// A question, and on whose behalf it is asked.
#[derive(Clone, Copy, Debug)]
pub struct ProxyRequest<'a> {
    /// The connection's public id.
    pub client: &'a str,
    /// Transport of the client, such as `websocket`.
    pub transport: &'static str,
    /// The form of the protocol that it speaks.
    pub protocol: Codec,
    /// The user; nothing before the connection has one.
    pub user: Option<&'a str>,
    /// JSON that only backends see.
    pub meta: Option<&'a str>,
    /// Data travel in base64.
    pub is_binary: bool,
    pub call: ProxyCall<'a>,
}

impl ProxyRequest<'_> {
    /// Appends the body: an object of JSON, or a message of Protobuf.
    pub fn encode(&self, codec: Codec, out: &mut Vec<u8>) {
        match codec {
            Codec::Json => Object::append(out, |form| self.write(form)),
            Codec::Protobuf => self.write(&mut Protobuf::bare(out)),
        }
    }

    fn write<F: Form>(&self, form: &mut F) {
        let protocol = match self.protocol {
            Codec::Json => "json",
            Codec::Protobuf => "protobuf",
        };
        form.text(("client", 1), self.client);
        form.text(("transport", 2), self.transport);
        form.text(("protocol", 3), protocol);
        form.text(
            ("encoding", 4),
            if self.is_binary { "binary" } else { "json" },
        );
        if let Some(user) = self.user {
            form.text(("user", 10), user);
        }
        let meta = match self.call {
            ProxyCall::Connect {
                data,
                name,
                version,
                channels,
            } => {
                self.data((10, 11), data, form);
                form.text_if_any(("name", 12), name);
                form.text_if_any(("version", 13), version);
                if !channels.is_empty() {
                    form.texts(("channels", 14), channels);
                }
                // Nobody has said anything that only backends see.
                return;
            }
            ProxyCall::Refresh => 11,
            ProxyCall::Subscribe {
                channel,
                token,
                data,
            } => {
                form.text(("channel", 11), channel);
                form.text_if_any(("token", 12), token);
                self.data((14, 15), data, form);
                13
            }
            ProxyCall::Publish { channel, data } => {
                form.text(("channel", 11), channel);
                self.data((12, 13), Some(data), form);
                14
            }
            ProxyCall::SubRefresh { channel } => {
                form.text(("channel", 11), channel);
                12
            }
            ProxyCall::Rpc { method, data } => {
                form.text(("method", 11), method);
                self.data((12, 13), Some(data), form);
                14
            }
        };
        form.json_if_any(("meta", meta), self.meta);
    }

    /// Writes data as JSON, of which those that are not JSON become a text, or in base64.
    fn data<F: Form>(&self, (plain, base64): (u32, u32), data: Option<&[u8]>, form: &mut F) {
        let Some(data) = data.filter(|data| !data.is_empty()) else {
            return;
        };
        match self.is_binary {
            true => form.text(("b64data", base64), &STANDARD.encode(data)),
            false => form.data(("data", plain), &payload_of(data)),
        }
    }
}

/// Codes with which a backend may refuse a command: Centrifugo leaves these to applications.
const ERRORS: std::ops::RangeInclusive<u32> = 400..=1999;
/// Codes with which a backend may end a connection: 4000 to 4499 lets the client come back.
const DISCONNECTS: std::ops::RangeInclusive<u32> = 4000..=4999;
/// Bytes of the reason of a close frame (RFC 6455 section 5.5, without the code).
const REASON_BYTES_MAX: usize = 123;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyRefusal {
    /// The command is answered with this error.
    Error {
        /// Code from 400 to 1999.
        code: u32,
        /// A word for developers.
        message: Box<str>,
        /// True if the client may try again.
        temporary: bool,
    },
    /// Ends the client's connection.
    Disconnect {
        /// Code from 4000 to 4999.
        code: u16,
        /// A word for developers.
        reason: Box<str>,
    },
}

/// Answer of a backend that does not refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyAnswer {
    /// The result as JSON; nothing if there is none. It has the fields of a token's claims where
    /// the question is who somebody is or whether somebody may subscribe.
    pub result: Option<Box<str>>,
    /// User of the connection (connect).
    pub user: Box<str>,
    /// The application's own data: for the client, or (publish) in place of what it published.
    pub data: Option<Payload>,
    /// The connection or subscription is over (refresh).
    pub expired: bool,
    /// Deliver, but do not keep (publish).
    pub skip_history: bool,
    /// Tags of the publication, a JSON object of texts.
    pub tags: Option<Box<str>>,
    /// As in the server API (publish).
    pub idempotency_key: Option<Box<str>>,
}

fields! {
    struct Body<'a> {
        result: Option<&'a RawValue>,
        error: Option<ErrorBody<'a>>,
        disconnect: Option<DisconnectBody<'a>>,
    }
}

fields! {
    struct ErrorBody<'a> {
        code: u32,
        message: Cow<'a, str>,
        temporary: bool,
    }
}

fields! {
    struct DisconnectBody<'a> {
        code: u32,
        reason: Cow<'a, str>,
    }
}

fields! {
    struct ResultBody<'a> {
        user: Cow<'a, str>,
        data: Option<&'a RawValue>,
        b64data: Cow<'a, str>,
        expired: bool,
        skip_history: bool,
        tags: Tags<'a>,
        idempotency_key: Cow<'a, str>,
    }
}

impl ProxyRefusal {
    /// An error with a code that applications may use.
    #[must_use]
    pub fn error(code: u32, message: &str, temporary: bool) -> Option<Self> {
        Some(Self::Error {
            code: Some(code).filter(|code| ERRORS.contains(code))?,
            message: message.into(),
            temporary,
        })
    }

    /// A disconnect with a code that applications may use.
    #[must_use]
    pub fn disconnect(code: u32, reason: &str) -> Option<Self> {
        let is_possible = DISCONNECTS.contains(&code) && reason.len() <= REASON_BYTES_MAX;
        Some(Self::Disconnect {
            code: u16::try_from(code).ok().filter(|_| is_possible)?,
            reason: reason.into(),
        })
    }
}

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error { code, message, .. } => write!(out, "{code} {message}"),
            Self::Disconnect { code, reason } => write!(out, "{code} {reason}"),
        }
    }
}

impl ProxyAnswer {
    /// Reads the body of an answer. Nothing if it is none: then the question has failed.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Result<Self, ProxyRefusal>> {
        let body: Body<'_> = strict::from_slice(body).ok()?;
        if let Some(DisconnectBody { code, reason }) = body.disconnect {
            return ProxyRefusal::disconnect(code, &reason).map(Err);
        }
        if let Some(error) = body.error {
            return ProxyRefusal::error(error.code, &error.message, error.temporary).map(Err);
        }
        let Some(json) = body.result else {
            return Some(Ok(Self::default()));
        };
        let result: ResultBody<'_> = strict::from_str(json.get()).ok()?;
        let data = match (&*result.b64data, result.data) {
            ("", data) => data.map(|json| Payload {
                bytes: json.get().as_bytes().into(),
                kind: PayloadKind::Json,
            }),
            (base64, _) => Some(payload_of(&STANDARD.decode(base64).ok()?)),
        };
        Some(Ok(Self {
            result: Some(json.get().into()),
            user: result.user.into(),
            data,
            expired: result.expired,
            skip_history: result.skip_history,
            tags: result.tags.0.map(Into::into),
            idempotency_key: { !result.idempotency_key.is_empty() }
                .then(|| result.idempotency_key.into()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use throng_types::PayloadKind;

    use super::{ProxyAnswer, ProxyCall, ProxyRefusal, ProxyRequest};
    use crate::Codec;
    use crate::protobuf::Fields;

    /// The body in JSON; numbers and texts of the fields in Protobuf.
    fn body(call: ProxyCall<'_>, is_binary: bool) -> (String, String) {
        let request = ProxyRequest {
            client: "c1",
            transport: "websocket",
            protocol: Codec::Json,
            user: Some("42"),
            meta: Some("{\"n\":1}"),
            is_binary,
            call,
        };
        let (mut json, mut message) = (Vec::new(), Vec::new());
        request.encode(Codec::Json, &mut json);
        request.encode(Codec::Protobuf, &mut message);
        let mut fields = Fields(&message);
        let each = std::iter::from_fn(|| fields.next().unwrap());
        let each = each.map(|(number, value)| format!("{number} {}", value.text().unwrap()));
        let each: Vec<String> = each.collect();
        (String::from_utf8(json).unwrap(), each.join(", "))
    }

    #[test]
    fn questions_have_the_fields_of_the_schema() {
        let head = r#"{"client":"c1","transport":"websocket","protocol":"json","encoding":"#;
        let channels = ["a", "b\""];
        let connect = ProxyCall::Connect {
            data: Some(b"{}"),
            name: "js",
            version: "",
            channels: &channels,
        };
        for (call, is_binary, rest, fields) in [
            (
                connect,
                false,
                concat!(
                    r#""json","user":"42","data":{},"name":"js","#,
                    r#""channels":["a","b\""]}"#,
                ),
                "10 {}, 12 js, 14 a, 14 b\"",
            ),
            (
                ProxyCall::Refresh,
                false,
                r#""json","user":"42","meta":{"n":1}}"#,
                "11 {\"n\":1}",
            ),
            (
                ProxyCall::Rpc {
                    method: "m",
                    data: b"[1]",
                },
                true,
                r#""binary","user":"42","method":"m","b64data":"WzFd","meta":{"n":1}}"#,
                "11 m, 13 WzFd, 14 {\"n\":1}",
            ),
            (
                ProxyCall::Publish {
                    channel: "c",
                    data: b"no json",
                },
                false,
                r#""json","user":"42","channel":"c","data":"no json","meta":{"n":1}}"#,
                "11 c, 12 no json, 14 {\"n\":1}",
            ),
            (
                ProxyCall::Subscribe {
                    channel: "c",
                    token: "t",
                    data: None,
                },
                false,
                r#""json","user":"42","channel":"c","token":"t","meta":{"n":1}}"#,
                "11 c, 12 t, 13 {\"n\":1}",
            ),
            (
                ProxyCall::SubRefresh { channel: "c" },
                false,
                r#""json","user":"42","channel":"c","meta":{"n":1}}"#,
                "11 c, 12 {\"n\":1}",
            ),
        ] {
            let (json, message) = body(call, is_binary);
            assert_eq!(json, format!("{head}{rest}"));
            let encoding = if is_binary { "binary" } else { "json" };
            let from = format!("1 c1, 2 websocket, 3 json, 4 {encoding}, 10 42, {fields}");
            assert_eq!(message, from);
        }
    }

    #[test]
    fn answers_are_results_or_refusals() {
        let parse = |json: &str| ProxyAnswer::parse(json.as_bytes());
        let result = parse(concat!(
            r#"{"result":{"user":"7","data":{"a":1},"expired":true,"#,
            r#""tags":{"t":"1"},"new":[]},"x":1}"#,
        ));
        let result = result.unwrap().unwrap();
        assert_eq!((&*result.user, result.expired), ("7", true));
        let data = result.data.unwrap();
        assert_eq!(
            (&*data.bytes, data.kind),
            (&b"{\"a\":1}"[..], PayloadKind::Json)
        );
        assert_eq!(result.tags.as_deref(), Some("{\"t\":\"1\"}"));
        let binary = parse(r#"{"result":{"b64data":"AP8="}}"#).unwrap().unwrap();
        assert_eq!(binary.data.unwrap().kind, PayloadKind::Binary);
        for nothing in ["{}", "{\"result\":null}"] {
            assert_eq!(parse(nothing), Some(Ok(ProxyAnswer::default())));
        }
        let error = ProxyRefusal::error(1000, "no", true).unwrap();
        assert_eq!(
            parse(r#"{"error":{"code":1000,"message":"no","temporary":true},"result":{}}"#),
            Some(Err(error))
        );
        let end = ProxyRefusal::disconnect(4500, "out").unwrap();
        assert_eq!(
            parse(r#"{"disconnect":{"code":4500,"reason":"out"},"error":{"code":1000}}"#),
            Some(Err(end))
        );
        for wrong in [
            "",
            "[]",
            "{\"result\":[]}",
            r#"{"error":{"code":100}}"#,
            r#"{"error":{}}"#,
            r#"{"disconnect":{"code":3000}}"#,
            r#"{"disconnect":{"code":5000}}"#,
            r#"{"result":{"b64data":"!"}}"#,
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
