use proptest::prelude::*;

use super::*;
use crate::{EVENT_END, Event, encode_comment, encode_data, encode_event, encode_id};

/// What a stream came to: its events as (id, name, data), then what the decoder knows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    events: Vec<(String, String, String)>,
    last_event_id: String,
    retry_ms: Option<u64>,
    fault: Option<BadStream>,
}

fn decode<'w>(mut decoder: Decoder, pieces: impl IntoIterator<Item = &'w [u8]>) -> Outcome {
    let mut events = Vec::new();
    let mut fault = None;
    for piece in pieces {
        let result = decoder.feed(piece, |event| {
            events.push((
                event.id.to_owned(),
                event.event.to_owned(),
                event.text().into_owned(),
            ));
        });
        assert!(fault.is_none() || result.err() == fault, "faults last");
        fault = result.err();
        assert!(decoder.line.len() <= decoder.limits.line_bytes_max);
        assert!(decoder.data.len() <= decoder.limits.event_bytes_max);
    }
    Outcome {
        events,
        last_event_id: decoder.last_event_id().to_owned(),
        retry_ms: decoder.retry_ms(),
        fault,
    }
}

/// Decodes `wire` whole, cut in two at every place and byte by byte, and answers what
/// all of them agree on.
#[track_caller]
fn decode_all_ways(decoder: &Decoder, wire: &[u8]) -> Outcome {
    let whole = decode(decoder.clone(), [wire]);
    for cut in 0..=wire.len() {
        let (first, second) = wire.split_at(cut);
        let parts = decode(decoder.clone(), [first, second]);
        assert_eq!(parts, whole, "cut at {cut}");
    }
    let bytes = decode(decoder.clone(), wire.chunks(1));
    assert_eq!(bytes, whole, "byte by byte");
    whole
}

/// Checks the events of a stream with each of the three line ends. The stream is
/// written with LF.
#[track_caller]
fn check(wire: &str, expect: &[(&str, &str, &str)]) {
    for end in ["\n", "\r\n", "\r"] {
        let wire = wire.replace('\n', end);
        let outcome = decode_all_ways(&Decoder::default(), wire.as_bytes());
        let events: Vec<_> = outcome
            .events
            .iter()
            .map(|(id, event, data)| (id.as_str(), event.as_str(), data.as_str()))
            .collect();
        assert_eq!(events, expect, "{wire:?}");
        assert_eq!(outcome.fault, None);
    }
}

#[test]
fn events_end_with_an_empty_line() {
    check("", &[]);
    check("data: a", &[]);
    check("data: a\n", &[]);
    check("data: a\n\n", &[("", "message", "a")]);
    check("\n\ndata: a\n\n\n", &[("", "message", "a")]);
    check(
        "data: a\n\ndata: b\n\ndata: c",
        &[("", "message", "a"), ("", "message", "b")],
    );
}

#[test]
fn data_lines_are_joined() {
    check("data: a\ndata: b\n\n", &[("", "message", "a\nb")]);
    check("data: a\ndata\ndata: \n\n", &[("", "message", "a\n\n")]);
    check("data\n\n", &[("", "message", "")]);
    check("data:\n\n", &[("", "message", "")]);
    check("data:a\ndata:  b \n\n", &[("", "message", "a\n b ")]);
    check("data: a: b\n\n", &[("", "message", "a: b")]);
}

#[test]
fn names_last_for_one_event() {
    check(
        "event: x\ndata: a\n\ndata: b\n\n",
        &[("", "x", "a"), ("", "message", "b")],
    );
    check("event: x\nevent: y\ndata: a\n\n", &[("", "y", "a")]);
    check("event: x\nevent\ndata: a\n\n", &[("", "message", "a")]);
    check("event: x\n\ndata: a\n\n", &[("", "message", "a")]);
}

