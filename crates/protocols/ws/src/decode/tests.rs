mod round_trip;

use throng_dialogue::unescaped;
use throng_types::{cases, check_saved};

use crate::decode::{GROWTH_BYTES_MIN, *};

const LIMITS: WsLimits = WsLimits::new(100_000);
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

impl From<WsEvent<'_>> for Seen {
    fn from(event: WsEvent<'_>) -> Self {
        match event {
            WsEvent::Message {
                opcode: Opcode::Text,
                data,
            } => Self::Text(String::from_utf8(data.to_vec()).expect("text is UTF-8")),
            WsEvent::Message {
                opcode: Opcode::Binary,
                data,
            } => Self::Binary(data.to_vec()),
            WsEvent::Ping(data) => Self::Ping(data.to_vec()),
            WsEvent::Pong(data) => Self::Pong(data.to_vec()),
            WsEvent::Close(frame) => {
                Self::Close(frame.map(|frame| (frame.code, frame.reason.to_owned())))
            }
        }
    }
}

fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

/// A frame as a peer of `role` sends it; shares no code with the encoder.
fn frame(role: WsRole, first: u8, payload: &[u8]) -> Vec<u8> {
    let masked = role == WsRole::Server;
    let mask_bit = if masked { 0x80 } else { 0 };
    let length = payload.len();
    let mut wire = vec![first];
    if length < 126 {
        wire.push(mask_bit | length as u8);
    } else if length < 65_536 {
        wire.push(mask_bit | 126);
        wire.extend((length as u16).to_be_bytes());
    } else {
        wire.push(mask_bit | 127);
        wire.extend((length as u64).to_be_bytes());
    }
    if masked {
        wire.extend(KEY);
        wire.extend(payload.iter().zip(KEY.iter().cycle()).map(|(p, k)| p ^ k));
    } else {
        wire.extend(payload);
    }
    wire
}

fn frames(role: WsRole, list: &[(u8, &[u8])]) -> Vec<u8> {
    list.iter()
        .flat_map(|(first, payload)| frame(role, *first, payload))
        .collect()
}

/// Feeds `parts` and gives what was reported; holds the bound on memory after each part.
fn feed_parts<'w>(
    role: WsRole,
    limits: &WsLimits,
    parts: impl IntoIterator<Item = &'w [u8]>,
) -> (Vec<Seen>, Option<WsError>) {
    let mut decoder = WsDecoder::new(role);
    let mut seen = Vec::new();
    let mut fed_bytes = 0;
    for part in parts {
        fed_bytes += part.len();
        let result = decoder.feed(&mut part.to_vec(), limits, |event| {
            seen.push(event.into());
            ControlFlow::Continue(())
        });
        assert!(
            decoder.held_bytes() <= size_of::<Progress>() + GROWTH_BYTES_MIN.max(2 * fed_bytes),
            "{decoder:?} after {fed_bytes} bytes"
        );
        match result {
            Ok(taken) => assert_eq!(taken, part.len()),
            Err(fault) => {
                assert_eq!(decoder.held_bytes(), 0, "a failed decoder holds nothing");
                let again = decoder.feed(&mut [0x81], limits, |_| unreachable!("it has failed"));
                assert_eq!(again, Err(fault), "a fault is for good");
                return (seen, Some(fault));
            }
        }
    }
    assert_eq!(
        decoder.held_bytes(),
        0,
        "nothing is open, so nothing is held"
    );
    (seen, None)
}

/// Feeds `wire` once and feeds the rest again after each event.
fn feed_breaking(role: WsRole, limits: &WsLimits, wire: &[u8]) -> (Vec<Seen>, Option<WsError>) {
    let mut decoder = WsDecoder::new(role);
    let mut seen = Vec::new();
    let mut input = wire.to_vec();
    let mut taken = 0;
    while taken < wire.len() {
        let seen_before = seen.len();
        let result = decoder.feed(&mut input[taken..], limits, |event| {
            seen.push(event.into());
            ControlFlow::Break(())
        });
        match result {
            Ok(bytes) => taken += bytes,
            Err(fault) => return (seen, Some(fault)),
        }
        assert!(seen.len() <= seen_before + 1, "a break breaks");
        assert_eq!(
            input[taken..],
            wire[taken..],
            "what was not taken is untouched"
        );
    }
    (seen, None)
}

