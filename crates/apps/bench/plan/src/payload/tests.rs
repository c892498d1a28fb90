use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;

/// Appends TCPKali's marker for a wall-clock time in µs.
fn encode_tcpkali(unix_us: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(TCPKALI_MAGIC);
    for shift in (0..16).rev() {
        out.push(HEX[(unix_us >> (shift * 4)) as usize & 15]);
    }
    out.push(b'.');
}

fn message(sequence: u64) -> Message {
    Message {
        publisher: 3,
        channel: 999,
        sequence,
        due_us: 1_234_567_890,
    }
}

fn encoded(message: Message, size_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(size_bytes, &mut out).unwrap();
    out
}

fn all_in(frame: &[u8]) -> Vec<ScanMatch> {
    let mut found = Vec::new();
    Scanner::new(true).scan_frame(frame, |one| found.push(one));
    found
}

/// Feeds `wire` in two parts cut at every place, as a connection would.
#[track_caller]
fn check_splits(wire: &[u8], expected: usize) {
    let scanner = Scanner::new(true);
    for cut in 0..=wire.len() {
        let mut count = 0;
        let (head, tail) = wire.split_at(cut);
        let keep = scanner.scan_stream(head, |_| count += 1);
        assert!(keep <= CARRY_BYTES_MAX);
        let mut next = head[head.len() - keep..].to_vec();
        next.extend_from_slice(tail);
        scanner.scan_stream(&next, |_| count += 1);
        assert_eq!(count, expected, "cut at {cut}");
    }
}

#[test]
fn a_message_has_the_asked_size_and_only_plain_characters() {
    for size in [MESSAGE_BYTES_MIN, MESSAGE_BYTES_MIN + 1, 512, 70_000] {
        let bytes = encoded(message(1), size);
        assert_eq!(bytes.len(), size);
        assert!(
            bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte))
        );
    }
}

#[test]
fn sizes_and_fields_out_of_bounds_are_refused() {
    let mut out = Vec::new();
    for (size, error) in [
        (0, PayloadError::TooShort(0)),
        (
            MESSAGE_BYTES_MIN - 1,
            PayloadError::TooShort(MESSAGE_BYTES_MIN - 1),
        ),
        (
            MESSAGE_BYTES_MAX + 1,
            PayloadError::TooLong(MESSAGE_BYTES_MAX + 1),
        ),
    ] {
        assert_eq!(message(1).encode(size, &mut out), Err(error));
    }
    assert_eq!(
        message(1 << 48).encode(512, &mut out),
        Err(PayloadError::FieldOverflow)
    );
    assert!(out.is_empty());
}

#[test]
fn it_is_found_in_every_wrapping() {
    let text = String::from_utf8(encoded(message(42), 128)).unwrap();
    for frame in [
        text.clone(),
        format!("data: {text}\n\n"),
        serde_json::json!({"push": {"channel": "a", "pub": {"data": text}}}).to_string(),
        serde_json::json!({"nested": serde_json::json!({"d": text}).to_string()}).to_string(),
        format!("TB1-TB1-{text}"),
        format!("TB1-{}{text}", "0".repeat(80)),
    ] {
        let found = all_in(frame.as_bytes());
        assert_eq!(found.len(), 1, "{frame}");
        assert!(matches!(
            found[0],
            ScanMatch::Message { message: m, length: 128, .. } if m == message(42)
        ));
        assert!(found[0].is_whole_in(frame.as_bytes()));
    }
}

#[test]
fn a_truncated_or_altered_body_is_not_whole() {
    let mut bytes = encoded(message(1), 100);
    let found = all_in(&bytes)[0];
    assert!(found.is_whole_in(&bytes));
    assert!(!found.is_whole_in(&bytes[..99]));
    bytes[99] = b'x';
    assert!(!found.is_whole_in(&bytes));
}

#[test]
fn an_altered_field_is_not_a_message() {
    let bytes = encoded(message(1), MESSAGE_BYTES_MIN);
    for at in 0..bytes.len() - 1 {
        let mut altered = bytes.clone();
        altered[at] = if altered[at] == b'0' { b'1' } else { b'0' };
        assert!(all_in(&altered).is_empty(), "altered at {at}");
    }
}

#[test]
fn streams_may_be_cut_anywhere() {
    let mut wire = b"event: x\ndata: ".to_vec();
    wire.extend(encoded(message(1), 80));
    wire.extend_from_slice(b"\n\nT TB TB1 TB1-TCPKali");
    encode_tcpkali(1_600_000_000_000_000, &mut wire);
    wire.extend(encoded(message(2), MESSAGE_BYTES_MIN));
    check_splits(&wire, 3);
    check_splits(b"nothing to see TCPKaliMsgTS-00 TB1-00", 0);
}

#[test]
fn tcpkali_markers_are_read_only_when_asked() {
    let mut wire = Vec::new();
    encode_tcpkali(0x0005_b2d0_1234_abcd, &mut wire);
    assert_eq!(wire, b"TCPKaliMsgTS-0005b2d01234abcd.");
    assert_eq!(
        all_in(&wire),
        [ScanMatch::Tcpkali {
            unix_us: 0x0005_b2d0_1234_abcd
        }]
    );
    let mut count = 0;
    Scanner::new(false).scan_frame(&wire, |_| count += 1);
    assert_eq!(count, 0);
}

proptest! {
    #[test]
    fn every_message_comes_back(
        publisher: u32,
        channel: u32,
        sequence in 0_u64..1 << 48, due_us in 0_u64..1 << 52, extra in 0_usize..2000,
    ) {
        let message = Message { publisher, channel, sequence, due_us };
        let bytes = encoded(message, MESSAGE_BYTES_MIN + extra);
        let found = all_in(&bytes);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0], ScanMatch::Message { message, start: 0, length: bytes.len() });
    }

    #[test]
    fn any_bytes_are_survived(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'T'), Just(b'B'), Just(b'1'), Just(b'-'), any::<u8>()], 0..300
        ),
    ) {
        let keep = Scanner::new(true).scan_stream(&bytes, |_| ());
        prop_assert!(keep <= CARRY_BYTES_MAX && keep <= bytes.len());
    }
}
