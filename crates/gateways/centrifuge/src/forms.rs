//! How each client is connected, and the wire forms of deliveries.
//!
//! A client's transport and codec are one byte of its session ([`Mode`]), from which everything
//! else about them follows. Subscriptions that do not get publications as they were published, but
//! as differences or only some of them, have forms of their own.

use throng_centrifuge::{ClientInfo, Codec, Push, encode_push};
use throng_http1::LAST_CHUNK;
use throng_session::encode::{chunk, line, sse_data, ws_binary, ws_text};
use throng_session::http::{GrpcCode, grpc_end, grpc_message};
use throng_session::{Form, FormKind, Patch, Transport};
use throng_types::{PayloadKind, Publication, PublicationKind, Save};
use throng_ws::{Opcode, encode_deflated};

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
    /// `/connection/uni_sse`: an event each; the client only listens.
    UniEvents,
    /// `/connection/uni_http_stream`: a line each; the client only listens.
    UniLines,
    /// `CentrifugoUniStream/Consume` of gRPC: a message each; the client only listens.
    UniMessages,
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
            Self::Json
            | Self::Unidirectional
            | Self::UniEvents
            | Self::UniLines
            | Self::UniMessages => 0,
            Self::Protobuf => 1,
            Self::Events => 2,
            Self::Lines => 3,
            Self::Messages => 4,
        }
    }

    /// The form of the protocol.
    pub(crate) const fn codec(self) -> Codec {
        match self {
            Self::Protobuf | Self::Messages | Self::UniMessages => Codec::Protobuf,
            _ => Codec::Json,
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
            Self::UniEvents => UNI_SSE,
            Self::UniLines => UNI_HTTP,
            Self::UniMessages => UNI_GRPC,
        }
    }

    /// Whether the client may send commands.
    pub(crate) const fn is_bidirectional(self) -> bool {
        !matches!(
            self,
            Self::Unidirectional | Self::UniEvents | Self::UniLines | Self::UniMessages
        )
    }

    /// Whether its commands come by requests of their own.
    pub(crate) const fn is_emulated(self) -> bool {
        matches!(self, Self::Events | Self::Lines | Self::Messages)
    }

    /// Whether the client has a stream, which carries nothing in its direction, and no WebSocket.
    pub(crate) const fn is_stream(self) -> bool {
        !matches!(self.transport(), Transport::WebSocket)
    }

    /// Whether its stream is sent in chunks.
    pub(crate) const fn is_chunked(self) -> bool {
        matches!(self.transport(), Transport::Stream)
    }

    /// Kind of connection, for gauges.
    pub(crate) const fn transport(self) -> Transport {
        match self {
            Self::Json | Self::Protobuf | Self::Unidirectional => Transport::WebSocket,
            Self::Events | Self::UniEvents => Transport::Sse,
            Self::Lines | Self::Messages | Self::UniLines | Self::UniMessages => Transport::Stream,
        }
    }

    /// Appends one frame of the stream; `write` appends its contents.
    pub(crate) fn frame(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Json | Self::Unidirectional => ws_text(out, write),
            Self::Protobuf => ws_binary(out, write),
            Self::Events | Self::UniEvents => sse_data(out, write),
            Self::Lines | Self::UniLines => line(out, write),
            Self::Messages => chunk(out, write),
            Self::UniMessages => grpc_message(out, write),
        }
    }

    /// Appends the server's ping in a frame.
    pub(crate) fn ping(self, out: &mut Vec<u8>) {
        self.frame(out, |out| match self {
            // An empty message.
            Self::UniMessages => {}
            _ => self.codec().ping(out),
        });
    }

    /// Appends the end of the stream, if it is sent in chunks.
    pub(crate) fn end(self, out: &mut Vec<u8>) {
        match self {
            Self::UniMessages => grpc_end(GrpcCode::Ok, out),
            _ if self.is_chunked() => out.extend_from_slice(LAST_CHUNK),
            _ => {}
        }
    }
}

/// The bidirectional protocol in JSON: a push in a frame.
pub(crate) const CENTRIFUGE: Form = Form::new(0, FormKind::Shared);
/// `/connection/uni_websocket`: a bare push in a frame.
pub(crate) const UNI_WS: Form = Form::new(1, FormKind::Shared);
/// `/connection/uni_sse`: a bare push in an event.
pub(crate) const UNI_SSE: Form = Form::new(2, FormKind::Shared);
/// `/connection/uni_http_stream`: a bare push, a line in a chunk.
pub(crate) const UNI_HTTP: Form = Form::new(3, FormKind::Shared);
/// The bidirectional protocol in Protobuf: a push in a frame.
pub(crate) const PROTOBUF: Form = Form::new(4, FormKind::Shared);

/// `/connection/sse`: a push in an event.
pub(crate) const EVENTS: Form = Form::new(5, FormKind::Shared);
/// `/connection/http_stream` in JSON: a push, a line in a chunk.
pub(crate) const LINES: Form = Form::new(6, FormKind::Shared);
/// `/connection/http_stream` in Protobuf: a push in a chunk.
pub(crate) const MESSAGES: Form = Form::new(7, FormKind::Shared);