#[test]
fn ids_last_until_the_next_one() {
    check(
        "id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n",
        &[
            ("1", "message", "a"),
            ("1", "message", "b"),
            ("2", "message", "c"),
        ],
    );
    check(
        "id: 1\ndata: a\n\nid\ndata: b\n\n",
        &[("1", "message", "a"), ("", "message", "b")],
    );
    check("id: 1\nid: 2\0\ndata: a\n\n", &[("1", "message", "a")]);
    check("id: 1\n\ndata: a\n\n", &[("1", "message", "a")]);
}

#[test]
fn an_id_counts_once_its_event_is_dispatched() {
    let last_id = |wire: &str| decode_all_ways(&Decoder::default(), wire.as_bytes()).last_event_id;
    assert_eq!(last_id("id: 1\ndata: a\n"), "");
    assert_eq!(last_id("id: 1\n\n"), "1");
    assert_eq!(last_id("id: 1\ndata: a\n\nid: 2\ndata: b\n"), "1");
    let resumed = Decoder::resumed(DecoderLimits::default(), "7");
    let outcome = decode_all_ways(&resumed, b"data: a\n\n");
    assert_eq!(outcome.events[0].0, "7");
    assert_eq!(outcome.last_event_id, "7");
}

#[test]
fn retry_is_digits_alone() {
    for (value, expect) in [
        ("retry: 1500", Some(1500)),
        ("retry:0", Some(0)),
        ("retry: 10\nretry: x", Some(10)),
        ("retry: 10\nretry: 20", Some(20)),
        ("retry", None),
        ("retry:", None),
        ("retry:  1", None),
        ("retry: +1", None),
        ("retry: -1", None),
        ("retry: 1.5", None),
        ("retry: 99999999999999999999", None),
    ] {
        let wire = format!("{value}\n");
        let outcome = decode_all_ways(&Decoder::default(), wire.as_bytes());
        assert_eq!(outcome.retry_ms, expect, "{value}");
    }
}

#[test]
fn comments_and_unknown_fields_mean_nothing() {
    check(
        ": hi\n:\ndata: a\n:data: b\n\n:\n\n",
        &[("", "message", "a")],
    );
    check(
        "Data: x\n data: x\ndata : x\nfoo: x\nfoo\ndata: a\n\n",
        &[("", "message", "a")],
    );
}

#[test]
fn one_byte_order_mark_is_skipped() {
    check("\u{feff}data: a\n\n", &[("", "message", "a")]);
    check("\u{feff}\ndata: a\n\n", &[("", "message", "a")]);
    check("\u{feff}\u{feff}data: a\n\n", &[]);
    check("\n\u{feff}data: a\n\n", &[]);
    check("data: \u{feff}a\n\n", &[("", "message", "\u{feff}a")]);
}

#[test]
fn what_is_not_utf8_is_replaced() {
    let outcome = decode_all_ways(
        &Decoder::default(),
        b"id: \xff\nevent: \xc3\ndata: \xe4\xbd\ndata: \xa0\n\n",
    );
    let expect = (
        "\u{fffd}".into(),
        "\u{fffd}".into(),
        "\u{fffd}\n\u{fffd}".into(),
    );
    assert_eq!(outcome.events, [expect]);
}

#[test]
fn line_ends_may_be_mixed() {
    let outcome = decode_all_ways(&Decoder::default(), b"data: a\r\ndata: b\rdata: c\n\r");
    assert_eq!(outcome.events[0].2, "a\nb\nc");
    let outcome = decode_all_ways(&Decoder::default(), b"data: a\r\r\ndata: b\n\n");
    assert_eq!(outcome.events.len(), 2);
}

