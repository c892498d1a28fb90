//! Blocks of fields out: what the static table has, and literals that enter no table.

use throng_http1::field::{name_byte, value_byte};

use super::{fixed, huffman};

/// Says that no table is used (RFC 7541 section 6.3). It begins the first block of a connection,
/// so that a peer that allows no table hears that there is none.
pub(crate) const NO_TABLE: u8 = 0x20;

/// Appends `:status`, which begins the block of a response.
pub fn encode_status(status: u16, out: &mut Vec<u8>) {
    encode_indexed(
        ":status",
        itoa::Buffer::new().format(status).as_bytes(),
        out,
    );
}

/// Appends a field. Names become lower-case, and bytes that cannot stand there are replaced (RFC
/// 9113 section 8.2.1). Those that speak of a connection of HTTP/1.1 are left out (section 8.2.2).
pub fn encode_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    let clean = |byte: u8| char::from(name_byte(byte.to_ascii_lowercase()));
    let name: String = name.bytes().map(clean).collect();
    let value: Vec<u8> = value.iter().copied().map(value_byte).collect();
    if !is_of_connection(name.as_bytes()) {
        encode_indexed(
            if name.is_empty() { "_" } else { &name },
            value.trim_ascii(),
            out,
        );
    }
}

/// Tells whether a field, by its name in lower case, speaks of one connection of HTTP/1.1.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    matches!(
        name,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade"
    )
}

/// Appends a field as it is.
pub(crate) fn encode_indexed(name: &str, value: &[u8], out: &mut Vec<u8>) {
    let mut named = 0;
    for (at, (known, known_value)) in fixed::FIELDS.iter().enumerate() {
        if *known != name {
            continue;
        }
        if known_value.as_bytes() == value {
            return number(0x80, 7, at + 1, out);
        }
        if named == 0 {
            named = at + 1;
        }
    }
    number(0, 4, named, out);
    if named == 0 {
        string(name.as_bytes(), out);
    }
    string(value, out);
}

/// Appends a number whose first bits share a byte with `kind` (section 5.1).
fn number(kind: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let mask = 0xff_u8 >> (8 - bits);
    if value < usize::from(mask) {
        return out.push(kind | value as u8);
    }
    out.push(kind | mask);
    let mut left = value - usize::from(mask);
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// Appends a text in the shorter of its two forms (section 5.2).
fn string(text: &[u8], out: &mut Vec<u8>) {
    let encoded = huffman::encoded_bytes(text);
    if encoded < text.len() {
        number(0x80, 7, encoded, out);
        huffman::encode(text, out);
    } else {
        number(0, 7, text.len(), out);
        out.extend_from_slice(text);
    }
}
