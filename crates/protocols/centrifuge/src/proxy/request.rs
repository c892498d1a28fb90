//! The bodies of requests to backends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Codec;
use crate::json::{Object, append_payload, payload_of};

/// What a backend may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// Who a client is that brings no token.
    Connect,
    /// Whether a connection goes on that has expired.
    Refresh,
    /// Whether a client may subscribe.
    Subscribe,
    /// Whether a client may publish, and what.
    Publish,
    /// Whether a subscription goes on that has expired.
    SubRefresh,
    /// The client's own question.
    Rpc,
    /// Word that a client wants a channel's newest publication, and there is none.
    CacheEmpty,
}

impl ProxyKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Connect,
        Self::Refresh,
        Self::Subscribe,
        Self::Publish,
        Self::SubRefresh,
        Self::Rpc,
        Self::CacheEmpty,
    ];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Refresh => "refresh",
            Self::Subscribe => "subscribe",
            Self::Publish => "publish",
            Self::SubRefresh => "sub_refresh",
            Self::Rpc => "rpc",
            Self::CacheEmpty => "cache_empty",
        }
    }
}

/// What a backend is asked.
#[derive(Clone, Copy, Debug)]
pub enum ProxyCall<'a> {
    /// See [`ProxyKind::Connect`].
    Connect {
        /// The application's own data.
        data: Option<&'a [u8]>,
        /// The client's name.
        name: &'a str,
        /// Its version.
        version: &'a str,
        /// Server-side subscriptions that the client wants.
        channels: &'a [&'a str],
    },
    /// See [`ProxyKind::Refresh`].
    Refresh,
    /// See [`ProxyKind::Subscribe`].
    Subscribe {
        /// The channel.
        channel: &'a str,
        /// What the client brought as a token.
        token: &'a str,
        /// The application's own data.
        data: Option<&'a [u8]>,
    },
    /// See [`ProxyKind::Publish`].
    Publish {
        /// The channel.
        channel: &'a str,
        /// What the client wants to publish.
        data: &'a [u8],
    },
    /// See [`ProxyKind::SubRefresh`].
    SubRefresh {
        /// The channel.
        channel: &'a str,
    },
    /// See [`ProxyKind::Rpc`].
    Rpc {
        /// The method that the client named.
        method: &'a str,
        /// The application's own data.
        data: &'a [u8],
    },
}

impl ProxyCall<'_> {
    /// Which kind it is.
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
pub fn encode_cache_empty(channel: &str, out: &mut Vec<u8>) {
    let mut body = Object::open(out);
    body.text("channel", channel);
    body.close();
}

/// A question, and on whose behalf it is asked.
#[derive(Clone, Copy, Debug)]
pub struct ProxyRequest<'a> {
    /// The connection's public id.
    pub client: &'a str,
    /// How the client is connected, such as `websocket`.
    pub transport: &'static str,
    /// The form of the protocol that it speaks.
    pub protocol: Codec,
    /// The user; nothing before the connection has one.
    pub user: Option<&'a str>,
    /// JSON that only backends see.
    pub meta: Option<&'a str>,
    /// Data travel in base64.
    pub is_binary: bool,
    /// The question.
    pub call: ProxyCall<'a>,
}

impl ProxyRequest<'_> {
    /// Appends the body, a JSON object.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Object::open(out);
        body.text("client", self.client);
        body.text("transport", self.transport);
        body.text(
            "protocol",
            match self.protocol {
                Codec::Json => "json",
                Codec::Protobuf => "protobuf",
            },
        );
        body.text("encoding", if self.is_binary { "binary" } else { "json" });
        if let Some(user) = self.user {
            body.text("user", user);
        }
        match self.call {
            ProxyCall::Connect {
                data,
                name,
                version,
                channels,
            } => {
                self.data(data, &mut body);
                body.text_if_any("name", name);
                body.text_if_any("version", version);
                if !channels.is_empty() {
                    body.texts("channels", channels);
                }
            }
            ProxyCall::Refresh => {}
            ProxyCall::Subscribe {
                channel,
                token,
                data,
            } => {
                body.text("channel", channel);
                body.text_if_any("token", token);
                self.data(data, &mut body);
            }
            ProxyCall::Publish { channel, data } => {
                body.text("channel", channel);
                self.data(Some(data), &mut body);
            }
            ProxyCall::SubRefresh { channel } => body.text("channel", channel),
            ProxyCall::Rpc { method, data } => {
                body.text("method", method);
                self.data(Some(data), &mut body);
            }
        }
        body.json_if_any("meta", self.meta);
        body.close();
    }

    /// Data that are not JSON go as a JSON text, unless they travel in base64.
    fn data(&self, data: Option<&[u8]>, body: &mut Object<'_>) {
        let Some(data) = data.filter(|data| !data.is_empty()) else {
            return;
        };
        if self.is_binary {
            body.text("b64data", &STANDARD.encode(data));
        } else {
            append_payload(&payload_of(data), body.value("data"));
        }
    }
}