/// `wire` gives `events`, then perhaps a fault, however it is cut.
#[track_caller]
fn check_wire(
    role: WsRole,
    limits: &WsLimits,
    wire: &[u8],
    events: &[Seen],
    fault: Option<WsError>,
) {
    let expected = (events.to_vec(), fault);
    assert_eq!(
        feed_parts(role, limits, wire.chunks(1)),
        expected,
        "by bytes"
    );
    assert_eq!(feed_breaking(role, limits, wire), expected, "breaking");
    let interesting = |cut: &usize| wire.len() < 1500 || *cut < 32 || cut.is_multiple_of(4099);
    for cut in (0..=wire.len()).filter(interesting) {
        let (head, tail) = wire.split_at(cut);
        assert_eq!(
            feed_parts(role, limits, [head, tail]),
            expected,
            "{role:?}, cut at {cut}"
        );
    }
}

/// Feeds the frames to a server and to a client.
#[track_caller]
fn check(list: &[(u8, &[u8])], events: &[Seen], fault: Option<WsError>) {
    for role in [WsRole::Server, WsRole::Client] {
        check_wire(role, &LIMITS, &frames(role, list), events, fault);
    }
}

#[test]
fn a_decoder_is_small() {
    assert_eq!(size_of::<WsDecoder>(), 24);
}

#[test]
fn the_examples_of_the_rfc() {
    // Section 5.7.
    let hello = [text("Hello")];
    let one = b"\x81\x05Hello";
    check_wire(WsRole::Client, &LIMITS, one, &hello, None);
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    check_wire(WsRole::Server, &LIMITS, masked, &hello, None);
    let fragments = b"\x01\x03Hel\x80\x02lo";
    check_wire(WsRole::Client, &LIMITS, fragments, &hello, None);
    let ping = b"\x89\x05Hello";
    check_wire(
        WsRole::Client,
        &LIMITS,
        ping,
        &[Seen::Ping(b"Hello".into())],
        None,
    );
    let pong = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    check_wire(
        WsRole::Server,
        &LIMITS,
        pong,
        &[Seen::Pong(b"Hello".into())],
        None,
    );
}

#[test]
fn messages_of_every_length_encoding() {
    for length in [
        0, 1, 7, 8, 9, 125, 126, 127, 128, 255, 256, 65_535, 65_536, 65_537,
    ] {
        let data: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
        check(&[(0x82, &data)], &[Seen::Binary(data.clone())], None);
        let letters = "é".repeat(length / 2);
        check(&[(0x81, letters.as_bytes())], &[text(&letters)], None);
    }
}

fn event(text: &str) -> Seen {
    let (kind, data) = text.split_once(' ').unwrap_or((text, ""));
    match kind {
        "text" => self::text(data),
        "binary" => Seen::Binary(unescaped(data)),
        "ping" => Seen::Ping(unescaped(data)),
        "pong" => Seen::Pong(unescaped(data)),
        "close" => Seen::Close(data.split_once(' ').map(|(code, reason)| {
            let code = code.parse().expect("a code");
            (code, reason.trim_matches('"').to_owned())
        })),
        _ => panic!("no event: {text}"),
    }
}

#[test]
fn frames_give_events_and_faults() {
    for (case, expected) in cases(include_str!("frames.txt")) {
        let frames: Vec<(u8, Vec<u8>)> = { case.split(" | ") }
            .map(|frame| {
                let (first, payload) = frame.split_once(' ').unwrap_or((frame, ""));
                let first = u8::from_str_radix(first, 16).expect("a first byte");
                (first, unescaped(payload))
            })
            .collect();
        let frames: Vec<(u8, &[u8])> = frames.iter().map(|(first, it)| (*first, &**it)).collect();
        let (events, fault) = match expected.split_once("fault ") {
            Some((events, fault)) => (events, Some(fault)),
            None => (expected, None),
        };
        let events = events.split(" | ").filter(|event| !event.is_empty());
        let events: Vec<Seen> = events.map(event).collect();
        let faults = [
            WsError::CloseCodeTruncated,
            WsError::CloseCodeInvalid,
            WsError::CloseReasonNotUtf8,
            WsError::ContinuationUnexpected,
            WsError::ContinuationExpected,
            WsError::TextNotUtf8,
        ];
        let fault = fault.map(|name| {
            let known = faults.into_iter().find(|it| format!("{it:?}") == name);
            known.unwrap_or_else(|| panic!("no fault: {name}"))
        });
        check(&frames, &events, fault);
    }
}

