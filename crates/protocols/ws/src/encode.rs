//! Frames out, for both roles.
//!
//! Owns nothing: appends to the caller's buffer. Never: fragments (a message of ours is
//! one frame), draws mask keys, or refuses what it is given.

use crate::frame::{
    CLOSE_REASON_BYTES_MAX, CONTROL_BYTES_MAX, Control, HEADER_BYTES_MAX, Mask, RSV1,
};
use crate::{CloseFrame, Opcode, close_code_valid};

/// Mask of a frame, which tells the side that sends it (RFC 6455 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    Server,
    /// XORed by a client with a key that must be fresh and unpredictable for each frame (section
    /// 5.3).
    Client([u8; 4]),
}

/// Length of the header of a frame with `payload_bytes`: 2 to 14.
#[must_use]
pub const fn header_bytes(masking: Masking, payload_bytes: usize) -> usize {
    let length = match payload_bytes {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    };
    match masking {
        Masking::Server => length,
        Masking::Client(_) => length + 4,
    }
}

/// Appends a message in one frame. Text must be UTF-8: pass a `str`'s bytes.
pub fn encode_message(masking: Masking, opcode: Opcode, data: &[u8], out: &mut Vec<u8>) {
    encode_frame(masking, opcode as u8, data, out);
}

/// Appends the header of a message in one frame; the caller sends the payload after it.
///
/// A client's caller must mask that payload itself, so this is of use to servers.
pub fn encode_header(masking: Masking, opcode: Opcode, payload_bytes: usize, out: &mut Vec<u8>) {
    put_header(masking, opcode as u8, payload_bytes, out);
}

/// Appends a message of a server in one frame, whose payload is what `write` appends. Text must be
/// UTF-8.
pub fn encode_message_with(opcode: Opcode, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Most messages are of a length that this header fits; others are moved.
    const GUESS: usize = 4;
    let start = out.len();
    out.extend_from_slice(&[0; GUESS]);
    write(out);
    let payload_bytes = out.len() - start - GUESS;
    let (header, bytes) = header(Masking::Server, opcode as u8, payload_bytes);
    match bytes {
        ..GUESS => {
            out.copy_within(start + GUESS.., start + bytes);
            out.truncate(start + bytes + payload_bytes);
        }
        GUESS => {}
        _ => drop(out.splice(start..start, std::iter::repeat_n(0, bytes - GUESS))),
    }
    out[start..start + bytes].copy_from_slice(&header[..bytes]);
}

/// Appends a server's message in one frame whose payload is compressed already (RFC 7692
/// section 6).
pub(crate) fn encode_message_deflated(opcode: Opcode, deflated: &[u8], out: &mut Vec<u8>) {
    encode_frame(Masking::Server, RSV1 | opcode as u8, deflated, out);
}

/// Appends a ping. Only the first 125 bytes of `payload` travel (section 5.5).
pub fn encode_ping(masking: Masking, payload: &[u8], out: &mut Vec<u8>) {
    encode_control(masking, Control::Ping, payload, out);
}

/// Appends a pong, whose payload is that of the ping it answers (section 5.5.3).
///
/// Only the first 125 bytes of `payload` travel; a ping that a decoder reported has no more.
pub fn encode_pong(masking: Masking, payload: &[u8], out: &mut Vec<u8>) {
    encode_control(masking, Control::Pong, payload, out);
}

/// Appends a close frame, empty for `None`.
///
/// A reason longer than 123 bytes is cut at the end of a character. The code must be one
/// for which [`close_code_valid`] holds: it is the caller's own or one that a decoder reported.
pub fn encode_close(masking: Masking, frame: Option<CloseFrame<'_>>, out: &mut Vec<u8>) {
    let Some(CloseFrame { code, reason }) = frame else {
        return encode_control(masking, Control::Close, &[], out);
    };
    debug_assert!(close_code_valid(code), "{code} must not be sent");
    let reason_bytes = reason.floor_char_boundary(CLOSE_REASON_BYTES_MAX);
    let mut payload = [0; CONTROL_BYTES_MAX];
    let (code_part, reason_part) = payload.split_at_mut(2);
    code_part.copy_from_slice(&code.to_be_bytes());
    reason_part[..reason_bytes].copy_from_slice(&reason.as_bytes()[..reason_bytes]);
    encode_control(masking, Control::Close, &payload[..2 + reason_bytes], out);
}

/// Appends the answer to a close frame that came: the same code, without its reason (RFC 6455
/// section 5.5.1).
pub fn encode_close_answer(masking: Masking, came: Option<&CloseFrame<'_>>, out: &mut Vec<u8>) {
    let frame = came.map(|came| CloseFrame {
        code: came.code,
        reason: "",
    });
    encode_close(masking, frame, out);
}

fn encode_control(masking: Masking, control: Control, payload: &[u8], out: &mut Vec<u8>) {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    encode_frame(masking, control as u8, payload, out);
}

fn encode_frame(masking: Masking, opcode_bits: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(header_bytes(masking, payload.len()) + payload.len());
    put_header(masking, opcode_bits, payload.len(), out);
    let payload_start = out.len();
    out.extend_from_slice(payload);
    if let Masking::Client(key) = masking {
        Mask(key).apply(&mut out[payload_start..]);
    }
}

