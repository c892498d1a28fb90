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
