//! The wire forms of deliveries to plain clients.

use throng_session::{Form, FormKind};
use throng_types::json::{append_base64, append_json, append_payload, append_str};
use throng_types::{Payload, PayloadKind, Publication};
use throng_ws::{Masking, Opcode, encode_deflated, encode_header};

use crate::cursor::write_entry;
use crate::framing::Framing;

/// `/ws`: the data alone, one frame.
pub(crate) const WS: Form = Form::new(0, FormKind::Shared);
/// `/sse` with one channel: an event whose id is the position in that channel.
pub(crate) const SSE: Form = Form::new(1, FormKind::Shared);
/// `/stream` with one channel: a line in a chunk.
pub(crate) const LINES: Form = Form::new(2, FormKind::Shared);
/// `/sse` with several channels: the id is the place in all of them, so each connection has its
/// own.
pub(crate) const SSE_MANY: Form = Form::new(3, FormKind::Personal);
/// `/stream` with several channels.
pub(crate) const LINES_MANY: Form = Form::new(4, FormKind::Personal);

/// Form of `/ws`, compressed.
pub(crate) const WS_DEFLATED: Form = Form::new(5, FormKind::Shared);
/// `/sse` with one channel, compressed.
pub(crate) const SSE_GZIP: Form = Form::new(6, FormKind::Shared);
/// `/stream` with one channel, compressed.
pub(crate) const LINES_GZIP: Form = Form::new(7, FormKind::Shared);

/// Forms of plain clients, by their numbers.
pub(crate) const ALL: &[Form] = &[
    WS,
    SSE,
    LINES,
    SSE_MANY,
    LINES_MANY,
    WS_DEFLATED,
    SSE_GZIP,
    LINES_GZIP,
];

impl Framing {
    /// The form of a stream's deliveries. With several channels each id has the place in all of
    /// them, so that nothing is shared, and nothing compressed.
    pub(crate) const fn form(self, has_several: bool) -> Form {
        match (self, has_several) {
            (Self::Sse, false) => SSE,
            (Self::SseGzip, false) => SSE_GZIP,
            (Self::Sse | Self::SseGzip, true) => SSE_MANY,
            (Self::Lines, false) => LINES,
            (Self::LinesGzip, false) => LINES_GZIP,
            (Self::Lines | Self::LinesGzip, true) => LINES_MANY,
        }
    }

    /// Appends a publication to a stream with one channel.
    pub(crate) fn publication(self, publication: &Publication, out: &mut Vec<u8>) {
        if self.is_lines() {
            return stream_line(publication, "", out);
        }
        let mut id = String::new();
        if let Some(position) = publication.position {
            write_entry(publication.channel.stable_hash(), position, &mut id);
        }
        sse_event(publication, &id, out);
    }
}

/// Appends a publication in a shared wire form.
pub(crate) fn encode(form: u8, publication: &Publication, out: &mut Vec<u8>) {
    if form == WS.number {
        let payload = &publication.payload;
        encode_header(Masking::Server, opcode(payload), payload.bytes.len(), out);
        out.extend_from_slice(&payload.bytes);
    } else if form == WS_DEFLATED.number {
        let payload = &publication.payload;
        encode_deflated(opcode(payload), &payload.bytes, out);
    } else {
        let framing = { Framing::ALL.iter() }.find(|framing| framing.form(false).number == form);
        let Some(framing) = framing else {
            return debug_assert!(false, "personal forms are encoded by their sessions");
        };
        framing.shared(out, |out| framing.publication(publication, out));
    }
}

const fn opcode(payload: &Payload) -> Opcode {
    match payload.kind {
        PayloadKind::Json | PayloadKind::Text => Opcode::Text,
        PayloadKind::Binary => Opcode::Binary,
    }
}

/// Appends one event with the publication's data; bytes that are not text as base64.
pub(crate) fn sse_event(publication: &Publication, id: &str, out: &mut Vec<u8>) {
    if !id.is_empty() {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    let payload = &publication.payload;
    if payload.kind == PayloadKind::Binary {
        let mut text = Vec::new();
        append_base64(&payload.bytes, &mut text);
        throng_sse::encode_data(&text, out);
    } else {
        throng_sse::encode_data(&payload.bytes, out);
    }
    out.extend_from_slice(throng_sse::EVENT_END);
}

/// Appends `{"channel":..,"data":..,"offset":..,"epoch":..,"id":..}` and a line end.
pub(crate) fn stream_line(publication: &Publication, id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"channel\":");
    append_str(publication.channel.as_str(), out);
    out.extend_from_slice(b",\"data\":");
    append_payload(&publication.payload, out);
    if let Some(position) = publication.position {
        let mut own_id = String::new();
        let id = if id.is_empty() {
            write_entry(publication.channel.stable_hash(), position, &mut own_id);
            &own_id
        } else {
            id
        };
        out.extend_from_slice(
            format!(
                ",\"offset\":{},\"epoch\":\"{}\",\"id\":\"{id}\"",
                position.offset, position.epoch
            )
            .as_bytes(),
        );
    }
    if let Some(tags) = &publication.tags {
        out.extend_from_slice(b",\"tags\":");
        append_json(tags.as_bytes(), out);
    }
    out.extend_from_slice(b"}\n");
}