#[test]
fn faults_in_the_first_byte() {
    for reserved in [0x40, 0x20, 0x10, 0x70] {
        for opcode in [0x0, 0x1, 0x2, 0x3, 0x8, 0x9, 0xa, 0xb] {
            check(
                &[(0x80 | reserved | opcode, b"")],
                &[],
                Some(WsError::ReservedBits),
            );
        }
    }
    for opcode in [0x3, 0x4, 0x5, 0x6, 0x7, 0xb, 0xc, 0xd, 0xe, 0xf] {
        check(&[(0x80 | opcode, b"")], &[], Some(WsError::UnknownOpcode));
        check(&[(opcode, b"data")], &[], Some(WsError::UnknownOpcode));
    }
    for control in [0x8, 0x9, 0xa] {
        check(&[(control, b"")], &[], Some(WsError::ControlFragmented));
        let within: [(u8, &[u8]); 2] = [(0x01, b"open"), (control, b"")];
        check(&within, &[], Some(WsError::ControlFragmented));
    }
}

#[test]
fn faults_in_masks_and_lengths() {
    let check = |role, wire: &[u8], fault| check_wire(role, &LIMITS, wire, &[], Some(fault));
    check(WsRole::Server, b"\x81\x05Hello", WsError::MaskMissing);
    check(WsRole::Server, b"\x89\x00", WsError::MaskMissing);
    check(WsRole::Client, b"\x81\x80\0\0\0\0", WsError::MaskForbidden);
    for (role, mask) in [(WsRole::Server, 0x80_u8), (WsRole::Client, 0)] {
        for control in [0x88, 0x89, 0x8a] {
            let long = frame(role, control, &[b'x'; 126]);
            check(role, &long, WsError::ControlTooLong);
            check(role, &[control, mask | 127], WsError::ControlTooLong);
        }
        for (short, length) in [
            (126, &0_u16.to_be_bytes()[..]),
            (126, &125_u16.to_be_bytes()),
            (127, &0_u64.to_be_bytes()),
            (127, &125_u64.to_be_bytes()),
            (127, &0xffff_u64.to_be_bytes()),
        ] {
            let wire = [&[0x82, mask | short], length].concat();
            check(role, &wire, WsError::LengthNotMinimal);
        }
        for length in [1_u64 << 63, u64::MAX] {
            let wire = [&[0x82, mask | 127], &length.to_be_bytes()[..]].concat();
            check(role, &wire, WsError::LengthTopBit);
        }
        for length in [100_001_u64, (1 << 63) - 1] {
            let wire = [&[0x82, mask | 127], &length.to_be_bytes()[..]].concat();
            check(role, &wire, WsError::MessageTooBig);
        }
    }
}

#[test]
fn the_limit_is_on_the_message() {
    let limits = WsLimits::new(10);
    for role in [WsRole::Server, WsRole::Client] {
        let check = |list: &[(u8, &[u8])], events: &[Seen], fault| {
            check_wire(role, &limits, &frames(role, list), events, fault);
        };
        let ten = [text("0123456789")];
        check(&[(0x81, b"0123456789")], &ten, None);
        check(&[(0x01, b"01234"), (0x80, b"56789")], &ten, None);
        let too_big = Some(WsError::MessageTooBig);
        check(&[(0x81, b"0123456789a")], &[], too_big);
        check(&[(0x01, b"01234"), (0x80, b"56789a")], &[], too_big);
        let ping = [Seen::Ping(vec![b'p'; 100])];
        check(
            &[(0x01, b"0123456789"), (0x89, &[b'p'; 100]), (0x80, b"a")],
            &ping,
            too_big,
        );
        // The declaration is enough: the mask and the payload never arrive.
        let declared = &frame(role, 0x81, &[b'x'; 11])[..2];
        check_wire(role, &limits, declared, &[], too_big);
    }
}

