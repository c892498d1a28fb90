//! A server hands over to a new process: held clients go on without a break, and a client that
//! waits for a backend gets its answer.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use throng_testkit::{Server, Wire, request};

use crate::support::{
    Backend, KEY, get, item, open, port, publish, python, reply, server, subscribed,
};

const STREAM: (&str, &str) = ("Grip-Hold", "stream");
/// Upgrades in a row.
const UPGRADES: usize = 3;

/// Publishes an item that names the one before.
#[track_caller]
fn publish_one(server: &Server, number: u32) {
    let (before, content) = (number - 1, format!("<{number}>"));
    let ids = format!("\"id\": \"{number}\", \"prev-id\": \"{before}\",");
    let answer = publish(server, &item("a", &content, &ids));
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Publishes numbered items until stopped; returns the last number.
fn publish_until(server: &Server, stop: &AtomicBool) -> u32 {
    let mut last = 1;
    while !stop.load(Ordering::Relaxed) {
        last += 1;
        publish_one(server, last);
    }
    last
}

/// The numbers in angle brackets.
fn numbers(text: &str) -> Vec<u32> {
    let pieces = text.split('<').skip(1);
    let pieces = pieces.filter_map(|piece| piece.split_once('>')?.0.parse().ok());
    pieces.collect()
}

#[test]
fn streams_go_on_over_upgrades() {
    // By the link there is nothing that was not published.
    let backend = Backend::start(|asked, stream| {
        let next = ("Grip-Link", "</next>; rel=next; timeout=120");
        let last = asked
            .header("grip-last")
            .and_then(|it| it.split_once('='))
            .map(|it| it.1);
        let from = format!("a; prev-id={}", last.unwrap_or("0"));
        match &*asked.line {
            line if line.contains("/reliable") || line.contains("/next") => {
                reply(stream, &[STREAM, ("Grip-Channel", &from), next], "")
            }
            line if line.contains("/filtered") => reply(
                stream,
                &[STREAM, ("Grip-Channel", "a; filter=skip-self")],
                "",
            ),
            _ => reply(stream, &[STREAM, ("Grip-Channel", "a")], ""),
        }
    });
    let server = server(&[backend.address], "");
    // It is unknown what the first one may have missed, so its link is fetched once.
    let first = get(&server, "/reliable");
    backend.wait("/next", 1);
    let paths = [
        vec!["/plain"; 8],
        vec!["/reliable"; 7],
        vec!["/filtered"; 8],
    ]
    .concat();
    let mut wires: Vec<Wire> = paths.iter().map(|path| get(&server, path)).collect();
    wires.push(first);
    wires.iter_mut().for_each(|wire| drop(wire.head()));
    subscribed(&server, 24);
    publish_one(&server, 1);
    // A client with this waits for nothing.
    wires.iter_mut().for_each(|wire| drop(wire.through("<1>")));
    let stop = AtomicBool::new(false);
    let last = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_until(&server, &stop));
        // If one fails, the publisher must end for the test to end.
        let upgraded = catch_unwind(AssertUnwindSafe(|| {
            (0..UPGRADES).for_each(|_| server.upgrade_well());
        }));
        stop.store(true, Ordering::Relaxed);
        upgraded.unwrap_or_else(|failed| resume_unwind(failed));
        publisher.join().expect("it was answered all the time")
    });
    assert!(last > 1, "nothing was published during the upgrades");
    let all: Vec<u32> = (2..=last).collect();
    for (at, wire) in wires.iter_mut().enumerate() {
        let got = numbers(&wire.through(&format!("<{last}>")));
        assert_eq!(got, all, "stream {at}");
    }
    // An id that was published before the upgrades is known after them.
    let text = |more: &str, text: &str| {
        format!(r#"{{"channel":"a",{more}"formats":{{"http-stream":{{{text}}}}}}}"#)
    };
    let items = [
        text(&format!(r#""id":"{last}","#), r#""content":"<0>""#),
        text("", r#""content":"<77777>""#),
        text("", r#""action":"close""#),
    ];
    let answer = publish(&server, &items.join(","));
    assert_eq!(answer.status, 200, "{answer:?}");
    for wire in &mut wires[..8] {
        assert_eq!(numbers(&wire.through("<77777>")), [77777]);
        wire.through("0\r\n\r\n");
        // Its connection takes the next request, of the new process.
        wire.send("GET /plain HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(wire.head().status, 200);
    }
}

#[test]
fn a_keep_alive_comes_after_an_upgrade() {
    let backend = Backend::start(|_, stream| {
        let fields = [
            STREAM,
            ("Grip-Channel", "a"),
            ("Grip-Keep-Alive", "beat; timeout=1"),
        ];
        reply(stream, &fields, "first")
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.through("first");
    subscribed(&server, 1);
    server.upgrade_well();
    wire.through("beat");
    wire.through("beat");
}

#[test]
fn long_polls_are_answered_after_an_upgrade() {
    let backend = Backend::start(|asked, stream| {
        let timeout = match asked.line.contains("/short") {
            true => ("Grip-Timeout", "15"),
            false => ("Grip-Timeout", "60"),
        };
        let fields = [
            ("Grip-Hold", "response"),
            ("Grip-Channel", "polls; filter=skip-self"),
            ("X-Own", "1"),
            timeout,
        ];
        reply(stream, &fields, "nothing")
    });
    let server = server(&[backend.address], "");
    let mut short = get(&server, "/short");
    let mut long = get(&server, "/long");
    subscribed(&server, 2);
    server.upgrade_well();
    let answer = short.response("GET");
    assert_eq!((answer.status, &*answer.body), (200, "nothing"));
    let news = r#"{"items":[{"channel":"polls","formats":{"http-response":{"body":"news"}}}]}"#;
    let answer = request(server.grip("http_publish"), "POST", "/publish", &[], news);
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = long.response("GET");
    assert_eq!((answer.status, &*answer.body), (200, "news"));
    assert_eq!(
        answer.header("x-own"),
        Some("1"),
        "the backend's own fields"
    );
    // Both connections take the next request.
    for wire in [&mut short, &mut long] {
        wire.send("GET /again HTTP/1.1\r\nHost: t\r\n\r\n");
    }
    backend.wait("/again", 2);
}

#[test]
fn a_websocket_over_http_goes_on_with_its_name_and_meta() {
    let backend = python("sockets.py", &[KEY]);
    let server = server(&[port(&backend)], "over_http = true");
    let mut wire = open(&server, "/socket");
    assert_eq!(wire.head().status, 101);
    subscribed(&server, 1);
    server.upgrade_well();
    publish(&server, &item("room", "to all", ""));
    wire.through("to all");
    wire.send_bytes(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
    wire.through("you said hi");
    // Its meta goes with each of its requests.
    backend.out("TEXT", |lines| {
        lines
            .iter()
            .any(|line| line == "TEXT jo True")
            .then_some(())
    });
    wire.send_bytes(&[0x88, 0x85, 0, 0, 0, 0, 3, 0xe8, b'b', b'y', b'e']);
    wire.through("bye");
    wire.until_closed();
}

/// A request in the middle of its answer stays with the old process until it is done.
#[test]
fn an_answer_under_way_comes_from_the_old_process() {
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let goes = std::sync::Mutex::new(goes);
    let backend = Backend::start(move |_, stream| {
        let heard = goes.lock().expect("no test panics in it").recv();
        heard.is_ok() && reply(stream, &[], "late")
    });
    let server = server(&[backend.address], "\n[drain]\ntimeout = \"60s\"");
    let mut wire = get(&server, "/late");
    backend.wait("/late", 1);
    server.upgrade_well();
    go.send(()).expect("a backend that waits");
    let answer = wire.response("GET");
    assert_eq!((answer.status, &*answer.body), (200, "late"));
}
