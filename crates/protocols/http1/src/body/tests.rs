use proptest::prelude::*;
use throng_types::{Load as _, check_saved};

use super::*;
use crate::request::tests::cases;
use crate::{LAST_CHUNK, encode_chunk};

/// The data, the bytes consumed if the body ended, and the fault.
type Outcome = (Vec<u8>, Option<usize>, Option<BadBody>);

fn decode<'w>(mut decoder: BodyDecoder, pieces: impl IntoIterator<Item = &'w [u8]>) -> Outcome {
    let mut data = Vec::new();
    let mut consumed = 0;
    for mut piece in pieces {
        loop {
            let step = match decoder.feed(piece) {
                Ok(step) => step,
                Err(fault) => {
                    assert_eq!(decoder.feed(b"x"), Err(fault), "faults last");
                    assert_eq!(decoder.feed(b""), Err(fault), "faults last");
                    return (data, None, Some(fault));
                }
            };
            assert!(
                step.done || piece.is_empty() || step.consumed != 0,
                "progress"
            );
            assert!(step.data.len() <= step.consumed);
            data.extend_from_slice(step.data);
            consumed += step.consumed;
            piece = &piece[step.consumed..];
            if step.done {
                assert!(decoder.is_done() && decoder.may_end_here());
                return (data, Some(consumed), None);
            }
            if piece.is_empty() {
                break;
            }
        }
    }
    (data, None, None)
}

/// Decodes `wire` whole, cut in two at every place and byte by byte, and answers what
/// all of them agree on.
#[track_caller]
fn decode_all_ways(decoder: &BodyDecoder, wire: &[u8]) -> Outcome {
    let whole = decode(decoder.clone(), [wire]);
    for cut in 0..=wire.len() {
        let (first, second) = wire.split_at(cut);
        let parts = decode(decoder.clone(), [first, second]);
        assert_eq!(parts, whole, "cut at {cut}");
    }
    assert_eq!(
        decode(decoder.clone(), wire.chunks(1).chain([[].as_slice()])),
        whole,
        "byte by byte"
    );
    whole
}

fn limits(body_bytes_max: u64) -> HttpLimits {
    HttpLimits {
        body_bytes_max,
        ..HttpLimits::default()
    }
}

fn chunked(body_bytes_max: u64) -> BodyDecoder {
    BodyDecoder::new(Body::Chunked, &limits(body_bytes_max))
}

#[test]
fn a_length_is_counted() {
    for (length, wire, data, end) in [
        (0, "", "", Some(0)),
        (0, "next", "", Some(0)),
        (5, "hello", "hello", Some(5)),
        (5, "hellonext", "hello", Some(5)),
        (5, "hell", "hell", None),
    ] {
        let decoder = BodyDecoder::new(Body::Length(length), &limits(5));
        let outcome = decode_all_ways(&decoder, wire.as_bytes());
        assert_eq!(outcome, (data.as_bytes().to_vec(), end, None), "{wire:?}");
    }
    let decoder = BodyDecoder::new(Body::Length(6), &limits(5));
    assert_eq!(decode_all_ways(&decoder, b"").2, Some(BadBody::TooLarge));
    assert!(BodyDecoder::new(Body::None, &limits(5)).is_done());
}

#[test]
fn a_body_until_the_end_is_bounded() {
    let decoder = BodyDecoder::for_response(ResponseBody::UntilClose, &limits(5));
    assert!(decoder.may_end_here());
    let outcome = decode_all_ways(&decoder, b"hello");
    assert_eq!(outcome, (b"hello".to_vec(), None, None));
    let outcome = decode_all_ways(&decoder, b"hello!");
    assert_eq!(outcome, (b"hello".to_vec(), None, Some(BadBody::TooLarge)));
}

