//! Fields into bytes. Each function takes the field's number first.

/// Appends a number, seven bits to a byte, the lowest first.
pub(super) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn key(field: u32, wire_type: u8, out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | u64::from(wire_type), out);
}

/// A number, unless it is zero.
pub(super) fn number(field: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        key(field, 0, out);
        varint(number, out);
    }
}

/// A truth value, unless it is false.
pub(super) fn flag(field: u32, flag: bool, out: &mut Vec<u8>) {
    number(field, flag.into(), out);
}

/// Bytes or text, unless they are empty.
pub(super) fn bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        key(field, 2, out);
        varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

/// A message, also an empty one.
pub(super) fn message(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    key(field, 2, out);
    delimited(out, write);
}

/// What `write` appends, behind its length.
pub(super) fn delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Most messages are short: one byte is left for the length, and more is made if need be.
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    let (mut rest, mut prefix, mut more) = (length, [0; 10], 0);
    while rest >= 0x80 {
        prefix[more] = rest as u8 | 0x80;
        rest >>= 7;
        more += 1;
    }
    prefix[more] = rest as u8;
    if more > 0 {
        out.extend_from_slice(&prefix[..more]);
        out.copy_within(at + 1..at + 1 + length, at + 1 + more);
    }
    out[at..=at + more].copy_from_slice(&prefix[..=more]);
}
