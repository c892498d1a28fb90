//! The wire forms of deliveries, and their encoding: once per publication and form.

use throng_centrifuge::{append_payload, append_text, encode_publication_push};
use throng_http1::{CHUNK_END, encode_chunk_head};
use throng_hub::Format;
use throng_types::{Payload, PayloadKind, Publication};
use throng_ws::{Masking, Opcode, encode_header};

use crate::cursor::write_entry;
use crate::grip::{self, GRIP_CHUNKS, GRIP_FRAMES, GRIP_RAW};

pub(crate) const fn format(number: u8) -> Format {
    match Format::new(number) {
        Some(format) => format,
        None => panic!("a form's number is below 16"),
    }
}

/// `/ws`: the data alone, one frame.
pub const PLAIN_WS: Format = format(0);
/// `/sse` with one channel: an event whose id is the place in that channel.
pub const SSE: Format = format(1);
/// `/stream` with one channel: a line in a chunk.
pub const STREAM: Format = format(2);
/// The Centrifugo protocol, bidirectional: a push in a frame.
pub const CENTRIFUGE: Format = format(3);
/// `/connection/uni_websocket`: a bare push in a frame.
pub const UNI_WS: Format = format(4);
/// `/connection/uni_sse`: a bare push in an event.
pub const UNI_SSE: Format = format(5);
/// `/connection/uni_http_stream`: a bare push, a line in a chunk.
pub const UNI_HTTP: Format = format(6);
/// `/sse` with several channels: the id is the place in all of them, so each connection has its
/// own.
pub const SSE_MANY: Format = format(12);
/// `/stream` with several channels.
pub const STREAM_MANY: Format = format(13);

/// Appends a publication in a shared wire form.
pub fn encode(format: Format, publication: &Publication, out: &mut Vec<u8>) {
    match format {
        PLAIN_WS => ws_data(&publication.payload, out),
        SSE => {
            let mut id = String::new();
            if let Some(position) = publication.position {
                write_entry(publication.channel.stable_hash(), position, &mut id);
            }
            sse_event(publication, &id, out);
        }
        STREAM => chunk(out, |line| stream_line(publication, "", line)),
        CENTRIFUGE => ws_text(out, |text| encode_publication_push(publication, true, text)),
        UNI_WS => ws_text(out, |text| {
            encode_publication_push(publication, false, text)
        }),
        UNI_SSE => sse_data(out, |data| {
            encode_publication_push(publication, false, data)
        }),
        UNI_HTTP => chunk(out, |line| {
            encode_publication_push(publication, false, line);
            line.push(b'\n');
        }),
        GRIP_CHUNKS | GRIP_RAW | GRIP_FRAMES => grip::encode(format, publication, out),
        _ => debug_assert!(false, "personal forms are encoded by their sessions"),
    }
}

/// Appends a text frame whose payload is written by `write`.
pub(crate) fn ws_text(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut text = Vec::new();
    write(&mut text);
    encode_header(Masking::Server, Opcode::Text, text.len(), out);
    out.extend_from_slice(&text);
}

fn ws_data(payload: &Payload, out: &mut Vec<u8>) {
    let opcode = match payload.kind {
        PayloadKind::Json | PayloadKind::Text => Opcode::Text,
        PayloadKind::Binary => Opcode::Binary,
    };
    encode_header(Masking::Server, opcode, payload.bytes.len(), out);
    out.extend_from_slice(&payload.bytes);
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
        // A JSON string without what would need escaping: base64 between quotes.
        let mut quoted = Vec::new();
        append_payload(payload, &mut quoted);
        throng_sse::encode_data(quoted.trim_ascii().trim_quotes(), out);
    } else {
        throng_sse::encode_data(&payload.bytes, out);
    }
    out.extend_from_slice(throng_sse::EVENT_END);
}

trait TrimQuotes {
    fn trim_quotes(&self) -> &Self;
}

impl TrimQuotes for [u8] {
    fn trim_quotes(&self) -> &Self {
        let inner = self.strip_prefix(b"\"").unwrap_or(self);
        inner.strip_suffix(b"\"").unwrap_or(inner)
    }
}

/// Appends one event whose data, a single line, is written by `write`.
pub(crate) fn sse_data(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"data: ");
    write(out);
    out.extend_from_slice(b"\n\n");
}

/// Appends one chunk whose bytes are written by `write`.
pub(crate) fn chunk(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut data = Vec::new();
    write(&mut data);
    encode_chunk_head(data.len() as u64, out);
    out.extend_from_slice(&data);
    out.extend_from_slice(CHUNK_END);
}

/// Appends `{"channel":..,"data":..,"offset":..,"epoch":..,"id":..}` and a line end.
pub(crate) fn stream_line(publication: &Publication, id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"channel\":");
    append_text(publication.channel.as_str(), out);
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
        out.extend_from_slice(tags.as_bytes());
    }
    out.extend_from_slice(b"}\n");
}
