use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use throng_nats_protocol::{Op, Target};

use super::Link;
use crate::Door;

const INFO: &str = "INFO {\"headers\":true,\"server_id\":\"S\",\"max_payload\":99}\r\n";
/// No test waits for so long.
const FOREVER: Duration = Duration::from_secs(60);

/// The server's end of a connection.
struct Server {
    reads: BufReader<TcpStream>,
    writes: TcpStream,
}

impl Server {
    /// Says something; false if nobody hears it any more.
    fn say(&mut self, text: &str) -> bool {
        self.writes.write_all(text.as_bytes()).is_ok()
    }

    /// The next line that begins so.
    fn hear(&mut self, begin: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(begin) {
            line.clear();
            assert!(self.reads.read_line(&mut line).expect("a line") > 0);
        }
        line
    }

    /// Lets the client in.
    fn welcome(&mut self) {
        self.say(INFO);
        self.hear("PING");
        self.say("PONG\r\n");
    }
}

/// A client of a server that plays this, once it is in.
fn client(
    timeout: Duration,
    play: impl FnOnce(&mut Server) + Send + 'static,
) -> (Result<Link, String>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target {
        host: "127.0.0.1".to_owned(),
        port: listener.local_addr().expect("an address").port(),
        ..Target::default()
    };
    let server = thread::spawn(move || {
        let (writes, _) = listener.accept().expect("a client");
        let reads = BufReader::new(writes.try_clone().expect("a socket"));
        play(&mut Server { reads, writes });
    });
    let door = Door {
        target: &target,
        credentials: None,
        authorities: None,
        timeout,
        replies: "in.",
    };
    let made = door.connect(&[("in.*", 1), ("all", 2)]);
    (made.map(|(_, link)| link), server)
}

#[test]
fn a_client_is_in_when_the_server_believes_it() {
    let (link, server) = client(FOREVER, |server| {
        server.say(INFO);
        server.hear("CONNECT ");
        assert_eq!(server.hear("SUB"), "SUB in.* 1\r\n");
        assert_eq!(server.hear("SUB"), "SUB all 2\r\n");
        server.hear("PING");
        server.say("-ERR 'Authorization Violation'\r\n");
    });
    let why = link.err().expect("a refusal");
    assert_eq!(why, "NATS refuses: 'Authorization Violation'");
    server.join().expect("a server");
    for (first, expected) in [
        ("INFO {}\r\n", "NATS is older than 2.9, or has no headers"),
        (
            "INFO {\"headers\":true,\"tls_required\":true}\r\nPING\r\n",
            "NATS said something before TLS",
        ),
        (
            "-ERR 'maximum connections exceeded'\r\n",
            "NATS refuses: 'maximum connections exceeded'",
        ),
        ("", "NATS has closed the connection"),
    ] {
        let (link, _) = client(FOREVER, move |server| assert!(server.say(first)));
        assert_eq!(link.err().as_deref(), Some(expected));
    }
}

#[test]
fn a_question_is_asked_again_and_pings_are_answered() {
    let (link, server) = client(Duration::from_secs(1), |server| {
        server.welcome();
        let lost = server.hear("PUB");
        assert_eq!(lost, "PUB ask in.1 2\r\n");
        let again = server.hear("PUB");
        assert_eq!(again, "PUB ask in.2 2\r\n");
        server.say("PING\r\nMSG all 2 1\r\nx\r\nMSG in.0 1 3\r\nold\r\n");
        // One that comes late is an answer, too.
        server.hear("PONG");
        server.say("MSG in.1 1 3\r\nyes\r\n");
        server.hear("PING");
        server.say("MSG all 2 1\r\ny\r\nPONG\r\nMSG all 2 1\r\nz\r\n");
    });
    let mut link = link.expect("a connection");
    let mut others = Vec::new();
    let answer = link.ask("ask", "me", |it| others.push(it.payload.to_vec()));
    assert_eq!(answer.as_deref(), Ok(&b"yes"[..]));
    let pong = link.ping(FOREVER, |it| others.push(it.payload.to_vec()));
    assert_eq!(pong, Ok(true));
    assert_eq!(others, [&b"x"[..], b"old", b"y"]);
    let next = link.next(Instant::now() + FOREVER, |op| match op {
        Op::Message(it) => Some(it.payload.to_vec()),
        _ => None,
    });
    assert_eq!(next, Ok(Some(b"z".to_vec())));
    server.join().expect("a server");
}

/// A wait is over at its end, whatever comes meanwhile.
#[test]
fn a_busy_subject_does_not_put_off_the_end_of_a_wait() {
    let (link, server) = client(Duration::from_millis(400), |server| {
        server.welcome();
        while server.say("MSG all 2 1\r\nx\r\n") {}
    });
    let mut link = link.expect("a connection");
    let answer = link.ask("ask", "", |_| {});
    assert_eq!(answer, Err("JetStream does not answer ask".to_owned()));
    drop(link);
    server.join().expect("a server");
}