#[test]
fn limits_hold_to_the_byte() {
    let check = |line_bytes_max, event_bytes_max, wire: &str, expect: Option<BadStream>| {
        let decoder = Decoder::new(DecoderLimits {
            line_bytes_max,
            event_bytes_max,
        });
        let outcome = decode_all_ways(&decoder, wire.as_bytes());
        assert_eq!(outcome.fault, expect, "{wire:?}");
        outcome.events.len()
    };
    use BadStream as Bad;
    assert_eq!(check(8, 99, "data: ab\n\n", None), 1);
    check(7, 99, "data: ab\n\n", Some(Bad::LineTooLong));
    check(7, 99, "data: ab", Some(Bad::LineTooLong));
    check(7, 99, ": comment", Some(Bad::LineTooLong));
    assert_eq!(check(99, 5, "data: ab\ndata: c\n\n", None), 1);
    check(99, 4, "data: ab\ndata: c\n\n", Some(Bad::EventTooLarge));
    check(99, 0, "data\n", Some(Bad::EventTooLarge));
    assert_eq!(check(8, 3, "data: ab\n\ndata: cd\n\n", None), 2);
    // What came before the fault was reported.
    assert_eq!(
        check(8, 3, "data: ab\n\ndata: cde\n", Some(Bad::LineTooLong)),
        1
    );
}

#[test]
fn large_buffers_are_given_back() {
    let mut decoder = Decoder::default();
    let big = "x".repeat(10 * KEEP_BYTES_MAX);
    let wire = format!("event: {big}\ndata: {big}\n\n");
    for piece in wire.as_bytes().chunks(1000) {
        decoder.feed(piece, |_| {}).unwrap();
    }
    let kept = decoder.data.capacity() + decoder.line.capacity() + decoder.event.capacity();
    assert!(kept <= 3 * KEEP_BYTES_MAX, "{kept}");
}

/// What the standard makes of the line ends in data.
fn normalised(data: &str) -> String {
    data.replace("\r\n", "\n").replace('\r', "\n")
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        events in prop::collection::vec((
            prop::option::of("[^\\r\\n\\x00]{0,8}"),
            prop::option::of("[^\\r\\n]{0,8}"),
            "([a: ]|\\r|\\n|\\PC){0,12}",
            prop::option::of(any::<u64>()),
        ), 0..5),
        comment in "([a: ]|\\r|\\n|\\PC){0,8}",
    ) {
        let mut wire = Vec::new();
        let mut expect = Vec::new();
        let mut last_id = String::new();
        let mut last_retry = None;
        for (id, name, data, retry_ms) in &events {
            encode_comment(&comment, &mut wire);
            let event = Event {
                id: id.as_deref(),
                event: name.as_deref(),
                data: data.as_bytes(),
                retry_ms: *retry_ms,
            };
            encode_event(&event, &mut wire).unwrap();
            last_id = id.clone().unwrap_or(last_id);
            last_retry = retry_ms.or(last_retry);
            let name = name.clone().filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| "message".into());
            expect.push((last_id.clone(), name, normalised(data)));
        }
        let outcome = decode_all_ways(&Decoder::default(), &wire);
        let expect = Outcome {
            events: expect,
            last_event_id: last_id,
            retry_ms: last_retry,
            fault: None,
        };
        prop_assert_eq!(outcome, expect);
    }

    #[test]
    fn a_shared_half_fits_behind_any_id(data in "([a: ]|\\r|\\n|\\PC){0,12}", id in "[ -~]{0,8}") {
        let mut shared = Vec::new();
        encode_data(data.as_bytes(), &mut shared);
        shared.extend_from_slice(EVENT_END);
        let mut spliced = Vec::new();
        encode_id(&id, &mut spliced).unwrap();
        spliced.extend_from_slice(&shared);
        let event = Event { id: Some(&id), data: data.as_bytes(), ..Event::default() };
        let mut whole = Vec::new();
        encode_event(&event, &mut whole).unwrap();
        prop_assert_eq!(spliced, whole);
    }

    #[test]
    fn cuts_change_nothing(
        parts in prop::collection::vec(prop::sample::select(vec![
            "data", "id", "event", "retry", ":", " ", "1", "a", "\n", "\r", "\r\n", "\0",
            "\u{feff}", "\u{e9}",
        ]), 0..24),
        line_bytes_max in 0_usize..20,
        event_bytes_max in 0_usize..10,
    ) {
        let wire = parts.concat();
        decode_all_ways(&Decoder::default(), wire.as_bytes());
        let decoder = Decoder::new(DecoderLimits { line_bytes_max, event_bytes_max });
        decode_all_ways(&decoder, wire.as_bytes());
    }
}
