//! WebSocket of a publisher: commands, acknowledgements, and its end.

use throng_broker::Refusal;
use throng_gateway_plain::Plain;
use throng_session::{CloseReason, Event, Port, Shared};
use throng_solo::Solo;
use throng_types::{Disconnect, End};
use throng_ws::{Masking, Opcode, WsDecoder, WsLimits, WsRole, encode_message, handshake};

fn publisher() -> Solo<Plain> {
    publisher_with(throng_solo::shared())
}

fn publisher_with(shared: Shared) -> Solo<Plain> {
    let mut publisher = Solo::caller(shared);
    let mut request = Vec::new();
    let protocol = ("Sec-WebSocket-Protocol", "throng-publish");
    handshake::encode_request("t", "/pub", [7; 16], &[protocol], &mut request);
    publisher.feed(&request);
    let head = publisher.told();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("Sec-WebSocket-Protocol: throng-publish\r\n"));
    publisher
}

fn message(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let masking = Masking::Client([1, 2, 3, 4]);
    encode_message(masking, Opcode::Text, text.as_bytes(), &mut out);
    out
}

/// Takes the messages sent to the publisher.
fn said(publisher: &mut Solo<Plain>) -> Vec<String> {
    let mut out = std::mem::take(&mut publisher.out);
    let mut said = Vec::new();
    let limits = WsLimits::new(1000);
    WsDecoder::new(WsRole::Client)
        .feed(&mut out, &limits, |event| {
            said.push(match event {
                throng_ws::WsEvent::Message { data, .. } => {
                    String::from_utf8(data.to_vec()).unwrap()
                }
                throng_ws::WsEvent::Close(frame) => format!("close {}", frame.unwrap().code),
                other => format!("{other:?}"),
            });
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    said
}

#[test]
fn what_comes_together_is_ordered_together_and_acknowledged_by_range() {
    let mut publisher = publisher();
    let messages = ["a\n1", "b\tkey\n{}", "c\n"].map(message).concat();
    publisher.feed(&messages);
    let orders = publisher.published();
    let [(1, drafts)] = &orders[..] else {
        panic!("{orders:?}");
    };
    let names: Vec<&str> = drafts.iter().map(|draft| draft.channel.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(drafts[1].idempotency_key.as_deref(), Some("key"));
    assert_eq!(&*drafts[1].payload.bytes, b"{}");
    publisher.answer(3, Ok(None));
    publisher.answer(2, Err(Refusal::Busy));
    let refused = said(&mut publisher);
    assert_eq!(refused.len(), 1);
    assert!(refused[0].starts_with(r#"{"n":2,"status":503,"error":"a queue is full"#));
    publisher.answer(1, Ok(None));
    assert_eq!(said(&mut publisher), [r#"{"ack":3}"#]);
    // A message without a channel has a number too, and others go on.
    publisher.feed(&["d\n", "nothing", "a\r\n", "e\n"].map(message).concat());
    let firsts: Vec<u32> = { publisher.published() }
        .iter()
        .map(|(first, _)| *first)
        .collect();
    assert_eq!(firsts, [4, 7]);
    let refused = said(&mut publisher);
    for (at, begin) in [r#"{"n":5,"status":400,"#, r#"{"n":6,"status":400,"#]
        .iter()
        .enumerate()
    {
        assert!(refused[at].starts_with(begin), "{refused:?}");
    }
    publisher.answer(7, Ok(None));
    assert_eq!(said(&mut publisher), [""; 0]);
    publisher.answer(4, Ok(None));
    assert_eq!(said(&mut publisher), [r#"{"ack":7}"#]);
    // Alone, and at once.
    publisher.feed(&message("nothing"));
    let told = said(&mut publisher);
    assert_eq!(told[1], r#"{"ack":8}"#, "{told:?}");
}

#[test]
fn a_message_in_pieces_is_the_same_message() {
    let whole = ["a\n1", "bad", "b\n2"].map(message).concat();
    for cut in 0..whole.len() {
        let mut publisher = publisher();
        publisher.feed(&whole[..cut]);
        publisher.feed(&whole[cut..]);
        let orders = publisher.published();
        let names: Vec<(u32, &str)> = { orders.iter() }
            .map(|(first, drafts)| (*first, drafts[0].channel.as_str()))
            .collect();
        assert_eq!(names, [(1, "a"), (3, "b")], "{cut}");
        assert_eq!(said(&mut publisher).len(), 1, "{cut}");
    }
}

#[test]
fn so_many_messages_are_without_an_answer() {
    let mut publisher = publisher();
    let each = |n: u32| message(&format!("c{n}\n"));
    publisher.feed(&(0..1023).flat_map(each).collect::<Vec<u8>>());
    assert_eq!(publisher.actions.pause, None);
    publisher.feed(&each(1));
    assert_eq!(publisher.actions.pause, Some(true));
    let (mut paused, mut acks) = (true, 0);
    for number in 1..=1024 {
        publisher.answer(number, Ok(None));
        acks += said(&mut publisher).len();
        if let Some(pause) = publisher.actions.pause {
            assert!(!pause && paused && number == 512, "{number}");
            paused = false;
        }
    }
    assert!(!paused);
    assert_eq!(acks, 16, "one for 64");
}

/// The data has the bound of `POST /pub`, and its line has room besides.
#[test]
fn a_message_that_is_too_long_ends_the_connection() {
    for (bytes, is_taken) in [(1124, true), (1125, false)] {
        let mut shared = throng_solo::shared();
        shared.limits.publish_bytes_max = 100;
        let mut publisher = publisher_with(shared);
        publisher.feed(&message(&format!("a\n{}", "x".repeat(bytes - 2))));
        assert_eq!(publisher.published().len(), usize::from(is_taken));
        let end = (!is_taken).then_some(End::Flush);
        assert_eq!(publisher.actions.end, end, "{bytes}");
    }
}

#[test]
fn a_server_that_stops_answers_first() {
    let mut publisher = publisher();
    publisher.feed(&["a\n1", "b\n2"].map(message).concat());
    let why = CloseReason::Because(Disconnect::Shutdown);
    publisher.event(Event::Close(&why));
    assert_eq!(
        (publisher.actions.end, publisher.actions.pause),
        (None, Some(true))
    );
    publisher.feed(&message("c\n3"));
    assert_eq!(publisher.published().len(), 1, "nothing more is taken");
    publisher.answer(1, Ok(None));
    publisher.answer(2, Ok(None));
    assert_eq!(said(&mut publisher), [r#"{"ack":2}"#, "close 1012"]);
    assert_eq!(publisher.actions.end, Some(End::Flush));
    // A publisher without messages under way is closed at once.
    let mut idle = self::publisher();
    idle.event(Event::Close(&why));
    assert_eq!(said(&mut idle), ["close 1012"]);
}

#[test]
fn it_is_on_the_api_port_alone_and_by_upgrade() {
    for (port, status) in [(Port::Api, "405"), (Port::Client, "404")] {
        let mut asks = Solo::<Plain>::at(port, throng_solo::shared());
        asks.get("/pub", "");
        let told = asks.answers();
        assert!(told[0].starts_with(status), "{told:?}");
    }
}
