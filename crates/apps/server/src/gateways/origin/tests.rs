//! Exchanges with origins on loopback: which connection is used, and what happens when one fails.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use throng_gateway_grip::Ticket as _;
use throng_http1::field::Header;
use throng_http1::origin::{Destination, Target, TargetAddress};
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
        .map(|at| Target::from_url(&format!("http://{at}")));
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

fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

#[test]
fn a_connection_is_used_again() {
    let at = origin(|number, mut stream| {
        while head(&mut stream) {
            say(&mut stream, &format!("connection {number}"));
        }
    });
    let run = run(OriginOptions::default());
    for _ in 0..3 {
        let answer = run.answer(asked("POST", &[at]));
        assert_eq!(answer, Ok((200, "connection 0".to_owned())));
    }
}

#[test]
fn without_room_in_the_pool_each_request_connects() {
    let at = origin(|number, mut stream| {
        if head(&mut stream) {
            say(&mut stream, &format!("connection {number}"));
        }
    });
    let run = run(OriginOptions {
        backend: BackendLimits {
            idle_max: 0,
            ..BackendLimits::default()
        },
        ..OriginOptions::default()
    });
    for number in 0..2 {
        let answer = run.answer(asked("GET", &[at]));
        assert_eq!(answer, Ok((200, format!("connection {number}"))));
    }
}

/// The first connection dies with its second request; any other serves one.
fn dies_with_the_second() -> SocketAddr {
    origin(|number, mut stream| {
        head(&mut stream);
        say(&mut stream, &format!("connection {number}"));
        head(&mut stream);
    })
}

#[test]
fn a_kept_connection_that_dies_is_replaced_once() {
    for method in ["GET", "POST"] {
        let at = dies_with_the_second();
        let run = run(OriginOptions::default());
        let first = run.answer(asked(method, &[at]));
        assert_eq!(first, Ok((200, "connection 0".to_owned())), "{method}");
        let second = run.answer(asked(method, &[at]));
        assert_eq!(second, Ok((200, "connection 1".to_owned())), "{method}");
    }
    // A new one that dies is the answer.
    let at = origin(|number, mut stream| {
        head(&mut stream);
        if number == 0 {
            say(&mut stream, "once");
            head(&mut stream);
        }
    });
    let run = run(OriginOptions::default());
    assert_eq!(
        run.answer(asked("POST", &[at])),
        Ok((200, "once".to_owned()))
    );
    assert_eq!(
        run.answer(asked("POST", &[at])),
        Err(OriginFailureKind::Cut)
    );
}

/// Reads a head and a body in one chunk and the last one; false if it ends before.
fn chunked(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while !bytes.ends_with(b"0\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
    let at = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some(bytes.split_off(at + 4))
}

/// A body that comes behind the request is sent again from its beginning, and told once; one that
/// is longer than what is kept is not.
#[test]
fn what_follows_a_request_is_sent_again_if_it_is_short() {
    for (length, is_again) in [(60_000, true), (70_000, false)] {
        let at = origin(move |number, mut stream| {
            if number == 0 {
                head(&mut stream);
                say(&mut stream, "once");
                // It hangs up when it has the body, which it shows by its first bytes.
                let mut all = vec![0; length];
                let _ = stream.read_exact(&mut all);
                return;
            }
            if let Some(body) = chunked(&mut stream) {
                let count = body.iter().filter(|byte| **byte == 7).count();
                say(&mut stream, &count.to_string());
            }
        });
        let run = run(OriginOptions::default());
        assert_eq!(
            run.answer(asked("GET", &[at])),
            Ok((200, "once".to_owned()))
        );
        let mut request = asked("POST", &[at]);
        request.rest = RequestRest::Body(None);
        let mut ticket = run.submit(1, request);
        ticket.send(vec![7; length]);
        let (mut taken, mut body) = (0, Vec::new());
        let end = loop {
            match run.next().1 {
                OriginEvent::Taken(bytes) => {
                    taken += bytes;
                    ticket.finish();
                }
                OriginEvent::Head(_) => {}
                OriginEvent::Body(bytes) => body.extend(bytes),
                end => break end,
            }
        };
        if is_again {
            let told = (end, String::from_utf8(body).expect("text"), taken);
            assert_eq!(told, (OriginEvent::End, length.to_string(), length));
        } else {
            assert!(matches!(end, OriginEvent::Failed(_)), "{end:?}");
        }
    }
}

#[test]
fn the_next_origin_is_tried_if_one_is_not_there_and_only_then() {
    let good = origin(|_, mut stream| {
        head(&mut stream);
        say(&mut stream, "second");
    });
    let rude = origin(|_, mut stream| {
        head(&mut stream);
    });
    let run = run(OriginOptions::default());
    let to = |all: &[SocketAddr]| run.answer(asked("POST", all));
    assert_eq!(to(&[nowhere(), good]), Ok((200, "second".to_owned())));
    assert_eq!(
        to(&[nowhere(), nowhere()]),
        Err(OriginFailureKind::Unreachable)
    );
    // It may have done what it was asked.
    assert_eq!(to(&[rude, good]), Err(OriginFailureKind::Cut));
}

#[test]
fn requests_beyond_the_bound_are_refused() {
    let at = origin(|_, mut stream| {
        // Until the other side goes.
        while head(&mut stream) {}
    });
    let run = run(OriginOptions {
        requests_max: 1,
        ..OriginOptions::default()
    });
    let _first = run.submit(1, asked("GET", &[at]));
    let second = run.origin.client().submit(CONN, 2, asked("GET", &[at]));
    assert_eq!(
        second.err().map(|failure| failure.fault),
        Some(OriginFailureKind::Busy)
    );
}

#[test]
fn the_target_test_is_in_the_process() {
    let run = run(OriginOptions::default());
    let to = |path: &str, prefix: &str, first: Option<SocketAddr>| {
        let mut request = asked("POST", first.as_slice());
        let destination = Arc::get_mut(&mut request.to).expect("ours alone");
        destination.targets.push(Target::new(TargetAddress::Test));
        request.matched_bytes = prefix.len();
        request.path = path.to_owned();
        request.headers.push(Header::new("Host", "t"));
        request.body = vec![7; 1 << 20];
        run.answer(request)
    };
    let hello = "Hello from the test target of Throng!\n".to_owned();
    assert_eq!(to("/", "", None), Ok((200, hello.clone())));
    assert_eq!(to("/a/", "/a/", None), Ok((200, hello.clone())));
    assert_eq!(to("/?channel=x", "", Some(nowhere())), Ok((200, hello)));
    let opened = "[stream opened]\n".to_owned();
    assert_eq!(to("/a/stream", "/a", None), Ok((200, opened)));
    assert_eq!(to("/other", "", None).map(|(code, _)| code), Ok(404));
}

#[test]
fn upgrades_have_room_of_their_own() {
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
    ] {
        let _ticket = run.submit(1, free);
        let refused = run.origin.client().submit(CONN, 2, full);
        let fault = refused.err().map(|failure| failure.fault);
        assert_eq!(fault, Some(OriginFailureKind::Busy));
    }
}

