//! Exchanges with origins on loopback: bytes in both directions, and room for requests. The rules
//! of an exchange are tested with its peer, in `throng-backend`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use throng_gateway_grip::OriginExchange as _;
use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginTarget, TargetAddress};
use throng_http1::origin::{OriginEvent, OriginFailureKind, OriginRequest, RequestRest};
use throng_types::{ConnId, ShardId};

use super::{BackendLimits, Origin, OriginOptions, Ticket};

const CONN: ConnId = ConnId::new(ShardId(0), 1, 1);
/// Longest wait for an event; only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(30);

struct Run {
    origin: Origin,
    events: Receiver<(u32, OriginEvent)>,
}

fn run(options: OriginOptions) -> Run {
    let (send, events) = channel();
    let send = Mutex::new(send);
    let deliver = Arc::new(move |_, token, event| {
        // A receiver that is gone misses nothing.
        let _ = send.lock().expect("no panic").send((token, event));
        Ok(())
    });
    let origin = Origin::start(options, deliver).expect("threads");
    Run { origin, events }
}

fn asked(method: &str, to: &[SocketAddr]) -> OriginRequest {
    let targets = to
        .iter()
        .map(|at| OriginTarget::from_url(&format!("http://{at}")));
    let to = Destination {
        targets: targets.map(|target| target.expect("a target")).collect(),
        ..Destination::default()
    };
    OriginRequest::new(Arc::new(to), method, "/".to_owned(), Vec::new())
}

impl Run {
    fn submit(&self, token: u32, request: OriginRequest) -> Ticket {
        let ticket = self.origin.client().submit(CONN, token, request);
        ticket.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    fn next(&self) -> (u32, OriginEvent) {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// Status and body of one answer, or why there is none.
    fn answer(&self, request: OriginRequest) -> Result<(u16, String), OriginFailureKind> {
        let _ticket = self.submit(7, request);
        let (mut code, mut body) = (0, Vec::new());
        loop {
            match self.next().1 {
                OriginEvent::Head(head) => code = head.code,
                OriginEvent::Body(bytes) => body.extend(bytes),
                OriginEvent::Taken(_) => {}
                OriginEvent::End => return Ok((code, String::from_utf8(body).expect("text"))),
                OriginEvent::Failed(failure) => return Err(failure.fault),
            }
        }
    }
}

/// An origin that serves each connection with `serve`, which gets its number.
fn origin(serve: impl Fn(usize, TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            serve(number, stream);
        }
    });
    at
}

/// Reads a head; false at the end.
fn head(stream: &mut TcpStream) -> bool {
    let (mut bytes, mut piece) = (Vec::new(), [0; 512]);
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return false,
        }
    }
    true
}

fn say(stream: &mut TcpStream, body: &str) {
    let length = body.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(answer.as_bytes());
}

#[test]
fn a_connection_is_used_again_if_the_pool_has_room() {
    for (idle_max, numbers) in [(8, [0, 0, 0]), (0, [0, 1, 2])] {
        let at = origin(|number, mut stream| {
            thread::spawn(move || {
                while head(&mut stream) {
                    say(&mut stream, &format!("connection {number}"));
                }
            });
        });
        let run = run(OriginOptions {
            backend: BackendLimits {
                idle_max,
                ..BackendLimits::default()
            },
            ..OriginOptions::default()
        });
        for number in numbers {
            let answer = run.answer(asked("POST", &[at]));
            assert_eq!(answer, Ok((200, format!("connection {number}"))));
        }
    }
}

#[test]
fn the_target_test_is_in_the_process() {
    let run = run(OriginOptions::default());
    let to = |path: &str, prefix: &str, first: Option<SocketAddr>| {
        let mut request = asked("POST", first.as_slice());
        let destination = Arc::get_mut(&mut request.to).expect("ours alone");
        destination
            .targets
            .push(OriginTarget::new(TargetAddress::Test));
        request.matched_bytes = prefix.len();
        request.path = path.to_owned();
        request.headers.push(Header::new("Host", "t"));
        request.body = vec![7; 1 << 20];
        run.answer(request)
    };
    // Nobody listens on it any more.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nowhere = listener.local_addr().expect("an address");
    drop(listener);
    let hello = "Hello from the test target of Throng!\n".to_owned();
    assert_eq!(to("/", "", None), Ok((200, hello.clone())));
    assert_eq!(to("/a/", "/a/", None), Ok((200, hello.clone())));
    assert_eq!(to("/?channel=x", "", Some(nowhere)), Ok((200, hello)));
    let opened = "[stream opened]\n".to_owned();
    assert_eq!(to("/a/stream", "/a", None), Ok((200, opened)));
    assert_eq!(to("/other", "", None).map(|(code, _)| code), Ok(404));
}

/// Requests beyond the bound are refused, and so are upgrades, which have room of their own.
#[test]
fn requests_and_upgrades_have_room_of_their_own() {
    let at = origin(|_, mut stream| {
        // Until the other side goes.
        while head(&mut stream) {}
    });
    let room = |requests_max, tunnels_max| {
        run(OriginOptions {
            requests_max,
            tunnels_max,
            ..OriginOptions::default()
        })
    };
    let upgrade = || OriginRequest {
        rest: RequestRest::Upgrade,
        ..asked("GET", &[at])
    };
    for (run, free, full) in [
        (room(0, 1), upgrade(), asked("GET", &[at])),
        (room(1, 0), asked("GET", &[at]), upgrade()),
        (room(1, 1), asked("GET", &[at]), asked("GET", &[at])),
    ] {
        let _ticket = run.submit(1, free);
        let refused = run.origin.client().submit(CONN, 2, full);
        let fault = refused.err().map(|failure| failure.fault);
        assert_eq!(fault, Some(OriginFailureKind::Busy));
    }
}

#[test]
fn an_origin_is_read_no_faster_than_was_granted() {
    const WINDOW: usize = 64 << 10;
    let at = origin(|_, mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[7; 4096]).is_ok() {}
    });
    let run = run(OriginOptions::default());
    let ticket = run.submit(1, asked("GET", &[at]));
    let (mut taken, mut granted) = (0, WINDOW);
    while taken < 1 << 20 {
        let (_, event) = run.next();
        if let OriginEvent::Body(bytes) = event {
            taken += bytes.len();
            // One read may bring more than there was room for.
            assert!(taken <= granted + WINDOW, "{taken} of {granted}");
            // As soon as the window is used up, and not before.
            if taken >= granted {
                granted += WINDOW;
                ticket.grant(WINDOW);
            }
        }
    }
}

#[test]
fn what_follows_a_request_is_sent_and_reported() {
    let at = origin(|_, mut stream| {
        let (mut all, mut piece) = (Vec::new(), [0; 512]);
        while !all.ends_with(b"helloworld") {
            match stream.read(&mut piece) {
                Ok(count @ 1..) => all.extend_from_slice(&piece[..count]),
                _ => return,
            }
        }
        say(&mut stream, "helloworld");
    });
    let run = run(OriginOptions::default());
    let mut request = asked("PUT", &[at]);
    request.rest = RequestRest::Body(Some(10));
    let mut ticket = run.submit(1, request);
    ticket.send(b"hello".to_vec());
    assert_eq!(run.next().1, OriginEvent::Taken(5));
    ticket.send(b"world".to_vec());
    ticket.finish();
    assert_eq!(run.next().1, OriginEvent::Taken(5));
    assert!(matches!(run.next().1, OriginEvent::Head(head) if head.code == 200));
    assert_eq!(run.next().1, OriginEvent::Body(b"helloworld".to_vec()));
    assert_eq!(run.next().1, OriginEvent::End);
}