#[test]
fn chunks_are_joined() {
    for (wire, data) in [
        ("0\r\n\r\n", ""),
        ("000\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("0000000000000002\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
        ("2;a=b;c=\"d e\"\r\nab\r\n0;x\r\n\r\n", "ab"),
        ("2 \t;a\r\nab\r\n0\r\n\r\n", "ab"),
        ("2\r\nab\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n", "ab"),
    ] {
        let outcome = decode_all_ways(&chunked(100), wire.as_bytes());
        assert_eq!(outcome, (data.into(), Some(wire.len()), None), "{wire:?}");
        let more = format!("{wire}GET / HTTP/1.1\r\n");
        let outcome = decode_all_ways(&chunked(100), more.as_bytes());
        assert_eq!(outcome, (data.into(), Some(wire.len()), None), "{more:?}");
        for cut in 0..wire.len() {
            let outcome = decode(chunked(100), [&wire.as_bytes()[..cut]]);
            assert_eq!((outcome.1, outcome.2), (None, None), "{wire:?} up to {cut}");
        }
    }
}

#[test]
fn fields_behind_the_last_chunk_are_left_to_who_wants_them() {
    let (wire, fields) = (b"3\r\nabc\r\n0\r\na: b\r\n\r\n", b"a: b\r\n\r\n");
    for cut in 0..wire.len() {
        let mut decoder = chunked(10);
        let mut read = 0;
        let (first, second) = wire.split_at(cut);
        for mut piece in [first, second] {
            while !piece.is_empty() && !decoder.is_at_trailers() {
                let step = decoder.feed(piece).expect("chunks");
                read += step.consumed;
                piece = &piece[step.consumed..];
            }
        }
        assert_eq!(&wire[read..], fields, "{cut}");
        assert!(!decoder.is_done(), "{cut}");
    }
}

#[test]
fn chunks_of_the_table_are_refused() {
    for (wire, expected) in cases("chunks") {
        let (data, end, fault) = decode_all_ways(&chunked(100), wire.as_bytes());
        let fault = format!("{:?} {}", fault.expect("refused"), data.escape_ascii());
        assert_eq!((fault.trim_end(), end), (expected, None), "{wire:?}");
    }
}

#[test]
fn the_limit_counts_data_over_all_chunks() {
    let exact = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(decode_all_ways(&chunked(5), exact).0, b"abcde");
    // The size alone refuses a chunk, before any of its data.
    let outcome = decode_all_ways(&chunked(4), b"3\r\nabc\r\n2");
    assert_eq!(outcome, (b"abc".to_vec(), None, Some(BadBody::TooLarge)));
    let outcome = decode_all_ways(&chunked(u64::MAX - 1), b"ffffffffffffffff");
    assert_eq!(outcome.2, Some(BadBody::TooLarge));
    let outcome = decode_all_ways(&chunked(u64::MAX), b"ffffffffffffffff\r\nab");
    assert_eq!(outcome, (b"ab".to_vec(), None, None));
}

#[test]
fn framing_is_bounded_over_the_whole_body() {
    let most = usize::from(FRAMING_BYTES_MAX);
    let extension = |length: usize| format!("1;{}\r\na\r\n", "x".repeat(length - 1));
    let trailer = |length: usize| format!("0\r\nT:{}\r\n\r\n", "x".repeat(length - 2));
    let fits = extension(most - 100) + &trailer(100);
    let outcome = decode(chunked(9), [fits.as_bytes()]);
    assert_eq!(outcome, (b"a".to_vec(), Some(fits.len()), None));
    for wire in [
        extension(most + 1),
        trailer(most + 1),
        extension(most - 100) + &extension(101),
        extension(most - 100) + &trailer(101),
    ] {
        let fault = decode(chunked(9), [wire.as_bytes()]).2;
        assert_eq!(fault, Some(BadBody::FramingTooLarge));
        let fault = decode(chunked(9), wire.as_bytes().chunks(1)).2;
        assert_eq!(fault, Some(BadBody::FramingTooLarge));
    }
}

#[test]
fn a_decoder_is_small() {
    assert_eq!(size_of::<BodyDecoder>(), 24);
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..6),
        cuts in prop::collection::vec(1_usize..40, 1..8),
    ) {
        let mut wire = Vec::new();
        chunks.iter().for_each(|chunk| encode_chunk(chunk, &mut wire));
        wire.extend_from_slice(LAST_CHUNK);
        let mut pieces = Vec::new();
        let mut rest = wire.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, others) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        let data = chunks.concat();
        let limit = data.len() as u64;
        prop_assert_eq!(decode(chunked(limit), pieces), (data, Some(wire.len()), None));
    }

    #[test]
    fn cuts_change_nothing(
        parts in prop::collection::vec(prop::sample::select(vec![
            "0", "1", "2", "f", "\r\n", "\r", "\n", "a", "ab", ";x", " ", "T: v", ":", "\0",
        ]), 0..14),
        body_bytes_max in 0_u64..20,
    ) {
        decode_all_ways(&chunked(body_bytes_max), parts.concat().as_bytes());
    }
}

#[test]
fn a_body_goes_on_in_another_process_after_any_byte() {
    let wire = b"4;x=y\r\ndata\r\na\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
    for cut in 0..wire.len() {
        let mut before = chunked(100);
        let mut data = Vec::new();
        let mut rest = &wire[..cut];
        while !rest.is_empty() {
            let step = before.feed(rest).unwrap();
            data.extend_from_slice(step.data);
            rest = &rest[step.consumed..];
        }
        check_saved(&before);
        let bytes = before.saved();
        let after = BodyDecoder::load_whole(&bytes).expect("what was saved");
        let (later, end, fault) = decode(after, [&wire[cut..]]);
        assert_eq!((end, fault), (Some(wire.len() - cut), None), "cut at {cut}");
        assert_eq!([data, later].concat(), b"data0123456789");
        for at in 0..bytes.len() {
            for wrong in [0, 1, 14, 15, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                if let Some(decoder) = BodyDecoder::load_whole(&bytes) {
                    decode(decoder, [&wire[cut..]]);
                }
            }
        }
    }
}