/// The first byte of `payload` that no text can go on from is the one at `wrong`.
#[track_caller]
fn check_fails_fast(payload: &[u8], wrong: usize) {
    for before in ["", "κόσμε: "] {
        let data = [before.as_bytes(), payload, b"trailer"].concat();
        for role in [WsRole::Server, WsRole::Client] {
            let wire = frame(role, 0x81, &data);
            let mut decoder = WsDecoder::new(role);
            let failed_at = wire.chunks(1).position(|byte| {
                let fed = decoder.feed(&mut byte.to_vec(), &LIMITS, |_| ControlFlow::Break(()));
                fed == Err(WsError::TextNotUtf8)
            });
            let data_start = wire.len() - data.len();
            let expected = data_start + before.len() + wrong;
            assert_eq!(failed_at, Some(expected), "{payload:02x?}");
        }
    }
    check(&[(0x81, payload)], &[], Some(WsError::TextNotUtf8));
    for cut in 0..=payload.len() {
        let (head, tail) = payload.split_at(cut);
        check(
            &[(0x01, head), (0x80, tail)],
            &[],
            Some(WsError::TextNotUtf8),
        );
    }
}

#[test]
fn text_fails_on_the_first_wrong_byte() {
    for (payload, wrong) in cases(include_str!("not_utf8.txt")) {
        check_fails_fast(&unescaped(payload), wrong.parse().expect("a place"));
    }
    let long = [&[b'x'; 300][..], b"\xe2\x82\xff"].concat();
    check_fails_fast(&long, 302);
}

/// Tells whether what `feed` reports about `input` lies in `input`.
fn reported_in_place(decoder: &mut WsDecoder, input: &mut [u8]) -> bool {
    let range = input.as_ptr_range();
    let mut in_place = None;
    let fed = decoder.feed(input, &LIMITS, |event| {
        if let WsEvent::Message { data, .. } = event {
            in_place = Some(range.contains(&data.as_ptr()));
        }
        ControlFlow::Continue(())
    });
    assert_eq!(fed, Ok(input.len()));
    in_place.expect("a message")
}

#[test]
fn a_whole_message_is_not_copied() {
    for role in [WsRole::Server, WsRole::Client] {
        let wire = frame(role, 0x81, b"hello");
        let mut decoder = WsDecoder::new(role);
        assert!(reported_in_place(&mut decoder, &mut wire.clone()));

        // Nor is one whose header came before it, and the header took no memory.
        for cut in 1..=wire.len() - 5 {
            let (head, tail) = wire.split_at(cut);
            let fed = decoder.feed(&mut head.to_vec(), &LIMITS, |_| unreachable!("a header"));
            assert_eq!((fed, decoder.held_bytes()), (Ok(cut), 0));
            assert!(reported_in_place(&mut decoder, &mut tail.to_vec()));
        }

        // One whose payload comes in parts is collected, and the memory given back.
        let (head, tail) = wire.split_at(wire.len() - 1);
        let fed = decoder.feed(&mut head.to_vec(), &LIMITS, |_| unreachable!("in part"));
        assert_eq!(fed, Ok(head.len()));
        assert!(decoder.held_bytes() > 0);
        assert!(!reported_in_place(&mut decoder, &mut tail.to_vec()));
        assert_eq!(decoder.held_bytes(), 0);
    }
}

#[test]
fn memory_follows_what_arrived() {
    let limits = WsLimits::new(usize::MAX);
    let bound = |arrived: usize| size_of::<Progress>() + GROWTH_BYTES_MIN.max(2 * arrived);
    for first in [0x82, 0x02] {
        // A header of ten bytes that promises eight exabytes, and its first kilobytes.
        let declared = (1_u64 << 62).to_be_bytes();
        let mut header = [&[first, 127], &declared[..]].concat();
        let mut decoder = WsDecoder::new(WsRole::Client);
        let silent = |_: WsEvent<'_>| unreachable!("it never ends");
        assert_eq!(decoder.feed(&mut header, &limits, silent), Ok(10));
        assert_eq!(decoder.held_bytes(), 0);
        for arrived in (100..10_000).step_by(100) {
            assert_eq!(decoder.feed(&mut [7; 100], &limits, silent), Ok(100));
            assert!(decoder.held_bytes() <= bound(arrived), "after {arrived}");
        }
    }
}

#[test]
fn a_buffer_is_no_larger_than_its_message() {
    let mut wire = frame(WsRole::Client, 0x82, &[7; 1000]);
    wire.truncate(4 + 999);
    let mut decoder = WsDecoder::new(WsRole::Client);
    for byte in &mut wire {
        let fed = decoder.feed(std::slice::from_mut(byte), &LIMITS, |_| {
            unreachable!("the last byte is not there")
        });
        assert_eq!(fed, Ok(1));
    }
    assert_eq!(decoder.held_bytes(), size_of::<Progress>() + 1000);
}

