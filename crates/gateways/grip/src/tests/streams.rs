//! Streams: beginning, keep-alive, links, and end.

use super::*;
use crate::sequencer::LastItem;

const HOLD: [(&str, &str); 2] = [("Grip-Hold", "stream"), ("Grip-Channel", "a")];
/// The client has an item already, and there is more by a link.
const RELIABLE: [(&str, &str); 3] = [
    ("Grip-Hold", "stream"),
    ("Grip-Channel", "a; prev-id=1"),
    ("Grip-Link", "</next>; rel=next; timeout=60"),
];

fn content(id: u32, prev: u32, content: &str) -> String {
    let ids = format!(r#""id":"{id}","prev-id":"{prev}""#);
    format!(r#"{{"channel":"a",{ids},"http-stream":{{"content":"{content}"}}}}"#)
}

/// A client on a stream with the body `hi`, and its head taken away.
fn stream(fields: &[(&str, &str)]) -> Client {
    let mut client = Client::gets();
    client.asked();
    client.head(1, 200, fields);
    assert_eq!(
        (client.told(), &*client.hub),
        (String::new(), &["+grip:a".to_owned()][..])
    );
    client.joins("a");
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 200 Fine\r\n"), "{told}");
    assert!(
        told.ends_with("Transfer-Encoding: chunked\r\n\r\n"),
        "{told}"
    );
    client.body(1, "hi");
    assert_eq!(client.told(), "2\r\nhi\r\n");
    client.end(1);
    client
}

#[test]
fn a_stream_begins_when_its_client_is_a_member() {
    let mut client = stream(&HOLD);
    assert_eq!(
        client.solo.actions.hold,
        Some(false),
        "deliveries may leave"
    );
    assert_eq!(client.deadline_ms(), None);
    client.item(r#"{"channel":"a","http-stream":{"action":"close"}}"#);
    assert_eq!(client.told(), "0\r\n\r\n");
    assert!(matches!(client.orders[..], [Order::Leave { .. }]));
    let flow = client.solo.act(|session, cx| session.left(cx));
    assert!(
        matches!(flow, Some(Flow::Http(_))),
        "the next request may come"
    );
    // A client that has sent bytes meanwhile cannot be served further.
    let mut client = stream(&HOLD);
    client.says("GET ");
    client.item(r#"{"channel":"a","http-stream":{"action":"close"}}"#);
    assert_eq!(client.told(), "0\r\n\r\n");
    assert_eq!(client.solo.actions.end, Some(End::Flush));
    // A client that asked for no further request gets none.
    let mut client = Client::asks("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.head(1, 200, &HOLD);
    client.joins("a");
    client.end(1);
    client.item(r#"{"channel":"a","http-stream":{"action":"close"}}"#);
    assert!(client.told().ends_with("0\r\n\r\n"));
    assert_eq!(client.solo.actions.end, Some(End::Flush));
    // To HEAD there is no stream.
    let mut client = Client::asks("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head(1, 200, &HOLD);
    assert!(client.hub.is_empty());
}

#[test]
fn a_silent_stream_is_kept_alive() {
    let keep_alive = ("Grip-Keep-Alive", "ping; timeout=10");
    let mut client = stream(&[HOLD[0], HOLD[1], keep_alive]);
    for _ in 0..5 {
        let due_ms = client.deadline_ms().expect("a deadline");
        assert!((9000..=10_000).contains(&due_ms), "{due_ms}");
        client.wait_ms(due_ms - 1);
        assert_eq!(client.told(), "", "it is not time");
        client.wait_ms(1);
        assert_eq!(client.told(), "4\r\nping\r\n");
    }
    // Sent bytes restart the silence.
    let due_ms = client.deadline_ms().expect("a deadline");
    client.solo.now.mono = client.solo.now.mono + 5000;
    let now = client.solo.now;
    client.solo.act(|session, _| match session {
        crate::Session::Held(held) => held.touch(now),
        _ => panic!("no stream"),
    });
    client.wait_ms(due_ms - 5000);
    assert_eq!(client.told(), "");
    assert_eq!(client.deadline_ms(), Some(10_000 - (due_ms - 5000)));
}

#[test]
fn a_gap_is_filled_by_the_link() {
    let mut client = stream(&RELIABLE);
    let is_question = |order: &Order| matches!(order, Order::LastId { .. });
    assert!(client.orders.iter().any(is_question));
    client.orders.clear();
    client.item(&content(1, 0, "old"));
    assert_eq!(client.told(), "");
    client.item(&content(2, 1, "two"));
    assert_eq!(client.told(), "3\r\ntwo\r\n");
    client.item(&content(4, 3, "four"));
    let asked = client.asked();
    assert_eq!(asked.path, "/next");
    let last = asked.headers.iter().find(|field| field.is("Grip-Last"));
    assert_eq!(last.map(|last| &last.value[..]), Some(&b"a; last-id=2"[..]));
    // The backend has sent up to the third, and the fourth waits; then it is next.
    client.item(&content(5, 4, "five"));
    assert_eq!(client.told(), "");
    client.head(1, 500, &[]);
    let up_to_3 = [RELIABLE[0], ("Grip-Channel", "a; prev-id=3"), RELIABLE[2]];
    client.head(2, 200, &up_to_3);
    client.body(2, "three");
    assert_eq!(client.told(), "5\r\nthree\r\n");
    client.end(2);
    assert_eq!(client.told(), "4\r\nfour\r\n4\r\nfive\r\n");
    assert_eq!(client.hub, ["+grip:a"], "it stays where it is");
    // Waiting items without a predecessor after the backend was asked cause another question, and
    // items from before do not: the backend knows of them.
    client.item(&content(9, 8, "nine"));
    client.asked();
    client.head(
        3,
        200,
        &[RELIABLE[0], ("Grip-Channel", "a; prev-id=7"), RELIABLE[2]],
    );
    client.end(3);
    assert!(client.orders.is_empty(), "{:?}", client.orders);
    client.item(&content(12, 11, "x"));
    client.asked();
    client.item(&content(14, 13, "y"));
    client.head(
        4,
        200,
        &[RELIABLE[0], ("Grip-Channel", "a; prev-id=10"), RELIABLE[2]],
    );
    client.end(4);
    client.asked();
}

#[test]
fn links_are_fetched_in_silence_and_in_doubt() {
    // A minute of silence, of which up to a quarter is taken off.
    let mut client = stream(&RELIABLE);
    let due_ms = client.deadline_ms().expect("a deadline");
    assert!((45_000..=60_000).contains(&due_ms), "{due_ms}");
    client.wait_ms(due_ms - 1);
    assert!(!client.is_asking());
    client.wait_ms(1);
    client.asked();
    assert_eq!(client.deadline_ms(), None);
    // A link that fails is tried again, some times.
    for retry in 0..5 {
        client.head(2 + retry, 500, &[]);
        let due_ms = client.deadline_ms().expect("a deadline");
        let base_ms = 1000 << retry;
        assert!(
            (base_ms..base_ms + 1000).contains(&due_ms),
            "{retry}: {due_ms}"
        );
        client.wait_ms(due_ms);
        client.asked();
    }
    client.head(7, 500, &[]);
    assert_eq!(client.solo.actions.end, Some(End::Flush));
    // After news the minute begins anew.
    let mut client = stream(&RELIABLE);
    let due_ms = client.deadline_ms().expect("a deadline");
    client.solo.now.mono = client.solo.now.mono + (due_ms - 10_000);
    client.item(&content(2, 1, "two"));
    client.wait_ms(10_000);
    assert!(!client.is_asking());
    assert_eq!(client.deadline_ms(), Some(50_000));
    // The last page ends it.
    client.wait_ms(50_000);
    client.asked();
    client.head(2, 200, &[]);
    client.body(2, "bye");
    client.told();
    client.end(2);
    assert_eq!(client.told(), "0\r\n\r\n");
    // A client with an older id than the last item asks at once; where nothing is known, soon.
    for (last, asks, soon) in [
        (LastItem::Id("1".into()), false, false),
        (LastItem::Id("2".into()), true, false),
        (LastItem::Quiet, false, false),
        (LastItem::Unknown, false, true),
    ] {
        let mut client = stream(&RELIABLE);
        client
            .solo
            .act(|session, cx| session.last_item(&channel("a"), &last, cx));
        client.sort();
        let has_asked = client.is_asking();
        assert_eq!(has_asked, asks, "{last:?}");
        let is_soon = client
            .deadline_ms()
            .is_some_and(|ms| (1000..2000).contains(&ms));
        assert_eq!(is_soon, soon, "{last:?}");
    }
    // A publisher makes all sessions ask.
    let mut client = stream(&RELIABLE);
    client.recover();
    client.asked();
}

/// More than is kept while a link is fetched ends the stream; the client comes back for it.
#[test]
fn so_much_waits_behind_a_link() {
    let mut client = stream(&RELIABLE);
    client.item(&content(4, 3, "x"));
    client.asked();
    for id in 5..104 {
        client.item(&content(id, id - 1, "x"));
        assert_eq!(client.solo.actions.end, None, "{id}");
    }
    client.item(&content(104, 103, "x"));
    assert_eq!(client.solo.actions.end, Some(End::Flush));
}

/// A link's answer without a hold is a page: the next one follows at once, and the last one ends
/// the stream. One that holds goes on, with another link or without.
#[test]
fn links_are_pages_or_hold_on() {
    let next = ("Grip-Link", "</page>; rel=next; timeout=60");
    for (fields, asks, ends) in [
        (&[next][..], true, false),
        (&[("Grip-Status", "200")][..], false, true),
        (&[RELIABLE[0], RELIABLE[1], next][..], false, false),
        (&[RELIABLE[0], RELIABLE[1]][..], false, false),
    ] {
        let mut client = stream(&RELIABLE);
        client.item(&content(4, 3, "four"));
        client.asked();
        client.head(2, 200, fields);
        client.body(2, "page");
        assert_eq!(client.told(), "4\r\npage\r\n", "{fields:?}");
        client.end(2);
        assert_eq!(client.told() == "0\r\n\r\n", ends, "{fields:?}");
        assert_eq!(client.deadline_ms() == Some(0), asks, "{fields:?}");
        if asks {
            client.wait_ms(0);
            assert_eq!(client.asked().path, "/page");
        }
    }
}

/// An answer without a hold that names a link is the first page. One that holds its client for a
/// single publication is no page, with or without a link.
#[test]
fn an_answer_with_a_link_is_the_first_page() {
    let next = ("Grip-Link", "</page>; rel=next; timeout=60");
    let mut client = Client::gets();
    client.asked();
    client.head(1, 200, &[next]);
    client.body(1, "first");
    let told = client.told();
    assert!(told.ends_with("5\r\nfirst\r\n"), "{told}");
    client.end(1);
    assert_eq!(client.told(), "", "it goes on");
    assert_eq!(client.deadline_ms(), Some(0));
    client.wait_ms(0);
    assert_eq!(client.asked().path, "/page");
    client.answer(2, 200, &[], "last");
    assert_eq!(client.told(), "4\r\nlast\r\n0\r\n\r\n");
    let mut client = Client::gets();
    client.asked();
    client.answer(
        1,
        200,
        &[("Grip-Hold", "response"), HOLD[1], next],
        "timeout",
    );
    client.joins("a");
    assert_eq!(client.told(), "");
    client.item(r#"{"channel":"a","http-response":{"body":"news"}}"#);
    let told = client.told();
    assert!(told.ends_with("Content-Length: 4\r\n\r\nnews"), "{told}");
}
