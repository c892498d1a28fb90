//! Requests and messages in pieces, bounds of those without an answer, and compressed bytes.

use std::io::Read as _;

use throng_broker::Recovery;
use throng_gateway_plain::Plain;
use throng_session::{CloseReason, Event, Gateway as _, Port, PublishOutcome};
use throng_solo::{Solo, WEBSOCKET, publication};
use throng_types::{Disconnect, Epoch, Position};
use throng_ws::{WsDecoder, WsLimits, WsRole};

use crate::given::{head, message};
use crate::stage::Story;

fn post(target: &str, more: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n{more}\r\n1")
}

/// Takes the ordered publications: channels and tokens.
fn ordered(publisher: &mut Solo<Plain>) -> Vec<(String, u32)> {
    let orders = publisher.published().into_iter();
    let each = orders.flat_map(|(first, drafts)| {
        let names = drafts.into_iter().map(|draft| draft.channel.to_string());
        names.zip(first..)
    });
    each.collect()
}

fn at(offset: u64) -> PublishOutcome {
    let epoch = Epoch(11);
    Ok(Some(Position { epoch, offset }))
}

/// A connection that has taken these steps.
fn opened(steps: &str) -> Solo<Plain> {
    let mut story = Story::default();
    story.take(steps);
    story.solo
}

/// A publisher whose handshake was answered.
fn publisher() -> Story {
    let mut story = Story::default();
    story.take("port api\nopens /pub\nskips\n");
    story
}

#[test]
fn no_more_than_a_bound_are_without_an_answer() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let many: String = (0..1500)
        .map(|n| post(&format!("/pub?channel=c{n}"), ""))
        .collect();
    let mut rest = many.as_bytes();
    // As reads bring them, in the middle of anything.
    while !rest.is_empty() && publisher.actions.pause.is_none() {
        let (now, later) = rest.split_at(rest.len().min(7001));
        publisher.feed(now);
        rest = later;
    }
    assert_eq!(ordered(&mut publisher).len(), 1024);
    assert_eq!(publisher.actions.pause, Some(true));
    for token in 0..1024 {
        publisher.answer(token, Ok(None));
    }
    assert_eq!(publisher.answers().len(), 1024);
    publisher.feed(rest);
    let tokens: Vec<u32> = { ordered(&mut publisher) }
        .into_iter()
        .map(|(_, token)| token)
        .collect();
    assert_eq!(tokens, Vec::from_iter(1024..1500));
}

#[test]
fn a_body_in_pieces_does_not_wait() {
    let both = post("/pub?channel=a", "") + &post("/pub?channel=b", "");
    for cut in 0..both.len() {
        let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
        publisher.feed(&both.as_bytes()[..cut]);
        publisher.feed(&both.as_bytes()[cut..]);
        let numbered = ["a", "b"].map(str::to_owned).into_iter().zip(0..);
        assert_eq!(ordered(&mut publisher), Vec::from_iter(numbered), "{cut}");
        publisher.answer(1, at(2));
        publisher.answer(0, at(1));
        assert_eq!(publisher.answers().len(), 2, "{cut}");
    }
}

#[test]
fn long_requests_without_an_answer_are_few() {
    let mut publisher = Solo::<Plain>::caller(throng_solo::shared());
    let bytes = publisher.shared.limits.publish_bytes_max;
    let body = "x".repeat(bytes);
    let long = |channel: u32| {
        let head = format!("POST /pub?channel={channel} HTTP/1.1\r\nHost: t\r\n");
        format!("{head}Content-Length: {bytes}\r\n\r\n{body}")
    };
    // Two of the longest, with heads as long as they may be, are more than two of these.
    let requests: String = (0..6).map(long).collect();
    publisher.feed(requests.as_bytes());
    assert_eq!(ordered(&mut publisher).len(), 3);
    assert_eq!(publisher.actions.pause, Some(true));
    for token in 0..3 {
        publisher.answer(token, Ok(None));
    }
    assert_eq!(ordered(&mut publisher).len(), 3);
    // Answered requests no longer count.
    publisher.answer(3, Ok(None));
    publisher.feed(long(6).as_bytes());
    assert_eq!(ordered(&mut publisher), [("6".to_owned(), 6)]);
}

#[test]
fn a_message_in_pieces_is_the_same_message() {
    let whole = ["a\\n1", "bad", "b\\n2"].map(message).concat();
    for cut in 0..whole.len() {
        let mut story = publisher();
        story.solo.feed(&whole[..cut]);
        story.solo.feed(&whole[cut..]);
        let orders = story.solo.published();
        let names: Vec<(u32, &str)> = { orders.iter() }
            .map(|(first, drafts)| (*first, drafts[0].channel.as_str()))
            .collect();
        assert_eq!(names, [(1, "a"), (3, "b")], "{cut}");
        assert!(!story.said().contains(" ; "), "{cut}");
    }
}

#[test]
fn so_many_messages_are_without_an_answer() {
    let mut story = publisher();
    let each = |n: u32| message(&format!("c{n}\\n"));
    story
        .solo
        .feed(&(0..1023).flat_map(each).collect::<Vec<u8>>());
    assert_eq!(story.solo.actions.pause, None);
    story.solo.feed(&each(1));
    assert_eq!(story.solo.actions.pause, Some(true));
    let (mut paused, mut acks) = (true, 0);
    for number in 1..=1024 {
        story.solo.answer(number, Ok(None));
        acks += story.said().matches("ack").count();
        if let Some(pause) = story.solo.actions.pause {
            assert!(!pause && paused && number == 512, "{number}");
            paused = false;
        }
    }
    assert!(!paused);
    assert_eq!(acks, 16, "one for 64");
}

