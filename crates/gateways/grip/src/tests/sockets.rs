//! WebSockets: those that pass through to a backend, and those whose backend speaks HTTP.

use throng_http1::origin::RequestRest;
use throng_session::Gateway;

use super::*;

fn upgrades(path: &str) -> Client {
    Client::asks(&upgrade(path))
}

/// A server's frame, as `told` gives it.
fn text(text: &str) -> String {
    String::from_utf8_lossy(&of_server(text)).into_owned()
}

#[test]
fn bytes_pass_through_when_the_backend_has_accepted() {
    let mut client = upgrades("/a");
    let asked = client.asked();
    assert_eq!((asked.rest, &*asked.path), (RequestRest::Upgrade, "/a"));
    client.feeds(b"early");
    assert!(client.sent().is_empty());
    client.head(1, 101, &[ACCEPT, ("X-A", "1")]);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 101 "), "{told}");
    assert!(told.contains("X-A: 1\r\n"), "{told}");
    assert_eq!(client.sent(), [b"early"]);
    client.body(1, "anything");
    assert_eq!(client.told(), "anything");
    // A client that sends faster than the backend takes is not read for a while.
    client.feeds(&[b'x'; 65_531]);
    assert_eq!(client.solo.actions.pause, None);
    client.feeds(b"x");
    assert_eq!(client.solo.actions.pause, Some(true));
    client.feeds(b"x");
    assert_eq!(client.solo.actions.pause, None, "it is said once");
    client.backend(1, OriginEvent::Taken(40_000));
    assert_eq!(client.solo.actions.pause, Some(false));
    client.end(1);
    assert_eq!(client.solo.actions.end, Some(End::Flush));
}

#[test]
fn a_backend_may_refuse_a_websocket() {
    for (code, field, expected) in [
        (403, ("X-A", "1"), "HTTP/1.1 403 Fine\r\nX-A: 1\r\n"),
        (101, ("Sec-WebSocket-Accept", "another"), "HTTP/1.1 502 "),
    ] {
        let mut client = upgrades("/a");
        client.head(1, code, &[field]);
        let told = client.told();
        assert!(told.starts_with(expected), "{told}");
        client.body(1, "why");
        assert_eq!(client.told(), if code == 403 { "why" } else { "" });
    }
    // Bytes before the answer are kept up to a head's worth.
    let mut client = upgrades("/a");
    let max = client.solo.shared.limits.head_bytes_max;
    client.feeds(&vec![b'x'; max]);
    assert_eq!(client.solo.actions.end, None);
    client.feeds(b"x");
    assert_eq!(client.solo.actions.end, Some(End::Now));
}

#[test]
fn messages_of_a_backend_that_instructs_are_sorted() {
    let mut client = upgrades("/a");
    let extension = ("Sec-WebSocket-Extensions", "grip; message-prefix=\"m:\"");
    client.head(1, 101, &[ACCEPT, extension]);
    let told = client.told();
    assert!(!told.contains("Extensions"), "{told}");
    let to = |client: &mut Client, content: &str| {
        client.backend(1, OriginEvent::Body(of_server(content)));
        client.told()
    };
    assert_eq!(to(&mut client, "m:hello"), text("hello"));
    assert_eq!(to(&mut client, "dropped"), "");
    assert_eq!(
        to(&mut client, r#"c:{"type":"subscribe","channel":"a"}"#),
        ""
    );
    assert_eq!(
        to(&mut client, r#"c:{"type":"subscribe","channel":"a"}"#),
        ""
    );
    assert_eq!(client.hub, ["+grip:a"]);
    // The frame as the backend gets it: masked, so of the same length.
    client.feeds(&said("hi"));
    assert_eq!(client.sent().concat().len(), said("hi").len());
    // The backend gets no publications, but its client's close.
    client.item(r#"{"channel":"a","ws-message":{"content":"news"}}"#);
    client.told();
    assert!(client.sent().is_empty());
    client.item(r#"{"channel":"a","ws-message":{"action":"close","code":4000,"reason":"x"}}"#);
    assert!(client.told().ends_with('x'));
    assert_eq!(client.hub, ["+grip:a", "-grip:a"]);
    assert_eq!(client.sent().concat().first(), Some(&0x88), "a close frame");
}

/// Limit of the longest message, without the mark of the client's messages.
#[test]
fn a_backends_message_is_bounded() {
    let extension = ("Sec-WebSocket-Extensions", "grip; message-prefix=\"m:\"");
    for more in [0, 1] {
        let mut client = upgrades("/a");
        client.head(1, 101, &[ACCEPT, extension]);
        client.told();
        let message = "x".repeat((1 << 20) + more);
        let marked = of_server(&format!("m:{message}"));
        client.backend(1, OriginEvent::Body(marked));
        let is_told = client.told() == text(&message);
        assert_eq!((is_told, client.ended.is_none()), (more == 0, more == 0));
    }
}

/// A backend that has detached itself has nothing to do with the client any more.
#[test]
fn a_detached_backend_is_not_told_of_a_close() {
    let mut client = upgrades("/a");
    client.head(1, 101, &[ACCEPT, EXTENSION]);
    for order in [
        r#"{"type":"subscribe","channel":"a"}"#,
        r#"{"type":"detach"}"#,
    ] {
        let control = of_server(&format!("c:{order}"));
        client.backend(1, OriginEvent::Body(control));
    }
    client.sent();
    client.item(r#"{"channel":"a","ws-message":{"action":"close","code":4000,"reason":"x"}}"#);
    assert!(client.told().ends_with('x'));
    assert!(client.sent().is_empty());
}

#[test]
fn a_backend_that_speaks_http_gets_events() {
    let mut client = upgrades("/over");
    let asked = client.asked();
    assert_eq!((&*asked.method, &*asked.body), ("POST", &b"OPEN\r\n"[..]));
    client.head(1, 200, &[EVENTS, EXTENSION]);
    client.body(1, "OPEN\r\nTEXT 7\r\nm:hello\r\n");
    assert_eq!(client.told(), "", "its answer is not whole");
    client.end(1);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 101 "), "{told}");
    assert!(told.ends_with(&text("hello")), "{told}");
    client.feeds(&said("hi"));
    let asked = client.asked();
    assert_eq!(&*asked.body, b"TEXT 2\r\nhi\r\n");
    client.head(3, 200, &[EVENTS]);
    let subscribe = r#"c:{"type":"subscribe","channel":"a"}"#;
    client.body(3, &format!("TEXT {:x}\r\n{subscribe}\r\n", subscribe.len()));
    client.end(3);
    assert_eq!(client.hub, ["+grip:a"]);
    // Publications come as shared frames.
    let own = client.solo.own.clone();
    let shared = |json: &str| {
        let mut out = Vec::new();
        Grip::encode(&own, 2, &publication(json), None, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let sent = shared(r#"{"channel":"a","ws-message":{"content":"news"}}"#);
    assert_eq!(sent, text("news"));
    assert_eq!(
        shared(r#"{"channel":"a","ws-message":{"action":"close"}}"#),
        ""
    );
    // A publisher makes the backend be asked.
    client.refresh();
    assert_eq!(&*client.asked().body, b"");
}
