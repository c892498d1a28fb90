//! Publishers that ask which connections are there, or have one ask its backend.

use throng_grip_tests::Peer;
use throng_testkit::until;

use crate::support::{Backend, get, open, reply, server, subscribed};

/// A tnetstring of bytes, or of a list or an object (type `]` or `}`) of such.
fn tnet(data: &str, kind: char) -> String {
    format!("{}:{data}{kind}", data.len())
}

fn text(data: &str) -> String {
    tnet(data, ',')
}

/// Asks the command socket for something about ids.
#[track_caller]
fn ask(command: &mut Peer, method: &str, args: &str) -> String {
    let fields = format!(
        "{}{}{}{}",
        text("method"),
        text(method),
        text("args"),
        tnet(args, '}')
    );
    command.send(&[Vec::new(), tnet(&fields, '}').into_bytes()]);
    String::from_utf8(command.message().expect("an answer")).expect("text")
}

fn ids(ids: &[&str]) -> String {
    let list: String = ids.iter().map(|id| text(id)).collect();
    format!("{}{}", text("ids"), tnet(&list, ']'))
}

#[test]
fn connections_of_all_shards_are_known_and_refreshed() {
    let backend = Backend::start(|asked, stream| match asked.header("connection-id") {
        Some(_) if asked.body.starts_with("OPEN") => {
            let headers = [
                ("Content-Type", "application/websocket-events"),
                ("Sec-WebSocket-Extensions", "grip"),
            ];
            let body = "OPEN\r\nTEXT 2A\r\nc:{\"type\": \"subscribe\", \"channel\": \"room\"}\r\n";
            reply(stream, &headers, body)
        }
        Some(_) => reply(
            stream,
            &[("Content-Type", "application/websocket-events")],
            "",
        ),
        None => reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "s")],
            "",
        ),
    });
    let server = server(&[backend.address], "over_http = true");
    // More than one on each of the two shards, and a stream with an unknown id.
    let mut wires: Vec<_> = (0..12)
        .map(|at| open(&server, &format!("/{at}.")))
        .collect();
    for wire in &mut wires {
        assert_eq!(wire.head().status, 101);
    }
    let stream = get(&server, "/stream");
    subscribed(&server, 13);
    let known: Vec<String> = (0..12)
        .map(|at| {
            let asked = backend.wait(&format!("/{at}."), 1);
            let id = asked[0].header("connection-id").expect("a connection id");
            id.to_owned()
        })
        .collect();
    let mut command = Peer::connect(server.grip("zmq_command"), "REQ");
    let mut asked: Vec<&str> = known.iter().map(String::as_str).collect();
    asked.insert(3, "nobody");
    let answer = ask(&mut command, "conncheck", &ids(&asked));
    for id in &known {
        assert!(answer.contains(&text(id)), "{id} in {answer}");
    }
    assert!(!answer.contains("nobody"), "{answer}");
    // Each is asked once, and no other.
    for at in [0, 5, 11] {
        let cid = format!("{}{}", text("cid"), text(&known[at]));
        let answer = ask(&mut command, "refresh", &cid);
        assert!(answer.contains("7:success,4:true!"), "{answer}");
        backend.wait(&format!("/{at}."), 2);
    }
    assert_eq!(backend.wait("/2.", 1).len(), 1);
    let channel = format!("{}{}", text("channel"), text("room"));
    let answer = ask(&mut command, "refresh", &channel);
    assert!(answer.contains("7:success,4:true!"), "{answer}");
    backend.wait("/1.", 2);
    backend.wait("/11.", 3);
    // One that has gone is known no more, whether or not it was there.
    drop(wires.remove(5));
    until("the connection to go", || {
        let answer = ask(&mut command, "conncheck", &ids(&[&known[5]]));
        (!answer.contains(&known[5])).then_some(())
    });
    let cid = format!("{}{}", text("cid"), text(&known[5]));
    let answer = ask(&mut command, "refresh", &cid);
    assert!(answer.contains("item-not-found"), "{answer}");
    drop(stream);
    server.stop();
}