/// A compressed delivery of a WebSocket is the same message.
#[test]
fn a_compressed_message_says_the_same() {
    let text = "the same again and again, ".repeat(100);
    let publication = publication("a", 1, &text);
    let mut out = Vec::new();
    Plain::encode(&Default::default(), 5, &publication, None, &mut out);
    assert!(out.len() < text.len() / 10, "{} bytes", out.len());
    let limits = WsLimits {
        deflates: true,
        ..WsLimits::new(1 << 20)
    };
    let mut heard = Vec::new();
    WsDecoder::new(WsRole::Client)
        .feed(&mut out, &limits, |event| {
            if let throng_ws::WsEvent::Message { data, .. } = event {
                heard.extend_from_slice(data);
            }
            std::ops::ControlFlow::Continue(())
        })
        .expect("a good frame");
    assert_eq!(heard, text.as_bytes());
}

/// A compressed stream decompresses to the bytes of an uncompressed one.
#[test]
fn a_compressed_stream_says_the_same() {
    for (path, forms) in [("/sse", [1, 6]), ("/stream", [2, 7])] {
        let said = forms.map(|form| {
            let takes = if form >= 6 { "gzip" } else { "br" };
            let mut solo = opened(&format!(
                "with compressed\nopens {path}?channel=a | Accept-Encoding: {takes}\n"
            ));
            let head = solo.out.windows(4).position(|window| window == b"\r\n\r\n");
            solo.out.drain(..head.expect("a head") + 4);
            solo.subscribed("a", Ok(Recovery::Whole(vec![publication("a", 3, "a3")])));
            let deliver = |solo: &mut Solo<Plain>, offset, text: &str| {
                let publication = publication("a", offset, text);
                Plain::encode(&Default::default(), form, &publication, None, &mut solo.out);
            };
            deliver(&mut solo, 4, &"the same again and again, ".repeat(9000));
            solo.event(Event::Drained { dropped: 3 });
            deliver(&mut solo, 5, "a5");
            solo.event(Event::Close(&CloseReason::Because(Disconnect::Shutdown)));
            let mut wire = std::mem::take(&mut solo.out);
            if path == "/stream" {
                wire = unchunked(&wire);
            }
            if form < 6 {
                return wire;
            }
            assert!(wire.len() < 3000, "{} bytes", wire.len());
            let mut plain = Vec::new();
            // It is cut off, as every stream of events is.
            let _ = flate2::read::GzDecoder::new(&wire[..]).read_to_end(&mut plain);
            plain
        });
        assert!(said[0].len() > 234_000);
        assert!(said[0] == said[1], "{path}");
    }
}

/// The bytes of whole chunks.
fn unchunked(mut wire: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let end = wire.iter().position(|&byte| byte == b'\r').expect("a size");
        let size = std::str::from_utf8(&wire[..end]).expect("a number");
        let size = usize::from_str_radix(size, 16).expect("a number");
        if size == 0 {
            return bytes;
        }
        bytes.extend_from_slice(&wire[end + 2..end + 2 + size]);
        wire = &wire[end + 4 + size..];
    }
}

/// A request may arrive in pieces, with bytes behind it, before the answer.
#[test]
fn a_request_that_waits_may_come_in_pieces() {
    for (path, fields) in [("/ws", WEBSOCKET), ("/sse", ""), ("/stream", "")] {
        // A ping, masked with zeros: only a WebSocket reads it, and answers it.
        let ping = b"\x89\x82\0\0\0\0ab";
        let mut wire = head("GET", &format!("{path}?channel=open:a"), fields).into_bytes();
        wire.extend(ping);
        let mut expected = None;
        for cut in 0..=wire.len() {
            let mut story = Story::default();
            story.take("with keys, namespaces, backends\ncalls\n");
            story.solo.feed(&wire[..cut]);
            story.solo.feed(&wire[cut..]);
            story.take("> nothing\nasked {}\nreplies 200 {\"result\":{\"user\":\"ann\"}}\n");
            let told = story.told();
            assert_eq!(
                told.ends_with("\\x8a\\x02ab"),
                path == "/ws",
                "{path}: {told}"
            );
            assert_eq!(
                *expected.get_or_insert_with(|| told.clone()),
                told,
                "{path} {cut}"
            );
        }
    }
}

#[test]
fn http2_begins_wherever_its_first_bytes_are_cut() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (may, is_tls, begins) in [
        ([true, true], false, true),
        ([false, true], true, true),
        ([false, true], false, false),
        ([false, false], true, false),
    ] {
        for cut in 0..PREFACE.len() {
            let mut shared = throng_solo::shared();
            shared.limits.http2 = may;
            shared.is_tls.set(is_tls);
            let mut solo = Solo::<Plain>::at(Port::Client, shared);
            let mut came = 0;
            for end in [cut, PREFACE.len()] {
                if solo.actions.http2.is_none() && solo.actions.end.is_none() {
                    solo.feed(&PREFACE[came..end]);
                    came = end;
                }
            }
            assert_eq!(solo.actions.http2.is_some(), begins, "{cut}");
            match begins {
                true => assert_eq!(solo.out, &PREFACE[..came], "{cut}"),
                false => assert!(solo.told().starts_with("HTTP/1.1 505 "), "{cut}"),
            }
        }
    }
}
