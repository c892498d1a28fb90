//! Small pieces of wire forms that several gateways write.

use throng_http1::{CHUNK_END, encode_chunk_head};
use throng_ws::{Opcode, encode_message_with};

/// Appends a text frame whose payload is written by `write`.
pub fn ws_text(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_message_with(Opcode::Text, out, write);
}

/// Appends a binary frame whose payload is written by `write`.
pub fn ws_binary(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_message_with(Opcode::Binary, out, write);
}

/// Appends one event whose data, a single line, is written by `write`.
pub fn sse_data(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"data: ");
    write(out);
    out.extend_from_slice(b"\n\n");
}

/// Appends one chunk whose bytes are written by `write`.
pub fn chunk(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let data_bytes = out.len() - start;
    // Its length is known now, and stands before it.
    encode_chunk_head(data_bytes as u64, out);
    out[start..].rotate_left(data_bytes);
    out.extend_from_slice(CHUNK_END);
}

/// Appends one line in a chunk.
pub fn line(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    chunk(out, |line| {
        write(line);
        line.push(b'\n');
    });
}