/// Assembles the header on the stack and appends it at once.
fn put_header(masking: Masking, opcode_bits: u8, payload_bytes: usize, out: &mut Vec<u8>) {
    let (header, bytes) = header(masking, opcode_bits, payload_bytes);
    out.extend_from_slice(&header[..bytes]);
}

fn header(
    masking: Masking,
    opcode_bits: u8,
    payload_bytes: usize,
) -> ([u8; HEADER_BYTES_MAX], usize) {
    let (mask_bit, key) = match masking {
        Masking::Server => (0, [0; 4]),
        Masking::Client(key) => (0x80, key),
    };
    let header_bytes = header_bytes(masking, payload_bytes);
    let mut header = [0; HEADER_BYTES_MAX];
    header[0] = 0x80 | opcode_bits;
    let length_end = if let Ok(length @ 0..=125) = u8::try_from(payload_bytes) {
        header[1] = mask_bit | length;
        2
    } else if let Ok(length) = u16::try_from(payload_bytes) {
        header[1] = mask_bit | 126;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        4
    } else {
        header[1] = mask_bit | 127;
        header[2..10].copy_from_slice(&(payload_bytes as u64).to_be_bytes());
        10
    };
    header[length_end..length_end + 4].copy_from_slice(&key);
    (header, header_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Masking = Masking::Client([0x37, 0xfa, 0x21, 0x3d]);

    #[track_caller]
    fn check(encode: impl Fn(&mut Vec<u8>), expected: &[u8]) {
        // What is there already stays.
        let mut out = b"before".to_vec();
        encode(&mut out);
        assert_eq!(out, [b"before", expected].concat());
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // Section 5.7.
        check(
            |out| encode_message(Masking::Server, Opcode::Text, b"Hello", out),
            b"\x81\x05Hello",
        );
        let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
        check(
            |out| encode_message(CLIENT, Opcode::Text, b"Hello", out),
            masked,
        );
        check(
            |out| encode_ping(Masking::Server, b"Hello", out),
            b"\x89\x05Hello",
        );
        let masked_pong = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
        check(|out| encode_pong(CLIENT, b"Hello", out), masked_pong);
        let header = |opcode, length| {
            move |out: &mut Vec<u8>| encode_header(Masking::Server, opcode, length, out)
        };
        check(header(Opcode::Binary, 256), b"\x82\x7e\x01\x00");
        check(
            header(Opcode::Binary, 65_536),
            b"\x82\x7f\0\0\0\0\0\x01\0\0",
        );
    }

    #[test]
    fn lengths_take_the_least_bytes() {
        for (payload_bytes, expected) in [
            (0, &b"\x81\x00"[..]),
            (125, b"\x81\x7d"),
            (126, b"\x81\x7e\x00\x7e"),
            (65_535, b"\x81\x7e\xff\xff"),
            (65_536, b"\x81\x7f\0\0\0\0\0\x01\0\0"),
        ] {
            check(
                |out| encode_header(Masking::Server, Opcode::Text, payload_bytes, out),
                expected,
            );
            assert_eq!(header_bytes(Masking::Server, payload_bytes), expected.len());
            assert_eq!(header_bytes(CLIENT, payload_bytes), expected.len() + 4);
            let mut masked = Vec::new();
            encode_header(CLIENT, Opcode::Text, payload_bytes, &mut masked);
            assert_eq!(masked[1], expected[1] | 0x80);
            assert_eq!(masked[2..expected.len()], expected[2..]);
            assert_eq!(masked[expected.len()..], [0x37, 0xfa, 0x21, 0x3d]);
        }
    }

    #[test]
    fn control_frames_never_exceed_their_bound() {
        let long = [b'x'; 200];
        let expected = [&b"\x89\x7d"[..], &[b'x'; 125]].concat();
        check(|out| encode_ping(Masking::Server, &long, out), &expected);

        check(|out| encode_close(Masking::Server, None, out), b"\x88\x00");
        fn close(reason: &str) -> impl Fn(&mut Vec<u8>) {
            move |out| {
                let frame = CloseFrame { code: 1001, reason };
                encode_close(Masking::Server, Some(frame), out);
            }
        }
        check(close(""), b"\x88\x02\x03\xe9");
        check(close("bye"), b"\x88\x05\x03\xe9bye");
        let full = "x".repeat(123);
        let expected = [b"\x88\x7d\x03\xe9", full.as_bytes()].concat();
        check(close(&full), &expected);
        check(close(&format!("{full}x")), &expected);
        // The character that would be cut is left out.
        let letters = "é".repeat(62);
        let expected = [b"\x88\x7c\x03\xe9", "é".repeat(61).as_bytes()].concat();
        check(close(&letters), &expected);
    }

    #[test]
    fn a_message_that_is_written_in_place_is_the_same() {
        for bytes in [0, 1, 125, 126, 4_000, 65_535, 65_536, 70_000] {
            let data: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            let mut expected = b"before".to_vec();
            encode_message(Masking::Server, Opcode::Binary, &data, &mut expected);
            let mut out = b"before".to_vec();
            encode_message_with(Opcode::Binary, &mut out, |out| out.extend_from_slice(&data));
            assert!(out == expected, "{bytes}");
        }
    }
}
