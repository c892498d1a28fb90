//! The wire forms of deliveries to Centrifugo's clients.

use throng_centrifuge::{ClientInfo, Codec, Push, encode_push};
use throng_session::encode::{chunk, line, sse_data, ws_binary, ws_text};
use throng_session::{Form, FormKind};
use throng_types::{Publication, PublicationKind};
use throng_ws::{Opcode, encode_deflated};

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

/// Appends a publication in a shared wire form.
pub(crate) fn encode(form: u8, publication: &Publication, out: &mut Vec<u8>) {
    let push = |is_bidirectional| {
        move |out: &mut Vec<u8>| match publication.told {
            PublicationKind::Data => {
                encode_push(&Push::Publication(publication), is_bidirectional, out)
            }
            PublicationKind::Joined | PublicationKind::Left => {
                encode_push(&words(publication), is_bidirectional, out)
            }
        }
    };
    if form == CENTRIFUGE.number {
        ws_text(out, push(true));
    } else if form == PROTOBUF.number {
        let push = words(publication);
        ws_binary(out, |out| Codec::Protobuf.push(&push, out));
    } else if form == UNI_WS.number {
        ws_text(out, push(false));
    } else if form == UNI_SSE.number {
        sse_data(out, push(false));
    } else if form == UNI_HTTP.number {
        line(out, push(false));
    } else if form == CENTRIFUGE_DEFLATED.number || form == UNI_WS_DEFLATED.number {
        let mut message = Vec::new();
        push(form == CENTRIFUGE_DEFLATED.number)(&mut message);
        encode_deflated(Opcode::Text, &message, out);
    } else if form == PROTOBUF_DEFLATED.number {
        let mut message = Vec::new();
        Codec::Protobuf.push(&words(publication), &mut message);
        encode_deflated(Opcode::Binary, &message, out);
    } else if form == EVENTS.number {
        sse_data(out, push(true));
    } else if form == LINES.number {
        line(out, push(true));
    } else {
        let push = words(publication);
        chunk(out, |out| Codec::Protobuf.push(&push, out));
    }
}
