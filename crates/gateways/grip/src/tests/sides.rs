//! Effects of a backend on a client's WebSocket, and the client's rights: equal for backends by
//! WebSocket and by HTTP.

use throng_broker::Refusal;
use throng_session::{CloseReason, Meter, WorkLimits};
use throng_types::Disconnect;
use throng_ws::{CloseFrame, encode_close};

use super::*;

fn close(masking: Masking, code: u16, reason: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_close(masking, Some(CloseFrame { code, reason }), &mut frame);
    frame
}

/// A client's WebSocket, and how its backend speaks to it.
struct ZmqSocket {
    client: Client,
    over_http: bool,
    /// Token of the last exchange.
    token: u32,
}

impl ZmqSocket {
    /// A client that has asked for one.
    fn asks(over_http: bool, client: Client) -> Self {
        let mut client = client;
        let path = if over_http { "/over" } else { "/a" };
        client.says(&upgrade(path));
        client.asked();
        Self {
            client,
            over_http,
            token: 1,
        }
    }

    fn open(over_http: bool) -> Self {
        Self::opened(over_http, Client::new())
    }

    fn opened(over_http: bool, client: Client) -> Self {
        let mut socket = Self::asks(over_http, client);
        if over_http {
            socket
                .client
                .answer(1, 200, &[EVENTS, EXTENSION], "OPEN\r\n");
        } else {
            socket.client.head(1, 101, &[ACCEPT, EXTENSION]);
        }
        assert!(socket.client.told().starts_with("HTTP/1.1 101 "));
        socket
    }

    /// Sends a control message from the backend.
    fn control(&mut self, json: &str) {
        let text = format!("c:{json}");
        if self.over_http {
            // It is asked, so that it can answer.
            self.client.refresh();
            let at = { self.client.orders.iter() }
                .rev()
                .find_map(|order| match order {
                    Order::Ask { token, .. } => Some(*token),
                    _ => None,
                });
            self.token = at.expect("it is asked");
            self.client.orders.clear();
            let body = format!("TEXT {:x}\r\n{text}\r\n", text.len());
            self.client.answer(self.token, 200, &[EVENTS], &body);
        } else {
            self.client.backend(1, OriginEvent::Body(of_server(&text)));
        }
    }

    fn said(&mut self, bytes: &[u8]) {
        self.client.feeds(bytes);
    }

    fn told(&mut self) -> Vec<u8> {
        self.client.told_bytes()
    }

    /// Milliseconds until the time is of interest.
    fn due_ms(&self) -> Option<u64> {
        { self.client.due }.map(|at| at.since(self.client.solo.now.mono))
    }

    fn pass_ms(&mut self, ms: u64) {
        self.client.due = None;
        self.client.wait_ms(ms);
    }
}