#[test]
fn an_origin_that_takes_nothing_is_given_up() {
    // It may take as long as it likes to answer, but not to listen.
    gives_up(50, 0);
    gives_up(600_000, 50);
}

#[track_caller]
fn gives_up(stall_timeout_ms: u64, response_timeout_ms: u64) {
    let at = origin(|_, mut stream| {
        // It takes the head, and then nothing until the other side goes.
        head(&mut stream);
        let twin = stream.try_clone();
        thread::spawn(move || {
            thread::park();
            drop(twin);
        });
    });
    let run = run(OriginOptions {
        backend: BackendLimits {
            stall_timeout_ms,
            ..BackendLimits::default()
        },
        ..OriginOptions::default()
    });
    let mut request = asked("PUT", &[at]);
    request.rest = RequestRest::Body(None);
    Arc::get_mut(&mut request.to)
        .expect("ours alone")
        .response_timeout_ms = response_timeout_ms;
    let mut ticket = run.submit(1, request);
    // More than the kernel keeps for both.
    for _ in 0..1024 {
        ticket.send(vec![7; 64 << 10]);
    }
    loop {
        match run.next().1 {
            OriginEvent::Taken(_) => {}
            OriginEvent::Failed(failure) => {
                assert_eq!(
                    failure.fault,
                    OriginFailureKind::Timeout,
                    "{}",
                    failure.detail
                );
                break;
            }
            other => panic!("{other:?}"),
        }
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

#[test]
fn an_upgrade_passes_bytes_in_both_directions() {
    let at = origin(|_, mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\nhi");
        let mut piece = [0; 4];
        let _ = stream.read_exact(&mut piece);
        let _ = stream.write_all(&piece);
    });
    let run = run(OriginOptions::default());
    let mut request = asked("GET", &[at]);
    request.rest = RequestRest::Upgrade;
    let mut ticket = run.submit(1, request);
    assert!(matches!(run.next().1, OriginEvent::Head(head) if head.code == 101));
    assert_eq!(run.next().1, OriginEvent::Body(b"hi".to_vec()));
    ticket.send(b"echo".to_vec());
    let mut rest = vec![run.next().1, run.next().1];
    rest.sort_by_key(|event| matches!(event, OriginEvent::Body(_)));
    assert_eq!(
        rest,
        [OriginEvent::Taken(4), OriginEvent::Body(b"echo".to_vec())]
    );
    assert_eq!(run.next().1, OriginEvent::End);
    // A request that did not ask for one gets none.
    let answer = run.answer(asked("GET", &[at]));
    assert_eq!(answer, Err(OriginFailureKind::Garbage));
}