/// The bidirectional protocol in JSON, compressed.
pub(crate) const CENTRIFUGE_DEFLATED: Form = Form::new(8, FormKind::Shared);
/// Form of `/connection/uni_websocket`, compressed.
pub(crate) const UNI_WS_DEFLATED: Form = Form::new(9, FormKind::Shared);
/// The bidirectional protocol in Protobuf, compressed.
pub(crate) const PROTOBUF_DEFLATED: Form = Form::new(10, FormKind::Shared);

/// The compressed form of a WebSocket's deliveries.
pub(crate) fn deflated(form: Form) -> Form {
    match form {
        CENTRIFUGE => CENTRIFUGE_DEFLATED,
        UNI_WS => UNI_WS_DEFLATED,
        PROTOBUF => PROTOBUF_DEFLATED,
        // Streams have no WebSocket that could agree to it.
        _ => form,
    }
}

/// A publication, a coming or a going.
pub(crate) fn words(publication: &Publication) -> Push<'_> {
    let channel = publication.channel.as_str();
    let info = || { publication.publisher.as_deref() }.map_or_else(ClientInfo::default, Into::into);
    match publication.told {
        PublicationKind::Data => Push::Publication(publication),
        PublicationKind::Joined => Push::Join {
            channel,
            info: info(),
        },
        PublicationKind::Left => Push::Leave {
            channel,
            info: info(),
        },
    }
}

fn encode_plain(form: Form, publication: &Publication, out: &mut Vec<u8>) {
    let push = words(publication);
    let write = |out: &mut Vec<u8>| match form {
        PROTOBUF | PROTOBUF_DEFLATED | MESSAGES => Codec::Protobuf.push(&push, out),
        UNI_WS | UNI_WS_DEFLATED | UNI_SSE | UNI_HTTP => encode_push(&push, false, out),
        UNI_GRPC => Codec::Protobuf.bare_push(&push, out),
        _ => encode_push(&push, true, out),
    };
    match form {
        PROTOBUF => ws_binary(out, write),
        UNI_SSE | EVENTS => sse_data(out, write),
        UNI_HTTP | LINES => line(out, write),
        MESSAGES => chunk(out, write),
        UNI_GRPC => grpc_message(out, write),
        CENTRIFUGE_DEFLATED | UNI_WS_DEFLATED | PROTOBUF_DEFLATED => {
            let opcode = match form {
                PROTOBUF_DEFLATED => Opcode::Binary,
                _ => Opcode::Text,
            };
            let mut message = Vec::new();
            write(&mut message);
            encode_deflated(opcode, &message, out);
        }
        _ => ws_text(out, write),
    }
}

/// Any of them, for a subscription with a filter: the session looks at each publication.
pub(crate) const FILTERED: Form = Form::new(PLAIN + 5, FormKind::Personal);

/// The unidirectional stream of gRPC: a bare push in a message.
pub(crate) const UNI_GRPC: Form = Form::new(PLAIN + 6, FormKind::Shared);

/// Number of forms without differences, but for later ones.
const PLAIN: u8 = 11;

/// Form in which publications are sent as differences, for subscriptions that have agreed to it.
pub(crate) const fn with_deltas(mode: Mode) -> Form {
    Form::new(PLAIN + mode.number(), FormKind::Delta)
}

/// The client of a form with differences.
fn mode_of(form: u8) -> Option<Mode> {
    let number = form.checked_sub(PLAIN)?;
    Mode::WITH_COMMANDS.get(usize::from(number)).copied()
}

/// Forms of the gateway, by their numbers.
pub(crate) const ALL: &[Form] = &[
    CENTRIFUGE,
    UNI_WS,
    UNI_SSE,
    UNI_HTTP,
    PROTOBUF,
    EVENTS,
    LINES,
    MESSAGES,
    CENTRIFUGE_DEFLATED,
    UNI_WS_DEFLATED,
    PROTOBUF_DEFLATED,
    with_deltas(Mode::Json),
    with_deltas(Mode::Protobuf),
    with_deltas(Mode::Events),
    with_deltas(Mode::Lines),
    with_deltas(Mode::Messages),
    FILTERED,
    UNI_GRPC,
];

/// Appends a publication in a shared wire form.
pub(crate) fn encode(
    form: u8,
    publication: &Publication,
    patch: Option<Patch<'_>>,
    out: &mut Vec<u8>,
) {
    let Some(mode) = mode_of(form) else {
        let form = ALL.get(usize::from(form)).copied().unwrap_or(CENTRIFUGE);
        return encode_plain(form, publication, out);
    };
    if publication.told != PublicationKind::Data {
        return mode.frame(out, |out| mode.codec().push(&words(publication), out));
    }
    // In JSON, data that is no JSON is sent as a JSON string, and the patch was not computed for
    // that.
    let is_readable = |patch: &Patch<'_>| {
        let kinds = [patch.base.kind, publication.payload.kind];
        mode.codec() == Codec::Protobuf || kinds == [PayloadKind::Json; 2]
    };
    let patch = patch.filter(is_readable).map(|patch| patch.delta);
    let push = Push::Delta { publication, patch };
    mode.frame(out, |out| mode.codec().push(&push, out));
}