#[test]
fn many_small_pieces_cost_no_more_than_one() {
    // Fragments of one byte: the buffer moves when it doubles, not with each fragment.
    let mut decoder = WsDecoder::new(WsRole::Client);
    let mut sizes = Vec::new();
    for number in 0..10_000 {
        let mut fragment = frame(WsRole::Client, if number == 0 { 0x02 } else { 0x00 }, b"x");
        let fed = decoder.feed(&mut fragment, &LIMITS, |_| unreachable!("it never ends"));
        assert_eq!(fed, Ok(fragment.len()));
        sizes.push(decoder.held_bytes());
    }
    sizes.dedup();
    assert!(sizes.len() <= 9, "{sizes:?}");

    // Reads that end within a character: what was found valid is not looked at again.
    let wire = frame(WsRole::Client, 0x81, "a😀b".repeat(500).as_bytes());
    let mut decoder = WsDecoder::new(WsRole::Client);
    for read in wire[..wire.len() - 1].chunks(6) {
        let fed = decoder.feed(&mut read.to_vec(), &LIMITS, |_| unreachable!("in part"));
        assert_eq!(fed, Ok(read.len()));
        if let Some(progress) = &decoder.progress {
            assert!(progress.bytes.len() - progress.text_bytes < 4);
        }
    }
}

#[test]
fn an_empty_read_changes_nothing() {
    let mut decoder = WsDecoder::new(WsRole::Server);
    let fed = decoder.feed(&mut [], &LIMITS, |_| unreachable!("nothing was said"));
    assert_eq!((fed, decoder.held_bytes()), (Ok(0), 0));
}

#[test]
fn debug_output_holds_no_payload() {
    let mut decoder = WsDecoder::new(WsRole::Client);
    let fed = decoder.feed(&mut *b"\x81\x20secret".to_owned().as_mut(), &LIMITS, |_| {
        ControlFlow::Continue(())
    });
    assert_eq!(fed, Ok(8));
    let shown = format!("{decoder:?}");
    assert!(
        shown.contains("OpenClient") && !shown.contains("115"),
        "{shown}"
    );
}

/// Feeds bytes that may end anywhere.
fn feed_some(decoder: &mut WsDecoder, bytes: &[u8]) -> (Vec<Seen>, Option<WsError>) {
    let mut seen = Vec::new();
    let fed = decoder.feed(&mut bytes.to_vec(), &WsLimits::new(1000), |event| {
        seen.push(event.into());
        ControlFlow::Continue(())
    });
    (seen, fed.err())
}

#[test]
fn a_decoder_goes_on_in_another_process_after_any_byte() {
    // A text in two fragments with a ping between them, a binary message with a long header, and a
    // text with a character that is cut.
    let list: [(u8, &[u8]); 6] = [
        (0x01, b"abc"),
        (0x89, b"12"),
        (0x80, b"d"),
        (0x82, &[7; 200]),
        (0x81, "ä".as_bytes()),
        (0x88, b""),
    ];
    let wire = frames(WsRole::Server, &list);
    let (whole, fault) = feed_some(&mut WsDecoder::new(WsRole::Server), &wire);
    assert_eq!((whole.len(), fault), (5, None), "{whole:?}");
    for cut in 0..=wire.len() {
        let mut before = WsDecoder::new(WsRole::Server);
        let (mut seen, _) = feed_some(&mut before, &wire[..cut]);
        check_saved(&before);
        let bytes = before.saved();
        let mut after = WsDecoder::load_whole(&bytes).expect("what was saved");
        seen.extend(feed_some(&mut after, &wire[cut..]).0);
        assert_eq!(seen, whole, "cut at {cut}");
        for at in 0..bytes.len() {
            for wrong in [0, 1, 2, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                if let Some(mut decoder) = WsDecoder::load_whole(&bytes) {
                    // A text may be none any more.
                    let go_on = |_: WsEvent<'_>| ControlFlow::Continue(());
                    let _ = decoder.feed(&mut wire[cut..].to_vec(), &LIMITS, go_on);
                }
            }
        }
    }
}
