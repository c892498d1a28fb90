//! How a client comes in, as far as it is kept while backends are asked about the client.

use throng_session::Incoming;
use throng_ws::handshake::{Accept, Protocols};

use crate::framing::Framing;

/// Kind of session that a request asks for, once its client is let in.
pub(crate) enum Way {
    /// `/ws`, with the handshake's answer.
    Socket(Accept<'static>),
    /// Stream of `/sse` or `/stream`.
    Stream {
        framing: Framing,
        /// The client takes gzip.
        takes_gzip: bool,
    },
}

impl Way {
    /// A WebSocket without a subprotocol.
    pub(crate) fn socket(accept: &Accept<'_>) -> Self {
        Self::Socket(Accept {
            key: accept.key,
            protocols: Protocols::default(),
            deflate: accept.deflate,
        })
    }

    pub(crate) fn stream(framing: Framing, incoming: &Incoming<'_, '_>) -> Self {
        Self::Stream {
            framing,
            takes_gzip: incoming.request.headers().accepts_coding("gzip"),
        }
    }

    /// Its name for backends.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Socket(_) => "plain_websocket",
            Self::Stream { framing, .. } if framing.is_lines() => "plain_stream",
            Self::Stream { .. } => "plain_sse",
        }
    }
}
