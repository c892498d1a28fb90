//! Calls of the API port: how long a head and a body may take, over a played clock; and
//! `POST /api/reload`, a call that waits for another thread.

use throng_gateway_plain::Plain;
use throng_session::{CloseReason, Event, Gateway, Port, Reloaded, Transport};
use throng_solo::{Order, Solo};
use throng_types::{Disconnect, End, Millis};

/// Values of `limits.head_timeout` and `limits.keepalive_timeout`.
const HEAD_MS: u64 = 10_000;
const KEEPALIVE_MS: u64 = 60_000;

/// Feeds bytes so much later.
fn later(solo: &mut Solo<Plain>, ms: u64, bytes: &[u8]) {
    solo.now.mono = solo.now.mono + ms;
    solo.feed(bytes);
}

fn deadline(solo: &Solo<Plain>) -> Option<u64> {
    let set = solo.actions.deadline.expect("the deadline is set anew");
    set.map(|at| at.since(solo.now.mono))
}

fn head(bytes: usize) -> String {
    format!("POST /pub?channel=a HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n")
}

#[test]
fn an_upload_that_goes_on_is_not_cut() {
    let mut solo = Solo::<Plain>::caller(throng_solo::shared());
    let all = 64 * 1024;
    solo.feed(head(all).as_bytes());
    assert_eq!(deadline(&solo), Some(HEAD_MS));
    // A kilobyte a second takes a minute, six times what a head may take.
    for _ in 0..63 {
        later(&mut solo, 1000, &[b'x'; 1024]);
        assert!(deadline(&solo).is_some_and(|left| left >= HEAD_MS));
        assert_eq!(solo.actions.end, None);
    }
    assert!(solo.orders.is_empty());
    later(&mut solo, 1000, &[b'x'; 1024]);
    assert_eq!(solo.orders.len(), 1, "it is published");
    assert!(solo.out.is_empty());
}

#[test]
fn a_body_that_drips_ends() {
    for chunked in [false, true] {
        let mut solo = Solo::<Plain>::caller(throng_solo::shared());
        let (head, drop) = match chunked {
            false => (head(1000), &b"x"[..]),
            true => (
                head(0).replace("Content-Length: 0", "Transfer-Encoding: chunked"),
                &b"1\r\nx\r\n"[..],
            ),
        };
        solo.feed(head.as_bytes());
        // A byte each eight seconds: each buys some milliseconds.
        later(&mut solo, 8000, drop);
        assert_eq!(deadline(&solo), Some(2000 + 1000 / 256));
        solo.now.mono = Millis(HEAD_MS + 3);
        solo.event(Event::Timeout);
        let told = solo.told();
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
        assert_eq!(solo.actions.end, Some(End::Flush));
    }
}

/// The second head had the time of an idle connection, six times as long.
#[test]
fn later_heads_have_no_more_time_than_the_first() {
    let mut solo = Solo::<Plain>::caller(throng_solo::shared());
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    // The first one's time began when the connection was accepted.
    let (first, second) = request.split_at(10);
    solo.feed(first.as_bytes());
    assert_eq!(solo.actions.deadline, None);
    later(&mut solo, 5000, second.as_bytes());
    assert_eq!(deadline(&solo), Some(KEEPALIVE_MS));
    later(&mut solo, 30_000, first.as_bytes());
    assert_eq!(deadline(&solo), Some(HEAD_MS));
    // More of it buys no time.
    later(&mut solo, 5000, b"Hos");
    assert_eq!(solo.actions.deadline, None);
    // One that came in pieces behind a whole one has its time, too.
    let mut solo = Solo::<Plain>::caller(throng_solo::shared());
    solo.feed(format!("{request}{first}").as_bytes());
    assert_eq!(deadline(&solo), Some(HEAD_MS));
}

const CALL: &str = "POST /api/reload HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n";
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n";

fn call(port: Port, request: &str) -> Solo<Plain> {
    let mut call = Solo::at(port, throng_solo::shared());
    call.feed(request.as_bytes());
    call
}

#[test]
fn a_reload_is_ordered_and_answered_when_it_is_done() {
    let mut call = call(Port::Api, CALL);
    let orders = std::mem::take(&mut call.orders);
    let [Order::Reload(who)] = orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(who, call.id);
    assert_eq!(call.actions.deadline, Some(None), "however long it takes");
    let session = call.session().expect("it waits");
    let class = Plain::class(session);
    assert_eq!(class.transport, Transport::Http);
    assert!(!class.is_client && class.identity.is_none());
    assert!(!Plain::moves(session), "it does not move");
    // What comes behind it waits, and no more is read.
    call.feed(HEALTH.as_bytes());
    assert_eq!(call.actions.pause, Some(true));
    assert!(call.out.is_empty());
    let refused = Reloaded::Refused(vec!["t.toml:3:1: no".to_owned()]);
    call.event(Event::Reloaded(&refused));
    let expected = [r#"422 {"problems":["t.toml:3:1: no"]}"#, "200 ok"];
    assert_eq!(call.answers(), expected);
    assert_eq!((call.actions.pause, call.actions.end), (Some(false), None));
}

#[test]
fn a_call_that_waits_ends_with_its_server_and_after_its_answer() {
    let mut ends = call(Port::Api, CALL);
    let why = CloseReason::Because(Disconnect::Shutdown);
    ends.event(Event::Close(&why));
    assert_eq!(ends.actions.end, None, "the answer still comes");
    ends.event(Event::Reloaded(&Reloaded::Unavailable));
    assert!(ends.answers()[0].starts_with("503 "));
    assert_eq!(ends.actions.end, Some(End::Flush));
    let mut late = call(Port::Api, CALL);
    late.event(Event::Timeout);
    assert_eq!(late.actions.end, Some(End::Flush));
}

#[test]
fn it_is_posted_to_the_api_port_alone() {
    let get = CALL.replace("POST", "GET");
    for (port, request, status) in [
        (Port::Client, CALL, "404"),
        (Port::Api, get.as_str(), "405"),
    ] {
        let mut call = call(port, request);
        assert!(call.orders.is_empty());
        assert!(call.answers()[0].starts_with(status));
    }
}