/// A silent client gets the backend's keep-alive again and again; other messages put that off,
/// unless the backend asks for intervals.
#[test]
fn a_backend_may_want_signs_of_life() {
    for over_http in [false, true] {
        for (mode, due_ms) in [("idle", 20_000), ("interval", 12_000)] {
            let mut socket = ZmqSocket::open(over_http);
            socket.control(&format!(
                r#"{{"type":"keep-alive","content":"alive","timeout":20,"mode":"{mode}"}}"#
            ));
            assert_eq!(socket.due_ms(), Some(20_000));
            for _ in 0..2 {
                socket.pass_ms(19_999);
                assert_eq!(socket.told(), b"");
                assert_eq!(socket.due_ms(), Some(1));
                socket.pass_ms(1);
                assert_eq!(socket.told(), of_server("alive"));
                assert_eq!(socket.due_ms(), Some(20_000));
            }
            socket.control(r#"{"type":"subscribe","channel":"a","filters":["skip-self"]}"#);
            socket.pass_ms(8000);
            socket
                .client
                .item(r#"{"channel":"a","ws-message":{"content":"news"}}"#);
            assert_eq!(socket.told(), of_server("news"));
            assert_eq!(socket.due_ms(), Some(due_ms), "{mode}");
            // The backend may stop them.
            socket.control(r#"{"type":"keep-alive"}"#);
            socket.pass_ms(30_000);
            assert_eq!(socket.told(), b"");
        }
    }
}

/// A message may be sent later, once, or as soon as the backend asks for it.
#[test]
fn a_message_may_be_sent_later() {
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        let delayed = r#"{"type":"send-delayed","content":"later","timeout":7}"#;
        socket.control(delayed);
        assert_eq!(socket.due_ms(), Some(7000));
        socket.pass_ms(6999);
        assert_eq!(socket.told(), b"");
        socket.pass_ms(1);
        assert_eq!(socket.told(), of_server("later"));
        assert_eq!(socket.due_ms(), None);
        socket.control(delayed);
        socket.control(r#"{"type":"flush-delayed"}"#);
        assert_eq!(socket.told(), of_server("later"));
        socket.control(r#"{"type":"flush-delayed"}"#);
        socket.pass_ms(10_000);
        assert_eq!(socket.told(), b"");
    }
}

/// A backend subscribes its client to channels, once each, and takes it out of them again.
#[test]
fn a_backend_subscribes_its_client() {
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        let say = |socket: &mut ZmqSocket, kind: &str, channel: &str| {
            socket.control(&format!(r#"{{"type":"{kind}","channel":"{channel}"}}"#));
            std::mem::take(&mut socket.client.hub)
        };
        assert_eq!(say(&mut socket, "subscribe", "a"), ["+grip:a"]);
        assert_eq!(say(&mut socket, "subscribe", "b"), ["+grip:b"]);
        assert_eq!(say(&mut socket, "subscribe", "a"), [""; 0]);
        assert_eq!(say(&mut socket, "unsubscribe", "b"), ["-grip:b"]);
        assert_eq!(say(&mut socket, "unsubscribe", "b"), [""; 0]);
        assert_eq!(say(&mut socket, "subscribe", "b"), ["+grip:b"]);
        // With a filter its session looks at all that comes: it subscribes anew.
        socket.control(r#"{"type":"subscribe","channel":"c","filters":["skip-self"]}"#);
        let mut hub = std::mem::take(&mut socket.client.hub);
        hub.sort_unstable();
        assert_eq!(
            hub,
            [
                "+grip:a", "+grip:b", "+grip:c", "-grip:a", "-grip:b", "-grip:c"
            ][..]
        );
        // A client for which the server has no room is closed with that reason.
        let answer = Answer::Subscribed {
            channel: channel("c"),
            result: Err(Refusal::Busy),
        };
        socket.client.happens(Event::Answer { token: 0, answer });
        let told = socket.told();
        assert!(told.starts_with(&[0x88]), "{told:?}");
        assert_eq!(told[2..4], 1013_u16.to_be_bytes());
    }
}

/// A client gets as many channels as it may have.
#[test]
fn the_channels_of_a_websocket_are_bounded() {
    let mut socket = ZmqSocket::opened(false, Client::with(|options| options.channels_max = 2));
    for name in ["a", "b", "c"] {
        socket.control(&format!(r#"{{"type":"subscribe","channel":"{name}"}}"#));
    }
    assert_eq!(socket.client.hub, ["+grip:a", "+grip:b"]);
}

/// A route may give channels that the backend cannot take away.
#[test]
fn a_route_subscribes_its_websockets() {
    let client = || Client::with(|options| options.book = book("* localhost:7999,sub=own\n"));
    let mut socket = ZmqSocket::asks(false, client());
    assert_eq!(socket.client.hub, [""; 0], "not before it is one");
    socket.client.head(1, 101, &[ACCEPT, EXTENSION]);
    assert_eq!(std::mem::take(&mut socket.client.hub), ["+grip:own"]);
    socket.control(r#"{"type":"unsubscribe","channel":"own"}"#);
    assert_eq!(socket.client.hub, [""; 0]);
    // Its messages are sorted also if the backend says nothing of GRIP.
    let mut socket = ZmqSocket::asks(false, client());
    socket.client.head(1, 101, &[ACCEPT]);
    socket.told();
    socket
        .client
        .item(r#"{"channel":"own","ws-message":{"action":"close","code":4000}}"#);
    assert_eq!(socket.told()[2..4], 4000_u16.to_be_bytes());
}

/// A server that shuts down closes each client in its current protocol.
#[test]
fn a_server_that_goes_down_says_so() {
    let down = CloseReason::Because(Disconnect::Shutdown);
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        socket.client.happens(Event::Close(&down));
        assert_eq!(socket.told()[2..4], 1012_u16.to_be_bytes());
        assert_eq!(socket.client.ended, Some(End::Flush));
        let mut socket = ZmqSocket::asks(over_http, Client::new());
        socket.client.happens(Event::Close(&down));
        assert!(socket.told().starts_with(b"HTTP/1.1 503 "));
        assert_eq!(socket.client.ended, Some(End::Flush));
    }
}

/// A client that breaks the protocol, or sends more than it may, is closed with the code for that.
#[test]
fn a_client_that_does_wrong_is_closed() {
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        // A frame that is not masked.
        socket.said(b"\x81\x01x");
        assert_eq!(socket.told()[2..4], 1002_u16.to_be_bytes());
        assert_eq!(socket.client.ended, Some(End::Flush));
        let limits = WorkLimits {
            messages_per_s_max: 10,
            ..WorkLimits::NONE
        };
        let shared = Rc::new(Shared {
            meter: Meter::new(limits, [1, 2]),
            ..throng_solo::shared()
        });
        let id = ConnId::new(ShardId(0), 1, 1);
        let client = Client::of(id, Rc::new(GripShared::new(options())), shared);
        let mut socket = ZmqSocket::opened(over_http, client);
        let one = said("x");
        socket.said(&one.repeat(1000));
        // Messages before that are the backend's, and its answers are the client's.
        assert_eq!((socket.told(), socket.client.ended), (Vec::new(), None));
        let closed = close(Masking::Server, 1008, "too many messages");
        if over_http {
            assert_eq!(&*socket.client.asked().body, b"TEXT 1\r\nx\r\n");
            socket.client.answer(3, 200, &[EVENTS], "TEXT 3\r\nm:y\r\n");
            assert_eq!(socket.told(), of_server("y"));
            let asked = socket.client.asked();
            let rest = "TEXT 1\r\nx\r\n".repeat(19) + "CLOSE 13\r\n";
            let rest = [rest.as_bytes(), b"\x03\xf0too many messages\r\n"].concat();
            assert_eq!(*asked.body, rest[..]);
            socket.client.head(5, 200, &[EVENTS]);
            let answer = b"TEXT 3\r\nm:y\r\nCLOSE 2\r\n\x0f\xa0\r\n".to_vec();
            socket.client.backend(5, OriginEvent::Body(answer));
            socket.client.end(5);
        } else {
            assert_eq!(socket.client.sent().len(), 21);
            let of_backend = [of_server("m:y"), close(Masking::Server, 4000, "")].concat();
            socket.client.backend(1, OriginEvent::Body(of_backend));
        }
        assert_eq!(socket.told(), [of_server("y"), closed].concat());
        assert_eq!(socket.client.ended, Some(End::Flush));
    }
    // Before the handshake's answer, a head's worth of bytes is kept, and no more.
    let mut socket = ZmqSocket::asks(true, Client::new());
    let max = socket.client.solo.shared.limits.head_bytes_max;
    socket.said(&vec![b'x'; max]);
    assert_eq!(socket.client.ended, None);
    socket.said(b"x");
    assert_eq!(socket.client.ended, Some(End::Now));
}

/// A close goes through to the other side, and both have ended after it; one that is not answered
/// is waited for for five seconds.
#[test]
fn a_close_is_answered_by_the_other_side() {
    let goes = close(Masking::Client([0; 4]), 4001, "bye");
    let mut socket = ZmqSocket::open(false);
    socket.said(&goes);
    assert_eq!(socket.client.sent().concat().len(), goes.len());
    assert_eq!((socket.told(), socket.client.ended), (Vec::new(), None));
    let answer = close(Masking::Server, 4001, "bye");
    socket.client.backend(1, OriginEvent::Body(answer.clone()));
    assert_eq!(socket.told(), answer);
    assert_eq!(socket.client.ended, Some(End::Flush));
    // By HTTP.
    let mut socket = ZmqSocket::open(true);
    socket.said(&goes);
    let asked = socket.client.asked();
    assert_eq!(&*asked.body, b"CLOSE 5\r\n\x0f\xa1bye\r\n");
    assert_eq!(socket.client.ended, None);
    socket.client.answer(3, 200, &[EVENTS], "CLOSE 5\r\n\u{f}");
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        socket.said(&goes);
        assert_eq!(socket.due_ms(), Some(5000));
        socket.pass_ms(4999);
        assert_eq!(socket.client.ended, None);
        socket.pass_ms(1);
        assert_eq!(socket.client.ended, Some(End::Flush));
    }
}

/// A backend that lets go of its client leaves it its channels; pings and closes are answered here.
#[test]
fn a_client_without_its_backend_goes_on() {
    for over_http in [false, true] {
        let mut socket = ZmqSocket::open(over_http);
        socket.control(r#"{"type":"subscribe","channel":"a"}"#);
        socket.control(r#"{"type":"detach"}"#);
        assert_eq!(socket.client.has_forgotten(), !over_http);
        socket.client.orders.clear();
        socket.said(b"\x89\x82\0\0\0\0hi");
        assert_eq!(socket.told(), b"\x8a\x02hi");
        socket.said(&said("nobody"));
        assert_eq!(socket.told(), b"");
        assert!(
            socket.client.orders.is_empty(),
            "{:?}",
            socket.client.orders
        );
        if !over_http {
            socket.client.backend(1, OriginEvent::End);
            assert_eq!(socket.client.ended, None);
        }
        socket.said(&close(Masking::Client([0; 4]), 1000, ""));
        assert!(socket.told().starts_with(&[0x88]));
        assert_eq!(socket.client.ended, Some(End::Flush));
    }
}

/// A client that sends more than its backend takes is not read; all of it arrives.
#[test]
fn a_client_is_read_as_fast_as_its_backend_takes_it() {
    let mut socket = ZmqSocket::open(true);
    let max = socket
        .client
        .solo
        .shared
        .limits
        .message_bytes_max
        .max(200_000);
    let piece = vec![b'x'; max / 4];
    let one = frame(Masking::Client([0; 4]), Opcode::Text, &piece);
    let mut said = 0;
    while !socket.client.is_paused {
        socket.said(&one);
        said += 1;
        assert!(said < 20, "it is not read for ever");
    }
    assert!((4..=7).contains(&said), "{said}");
    let mut token = 3;
    let mut messages = 0;
    while messages < said {
        let asked = socket.client.asked();
        messages += asked
            .body
            .windows(5)
            .filter(|word| word == b"TEXT ")
            .count();
        socket.client.answer(token, 200, &[EVENTS], "");
        token += 2;
        assert!(token < 100, "all of it arrives");
    }
    assert_eq!(messages, said);
    assert!(!socket.client.is_paused);
}

/// A backend that cannot be reached for a moment is asked again; one that broke off in the middle
/// may have read the request, and is not.
#[test]
fn a_backend_that_fails_is_asked_again() {
    for (fault, is_repeated) in [
        (OriginFailureKind::Unreachable, true),
        (OriginFailureKind::Busy, true),
        (OriginFailureKind::Unsent, true),
        (OriginFailureKind::Timeout, false),
        (OriginFailureKind::Cut, false),
    ] {
        let mut socket = ZmqSocket::open(true);
        socket.said(&said("hi"));
        let asked = socket.client.asked();
        socket.client.backend(3, failed(fault));
        assert_eq!(socket.client.ended.is_none(), is_repeated, "{fault:?}");
        if is_repeated {
            let due_ms = socket.due_ms().expect("it is tried again");
            assert!((1..10_000).contains(&due_ms), "{due_ms}");
            socket.pass_ms(due_ms);
            assert_eq!(socket.client.asked().body, asked.body);
        }
    }
}
