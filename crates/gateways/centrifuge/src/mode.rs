//! How one client is connected and which form of the protocol it speaks there.
//!
//! One byte of the session, from which everything else about its transport follows.

use throng_centrifuge::Codec;
use throng_session::encode::{chunk, line, sse_data, ws_binary, ws_text};
use throng_session::{Form, Transport};
use throng_types::Save;

use crate::forms::{CENTRIFUGE, EVENTS, LINES, MESSAGES, PROTOBUF, UNI_WS};

/// Transport and codec of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Mode {
    /// JSON on `/connection/websocket`, both ways.
    Json,
    /// Protobuf on `/connection/websocket`, both ways.
    Protobuf,
    /// `/connection/uni_websocket`: after the first message the client only listens.
    Unidirectional,
    /// `/connection/sse`: an event each; commands come by `/emulation`.
    Events,
    /// `/connection/http_stream` in JSON: a line each; commands come by `/emulation`.
    Lines,
    /// `/connection/http_stream` in Protobuf: each message behind its length; commands come by
    /// `/emulation`.
    Messages,
}

impl Mode {
    /// The modes in which a client may ask for something, by [`Mode::number`].
    pub(crate) const WITH_COMMANDS: [Self; 5] = [
        Self::Json,
        Self::Protobuf,
        Self::Events,
        Self::Lines,
        Self::Messages,
    ];

    /// Its place among [`Mode::WITH_COMMANDS`]; a client without commands has none of its own.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Json | Self::Unidirectional => 0,
            Self::Protobuf => 1,
            Self::Events => 2,
            Self::Lines => 3,
            Self::Messages => 4,
        }
    }

    /// The form of the protocol.
    pub(crate) const fn codec(self) -> Codec {
        match self {
            Self::Json | Self::Unidirectional | Self::Events | Self::Lines => Codec::Json,
            Self::Protobuf | Self::Messages => Codec::Protobuf,
        }
    }

    /// The wire form of deliveries.
    pub(crate) const fn form(self) -> Form {
        match self {
            Self::Json => CENTRIFUGE,
            Self::Protobuf => PROTOBUF,
            Self::Unidirectional => UNI_WS,
            Self::Events => EVENTS,
            Self::Lines => LINES,
            Self::Messages => MESSAGES,
        }
    }

    /// Whether the client may send commands.
    pub(crate) const fn is_bidirectional(self) -> bool {
        !matches!(self, Self::Unidirectional)
    }

    /// Whether its commands come by requests of their own.
    pub(crate) const fn is_emulated(self) -> bool {
        matches!(self, Self::Events | Self::Lines | Self::Messages)
    }

    /// Whether its stream is sent in chunks.
    pub(crate) const fn is_chunked(self) -> bool {
        matches!(self, Self::Lines | Self::Messages)
    }

    /// Kind of connection, for gauges.
    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Json | Self::Protobuf | Self::Unidirectional => Transport::WebSocket,
            Self::Events => Transport::Sse,
            Self::Lines | Self::Messages => Transport::Stream,
        }
    }

    /// Appends one frame of the stream; `write` appends its contents.
    pub(crate) fn frame(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Json | Self::Unidirectional => ws_text(out, write),
            Self::Protobuf => ws_binary(out, write),
            Self::Events => sse_data(out, write),
            Self::Lines => line(out, write),
            Self::Messages => chunk(out, write),
        }
    }
}
